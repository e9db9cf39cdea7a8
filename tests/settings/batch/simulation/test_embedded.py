"""The embedded simulator on worlds solved by hand, and on schedulers that decide wrongly."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.compiled.fields import fields_of
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.simulation import (
    Annotate,
    AskEnergy,
    At,
    BatchTrace,
    CallAt,
    Decision,
    EmbeddedSimulator,
    JobState,
    Kill,
    News,
    Reject,
    SetPState,
    Start,
    View,
)
from hdrl.settings.batch.simulation.answer import Answer
from hdrl.settings.batch.workload import StepKind, read_workload
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload, trace_differences

ONE_CORE = small_platform(Node((Processor(1),)))
TWO_CORES = small_platform(Node((Processor(2),)))


def times(trace: BatchTrace) -> list[tuple[float, float]]:
    """Return start and end of each job, to six decimals."""
    records = trace.records
    return [
        (round(float(start), 6), round(float(start + run), 6))
        for start, run in zip(records["start_s"], records["run_s"], strict=True)
    ]


# ------------------------------------------------------------------ solved by hand


@pytest.mark.parametrize(
    ("contention", "ends"),
    [("step", (12.0, 16.0)), ("proportional", (14.0, 18.0)), ("none", (10.0, 14.0))],
)
def test_two_jobs_at_8_of_10_gbps(contention: str, ends: tuple[float, float]):
    """They overlap from 4 s on: at 75 %, at 10/16 rounded down to 60 %, or as if there were enough."""
    platform = small_platform(Node((Processor(2, 1.0, 10.0),)), contention=contention)
    jobs = small_workload(JobSpec(0.0, bandwidth_gbps=8.0), JobSpec(4.0, bandwidth_gbps=8.0))
    trace = simulate(platform, jobs, "first-high_gflops")
    assert times(trace) == [(0.0, ends[0]), (4.0, ends[1])]
    use = trace.overutilization
    assert use.bandwidth_processor.tolist() == [0]
    assert (use.bandwidth_start_s[0], use.bandwidth_duration_s[0]) == pytest.approx((4.0, ends[0] - 4.0))
    assert not len(use.core_s)
    assert not len(use.memory_s)


def test_a_core_freed_at_a_date_serves_the_job_that_arrives_then():
    trace = simulate(ONE_CORE, small_workload(JobSpec(0.0), JobSpec(10.0), JobSpec(20.0)), "first-high_gflops")
    assert times(trace) == [(0.0, 10.0), (10.0, 20.0), (20.0, 30.0)]


def test_memory_blocks_the_head_and_who_is_behind_it():
    """Job 1 finds a core and no memory; job 2 would fit and waits behind it."""
    platform = small_platform(Node((Processor(3),), memory_gb=1.0))
    jobs = small_workload(JobSpec(0.0, memory_mib=600), JobSpec(1.0, memory_mib=600), JobSpec(2.0, memory_mib=100))
    trace = simulate(platform, jobs, "first-high_gflops")
    assert times(trace) == [(0.0, 10.0), (10.0, 20.0), (10.0, 20.0)]
    assert trace.overutilization.memory_s.tolist() == [1.0, 2.0]
    assert not len(trace.overutilization.core_s)


def test_cores_block():
    trace = simulate(ONE_CORE, small_workload(JobSpec(0.0), JobSpec(3.0)), "first-high_gflops")
    assert trace.overutilization.core_s.tolist() == [3.0]


def test_the_slowest_core_sets_the_pace_and_the_others_draw_full_power():
    platform = small_platform(Node((Processor(1, 1.0, 10.0, 50.0), Processor(1, 4.0, 10.0, 200.0))))
    trace = simulate(platform, small_workload(JobSpec(0.0, cores=2)), "first-high_gflops")
    assert times(trace) == [(0.0, 10.0)]
    assert trace.records["energy_j"][0] == pytest.approx(2500.0, rel=1e-8)
    assert trace.consumed_j == pytest.approx(2500.0, rel=1e-8)


def test_free_cores_draw_15_percent_beside_a_busy_one_and_5_percent_alone():
    platform = small_platform(Node((Processor(2), Processor(2))))
    trace = simulate(platform, small_workload(JobSpec(5.0)), "first-high_gflops")
    assert trace.consumed_j == pytest.approx(10 * (50 + 0.15 * 50 + 2 * 0.05 * 50), rel=1e-8)
    assert trace.records["energy_j"][0] == pytest.approx(500.0, rel=1e-8)


def test_a_job_without_work_takes_a_hundred_thousandth_of_a_second():
    trace = simulate(ONE_CORE, small_workload(JobSpec(1.0, gflop=0.0), JobSpec(1.0)), "first-high_gflops")
    assert trace.records["run_s"].tolist() == [1e-5, pytest.approx(10.0)]
    assert times(trace)[1] == (1.0, 11.0)


def test_steps_and_failures():
    steps = ((StepKind.COMPUTE, 3e9, 0), (StepKind.DELAY, 2.0, 0), (StepKind.RETURN, 0.0, 4), (StepKind.DELAY, 9.0, 0))
    jobs = small_workload(JobSpec(0.0, steps=steps), JobSpec(0.0, steps=steps, walltime_s=4.5))
    trace = simulate(TWO_CORES, jobs, "first-high_gflops")
    assert times(trace) == [(0.0, 5.0), (0.0, 4.5)]
    assert trace.records["return_code"].tolist() == [4, -1]
    states = [JobState(int(state)) for state in trace.records["state"]]
    assert states == [JobState.COMPLETED_FAILED, JobState.COMPLETED_WALLTIME_REACHED]


def test_who_starts_nothing_is_told_what_waits():
    with pytest.raises(SimulationError, match=r"2 jobs are waiting, for instance 'w0!0': the policy does not start"):
        simulate(ONE_CORE, small_workload(JobSpec(0.0), JobSpec(1.0)), "void")


def test_no_jobs():
    trace = simulate(ONE_CORE, small_workload(), "void")
    assert (len(trace.completion_order), trace.consumed_j) == (0, 0.0)


# ------------------------------------------------------------------ decisions

Script = Callable[[View], Iterable[Decision]]


def run(simulator: EmbeddedSimulator, script: Script) -> BatchTrace:
    view = simulator.reset()
    while not view.is_over:
        view = simulator.step(script(view))
    return simulator.trace


def told(view: View, kind: News) -> list[int]:
    return [subject for news, subject in view.news if news == kind]


def start_all(view: View) -> list[Decision]:
    """Start each job that comes on the core of its number."""
    return [Start(job, [job]) for job in told(view, News.JOB_SUBMITTED)]


def test_kill_a_computation_a_delay_and_a_sequence():
    platform = small_platform(Node((Processor(4),)))
    sequence = ((StepKind.DELAY, 2.0, 0), (StepKind.COMPUTE, 9e9, 0))
    jobs = small_workload(
        JobSpec(), JobSpec(steps=((StepKind.DELAY, 9.0, 0),)), JobSpec(steps=sequence), JobSpec(gflop=3.0)
    )

    def script(view: View) -> list[Decision]:
        if told(view, News.SIMULATION_BEGINS):
            return [CallAt(4.0)]
        return [Kill([0, 1, 2])] if told(view, News.REQUESTED_CALL) else start_all(view)

    trace = run(EmbeddedSimulator(platform, jobs), script)
    assert times(trace) == [(0.0, 4.0), (0.0, 4.0), (0.0, 4.0), (0.0, 3.0)]
    assert trace.records["return_code"].tolist() == [-2, -1, -2, 0]
    assert set(trace.records["state"][:3].tolist()) == {JobState.COMPLETED_KILLED}
    # A computing core draws 25 W; all of them are in P-state 0 as long as they serve.
    assert trace.records["energy_j"] == pytest.approx([100.0, 100.0, 100.0, 75.0], rel=1e-7)


def test_a_job_may_be_started_and_killed_in_one_answer():
    def script(view: View) -> list[Decision]:
        return [Start(0, [0]), At(3.0, Kill([0]))] if told(view, News.JOB_SUBMITTED) else []

    assert times(run(EmbeddedSimulator(ONE_CORE, small_workload(JobSpec())), script)) == [(0.0, 3.0)]


def test_asking_to_kill_twice_is_ignored():
    def script(view: View) -> list[Decision]:
        if told(view, News.JOB_SUBMITTED):
            return [Start(0, [0]), At(3.0, Kill([0])), At(3.0, Kill([0]))]
        return []

    simulator = EmbeddedSimulator(ONE_CORE, small_workload(JobSpec()))
    trace = run(simulator, script)
    assert times(trace) == [(0.0, 3.0)]
    assert trace.completion_order.tolist() == [0]


def test_rejected_jobs_come_in_the_order_of_completion():
    def script(view: View) -> list[Decision]:
        return [Start(0, [0]), Reject(1)] if told(view, News.JOB_SUBMITTED) else []

    trace = run(EmbeddedSimulator(TWO_CORES, small_workload(JobSpec(), JobSpec())), script)
    assert trace.completion_order.tolist() == [1, 0]
    assert trace.records["state"][1] == JobState.REJECTED
    assert (trace.records["start_s"][1], trace.records["energy_j"][1]) == (-1.0, -1.0)


def test_calls_come_when_asked_for_and_at_once_if_they_coincide():
    dates: list[tuple[float, int]] = []

    def script(view: View) -> list[Decision]:
        dates.append((view.now_s, len(told(view, News.REQUESTED_CALL))))
        if told(view, News.SIMULATION_BEGINS):
            return [CallAt(4.0), CallAt(2.5), CallAt(4.0)]
        return start_all(view)

    run(EmbeddedSimulator(ONE_CORE, small_workload(JobSpec())), script)
    assert [date for date in dates if date[1]] == [(2.5, 1), (4.0, 2)]


def test_decisions_in_the_future_hold_up_those_behind_them():
    def script(view: View) -> list[Decision]:
        return [At(5.0, Start(0, [0])), Start(1, [1])] if told(view, News.JOB_SUBMITTED) else []

    trace = run(EmbeddedSimulator(TWO_CORES, small_workload(JobSpec(), JobSpec())), script)
    assert times(trace) == [(5.0, 15.0), (5.0, 15.0)]


def test_answers_that_take_time():
    simulator = EmbeddedSimulator(TWO_CORES, small_workload(JobSpec(0.0), JobSpec(1.0)))
    view = simulator.reset()
    view = simulator.step()
    assert told(view, News.JOB_SUBMITTED) == [0]
    view = simulator.step([Start(0, [0])], now_s=3.0)
    assert (view.now_s, told(view, News.JOB_SUBMITTED)) == (3.0, [1])
    dates = {kind: round(float(date), 6) for (kind, _), date in zip(view.news, view.news_s, strict=True)}
    assert dates == {News.NO_MORE_JOBS: 1.0, News.JOB_SUBMITTED: 1.0, News.PSTATE_CHANGED: 0.0}


def test_dates_are_told_with_six_decimals_and_slept_up_to():
    """8/3 s is printed upwards: who answers at once starts the next job at 2.666667 s."""
    trace = simulate(ONE_CORE, small_workload(JobSpec(gflop=8 / 3), JobSpec()), "first-high_gflops")
    assert trace.records["start_s"][1] == pytest.approx(2.666667, abs=2e-9)
    trace = simulate(ONE_CORE, small_workload(JobSpec(gflop=7 / 3), JobSpec()), "first-high_gflops")
    assert trace.records["start_s"][1] == pytest.approx(7 / 3, abs=1e-8)


def test_energy_can_be_asked_for():
    answers = []

    def script(view: View) -> list[Decision]:
        if told(view, News.ENERGY):
            answers.append(view.energy_j)
        if told(view, News.SIMULATION_BEGINS):
            return [CallAt(4.0)]
        return [AskEnergy()] if told(view, News.REQUESTED_CALL) else start_all(view)

    run(EmbeddedSimulator(ONE_CORE, small_workload(JobSpec())), script)
    assert answers == [pytest.approx(400.0, rel=1e-7)]


def test_annotations_are_kept():
    def script(view: View) -> list[Decision]:
        return [*start_all(view), *(Annotate(job, f"job {job}") for job in told(view, News.JOB_SUBMITTED))]

    assert run(EmbeddedSimulator(ONE_CORE, small_workload(JobSpec())), script).metadata == {0: "job 0"}


# ------------------------------------------------------------------ what cannot be followed

PLATFORM = small_platform(Node((Processor(2),), memory_gb=1.0))
JOBS = (
    JobSpec(0.0),
    JobSpec(0.0, cores=2),
    JobSpec(0.0, memory_mib=600.0),
    JobSpec(0.0, memory_mib=600.0),
    JobSpec(50.0, id="late"),
)


def asked(*before: Decision) -> EmbeddedSimulator:
    """Return a simulator whose four jobs have been submitted, with some decisions in the answer that is due."""
    simulator = EmbeddedSimulator(PLATFORM, small_workload(*JOBS))
    simulator.reset()
    view = simulator.step()
    assert told(view, News.JOB_SUBMITTED) == [0, 1, 2, 3]
    simulator._answer.add_all(before)
    return simulator


@pytest.mark.parametrize(
    ("before", "bad", "text"),
    [
        ([Start(0, [1])], Start(2, [1]), "t=0 s: job 'w0!2': core 1 is not free"),
        ([], Start(1, [0]), "job 'w0!1' asks for 2 cores and was given another number"),
        ([], Start(0, []), "job 'w0!0' asks for 1 cores"),
        ([], Start(0, [2]), "job 'w0!0': there is no core 2 (0 to 1)"),
        ([], Start(0, [-1]), "there is no core -1 (0 to 1)"),
        ([], Start(0, [0.5]), "cores [0.5]: expected the ids of cores"),  # type: ignore[list-item]
        ([], Start(0, ["a"]), "expected the ids of cores"),  # type: ignore[list-item]
        ([], Start(1, [1, 1]), "job 'w0!1': core 1 is named twice"),
        ([], Start(7, [0]), "there is no job 7 (0 to 4)"),
        ([], Start(-1, [0]), "there is no job -1 (0 to 4)"),
        ([], Start("0", [0]), "job '0': expected the index of a job"),  # type: ignore[arg-type]
        ([], Start(4, [0]), "job 'w0!late' is not waiting"),
        ([Start(0, [0])], Start(0, [1]), "job 'w0!0' is not waiting"),
        ([Start(2, [0])], Start(3, [1]), "job 'w0!3': the node of core 1 lacks the memory for it"),
        ([Start(0, [0])], Reject(0), "job 'w0!0' is not waiting"),
        ([], Reject(9), "there is no job 9"),
        ([], Kill([0]), "job 'w0!0' cannot be killed: it has never run"),
        ([Reject(0)], Kill([0]), "job 'w0!0' cannot be killed: it has never run"),
        ([], Kill([12]), "there is no job 12"),
        ([], CallAt(0.0), "a call must be at a date in the future"),
        ([], CallAt(math.nan), "a call must be at a date in the future"),
        ([], CallAt(math.inf), "a call must be at a date in the future"),
        ([], At(math.nan, CallAt(5.0)), "expected a finite date"),
        ([], SetPState([], 0), "cores must be 0 to 1"),
        ([], SetPState([3], 0), "cores must be 0 to 1"),
        ([], SetPState([0], 9), "there is no P-state 9 (0 to 3)"),
        ([], Annotate(8, ""), "there is no job 8"),
        ([], "start", "'start' is not a decision; expected one of hdrl.batch: At, Start, Reject, Kill"),
    ],
)
def test_bad_decisions(before: list[Decision], bad: Decision, text: str):
    simulator = asked(*before)
    with pytest.raises(DecisionError) as caught:
        simulator.step([bad])
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_decisions_before_a_bad_one_are_kept_and_none_after_it():
    simulator = asked()
    with pytest.raises(DecisionError, match="core 0 is not free"):
        simulator.step([Start(0, [0]), Start(2, [0]), Start(3, [1])])
    view = simulator.step()  # the rest of the answer
    assert view.running.tolist() == [0]
    assert view.waiting.tolist() == [1, 2, 3]
    assert view.started_s[0] == pytest.approx(0.0, abs=1e-6)
    assert view.free_memory_mib.tolist() == [1024.0]


def test_a_start_that_fails_half_way_takes_nothing():
    platform = small_platform(Node((Processor(3),), memory_gb=1.0))
    simulator = EmbeddedSimulator(platform, small_workload(JobSpec(cores=2, memory_mib=600.0)))
    simulator.reset()
    view = simulator.step()
    with pytest.raises(DecisionError, match="lacks the memory"):
        simulator.step([Start(0, [0, 1])])
    assert view.free_memory_mib.tolist() == [1024.0]
    assert view.free_cores.tolist() == [0, 1, 2]


def test_a_call_that_has_become_past_when_its_turn_comes():
    simulator = asked()
    with pytest.raises(DecisionError, match="in the future"):
        simulator.step([At(5.0, CallAt(3.0))])


def test_too_many_calls():
    simulator = asked()
    with pytest.raises(DecisionError, match="too many calls"):
        simulator.step([CallAt(10.0 + k) for k in range(300)])
    simulator = asked()
    with pytest.raises(DecisionError, match="too many decisions in one answer"):
        simulator.step([CallAt(10.0 + k) for k in range(1000)])
    simulator = asked()
    with pytest.raises(DecisionError, match="more cores than there are"):
        simulator.step([SetPState([0, 1], 0) for _ in range(200)])


def test_a_job_told_to_have_ended_cannot_be_killed():
    simulator = asked(Start(0, [0]))
    view = simulator.step()
    while 0 not in told(view, News.JOB_COMPLETED):
        view = simulator.step()
    with pytest.raises(
        DecisionError, match="job 'w0!0' cannot be killed: the scheduler already got the message of its end"
    ):
        simulator.step([Kill([0])])


def test_the_view_follows_the_pstates_that_were_asked_for():
    platform = small_platform(Node((Processor(2),)))
    simulator = EmbeddedSimulator(platform, small_workload(JobSpec()))
    view = simulator.reset()
    assert view.pstate.tolist() == [3, 3]
    assert simulator.step([SetPState([1], 2)]).pstate.tolist() == [3, 2]


def test_nothing_comes_after_the_end():
    simulator = EmbeddedSimulator(ONE_CORE, small_workload(JobSpec()))
    run(simulator, start_all)
    with pytest.raises(SimulationError, match="has ended"):
        simulator.step()
    assert not simulator.reset().is_over


def test_platforms_that_are_refused():
    jobs = small_workload(JobSpec())
    late = replace(ONE_CORE, message_latency_s=np.array([1e-6]))
    with pytest.raises(SimulationError, match="has links with latencies"):
        EmbeddedSimulator(late, jobs)
    with pytest.raises(SimulationError, match="has links with latencies"):
        EmbeddedSimulator(replace(ONE_CORE, loopback_latency_s=1e-6), jobs)
    dark = replace(ONE_CORE, full_w=np.full_like(ONE_CORE.full_w, np.nan))
    with pytest.raises(SimulationError, match=r"has no power figures of its hosts .* without energy"):
        EmbeddedSimulator(dark, jobs)
    assert times(simulate(dark, jobs, "first-high_gflops", energy=False)) == [(0.0, 10.0)]


# ------------------------------------------------------------------ logs


class Cramped(EmbeddedSimulator):
    """A simulator that begins with logs of few rows."""

    def _birth(self) -> Answer:
        answer = super()._birth()
        state = answer.state
        logs = [name for name, field in fields_of(type(state)).items() if field.counted_by]
        answer.state = state._replace(**{name: getattr(state, name)[:24].copy() for name in logs})
        return answer


@pytest.mark.parametrize("energy", [True, False])
def test_logs_grow_during_a_policy_pair(*, energy: bool):
    platform = small_platform(Node((Processor(3, 1.0, 10.0),), memory_gb=1.0))
    some: Sequence[JobSpec] = [
        JobSpec(2.5 * k, 1 + k % 3, 2.0, bandwidth_gbps=4.0, memory_mib=400.0 * (k % 3 == 0)) for k in range(80)
    ]
    traces = []
    for kind in (EmbeddedSimulator, Cramped):
        simulator = kind(platform, small_workload(*some), energy=energy)
        simulator.run_pair(1, 1)
        traces.append(simulator.trace)
    assert trace_differences(*traces) == []
    use = traces[0].overutilization
    assert min(len(use.core_s) + len(use.memory_s), len(use.bandwidth_start_s)) > 24
    assert len(traces[0].machine_states) > 100


def test_logs_grow_during_a_policy_in_python():
    def script(view: View) -> list[Decision]:
        if told(view, News.SIMULATION_BEGINS):
            return [CallAt(0.25 * k) for k in range(1, 200)]
        if told(view, News.REQUESTED_CALL):
            return [SetPState([0, 1], int(view.now_s * 4) % 2)]
        return start_all(view)

    trace = run(EmbeddedSimulator(TWO_CORES, small_workload(JobSpec(gflop=100.0))), script)
    handled = trace.pstate_changes[(trace.pstate_changes["pstate"] >= 0) & (trace.pstate_changes["time_s"] > 0.1)]
    assert trace.n_grouped_switches == len(handled) + 2  # the first two are those of the start
    assert len(handled) >= 199
    assert np.all(np.diff(trace.energy["time_s"]) >= 0)
    assert np.all(np.diff(trace.energy["energy_j"]) >= 0)


def test_the_arrays_go_with_the_simulator() -> None:
    """Without a search for cycles, which commands make rarely: large logs need the memory to write their files."""
    platform = read_platform("learning")
    simulator = EmbeddedSimulator(platform, read_workload("learning", platform, custom=True))
    simulator.run_pair(0, 0)
    answer = weakref.ref(simulator._answer)
    gc.disable()
    try:
        del simulator
        assert answer() is None
    finally:
        gc.enable()
