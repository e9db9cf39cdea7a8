"""Differences between the versions of Batsim: command line, workload, first words, messages, files."""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from hdrl.base.errors import BatsimError, ReadError
from hdrl.base.files import atomic_write, read_json
from hdrl.batsim.batprotocol import Batprotocol, check_first_message, hello
from hdrl.batsim.client import ReplySocket
from hdrl.batsim.process import NEWEST, OLDEST, Versions
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.workload.batsim5 import write_batsim5_json
from hdrl.settings.batch.workload.batsim_description import write_batsim_json
from hdrl.settings.batch.workload.model import Workload

Look = Callable[[], None] | None
_FILES = ("jobs", "schedule", "machine_states")
_ENERGY_FILES = ("pstate_changes", "consumed_energy")


class Dialect(abc.ABC):
    """One conversation with a Batsim of some version; the decision system always speaks as of Batsim 4."""

    versions: Versions
    """The first and the last version, major and minor."""

    @abc.abstractmethod
    def arguments(
        self, platform: Path, workloads: list[Path], endpoint: str, prefix: Path, *, energy: bool
    ) -> Iterator[str]:
        """Return the arguments of the command; files are to be named ``prefix_jobs.csv`` and so on."""

    @abc.abstractmethod
    def write_workload(self, workload: Workload, path: Path, platform: Platform, source: str) -> None:
        """Write one source of a workload for it."""

    @abc.abstractmethod
    def greet(self, listener: ReplySocket, look: Look) -> None:
        """Take in and answer what comes before the first message."""

    @abc.abstractmethod
    def decode(self, text: str) -> str:
        """Return Batsim's message in the words of Batsim 4."""

    @abc.abstractmethod
    def more(self, reply: str) -> str | None:
        """Keep a reply, if Batsim has said more already, and return that."""

    @abc.abstractmethod
    def encode(self, reply: str) -> str:
        """Return a reply in the words of Batsim."""

    @abc.abstractmethod
    def files(self, prefix: Path, *, energy: bool) -> list[Path]:
        """Return the files that it writes."""

    @abc.abstractmethod
    def settle(self, prefix: Path) -> None:
        """Make of its files what Batsim 4 writes."""


class Batsim4(Dialect):
    """Batsim 3.1 to 4.2: what the decision system speaks anyway."""

    versions = (OLDEST, NEWEST)

    def arguments(
        self, platform: Path, workloads: list[Path], endpoint: str, prefix: Path, *, energy: bool
    ) -> Iterator[str]:
        """Return the arguments of the command."""
        yield from ("-p", str(platform))
        for file in workloads:
            yield from ("-w", str(file))
        yield from ("-s", endpoint, "-e", str(prefix))
        if energy:
            yield "-E"
        # The schedule.trace is never the same twice.
        yield from ("-q", "--disable-schedule-tracing")

    def write_workload(self, workload: Workload, path: Path, platform: Platform, source: str) -> None:
        """Write one source of a workload."""
        write_batsim_json(workload, path, platform=platform, source=source)

    def greet(self, listener: ReplySocket, look: Look) -> None:
        """Do nothing: SIMULATION_BEGINS comes first."""

    def decode(self, text: str) -> str:
        """Return it as it is."""
        return text

    def more(self, reply: str) -> str | None:  # noqa: ARG002 - there is never more
        """Return nothing."""
        return None

    def encode(self, reply: str) -> str:
        """Return it as it is."""
        return reply

    def files(self, prefix: Path, *, energy: bool) -> list[Path]:
        """Return the files that it writes."""
        return [_file(prefix, f"{name}.csv") for name in _FILES + (_ENERGY_FILES if energy else ())]

    def settle(self, prefix: Path) -> None:
        """Do nothing."""


class Batsim5(Dialect):
    """Batsim 5, as v5.0.0-rc2 speaks."""

    versions = ((5, 0), (5, 99))

    def __init__(self) -> None:
        self._protocol = Batprotocol()

    def arguments(
        self, platform: Path, workloads: list[Path], endpoint: str, prefix: Path, *, energy: bool
    ) -> Iterator[str]:
        """Return the arguments of the command."""
        yield from ("-p", str(platform))
        for file in workloads:
            yield from ("-w", str(file))
        # Batsim 5 puts nothing between the prefix and the name of a file; its own default is out/
        yield from ("-s", endpoint, "", "-e", f"{prefix}_")
        yield "--trace-machine-state"
        if energy:
            yield from ("--energy-host", "--trace-pstate-changes")
        yield "-q"

    def write_workload(self, workload: Workload, path: Path, platform: Platform, source: str) -> None:
        """Write one source of a workload."""
        write_batsim5_json(workload, path, platform=platform, source=source)

    def greet(self, listener: ReplySocket, look: Look) -> None:
        """Take in the configuration, which is empty, and answer with EDCHelloEvent."""
        check_first_message(listener.receive_bytes(look))
        listener.reply_bytes(hello())

    def decode(self, text: str) -> str:
        """Return its message in the words of Batsim 4."""
        return self._protocol.decode(text)

    def more(self, reply: str) -> str | None:
        """Return the events that came with SimulationBeginsEvent."""
        return self._protocol.more(reply)

    def encode(self, reply: str) -> str:
        """Return a reply in the words of batprotocol."""
        return self._protocol.encode(reply)

    def files(self, prefix: Path, *, energy: bool) -> list[Path]:
        """Return the files that it writes."""
        names = [f"{name}.{'json' if name == 'schedule' else 'csv'}" for name in _FILES]
        return [_file(prefix, name) for name in [*names, *(f"{name}.csv" for name in _ENERGY_FILES if energy)]]

    def settle(self, prefix: Path) -> None:
        """Write out_schedule.csv as of Batsim 4 beside its out_schedule.json."""
        path = _file(prefix, "schedule.json")
        row = read_json(path)
        if not isinstance(row, dict) or not row:
            raise ReadError(path, "expected an object")
        texts = {name: f"{value:f}" if isinstance(value, float) else str(value) for name, value in sorted(row.items())}
        if any("," in text or "\n" in text for text in texts.values()):
            raise ReadError(path, f"holds {json.dumps(row)[:80]}, expected names and plain values")
        with atomic_write(_file(prefix, "schedule.csv")) as out:
            out.write(f"{','.join(texts)}\n{','.join(texts.values())}\n")


def new_dialect(protocol: int) -> Dialect:
    """Return the dialect of protocol 4 or 5."""
    if protocol not in (4, 5):
        raise BatsimError(f"batsim.protocol is {protocol}, expected 4 or 5")
    return Batsim4() if protocol == 4 else Batsim5()


def _file(prefix: Path, name: str) -> Path:
    return prefix.with_name(f"{prefix.name}_{name}")
