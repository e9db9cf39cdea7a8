"""A process of its own for the file of a stranger: bounds on memory and time; no network, no writing where that works.

It is started as ``python -m hdrl.bench.cell REQUEST`` and answers in the last line of its output. Network, files and
sockets are taken away before anything of ours is loaded: a process with threads may not do it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import stat
import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hdrl.base import guard
from hdrl.base.process import Process

MEMORY_BYTES = 8 << 30
"""Address space that the process may have; Numba reserves much of it and uses little."""

SECONDS = 600
"""Processor time that it may take."""

FILE_BYTES = 64 << 20
"""Size of each file that it may write, what it prints included."""

PROCESSES = 256
"""Largest number of processes and threads at a time."""

RIGHTS: Mapping[str, str] = MappingProxyType(
    {
        "network": "its network",
        "writes": "the right to change files",
        "sockets": "the sight of sockets",
        "processes": "the right to start any number of processes",
    }
)
"""Rights that the process may have kept: the key in its answer, and words."""

_NOTHING: Mapping[str, Any] = MappingProxyType({"rows": [], "known": [], **dict.fromkeys(RIGHTS)})

_NEW_MOUNTS, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x00020000, 0x10000000, 0x20000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_SOCKET_FOLDERS = ("/run", "/tmp/.X11-unix")
_NO_NEW_PRIVILEGES, _CAPABILITIES_VERSION = 38, 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITES = sum(1 << right for right in (1, *range(4, 13)))
_WRITES_OF_VERSION = {2: 1 << 13, 3: 1 << 14}
"""Rights of Landlock: to write, remove and make; since its versions 2 and 3 to move and to truncate."""


def run_cell(request: dict[str, Any], *, seconds: int = SECONDS) -> dict[str, Any]:
    """Return the answer of a process of its own, or why there is none.

    Parameters
    ----------
    request
        What `hdrl.bench.replay.answer` takes, as JSON can hold it.
    seconds
        Time limit, in seconds.

    Returns
    -------
    dict
        ``rows``, ``known``, those of `RIGHTS` and ``problem`` (a sentence; empty if all went well).
    """
    # A file, not a pipe: its size is bounded, and what prints without end does not fill our memory.
    with tempfile.TemporaryDirectory(prefix="hdrl-") as top:
        log, folder = Path(top) / "log", Path(top) / "files"
        folder.mkdir()
        command = [sys.executable, "-P", "-m", "hdrl.bench.cell", json.dumps({"seconds": seconds, **request})]
        environment = _environment() | {"TMPDIR": str(folder), **_copied_code(folder / "compiled")}
        with Process(command, folder=folder, log=log, environment=environment) as process:
            code = process.wait(2 * seconds)
        if code is None:
            return {"problem": f"it took longer than {2 * seconds} s", **_NOTHING}
        with log.open("rb") as file:
            last = file.read(FILE_BYTES).decode(errors="replace").rpartition("\n")[2]
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(last)
            return found if _is_answer(found) else {"problem": "it gave no answer", **_NOTHING}
        bounds = f"it may take {seconds} s and {MEMORY_BYTES >> 30} GiB"
        return {"problem": f"{process.describe_exit()} ({process.log_tail()}); {bounds}", **_NOTHING}


def _copied_code(folder: Path) -> dict[str, str]:
    """Copy the compiled code of this user for a process that may not write to its cache; return the variable for it."""
    from hdrl.compiled.cache import CHOSEN_VARIABLE, cache_parents

    with contextlib.suppress(OSError, shutil.Error):
        shutil.copytree(cache_parents()[0], folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    return {CHOSEN_VARIABLE: str(folder)}


def _is_answer(found: Any) -> bool:
    """Return whether an answer, which a stranger's code may have written, has the form of one."""
    kinds = {"candidate": str, "window": int, "seed": int, "metrics": dict, "problem": str}
    return (
        isinstance(found, dict)
        and {"rows", "known", "problem", *RIGHTS} <= set(found)
        and isinstance(found["problem"], str)
        and isinstance(found["rows"], list)
        and isinstance(found["known"], list)
        and all(
            isinstance(row, dict)
            and all(isinstance(row.get(key), kind) for key, kind in kinds.items())
            and all(one is None or isinstance(one, float) or one in ("inf", "-inf") for one in row["metrics"].values())
            for row in found["rows"]
        )
        and all(isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in found["known"])
    )


def _environment() -> dict[str, str]:
    """Return the variables that the process gets: none with secrets of the user's."""
    kept = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name in kept or name.startswith(("HDRL_", "NUMBA_"))}


def confine(seconds: int) -> bool:
    """Bound this process, and take its network and other processes away; return whether it has spaces of its own.

    Parameters
    ----------
    seconds
        Processor time that it may take.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    user, group = os.getuid(), os.getgid()
    try:
        lib = ctypes.CDLL(None)
        lib.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if lib.unshare(_NEW_USER | _NEW_NETWORK | _NEW_PROCESSES | _NEW_MOUNTS) != 0:
            return False
        # The same numbers inside, so that files still belong to whom they belong.
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    except (OSError, AttributeError):
        return False
    return True


def bound_processes(*, has_spaces: bool) -> bool:
    """Bound the processes and threads of this process; return whether it may still start any number.

    Parameters
    ----------
    has_spaces
        True if it has a space of users, in which Linux counts since 5.14; before, all of the user's count. The
        system's root has no bound anywhere.
    """
    release = [int(digits) for digits in re.findall(r"\d+", os.uname().release)[:2]]
    if not has_spaces or release < [5, 14] or os.getuid() == 0:
        return True
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    return False


def known_sockets() -> set[str]:
    """Return the paths of sockets: of those in use, those that are mounted, and those in the usual folders."""
    found = {str(path) for folder in _SOCKET_FOLDERS for path in Path(folder).rglob("*")}
    for table, column in (("net/unix", 7), ("mountinfo", 4)):
        with contextlib.suppress(OSError):
            lines = Path("/proc/self", table).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
            found.update(cells[column] for line in lines if len(cells := line.split(maxsplit=7)) > column)
    return {path for path in found if path.startswith("/") and _is_socket(path)}


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def hide(sockets: set[str]) -> bool:
    """Take sockets, and in ``/proc`` other processes, from the sight of a process that has spaces of its own.

    Returns
    -------
    bool
        True if it still sees a socket.
    """
    lib = ctypes.CDLL(None)
    mount = lib.mount
    if mount(None, b"/", None, _RECURSIVE | _PRIVATE, None) == 0:
        for path in sockets:
            mount(os.devnull.encode(), os.fsencode(path), None, _BIND, None)
        mount(b"proc", b"/proc", b"proc", 0, None)
    lib.capset(struct.pack("=Ii", _CAPABILITIES_VERSION, 0), bytes(24))  # so that it takes nothing of this back
    return any(map(_is_socket, sockets))


def _has_interface() -> bool:
    """Return whether there is any network but the one to oneself, which is down."""
    try:
        lines = Path("/proc/self/net/dev").read_text(encoding="ascii", errors="replace").splitlines()[2:]
    except OSError:
        return True
    return any(line.partition(":")[0].strip() != "lo" for line in lines)


def forbid_writing(folder: str) -> bool:
    """Take from this process the right to change files outside a folder; return whether it still has it.

    Parameters
    ----------
    folder
        Folder for its temporary files, the only one that it may write.
    """
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return True
    rights = _WRITES | sum(bits for since, bits in _WRITES_OF_VERSION.items() if version >= since)
    rules = call(_CREATE_RULESET, ctypes.c_char_p(struct.pack("=Q", rights)), ctypes.c_size_t(8), 0)
    if rules < 0:
        return True
    for path in (folder, os.devnull):
        place = os.open(path, os.O_PATH)
        allowed = rights if path == folder else 1 << 1
        call(_ADD_RULE, rules, 1, ctypes.c_char_p(struct.pack("=Qi", allowed, place)), 0)
        os.close(place)
    is_restricted = call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return not is_restricted


def main() -> None:
    """Answer the request on the command line."""
    request = json.loads(sys.argv[1])
    sockets = known_sockets()
    has_spaces = confine(int(request["seconds"]))
    rights = {"network": _has_interface(), "processes": bound_processes(has_spaces=has_spaces)}
    # In the new space of process ids, the next process is the first: with it, all that it has started ends.
    if child := os.fork():
        os._exit(guard.shell_code(os.waitpid(child, 0)[1]))
    rights["sockets"] = hide(sockets) if has_spaces else bool(sockets)
    rights["writes"] = forbid_writing(tempfile.gettempdir())
    from hdrl.base.errors import HdrlError
    from hdrl.bench.replay import answer

    try:
        found = answer(request)
    except HdrlError as error:
        found = {"problem": str(error), **_NOTHING}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with open(1, "w", encoding="utf-8", closefd=False) as output:
        output.write("\n" + json.dumps(found | rights))
    os._exit(0)  # so that nothing that a policy has left prints behind the answer


if __name__ == "__main__":
    main()
