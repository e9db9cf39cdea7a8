"""A process of its own for the file of a stranger: bounds on memory and time; no network, no writing where that works.

It is started as ``python -m hdrl.bench.cell REQUEST ANSWER``, with two files. Network and files are taken away before
anything that starts threads is loaded: a process with threads may not do it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hdrl.base.guard import SIGNALLED
from hdrl.base.process import Process

MEMORY_BYTES = 8 << 30
"""Address space that the process may have; Numba reserves much of it and uses little."""

SECONDS = 600
"""Processor time that it may take."""

FILE_BYTES = 64 << 20
"""Size of each file that it may write, what it prints included."""

_NOTHING: Mapping[str, Any] = MappingProxyType({"rows": [], "known": [], "network": None, "writes": None})

_NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_NO_NEW_PRIVILEGES = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITES = sum(1 << right for right in (1, *range(4, 13)))
_WRITES_OF_VERSION = {2: 1 << 13, 3: 1 << 14}
"""Rights of Landlock: to write, remove and make; since its versions 2 and 3 to move and to truncate."""


def ask_cell(request: dict[str, Any], *, seconds: int = SECONDS) -> dict[str, Any]:
    """Return the answer of a process of its own, or why there is none.

    Parameters
    ----------
    request
        What `hdrl.bench.replay.answer` takes, as JSON can hold it.
    seconds
        How long it may take.

    Returns
    -------
    dict
        ``rows``, ``known``, ``network`` and ``writes`` (whether the process had a network, and could write files) and
        ``problem`` (empty if all went well).
    """
    # Files, not pipes: their size is bounded, and what prints without end does not fill our memory.
    with tempfile.TemporaryDirectory(prefix="hdrl-") as ours, tempfile.TemporaryDirectory(prefix="hdrl-") as folder:
        asked, answer = Path(ours) / "request.json", Path(ours) / "answer.json"
        asked.write_text(json.dumps({"seconds": seconds, **request}), encoding="utf-8")
        with Process(
            [sys.executable, "-P", "-m", "hdrl.bench.cell", str(asked), str(answer)],
            folder=Path.cwd(),
            log=Path(ours) / "log",
            environment=_environment() | {"TMPDIR": folder, **_copied_code(Path(folder) / "compiled")},
        ) as process:
            if process.wait(2 * seconds) is None:
                return {"problem": f"took longer than {2 * seconds} s", **_NOTHING}
            with contextlib.suppress(OSError, ValueError, RecursionError):
                found = json.loads(answer.read_text(encoding="utf-8"))
                return found if _is_answer(found) else {"problem": "gave no answer", **_NOTHING}
            why = f"{process.how_it_ended()}; {process.last_words()}"
    return {"problem": f"{why}; it may take {seconds} s and {MEMORY_BYTES >> 30} GiB", **_NOTHING}


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
        and {"rows", "known", "network", "writes", "problem"} <= set(found)
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
    """Bound this process, and take its network and the sight of other processes away; return whether it has one.

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
        lib = ctypes.CDLL(None, use_errno=True)
        if lib.unshare(_NEW_USER | _NEW_NETWORK | _NEW_PROCESSES) != 0:
            return True
        # The same numbers inside, so that files still belong to whom they belong.
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    except (OSError, AttributeError):
        pass
    return Path("/sys/class/net").is_dir() and _has_interface()


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
        Where it may write: its temporary files.
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
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    is_restricted = call(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return not is_restricted


def main(request_file: str, answer_file: str) -> None:
    """Answer a request that stands in a file in another one, which is opened before it can no longer be."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    with Path(answer_file).open("w", encoding="utf-8") as answer_to:
        has_network = confine(int(request["seconds"]))
        # In the new space of process ids, the next process is the first: with it, all that it has started ends.
        if child := os.fork():
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os._exit(code if code >= 0 else SIGNALLED - code)
        writes = forbid_writing(tempfile.gettempdir())
        from hdrl.base.errors import HdrlError
        from hdrl.bench.replay import answer

        try:
            found = answer(request)
        except HdrlError as error:
            found = {"problem": str(error), **_NOTHING}
        json.dump(found | {"network": has_network, "writes": writes}, answer_to)


if __name__ == "__main__":
    main(*sys.argv[1:])
