"""Damaged results: each is named with the reason, and the board goes on without it."""

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.bench import board
from hdrl.bench.results import MAX_TEXT_BYTES
from hdrl.experiment.run.manifest import write_manifest
from hdrl.launcher.main import cli

TASK = "pipelines-overload-130"
POINTS = f"tasks/{TASK}"

VALUES: tuple[Any, ...] = (None, True, 7, -1.5, "text", [], ["text"], {}, {"text": "text"})
"""Of each type of JSON."""


def damages(value: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Return what may be wrong in JSON: places, without what is there or with another value there."""
    for key in value:
        rest = {name: one for name, one in value.items() if name != key}
        yield [key], rest
        for other in VALUES:
            if type(other) is not type(value[key]) or value[key] != other:
                yield [key], value | {key: other}
        if isinstance(value[key], dict):
            for path, inner in damages(value[key]):
                yield [key, *path], value | {key: inner}


def reason_of(folder: Path) -> str:
    """Return why the board does not rank a result; empty if it does."""
    results, unread = board._read([folder])
    players, refused = board._judged(results)
    (reason,) = [one.reason for one in (*unread, *refused)] or [""]
    assert len(players) + len(unread) + len(refused) == 1
    assert reason.isprintable(), "one line"
    return reason


HARMLESS = {"setting", "files", "training", "hdrl", "command", "words", "core_minutes"}
"""Keys with a default, or which may hold another text or number: what they say is shown, and decides nothing."""


def test_every_damage_of_a_card_is_named(made: Path, tmp_path: Path) -> None:
    card = json.loads((made / "card.json").read_text())
    folder = Path(shutil.copytree(made, tmp_path / "result"))
    n = 0
    for path, damaged in damages(card):
        (folder / "card.json").write_text(json.dumps(damaged))
        write_manifest(folder)
        reason = reason_of(folder)
        n += 1
        if not reason:
            assert path[-1] in HARMLESS, path
            continue
        told = reason.startswith("unread: ") and any(str(key) in reason for key in path)
        assert told or reason.partition(":")[0] in ("points", "budget", "stale", "unchecked"), (path, reason)
        if path[0] not in ("policy", "tasks", "training", "setting", "name"):
            assert told, (path, reason)
    assert n > 120


def test_every_damage_of_other_files_is_named(made: Path, tmp_path: Path) -> None:
    for name in (f"{POINTS}/sweep.json", f"{POINTS}/provenance.json", "manifest.json"):
        folder = Path(shutil.copytree(made, tmp_path / "result"))
        whole = json.loads((made / name).read_text())
        for path, damaged in damages(whole):
            (folder / name).write_text(json.dumps(damaged))
            if name != "manifest.json":
                write_manifest(folder)
            reason = reason_of(folder)
            # What is not compared decides nothing; a manifest may leave out hashes of files that are not needed.
            decides = name.endswith("sweep.json") and damaged.get(path[0]) != whole[path[0]]
            assert reason or not decides, (name, path)
        shutil.rmtree(folder)


RAW = {
    "empty": b"",
    "broken": b'{"name":',
    "no text": b"\xff\xfe{}",
    "deep": b"[" * 200_000,
    "twice": b'{"name": "a", "name": "b"}',
    "no number": b'{"name": NaN}',
    "long": b'{"name": ' + b"9" * 10_000 + b"}",
    "half": b'{"name": "\\ud800"}',
    "huge": b" " * (MAX_TEXT_BYTES + 1),
    "bomb": gzip.compress(b"[" + b"0," * (8 << 20) + b"0]"),
    "list": b"[1]",
}


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def writing(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {name: writing(content) for name, content in RAW.items()}
DAMAGES |= {"folder": a_folder, "pipe": a_pipe, "loop": a_loop, "gone": Path.unlink}


@pytest.mark.parametrize("name", ["card.json", "manifest.json", f"{POINTS}/sweep.json", f"{POINTS}/results.csv"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_hold_something_else_are_named(made: Path, tmp_path: Path, name: str, damage: str) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "result"))
    DAMAGES[damage](folder / name)
    if name not in ("card.json", "manifest.json") and damage not in ("folder", "pipe", "loop", "gone"):
        write_manifest(folder)
    assert reason_of(folder)


@pytest.mark.usefixtures("without_pictures")
def test_the_board_goes_on_without_what_it_cannot_read(made: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="pages need the extra report")
    folders = {}
    for damage, change in DAMAGES.items():
        folders[damage] = Path(shutil.copytree(made, tmp_path / damage))
        change(folders[damage] / "card.json")
    withdrawn = Path(shutil.copytree(made, tmp_path / "withdrawn"))
    (withdrawn / "withdrawn.txt").write_bytes(b"\xff")
    given = [*folders.values(), tmp_path / ("long" * 100), made, withdrawn]
    done = CliRunner().invoke(cli, ["bench", "board", *map(str, given), "-o", str(tmp_path / "site")])
    assert done.exit_code == 1, done.output
    *lines, last = done.output.splitlines()
    assert [line.partition(": unread: ")[0] for line in lines] == [str(one) for one in given[:-2]]
    assert "pages; open" in last
    index = (tmp_path / "site" / "index.html").read_text()
    assert all(f"{name} is not ranked: unread: " in index for name in folders)
    assert "edf+fusion is not ranked: withdrawn: " in index
    assert "1 result beside" in index
    done = CliRunner().invoke(cli, ["bench", "check", str(folders["deep"]), str(made), "--quiet"])
    assert done.exit_code == 2
    assert "nested too deeply" in done.output
    assert "is true; 6 simulations repeated" in done.output
