"""Inner functions are put together once, in each entry that calls them, and come back from the cache."""

import subprocess
import sys
from pathlib import Path

SOURCE = """
import sys
from pathlib import Path

import numba

import hdrl.compiled.jit
from hdrl.compiled.jit import entry_in, jit

hdrl.compiled.jit.IS_TRIED = False  # as everywhere but on Linux: loaded with Numba


@jit
def add(a, b):
    return a + b


@jit
def twice(a):
    return add(a, a)


@jit
def thrice(a):
    return add(twice(a), a)


@jit
def long(total, b):  # too long to become part of its callers
    for k in range(5):
        total = (total * 3 + (total >> 1) ^ (k * b + 0)) & 0xFFFFFF
        total = (total * 5 + (total >> 2) ^ (k * b + 1)) & 0xFFFFFF
        total = (total * 7 + (total >> 3) ^ (k * b + 2)) & 0xFFFFFF
        total = (total * 9 + (total >> 4) ^ (k * b + 3)) & 0xFFFFFF
        total = (total * 11 + (total >> 5) ^ (k * b + 4)) & 0xFFFFFF
        total = (total * 13 + (total >> 6) ^ (k * b + 5)) & 0xFFFFFF
        total = (total * 15 + (total >> 7) ^ (k * b + 6)) & 0xFFFFFF
        total = (total * 17 + (total >> 8) ^ (k * b + 7)) & 0xFFFFFF
        total = (total * 19 + (total >> 9) ^ (k * b + 8)) & 0xFFFFFF
        total = (total * 21 + (total >> 10) ^ (k * b + 9)) & 0xFFFFFF
        total = (total * 23 + (total >> 11) ^ (k * b + 10)) & 0xFFFFFF
        total = (total * 25 + (total >> 12) ^ (k * b + 11)) & 0xFFFFFF
        total = (total * 27 + (total >> 13) ^ (k * b + 12)) & 0xFFFFFF
        total = (total * 29 + (total >> 14) ^ (k * b + 13)) & 0xFFFFFF
        total = (total * 31 + (total >> 15) ^ (k * b + 14)) & 0xFFFFFF
        total = (total * 33 + (total >> 16) ^ (k * b + 15)) & 0xFFFFFF
        total = (total * 35 + (total >> 17) ^ (k * b + 16)) & 0xFFFFFF
        total = (total * 37 + (total >> 18) ^ (k * b + 17)) & 0xFFFFFF
        total = (total * 39 + (total >> 19) ^ (k * b + 18)) & 0xFFFFFF
        total = (total * 41 + (total >> 20) ^ (k * b + 19)) & 0xFFFFFF
        total = (total * 43 + (total >> 21) ^ (k * b + 20)) & 0xFFFFFF
        total = (total * 45 + (total >> 22) ^ (k * b + 21)) & 0xFFFFFF
        total = (total * 47 + (total >> 23) ^ (k * b + 22)) & 0xFFFFFF
        total = (total * 49 + (total >> 24) ^ (k * b + 23)) & 0xFFFFFF
    return total


entry = entry_in(Path(sys.argv[1]))


@entry
def long_sum(a):  # always with the same second argument, which the compiler then leaves out
    return long(a, 3) + long(a + 1, 3)


@entry
def five_times(a):
    return add(twice(a), thrice(a))


@entry
def six_times(a):
    return add(thrice(a), thrice(a))


print(five_times(7), six_times(7))
print(long_sum(7) == long.py_func(7, 3) + long.py_func(8, 3))
for one in (five_times, six_times):
    print(sum(one._dispatcher.stats.cache_hits.values()))
print("numba.np.linalg" in sys.modules)  # one of many modules that only compiling needs
for part in (add, twice, thrice, long):
    for compiled in part.compiled.overloads.values():
        engine = compiled.library._codegen._engine
        print(engine.is_symbol_defined(compiled.fndesc.llvm_func_name))


@numba.njit
def seven_times(a):
    return add(thrice(a), add(twice(a), twice(a)))


print(seven_times(7))


@numba.njit
def long_alone(a, b):
    return long(a, b)


print(long_alone(7, 4) == long.py_func(7, 4))
"""


def run(folder: Path) -> list[str]:
    (folder / "source.py").write_text(SOURCE)
    command = [sys.executable, "-W", "error", str(folder / "source.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_two_entries_share_their_parts_of_which_none_is_machine_code(tmp_path: Path) -> None:
    assert run(tmp_path) == ["35", "42", "True", "0", "0", "True", *4 * ["False"], "49", "True"]
    # Nothing is compiled again, nor is what compiles loaded: the inner functions have not been looked at.
    assert run(tmp_path) == ["35", "42", "True", "1", "1", "False", "49", "True"]
