"""Simulators that speak Batsim's protocol, with the face of the embedded one; the first is the exact engine.

Each gets its platform and its workload as files, whatever they were read from, and is driven by a
`batsim.decision_system.DecisionSystem`. The other one, Batsim itself, is in `batsim.real`.
"""

from __future__ import annotations

import abc
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base.closing import Closing
from hdrl.base.errors import BatsimError, HdrlError, OutputError, PlatformError, SimulationError, WorkloadError
from hdrl.batsim.decision_system import DecisionSystem
from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.batsim.exact.extended import difference
from hdrl.batsim.results import NotedOutputs, SimulationLog, take_out_wall_clock, trace_of
from hdrl.batsim.turned import TurnedEngine
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.simgrid import write_simgrid
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.embedded import Progress, check_power, start_by
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.simulators import BatsimSettings
from hdrl.settings.batch.workload.batsim_description import write_batsim_json
from hdrl.settings.batch.workload.model import Workload

PREFIX = "out"
"""Prefix of the names of Batsim's files."""

PROGRESS_EVERY_S = 0.1


class ProtocolSimulator(Closing):
    """One simulation by a simulator that uses Batsim's protocol.

    ``view = simulator.reset()``, then ``view = simulator.step(decisions)`` until ``view.is_over``; the result is
    `trace`. Use it as a context manager, or `close` it, so that nothing of it stays.

    Parameters
    ----------
    platform, workload
        Machine and jobs; every job must fit the platform.
    seed
        Seed of what is random in a policy; streams are spawned from it by name.
    folder
        Folder for the files of the simulation; ``None``: they are discarded.
    platform_file
        SimGrid file of the platform; needed if hdrl did not describe the platform itself.
    rule
        Rules of a policy beyond its job key and its backfilling.

    Raises
    ------
    SimulationError
        If the platform does not say what its hosts draw, or Batsim could not follow the decisions (`DecisionSystem`).
    """

    name: str
    """Its name in options."""

    def __init__(
        self,
        platform: Platform,
        workload: Workload,
        *,
        seed: int = 0,
        energy: bool = True,
        compatibility: str | None = None,
        folder: Path | None = None,
        platform_file: Path | None = None,
        rule: PolicyRule = NO_RULE,
    ) -> None:
        if energy:
            check_power(platform)
        self._rule = rule
        self.platform = platform
        self.workload = workload
        self._energy = energy
        self._compatibility = compatibility
        self._seed = seed
        self._folder = folder
        self._platform_file = platform_file
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._trace: BatchTrace | None = None
        self._system = self._new_system()
        self._is_due = False

    def close(self) -> None:
        """End the simulation if it still goes on, and remove its temporary files."""
        self._stop()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def reset(self) -> View:
        """Begin from date 0 and return the first view.

        Raise HdrlError if the simulator cannot be started, or says something wrong.
        """
        self.close()
        self._trace = None
        self._system = self._new_system()
        self._take_in(lambda: self._start(self._folder_to_use()))
        return self._system.view

    def step(self, decisions: Iterable[Decision] = (), *, now_s: float | None = None) -> View:
        """Carry out decisions in order and return the view at the next message.

        The scheduler is busy with them until ``now_s``; ``None``: they take no time. Raise DecisionError at the first
        decision that cannot be followed, and carry out none after it; SimulationError if jobs wait and no event will
        follow; BatsimError if the simulator fails.
        """
        if self._system.is_over:
            raise SimulationError("the simulation is over")
        self._system.decide(decisions)
        self._go_on(now_s)
        return self._system.view

    def run_pair(
        self, job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING, *, progress: Progress | None = None
    ) -> None:
        """Simulate from date 0 to the end under a policy pair.

        ``progress`` is called with the numbers of finished and of all jobs, a few times a second.
        """
        reported_s = time.monotonic()
        for _ in self.decisions():
            self._system.schedule_pair(job_key, core_key, backfilling)
            if progress is not None and time.monotonic() - reported_s > PROGRESS_EVERY_S:
                reported_s = time.monotonic()
                progress(self.n_done, self.workload.n_jobs)
        if progress is not None:
            progress(self.n_done, self.workload.n_jobs)

    def decisions(self) -> Iterator[Borrowed[BatchState]]:
        """Simulate from date 0 to the end and stop at each decision.

        Yields
        ------
        Borrowed
            The arrays, whenever jobs have come or ended while jobs wait; compiled code writes its starts into the
            answer before the next one.

        Raises
        ------
        HdrlError
            If the simulator cannot be started, says something wrong, or jobs wait and no event will follow.
        """
        self.reset()
        while not self._system.is_over:
            if self._is_due:
                yield self._system.borrowed
            self._go_on(None)

    @property
    def is_due(self) -> bool:
        """True if a policy pair would decide now: jobs came or ended since the last decision, and jobs wait."""
        return self._is_due

    def start_by(
        self, priorities: NDArray[np.float64], job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING
    ) -> None:
        """Start waiting jobs by given priorities, the lowest first; `step` goes on then.

        Priorities are in the order of `View.waiting`; the job key is ``JOB_GIVEN``.
        """
        start_by(self._system.borrowed, priorities, job_key, core_key, backfilling)

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return self._system.n_done

    @property
    def trace(self) -> BatchTrace:
        """Trace of the simulation, once it is over."""
        if self._trace is None:
            raise SimulationError(f"the simulation is not over: the {self.name} simulator has a trace at its end only")
        return self._trace

    def _new_system(self) -> DecisionSystem:
        return DecisionSystem(
            self.platform,
            self.workload,
            seed=self._seed,
            energy=self._energy,
            compatibility=self._compatibility,
            rule=self._rule,
        )

    def _folder_to_use(self) -> Path:
        if self._folder is not None:
            return self._folder.absolute()
        self._temporary = tempfile.TemporaryDirectory(prefix="hdrl-")
        return Path(self._temporary.name)

    def _go_on(self, now_s: float | None) -> None:
        reply = self._system.reply(now_s)
        self._take_in(lambda: self._exchange(reply))

    def _take_in(self, next_message: Callable[[], str]) -> None:
        """Take in the next message; after the last one, finish. Whatever goes wrong, nothing is left running."""
        try:
            self._is_due = self._system.receive(next_message())
            if self._system.is_over:
                self._trace = self._finish(self._system.reply())
        except BatsimError as error:
            explained = self._explained(error)
            self._stop()
            raise explained from None
        except BaseException:
            self._stop()
            raise

    def _explained(self, error: BatsimError) -> BatsimError:
        """Return an error with what else is known about it."""
        return error

    def _write_inputs(self, folder: Path) -> tuple[Path, list[Path]]:
        """Write the platform and the workload; return their files."""
        platform_file = folder / "platform.xml"
        if self._platform_file is not None:
            try:
                shutil.copyfile(self._platform_file, platform_file)
            except OSError as error:
                raise OutputError(f"{platform_file}: cannot be written ({error.strerror or error})") from None
        else:
            write_simgrid(self.platform, platform_file)
        sources = self.workload.sources
        names = ["workload.json"] if len(sources) == 1 else [f"workload_{source}.json" for source in sources]
        for name, source in zip(names, sources, strict=True):
            self._write_workload(folder / name, source)
        return platform_file, [folder / name for name in names]

    def _write_workload(self, path: Path, source: str) -> None:
        write_batsim_json(self.workload, path, platform=self.platform, source=source)

    def _info(self, wall_clock: dict[str, float]) -> dict[str, Any]:
        times_s = {f"{column}_s": seconds for column, seconds in wall_clock.items()}
        return {"compatibility": self._compatibility, "simulator": self.name, **times_s}

    @abc.abstractmethod
    def _start(self, folder: Path) -> str:
        """Start the simulator in a folder and return its first message."""

    @abc.abstractmethod
    def _exchange(self, reply: str) -> str:
        """Give a reply and return the next message."""

    @abc.abstractmethod
    def _finish(self, reply: str) -> BatchTrace:
        """Give the last reply and return what happened."""

    @abc.abstractmethod
    def _stop(self) -> None:
        """End the simulator, whatever it does."""


class ExactSimulator(ProtocolSimulator):
    """The exact engine: Batsim's own model, to the last digit, latencies included.

    See `ProtocolSimulator` for the parameters.
    """

    name = "exact"

    def _start(self, folder: Path) -> str:
        platform_file, workload_files = self._write_inputs(folder)
        options = BatsimOptions(platform=platform_file, workloads=tuple(workload_files), energy=self._energy)
        self._prefix = folder / PREFIX
        try:
            self._simulation = ExactBatsim(options)
        except (PlatformError, WorkloadError) as error:
            raise self._of_given_files(error, platform_file, workload_files) from None
        self._outputs = self._simulation.context.outputs = NotedOutputs(energy=self._energy)
        self._engine = TurnedEngine(self._simulation)
        return self._next(None)

    def _of_given_files(self, error: HdrlError, platform_file: Path, workload_files: list[Path]) -> HdrlError:
        """Return an error about our copies of the inputs with the names of the files that they were read from."""
        origin, n_files = self.workload.origin, len(workload_files)
        parts = origin.get("parts", [origin])
        known = parts if isinstance(parts, list) and len(parts) == n_files else [{}] * n_files
        given = {platform_file: self._platform_file or self.platform.name}
        given |= {path: part.get("file", self.workload.name) for path, part in zip(workload_files, known, strict=True)}
        for path, name in given.items():
            if str(error).startswith(f"{path}: "):
                return type(error)(f"{name}{str(error)[len(str(path)) :]}")
        return error

    def _exchange(self, reply: str) -> str:
        return self._next(reply)

    def _next(self, reply: str | None) -> str:
        message = self._engine.next(reply)
        if isinstance(message, Result):
            raise SimulationError(self._system.deadlock_message() if self._system.is_stuck else message.deadlock())
        return message

    def _finish(self, reply: str) -> BatchTrace:
        result = self._engine.next(reply)
        if isinstance(result, str):
            raise BatsimError("the exact engine sent a message after SIMULATION_ENDS")
        result.outputs.write(str(self._prefix), result.schedule)
        wall_clock = take_out_wall_clock(self._prefix.with_name(f"{PREFIX}_schedule.csv"))
        return trace_of(self._log(result), self._system, self._info(wall_clock))

    def _log(self, result: Result) -> SimulationLog:
        """Return the notes of the engine, with its sums."""
        log, machines = self._outputs.log, self._simulation.context.machines
        start_j = result.outputs.first_submission_j
        log.consumed_j = 0.0 if start_j is None else difference(result.outputs.last_end_j, start_j)
        log.end_s = result.end_s
        log.n_grouped_switches, log.n_machine_switches = machines.n_grouped_switches, machines.n_machine_switches
        log.time_in_state_s = machines.time_in_states_s()
        meter = self._simulation.context.meter
        if self._energy:
            log.host_energy_j = np.array([meter.peek_j(machine.id, result.end_s) for machine in machines.all])
        return log

    def _stop(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.close()


def exact_simulator(
    platform: Platform, workload: Workload, *, batsim: BatsimSettings | None, **common: Any
) -> ExactSimulator:
    """Return the exact engine, to which Batsim's settings say nothing."""
    del batsim
    return ExactSimulator(platform, workload, **common)
