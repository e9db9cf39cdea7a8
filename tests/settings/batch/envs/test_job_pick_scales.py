"""What is seen of a job is the same in a training and wherever the model decides, whatever comes later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import OptionsError
from hdrl.experiment.run.inputs import parse_options
from hdrl.experiment.train.environments import environment_from, environment_of
from hdrl.setting import SETTINGS
from hdrl.settings.batch.environments import JobPickSpec
from hdrl.settings.batch.envs.job_pick import JobPickEnv
from hdrl.settings.batch.envs.job_pick_options import FEATURES
from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer
from hdrl.settings.batch.envs.machines import pool_inputs
from hdrl.settings.batch.workload import Workload

from .test_job_pick_player import jobs_without_coincidences, play

ALL_SEEN = {"features": list(FEATURES), "predictor": "user_mean"}
SEEN = {"features": ["log_requested_time", "index", "backlog", "earliest_start"], "predictor": "last2"}


def world() -> tuple[Any, Workload]:
    """Return a machine and jobs of which all columns tell something; the longest request and name come last."""
    platform, workload = jobs_without_coincidences(60)
    jobs, rng = workload.jobs.copy(), np.random.default_rng(3)
    for name in ("user", "group", "executable"):
        jobs[name] = rng.integers(0, 30, len(jobs))
    last = int(jobs["submit_s"].argmax())
    jobs["submit_s"][last] += 1e6
    return platform, replace(workload, jobs=jobs)


def with_an_extreme_job(workload: Workload) -> Workload:
    """Return the same jobs, but the last one asks for a hundred days, and has a user and a group like no other."""
    jobs = workload.jobs.copy()
    last = int(jobs["submit_s"].argmax())
    for name, value in (("requested_time_s", 8.64e6), ("user", 4000), ("group", 4000), ("executable", 4000)):
        jobs[name][last] = value
    return replace(workload, jobs=jobs)


MAKERS: dict[str, Callable[..., Any]] = {
    "pool": lambda platform, workload, **options: JobPickEnv(
        platform=platform, workload=workload, n_jobs="all", **options
    ),
    "kernel": lambda platform, workload, **options: JobPickPlayer(platform=platform, workload=workload, **options),
}


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("scales", [None, "largest"])
def test_a_later_job_changes_nothing_that_is_seen_before(made: str, scales: str | None) -> None:
    platform, workload = world()
    options = SEEN if scales is None else {**SEEN, "scales": scales}
    _, seen, actions = play(MAKERS[made](platform, workload, **options))
    _, seen_too, actions_too = play(MAKERS[made](platform, with_an_extreme_job(workload), **options))
    assert actions == actions_too
    alike = [np.array_equal(one, other) for one, other in zip(seen[:-1], seen_too[:-1], strict=True)]
    assert all(alike) == (scales is None)
    assert not np.array_equal(seen[-1], seen_too[-1]), "the last decision is about the extreme job itself"


@pytest.mark.parametrize("scales", [None, "fixed", "largest"])
def test_a_job_looks_the_same_in_a_training_and_in_a_window(scales: str | None) -> None:
    platform, workload = world()
    options = {"features": ["log_requested_time", "earliest_start"], "scales": scales}
    training = JobPickEnv(platform=platform, workload=with_an_extreme_job(workload), n_jobs=20, **options)
    learned, _ = training.reset(seed=0, options={"start": 25})
    judged, _ = JobPickPlayer(platform=platform, workload=workload.window(25, 20), **options).reset(seed=0)
    assert np.allclose(learned, judged, atol=1e-6) == (scales != "largest")


def test_model_files_say_how_columns_are_scaled() -> None:
    for arguments, expected in (
        ({}, "fixed"),
        ({"scales": "largest"}, "largest"),
        ({"compatibility": "rlscheduler"}, None),
        ({"compatibility": "dissertation"}, None),
    ):
        learning = {"environment": "job_pick", "arguments": arguments}
        data = {"platform_file_path": "gaia", "workload_file_path": "lublin_gaia_1000", "learning": learning}
        made = environment_of(parse_options(data), SETTINGS["batch"]).as_json()["arguments"]
        assert made.get("scales") == expected
        assert environment_from(JobPickSpec(), made).arguments == made


def test_models_of_older_versions_see_what_they_saw() -> None:
    older = environment_from(JobPickSpec(), {"order": "sjf"})
    assert older.arguments == {"order": "sjf", "scales": "largest"}
    platform, workload = world()
    first, _ = older.player(platform, workload).reset(seed=0)
    columns = pool_inputs(workload, platform, None).columns
    shares = [columns.requested_time_s[0] / columns.run_s.max(), columns.user[0] / columns.user.max()]
    assert first[0, [1, 4]].tolist() == pytest.approx(shares)
    assert older.player(platform, workload).options.settings(32, columns.requested_time_s)[0][
        "log_requested_scale"
    ] == pytest.approx(1 / np.log1p(columns.requested_time_s.max()))
    assert "scales" in dict(JobPickSpec().cautions(older.arguments))
    assert "scales" not in dict(JobPickSpec().cautions({**older.arguments, "scaled_columns": False}))
    assert "scales" not in dict(JobPickSpec().cautions({"scales": "fixed"}))


@pytest.mark.parametrize("scales", ["fixed", "largest"])
def test_jobs_without_requested_times_are_seen_within_bounds(scales: str) -> None:
    platform, workload = jobs_without_coincidences(20)
    jobs = workload.jobs.copy()
    jobs["requested_time_s"][::2] = -1.0
    env = JobPickEnv(platform=platform, workload=replace(workload, jobs=jobs), n_jobs="all", scales=scales, **ALL_SEEN)
    observation, info = env.reset(seed=0)
    has_ended = False
    while not has_ended:
        assert env.observation_space.contains(observation)
        observation, _, has_ended, _, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))


def test_unknown_scales_are_refused() -> None:
    with pytest.raises(OptionsError, match="scales is 'largst'; did you mean 'largest'"):
        JobPickEnv(n_procs=16, scales="largst")
