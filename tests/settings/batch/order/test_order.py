"""The simulator of identical processors: hand-solved schedules, properties, and RLScheduler's table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.counts import Counts, new_counts
from hdrl.compiled.team import new_team
from hdrl.settings.batch.identical_cores import codes as order_codes
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.entries import warm_up
from hdrl.settings.batch.identical_cores.state import (
    JOB_DTYPE,
    SETTINGS_DTYPE,
    OrderState,
    new_order_state,
    set_episode,
)
from hdrl.settings.batch.kernel import codes

KEYS = {
    "fcfs": codes.JOB_FIRST,
    "sjf": codes.JOB_SHORTEST,
    "largest": codes.JOB_LARGEST,
    "saf": codes.JOB_SAF,
    "wfp3": codes.JOB_WFP3,
    "f4": codes.JOB_F4,
}


def table(rows: list[tuple[float, int, float, float]]) -> np.ndarray:
    """Return a table of jobs: submission, processors, run time, requested time."""
    jobs = np.zeros(len(rows), dtype=JOB_DTYPE)
    for name, column in zip(
        ("submit_s", "n_requested", "run_s", "requested_time_s"), zip(*rows, strict=True), strict=True
    ):
        jobs[name] = column
    jobs["rank"] = np.arange(len(rows))
    return jobs


def pool_of(jobs: np.ndarray, n_procs: int, *, n_envs: int = 1, **choices: int) -> OrderState:
    settings = np.zeros(1, dtype=SETTINGS_DTYPE)
    defaults = {"n_procs": n_procs, "order_key": codes.JOB_FIRST, "max_jobs": 8, "n_features": 8, "has_expectations": 1}
    for name, value in (defaults | choices).items():
        settings[name] = value
    templates = np.zeros((len(jobs), 8), dtype=np.float32)
    pool = new_order_state(
        n_envs, len(jobs), jobs=jobs, templates=templates, settings=settings, columns=np.zeros(0, dtype=np.int64)
    )
    for row in range(n_envs):
        set_episode(pool, row, 0, len(jobs))
    return pool


def starts(jobs: np.ndarray, n_procs: int, key: int, **choices: int) -> list[float]:
    pool = pool_of(jobs, n_procs, **choices)
    entries.run_keys(Borrowed(pool), [key])
    return pool.start_s[0].tolist()


EASY = {"commitment": order_codes.REPICK, "backfilling": codes.EASY_FCFS}

# On 4 processors: job 0 holds 3 until 10; job 1 wants 4; job 2 ends before 10, job 3 does not.
QUEUE = table([(0, 3, 10, 10), (1, 4, 5, 5), (2, 1, 8, 8), (3, 1, 20, 20)])


def test_without_backfilling_nothing_overtakes() -> None:
    assert starts(QUEUE, 4, codes.JOB_FIRST, commitment=order_codes.REPICK) == [0, 10, 15, 15]
    assert starts(QUEUE, 4, codes.JOB_FIRST, commitment=order_codes.BLOCK) == [0, 10, 15, 15]


def test_easy_lets_those_overtake_that_end_in_time() -> None:
    assert starts(QUEUE, 4, codes.JOB_FIRST, **EASY) == [0, 10, 2, 15]


def test_rlschedulers_rule_is_strict() -> None:
    strict = {"commitment": order_codes.BLOCK, "backfilling": codes.STRICT_FCFS}
    assert starts(QUEUE, 4, codes.JOB_FIRST, **strict) == [0, 10, 15, 15]
    earlier = table([(0, 3, 10, 10), (1, 4, 5, 5), (2, 1, 7, 7)])
    assert starts(earlier, 4, codes.JOB_FIRST, **strict) == [0, 10, 2]


def test_spare_processors_are_used_by_easy_alone() -> None:
    # The head wants 2 of the 4 processors that are free at 10: 2 to spare, for jobs that take long.
    jobs = table([(0, 3, 10, 10), (1, 2, 5, 5), (2, 1, 99, 99), (3, 1, 99, 99)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 10, 2, 10]
    strict = {"commitment": order_codes.BLOCK, "backfilling": codes.STRICT_FCFS}
    assert starts(jobs, 4, codes.JOB_FIRST, **strict) == [0, 10, 10, 10]


def test_spare_processors_are_used_up() -> None:
    # One spare processor at the shadow date, and two long jobs for two free ones.
    jobs = table([(0, 2, 10, 10), (1, 3, 5, 5), (2, 1, 99, 99), (2, 1, 99, 99)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 10, 2, 15]


def test_backfilling_goes_in_its_order() -> None:
    jobs = table([(0, 3, 10, 10), (1, 4, 5, 5), (2, 1, 8, 8), (2, 1, 4, 4)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 10, 2, 15]
    sjbf = {**EASY, "backfilling": codes.EASY_SJBF}
    assert starts(jobs, 4, codes.JOB_FIRST, **sjbf) == [0, 10, 15, 2]


def test_estimates_decide_and_run_times_happen() -> None:
    # Job 0 is expected to hold its processors until 100, and ends at 10.
    jobs = table([(0, 3, 10, 100), (1, 4, 5, 5), (2, 1, 60, 60)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 62, 2]


def test_an_overrun_job_is_expected_to_end_at_once() -> None:
    # Job 0 should have ended at 5: at 6 nothing may overtake job 1 but what leaves it room.
    jobs = table([(0, 3, 10, 5), (6, 4, 5, 5), (7, 1, 1, 1)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 10, 15]


def test_another_job_may_be_picked_when_something_has_happened() -> None:
    # SJF: job 1 (long) is the first of the queue at 1; at 2 the shorter job 2 comes. Who is committed to job 1 waits.
    jobs = table([(0, 3, 10, 10), (1, 4, 50, 50), (2, 4, 5, 5)])
    assert starts(jobs, 4, codes.JOB_SHORTEST, commitment=order_codes.REPICK) == [0, 15, 10]
    assert starts(jobs, 4, codes.JOB_SHORTEST, commitment=order_codes.BLOCK) == [0, 10, 60]


def test_a_processor_freed_now_serves_a_job_submitted_now() -> None:
    jobs = table([(0, 4, 10, 10), (10, 4, 5, 5)])
    assert starts(jobs, 4, codes.JOB_FIRST, **EASY) == [0, 10]


def test_objectives_are_those_of_the_formulas() -> None:
    pool = pool_of(QUEUE, 4, **EASY)
    values = entries.run_keys(Borrowed(pool), [codes.JOB_FIRST])[:, 0]
    wait = np.array([0, 9, 0, 12.0])
    run = np.array([10, 5, 8, 20.0])
    assert values.tolist() == pytest.approx(
        [
            np.mean(np.maximum(1, (wait + run) / np.maximum(run, 10))),
            np.mean((wait + run) / run),
            np.mean(wait),
            np.mean(wait + run),
            (3 * 10 + 4 * 5 + 8 + 20) / (4 * 35),
            35.0,
            12.0,
            32.0,
            14 / 5,
            1.6,
            3600 * 4 / 35,
        ]
    )


def test_the_inverted_formulas_are_rlschedulers() -> None:
    # On one processor, who goes last? Rightly the long job, which has hardly waited by its own measure.
    jobs = table([(0, 1, 1, 1), (0.25, 1, 10, 10), (0.5, 1, 2, 2)])
    order = {"commitment": order_codes.REPICK, "backfilling": codes.NO_BACKFILLING}
    right = starts(jobs, 1, codes.JOB_WFP3, **order)
    wrong = starts(jobs, 1, codes.JOB_WFP3_INVERTED, **order)
    assert right.index(max(right)) == 1
    assert wrong.index(max(wrong)) == 2


jobs_strategy = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 6), st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=12
).map(lambda rows: table(sorted(rows, key=lambda row: row[0])))


@given(
    jobs=jobs_strategy,
    key=st.sampled_from(sorted(KEYS)),
    commitment=st.sampled_from([order_codes.BLOCK, order_codes.REPICK]),
    backfilling=st.sampled_from([codes.NO_BACKFILLING, codes.EASY_FCFS, codes.EASY_SJBF, codes.EASY_PRIORITY]),
)
def test_every_job_starts_once_and_processors_suffice(
    jobs: np.ndarray, key: str, commitment: int, backfilling: int
) -> None:
    start_s = np.array(starts(jobs, 6, KEYS[key], commitment=commitment, backfilling=backfilling))
    assert np.all(start_s >= jobs["submit_s"])
    for time_s in start_s:
        running = (start_s <= time_s) & (time_s < start_s + jobs["run_s"])
        assert jobs["n_requested"][running].sum() <= 6


@given(jobs=jobs_strategy)
def test_easy_never_delays_the_first_of_the_queue(jobs: np.ndarray) -> None:
    # With exact estimates and FCFS, the jobs that do not overtake start no later than without backfilling.
    jobs["requested_time_s"] = jobs["run_s"]
    with_easy = np.array(starts(jobs, 6, codes.JOB_FIRST, **EASY))
    without = np.array(starts(jobs, 6, codes.JOB_FIRST, commitment=order_codes.REPICK))
    blocked = np.flatnonzero(without > jobs["submit_s"])
    if len(blocked):  # the first one that ever waits has nobody waiting before it
        assert with_easy[blocked[0]] <= without[blocked[0]]


def counts_of(pool: OrderState) -> Borrowed[Counts]:
    """Return what is kept of the steps of a pool."""
    counts = new_counts(1, pool.masks.shape[1])
    return Borrowed(counts._replace(masks=pool.masks))


@given(jobs=jobs_strategy, backfilling=st.sampled_from([codes.EASY_FCFS, codes.EASY_SJBF]))
def test_a_decision_maker_that_follows_a_key_gets_the_schedule_of_the_key(jobs: np.ndarray, backfilling: int) -> None:
    for commitment in (order_codes.BLOCK, order_codes.REPICK):
        choices = {"commitment": commitment, "backfilling": backfilling, "max_jobs": 16}
        choices["order_key"] = codes.JOB_SHORTEST  # the first row is then the shortest job
        pool = pool_of(jobs, 6, **choices)
        borrowed, counts = Borrowed(pool), counts_of(pool)
        chosen, first_row = np.ones(1, dtype=bool), np.zeros(1, dtype=np.int64)
        entries.SERVED.reset(borrowed, new_team(1), chosen)
        for _ in range(1000):
            entries.SERVED.step(borrowed, counts, new_team(1), chosen, first_row)
            if counts.arrays.terminations[0]:
                break
        assert pool.start_s[0].tolist() == starts(jobs, 6, codes.JOB_SHORTEST, **choices)


@given(jobs=jobs_strategy)
def test_picking_who_overtakes_by_a_key_is_backfilling_by_that_key(jobs: np.ndarray) -> None:
    for commitment in (order_codes.BLOCK, order_codes.REPICK):
        choices = {"commitment": commitment, "backfilling": codes.EASY_PRIORITY, "max_jobs": 16}
        pool = pool_of(jobs, 6, order_key=codes.JOB_SHORTEST, **choices)
        borrowed, counts, chosen = Borrowed(pool), counts_of(pool), np.ones(1, dtype=bool)
        entries.SERVED.reset(borrowed, new_team(1), chosen)
        for _ in range(1000):
            first_legal = np.array([np.argmax(pool.masks[0])])
            entries.SERVED.step(borrowed, counts, new_team(1), chosen, first_legal)
            if counts.arrays.terminations[0]:
                break
        assert pool.start_s[0].tolist() == starts(jobs, 6, codes.JOB_SHORTEST, order_key=codes.JOB_SHORTEST, **choices)


def test_compiling_is_told_the_first_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hdrl.compiled import cache
    from hdrl.settings.batch.identical_cores import entries as compilation

    monkeypatch.setattr(compilation, "CACHE_FOLDER", tmp_path)
    monkeypatch.setattr(cache, "JIT_DISABLED", False)
    told: list[str] = []
    warm_up(told.append)
    warm_up(told.append)
    assert len(told) == 1
    assert "compiling" in told[0]
