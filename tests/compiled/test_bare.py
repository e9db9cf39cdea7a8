"""Code that is loaded without the compiler: what it returns, and when it is compiled the usual way instead."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.compiled import bare
from hdrl.compiled.bare import BareEntry, Code, Signature
from hdrl.compiled.cache import cache_folder
from hdrl.compiled.fields import new_arrays, own
from hdrl.compiled.jit import bare_entry_in
from hdrl.compiled.lend import Lent, Places, take_as
from hdrl.errors import SimulationError

pytestmark = pytest.mark.skipif(not bare.IS_TRIED, reason="bare code is not tried here")


class Till(NamedTuple):
    """A state of one array."""

    coins: Annotated[NDArray[np.int64], own(np.int64, "n_kinds")]


def new_till() -> Till:
    return new_arrays(Till, {"n_kinds": 3}, {"coins": np.array([5, 7, 11])})


taken = take_as(new_till)


def pay(places: Places, kind: int, share: float) -> tuple[int, float]:
    till = taken(places)
    till.coins[kind] -= 1
    return till.coins[kind], np.log(share)


def count(places: Places) -> int:
    return len(taken(places).coins)


def empty(places: Places) -> None:
    taken(places).coins[:] = 0


def fail(places: Places, kind: int) -> None:
    if kind > len(taken(places).coins):
        raise ValueError("there is no such kind")


def refuse(places: Places, names: list[str]) -> None: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return cache_folder("hdrl-test", [])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what has been compiled."""
    made: list[str] = []
    before = bare.announce_compiling
    monkeypatch.setattr(bare, "announce_compiling", lambda folder: (made.append(folder.name), before(folder)))
    return made


def entry(folder: Path) -> BareEntry:
    return bare_entry_in(folder)(pay)


def test_it_takes_and_returns_numbers_and_changes_the_arrays(folder: Path) -> None:
    lent = Lent(new_till())
    assert entry(folder)(lent, 1, 2.0) == (6, np.log(2.0))
    assert bare_entry_in(folder)(count)(lent) == 3
    assert lent.arrays.coins.tolist() == [5, 6, 11]
    assert bare_entry_in(folder)(empty)(lent) is None
    assert not lent.arrays.coins.any()


def test_it_is_compiled_once(folder: Path, made: list[str]) -> None:
    lent = Lent(new_till())
    results = [entry(folder)(lent, 0, 1.0) for _ in range(3)]
    assert not list(folder.glob("*.nbc")), "nothing is compiled the usual way"
    assert (results, made) == ([(4, 0.0), (3, 0.0), (2, 0.0)], [folder.name])


def test_code_of_other_settings_is_not_taken(folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    entry(folder)(Lent(new_till()), 0, 1.0)
    monkeypatch.setenv("NUMBA_LOOP_VECTORIZE", "0")
    bare.made_for.cache_clear()
    try:
        entry(folder)(Lent(new_till()), 0, 1.0)
    finally:
        monkeypatch.undo()
        bare.made_for.cache_clear()
    assert len(made) == 2
    assert len(list(folder.glob("*.code"))) == 2


def test_damaged_code_is_compiled_again(folder: Path, made: list[str]) -> None:
    entry(folder)(Lent(new_till()), 0, 1.0)
    (kept,) = folder.glob("*.code")
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 255
    kept.write_bytes(content)
    assert cache_folder("hdrl-test", []) == folder
    assert not kept.exists(), "it would end the process when it runs"
    assert entry(folder)(Lent(new_till()), 0, 1.0) == (4, 0.0)
    assert made == 2 * [folder.name]


def test_what_cannot_be_linked_is_compiled_the_usual_way(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_there(content: bytes) -> Code:
        return Code("no_such_symbol", content)

    with monkeypatch.context() as patched:
        patched.setattr(Code, "read", not_there)
        assert entry(folder)(Lent(new_till()), 0, 1.0) == (4, 0.0)
    (kept,) = folder.glob("*.code")
    assert kept.read_bytes() == b""
    assert list(folder.glob("*.nbc"))
    made.clear()
    assert entry(folder)(Lent(new_till()), 0, 1.0) == (4, 0.0)
    assert made == [], "it is known, and nothing is compiled"


def test_an_error_of_compiled_code_is_told(folder: Path) -> None:
    with pytest.raises(SimulationError, match="compiled code stopped with status"):
        bare_entry_in(folder)(fail)(Lent(new_till()), 4)


def test_its_annotations_are_numbers() -> None:
    assert Signature.of(pay) == Signature((int, float), (int, float), is_tuple=True)
    assert Signature.of(empty) == Signature((), (), is_tuple=False)
    with pytest.raises(TypeError, match="refuse takes or returns more than whole and real numbers"):
        Signature.of(refuse)


def test_a_classic_run_does_not_load_the_compiler(tmp_path: Path) -> None:
    code = (
        "import sys; from hdrl.launcher.launch import launch\n"
        f"try: launch(['examples/demo.json', '--set', 'nb_jobs=20', '--quiet', '--out', {str(tmp_path / 'out')!r}])\n"
        "except SystemExit as end: assert not end.code\n"
        "print(sorted({'numba', 'gymnasium', 'pandas', 'scipy', 'torch', 'polars', 'matplotlib'} & set(sys.modules)))\n"
    )
    root = Path(__file__).parents[2]
    for _ in range(2):  # the first one may compile
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=os.environ)
        if done.returncode == 0 and "numba" in done.stdout:
            (tmp_path / "out").rename(tmp_path / "first")
            continue
        break
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
