"""Rows that live with several workers are those of one batch, also after a death or from a saved state."""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import make_agent  # noqa: E402
from hdrl.base.errors import HdrlError, LearningError  # noqa: E402
from hdrl.distributed.training import row_trainer  # noqa: E402
from hdrl.distributed.training.shared_rows import SharedRows  # noqa: E402
from hdrl.learn import Trainer  # noqa: E402
from hdrl.options.distributed import DistributedOptions  # noqa: E402
from hdrl.settings.batch.envs.job_index import JobIndexVectorEnv  # noqa: E402
from hdrl.settings.batch.workload.lublin import lublin_workload  # noqa: E402
from hdrl.testing import Node, Processor, small_platform  # noqa: E402

_spec = importlib.util.spec_from_file_location("rowworkers", Path(__file__).with_name("rowworkers.py"))
assert _spec is not None
assert _spec.loader is not None
rowworkers = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rowworkers)

PLATFORM = small_platform(Node((Processor(16),), memory_gb=1000.0))
LOAD = lublin_workload(PLATFORM, 40, seed=1, load=1.2)
ARGUMENTS: dict[str, Any] = {"n_jobs": 20, "n_windows": 2, "reference": "fcfs+easy", "predictor": "requested"}


def job_index(num_envs: int) -> JobIndexVectorEnv:
    return JobIndexVectorEnv(num_envs, workload=LOAD, platform=PLATFORM, **ARGUMENTS)


def played(envs: Any, seed: int | None = 3, n_steps: int = 4, first: int = 0) -> list[Any]:
    told: list[Any] = [] if seed is None else [envs.reset(seed=seed)]
    for number in range(first, first + n_steps):
        actions = np.random.default_rng(number).normal(0, 0.5, envs.action_space.shape)
        told.append(envs.step(actions))
    return told


def check_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            check_same(found[name], value)
    elif isinstance(expected, (list, tuple)):
        for one, other in zip(found, expected, strict=True):
            check_same(one, other)
    else:
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("make", [rowworkers.OwnSeeds, job_index])
def test_rows_of_workers_are_those_of_one_batch(make: Any) -> None:
    shared = SharedRows(make(2), make, 3, "local")
    check_same(played(shared), played(make(6)))
    shared.close()


def test_a_saved_state_and_a_death_change_nothing(tmp_path: Path) -> None:
    expected = played(rowworkers.OwnSeeds(4), n_steps=6)
    make = functools.partial(rowworkers.DiesOnce, file=tmp_path / "died")
    first = SharedRows(make(2), make, 2, "local")
    check_same(played(first), expected[:5])
    assert (tmp_path / "died").exists()
    second = SharedRows(make(2), make, 2, "local")
    second.load_state_dict(first.state_dict())
    check_same(played(second, None, 2, 4), expected[5:])


class NeverThere:
    def exists(self) -> bool:
        return False

    def touch(self) -> None: ...


def test_who_dies_always_is_given_up() -> None:
    make = functools.partial(rowworkers.DiesOnce, file=NeverThere())
    envs = SharedRows(make(2), make, 2, "local")
    with pytest.raises(LearningError, match=r"workers died 3 times \(gone\)"):
        played(envs)


def evolving(options: dict[str, Any] | None) -> Trainer:
    envs = rowworkers.OwnSeeds(4)
    agent = make_agent("openai_es", envs.single_observation_space, envs.single_action_space, seed=1)
    if options is None:
        return Trainer(agent, envs, seed=5)
    given = DistributedOptions.model_validate(options)
    return row_trainer(agent, rowworkers.OwnSeeds, 4, given, seed=5, on="local", where="o.json")


def test_a_training_by_several_workers_leaves_what_one_leaves() -> None:
    weights = []
    for options in (None, {"scheme": "sync"}, {"scheme": "sync", "workers": 4}):
        trainer = evolving(options)
        trainer.run(3)
        weights.append(trainer.agent.state_dict()["weights"])
    assert weights[0].any()
    assert weights[0].tolist() == weights[1].tolist() == weights[2].tolist()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scheme": "async"}, "scheme is 'async', but OpenAIES has no gradients, expected 'sync'"),
        ({"scheme": "sync", "servers": 2}, "servers means nothing to OpenAIES"),
        ({"scheme": "sync", "delays": {"compute_s": 2}}, "delays means nothing to OpenAIES"),
        ({"scheme": "sync", "workers": 3}, "n_envs is 4, expected a multiple of learning.distributed.workers, 3"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(HdrlError, match=r"o\.json: learning\.") as caught:
        evolving(options)
    assert told in str(caught.value)
