"""Batsim itself as a simulator: started by us, or connecting from elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hdrl.base.errors import BatsimError, OutputError, SimulationError
from hdrl.base.process import Process
from hdrl.batsim.client import ReplySocket
from hdrl.batsim.dialects import new_dialect
from hdrl.batsim.process import find_executable, version_of
from hdrl.batsim.results import add_rejected, read_log, take_out_wall_clock, trace_of
from hdrl.batsim.simulators import PREFIX, ProtocolSimulator
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulators import BatsimSettings
from hdrl.settings.batch.workload.model import Workload

LOG_NAME = "batsim.log"
"""The file that gets what Batsim prints."""

_LOOK_EVERY_S = 0.05


class BatsimSimulator(ProtocolSimulator):
    """Batsim itself, started by us or connecting from elsewhere.

    Raises
    ------
    SimulationError
        If Batsim could not follow the decisions.
    BatsimError
        If the settings contradict each other.
    """

    name = "batsim"

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
        settings: BatsimSettings | None = None,
        rule: PolicyRule = NO_RULE,
    ) -> None:
        super().__init__(
            platform,
            workload,
            seed=seed,
            energy=energy,
            compatibility=compatibility,
            folder=folder,
            platform_file=platform_file,
            rule=rule,
        )
        self._settings = settings if settings is not None else BatsimSettings()
        self._dialect = new_dialect(self._settings.protocol)
        self._listener: ReplySocket | None = None
        self._process: Process | None = None
        self._where = self._results = Path()
        self._log = Path(LOG_NAME)
        self._version: str | None = None
        if (self._settings.wait_for == "connect") != (self._settings.folder is not None):
            raise BatsimError(
                "batsim.folder is for a Batsim that connects from elsewhere (batsim.wait_for 'connect'), which needs it"
            )

    @property
    def endpoint(self) -> str | None:
        """Address at which the decision system listens, ``None`` before the start."""
        return self._listener.endpoint if self._listener is not None else None

    def _start(self, folder: Path) -> str:
        settings = self._settings
        self._log = folder / LOG_NAME
        self._results = folder
        self._where = folder if settings.folder is None else settings.folder.absolute()
        self._version = None
        self._dialect = new_dialect(settings.protocol)
        executable = ""
        if settings.wait_for == "start":
            executable = find_executable(settings.executable)
            self._version = version_of(executable, timeout_s=settings.timeout_s, versions=self._dialect.versions)
        self._refuse_old_files()
        self._listener = ReplySocket(settings.endpoint, timeout_s=settings.timeout_s)
        inputs = self._write_inputs(self._where)
        if executable:
            command = [executable, *self._arguments(*inputs), *settings.arguments]
            self._process = Process(command, folder=self._where, log=self._log)
        self._dialect.greet(self._listener, self._looking())
        return self._receive()

    def _arguments(self, platform_file: Path, workload_files: list[Path]) -> Iterator[str]:
        endpoint = _reachable_address(str(self.endpoint))
        return self._dialect.arguments(
            platform_file, workload_files, endpoint, self._where / PREFIX, energy=self._energy
        )

    def _write_workload(self, path: Path, source: str) -> None:
        self._dialect.write_workload(self.workload, path, self.platform, source)

    def _refuse_old_files(self) -> None:
        if not self._where.is_dir():
            raise OutputError(f"{self._where}: no such folder")
        old = sorted([*self._where.glob(f"{PREFIX}_*.csv"), *self._where.glob(f"{PREFIX}_*.json")])
        if old:
            raise OutputError(f"{old[0]}: is there already and would be taken for a file of this run; remove it first")

    def _receive(self) -> str:
        return self._dialect.decode(self._listening().receive(self._looking()))

    def _looking(self) -> Callable[[], None] | None:
        return self._check_process if self._process is not None else None

    def _listening(self) -> ReplySocket:
        if self._listener is None:
            raise SimulationError("the simulation has not begun, or was closed")
        return self._listener

    def _check_process(self) -> None:
        """Raise if the process has ended, for it has nothing to say any more."""
        if self._process is None or self._process.poll() is None:
            return
        if self._system.is_stuck:
            raise SimulationError(self._system.deadlock_message())
        raise BatsimError(f"t={self._system.now_s:g} s: {self._process.describe_exit()} before SIMULATION_ENDS")

    def _explained(self, error: BatsimError) -> BatsimError:
        """Return an error with what Batsim itself said last."""
        return error if self._process is None else BatsimError(f"{error}; {self._process.log_tail()}")

    def _exchange(self, reply: str) -> str:
        more = self._dialect.more(reply)
        if more is not None:
            return more
        self._listening().reply(self._dialect.encode(reply))
        return self._receive()

    def _finish(self, reply: str) -> BatchTrace:
        self._listening().reply(self._dialect.encode(reply))
        if self._process is not None:
            self._await_end(self._process)
        else:
            self._await_files()
        self._listening().close(after_last_reply=True)
        self._listener = None
        self._fetch_files()
        self._dialect.settle(self._results / PREFIX)
        wall_clock = take_out_wall_clock(self._results / f"{PREFIX}_schedule.csv")
        log = read_log(self._results / PREFIX, energy=self._energy, n_cores=self.platform.n_cores)
        add_rejected(log, self._system)
        log.end_s = self._system.now_s
        return trace_of(log, self._system, self._info(wall_clock))

    def _info(self, wall_clock: dict[str, float]) -> dict[str, Any]:
        return super()._info(wall_clock) | {"batsim_version": self._version}

    def _await_end(self, process: Process) -> None:
        code = process.wait(self._settings.timeout_s)
        if code is None:
            raise BatsimError(f"{process.name} has not ended within {self._settings.timeout_s:g} s of SIMULATION_ENDS")
        if code != 0:
            raise BatsimError(f"{process.describe_exit()} after SIMULATION_ENDS")

    def _await_files(self) -> None:
        """Wait until a Batsim that runs elsewhere has written its files; it writes the schedule file at the end."""
        deadline_s = time.monotonic() + self._settings.timeout_s
        before: list[int] = []
        while True:
            sizes = [path.stat().st_size if path.exists() else 0 for path in self._files()]
            if all(sizes) and sizes == before:
                return
            before = sizes
            if time.monotonic() >= deadline_s:
                missing = next((str(path) for path, size in zip(self._files(), sizes, strict=True) if not size), "")
                raise BatsimError(f"{missing}: not written within {self._settings.timeout_s:g} s of SIMULATION_ENDS")
            time.sleep(_LOOK_EVERY_S)

    def _fetch_files(self) -> None:
        if self._where == self._results:
            return
        for path in self._files():
            try:
                shutil.copyfile(path, self._results / path.name)
            except OSError as error:
                raise OutputError(f"{path}: cannot be copied ({error.strerror or error})") from None

    def _files(self) -> list[Path]:
        return self._dialect.files(self._where / PREFIX, energy=self._energy)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _reachable_address(endpoint: str) -> str:
    """Return the address to which a process of ours connects: one for all interfaces is reached at the loopback."""
    return endpoint.replace("tcp://0.0.0.0:", "tcp://127.0.0.1:").replace("tcp://[::]:", "tcp://[::1]:")


def batsim_simulator(
    platform: Platform, workload: Workload, *, batsim: BatsimSettings | None, **common: Any
) -> BatsimSimulator:
    """Return Batsim itself."""
    return BatsimSimulator(platform, workload, settings=batsim, **common)
