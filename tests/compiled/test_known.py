"""A Numba that is not as the fast way needs it is told apart before anything is compiled with it."""

import pytest

from hdrl.base.errors import SimulationError
from hdrl.compiled.backends import IS_FAST

if not IS_FAST:
    pytest.skip("the fast way is not used", allow_module_level=True)

from hdrl.compiled.fast import known


def test_this_numba_is_known() -> None:
    known.check.cache_clear()
    known.check()


@pytest.mark.parametrize(
    ("name", "other"), [("n_of", known.lowest), ("moved_to", lambda state, batch, row: state)], ids=["bits", "rows"]
)
def test_another_one_is_refused(name: str, other: object, monkeypatch: pytest.MonkeyPatch) -> None:
    known.check.cache_clear()
    monkeypatch.setattr(known, name, other)
    with pytest.raises(SimulationError, match=r"is not as compiled code needs it, .*; set HDRL_PLAIN_NUMBA=1"):
        known.check()
    known.check.cache_clear()
