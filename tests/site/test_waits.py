"""When waiting jobs start, on sites whose queues are solved by hand, and how often intervals hold what happened."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.batch import unknown_rows
from hdrl.launcher.main import cli
from hdrl.settings.batch.waits import PastWaits, adapted, calibrated, known_jobs, predicted_run_s
from hdrl.site import ImportChoices, import_site
from hdrl.site.example import write_example

HEADER = "JobID|User|Partition|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State\n"
QUEUE = HEADER + (
    "7|ann|main|2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200|60|1|1|RUNNING\n"
    "8|ann|main|2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0|30|0|2|PENDING\n"
    "9|bob|main|2026-01-02T09:50:00|2026-01-02T09:50:00|Unknown|Unknown|0|30|0|1|PENDING\n"
    "10_[1-2]|eve|main|2026-01-02T09:55:00|2026-01-02T09:55:00|Unknown|Unknown|0|60|0|1|PENDING\n"
    "11|bob|main|2026-01-02T09:56:00|Unknown|Unknown|Unknown|0|30|0|1|PENDING\n"
    "12|bob|main|2026-01-02T10:00:00|2026-01-02T10:00:00|Unknown|Unknown|0|30|0|3|PENDING\n"
)


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a site of two cores, to which four jobs of 60 s come together every 200 s: two of them wait for 60 s."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "site.json").write_text(json.dumps({"name": "fours", "nodes": [{"names": "n[1-2]", "cores": 1}]}))
    (folder / "names.json").write_text(json.dumps({"user": ["ann", "bob"]}))
    lines = [f"{n + 1} {n // 4 * 200} {n % 4 // 2 * 60} 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n" for n in range(400)]
    (folder / "jobs.swf").write_text("; UnixStartTime: 1767225600\n" + "".join(lines))
    (tmp_path / "queue.txt").write_text(QUEUE)
    return folder


def test_starts_are_those_by_hand(site: Path):
    done = call("wait", site, "--now", site.parent / "queue.txt", "--predictor", "requested", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["now"] == "2026-01-02T10:00:00Z"
    assert (answer["running"], answer["coverage"]) == (1, 1.0)
    assert answer["left_out"] == {
        "not eligible: held, or waits for another job": 1,
        "more cores than the machine has": 1,
    }
    # The one that runs has 40 minutes left. 8 needs both cores, 9 ends before that, and both tasks of 10 come after 8.
    waits = {8: 2400, 9: 0, 10: 4200}
    found = [(job["id"], job["wait_s"]) for job in answer["jobs"]]
    assert found == [("8", waits[8]), ("9", waits[9]), *[("10_[2 tasks]", waits[10])] * 2]
    # All predictions of the log were right, so that intervals have no width.
    assert all(job["low_s"] == pytest.approx(job["wait_s"], abs=0.1) == job["high_s"] for job in answer["jobs"])
    assert answer["jobs"][0]["start"] == answer["jobs"][0]["latest"] == "2026-01-02T10:40:00Z"


def test_starts_are_within_their_intervals_where_all_predictions_were_too_early(site: Path):
    lines = (site / "jobs.swf").read_text().splitlines()
    rows = [line.split(" ") for line in lines[1:]]
    late = [" ".join([*row[:2], str(int(row[2]) + 100), *row[3:]]) for row in rows]
    (site / "jobs.swf").write_text("\n".join([lines[0], *late]) + "\n")
    done = call("wait", site, "--now", site.parent / "queue.txt", "--predictor", "requested", "--json")
    assert done.exit_code == 0, done.output
    jobs = json.loads(done.stdout)["jobs"]
    # Job 9 could start now, but jobs that could do so have waited for 100 s.
    assert (jobs[1]["id"], jobs[1]["wait_s"]) == ("9", 100.0)
    assert all(job["low_s"] <= job["wait_s"] <= job["high_s"] for job in jobs)
    assert all(job["earliest"] <= job["start"] <= job["latest"] for job in jobs)


def test_past_waits_are_remembered_and_made_anew_when_damaged(site: Path):
    words = ("wait", site, "--now", site.parent / "queue.txt", "--json")
    first = call(*words).stdout
    stored = (site / "waits.npz").read_bytes()
    assert call(*words).stdout == first
    (site / "waits.npz").write_bytes(stored[:100])
    assert call(*words).stdout == first
    assert (site / "waits.npz").read_bytes() == stored
    call(*words, "--policy", "sjf+easy")
    assert (site / "waits.npz").read_bytes() != stored


def test_past_waits_are_those_before_the_date_of_the_dump(site: Path):
    dump, early = site.parent / "queue.txt", site.parent / "early.txt"
    early.write_text(QUEUE.replace("2026-01-02T", "2026-01-01T"))
    alone = call("wait", site, "--now", early, "--json").stdout
    n_past = json.loads(call("wait", site, "--now", dump, "--json").stdout)["past_waits"]
    assert call("wait", site, "--now", early, "--json").stdout == alone
    # A changed log is read anew.
    with (site / "jobs.swf").open("a") as log:
        log.write("401 95000 60 60 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n")
    assert json.loads(call("wait", site, "--now", dump, "--json").stdout)["past_waits"] == n_past + 1


def test_nothing_is_learned_from_jobs_that_still_run():
    rows = unknown_rows(4)
    rows["submit_s"], rows["wait_s"], rows["run_s"], rows["requested_s"] = (
        [0, 10, 9000, 9100],
        0,
        [3000, 3000, 1, 1],
        7200,
    )
    rows["processors"], rows["user"] = 1, 5
    alone = predicted_run_s(known_jobs(rows[:2]), rows[3:], "geo")[1]
    beside = predicted_run_s(known_jobs(rows[:2]), rows[2:], "geo")[1]
    assert alone[0] == beside[1] > 1000


def test_the_same_question_gives_the_same_bytes(site: Path):
    words = ("wait", site, "--now", site.parent / "queue.txt", "--json")
    assert call(*words).stdout_bytes == call(*words).stdout_bytes


def test_bounds_are_order_statistics():
    errors = 1 + np.arange(19) / 10
    intervals = calibrated(np.full(19, 60.0), 120 * errors - 60)
    # With 19 errors the next one is below the least, or above the largest, in one of 20 cases each.
    assert [*intervals.low, *intervals.high] == pytest.approx([errors[0], errors[-1]])
    low_s, high_s = intervals.bounds_of(np.array([0.0]))
    assert [low_s[0], high_s[0]] == pytest.approx([0, 60 * 2.8 - 60])


def test_intervals_hold_nine_of_ten_of_the_next_waits():
    draws = np.random.default_rng(5)
    predicted_s = draws.exponential(5000, 20_000)
    # Long predictions err more than short ones.
    true_s = predicted_s * np.exp(draws.normal(0.3, 0.2 + predicted_s / 20_000))
    low_s, high_s = calibrated(predicted_s[:10_000], true_s[:10_000]).bounds_of(predicted_s[10_000:])
    holds = (low_s <= true_s[10_000:]) & (true_s[10_000:] <= high_s)
    assert np.mean(holds) == pytest.approx(0.9, abs=0.01)
    long = predicted_s[10_000:] > 5000
    assert np.mean(holds[long]) == pytest.approx(0.9, abs=0.02)


def drifting(factor: float) -> PastWaits:
    """Return waits at 600 dates, ten a date, which are a factor longer than before in the last 30 % of them."""
    draws = np.random.default_rng(7)
    predicted_s = draws.exponential(5000, 6000)
    is_late = np.arange(6000) >= 4200
    true_s = (predicted_s + 60) * np.exp(draws.normal(0, 0.3, 6000)) * np.where(is_late, factor, 1)
    return PastWaits(predicted_s, true_s, np.repeat(np.arange(600) * 1000.0, 10), is_late, 600)


def test_intervals_follow_a_site_that_changes():
    steady, changed = drifting(1.0), drifting(1.6)
    fixed = calibrated(changed.predicted_s[~changed.is_late], changed.true_s[~changed.is_late])
    assert np.mean(fixed.hold(changed.predicted_s[changed.is_late], changed.true_s[changed.is_late])) < 0.7
    # It takes some dates to notice a sudden change.
    assert 0.84 < adapted(changed).coverage < 0.92
    assert adapted(steady).coverage == pytest.approx(0.9, abs=0.02)


def test_what_is_not_over_by_a_date_does_not_count_there():
    past = drifting(1.0)
    endless = PastWaits(past.predicted_s, past.true_s + 1e9, past.date_s, past.is_late, past.n_dates)
    assert np.isnan(adapted(endless).coverage)


def test_the_example_says_how_often_intervals_hold(tmp_path: Path):
    write_example(tmp_path / "ex", 1500)
    choices = ImportChoices(confs=(tmp_path / "ex" / "slurm.conf",), n_replayed=0)
    import_site([tmp_path / "ex" / "sacct.txt"], tmp_path / "site", choices)
    answer = json.loads(call("wait", tmp_path / "site", "--now", tmp_path / "ex" / "queue.txt", "--json").stdout)
    queue = (tmp_path / "ex" / "queue.txt").read_text()
    assert len(answer["jobs"]) == queue.count("|PENDING|") > 0
    assert answer["running"] == queue.count("|RUNNING|") > 0
    assert 0.6 < answer["coverage"] <= 1
    assert all(0 <= job["low_s"] <= job["high_s"] for job in answer["jobs"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--policy fsfs+easy", "did you mean 'fcfs"),
        ("--predictor gio", "did you mean 'geo'"),
        ("--zone Nowhere/Else", "Nowhere/Else"),
        ("--format sact", "did you mean 'sacct'"),
    ],
)
def test_mistakes_are_one_line(site: Path, words: str, message: str):
    done = call("wait", site, "--now", site.parent / "queue.txt", *words.split())
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert (done.exit_code, len(errors)) == (2, 1), done.output
    assert message in errors[0]


def test_a_log_without_waits_tells_nothing(site: Path):
    log = site / "jobs.swf"
    log.write_text("\n".join(log.read_text().splitlines()[:21]))
    done = call("wait", site, "--now", site.parent / "queue.txt")
    assert done.exit_code == 2
    assert "waits of 20 jobs before the date of queue.txt are known, expected at least 100" in done.stderr


@pytest.mark.parametrize("text", ["[", "[1]", '{"user": 3}', '{"user": [[]]}'])
def test_names_that_no_import_wrote(site: Path, text: str):
    (site / "names.json").write_text(text)
    done = call("wait", site, "--now", site.parent / "queue.txt")
    assert (done.exit_code, "names.json: cannot be read" in done.stderr) == (2, True)


def answer_of(site: Path, conf: Mapping[str, object], rows: str, *words: str, header: str = HEADER) -> dict[str, Any]:
    """Return the answer for a queue under the rules of a site."""
    (site / "site.json").write_text(json.dumps({"name": "fours"} | conf))
    (site / "platform.json").write_text(json.dumps({"site_rules": "site.json"}))
    (site.parent / "queue.txt").write_text(header + rows)
    done = call("wait", site, "--now", site.parent / "queue.txt", "--predictor", "requested", "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_waiting_jobs_keep_to_their_partitions(site: Path):
    conf = {
        "nodes": [{"names": "n[1-3]", "cores": 1}],
        "partitions": {
            "main": {"nodes": "n[1-2]", "max_time_s": 3600, "is_default": True},
            "new": {"nodes": "n3", "max_time_s": 3600},  # no job of the log was there
        },
    }
    dates = "2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0"
    rows = (
        "6|ann|main|2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200|60|1|1|RUNNING\n"
        "7|ann|main|2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200|60|1|1|RUNNING\n"
        f"8|ann|main,new|{dates}|Partition_Limit|0|1|PENDING\n"
        f"9|ann|new|{dates}|Partition_Limit|0|1|PENDING\n"
        f"10|ann|gone|{dates}|30|0|1|PENDING\n"
        f"11|ann|new|{dates}|61|0|1|PENDING\n"
        f"12|ann|new|{dates}|30|0|2|PENDING\n"
    )
    answer = answer_of(site, conf, rows)
    assert answer["left_out"] == {
        "longer than their partition allows": 1,
        "more cores, nodes, memory or GPUs than their partition has": 1,
    }
    assert answer["notes"] == ["1 jobs are in partitions that the site lacks, and count for its default one"]
    found = {job["id"]: job["wait_s"] for job in answer["jobs"]}
    # 8 takes the node of partition new, for an hour at most; 9 follows it there, and 10 follows what runs.
    assert found == pytest.approx({"8": 0, "9": 3600, "10": 2400}, rel=0.01, abs=1)


def test_waiting_jobs_obey_limits_of_qos_and_accounts(site: Path):
    conf = {
        "nodes": [{"names": "n[1-2]", "cores": 1}],
        "qos": {"small": {"MaxTRES": "cpu=1"}},
        "accounts": {"bio": {"MaxJobs": "1"}},
    }
    header = HEADER.replace("|Partition", "|Account|QOS|Partition")
    began = "2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200"
    dates = "2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0"
    rows = (
        f"7|ann|bio|small|main|{began}|60|1|1|RUNNING\n"
        f"8|ann|bio|small|main|{dates}|30|0|1|PENDING\n"
        f"9|ann|phys|small|main|{dates}|30|0|1|PENDING\n"
        f"10|ann|phys|small|main|{dates}|30|0|2|PENDING\n"
    )
    answer = answer_of(site, conf, rows, header=header)
    # The account of 8 has one job at a time; 10 asks for more than its QOS allows.
    assert answer["left_out"] == {"more than a limit of their QOS, partition, account or user allows": 1}
    found = {job["id"]: job["wait_s"] for job in answer["jobs"]}
    assert found == pytest.approx({"8": 2400, "9": 0}, rel=0.01, abs=1)
    # A running job keeps its nodes, even beyond today's limits.
    running = rows.splitlines(keepends=True)[0].replace("|60|1|1|", "|60|2|2|")
    answer = answer_of(site, conf, running + rows.splitlines(keepends=True)[2], header=header)
    assert [job["wait_s"] for job in answer["jobs"]] == pytest.approx([2400], rel=0.01)


def test_waiting_jobs_need_their_gpus(site: Path):
    conf = {
        "nodes": [{"names": "n[1-2]", "cores": 1}, {"names": "g[1-2]", "cores": 8, "gpus": 2}],
        "partitions": {"main": {"nodes": "n[1-2]", "is_default": True}, "gpu": {"nodes": "g[1-2]"}},
    }
    header = HEADER.replace("|State", "|ReqNodes|ReqTRES|State")
    began = "2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200"
    dates = "2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0"
    rows = (
        f"7|ann|gpu|{began}|60|1|1|1|cpu=1,gres/gpu=2|RUNNING\n"
        f"8|ann|gpu|{dates}|30|0|2|2|cpu=2,node=2,gres/gpu:a100=4|PENDING\n"
        f"9|ann|gpu|{dates}|30|0|1|1|cpu=1,gres/gpu=1|PENDING\n"
        f"10|ann|gpu|{dates}|30|0|1|1|cpu=1|PENDING\n"
    )
    answer = answer_of(site, conf, rows, header=header)
    found = {job["id"]: job["wait_s"] for job in answer["jobs"]}
    # 8 takes the GPUs of both nodes when 7 ends; 9 and 10 need less and end before that.
    assert found == pytest.approx({"8": 2400, "9": 0, "10": 0}, rel=0.01, abs=1)


def test_dates_are_in_the_time_zone_of_the_import(site: Path):
    (site / "import.json").write_text(json.dumps({"zone": "Europe/Madrid"}))
    queue = ("wait", site, "--now", site.parent / "queue.txt", "--json")
    assert json.loads(call(*queue).stdout)["now"] == "2026-01-02T09:00:00Z"
    assert json.loads(call(*queue, "--zone", "UTC").stdout)["now"] == "2026-01-02T10:00:00Z"


HET_QUEUE = HEADER + (
    "7|ann|main|2026-01-02T09:40:00|2026-01-02T09:40:00|2026-01-02T09:40:00|Unknown|1200|60|1|1|RUNNING\n"
    "20+0|ann|main|2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0|30|0|1|PENDING\n"
    "20+1|ann|main|2026-01-02T09:45:00|2026-01-02T09:45:00|Unknown|Unknown|0|30|0|1|PENDING\n"
    "21|bob|main|2026-01-02T10:00:00|2026-01-02T10:00:00|Unknown|Unknown|0|30|0|1|PENDING\n"
)


@pytest.mark.parametrize("has_rules", [True, False])
def test_het_jobs_wait_for_all_their_components(site: Path, *, has_rules: bool):
    if has_rules:
        rules = {"name": "fours", "nodes": [{"names": "n[1-2]", "cores": 1}], "partitions": {"main": {}}}
        (site / "site.json").write_text(json.dumps(rules))
        (site / "platform.json").write_text(json.dumps({"site_rules": "site.json"}))
    (site.parent / "queue.txt").write_text(HET_QUEUE)
    done = call("wait", site, "--now", site.parent / "queue.txt", "--predictor", "requested", "--json")
    assert done.exit_code == 0, done.output
    found = [(job["id"], job["cores"], job["wait_s"]) for job in json.loads(done.stdout)["jobs"]]
    # The one that runs has 40 minutes left. With rules, a component keeps the other node until then; without them the
    # last job ends before both are needed.
    het = [("20+0", 1, 2400), ("20+1", 1, 2400)] if has_rules else [("20", 2, 2400)]
    expected = [*het, ("21", 1, 4200 if has_rules else 0)]
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    # With rules, all past waits were 0.8 % longer than predicted, which corrects these.
    assert [one[2] for one in found] == pytest.approx([one[2] for one in expected], rel=0.01, abs=1)
