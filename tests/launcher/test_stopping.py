"""No signal is lost, whatever the process does when it comes."""

import ctypes
import signal
import time
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer

from hdrl.launcher.stopping import Terminated, handle_signals


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_while_c_code_calls_python_is_not_lost(number: int, raised: type[BaseException]):
    """Python drops exceptions in such calls; loading compiled code makes many of them."""
    call = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))
    with pytest.raises(raised), handle_signals():  # noqa: PT012 - which of the lines it interrupts does not matter
        call()
        time.sleep(10)


class Looked(type):
    """A type like an enumeration, which Python code asks for attributes that it lacks."""

    def __getattr__(cls, name: str) -> Any:
        if to_come:
            signal.raise_signal(to_come.pop())
        raise AttributeError(name)


to_come: list[int] = []


class Member(int, metaclass=Looked):
    pass


def test_a_signal_while_numpy_looks_for_attributes_is_not_lost():
    """NumPy drops exceptions in such looks, and nothing reports them."""
    to_come.append(signal.SIGTERM)
    with pytest.raises(Terminated), handle_signals():  # noqa: PT012 - as above
        assert (np.arange(3) == Member(1)).sum() == 1
        time.sleep(10)
    assert not to_come


class Inner(BaseModel):
    number: int

    @model_serializer
    def _stops(self) -> dict[str, int]:
        signal.raise_signal(self.number)
        return {}


class Outer(BaseModel):
    inner: Inner

    @model_serializer(mode="wrap")
    def _as_it_is(self, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(self)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_while_options_are_written_stays_a_signal(number: int, raised: type[BaseException]):
    """Pydantic raises an error of its own in its place."""
    options = Outer(inner=Inner(number=number))
    with pytest.raises(raised), handle_signals():
        options.model_dump()
