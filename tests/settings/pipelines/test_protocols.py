"""rlschedsim's agents and policies in the same world, whichever it is."""

import pytest

from hdrl.experiments.pipelines import OPPONENTS, adas_worlds
from hdrl.settings.pipelines.simulation.policies import simulate

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
    agent, opponent = right["agent on period1", "miss_ratio"], right["edf_global on period1", "miss_ratio"]
    assert agent.trainings == (pytest.approx(opponent.value), 0.0)
    assert agent.value == pytest.approx(opponent.value / 2)
    assert opponent.low < opponent.value < opponent.high
    assert opponent.trainings == ()
    # Configurations are met by one or by both: 35 and 81 of 81.
    met = right["agent on period1", "configurations met"]
    assert right["edf_global on period1", "configurations met"].value == 35
    assert (met.value, met.trainings) == (58, (35, 81))
    wrong = adas_worlds(trace, [Playing("static", **with_errors)])
    assert wrong["edf_global on period1", "miss_ratio"].value > 1.1 * opponent.value
    assert {row.removesuffix(" on period1") for row, _ in wrong} >= set(OPPONENTS)
