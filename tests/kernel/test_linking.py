"""Inner functions are put together once, in each entry that calls them, and come back from the cache."""

import subprocess
import sys
from pathlib import Path

SOURCE = """
import sys
from pathlib import Path

import numba

from hdrl.kernel.jit import entry_in, jit


@jit
def add(a, b):
    return a + b


@jit
def twice(a):
    return add(a, a)


@jit
def thrice(a):
    return add(twice(a), a)


entry = entry_in(Path(sys.argv[1]))


@entry
def five_times(a):
    return add(twice(a), thrice(a))


@entry
def six_times(a):
    return add(thrice(a), thrice(a))


print(five_times(7), six_times(7))
for one in (five_times, six_times):
    print(sum(one._dispatcher.stats.cache_hits.values()))
for part in (add, twice, thrice):
    for compiled in part.overloads.values():
        engine = compiled.library._codegen._engine
        print(engine.is_symbol_defined(compiled.fndesc.llvm_func_name))


@numba.njit
def seven_times(a):
    return add(thrice(a), add(twice(a), twice(a)))


print(seven_times(7))
"""


def run(folder: Path) -> list[str]:
    (folder / "source.py").write_text(SOURCE)
    command = [sys.executable, "-W", "error", str(folder / "source.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_two_entries_share_their_parts_of_which_none_is_machine_code(tmp_path: Path) -> None:
    assert run(tmp_path) == ["35", "42", "0", "0", "False", "False", "False", "49"]
    # Nothing is compiled again: the inner functions have not been looked at.
    assert run(tmp_path) == ["35", "42", "1", "1", "49"]
