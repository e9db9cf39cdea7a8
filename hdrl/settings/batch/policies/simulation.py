"""One call from a platform, a workload and a policy to a Trace."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError, quoted, readable
from hdrl.base.pyfiles import AgentError, check_call, is_policy_file, located_errors, split_policy_file
from hdrl.settings.batch.kernel.beginning import NO_RULE
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.policies.choices import SITE_POLICIES, PolicyPair
from hdrl.settings.batch.policies.pairs import VOID, parts_of_name
from hdrl.settings.batch.policies.predicted import OwnPrediction, PredictorAdapter
from hdrl.settings.batch.policies.priorities import OwnPriority
from hdrl.settings.batch.policies.pyfile import read_policy
from hdrl.settings.batch.policies.python_policies import is_in_python, policy_in_python
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator, Progress
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.simulators import SIMULATORS, BatsimProgram, BatsimSettings, SlurmSettings
from hdrl.settings.batch.site_rules.simulator import UnsupportedPolicy
from hdrl.settings.batch.workload.fit import check_fits
from hdrl.settings.batch.workload.model import Workload

PolicyFunction: TypeAlias = Callable[[View], Iterable[Decision]]
"""A policy in Python: it is shown a `View` at every message and returns decisions."""

Policy: TypeAlias = PolicyPair | OwnPriority | OwnPrediction | BatsimProgram | PolicyFunction

PROGRESS_EVERY_S = 0.1


def is_conservative(policy: object) -> bool:
    """Tell whether a policy backfills conservatively, in which case the kernel has more to compile."""
    if isinstance(policy, OwnPriority):
        return policy.backfilling == "conservative"
    return isinstance(policy, str) and "conservative" in parts_of_name(policy)


def start_nothing(view: View) -> list[Decision]:
    """Start nothing: the void policy."""
    del view
    return []


def simulate(
    platform: Platform,
    workload: Workload,
    policy: str | Policy = "shortest-high_gflops",
    *,
    seed: int = 0,
    energy: bool = True,
    compatibility: str | None = None,
    progress: Progress | None = None,
    simulator: str = "embedded",
    batsim: BatsimSettings | None = None,
    slurm: SlurmSettings | None = None,
    folder: str | Path | None = None,
    platform_file: str | Path | None = None,
) -> BatchTrace:
    """Simulate a workload on a platform under a policy.

    All simulators give the same trace, but Batsim's own files hold only six decimals of dates, and six digits of dates
    in the logs of machine states and P-states.

    Parameters
    ----------
    policy
        The name of a policy (`policies.policy_names`), or one of the kernel (`policies.read_pair`); the path of a
        Python file that defines one (`policies.pyfile`), for instance ``"my.py+easy"``; a function that gets a
        `hdrl.View` at each event and returns a list of decisions; a priority, as `hdrl.batch.OwnPriority(function)`;
        a predictor (`policies.OwnPrediction`); or a scheduler in C++ (`simulators.BatsimProgram`).
    seed
        Seed of random policies.
    compatibility
        ``None``, or one of `simulators.COMPATIBILITY_MODES`; the platform and the workload must have been read
        in the same mode.
    progress
        Called with the numbers of finished and of all jobs, a few times a second.
    simulator
        One of `hdrl.settings.batch.simulators.SIMULATORS`; ``"site"`` takes the place of ``"embedded"`` where the
        platform has the rules of a site (`dataclasses.replace` it with ``site=None`` to simulate without them).
    folder
        Folder for the files of a simulator outside the kernel; ``None``: they are discarded.
    platform_file
        SimGrid file of a platform that hdrl did not describe itself, for a simulator outside the kernel.

    Raises
    ------
    UnknownName
        If there is no such policy or simulator.
    WorkloadError
        If the platform can never run a job.
    DecisionError
        If a Python policy decides something impossible.
    AgentError
        If a Python file defines no policy or fails while it decides, or a function does not take one view.
    SimulationError
        If jobs are waiting and nothing will ever happen again.
    BatsimError
        If Batsim cannot be started, or sends a wrong message.
    OptionsError
        If the platform has the rules of a site, and the simulator or the policy cannot follow them; or if an argument
        has a wrong type.
    """
    folder = None if folder is None else Path(folder)
    platform_file = None if platform_file is None else Path(platform_file)
    _check_arguments(platform, workload, policy)
    check_fits(workload, platform)
    simulator = simulator_for(simulator, platform, policy)
    if SIMULATORS[simulator].own_policies:
        return _simulate_autonomous(simulator, platform, workload, policy, progress, slurm=slurm, folder=folder)
    chosen_policy = _policy(policy, seed, compatibility)
    choices: dict[str, Any] = {"seed": seed, "energy": energy, "compatibility": compatibility}
    choices |= {"batsim": batsim, "folder": folder, "platform_file": platform_file}
    pair = chosen_policy.pair if isinstance(chosen_policy, OwnPrediction) else chosen_policy
    if isinstance(pair, PolicyPair) and pair.rule != NO_RULE:
        choices["rule"] = pair.rule
    with (
        located_errors(_file(policy)),
        _named_policy(policy),
        contextlib.closing(SIMULATORS[simulator].make(platform, workload, **choices)) as chosen,
    ):
        if isinstance(chosen_policy, PolicyPair):
            chosen.run_pair(*chosen_policy.numbers, progress=progress)
        elif simulator == "site" and isinstance(chosen_policy, (OwnPrediction, BatsimProgram)):
            what = "a predictor in Python" if isinstance(chosen_policy, OwnPrediction) else "a scheduler in C++"
            raise OptionsError(
                f"{_called(policy)} is {what}, which does not obey the rules of a site that platform "
                f"{platform.name!r} has; --set site_rules=false simulates without them"
            )
        elif isinstance(chosen_policy, OwnPriority):
            _run_priority(chosen, chosen_policy, progress)
        elif isinstance(chosen_policy, OwnPrediction):
            _run_prediction(chosen, chosen_policy, progress)
        elif isinstance(chosen_policy, BatsimProgram):
            chosen_policy.play(chosen)
        else:
            _run_function(chosen, chosen_policy, progress)
        trace: BatchTrace = chosen.trace
        return trace


def _check_arguments(platform: object, workload: object, policy: Any) -> None:
    """Refuse names of files in place of what was read from them, and a function that takes no view.

    Raises
    ------
    OptionsError, AgentError
        If there is one.
    """
    if not isinstance(platform, Platform):
        raise OptionsError(f"platform is {quoted(platform)}, expected what hdrl.read_platform returns")
    if not isinstance(workload, Workload):
        raise OptionsError(f"workload is {quoted(workload)}, expected what hdrl.read_workload returns")
    code = getattr(policy, "__code__", None)
    if code is not None:
        try:
            check_call(policy, "view", Path(code.co_filename))
        except AgentError as error:
            raise AgentError(f"{error}; pass a priority as hdrl.batch.OwnPriority(priority)") from None
    elif not (callable(policy) or isinstance(policy, (str, PolicyPair, OwnPriority, OwnPrediction, BatsimProgram))):
        raise OptionsError(f"policy is {quoted(policy)}, expected a name, a function policy(view) or an OwnPriority")


def needs_site(policy: object, platform: Platform) -> bool:
    """Tell whether only the simulator `site` follows a policy, or the rules that a machine has."""
    return platform.site is not None or (isinstance(policy, str) and policy in SITE_POLICIES)


def simulator_for(name: str, platform: Platform, policy: object) -> str:
    """Return the simulator that plays a policy on a machine: ``"site"`` instead of ``"embedded"`` where it is needed.

    Raises
    ------
    OptionsError
        If that one does not follow the rules that the machine has, or does not know the policy.
    """
    if not needs_site(policy, platform) or SIMULATORS[name].follows_site_rules or SIMULATORS[name].own_policies:
        return name
    if name == "embedded":
        return "site"
    if platform.site is None:
        raise OptionsError(f"policy {policy!r} is simulated by 'site' or 'embedded' only, found simulator {name!r}")
    raise OptionsError(
        f"platform {platform.name!r} has the rules of a site, which simulator {name!r} does not follow; "
        "--set site_rules=false simulates without them"
    )


def _simulate_autonomous(
    name: str,
    platform: Platform,
    workload: Workload,
    policy: str | Policy,
    progress: Progress | None,
    *,
    slurm: SlurmSettings | None,
    folder: Path | None,
) -> BatchTrace:
    """Simulate by a simulator that decides itself.

    Raises
    ------
    HdrlError
        If the policy is not one of its own, and it cannot be made to follow it.
    """
    kind = SIMULATORS[name]
    choices: dict[str, Any] = {"slurm": slurm, "folder": folder}
    name_of_policy = policy if isinstance(policy, str) else getattr(policy, "name", _called(policy))
    if policy not in kind.own_policies and not kind.deploys:
        raise DecisionError(
            f"simulator {name!r} schedules by its own policy {' or '.join(map(repr, kind.own_policies))}, found "
            f"{_called(policy)}; other policies need a simulator that carries out decisions, such as 'embedded'"
        )
    deployed = kind.deployed(policy)
    if deployed is not None:
        choices["deployed"] = deployed(platform, workload, slurm or SlurmSettings())
    with contextlib.closing(kind.make(platform, workload, **choices)) as chosen:
        chosen.run(name_of_policy, progress)
        trace: BatchTrace = chosen.trace
        return trace


@contextlib.contextmanager
def _named_policy(policy: str | Policy) -> Iterator[None]:
    """Name the policy if the simulator `site` does not have it."""
    try:
        yield
    except UnsupportedPolicy:
        raise UnsupportedPolicy(_called(policy)) from None


def _called(policy: str | Policy) -> str:
    return readable(repr(policy)) if isinstance(policy, str) else "a policy in Python"


def _file(policy: str | Policy) -> Path | None:
    """Return the file that a policy is given by, ``None`` if it is not."""
    return Path(split_policy_file(policy)[0]) if isinstance(policy, str) and is_policy_file(policy) else None


def _policy(policy: str | Policy, seed: int, compatibility: str | None) -> Policy:
    """Return the policy for a policy in any form."""
    if not isinstance(policy, str):
        return policy
    if is_in_python(policy):
        return policy_in_python(policy, seed=seed, compatibility=compatibility)
    return start_nothing if policy == VOID else read_policy(policy)


def embedded_simulator(
    platform: Platform,
    workload: Workload,
    *,
    batsim: BatsimSettings | None,
    folder: Path | None,
    platform_file: Path | None,
    **common: Any,
) -> EmbeddedSimulator:
    """Return the compiled kernel; it needs no files."""
    del batsim, folder, platform_file
    return EmbeddedSimulator(platform, workload, **common)


class PolicySimulator(Protocol):
    """Simulator interface for policies in Python: of `EmbeddedSimulator`, and of those behind `SIMULATORS`."""

    workload: Workload

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        ...

    @property
    def is_due(self) -> bool:
        """True if a policy pair would decide now."""
        ...

    def reset(self) -> View:
        """Begin from date 0 and return the first view."""
        ...

    def step(self, decisions: Iterable[Decision] = ()) -> View:
        """Carry out decisions and return the view at the next message."""
        ...

    def start_by(self, priorities: NDArray[np.float64], job_key: int, core_key: int, backfilling: int) -> None:
        """Start waiting jobs by given priorities."""


def _run_priority(simulator: PolicySimulator, own: OwnPriority, progress: Progress | None) -> None:
    """Simulate under a priority in Python; all else is decided by the kernel."""

    def decide(view: View) -> list[Decision]:
        if simulator.is_due:
            simulator.start_by(own.of(view), *own.numbers)
        return []

    _run_function(simulator, decide, progress)


def _run_prediction(simulator: PolicySimulator, own: OwnPrediction, progress: Progress | None) -> None:
    """Simulate a classic policy that uses a predictor in Python."""
    if not isinstance(simulator, EmbeddedSimulator):
        raise DecisionError(f"{own.name}: predictors in Python are simulated by 'embedded' alone")
    _run_function(simulator, PredictorAdapter(simulator, own).decide, progress)


def _run_function(simulator: PolicySimulator, policy: PolicyFunction, progress: Progress | None) -> None:
    """Simulate under a policy in Python."""
    reported_s = time.monotonic()
    view = simulator.reset()
    while not view.is_over:
        view = simulator.step(_decisions(policy, view))
        if progress is not None and time.monotonic() - reported_s > PROGRESS_EVERY_S:
            reported_s = time.monotonic()
            progress(simulator.n_done, simulator.workload.n_jobs)
    if progress is not None:
        progress(simulator.n_done, simulator.workload.n_jobs)


def _decisions(policy: PolicyFunction, view: View) -> Iterable[Decision]:
    """Ask a policy in Python."""
    found: Any = policy(view)  # whatever a user's function returns
    if isinstance(found, Iterable) and not isinstance(found, (str, bytes)):
        return found
    code = getattr(policy, "__code__", None)
    where = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
    name = getattr(policy, "__name__", type(policy).__name__)
    if inspect.iscoroutine(found):
        found.close()  # else Python warns of it when it is collected
    raise AgentError(f"{where}{name}(view) returned {readable(repr(found))}, expected a list of decisions")
