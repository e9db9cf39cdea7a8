"""The logs of a training: tidy tables that grow, are cut off, and become HDeepRM's files."""

import json
import math
from pathlib import Path

import pytest

from hdrl.base.errors import MissingExtra, ReadError
from hdrl.experiment.train.log import Events, LogTable, TrainingLog


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_a_table_grows_by_rows(tmp_path: Path):
    table = LogTable(tmp_path / "t.csv")
    table.append([{"a": 1, "b": 0.1}])
    table.append([{"a": 2.0, "b": math.nan}, {"a": 1e300, "b": -2.5}])
    assert text(tmp_path / "t.csv") == "a,b\n1,0.1\n2,\n1e+300,-2.5\n"
    assert table.n_rows == 3
    assert table.column("b") == [0.1, pytest.approx(math.nan, nan_ok=True), -2.5]


def test_numbers_come_back_as_they_were(tmp_path: Path):
    values = [0.1 + 0.2, 1 / 3, -1e-300, 123456789.123456789, 2.0**60]
    table = LogTable(tmp_path / "t.csv")
    table.append([{"a": value} for value in values])
    assert table.column("a") == values


@pytest.mark.parametrize(
    ("row", "told"), [("-,2", "row 2: a is '-', expected a number"), ("1,2,3", "row 2 has 3 columns, expected 2")]
)
def test_a_damaged_table_is_refused_before_a_training(tmp_path: Path, row: str, told: str):
    (tmp_path / "t.csv").write_text(f"a,b\n1,\n{row}\n")
    with pytest.raises(ReadError, match=told):
        LogTable(tmp_path / "t.csv", n_rows=2)
    assert text(tmp_path / "t.csv") == f"a,b\n1,\n{row}\n"
    assert LogTable(tmp_path / "t.csv", n_rows=1).n_rows == 1


def test_a_new_column_is_empty_in_older_rows(tmp_path: Path):
    table = LogTable(tmp_path / "t.csv")
    table.append([{"a": 1}])
    table.append([{"a": 2, "late": 3}, {"late": 4}])
    assert text(tmp_path / "t.csv") == "a,late\n1,\n2,3\n,4\n"


def test_a_table_that_goes_on_forgets_what_came_later(tmp_path: Path):
    table = LogTable(tmp_path / "t.csv")
    table.append([{"a": value} for value in range(4)])
    with (tmp_path / "t.csv").open("a") as out:
        out.write("7,torn")
    again = LogTable(tmp_path / "t.csv", n_rows=2)
    again.append([{"a": 9}])
    assert text(tmp_path / "t.csv") == "a\n0\n1\n9\n"


def test_a_table_that_lacks_rows_is_refused(tmp_path: Path):
    LogTable(tmp_path / "t.csv").append([{"a": 1}])
    with pytest.raises(ReadError, match="has 1 rows, expected at least 5"):
        LogTable(tmp_path / "t.csv", n_rows=5)


def test_a_new_table_does_not_go_on_with_an_old_file(tmp_path: Path):
    LogTable(tmp_path / "t.csv").append([{"a": 1}])
    LogTable(tmp_path / "t.csv").append([{"b": 2}])
    assert text(tmp_path / "t.csv") == "b\n2\n"


def test_hdeeprms_files_are_made_of_the_tables(tmp_path: Path):
    log = TrainingLog(tmp_path)
    log.add(
        {"iteration": 1, "loss": 0.5, "probability.first-random": 0.25, "probability.void": 0.75},
        [{"iteration": 1, "return": -3.0, "makespan_s": 20.5}, {"iteration": 1, "return": -2.5, "makespan_s": 20.0}],
    )
    log.add({"iteration": 2, "probability.first-random": 0.5, "probability.void": 0.5}, [])
    log.write_hdeeprm_files()
    assert text(tmp_path / "losses.log") == "0.5\n", "an iteration without a loss has no line"
    assert text(tmp_path / "rewards.log") == "-3\n-2.5\n"
    assert text(tmp_path / "makespans.log") == "20.5\n20\n"
    assert json.loads(text(tmp_path / "probs.json")) == {"probs": [[0.25, 0.5], [0.75, 0.5]]}
    assert log.state_dict() == {"n_iterations": 2, "n_episodes": 2}


def test_a_log_goes_on_where_it_was_saved(tmp_path: Path):
    log = TrainingLog(tmp_path)
    log.add({"iteration": 1}, [{"return": 1.0}])
    state = log.state_dict()
    log.add({"iteration": 2}, [{"return": 2.0}])
    again = TrainingLog(tmp_path, state)
    again.add({"iteration": 2}, [{"return": 5.0}])
    assert text(tmp_path / "training.csv") == "iteration\n1\n2\n"
    assert text(tmp_path / "episodes.csv") == "return\n1\n5\n"


def test_events_are_written_for_tensorboard(tmp_path: Path):
    pytest.importorskip("tensorboardX", reason="events need tensorboardX")
    events = Events(tmp_path / "events")
    row = {"loss": 0.5, "nothing": math.nan, "episode_return": 1.0, "validation_return": 2.0, "probability.void": 0.1}
    events.add(2048, row)
    events.close()
    (path,) = (tmp_path / "events").iterdir()
    written = path.read_bytes()
    for tag in (b"training/loss", b"episode/return", b"validation/return", b"probability/void"):
        assert tag in written
    assert b"nothing" not in written


def test_a_resumed_training_hides_no_event_that_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tensorboard = pytest.importorskip("tensorboardX", reason="events need tensorboardX")
    given: list[int | None] = []
    monkeypatch.setattr(tensorboard, "SummaryWriter", lambda folder, purge_step: given.append(purge_step))
    Events(tmp_path)
    Events(tmp_path, 2048)
    assert given == [None, 2049], "TensorBoard hides everything from that step on, the one of 2,048 stays"


def test_a_missing_tensorboardx_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorboardX", None)
    with pytest.raises(MissingExtra, match=r"this needs tensorboardX: pip install 'hdrl\[learn\]'"):
        Events(tmp_path)
