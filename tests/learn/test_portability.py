"""Whether a training has the same bytes elsewhere, and why not."""

from __future__ import annotations

import platform

import gymnasium as gym
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import ALGORITHMS, make_agent  # noqa: E402
from hdrl.compat.hdeeprm import adapter  # noqa: E402
from hdrl.compat.hdeeprm.bases import PolicyLearningAgent  # noqa: E402
from hdrl.compiled.backends import JIT_DISABLED  # noqa: E402
from hdrl.learn import portability  # noqa: E402
from hdrl.learn.networks import NETWORKS  # noqa: E402

pytestmark = pytest.mark.skipif(
    JIT_DISABLED or platform.machine() not in ("x86_64", "AMD64"), reason="nothing is portable here"
)

TABLE, CHOICE = gym.spaces.Box(0, 1, (12, 7)), gym.spaces.Discrete(12)
SHAPES = {"sequence": (9,), "dissertation": (125,)}


@pytest.fixture(autouse=True)
def _with_avx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portability, "processor_features", lambda: {"avx2": True, "fma": True})


def agent():
    return make_agent("ppo", gym.spaces.Box(0, 1, (3,)), gym.spaces.Discrete(2))


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_all_algorithms_are_portable(name: str) -> None:
    known = ALGORITHMS[name]
    actions = gym.spaces.Box(-1, 1, (4,)) if known.agent_class().takes_box else CHOICE
    seen = gym.spaces.Box(0, 1, (9,)) if name.startswith("advisor") else TABLE
    assert portability.nonportable_reasons(make_agent(name, seen, actions)) == []


@pytest.mark.parametrize("name", list(NETWORKS))
def test_all_networks_are_portable(name: str) -> None:
    from hdrl.learn.config import NetworkConfig

    shape = next((shape for start, shape in SHAPES.items() if name.startswith(start)), (12, 7))
    built = NETWORKS[name](NetworkConfig(network=name), shape, 12, torch.Generator(), has_critic=True)
    assert portability._is_declared_portable(built)


def test_what_users_bring_is_told() -> None:
    mine = agent()
    mine.modules["network"] = torch.nn.Linear(3, 2)
    mine.modules["critics"] = torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)])
    assert portability.nonportable_reasons(mine) == [
        "network, a Linear, does not declare is_portable",
        "critics, a Linear, does not declare is_portable",
    ]


def test_a_class_that_derives_from_a_portable_one_says_so_itself() -> None:
    mine, theirs = agent(), agent()
    mine.__class__ = type("Mine", (type(mine),), {})
    assert portability.nonportable_reasons(mine) == ["the agent Mine does not declare is_portable"]
    theirs.__class__ = type("Theirs", (type(theirs),), {"is_portable": True})
    assert portability.nonportable_reasons(theirs) == []
    kind = type(theirs.network)
    theirs.network.__class__ = type("Wider", (kind,), {})
    assert portability.nonportable_reasons(theirs) == ["network, a Wider, does not declare is_portable"]


def test_agents_of_hdeeprm_are_not_portable() -> None:
    made_of = type("Mine", (PolicyLearningAgent,), {"__init__": lambda self, *_: torch.nn.Module.__init__(self)})
    shell = object.__new__(adapter.HDeepRMAgent)
    shell.modules = {}
    shell._class = made_of
    assert portability.nonportable_reasons(shell) == ["the agent HDeepRMAgent does not declare is_portable"]


def test_what_the_machine_lacks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portability, "processor_features", lambda: {"avx2": False, "fma": False, "sse4.2": True})
    assert portability.nonportable_reasons(agent()) == [
        "this processor lacks avx2 and fma, so that the C library computes otherwise"
    ]
    monkeypatch.setattr(portability, "JIT_DISABLED", True)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert portability.nonportable_reasons(agent()) == [
        "there is no compiler (NUMBA_DISABLE_JIT)",
        "this is not an x86-64 processor (aarch64)",
    ]


def test_a_device_is_told() -> None:
    mine = agent()
    mine.device = torch.device("cuda:0")
    assert portability.nonportable_reasons(mine) == ["it learns on cuda:0"]
