"""Agents of PolicyPair in the exact engine: they see, may do and cause the same as in the kernel, bit by bit."""

from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import DecisionError, OptionsError, SimulationError
from hdrl.experiment.plan import plan_of
from hdrl.experiment.run.inputs import parse_options
from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv
from hdrl.settings.batch.envs.policy_pair_outside import PolicyPairOutside

SWITCHING = ["fcfs+easy~off600", "fcfs+easy~on0.5", "sjf+easy~off60", "fcfs+easy~on1"]


def world(name: str, n_jobs: int, *, sleeps: bool = False) -> dict[str, Any]:
    """Return a machine and some jobs, as arguments."""
    options = {
        "platform_file_path": name,
        "workload_file_path": "lublin_gaia_1000",
        "nb_jobs": n_jobs,
        "workload": {"oversized": "drop"},
        "node_power": {"boot_s": 120} if sleeps else None,
    }
    plan = plan_of(parse_options(options))
    return {"platform": plan.machine, "workload": plan.load}


@pytest.mark.parametrize(
    ("name", "n_jobs", "chosen"),
    [
        ("gaia", 60, {}),  # all pairs, random ones among them, and void
        ("das2", 40, {"actions": SWITCHING}),
    ],
)
def test_the_exact_engine_shows_and_does_the_same(name: str, n_jobs: int, chosen: dict[str, Any]) -> None:
    inputs = world(name, n_jobs, sleeps=bool(chosen))
    inside = PolicyPairEnv(**inputs, **chosen)
    outside = PolicyPairOutside(**inputs, simulator={"simulator": "exact"}, **chosen)
    assert outside.observation_space == inside.observation_space
    draw = np.random.default_rng(1)
    (seen, info), (seen_outside, info_outside) = inside.reset(seed=3), outside.reset(seed=3)
    has_ended, n = False, 0
    while not has_ended:
        np.testing.assert_array_equal(seen_outside, seen)
        np.testing.assert_array_equal(info_outside["action_mask"], info["action_mask"])
        action = int(draw.choice(np.flatnonzero(info["action_mask"])))
        if draw.random() < 0.3:
            action = int(np.flatnonzero(info["action_mask"])[-1])  # void, if it is legal
        seen, _, has_ended, _, info = inside.step(action)
        seen_outside, _, ended_outside, _, info_outside = outside.step(action)
        assert ended_outside == has_ended
        n += 1
    assert n > inputs["workload"].n_jobs
    # All actions are kept, so that the trace of the kernel is whole: here, there are more of them than 2 for each job.
    records, expected = outside.trace().records, inside.trace().records
    np.testing.assert_allclose(records["start_s"], expected["start_s"], atol=1e-8, rtol=0)
    np.testing.assert_array_equal(records["state"], expected["state"])
    assert outside.trace().info["simulator"] == "exact"
    outside.close()


def test_it_can_be_left_and_begun_anew() -> None:
    env = PolicyPairOutside(**world("gaia", 5), simulator={"simulator": "exact"}, actions=["sjf"])
    first, _ = env.reset(seed=0)
    env.step(0)
    with pytest.raises(SimulationError, match="no episode has ended"):
        env.trace()
    np.testing.assert_array_equal(env.reset(seed=0)[0], first)
    with pytest.raises(DecisionError, match="action 7 is not legal"):
        env.step(7)
    env.close()
    env.close()


def test_compatibility_is_refused() -> None:
    with pytest.raises(OptionsError, match="only the embedded simulator"):
        PolicyPairOutside(**world("gaia", 5), simulator={"simulator": "exact"}, compatibility="hdeeprm-0.3.1")
