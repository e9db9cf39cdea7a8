"""A product and a sum as one operation, rounded once: ``fma(a, b, c)`` is ``a * b + c`` of float32 numbers.

Where compiled, it gives the same bits on every processor: those without such an instruction ask the C library for it,
which takes some hundred times as long. In plain Python the last bit may differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdrl.compiled.backends import JIT_DISABLED
from hdrl.compiled.jit import Later


def _plain(a: Any, b: Any, c: Any) -> Any:
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


def _intrinsic() -> Any:
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
        """Multiply and add."""
        del typing_context, a, b, c

        def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del context, signature
            return builder.fma(*arguments)

        return types.float32(types.float32, types.float32, types.float32), lower

    return fma


fma = _plain if JIT_DISABLED else Later(_intrinsic)
