"""What another machine or policy would do, on sites whose waits are known by hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import OptionsError
from hdrl.launcher.main import cli
from hdrl.site.whatif import WhatIf, what_if

N_JOBS = 40


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site of two nodes of one core, to which two jobs of 60 s come together every 100 s."""
    folder = tmp_path / "site"
    folder.mkdir()
    description = {"name": "pairs", "nodes": [{"names": "n[1-2]", "cores": 1}]}
    (folder / "site.json").write_text(json.dumps(description))
    lines = [f"{n + 1} {n // 2 * 100} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for n in range(N_JOBS)]
    (folder / "jobs.swf").write_text("".join(lines))
    return folder


def number(answer: dict, size: str, name: str) -> list[float]:
    (found,) = [row["numbers"][name] for row in answer["rows"] if row["size"] == size]
    return found


def test_waits_are_those_by_hand(site: Path):
    question = WhatIf(("-50%", "+100%"), ("fcfs+easy",), window=10, n_windows=2, warm_up=4, node_hour_price=2.0)
    answer = what_if(str(site), question, n_workers=1)
    assert answer["question"]["sizes"] == ["-50%", "as it is", "+100%"]
    assert [row["nodes"] for row in answer["rows"]] == [1, 2, 4]
    # With one core the second job of each pair waits for 60 s more than it did at the last one: 20 s of delay add up.
    waits = []
    free_s = 0.0
    for pair in range(7):
        for _ in range(2):
            start_s = max(free_s, 100.0 * pair)
            waits.append(start_s - 100 * pair)
            free_s = start_s + 60
    assert number(answer, "-50%", "mean_wait_s") == pytest.approx([np.mean(waits[4:])] * 3, abs=1e-3)
    assert number(answer, "as it is", "mean_wait_s") == pytest.approx([0, 0, 0], abs=1e-3)
    assert number(answer, "as it is", "cost_per_day") == [96, 96, 96]
    used = 14 * 60 / (2 * (600 + 60))
    assert number(answer, "as it is", "utilization")[0] == pytest.approx(used, rel=1e-6)
    assert number(answer, "+100%", "utilization")[0] == pytest.approx(used / 2, rel=1e-6)


def test_the_cheapest_machine_that_is_good_enough(site: Path):
    question = WhatIf(("-50%", "+100%"), ("fcfs+easy",), window=10, n_windows=3, warm_up=4, target_s=30)
    assert "has 2 nodes (as it is) under fcfs+easy: 48 a day" in what_if(site, question, n_workers=1)["verdict"]
    patient = WhatIf(("-50%", "+100%"), ("fcfs+easy",), window=10, n_windows=3, warm_up=4, target_s=3600)
    assert "has 1 nodes (-50%)" in what_if(site, patient, n_workers=1)["verdict"]


def test_answers_do_not_depend_on_workers(site: Path):
    question = WhatIf(("-50%",), ("fcfs+easy", "random+easy"), window=10, n_windows=3, warm_up=4)
    assert what_if(site, question, n_workers=1) == what_if(site, question, n_workers=2)


def test_jobs_that_one_machine_cannot_run_are_left_out_on_all(site: Path):
    lines = (site / "jobs.swf").read_text().splitlines()
    lines[3] = lines[3].replace("60 1 -1 -1 1 60", "60 2 -1 -1 2 60")
    (site / "jobs.swf").write_text("\n".join(lines))
    answer = what_if(site, WhatIf(("-50%",), ("fcfs+easy",), 10, 3, 0), n_workers=1)
    assert any(note.startswith("1 jobs do not fit on the smallest machine") for note in answer["notes"])


def test_the_command_writes_a_page(site: Path, tmp_path: Path):
    words = ("what-if", site, "--windows", "10:3", "--warm-up", 4, "--nodes", "-50%,+1", "-j", 1)
    done = call(*words, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    text, _, where = done.stdout.rpartition("\n\n")
    assert f"{text}\n" == (tmp_path / "out" / "whatif.txt").read_text()
    assert where == f"results in {tmp_path / 'out'}, one page: {tmp_path / 'out' / 'whatif.html'}\n"
    answer = json.loads((tmp_path / "out" / "whatif.json").read_text())
    assert json.loads(call(*words, "--json").stdout) == answer
    assert [row["nodes"] for row in answer["rows"][::2]] == [1, 2, 3]
    assert "How many nodes does pairs need?" in (tmp_path / "out" / "whatif.html").read_text()
    assert call(*words, "-o", tmp_path / "out").exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--nodes 10", "--nodes has '10', expected changes such as -10%, +20% or +4"),
        ("--nodes -100%", "--nodes -100% gives"),
        ("--nodes +9999999", "expected 1 to 131,072"),
        ("--windows 10", "expected LENGTH:COUNT"),
        ("--windows 0:3", "at least one window of one job"),
        ("--windows 1000:10", "the log has 40 jobs, a window takes 1,200"),
        ("--windows 1:9999999", "more than 100,000 simulations"),
        ("--windows 10:2 --warm-up 2 --policies fsfs+easy", "did you mean 'fcfs"),
        ("--policies ,", "--policies names no policy, expected for instance slurm"),
        ("--target-wait nan", "'nan', expected a number"),
        ("--node-hour-price inf", "'inf', expected a number"),
    ],
)
def test_mistakes_are_one_line(site: Path, tmp_path: Path, words: str, message: str):
    done = call("what-if", site, *words.split(), "-o", tmp_path / "out", "-j", 1)
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert (done.exit_code, len(errors)) == (2, 1), done.output
    assert message in errors[0]
    assert not (tmp_path / "out").exists()


def test_sizes_that_are_none(site: Path):
    with pytest.raises(OptionsError, match="expected changes"):
        what_if(site, WhatIf(("more",), ("fcfs+easy",), 10, 2, 0))


def test_no_more_cores_than_all_are_in_use(site: Path):
    """Of two windows that differ much, one nearly idle, an interval would reach beyond the whole machine."""
    dates = [*range(0, 800, 40), *range(1000, 101000, 5000)]
    lines = [f"{n + 1} {date} 0 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for n, date in enumerate(dates)]
    (site / "jobs.swf").write_text("".join(lines))
    answer = what_if(site, WhatIf(("+0%",), ("fcfs+easy",), window=20, n_windows=2, warm_up=0), n_workers=1)
    mean, low, high = number(answer, "as it is", "utilization")
    assert low < 0.01 < mean < high == 1.0
