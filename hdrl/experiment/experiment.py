"""From options to a run folder."""

from __future__ import annotations

import math
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hdrl.base.errors import OptionsError
from hdrl.base.files import write_json
from hdrl.experiment.decider import decider_of
from hdrl.experiment.run.agentfile import AgentChoice, AgentKind
from hdrl.experiment.run.choice import choose_agent, may_learn, resolve_options, run_seeds, with_kind
from hdrl.experiment.run.folder import check_free, new_folder
from hdrl.experiment.run.insights import insights, tell_run
from hdrl.experiment.run.progress import Progress
from hdrl.experiment.run.results import WALL_CLOCK_INFO, write_results
from hdrl.experiment.train.decisions import DECISION_FILES
from hdrl.options.file import OptionsFile
from hdrl.setting import Load, Machine, find_setting

if TYPE_CHECKING:
    from hdrl.experiment.train.run import Trained


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
        """How many rows of the workload were left out."""
        return sum(self.dropped.values())


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished experiment.

    Attributes
    ----------
    folder
        Its folder.
    runs
        Its runs; none if a training was stopped before its end.
    training
        What the training has come to; ``None`` if nothing was trained.
    """

    folder: Path
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
    """Run an experiment and write what came of it into a new folder.

    The folder of a single run holds Batsim's files, ``overutilizations.json``, ``metrics.json``, the options
    (``options.resolved.json``), where the result comes from (``provenance.json``), and the only file that differs
    when the same run is repeated: ``timing.json``. Simulators other than the embedded one leave what they were given
    and what else they printed. Several runs get a folder each, ``run_0`` and so on. A folder appears when it is
    complete; what was finished before an error or an interruption stays.

    A training has one folder, with the model, its checkpoint and its logs, and what the model does, too: the files
    of a single run. It is made when the training begins, and can be resumed until it is complete.

    Parameters
    ----------
    options
        The options.
    out
        The folder; it must not exist, or be empty, unless it is that of a training to resume.
    progress
        Progress callbacks.
    resumes
        Whether to resume the training in the folder.
    on
        Where several workers of a training live: ``"local"``, in this process, ``"ray"`` or ``"ray:<address>"``.
    hdeeprm_model
        Whether ``agent.output_model`` is written in the layout that HDeepRM 0.3.1 loads.

    Raises
    ------
    HdrlError
        If the options, the platform, the workload or the agent are wrong, or the folder cannot be written.
    """
    out, progress = Path(out), progress or Progress()
    if not resumes:
        check_free(out)
    options = resolve_options(options)
    if may_learn(options):
        agent = choose_agent(options)
        options = with_kind(options, agent)
        if _trains(options, agent):
            with insights(options.log_level, out):
                return _train(options, agent, out, progress, resumes=resumes, on=on, hdeeprm_model=hdeeprm_model)
    if resumes:
        raise OptionsError(f"{out}: is not the folder of a training")
    if hdeeprm_model:
        raise OptionsError("--hdeeprm-model is for trainings, and nothing is trained here")
    if on != "local":
        raise OptionsError(f"--on {on} is for trainings by several workers, and nothing is trained here")
    seeds = run_seeds(options)
    if len(seeds) == 1:
        return RunResult(out, (_single_run(options, out, progress),))
    runs = []
    for index, seed in enumerate(seeds):
        progress.message(f"run {index + 1} of {len(seeds)}, seed {seed}")
        one = options.changed(seed=seed, runs=1)
        runs.append(_single_run(one, out / f"run_{index}", progress))
    return RunResult(out, tuple(runs))


def check_experiment(options: OptionsFile) -> OptionsFile:
    """Read everything that an experiment needs, and refuse what `run_experiment` would, but run and write nothing.

    Returns
    -------
    OptionsFile
        The options, resolved.

    Raises
    ------
    HdrlError
        If the options, the platform, the workload or the agent are wrong.
    """
    options = resolve_options(options)
    agent = choose_agent(options)
    if _trains(options, agent):
        from hdrl.experiment.train.run import TrainingRun

        # A folder that cannot be there: what is set up has touched nothing.
        TrainingRun(with_kind(options, agent), agent, Path(tempfile.gettempdir()) / uuid.uuid4().hex)
    else:
        _read(options)
        decider_of(options, agent)
    return options


def _trains(options: OptionsFile, agent: AgentChoice) -> bool:
    return agent.kind is not AgentKind.POLICY and options.agent_options.run == "train"


def _read(options: OptionsFile) -> tuple[Machine, Load]:
    setting = find_setting(options.setting_name)
    machine = setting.machine(options)
    return machine, setting.load(options, machine)


def _single_run(options: OptionsFile, out: Path, progress: Progress) -> SingleRun:
    clock = _Clock()
    setting = find_setting(options.setting_name)
    agent = choose_agent(options)
    policy = agent.policy if isinstance(agent.policy, str) else agent.name
    machine, load = _read(options)
    clock.lap("read_s")
    with new_folder(out) as folder, insights(options.log_level, folder):
        setting.warm_up([agent.policy], progress.message)
        clock.lap("compile_s")
        _tell(options, "simulating", machine, load, progress)
        left_out = [name for name in DECISION_FILES if name in options.also_write_names]
        if left_out and agent.kind is AgentKind.POLICY:
            progress.message(f"no {' and no '.join(left_out)} (also_write): {policy} is no agent with actions")
        decider = decider_of(options, agent)
        trace = decider.play(machine, load, seed=options.seed, progress=progress.jobs, folder=folder)
        simulation_s = clock.lap("simulate_s")
        tell_run(trace)
        metrics = write_results(folder, options, trace, agent)
        clock.lap("write_s")
        wall_clock = {name: trace.info[name] for name in WALL_CLOCK_INFO if name in trace.info}
        write_json(folder / "timing.json", clock.laps | wall_clock)
    return SingleRun(out, options.seed, policy, trace.load.n_items, dict(load.n_dropped), metrics, simulation_s)


def _train(
    options: OptionsFile,
    agent: AgentChoice,
    out: Path,
    progress: Progress,
    *,
    resumes: bool,
    on: str,
    hdeeprm_model: bool,
) -> RunResult:
    from hdrl.compiled.cache import announcing
    from hdrl.experiment.train.run import TrainingRun

    clock = _Clock()
    with announcing(progress.message):
        training = TrainingRun(
            options, agent, out, resumes=resumes, progress=progress, on=on, hdeeprm_model=hdeeprm_model
        )
    clock.lap("read_s")
    find_setting(options.setting_name).warm_up((), progress.message)
    clock.lap("compile_s")
    if training.training.is_done:
        progress.message(
            f"nothing is left to train: {training.training.reached.n_iterations:,} iterations are done, "
            f"{training.training.plan.n_iterations:,} asked for (--set learning.iterations=N asks for more)"
        )
    else:
        _tell(options, f"training {agent.name} on", training.world.machine, training.world.load, progress)
    if training.device_told() is not None:
        progress.message(f"learning on {training.device}")
    trained = training.run()
    train_s = clock.lap("train_s")
    if trained.trace is None:
        return RunResult(out, (), trained)
    tell_run(trained.trace)
    metrics = write_results(out, options, trained.trace, agent, trained.model, training.told())
    clock.lap("write_s")
    write_json(out / "timing.json", clock.laps)
    training.folder.write_manifest(is_final=True)
    dropped = dict(training.world.load.n_dropped)
    run = SingleRun(out, options.seed, agent.name, trained.trace.load.n_items, dropped, metrics, train_s)
    return RunResult(out, (run,), trained)


def _tell(options: OptionsFile, doing: str, machine: Machine, load: Load, progress: Progress) -> None:
    """Tell what is going to be simulated, how much work that is, and whether it is less than was asked for."""
    missed = options.unheard(load.n_items)
    if missed is not None:
        progress.message(missed)
    size = ", ".join(f"{value:,} {key.removeprefix('n_')}" for key, value in machine.facts().items() if key != "name")
    offered = find_setting(options.setting_name).offered_load(machine, load)
    told = f", offered load {offered:.3g}" if offered is not None and math.isfinite(offered) else ""
    progress.message(
        f"{doing} {load.n_items:,} jobs {'on' if doing == 'simulating' else 'and'} {size} of {machine.name}{told}"
    )
    if told and offered is not None and offered >= 1:
        progress.message("the offered load is 1 or more: queues grow as long as jobs arrive")


class _Clock:
    """Wall-clock seconds of the stages of a run."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last_s = time.perf_counter()

    def lap(self, name: str) -> float:
        """Note and return the seconds since the last call."""
        now_s = time.perf_counter()
        self.laps[name] = now_s - self._last_s
        self._last_s = now_s
        return self.laps[name]
