"""From options to a run folder."""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import HdrlError, OptionsError, UnknownName
from hdrl.experiment.agentfile import Agent, blame, load_agent
from hdrl.experiment.folder import check_free, new_folder
from hdrl.experiment.inputs import load_platform, load_workload
from hdrl.experiment.progress import Progress
from hdrl.experiment.provenance import platform_sha256, versions, without_places, workload_sha256
from hdrl.files import write_json
from hdrl.options import Options
from hdrl.seeding import seed_sequence

if TYPE_CHECKING:
    from hdrl.platform.model import Platform
    from hdrl.simulation.trace import Trace
    from hdrl.workload.model import Workload

WALL_CLOCK_INFO = ("scheduling_time_s", "simulation_time_s")
"""What a Trace tells about the wall clock: it goes into timing.json, so that the other files repeat exactly."""


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
    n_jobs, n_dropped
        Jobs that were simulated, and rows of the workload that were left out.
    metrics
        Metrics by name; NaN where one has no value.
    simulation_s
        Wall-clock seconds that the simulation took.
    """

    folder: Path
    seed: int
    policy: str
    n_jobs: int
    n_dropped: int
    metrics: dict[str, float]
    simulation_s: float


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished experiment: its folder and its runs."""

    folder: Path
    runs: tuple[SingleRun, ...]

    @property
    def metrics(self) -> dict[str, float]:
        """Mean of each metric over the runs."""
        return {
            name: math.fsum(run.metrics[name] for run in self.runs) / len(self.runs) for name in self.runs[0].metrics
        }


def run_experiment(options: Options, *, out: str | Path, progress: Progress | None = None) -> RunResult:
    """Run an experiment and write what came of it into a new folder.

    The folder of a single run holds Batsim's files, ``overutilizations.json``, ``metrics.json``, the options
    (``options.resolved.json``), where the result comes from (``provenance.json``), and the only file that differs
    when the same run is repeated: ``timing.json``. Simulators other than the embedded one leave what they were given
    and what they printed besides. Several runs get a folder each, ``run_0`` and so on. A folder appears when it is
    complete; what was finished before an error or an interruption stays.

    Parameters
    ----------
    options
        The options.
    out
        The folder; it must not exist, or be empty.
    progress
        Whom to tell how far it is.

    Raises
    ------
    HdrlError
        If the options, the platform, the workload or the agent are wrong, or the folder cannot be written.
    """
    out = Path(out)
    check_free(out)
    options = resolve_options(options)
    seeds = run_seeds(options)
    if len(seeds) == 1:
        return RunResult(out, (_single_run(options, out, progress),))
    runs = []
    for index, seed in enumerate(seeds):
        if progress is not None:
            progress.message(f"run {index + 1} of {len(seeds)}, seed {seed}")
        one = options.changed(seed=seed, runs=1)
        runs.append(_single_run(one, out / f"run_{index}", progress))
    return RunResult(out, tuple(runs))


def run_seeds(options: Options) -> list[int]:
    """Return the seed of each run.

    A single run has the seed of the options. Of several, run ``i`` has the first 32 bits of the stream
    ``run/<i>``; in the compatibility mode all have the same seed, as in HDeepRM.

    Parameters
    ----------
    options
        The options.
    """
    if options.runs == 1 or options.compatibility is not None:
        return [options.seed] * options.runs
    return [int(seed_sequence(options.seed, f"run/{index}").generate_state(1)[0]) for index in range(options.runs)]


def resolve_options(options: Options) -> Options:
    """Return the options with all that they imply made explicit, so that equal experiments have equal options.

    The kind of agent, the policy of the classic agent by today's name, and no copy of the seed.

    Parameters
    ----------
    options
        The options.

    Raises
    ------
    OptionsError
        If a classic agent without a file does not have exactly one policy.
    """
    agent: dict[str, object] = {"type": options.agent_type}
    if options.agent_type == "CLASSIC" and options.pybatsim.agent.file is None:
        agent["policy_pair"] = _classic_policy(options)
    decisions = options.pybatsim.model_dump()
    return options.changed(pybatsim=decisions | {"seed": None, "agent": decisions["agent"] | agent})


def choose_agent(options: Options) -> Agent:
    """Return the agent that the options ask for.

    Parameters
    ----------
    options
        The options.

    Raises
    ------
    OptionsError
        If they ask for a learning agent, for a model, or do not name exactly one policy.
    HdrlError
        If the agent file is wrong.
    """
    if options.agent_type == "LEARNING":
        raise OptionsError(
            f"{options.where}: pybatsim.agent asks for a LEARNING agent; this version has classic agents and "
            "policies in Python only"
        )
    agent = options.pybatsim.agent
    for key, model in (("input_model", agent.input_model), ("output_model", agent.output_model)):
        if model is not None:
            raise OptionsError(f"{options.where}: pybatsim.agent.{key} is {model!r}, but a classic agent has no model")
    if agent.file is not None:
        return load_agent(options.path_of(agent.file), lambda: _classic_policy(options))
    return Agent("classic", _classic_policy(options))


def _classic_policy(options: Options) -> str:
    from hdrl.policies import normalise_policy_name

    written = options.policy_pair()
    try:
        return normalise_policy_name(written)
    except UnknownName as error:
        raise OptionsError(f"{options.where}: pybatsim.agent.policy_pair: {error}") from None


def _single_run(options: Options, out: Path, progress: Progress | None) -> SingleRun:
    clock = _Clock()
    agent = choose_agent(options)
    platform = load_platform(options)
    workload = load_workload(options, platform)
    clock.lap("read_s")
    with new_folder(out) as folder:
        _warm_up(progress)
        clock.lap("compile_s")
        if progress is not None:
            _tell_of_missing_jobs(options, workload, progress)
            progress.message(f"simulating {workload.n_jobs:,} jobs on {platform.n_cores:,} cores of {platform.name}")
        trace = _simulate(options, platform, workload, agent, progress, folder)
        simulation_s = clock.lap("simulate_s")
        metrics = _write(folder, options, trace, agent)
        clock.lap("write_s")
        wall_clock = {name: trace.info[name] for name in WALL_CLOCK_INFO if name in trace.info}
        write_json(folder / "timing.json", clock.laps | wall_clock)
    policy = agent.policy if isinstance(agent.policy, str) else agent.name
    n_dropped = sum(workload.n_dropped.values())
    return SingleRun(out, options.seed, policy, workload.n_jobs, n_dropped, metrics, simulation_s)


def _tell_of_missing_jobs(options: Options, workload: Workload, progress: Progress) -> None:
    if options.nb_jobs is not None and options.workload.custom is None and workload.n_jobs < options.nb_jobs:
        progress.message(f"nb_jobs is {options.nb_jobs:,}, but the workload has {workload.n_jobs:,} usable jobs")


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


def _warm_up(progress: Progress | None) -> None:
    from hdrl.kernel import warm_up

    warm_up(progress.message if progress is not None else _ignore)


def _ignore(message: str) -> None:
    del message


def _outside(options: Options, platform: Platform, folder: Path) -> dict[str, Any]:
    """Return what a simulator outside the kernel needs to know."""
    if options.simulator == "embedded":
        return {}
    described = bool(platform.clusters)
    known: dict[str, Any] = {
        "simulator": options.simulator,
        "folder": folder,
        "platform_file": None if described else options.path_of(options.platform_file_path),
    }
    if options.simulator == "batsim":
        from hdrl.batsim.real import BatsimSettings

        chosen = options.batsim
        known["batsim"] = BatsimSettings(
            endpoint=chosen.endpoint,
            executable=_command(options, chosen.executable),
            arguments=tuple(chosen.arguments),
            timeout_s=chosen.timeout_s,
            wait_for=chosen.wait_for,
            folder=options.path_of(chosen.folder) if chosen.folder is not None else None,
        )
    return known


def _command(options: Options, text: str) -> str:
    """Return a command as it is looked for: a name on PATH, or a path that starts from the options file."""
    return str(options.path_of(text).absolute()) if "/" in text else text


def _simulate(
    options: Options,
    platform: Platform,
    workload: Workload,
    agent: Agent,
    progress: Progress | None,
    folder: Path,
) -> Trace:
    from hdrl.policies import simulate

    try:
        return simulate(
            platform,
            workload,
            policy=agent.policy,
            seed=options.seed,
            energy=options.energy,
            compatibility=options.compatibility,
            progress=progress.jobs if progress is not None else None,
            **_outside(options, platform, folder),
        )
    except HdrlError:
        raise
    except Exception as error:
        blamed = blame(error, agent.path) if agent.path is not None else None
        if blamed is None:
            raise
        raise blamed from error


def _write(folder: Path, options: Options, trace: Trace, agent: Agent) -> dict[str, float]:
    from hdrl.metrics import compute_metrics
    from hdrl.simulation.outputs import write_batsim_files, write_overutilizations

    repeatable = {name: value for name, value in trace.info.items() if name not in WALL_CLOCK_INFO}
    trace = dataclasses.replace(trace, info=repeatable)
    if options.simulator == "embedded":
        write_batsim_files(trace, folder)
    write_overutilizations(trace, folder / "overutilizations.json")
    metrics = {name: float(value) for name, value in compute_metrics(trace).items()}
    write_json(
        folder / "metrics.json", {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    )
    write_json(folder / "options.resolved.json", options.portable())
    write_json(folder / "provenance.json", _provenance(options, trace, agent))
    return metrics


def _simulator_version(trace: Trace) -> dict[str, str]:
    version = trace.info.get("batsim_version")
    return {} if version is None else {"batsim": str(version)}


def _provenance(options: Options, trace: Trace, agent: Agent) -> dict[str, Any]:
    platform, workload = trace.platform, trace.workload
    return {
        "versions": versions() | _simulator_version(trace),
        "seed": options.seed,
        "options": {"sha256": options.sha256()},
        "platform": {"name": platform.name, "n_cores": platform.n_cores, "sha256": platform_sha256(platform)},
        "workload": {
            "name": workload.name,
            "n_jobs": workload.n_jobs,
            "n_dropped": dict(workload.n_dropped),
            "sha256": workload_sha256(workload),
            "origin": without_places(workload.origin),
        },
        "agent": {
            "name": agent.name,
            "policy": agent.policy if isinstance(agent.policy, str) else None,
            "sha256": agent.sha256 or None,
        },
    }
