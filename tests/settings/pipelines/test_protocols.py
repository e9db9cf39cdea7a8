"""rlschedsim's agents and policies in the same world, whichever it is."""

import pytest

from hdrl.settings.pipelines.policies import simulate
from hdrl.settings.pipelines.protocols import OPPONENTS, adas_worlds

from .worlds import ADAS


class Playing:
    """A model that decides like a policy, in the world of the policies."""

    def __init__(self, policy: str, **arguments: object) -> None:
        self.policy = policy
        self.environment = {"id": "hdrl/Pipelines-v0", "arguments": arguments}

    def play(self, machine, load, *, as_trained: bool = False):
        assert as_trained
        return simulate(machine, load, self.policy, seed=0)


@pytest.mark.skipif(not ADAS.is_dir(), reason="needs rlschedsim's sets")
def test_agents_and_policies_are_simulated_in_one_world() -> None:
    trace = {"period1.stats": ADAS / "period1.stats"}
    with_errors = {"compatibility": "rlschedsim"}
    right = adas_worlds(trace, [Playing(one, errors=[], **with_errors) for one in ("edf_global", "static")])
    agent, opponent = "agent on period1", "edf_global on period1"
    assert right["agent 0 on period1", "miss_ratio"] == pytest.approx(right[opponent, "miss_ratio"])
    assert right["agent 1 on period1", "miss_ratio"] == 0.0
    assert right[agent, "miss_ratio"] == pytest.approx(right[opponent, "miss_ratio"] / 2)
    # Configurations are met by one or by both: 35 and 81 of 81.
    assert right[opponent, "configurations met"] == 35
    assert (right[agent, "configurations met"], right[agent, "configurations missed"]) == (58, 23)
    assert right[opponent, "miss_ratio_low"] < right[opponent, "miss_ratio"] < right[opponent, "miss_ratio_high"]
    own = [value for (row, column), value in right.items() if row.startswith("agent on period1 ")]
    assert len(own) == 81
    assert sum(own) / 81 == pytest.approx(right[agent, "miss_ratio"])
    wrong = adas_worlds(trace, [Playing("static", **with_errors)])
    assert wrong[opponent, "miss_ratio"] > 1.1 * right[opponent, "miss_ratio"]
    assert {row.removesuffix(" on period1") for row, _ in wrong} >= set(OPPONENTS)
