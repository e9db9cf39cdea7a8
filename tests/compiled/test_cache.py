"""Compiled code on disk: where it lies, what becomes of damaged files, and what is said when it cannot be kept."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.compiled import cache
from hdrl.compiled.bare import IS_TRIED
from hdrl.compiled.cache import KEPT_S, announcing, cache_folder, cached_code, compile_once, source_hash
from hdrl.compiled.jit import entry_in
from hdrl.compiled.ways import IS_FAST, JIT_DISABLED
from hdrl.launcher.main import cli


def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which compiled code is kept."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def kept(folder: Path, suffix: str) -> Path:
    """Return the only file of compiled code with a suffix."""
    (path,) = folder.rglob(f"*{suffix}")
    return path


# ------------------------------------------------------------------ where it lies


def test_it_is_named_after_the_sources(tmp_path: Path, parent: Path):
    source = tmp_path / "source.py"
    source.write_text("")
    folder = cache_folder("hdrl-kernel", [source])
    assert folder == parent / f"hdrl-kernel-{source_hash([source])}"
    assert folder.is_dir()
    source.write_text("changed")
    assert cache_folder("hdrl-kernel", [source]) != folder


def test_what_nobody_has_used_for_a_month_goes(parent: Path):
    old, young, other = (parent / name for name in ("hdrl-kernel-0123", "hdrl-kernel-4567", "hdrl-order-0123"))
    for folder in (old, young, other):
        folder.mkdir(parents=True)
    for folder in (old, other):
        os.utime(folder, (time.time() - KEPT_S - 60,) * 2)
    cache_folder("hdrl-kernel", [])
    assert [folder.exists() for folder in (old, young, other)] == [False, True, True]


def test_the_users_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("HDRL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("hdrl-test", []).parent == tmp_path / "hdrl" / "compiled"


def test_a_user_without_a_home_keeps_it_beside_the_package(monkeypatch: pytest.MonkeyPatch):
    for name in ("NUMBA_CACHE_DIR", "HDRL_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987654)
    assert cache.cache_parents() == [Path(cache.__file__).parent / "__pycache__"]


def test_a_file_in_its_place_is_replaced(parent: Path):
    folder = cache_folder("hdrl-test", [])
    folder.rmdir()
    folder.write_text("no folder")
    assert cache_folder("hdrl-test", []) == folder
    assert folder.is_dir()


def test_where_nothing_can_be_written_it_says_so_and_cleans_up(tmp_path: Path):
    (tmp_path / "file").write_text("")
    code = (
        "from hdrl.compiled.cache import cache_folder; import pathlib, os\n"
        "one, two = cache_folder('hdrl-a', []), cache_folder('hdrl-b', [])\n"
        "assert one.is_dir() and two.is_dir() and one.parent == two.parent\n"
        "assert os.environ['NUMBA_CACHE_DIR'] == str(one.parent), 'processes that it starts find it'\n"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "file" / "below"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"no folder for compiled code can be written ({tmp_path}/file/below)")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ------------------------------------------------------------------ what is damaged


def scribble(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".code", "checksums.json"])
@pytest.mark.parametrize("damage", [scribble, Path.unlink, make_a_folder, lambda path: path.write_bytes(b"")])
def test_damaged_code_is_compiled_again(
    parent: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    suffix: str,
):
    if suffix in (".nbi", ".nbc"):
        monkeypatch.setattr("hdrl.compiled.jit.IS_TRIED", False)  # Numba keeps it, as everywhere but on Linux
    elif suffix == ".code" and not IS_TRIED:
        pytest.skip("bare code is not tried here")
    folder = cache_folder("hdrl-test", [])
    told: list[str] = []
    compile_once(folder, "it", "compiling", lambda: entry_in(folder)(double)(2), told.append)
    damage(kept(folder, suffix))
    with caplog.at_level(logging.WARNING):
        assert cache_folder("hdrl-test", []) == folder
    assert [record.getMessage() for record in caplog.records] == [
        f"{folder}: the compiled code there was damaged; it is compiled again"
    ]
    assert entry_in(folder)(double)(21) == 42
    caplog.clear()
    cache_folder("hdrl-test", [])
    assert caplog.records == [], "said once"
    compile_once(folder, "it", "compiling", lambda: None, told.append)
    assert told == ["compiling", "compiling"]


@pytest.mark.skipif(JIT_DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("suffix", [".nbc", ".code"] if IS_TRIED else [".nbc"])
def test_what_is_not_damaged_is_loaded(parent: Path, monkeypatch: pytest.MonkeyPatch, suffix: str):
    monkeypatch.setattr("hdrl.compiled.jit.IS_TRIED", suffix == ".code")
    folder = cache_folder("hdrl-test", [])
    entry_in(folder)(double)(2)
    before = kept(folder, suffix).stat().st_mtime_ns
    assert cache_folder("hdrl-test", []) == folder
    assert entry_in(folder)(double)(2) == 4
    assert kept(folder, suffix).stat().st_mtime_ns == before


# ------------------------------------------------------------------ the command


@pytest.mark.skipif(JIT_DISABLED or not IS_FAST, reason="Numba's own cache does not say when it compiles")
def test_compiling_announces_itself_once(parent: Path, caplog: pytest.LogCaptureFixture):
    folder = cache_folder("hdrl-kernel", [])
    assert entry_in(folder)(double)(3) == 6
    assert [record.message.partition(" (")[0] for record in caplog.records] == ["compiling what simulates"]
    assert entry_in(folder)(double)(3) == 6, "is loaded"
    assert entry_in(folder)(double)(3.0) == 6, "is compiled, as was said"
    told: list[str] = []
    other = cache_folder("hdrl-order", [])
    compile_once(other, "compiled", "compiling, as you see", lambda: entry_in(other)(double)(3), told.append)
    assert told == ["compiling, as you see"]
    with announcing(told.append):
        third = cache_folder("hdrl-third", [])
        assert entry_in(third)(double)(3) == 6
    compile_once(third, "compiled", "compiling more", lambda: None, told.append)
    assert told[1:] == ["compiling what simulates (the first time only, about half a minute)"]
    assert len(caplog.records) == 1


def test_the_command_shows_and_clears_it(parent: Path):
    folder = cache_folder("hdrl-test", [])
    (folder / "code.nbc").write_bytes(b"x" * 2_500_000)
    shown = CliRunner().invoke(cli, ["cache"])
    assert shown.exit_code == 0
    assert f"{folder.name}  2.4 MiB" in shown.output
    assert CliRunner().invoke(cli, ["cache", "--clear"]).output.startswith("2.4 MiB of compiled code deleted")
    assert cached_code() == []
    assert "no compiled code" in CliRunner().invoke(cli, ["cache"]).output
