"""Running jobs: the actor of a job, what its profile makes it do, and the actor that kills jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hdrl.base.errors import BatsimError
from hdrl.batsim.exact.activities import Cancelled, Execution, Mailbox, TimedOut
from hdrl.batsim.exact.actors import Actor, Do, Sleep, Spawn, Steps
from hdrl.batsim.exact.added_io import JobIo, task_with_io
from hdrl.batsim.exact.context import ExactContext
from hdrl.batsim.exact.extended import difference
from hdrl.batsim.exact.flows import Cpu, Work
from hdrl.batsim.exact.jobs import (
    FAILED,
    KILLED,
    RUNNING,
    SHORTEST_RUN_S,
    SUCCEEDED,
    WALLTIME_REACHED,
    ExactJob,
    ExactTask,
)
from hdrl.batsim.exact.messages import Completed, FromJob, Killed
from hdrl.batsim.exact.profiles import Composed, Delay, Receive, Send, UsageTrace
from hdrl.batsim.exact.ptasks import parallel_task

TIMED_OUT, CANCELLED = -1, -2
"""Return codes of a job that reached its walltime, and of one that was killed."""

_STATES = {0: SUCCEEDED, TIMED_OUT: WALLTIME_REACHED, CANCELLED: KILLED}
_RANK_END_BYTES = 4.0


@dataclass(slots=True, eq=False, repr=False)
class JobRun:
    """A job that is running."""

    context: ExactContext
    job: ExactJob
    cpus: list[Cpu]  # the host of each executor
    storage_mapping: dict[str, int]  # machines of storage labels
    left_s: float  # rest of the walltime, negative if there is none
    here: Cpu  # the host of the job's actor
    io: JobIo | None = None  # transfers that the scheduler has added to the job, with the machines that take part


def run_job(
    context: ExactContext, job: ExactJob, cpus: list[Cpu], storage_mapping: dict[str, int], io: JobIo | None = None
) -> Steps[None]:
    """Be the actor of a job, from its start until its end is reported."""
    now_s = job.start_s = context.now_s
    job.task = ExactTask(job.profile, None if io is None else io.profile)
    here = context.machines[job.allocation[0]].cpu
    run = JobRun(context, job, cpus, storage_mapping, job.walltime_s, here, io)
    if context.options.energy:
        job.before_j = yield from context.read_energy(job.allocation)
        yield from context.note_energy("s")
    context.machines.begin_job(job, now_s)
    if context.trace is not None:
        context.trace.begin_job(job.id, job.allocation, now_s)
    context.note_machine_states()
    job.return_code = yield from _run_task(run, job.task)
    if job.return_code < CANCELLED:
        raise BatsimError(f"job {job.id!r} returned {job.return_code}: Batsim would stop here")
    yield from _end_job(context, job, _STATES.get(job.return_code, FAILED))
    if job.state != KILLED:
        yield context.server.put(here, Completed(job))
    for execution in job.timed_out:
        context.kernel.engine.stop_flow(execution.flow)
    # jobs and actors refer to each other, and no search for garbage finds what the frozen jobs refer to
    job.actors.clear()
    job.task = None


def _end_job(context: ExactContext, job: ExactJob, state: str) -> Steps[None]:
    job.state = state
    now_s = job.end_s = context.now_s
    context.machines.end_job(job, now_s)
    if context.trace is not None:
        context.trace.end_job(job.id, job.allocation, now_s, killed=state in (WALLTIME_REACHED, KILLED))
    context.note_machine_states()
    job.run_s = difference((job.end_s, 0.0), (job.start_s, 0.0)) or SHORTEST_RUN_S
    if context.options.energy:
        after_j = yield from context.read_energy(job.allocation)
        job.energy_j = difference(after_j, job.before_j)
        context.outputs.last_end_j = yield from context.note_energy("e")


def _run_task(run: JobRun, task: ExactTask) -> Steps[int]:
    """Go through a task; return 0 if nothing went wrong."""
    profile = task.profile
    if isinstance(profile, Composed):
        return (yield from _run_sequence(run, task, profile))
    if isinstance(profile, Delay):
        task.began_s, task.needed_s = run.context.now_s, profile.delay_s
        code = yield from _sleep(run, profile.delay_s)
    elif isinstance(profile, Send):
        yield run.context.server.put(run.here, FromJob(run.job, profile.message))
        code = yield from _sleep(run, profile.sleep_s)
    elif isinstance(profile, Receive):
        code = yield from _receive(run, task, profile)
    elif isinstance(profile, UsageTrace):
        code = yield from _replay_usage(run, profile)
    else:
        code = yield from _run_parallel(run, task)
    return code or profile.return_code


def _run_sequence(run: JobRun, task: ExactTask, profile: Composed) -> Steps[int]:
    workload, where = run.job.workload, f"job {run.job.id!r}"
    io = task.io.sequence if isinstance(task.io, Composed) else [None] * len(profile.sequence)
    for _ in range(profile.repeat):
        for name, io_name in zip(profile.sequence, io, strict=True):
            task.index += 1
            io_part = None if io_name is None else workload.part(io_name, where)
            task.part = ExactTask(workload.part(name, where), io_part)
            code = yield from _run_task(run, task.part)
            if code != 0:
                return code
    return profile.return_code


def _sleep(run: JobRun, duration_s: float) -> Steps[int]:
    """Sleep, but no longer than the walltime; a delay that equals it reaches it."""
    if run.left_s < 0 or duration_s < run.left_s:
        yield Sleep(duration_s)
        if run.left_s > 0:
            run.left_s -= duration_s
        return 0
    yield Sleep(run.left_s)
    run.left_s = 0.0
    return TIMED_OUT


def _receive(run: JobRun, task: ExactTask, profile: Receive) -> Steps[int]:
    """Take the oldest message for the job, and go on as it says."""
    inbox = run.job.messages
    if not inbox and not profile.timeout:
        code = yield from _poll(run, profile.poll_s)
        if code != 0:
            return code
    if inbox:
        following = profile.success if profile.pattern.fullmatch(inbox.pop(0)) else profile.failure
    else:
        following = profile.timeout
    if not following:
        return 0
    task.index = 0
    task.part = ExactTask(run.job.workload.profile(following, f"job {run.job.id!r}"))
    return (yield from _run_task(run, task.part))


def _poll(run: JobRun, period_s: float) -> Steps[int]:
    """Look for a message again and again, until there is one."""
    context, for_ever = run.context, run.left_s < 0
    context.n_polling += for_ever
    try:
        while not run.job.messages:
            if for_ever and context.only_polls():
                raise BatsimError(
                    f"job {run.job.id!r} waits for a message of the scheduler, and nothing else happens any more: "
                    "Batsim would go on forever"
                )
            code = yield from _sleep(run, period_s)
            if code != 0:
                return code
    finally:
        context.n_polling -= for_ever
    return 0


def _run_parallel(run: JobRun, task: ExactTask) -> Steps[int]:
    """Run a parallel task, with the walltime as its timeout."""
    kernel = run.context.kernel
    if run.io is None or task.io is None:
        work = parallel_task(run.context, run.job, task.profile, run.cpus, run.storage_mapping)
    else:
        work = task_with_io(run.context, run.job, task.profile, task.io, run.io.machines)
    execution = task.execution = Execution(kernel, work, run.left_s)
    began_s = kernel.now_s
    code = 0
    try:
        yield from _execute(run.context, execution)
    except TimedOut:
        code = TIMED_OUT
        run.job.timed_out.append(execution)
    except Cancelled:
        code = CANCELLED
    if run.left_s >= 0:
        run.left_s -= kernel.now_s - began_s
    return code


def _execute(context: ExactContext, execution: Execution) -> Steps[None]:
    yield Do(execution.start)
    cpus = execution.flow.work.cpus
    if len(cpus) == 1 and cpus[0].machine >= 0:
        # the energy plugin looks at a host when something starts on it alone
        context.meter.update(cpus[0].machine, context.now_s)
    yield execution


def _replay_usage(run: JobRun, profile: UsageTrace) -> Steps[int]:
    """Let every rank go through its phases; each reports its end to the job's actor."""
    job, kernel = run.job, run.context.kernel
    began_s = kernel.now_s
    ends = Mailbox(kernel, _RANK_END_BYTES)
    for rank, phases in enumerate(profile.ranks):
        cpu = run.cpus[rank % len(run.cpus)]
        actor = yield Spawn(_replay_rank(run, cpu, phases, ends), cpu)
        job.actors.append(actor)
    for _ in profile.ranks:
        yield ends.get(run.here)
    if 0 <= run.left_s < kernel.now_s - began_s:
        raise BatsimError(f"job {job.id!r}: a usage_trace profile that reaches its walltime is not simulated")
    return 0


def _replay_rank(run: JobRun, cpu: Cpu, phases: Iterable[tuple[float, float]], ends: Mailbox) -> Steps[None]:
    cores = cpu.spec.cores
    for usage, flops in phases:
        n = max(1, round(usage * cores))
        work = Work(run.context.network, [cpu] * n, [flops] * n, ())
        yield from _execute(run.context, Execution(run.context.kernel, work))
    yield ends.put(cpu, None)


def kill_jobs(context: ExactContext, jobs: list[ExactJob]) -> Steps[None]:
    """Be the actor that kills jobs: parallel tasks are cancelled, everything else ends on the spot."""
    tasks = []
    for job in jobs:
        if job.state != RUNNING or job.task is None:
            continue
        yield from _note_progress(context, job.task.leaf())
        tasks.append((job, job.task))
        execution = job.task.leaf().execution
        if execution is not None and not execution.over:
            yield Do(execution.cancel)  # the job's actor then ends by itself
        else:
            yield Do(_killing(context, job.actors))
            yield from _end_job(context, job, KILLED)
    yield context.server.put(context.master, Killed(jobs, tasks))


def _note_progress(context: ExactContext, leaf: ExactTask) -> Steps[None]:
    if leaf.execution is not None:
        flow = leaf.execution.flow
        leaf.progress = yield Do(lambda: context.kernel.engine.progress(flow))
    elif leaf.began_s >= 0:
        leaf.progress = (context.now_s - leaf.began_s) / leaf.needed_s if leaf.needed_s else 1.0


def _killing(context: ExactContext, actors: list[Actor]) -> Callable[[], None]:
    def kill() -> None:
        for actor in actors:
            context.kernel.kill(actor)

    return kill
