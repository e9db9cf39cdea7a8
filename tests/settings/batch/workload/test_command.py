from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.main import cli
from hdrl.settings.batch.workload import hdeeprm_workload, read_batsim_json, read_swf


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["workload", *map(str, words)])


def test_generate_convert_and_back(tmp_path, gaia):
    made = run("generate", "lublin", "-n", 30, "--platform", "gaia", "--load", 0.8, "-o", tmp_path / "a.swf.gz")
    assert made.exit_code == 0, made.output
    assert "30 jobs for 2,280 cores" in made.output
    assert run("convert", tmp_path / "a.swf.gz", tmp_path / "b.json", "-p", "gaia").exit_code == 0
    assert run("convert", tmp_path / "b.json", tmp_path / "c.swf", "-p", "gaia").exit_code == 0
    first, last = read_swf(tmp_path / "a.swf.gz").rows, read_swf(tmp_path / "c.swf").rows
    for name in ("job_number", "run_s", "requested_s", "requested_processors", "requested_memory_kb"):
        assert first[name].tolist() == last[name].tolist()
    assert json.loads((tmp_path / "b.json").read_text())["nb_res"] == gaia.n_cores


def test_convert_passes_its_options_on(tmp_path, learning):
    run("generate", "-n", 40, "-c", 4, "-o", tmp_path / "a.swf")
    words = ["-n", 9, "-p", "learning"]
    limits = [
        "--start",
        3,
        "--walltime",
        "requested",
        "--walltime-factor",
        2,
        "--estimates",
        "exact",
        "--memory",
        "none",
    ]
    assert run("convert", tmp_path / "a.swf", tmp_path / "b.json", *words, *limits).exit_code == 0
    jobs = read_batsim_json(tmp_path / "b.json").jobs
    assert len(jobs) == 9
    assert jobs["walltime_s"].tolist() == (2 * jobs["requested_time_s"]).tolist()
    assert jobs["requested_time_s"].tolist() == read_swf(tmp_path / "a.swf").rows["run_s"][3:12].tolist()
    assert not jobs["memory_mib"].any()
    old = run(
        "convert", tmp_path / "a.swf", tmp_path / "c.json", *words, "--compatibility", "hdeeprm-0.3.1", "--seed", 5
    )
    assert old.exit_code == 0, old.output
    expected = hdeeprm_workload(read_swf(tmp_path / "a.swf"), learning, n_jobs=9, seed=5)
    assert read_batsim_json(tmp_path / "c.json").steps.tolist() == expected.steps.tolist()
    assert run("convert", "learning", tmp_path / "d.json", "-p", "gaia", "--custom").exit_code == 0
    assert read_batsim_json(tmp_path / "d.json").steps["amount"][0] > 5e10


def test_generate_json(tmp_path):
    result = run("generate", "-n", 5, "-p", "learning", "--users", 2, "-o", tmp_path / "a.json")
    assert result.exit_code == 0, result.output
    assert read_batsim_json(tmp_path / "a.json").jobs["user"].min() >= 1


def test_stat_prints_a_table_or_one_number(tmp_path):
    run("generate", "-n", 50, "-c", 16, "--seed", 3, "-o", tmp_path / "a.swf")
    rows = read_swf(tmp_path / "a.swf").rows
    table = run("stat", tmp_path / "a.swf", "-p", "learning")
    assert table.exit_code == 0, table.output
    assert "offered load on learning (4 cores)" in table.output
    assert "req_time" in table.output
    assert run("stat", tmp_path / "a.swf", "size", "max").output == f"{int(rows['processors'].max())}\n"
    assert float(run("stat", tmp_path / "a.swf", "req_time", "mean").output) == pytest.approx(
        rows["requested_s"].mean()
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("generate", "-n", 5, "-o", "a.swf"), "give either --platform or --cores"),
        (("generate", "-n", 0, "-c", 4, "-o", "a.swf"), "n_jobs is 0"),
        (("generate", "-n", 5, "-c", 4, "-o", "a.json"), "--platform is needed"),
        (("generate", "-n", 5, "-c", 4, "-o", "a.csv"), "unknown format"),
        (("generate", "-n", 5, "-c", 4, "--kind", "al", "-o", "a.swf"), "did you mean 'all'"),
        (("generate", "-n", 5, "-c", 4, "--seed", "-1", "-o", "a.swf"), "seed"),
        (("convert", "learning", "a.swf"), "--platform is needed"),
        (("convert", "lublin_gaia_1000", "a.json"), "a platform is needed"),
        (("convert", "none.swf", "a.json"), "none.swf: no such file"),
        (("convert", "learning", "a.json", "--start", "-1"), "start is -1, expected at least 0"),
        (("export-swf", "run", "-o", "a.txt"), "a.txt: expected a name that ends in .swf or .swf.gz"),
        (("stat", "none.swf"), "no such file"),
        (("stat", "learning", "mem"), "a statistic is needed after mem"),
        (("stat", "learning", "mme", "max"), "mem"),
    ],
)
def test_mistakes_end_with_one_line_and_write_nothing(tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []
