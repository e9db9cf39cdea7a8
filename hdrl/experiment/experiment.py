"""From options to a run folder."""

from __future__ import annotations

import math
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.files import write_json
from hdrl.compiled.cache import announcing
from hdrl.experiment.decider import decider_of
from hdrl.experiment.plan import RunPlan, plans_of
from hdrl.experiment.run.agentfile import AgentKind
from hdrl.experiment.run.folder import check_free, new_folder
from hdrl.experiment.run.insights import insights, log_run
from hdrl.experiment.run.progress import Progress, StageClock
from hdrl.experiment.run.results import WALL_CLOCK_INFO, write_results
from hdrl.experiment.train.decisions import DECISION_FILES
from hdrl.experiment.train.run import Trained, TrainingRun
from hdrl.options.file import OptionsFile


@dataclass(frozen=True, slots=True)
class SingleRun:
    """One finished run.

    Attributes
    ----------
    folder
        Its folder.
    seed
        Its seed.
    policy
        Name of the policy, or of the agent file.
    n_jobs, dropped
        Jobs that were simulated, and how many rows of the workload were left out, by reason.
    metrics
        Metrics by name; NaN where one has no value.
    simulation_s
        Wall-clock seconds that the simulation took.
    """

    folder: Path
    seed: int
    policy: str
    n_jobs: int
    dropped: Mapping[str, int]
    metrics: dict[str, float]
    simulation_s: float

    @property
    def n_dropped(self) -> int:
        """Number of rows of the workload that were left out."""
        return sum(self.dropped.values())


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished experiment.

    Attributes
    ----------
    folder
        Its folder.
    plan
        Its plan, that of its last run if there are several.
    runs
        Its runs; none if a training was stopped before its end.
    training
        Result of the training; ``None`` if nothing was trained.
    """

    folder: Path
    plan: RunPlan
    runs: tuple[SingleRun, ...]
    training: Trained | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each metric over the runs."""
        return {
            name: math.fsum(run.metrics[name] for run in self.runs) / len(self.runs) for name in self.runs[0].metrics
        }


def run_experiment(
    options: OptionsFile,
    *,
    out: str | Path,
    progress: Progress | None = None,
    resumes: bool = False,
    on: str = "local",
    hdeeprm_model: bool = False,
) -> RunResult:
    """Run an experiment and write its results into a new folder.

    The folder of a single run holds Batsim's files, ``overutilizations.json``, ``metrics.json``, the options
    (``options.resolved.json``), where the result comes from (``provenance.json``), and the only file that differs
    when the same run is repeated: ``timing.json``. Simulators other than the embedded one leave what they were given
    and what else they printed. Several runs get a folder each, ``run_0`` and so on. A folder appears when it is
    complete; what was finished before an error or an interruption stays.

    A training has one folder, with the model, its checkpoint and its logs, and what the model does, too: the files
    of a single run. It is made when the training begins, and can be resumed until it is complete.

    Parameters
    ----------
    out
        The folder; it must not exist, or be empty, unless it is that of a training to resume.
    resumes
        True to resume the training in the folder.
    on
        Location of several workers of a training: ``"local"``, in this process, ``"ray"`` or ``"ray:<address>"``.
    hdeeprm_model
        True if ``agent.output_model`` is written in the layout that HDeepRM 0.3.1 loads.

    Raises
    ------
    HdrlError
        If the options, the platform, the workload or the agent are wrong, or the folder cannot be written.
    """
    out, progress = Path(out), progress or Progress()
    if not resumes:
        check_free(out)
    choices: dict[str, Any] = {"resumes": resumes, "on": on, "hdeeprm_model": hdeeprm_model}
    if not options.may_learn:
        _check_untrained(out, **choices)
    runs: list[SingleRun] = []
    trained = None
    clock = StageClock()
    for plan in plans_of(options, out):
        if plan.trains:
            runs, trained = _train(plan, clock, progress, **choices)
            break  # a training has one plan
        _check_untrained(out, **choices)
        if options.runs > 1:
            progress.message(f"run {len(runs) + 1} of {options.runs}, seed {plan.request.seed}")
        runs.append(_simulate(plan, clock, progress))
        clock = StageClock()
    return RunResult(out, plan, tuple(runs), trained)


def _check_untrained(out: Path, *, resumes: bool, on: str, hdeeprm_model: bool) -> None:
    """Refuse options of trainings where nothing is trained."""
    if resumes:
        raise OptionsError(f"{out}: is not the folder of a training")
    if hdeeprm_model:
        raise OptionsError("--hdeeprm-model is for trainings, and nothing is trained here")
    if on != "local":
        raise OptionsError(f"--on {on} is for trainings by several workers, and nothing is trained here")


def check_experiment(options: OptionsFile) -> OptionsFile:
    """Read everything that an experiment needs, refuse what `run_experiment` would, and return the resolved options."""
    # A folder that cannot be there: what is set up has touched nothing.
    plan = next(plans_of(options, Path(tempfile.gettempdir()) / uuid.uuid4().hex))
    if plan.trains:
        TrainingRun(plan)
    else:
        decider_of(plan)
    return plan.request


def _simulate(plan: RunPlan, clock: StageClock, progress: Progress) -> SingleRun:
    """Simulate once, and write the folder."""
    options, agent = plan.request, plan.agent
    policy = agent.policy if isinstance(agent.policy, str) else agent.name
    clock.lap("read_s")
    with new_folder(plan.out) as folder, insights(options.log_level, folder):
        plan.setting.simulator.warm_up([agent.policy], progress.message)
        clock.lap("compile_s")
        _announce(plan, "simulating", progress)
        left_out = [name for name in DECISION_FILES if name in options.also_write_names]
        if left_out and agent.kind is AgentKind.POLICY:
            progress.message(f"no {' and no '.join(left_out)} (also_write): {policy} is not an agent with actions")
        decider = decider_of(plan)
        trace = decider.play(plan.machine, plan.load, seed=options.seed, progress=progress.jobs, folder=folder)
        simulation_s = clock.lap("simulate_s")
        log_run(trace)
        metrics = write_results(folder, plan, trace)
        clock.lap("write_s")
        wall_clock = {name: trace.info[name] for name in WALL_CLOCK_INFO if name in trace.info}
        write_json(folder / "timing.json", clock.laps | wall_clock)
    dropped = dict(plan.load.n_dropped)
    return SingleRun(plan.out, options.seed, policy, trace.load.n_items, dropped, metrics, simulation_s)


def _train(plan: RunPlan, clock: StageClock, progress: Progress, **choices: Any) -> tuple[list[SingleRun], Trained]:
    """Train, simulate the trained agent, and write the folder; ``choices`` are those of `TrainingRun`."""
    out = plan.out
    with insights(plan.request.log_level, out):
        with announcing(progress.message):
            run = TrainingRun(plan, progress=progress, **choices)
        clock.lap("read_s")
        plan.setting.simulator.warm_up((), progress.message)
        clock.lap("compile_s")
        training = run.training
        if training.is_done:
            progress.message(
                f"nothing is left to train: {training.reached.n_iterations:,} iterations are done, "
                f"{training.n_iterations:,} requested (--set learning.iterations=N requests more)"
            )
        else:
            _announce(plan, f"training {plan.agent.name} on", progress)
        if run.device_name() is not None:
            progress.message(f"learning on {run.device}")
        trained = run.run()
        train_s = clock.lap("train_s")
        if trained.trace is None:
            return [], trained
        log_run(trained.trace)
        metrics = write_results(out, plan, trained.trace, trained.model, run.provenance())
        clock.lap("write_s")
        write_json(out / "timing.json", clock.laps)
        run.folder.write_manifest(is_final=True)
    n_jobs, dropped = trained.trace.load.n_items, dict(plan.load.n_dropped)
    return [SingleRun(out, plan.request.seed, plan.agent.name, n_jobs, dropped, metrics, train_s)], trained


def _count(n: Any, things: str) -> str:
    """Return a number with its noun; names of machines' facts are plural."""
    return f"{n:,} {things.removesuffix('s') if n == 1 else things}"


def _announce(plan: RunPlan, doing: str, progress: Progress) -> None:
    """Announce the simulation, its size, and whether it is smaller than the options ask for."""
    machine, load = plan.machine, plan.load
    missed = plan.request.unmet(load.n_items)
    if missed is not None:
        progress.message(missed)
    size = ", ".join(_count(value, key.removeprefix("n_")) for key, value in machine.facts().items() if key != "name")
    offered = plan.setting.inputs.offered_load(machine, load)
    load_words = f", offered load {offered:.3g}" if offered is not None and math.isfinite(offered) else ""
    progress.message(
        f"{doing} {load.n_items:,} jobs {'on' if doing == 'simulating' else 'and'} {size} of {machine.name}{load_words}"
    )
    if load_words and offered is not None and offered >= 1:
        progress.message("the offered load is 1 or more: queues grow as long as jobs arrive")
