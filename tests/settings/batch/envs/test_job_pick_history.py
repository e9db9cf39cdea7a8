"""Run times predicted in JobPick: as the kernel predicts them, from what has ended and nothing else; several logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hdrl
from hdrl.base.errors import HdrlError
from hdrl.compiled.borrowed import Borrowed
from hdrl.envs.episodes import Window
from hdrl.settings.batch.envs.job_pick import JobPickEnv, JobPickVectorEnv
from hdrl.settings.batch.kernel import entries
from hdrl.settings.batch.kernel.state import new_state
from hdrl.settings.batch.policies.pairs import read_pair
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf

N_PROCS = 16
PLAIN = 8
"""Columns that are RLScheduler's."""


def log(seed: int, n_jobs: int = 150, *, longer: Any = (), by_s: float = 500.0) -> SwfLog:
    """Return a log of users who repeat themselves, in which no two things happen on one date."""
    draw = np.random.default_rng(seed)
    rows = np.full(n_jobs, -1.0, dtype=SWF_DTYPE)
    rows["job_number"] = np.arange(1, n_jobs + 1)
    rows["submit_s"] = np.cumsum(draw.integers(0, 20, n_jobs)) + np.round(draw.uniform(0.0, 0.9, n_jobs), 4)
    rows["wait_s"] = 5.0
    user = draw.integers(0, 4, n_jobs)
    rows["user"] = user
    rows["requested_s"] = np.array((30.0, 100.0, 1000.0))[(user + draw.integers(0, 2, n_jobs)) % 3]
    rows["run_s"] = np.ceil(rows["requested_s"] * draw.choice((0.05, 0.3, 0.8), n_jobs)) + np.arange(n_jobs) / 1024
    rows["requested_processors"] = draw.integers(1, 13, n_jobs)
    rows["status"] = 1
    rows["run_s"][list(longer)] += by_s
    return SwfLog("log", rows)


def world(made: SwfLog, start: int = 50, n_jobs: int = 100) -> tuple[Any, Any]:
    platform = hdrl.read_platform(f"homogeneous:{N_PROCS}")
    return platform, workload_from_swf(made, platform, bandwidth="none", memory="none").window(start, n_jobs)


def first_come(env: JobPickEnv) -> list[tuple[float, np.ndarray]]:
    """Return the date of every decision and what was seen there, if always the first job is picked."""
    observation, info = env.reset(seed=0)
    seen, terminated = [], False
    while not terminated:
        seen.append((float(env.batch._pool.scalars["message_s"][0, 0]), observation))
        observation, _, terminated, _, info = env.step(int(info["action_mask"].argmax()))
    return seen


@pytest.mark.parametrize("predictor", ["requested", "last2", "user_mean", "geo", "harm", "learned"])
def test_predictions_are_the_kernels(predictor: str) -> None:
    platform, window = world(log(1))
    policy = read_pair(f"fcfs+easy@{predictor}")
    twister = np.zeros(625, dtype=np.uint32)
    kernel = new_state(platform, window, twister=twister, energy=False, logging=False, rule=policy.rule)
    borrowed = Borrowed(kernel)
    entries.begin(borrowed)
    entries.run_pair(borrowed, policy.job_key, policy.core_key, 1 << 40, policy.backfilling)
    env = JobPickEnv(platform=platform, workload=window, n_jobs="all", features=["index"], predictor=predictor)
    first_come(env)
    pool = env.batch._pool
    assert np.allclose(pool.start_s[0], kernel.jobs["start_s"], atol=1e-3)
    for name in ("length_s", "harmonic_s", "log_length", "log_harmonic", "log_last_two", "log_request", "log_share"):
        assert np.allclose(pool.predictions[name][0], kernel.predictions[name], rtol=1e-6), name
    lengths_s = pool.predictions["length_s"][0]
    assert (predictor == "requested") == np.array_equal(lengths_s, window.jobs["requested_time_s"])


def test_features_are_those_of_the_index() -> None:
    """The kernel writes the features of the last job that it weighed; here the only one that waits."""
    platform, window = world(log(1), n_jobs=1)
    env = JobPickEnv(platform=platform, workload=window, n_jobs="all", features=["backlog", "index"])
    shown = env.reset(seed=0)[0][0, PLAIN:]
    policy = read_pair("es-generalist")
    twister = np.zeros(625, dtype=np.uint32)
    kernel = new_state(platform, window, twister=twister, energy=False, logging=False, rule=policy.rule)
    borrowed = Borrowed(kernel)
    entries.begin(borrowed)
    entries.run_pair(borrowed, policy.job_key, policy.core_key, 1 << 40, policy.backfilling)
    lowest = np.array([-4, -4, -3.5, -1.5, -3, 0, -2, 0, 0, -1, 0, 0, 0])
    highest = np.array([2.5, 1.5, 3, 3.5, 3, 10, 3, 10, 1, 2, 6, 6, 1])
    expected = np.clip((kernel.features - lowest) / (highest - lowest), 0, 1 - 1e-5)
    assert np.allclose(shown[1:], expected, atol=1e-5)
    work_s = kernel.predictions["length_s"][0] * window.jobs["cores"][0]
    assert shown[0] == pytest.approx(((np.log1p(work_s / N_PROCS) - 8) / 2 + 4) / 7, abs=1e-5)


def test_nothing_is_seen_of_jobs_that_have_not_ended() -> None:
    made = log(3)
    ends_s = made.rows["submit_s"] + made.rows["wait_s"] + made.rows["run_s"]
    known_s = float(made.rows["submit_s"][50])
    arguments = {"n_jobs": "all", "features": ["index", "backlog"], "scaled_columns": False}

    def seen(longer: Any, by_s: float = 500.0) -> list[tuple[float, np.ndarray]]:
        platform, window = world(log(3, longer=longer, by_s=by_s))
        return first_come(JobPickEnv(platform=platform, workload=window, **arguments))

    plain = seen(())
    # What runs when the window begins is not known to end, whenever it does.
    running = [job for job in range(50) if ends_s[job] >= known_s]
    assert running
    assert all(np.array_equal(one[1], other[1]) for one, other in zip(plain, seen(running), strict=True))
    # What has ended by then is.
    ended = [job for job in range(50) if ends_s[job] + 20.0 < known_s]
    assert ended
    assert not np.array_equal(plain[0][1], seen(ended, by_s=20.0)[0][1])
    # Of a job within the window nothing is seen before it would have ended.
    platform, window = world(made)
    for job in (10, 40, 70):
        env = JobPickEnv(platform=platform, workload=window, **arguments)
        first_come(env)
        end_s = float(env.trace().records["start_s"][job] + made.rows["run_s"][50 + job])
        changed = seen([50 + job])
        before = [i for i, (date_s, _) in enumerate(plain) if date_s < end_s]
        assert before
        assert all(np.array_equal(plain[i][1], changed[i][1]) for i in before)


def write_swf(path: Path, made: SwfLog, n_procs: int) -> str:
    lines = [f"; MaxProcs: {n_procs}"]
    for row in made.rows:
        values = [
            *(row["job_number"], row["submit_s"], row["wait_s"], row["run_s"], row["requested_processors"], -1, -1),
            *(row["requested_processors"], row["requested_s"], -1, 1, row["user"], -1, -1, -1, -1, -1, -1),
        ]
        lines.append(" ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in map(float, values)))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_windows_come_from_several_logs_each_on_its_machine(tmp_path: Path) -> None:
    files = [write_swf(tmp_path / f"{n}.swf", log(n, n_jobs=100 + n), n) for n in (16, 40)]
    arguments: dict[str, Any] = {"n_jobs": 20, "features": ["index"], "scaled_columns": False, "part": (0.0, 0.6)}
    both = JobPickVectorEnv.of(16, workload=files[0], more_logs=files[1:], **arguments)
    observations, info = both.reset(seed=0)
    alone = {}
    for number, file in enumerate(files):
        alone[number] = JobPickVectorEnv.of(1, workload=file, **(arguments | {"part": "all"}))
    windows = [both.window(row) for row in range(16)]
    assert {window.workload for window in windows} == {0, 1}
    assert all(window.start + 20 <= 0.6 * (116, 140)[window.workload] for window in windows)
    for row, window in enumerate(windows):
        shown, _ = alone[window.workload].reset(options={"start": window.start})
        assert np.array_equal(shown[0], observations[row])
    assert both._pool.scalars["n_procs"][:, 0].tolist() == [(16, 40)[window.workload] for window in windows]
    values = both.run_priorities("sjf", windows)["sjf"]["objective"]
    for value, window in zip(values, windows, strict=True):
        single = alone[window.workload].run_priorities("sjf", [Window(0, window.start, 20)])["sjf"]["objective"]
        assert value == single[0]
    saved = both.state_dict()
    actions = info["action_mask"].argmax(axis=1)
    after = both.step(actions)[0]
    other = JobPickVectorEnv.of(16, workload=files[0], more_logs=files[1:], **arguments)
    other.load_state_dict(saved)
    assert np.array_equal(other.step(actions)[0], after)


def test_nothing_more_is_saved_without_predictions() -> None:
    saved = JobPickVectorEnv.of(1, n_procs=16, n_jobs=8).state_dict()
    assert not [name for name in saved if name.split(".")[-1] in ("sums", "groups", "predictions", "n_procs")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"predictor": "goe"}, "no predictor 'goe'; did you mean 'geo'"),
        ({"predictor": "clairvoyant"}, "predictor is 'clairvoyant', expected one that learns from ended jobs"),
        ({"predictor": "geo_name"}, "predictor is 'geo_name'; names of jobs are not known here, expected 'geo'"),
        ({"features": ["indx"]}, "features is 'indx'; did you mean 'index'"),
        ({"more_logs": ["nowhere.swf"]}, "nowhere.swf"),
    ],
)
def test_mistakes_are_one_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(HdrlError, match=told) as caught:
        JobPickVectorEnv.of(1, n_procs=16, n_jobs=8, **arguments)
    assert "\n" not in str(caught.value)
