"""No signal is lost, whatever the process does when it comes."""

import ctypes
import signal
import time

import pytest

from hdrl.launcher.stopping import Terminated, heeding_signals


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_while_c_code_calls_python_is_not_lost(number: int, raised: type[BaseException]):
    """Python drops exceptions in such calls; loading compiled code makes many of them."""
    call = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))
    with pytest.raises(raised), heeding_signals():  # noqa: PT012 - which of the lines it interrupts does not matter
        call()
        time.sleep(10)
