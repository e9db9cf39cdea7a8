"""hdrl jobstat prints one number, as hdeeprm-jobstat does."""

import json

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.main import cli

SIZES = (1, 2, 2, 4, 16)


def jobstat(*words: object) -> Result:
    return CliRunner().invoke(cli, ["jobstat", *map(str, words)], prog_name="hdrl")


@pytest.fixture
def workload(tmp_path):
    """Return a workload in HDeepRM's form."""
    profile = {"type": "parallel_homogeneous", "com": 0, "cpu": 1e9, "req_ops": 1e9}
    profiles = {
        str(i): profile | {"req_time": 10 * size, "mem": 100 * size, "mem_bw": 4} for i, size in enumerate(SIZES)
    }
    jobs = [{"id": i, "subtime": i, "res": size, "profile": str(i)} for i, size in enumerate(SIZES)]
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 16, "jobs": jobs, "profiles": profiles}))
    return path


@pytest.mark.parametrize(
    ("statistic", "expected"),
    [("min", 1), ("max", 16), ("mean", 5), ("median", 2), ("p95", 13.6), ("p99", 15.52)],
)
def test_statistics_by_hand(workload, statistic, expected):
    result = jobstat(workload, "size", statistic)
    assert result.exit_code == 0, result.output
    assert float(result.output) == pytest.approx(expected)
    assert float(result.output) == pytest.approx(
        {"min": np.min, "max": np.max, "mean": np.mean, "median": np.median}.get(
            statistic, lambda values: np.percentile(values, float(statistic[1:]))
        )(SIZES)
    )


@pytest.mark.parametrize(("field", "expected"), [("req_time", 160), ("size", 16), ("mem", 1600), ("mem_bw", 4)])
def test_the_fields_of_hdeeprm(workload, field, expected):
    assert float(jobstat(workload, field, "max").output) == pytest.approx(expected)


def test_logs_and_shipped_workloads(tmp_path):
    log = tmp_path / "a.swf"
    log.write_text("1 0 0 9 4 -1 -1 4 20 2048 1 1 1 1 1 1 -1 -1\n2 9 0 9 2 -1 -1 2 40 2048 1 1 1 1 1 1 -1 -1\n")
    assert jobstat(log, "req_time", "mean").output == "30\n"
    assert jobstat(log, "size", "max", "-n", "1").output == "4\n"
    assert jobstat("lublin_gaia_1000", "size", "min").output == "1\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nowhere", "size", "max"], "no such file, and no shipped workload"),
        (["lublin_gaia_1000", "sizes", "max"], "'sizes' is not one of"),
        (["lublin_gaia_1000", "size", "p50"], "'p50' is not one of"),
        (["lublin_gaia_1000", "run_time", "max"], "run_time needs --platform"),
        (["lublin_gaia_1000", "size", "max", "-n", "0"], "n_jobs is 0, expected at least 1"),
        (["lublin_gaia_1000", "size"], "Missing argument '{min|max|mean"),
    ],
)
def test_mistakes_are_one_line(words, problem):
    result = jobstat(*words)
    assert result.exit_code == 2
    assert problem in result.output


def test_all_statistics_as_json(workload):
    result = CliRunner().invoke(cli, ["workload", "stat", str(workload), "--json"], prog_name="hdrl")
    found = json.loads(result.stdout)
    assert (found["n_jobs"], found["span_s"], found["left_out"]) == (5, 4.0, {})
    assert found["columns"]["size"] == pytest.approx(
        {"min": 1, "mean": 5, "median": 2, "p95": 13.6, "p99": 15.52, "max": 16}
    )
