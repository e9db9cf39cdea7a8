"""Whether a training has the same bytes elsewhere, and why not."""

from __future__ import annotations

import platform

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent  # noqa: E402
from hdrl.compiled.ways import JIT_DISABLED  # noqa: E402
from hdrl.learn import portability  # noqa: E402

pytestmark = pytest.mark.skipif(
    JIT_DISABLED or platform.machine() not in ("x86_64", "AMD64"), reason="nothing is portable here"
)


def agent():
    return make_agent("ppo", gym.spaces.Box(0, 1, (3,)), gym.spaces.Discrete(2))


def test_what_hdrl_brings_is_portable() -> None:
    assert portability.why_not_portable(agent()) == []


def test_everything_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = agent()
    mine.modules["network"] = torch.nn.Linear(3, 2)
    assert portability.why_not_portable(mine) == ["network is Linear, which computes with torch itself"]
    own = type("Mine", (type(mine),), {"__module__": "mine"})
    mine.__class__ = own
    assert "the agent Mine computes with torch itself" in portability.why_not_portable(mine)
    monkeypatch.setattr(portability, "JIT_DISABLED", True)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    reasons = portability.why_not_portable(agent())
    assert reasons == ["there is no compiler (NUMBA_DISABLE_JIT)", "this is no x86-64 processor (aarch64)"]
