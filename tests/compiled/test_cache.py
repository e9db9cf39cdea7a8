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

from hdrl.base.files import write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.compiled import cache
from hdrl.compiled.backends import IS_FAST, JIT_DISABLED
from hdrl.compiled.bare import IS_TRIED
from hdrl.compiled.cache import KEPT_S, announcing, cache_folder, cached_code, compile_once, source_hash
from hdrl.compiled.intact import writing
from hdrl.compiled.jit import entry_in
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


# ------------------------------------------------------------------ who can have written it


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    cache._unsafe_reason.cache_clear()
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.fixture
def without_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No folder but the chosen one can be written, so that the temporary one follows."""
    monkeypatch.setattr(cache, "_HERE", tmp_path / "file")
    (tmp_path / "file").touch()


POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no owners and permissions of POSIX")
ROOT = pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files to others")


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o770 | 0o002])
def test_no_code_comes_from_where_everybody_writes(
    parent: Path, warned: pytest.LogCaptureFixture, mode: int, tmp_path: Path
):
    planted = cache_folder("hdrl-test", [])
    (planted / "planted.code").write_text("evil")
    parent.chmod(mode)
    cache._unsafe_reason.cache_clear()
    folders = {cache_folder("hdrl-test", []), cache_folder("hdrl-other", [])}
    assert not [one for one in folders if tmp_path in one.parents]
    assert all(one.stat().st_mode & 0o777 == 0o700 and not list(one.iterdir()) for one in folders)
    said = [record.getMessage() for record in warned.records if "where others could replace it" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(
        f"no compiled code is kept in {parent}, where others could replace it: {parent} is writable"
    )


@POSIX
@pytest.mark.parametrize("above", [1, 2])
def test_every_folder_above_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: object, above: int):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    folder = cache_folder("hdrl-test", [])
    assert folder.parent == tmp_path / "a" / "b" / "c"
    folder.parents[above].chmod(0o777)
    cache._unsafe_reason.cache_clear()
    assert tmp_path not in cache_folder("hdrl-test", []).parents
    folder.parents[above].chmod(0o1777)  # like /tmp: all may put files there, nobody may replace those of others
    cache._unsafe_reason.cache_clear()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "a" / "b" / "c"))
    assert cache_folder("hdrl-test", []) == folder


@POSIX
def test_a_folder_that_others_could_fill_is_emptied(parent: Path, warned: object):
    folder = cache_folder("hdrl-test", [])
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "planted.code").write_text("evil")
    folder.chmod(0o777)
    assert cache_folder("hdrl-test", []) == folder
    assert not list(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700


@POSIX
def test_links_lead_to_no_code(parent: Path, tmp_path: Path, warned: object):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "planted.code").write_text("evil")
    folder = cache_folder("hdrl-test", [])
    folder.rmdir()
    folder.symlink_to(elsewhere)
    assert cache_folder("hdrl-test", []) == folder
    assert not folder.is_symlink()
    (folder / "it.code").symlink_to(elsewhere / "planted.code")
    write_json(folder / "checksums.json", {"it.code": sha256_of_file(elsewhere / "planted.code")})
    assert cache_folder("hdrl-test", []) == folder
    assert not (folder / "it.code").is_symlink()


@ROOT
@pytest.mark.parametrize("name", [".", "it.code", "checksums.json"])
def test_code_of_another_user_is_not_taken(parent: Path, name: str, warned: object):
    folder = cache_folder("hdrl-test", [])
    (folder / "it.code").write_bytes(b"it\nevil")
    write_json(folder / "checksums.json", {"it.code": sha256_of_file(folder / "it.code")})
    assert cache_folder("hdrl-test", []) == folder
    assert (folder / "it.code").is_file()
    os.chown(folder / name, 12345, 12345)
    if name == ".":
        assert cache_folder("hdrl-test", []) != folder
    else:
        assert cache_folder("hdrl-test", []) == folder
        assert not (folder / "it.code").exists()


@POSIX
def test_code_that_others_may_write_is_not_taken(parent: Path, warned: object):
    folder = cache_folder("hdrl-test", [])
    folder.chmod(0o755)
    with writing(folder):
        (folder / "it.code").write_bytes(b"it\nsound")
        (folder / "it.code").chmod(0o666)
    assert (folder / "it.code").stat().st_mode & 0o022 == 0, "whatever the mask"
    assert cache_folder("hdrl-test", []) == folder
    assert (folder / "it.code").is_file()
    (folder / "it.code").chmod(0o646)
    assert cache_folder("hdrl-test", []) == folder
    assert not (folder / "it.code").exists()


@ROOT
@pytest.mark.usefixtures("warned", "without_others")
@pytest.mark.parametrize("above", [0, 1])
def test_who_is_faster_to_make_the_folder_gains_nothing(
    parent: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, above: int
):
    make = cache._make_private

    def make_slowly(folder: Path) -> None:
        others = [folder, *folder.parents][above]
        others.mkdir(parents=True)  # after its place was found to be safe
        os.chown(others, 12345, 12345)
        make(folder)

    monkeypatch.setattr(cache, "_make_private", make_slowly)
    assert tmp_path not in cache_folder("hdrl-test", []).parents


@ROOT
@pytest.mark.skipif(not IS_TRIED, reason="no bare code here")
def test_code_is_looked_at_when_it_is_loaded(parent: Path):
    folder = cache_folder("hdrl-test", [])
    assert entry_in(folder)(double)(2) == 4
    code = kept(folder, ".code")
    os.chown(code, 12345, 12345)
    told: list[str] = []
    with announcing(told.append):
        assert entry_in(folder)(double)(3) == 6
    assert len(told) <= 1
    assert code.stat().st_uid == 0, "it was compiled again"


@ROOT
def test_another_user_takes_what_root_has_compiled(parent: Path, warned: object):
    """As in the image of a container: all may read, only root may write."""
    folder = cache_folder("hdrl-test", [])
    (folder / "stamp").touch()
    for one in (folder, *folder.parents[:-1]):
        if one.stat().st_mode & 0o005 != 0o005 and "pytest" in str(one):
            one.chmod(0o755)
    code = (
        "import os\n"
        "from hdrl.compiled.cache import cache_folder\n"
        "os.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
        "print(cache_folder('hdrl-test', []))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (str(folder), "")


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
    assert [record.message.partition(" (")[0] for record in caplog.records] == ["compiling the simulator"]
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
    assert told[1:] == ["compiling the simulator (the first time only, about half a minute)"]
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
