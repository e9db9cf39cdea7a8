"""A process of its own for the Python file of a stranger: bounds on memory and time, and no network where that works.

It is started as ``python -m hdrl.bench.cell``, reads a request from its standard input and answers on its standard
output. The network is taken away before anything of ours is loaded: a process with threads may not do it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

MEMORY_BYTES = 8 << 30
"""Address space that the process may have; Numba reserves much of it and uses little."""

SECONDS = 600
"""Processor time that it may take."""

_NOTHING: Mapping[str, Any] = MappingProxyType({"rows": [], "known": [], "network": None})

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


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
        ``rows``, ``known``, ``network`` (whether the process had one) and ``problem`` (empty if all went well).
    """
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "hdrl.bench.cell"],
            input=json.dumps({"seconds": seconds, **request}),
            capture_output=True,
            text=True,
            timeout=2 * seconds,
            env=_environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"took longer than {2 * seconds} s", **_NOTHING}
    try:
        found = json.loads(done.stdout.rpartition("\n")[2] or done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [""])[-1][:300]
        why = f"ended with {done.returncode}" + (f" ({last})" if last else "")
        return {"problem": f"{why}; it may take {seconds} s and {MEMORY_BYTES >> 30} GiB", **_NOTHING}
    return found if isinstance(found, dict) else {"problem": "gave no answer", **_NOTHING}


def _environment() -> dict[str, str]:
    """Return the variables that the process gets: none with secrets of the user's."""
    kept = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")
    return {name: value for name, value in os.environ.items() if name in kept or name.startswith(("HDRL_", "NUMBA_"))}


def confine(seconds: int) -> bool:
    """Bound this process, and take its network away; return whether it still has one.

    Parameters
    ----------
    seconds
        Processor time that it may take.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    user, group = os.getuid(), os.getgid()
    try:
        lib = ctypes.CDLL(None, use_errno=True)
        if lib.unshare(_NEW_USER | _NEW_NETWORK) != 0:
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


def main() -> None:
    """Answer the request on the standard input."""
    request = json.loads(sys.stdin.read())
    has_network = confine(int(request["seconds"]))
    answer_to, sys.stdout = sys.stdout, sys.stderr  # what a policy prints is no answer
    from hdrl.base.errors import HdrlError
    from hdrl.bench.replay import answer

    try:
        found = answer(request)
    except HdrlError as error:
        found = {"problem": str(error), **_NOTHING}
    answer_to.write("\n" + json.dumps(found | {"network": has_network}))
    answer_to.flush()


if __name__ == "__main__":
    main()
