"""Three protocols in one go, and the rivals of what goes by predictions."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.base.errors import OptionsError, UnknownName
from hdrl.batch import read_platform
from hdrl.experiment.compare.cases import test_cases, train_cases
from hdrl.experiment.compare.comparison import read_comparison, run_comparison
from hdrl.experiment.compare.held_out import by_protocol, run_held_out
from hdrl.experiment.compare.summary import deciding_rows
from hdrl.experiment.run.inputs import make_sweep
from hdrl.launcher.main import cli
from hdrl.metrics.statistics import holm
from hdrl.report.comparison import read_compared
from hdrl.report.page.comparison import findings_of_comparison
from hdrl.setting import SETTINGS, find_setting
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog, read_swf, write_swf

N_JOBS = 200


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(5)
    rows = np.full(N_JOBS, -1.0, dtype=SWF_DTYPE)
    rows["job_number"] = np.arange(1, N_JOBS + 1)
    rows["submit_s"] = np.cumsum(draw.integers(0, 60, N_JOBS))
    rows["wait_s"] = 10.0
    rows["user"] = draw.integers(0, 4, N_JOBS)
    rows["requested_s"] = 600.0
    rows["run_s"] = np.array([20.0, 90.0, 300.0, 580.0])[rows["user"].astype(int)] + draw.integers(0, 20, N_JOBS)
    rows["requested_processors"] = draw.integers(1, 9, N_JOBS)
    rows["status"] = 1
    path = tmp_path_factory.mktemp("log") / "users.swf"
    write_swf(SwfLog("users", rows), path)
    return path


def sweep(log: Path, **changes):
    given = {
        "platform": "homogeneous:16",
        "candidates": ["sjf+easy@geo", "saf+easy"],
        "workloads": [str(log)],
        "baseline": "best",
        "energy": False,
        "windows": {"length": 20},
        "range": [0.5, 1.0],
    }
    return make_sweep(given | changes, where="sweep.json")


def test_the_best_with_the_same_predictions_is_an_opponent_too(log: Path, tmp_path: Path):
    result = run_comparison(sweep(log), out=tmp_path / "out", n_workers=1)
    (peer,) = result.peer_baselines
    assert "@geo" in peer.name
    assert peer.group == "heuristics@geo"
    assert {row.candidate for row in peer.rows} <= {"sjf+easy@geo"}
    assert "@" not in result.baseline
    assert all(f"of {peer.name} over 5 windows" in text for text in peer.verdicts)
    assert result.verdict.startswith("the best of 2 candidates, "), "the chosen opponent is not a candidate"
    assert "the best of 2 candidates was picked" in " ".join(one.text for one in result.cautions)
    assert not [one.text for one in result.cautions if f": {peer.name} has" in one.text]
    assert findings_of_comparison(read_compared(tmp_path / "out", None)).question.startswith(
        "Does any of 2 candidates "
    )
    # What has a row is a claim: the opponent that was let in counts, those among which it was chosen do not.
    tested = deciding_rows(result.rows, result.metric)
    assert {row.candidate for row in tested} == {"sjf+easy@geo", "saf+easy", peer.name}
    assert [row.p_holm for row in tested] == pytest.approx(holm([row.p for row in tested]))
    assert max(row.p_holm / row.p for row in tested) == pytest.approx(3.0)
    again = read_comparison(tmp_path / "out")
    assert [one.verdicts for one in again.peer_baselines] == [peer.verdicts]
    plain = run_comparison(sweep(log, candidates=["sjf+easy"]), out=tmp_path / "plain", n_workers=1)
    assert plain.peer_baselines == ()
    assert "rivals" not in json.loads((tmp_path / "plain" / "summary.json").read_text())


def test_protocols_say_which_jobs_are_simulated_and_count(log: Path):
    class Load:
        name, n_items = "users", N_JOBS

    def cases(protocol):
        return test_cases(by_protocol(sweep(log, range=[0.0, 1.0]), protocol), [Load()], setting=SETTINGS["batch"])  # type: ignore[list-item]

    windows, padded, (whole,) = cases("windows"), cases("padded"), cases("continuous")
    assert [(one.first_job, one.n_simulated) for one in windows] == [(140, 20), (160, 20), (180, 20)]
    assert [(one.first_job, one.warm_up, one.n_jobs, one.follow_up) for one in padded] == [
        (140, 8, 20, 12),
        (160, 8, 20, 12),
    ]
    assert (whole.first_job, whole.warm_up, whole.n_jobs, whole.follow_up) == (140, 140, 60, 0)
    (training,) = train_cases(
        by_protocol(sweep(log, range=[0.0, 1.0]), "continuous"), [Load()], (0.0, 0.7), setting=SETTINGS["batch"]
    )  # type: ignore[list-item]
    assert (training.first_job, training.warm_up, training.n_jobs) == (0, 0, 140)
    with pytest.raises(UnknownName, match="continuous"):
        by_protocol(sweep(log), "contiguous")
    with pytest.raises(OptionsError, match="the protocol sets what is simulated"):
        by_protocol(sweep(log, windows={"length": 20, "warm_up": 5}), "padded")
    with pytest.raises(OptionsError, match=r"'continuous' simulates whole logs; give workloads \(-w FILE\)"):
        by_protocol(sweep(log, loads=[0.7]), "continuous")


def test_held_out_loads_are_refused_before_anything_runs(log: Path, tmp_path: Path):
    with pytest.raises(OptionsError, match="'continuous' simulates whole logs"):
        run_held_out(sweep(log, workloads=[], loads=[0.7]), out=tmp_path / "out", n_workers=1)
    assert not (tmp_path / "out").exists()


def test_all_three_protocols_stand_in_one_table(log: Path, tmp_path: Path):
    result = run_held_out(sweep(log, range=[0.0, 1.0]), out=tmp_path / "out", n_workers=1)
    protocols = [row.protocol for row in result.rows]
    assert list(dict.fromkeys(protocols)) == ["windows", "padded", "continuous"]
    predicting = [row for row in result.rows if row.candidate == "sjf+easy@geo"]
    assert all(row.peer_ratio > 0 for row in predicting if row.peer != row.candidate)
    for row in result.rows:
        assert set(row.tail) == {"p99_wait_s", "max_wait_s", "user_fairness"}
        assert 0 < row.tail["user_fairness"] <= 1
    stored = json.loads((tmp_path / "out" / "held_out.json").read_text())
    assert [row["candidate"] for row in stored["rows"]] == [row.candidate for row in result.rows]
    assert {"rival", "rival_ratio", "rival_low", "rival_high"} <= stored["rows"][0].keys()
    assert stored["warnings"] == list(result.cautions)
    warned = {
        caution.text for name in ("windows", "padded") for caution in read_comparison(tmp_path / "out" / name).cautions
    }
    told = [text.removeprefix("windows, padded: ").removeprefix("windows: ") for text in result.cautions]
    assert {text.removeprefix("padded: ") for text in told} >= warned, "what each comparison warns of is told"
    assert len(set(result.cautions)) == len(result.cautions)
    # The same call finds everything there.
    assert run_held_out(sweep(log, range=[0.0, 1.0]), out=tmp_path / "out", n_workers=1).cautions == result.cautions


def test_what_a_shipped_policy_was_trained_on_is_told(log: Path, tmp_path: Path):
    known = tmp_path / "KTH-SP2-1996-2.1-cln.swf"
    known.write_bytes(log.read_bytes())
    for share, is_told in ((0.5, True), (0.6, False)):
        asked = sweep(known, candidates=["es-generalist"], baseline="fcfs+easy", range=[share, 1.0])
        told = run_comparison(asked, out=tmp_path / str(share), n_workers=1).cautions
        assert any("es-generalist was trained on the first 60% of KTH" in one.text for one in told) is is_told


def test_logs_without_users_or_requested_times_are_told(log: Path, tmp_path: Path):
    rows = read_swf(log).rows.copy()
    rows["user"], rows["requested_s"] = -1, -1
    write_swf(SwfLog("bare", rows), tmp_path / "bare.swf")
    bare = sweep(tmp_path / "bare.swf", baseline="fcfs+easy")
    told = [one.text for one in run_comparison(bare, out=tmp_path / "out", n_workers=1).cautions]
    assert any("bare names no users: sjf+easy@geo predicts" in text for text in told)
    assert any("requested times" in text for text in told)
    known = run_comparison(sweep(log, baseline="fcfs+easy"), out=tmp_path / "known", n_workers=1).cautions
    assert not any("names no users" in one.text or "requested times" in one.text for one in known)
    generated = find_setting("batch").inputs.cautions(sweep(log, loads=[0.9]), read_platform("homogeneous:16"), [])
    assert [text for _, text in generated if "lublin@0.9 names no users" in text]


def test_the_command_takes_the_best_classic_as_opponent(log: Path, tmp_path: Path):
    words = ["compare", "sjf+easy@geo", "-p", "homogeneous:16", "-w", str(log), "--windows", "20", "-j", "1"]
    words += ["--protocol", "held-out", "--set", "energy=false", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, words, prog_name="hdrl")
    assert done.exit_code == 0, done.output
    assert "continuous" in done.output
    baseline = json.loads((tmp_path / "out" / "held_out.json").read_text())["baseline"]
    assert baseline in done.output
    wrong = CliRunner().invoke(cli, [*words[:2], "-p", "homogeneous:16", "-w", str(log), "--protocol", "all"])
    assert wrong.exit_code == 2


def test_a_log_without_users_has_no_fairness_and_what_sees_too_much_is_told(log: Path, tmp_path: Path):
    jobs = read_swf(log)
    jobs.rows["user"] = -1
    write_swf(jobs, tmp_path / "nobody.swf")
    seer = tmp_path / "seer.py"
    seer.write_text("clairvoyant = True\ndef priority(job, now_s):\n    return job.cores\n")
    asked = sweep(tmp_path / "nobody.swf", candidates=[str(seer)], baseline="fcfs+easy")
    result = run_held_out(asked, out=tmp_path / "out", n_workers=1)
    stored = json.loads((tmp_path / "out" / "held_out.json").read_text())
    assert [row["tail"]["user_fairness"] for row in stored["rows"]] == [None] * 6
    assert "seer.py sees true run times, which no real scheduler has, and the others do not" in result.cautions
    assert not any(text.startswith("continuous: one window cannot") for text in result.cautions)


def test_opponents_may_be_files_and_what_the_chosen_one_knows_is_told(log: Path, tmp_path: Path):
    seer = tmp_path / "seer.py"
    seer.write_text("clairvoyant = True\ndef priority(job, now_s):\n    return job.cores\n")
    result = run_comparison(sweep(log, candidates=["sjf+easy"], opponents=str(seer)), out=tmp_path / "out", n_workers=1)
    assert result.baseline == "seer.py"
    assert "seer.py sees true run times" in next(one.text for one in result.cautions if one.kind == "clairvoyant")
