"""Code that is loaded without the compiler: what it returns, and when it is compiled the usual way instead."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.base.errors import SimulationError
from hdrl.compiled import bare
from hdrl.compiled.bare import Code
from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Addresses, Borrowed
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.fields import new_arrays, own
from hdrl.compiled.jit import _bare_code, entry_in

pytestmark = pytest.mark.skipif(not bare.IS_TRIED, reason="bare code is not tried here")


class Till(NamedTuple):
    """A state of one array."""

    coins: Annotated[NDArray[np.int64], own(np.int64, "n_kinds")]


def new_till() -> Till:
    return new_arrays(Till, {"n_kinds": 3}, {"coins": np.array([5, 7, 11])})


taken = take_as(new_till)


def pay(addresses: Addresses, kind: int, share: float) -> tuple[int, float]:
    till = taken(addresses)
    till.coins[kind] -= 1
    return till.coins[kind], np.log(share)


def count(addresses: Addresses) -> int:
    return len(taken(addresses).coins)


def empty(addresses: Addresses) -> None:
    taken(addresses).coins[:] = 0


def fail(addresses: Addresses, kind: int) -> None:
    if kind > len(taken(addresses).coins):
        raise ValueError("there is no such kind")


def fill(till: Till, counts: NDArray[np.int32], kind: int, *, is_full: bool) -> bool:
    if is_full:
        till.coins[kind] = counts[kind, 0] * counts.shape[0]
    return is_full


def narrow(counts: NDArray[np.int32]) -> np.int32:
    return counts[0]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return cache_folder("hdrl-test", [])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what has been compiled."""
    made: list[str] = []
    before = bare.announce_compiling
    monkeypatch.setattr(
        bare, "announce_compiling", lambda folder, *text: (made.append(folder.name), before(folder, *text))
    )
    return made


def entry(folder: Path) -> Callable[..., tuple[int, float]]:
    return entry_in(folder)(pay)


def pay_once(folder: Path) -> tuple[int, float]:
    borrowed = Borrowed(new_till())
    return entry(folder)(borrowed.addresses, 0, 1.0)


def test_it_takes_and_returns_numbers_and_changes_the_arrays(folder: Path) -> None:
    borrowed = Borrowed(new_till())
    assert entry(folder)(borrowed.addresses, 1, 2.0) == (6, np.log(2.0))
    assert entry(folder)(borrowed.addresses, np.int32(1), 1) == (5, 0.0), "numbers of other types are converted"
    assert entry_in(folder)(count)(borrowed.addresses) == 3
    assert borrowed.arrays.coins.tolist() == [5, 5, 11]
    assert entry_in(folder)(empty)(borrowed.addresses) is None
    assert not borrowed.arrays.coins.any()


def test_two_processes_do_not_compile_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries stand for the two: locks of one process exclude each other as those of two do."""
    compiling, other_is_here, compiled = threading.Event(), threading.Event(), []
    read = bare.read_own

    def compile_slowly(function: Callable[..., object], arguments: tuple[object, ...]) -> Code:
        compiled.append(function)
        compiling.set()
        assert other_is_here.wait(60)
        return _bare_code(function, arguments)

    def read_own(path: Path) -> bytes:
        if compiling.is_set():
            other_is_here.set()
        return read(path)

    monkeypatch.setattr(bare, "read_own", read_own)
    entries = [bare.BareEntry(count, folder, count, compile_slowly) for _ in range(2)]
    borrowed = Borrowed(new_till())
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(entries[0], borrowed.addresses)
        assert compiling.wait(60)
        assert (entries[1](borrowed.addresses), first.result()) == (3, 3)
    assert compiled == [count]
    assert not list(folder.glob("*.lock"))


def test_it_takes_arrays_and_tuples_of_arrays(folder: Path) -> None:
    filled, till = entry_in(folder)(fill), new_till()
    counts = np.arange(12, dtype=np.int32).reshape(4, 3)
    assert filled(till, counts, 2, True) is True  # noqa: FBT003 - compiled functions take arguments by place
    assert till.coins.tolist() == [5, 7, 6 * 4]
    assert filled(new_till(), counts, 0, False) is False  # noqa: FBT003


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            (Till(np.zeros(3)), np.zeros((1, 1), dtype=np.int32), 0, True),
            "item 1: expected a 1-dimensional array of int64",
        ),
        ((new_till(), np.zeros(3, dtype=np.int32), 0, True), "argument 2: expected a 2-dimensional array of int32"),
        ((new_till(), np.zeros((1, 1), dtype=np.int32), 0.5, True), "float"),
        ((new_till(), np.zeros((1, 1), dtype=np.int32), 0), "expected 4 arguments"),
    ],
)
def test_arguments_of_other_types_are_refused(folder: Path, wrong: tuple[object, ...], told: str) -> None:
    filled = entry_in(folder)(fill)
    filled(new_till(), np.zeros((1, 1), dtype=np.int32), 0, True)  # noqa: FBT003
    with pytest.raises(TypeError, match=told):
        filled(*wrong)


def test_it_is_compiled_once(folder: Path, made: list[str]) -> None:
    borrowed = Borrowed(new_till())
    results = [entry(folder)(borrowed.addresses, 0, 1.0) for _ in range(3)]
    assert not list(folder.glob("*.nbc")), "nothing is compiled the usual way"
    assert (results, made) == ([(4, 0.0), (3, 0.0), (2, 0.0)], [folder.name])


def test_code_of_other_settings_is_not_taken(folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pay_once(folder)
    monkeypatch.setenv("NUMBA_LOOP_VECTORIZE", "0")
    bare.made_for.cache_clear()
    try:
        pay_once(folder)
    finally:
        monkeypatch.undo()
        bare.made_for.cache_clear()
    assert len(made) == 2
    assert len(list(folder.glob("*.code"))) == 2


def test_damaged_code_is_compiled_again(folder: Path, made: list[str]) -> None:
    pay_once(folder)
    (kept,) = folder.glob("*.code")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 255
    kept.write_bytes(content)
    assert cache_folder("hdrl-test", []) == folder
    assert not kept.exists(), "it would end the process when it runs"
    assert pay_once(folder) == (4, 0.0)
    assert made == 2 * [folder.name]


def test_threads_that_come_first_together_link_it_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    find = bare.BareEntry._found

    def slowly(entry: bare.BareEntry, arguments: tuple[object, ...]) -> object:
        found.append(arguments)
        threading.Event().wait(0.2)  # the others come meanwhile
        return find(entry, arguments)

    monkeypatch.setattr(bare.BareEntry, "_found", slowly)
    called = entry(folder)
    those = [Borrowed(new_till()) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda borrowed: called(borrowed.addresses, 0, 2.0), those))
    assert results == 4 * [results[0]]
    assert len(found) == 1


def test_two_entries_are_compiled_one_after_the_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba loads what it types with before it takes its lock, which two threads at once cannot do."""
    linking = pytest.importorskip("hdrl.compiled.fast.linking")
    compiling, most = [0], [0]

    def slowly() -> None:
        compiling[0] += 1
        most[0] = max(most[0], compiling[0])
        threading.Event().wait(0.2)  # the other one comes meanwhile
        compiling[0] -= 1

    monkeypatch.setattr(linking, "check", slowly)
    borrowed = Borrowed(new_till())
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(entry_in(folder)(one), borrowed.addresses) for one in (count, empty)]
        assert [one.result() for one in results] == [3, None]
    assert most == [1]


def test_what_cannot_be_linked_is_compiled_the_usual_way(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_there(content: bytes) -> Code:
        return Code("no_such_symbol", content)

    with monkeypatch.context() as patched:
        patched.setattr(Code, "read", not_there)
        assert pay_once(folder) == (4, 0.0)
    (kept,) = folder.glob("*.code")
    assert kept.read_bytes() == b""
    assert list(folder.glob("*.nbc"))
    made.clear()
    assert pay_once(folder) == (4, 0.0)
    assert made == [], "it is known, and nothing is compiled"


def test_an_error_of_compiled_code_is_told(folder: Path) -> None:
    borrowed = Borrowed(new_till())
    with pytest.raises(SimulationError, match="fail: compiled code stopped with an error"):
        entry_in(folder)(fail)(borrowed.addresses, 4)


def test_it_returns_nothing_but_numbers(folder: Path) -> None:
    with pytest.raises(TypeError, match="narrow returns int32, expected numbers of 64 bits"):
        entry_in(folder)(narrow)(np.zeros(1, dtype=np.int32))


HEAVY = ("numba", "gymnasium", "pandas", "scipy", "torch", "polars", "matplotlib")

LAUNCH = """
from hdrl.launcher.launch import launch
try: launch([{options!r}, *{changes!r}, '--quiet', '--out', {out!r}])
except SystemExit as end: assert not end.code
"""

STEP = """
from hdrl.batch import JobPickVectorEnv
env = JobPickVectorEnv.of(2, n_procs=8)
env.reset(seed=0)
env.step(env.action_masks().argmax(axis=1))
"""

OPTIONS = {
    "gpu": {"setting": "gpu", "platform": "drl-gpu", "workload": "poisson", "nb_jobs": 20, "agent": {"policy": "srtf"}},
    "pipelines": {
        "setting": "pipelines",
        "platform": "1cpu+1gpu",
        "workload": "generated",
        "agent": {"type": "CLASSIC", "policy": "edf_global"},
    },
}


def loaded_by(code: str) -> set[str]:
    """Return which heavy packages a process loads."""
    code = f"import sys\n{code}\nprint(*sorted({set(HEAVY)!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], env=os.environ
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("what", ["batch", "gpu", "pipelines"])
def test_a_classic_run_loads_neither_the_compiler_nor_anything_heavy(tmp_path: Path, what: str) -> None:
    options, changes = "examples/demo.json", ["--set", "nb_jobs=20"]
    if what in OPTIONS:
        (tmp_path / "options.json").write_text(json.dumps(OPTIONS[what]))
        options, changes = str(tmp_path / "options.json"), []
    for turn in ("first", "later"):  # the first one may compile
        found = loaded_by(LAUNCH.format(options=options, changes=changes, out=str(tmp_path / turn)))
        if not found:
            break
    assert found == set()


def test_an_environment_is_stepped_without_the_compiler() -> None:
    assert any("numba" not in loaded_by(STEP) for _ in range(2)), "the first one may compile"
