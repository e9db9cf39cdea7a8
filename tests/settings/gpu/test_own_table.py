"""A GPU operator's own table: columns by ``load.columns``, and what is wrong with a mapping in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hdrl.base.errors import HdrlError, OptionsError, ReadError
from hdrl.launcher.main import cli
from hdrl.settings.gpu.loads.readers import read_trace

TABLE = """queued_at,began,finished,alloc_gpu,account,gpus,limit
2026-03-01 00:00:00,2026-03-01 00:00:10,2026-03-01 00:10:10,8,ann,node1,3600
2026-03-01T00:01:00Z,2026-03-01 00:01:00,2026-03-01 00:01:30,0.5,bob,node2,60
2026-03-01 00:02:00,,,4,ann,node3,60
"""
COLUMNS = {
    **{"submit_time": "queued_at", "start_time": "began", "end_time": "finished"},
    **{"gpus": "alloc_gpu", "user": "account", "time_limit": "limit"},
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    return path


@pytest.mark.parametrize(("name", "known_as"), [("jobs", "jobs"), ("jobs.csv", "jobs"), ("my.jobs.csv", "my.jobs")])
def test_a_load_has_the_name_of_its_file(tmp_path: Path, name: str, known_as: str) -> None:
    (tmp_path / name).write_text(TABLE)
    assert read_trace(tmp_path / name, columns=COLUMNS).name == known_as


def test_a_table_of_ones_own_becomes_jobs(table: Path) -> None:
    load = read_trace(table, columns=COLUMNS)
    assert load.origin["format"] == "table"
    assert load.jobs["arrival_s"].tolist() == [0.0, 60.0]
    assert load.jobs["work"].tolist() == [600.0, 30.0]
    assert load.jobs["n_gpus"].tolist() == [8, 1]
    assert load.jobs["gpu_milli"].tolist() == [1000, 500]
    assert load.jobs["wait_s"].tolist() == [10.0, 0.0]
    assert load.jobs["requested_s"].tolist() == [3600.0, 60.0]
    assert load.users == ("ann", "bob")
    assert load.n_dropped == {"jobs without a duration": 1}


def test_seconds_and_semicolons_do_as_well(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("t;n;d\n1767225600;2;30\n1767225610;1;5\n")
    load = read_trace(path, columns={"submit_time": "t", "gpus": "n", "duration": "d"})
    assert (load.jobs["arrival_s"].tolist(), load.jobs["work"].tolist()) == ([0.0, 10.0], [30.0, 5.0])
    assert load.faults == ()


def test_columns_of_another_format_are_mapped_as_well(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,runtime,gpus,priority\n0,30,2,1\n")
    assert read_trace(path, columns={"arrival_time": "arrival"}).origin["format"] == "drl-gpu"


@pytest.mark.parametrize(
    ("columns", "kind", "says"),
    [
        ({"gpus": "aloc_gpu"}, ReadError, "has no column 'aloc_gpu' of load.columns; did you mean 'alloc_gpu'?"),
        ({"gpus": "alloc_gpu", "user": "alloc_gpu"}, OptionsError, "load.columns gives one column two names"),
        ({"gpus": "alloc_gpu"}, ReadError, "is like 'table', but has no column 'submit_time'"),
    ],
)
def test_a_wrong_mapping_is_one_line(table: Path, columns: dict[str, str], kind: type[HdrlError], says: str) -> None:
    with pytest.raises(kind) as caught:
        read_trace(table, columns=columns)
    assert says in str(caught.value)


def test_a_comparison_takes_the_mapping(table: Path) -> None:
    words = ["compare", "fifo", "sjf", "--setting", "gpu", "-p", "sia", "-w", str(table), "--baseline", "fifo"]
    done = CliRunner().invoke(
        cli, [*words, "--set", f"load.columns={json.dumps(COLUMNS)}", "--out", str(table.parent / "o")]
    )
    assert done.exit_code == 0, done.output


def test_offsets_of_dates_count(tmp_path: Path) -> None:
    """Durations over a change of clocks, fractions, and dates without seconds included."""
    path = tmp_path / "jobs.csv"
    path.write_text(
        "submit_time,gpus,start_time,end_time\n"
        "2026-03-29T01:59:00+01:00,1,2026-03-29T01:59:59.5+01:00,2026-03-29T03:00:00+02:00\n"
        "2026-03-29 01:00Z,1,2026-03-29 01:00 UTC,2026-03-29T01:02:00\n"
    )
    jobs = read_trace(path).jobs
    assert jobs["work"].tolist() == [0.5, 120.0]
    assert jobs["arrival_s"].tolist() == [0.0, 60.0]


def test_a_limit_of_zero_is_none(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration,time_limit\n0,1,5,0\n0,1,5,-1\n0,1,5,60\n")
    assert np.array_equal(read_trace(path).jobs["requested_s"], [np.nan, np.nan, 60.0], equal_nan=True)


def test_a_column_that_occurs_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration,duration\n0,1,5,7\n")
    with pytest.raises(ReadError, match="has two columns 'duration'"):
        read_trace(path)


def test_the_first_column_may_have_no_name(tmp_path: Path) -> None:
    """As in tables of pandas."""
    path = tmp_path / "jobs.tsv"
    path.write_text("\twhen\tgpus\tduration\n0\t3\t1\t5\n")
    assert read_trace(path, columns={"submit_time": "when"}).jobs["work"].tolist() == [5.0]
