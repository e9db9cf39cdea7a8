"""Ways to cheat the check of a result whose hashes are right: each is named, and nothing of the result runs."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.base.errors import HdrlError
from hdrl.bench import board, cell
from hdrl.bench.check import MAX_BYTES, check_result
from hdrl.bench.results import read_result
from hdrl.bench.tasks import read_task
from hdrl.experiment.run.manifest import write_manifest

TASK = "pipelines-overload-130"


@pytest.fixture
def result(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "result"))


def change_card(folder: Path, **changes: object) -> None:
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | changes))


def change_points(folder: Path, value: Callable[[str], str], column: str = "miss_ratio") -> None:
    path = folder / "tasks" / TASK / "results.csv"
    head, *rows = path.read_text().splitlines()
    position = head.split(",").index(column)
    cells = [row.split(",") for row in rows]
    for row in cells:
        if row[0] == "edf+fusion":
            row[position] = value(row[position])
    path.write_text("\n".join([head, *(",".join(row) for row in cells)]) + "\n")


def name_a_file_as_a_policy(folder: Path) -> None:
    evil(folder)
    change_card(folder, policy=str(folder.parent / "evil.py"))
    change_sweep(folder, "evil.py")


def change_sweep(folder: Path, candidate: str) -> None:
    path = folder / "tasks" / TASK / "sweep.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"candidates": [f"edf+fusion={candidate}"]}))


def evil(folder: Path) -> None:
    text = f"open({str(folder.parent / 'ran')!r}, 'w')\ndef policy(view):\n    return []\n"
    (folder.parent / "evil.py").write_text(text)


def repeat_a_row(folder: Path) -> None:
    path = folder / "tasks" / TASK / "results.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")


def link_the_points(folder: Path) -> None:
    path = folder / "tasks" / TASK / "results.csv"
    path.rename(folder.parent / "elsewhere.csv")
    path.symlink_to(folder.parent / "elsewhere.csv")


def put_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "entry" / "pipe")


def put_a_huge_file(folder: Path) -> None:
    with (folder / "entry" / "huge").open("wb") as file:
        file.truncate(MAX_BYTES + 1)


def name_a_file_outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("x")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../outside"] = "0" * 64
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("cheat", "is_rehashed", "said"),
    [
        (lambda folder: change_points(folder, lambda text: repr(float(text) * 0.999)), True, "replay: miss_ratio is"),
        (lambda folder: change_points(folder, lambda _: "-inf"), True, "points: .*'-inf', expected a finite number"),
        (lambda folder: change_points(folder, lambda _: "1e999"), True, "points: .*'1e999', expected a finite number"),
        (lambda folder: change_points(folder, lambda _: "none"), True, "points: .*'none', expected a finite number"),
        (lambda folder: change_points(folder, lambda _: ""), True, "replay: .*miss_ratio is"),
        (repeat_a_row, True, "points: .* twice"),
        (name_a_file_as_a_policy, True, "points: the card says that its entry is of kind policy; .* of kind python"),
        (link_the_points, False, f"hash: tasks/{TASK}/results.csv: is a link"),
        (put_a_pipe, False, "hash: entry/pipe: is not a file"),
        (put_a_huge_file, False, "hash: entry/huge: is too much"),
        (name_a_file_outside, False, r"hash: \.\./outside: is missing"),
    ],
)
def test_cheats_are_named(result: Path, cheat: Callable[[Path], None], *, is_rehashed: bool, said: str) -> None:
    cheat(result)
    if is_rehashed:
        write_manifest(result)
    began_s = time.process_time()
    checked = check_result(result, n_windows=None)
    lines = [f"{one.kind}: {one.where}: {one.text}" for one in checked.findings]
    kind, _, words = said.partition(": ")
    assert re.match(f"{kind}: .*{words}", lines[0]), lines
    assert not (result.parent / "ran").exists(), "a file outside of entry/ ran"
    assert time.process_time() - began_s < 60


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"files": ["../../evil.py"], "kind": "python"}, "files"),
        ({"tasks": {"../../evil": "0" * 64}}, "tasks"),
        ({"name": "a=b"}, "name"),
        ({"files": ["mine.py"], "kind": "python", "policy": "/../../../evil.py"}, "has policy"),
        ({"files": ["evil.sh"], "kind": "python"}, "expected files that end in .py"),
        ({"training": {"core_minutes": -5}}, "core_minutes"),
    ],
)
def test_cards_that_lead_elsewhere_are_refused(result: Path, changes: dict[str, object], said: str) -> None:
    change_card(result, **changes)
    with pytest.raises(HdrlError, match=said) as caught:
        check_result(result)
    assert "\n" not in str(caught.value)


def test_links_are_not_read_before_they_are_checked(result: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a password")
    (result / "withdrawn.txt").symlink_to(secret)
    assert read_result(result).withdrawn() == ""
    (result / "card.json").rename(tmp_path / "card.json")
    (result / "card.json").symlink_to(tmp_path / "card.json")
    with pytest.raises(HdrlError, match=r"no file card\.json"):
        read_result(result)


def test_failing_where_others_are_better_does_not_pay(made: Path) -> None:
    named = read_task(TASK)
    ((player,), _) = board._judged(board._read([made])[0])
    players = board._classic_players({TASK: named})
    failed = np.where(player.objective[TASK] > np.median(player.objective[TASK]), np.nan, player.objective[TASK])
    cheat = board.BoardEntry("cheat", "python", "untrained", 0.0, "", {TASK: failed}, player.tail)
    rows = {row.name: row for row in board._rows([named], [*players, player, cheat])}
    assert np.isnan(rows["cheat"].ratio.value)
    assert rows["cheat"].rank.value > rows["edf+fusion"].rank.value


def test_answers_that_a_strangers_code_wrote_are_looked_at() -> None:
    row = {"candidate": "mine", "window": 0, "seed": 0, "metrics": {}, "problem": ""}
    good = {"rows": [row], "known": [["truth", "sees"]], "problem": "", **dict.fromkeys(cell.RIGHTS, False)}
    assert cell._is_answer(good)
    assert cell._is_answer(
        good | {"rows": [row | {"metrics": {"mean_wait_s": None, "max_wait_s": "inf", "p99_wait_s": 1.0}}]}
    )
    for bad in ([], {}, good | {"rows": [{}]}, good | {"known": [1]}, good | {"rows": [row | {"window": "0"}]}):
        assert not cell._is_answer(bad)
    for rows in (5, [row | {"metrics": {"mean_wait_s": []}}], [row | {"metrics": {"mean_wait_s": "abc"}}]):
        assert not cell._is_answer(good | {"rows": rows})
    assert not cell._is_answer(good | {"known": None})


def test_what_strangers_wrote_is_shown_on_one_line(result: Path) -> None:
    (result / "entry" / "\x1b[2J\nforged: is true").write_text("")
    findings = check_result(result).findings
    assert any("forged" in one.where + one.text for one in findings)
    assert all(one.text.isprintable() and one.where.isprintable() for one in findings)
