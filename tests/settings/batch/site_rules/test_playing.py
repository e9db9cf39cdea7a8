"""Who plays a machine with the rules of a site: the simulator of sites, unless rules are left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import OptionsError, SimulationError
from hdrl.batch import (
    EmbeddedSimulator,
    OwnPrediction,
    Platform,
    Workload,
    read_pair,
    read_platform,
    read_workload,
    simulate,
)
from hdrl.launcher.main import cli
from hdrl.settings.batch.envs.machines import unpoolable_reason
from tests.settings.batch.site_rules.test_reading import LOG, site_folder

COLUMNS = "job,nice\n1,0\n"
LINE = "{number} {submit} -1 600 {cores} -1 -1 {cores} 600 -1 1 0 -1 -1 -1 {partition} -1 -1\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder in which two jobs want all of main, whose four nodes have 32 of the 40 cores."""
    header = LOG.partition("1 100")[0]
    jobs = [(1, 0, 32, 0), (2, 1, 32, 0), (3, 2, 4, 1)]
    lines = [LINE.format(number=number, submit=date, cores=cores, partition=at) for number, date, cores, at in jobs]
    rules = {"nodes": NODES, "partitions": {"main": {"nodes": "n[1-4]"}, "gpu": {"nodes": "g[1-2]"}}}
    return site_folder(tmp_path, log=header + "".join(lines), columns=COLUMNS, site=rules)


NODES = [{"names": "n[1-4]", "cores": 8}, {"names": "g[1-2]", "cores": 4}]


def machine_and_jobs(site: Path) -> tuple[Platform, Workload]:
    platform = read_platform(site / "platform.json")
    return platform, read_workload(site / "jobs.swf", platform, bandwidth="none")


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


def test_jobs_stay_in_their_partitions(site: Path):
    platform, workload = machine_and_jobs(site)
    trace = simulate(platform, workload, "fcfs+easy")
    assert trace.info["simulator"] == "site"
    assert trace.records["start_s"].tolist() == [0, 600, 2]
    assert trace.cores_of(2).min() >= 32
    free = simulate(replace(platform, site=None), workload, "fcfs+easy")
    assert free.info["simulator"] == "embedded"
    assert free.cores_of(2).min() == 0 or free.records["start_s"][2] == pytest.approx(2)


def test_what_does_not_obey_rules_is_refused(site: Path):
    platform, workload = machine_and_jobs(site)
    with pytest.raises(OptionsError, match="simulator 'exact' does not follow; --set site_rules=false"):
        simulate(platform, workload, "fcfs+easy", simulator="exact")
    predictor = OwnPrediction(read_pair("sjf+easy@requested"), object, "guess.py@sjf+easy")
    with pytest.raises(OptionsError, match="is a predictor in Python, which does not obey the rules of a site"):
        simulate(platform, workload, predictor)
    with pytest.raises(SimulationError, match="has the rules of a site"):
        EmbeddedSimulator(platform, workload)
    assert (
        unpoolable_reason(platform, workload)
        == f"{platform.name} has the rules of a site (site_rules=false leaves them out)"
    )


def test_options_can_leave_rules_out(site: Path):
    options = {
        "platform_file_path": "platform.json",
        "workload_file_path": "jobs.swf",
        "workload": {"bandwidth": "none"},
        "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "fcfs+easy"}},
    }
    (site / "options.json").write_text(json.dumps(options))
    ran = call("run", site / "options.json", "--out", site / "ruled")
    assert ran.exit_code == 0, ran.stderr
    assert "3 partitions" not in ran.stderr
    assert "2 partitions" in ran.stderr
    assert json.loads((site / "ruled" / "provenance.json").read_text())["platform"]["n_partitions"] == 2
    ran = call("run", site / "options.json", "--set", "site_rules=false", "--out", site / "free")
    assert ran.exit_code == 0, ran.stderr
    assert "n_partitions" not in json.loads((site / "free" / "provenance.json").read_text())["platform"]
    ran = call("run", site / "options.json", "--set", "simulator=exact", "--out", site / "exact")
    assert (ran.exit_code, (site / "exact").exists()) == (2, False)
    assert "has the rules of a site, which simulator 'exact' does not follow" in ran.stderr


def test_comparisons_play_all_in_one_world(site: Path):
    common = ("compare", "fcfs+easy", "-w", site / "jobs.swf", "--windows", "3:1", "-j", 1)
    ruled = call(*common, "-p", site / "platform.json", "--baseline", "slurm", "--out", site / "a")
    assert ruled.exit_code == 0, ruled.stderr
    assert '"site-rules"' not in (site / "a" / "summary.json").read_text()
    slurm = call(*common, "-p", "homogeneous:40", "--baseline", "slurm", "--out", site / "b")
    assert slurm.exit_code == 0, slurm.stderr
    free = call(*common, "sjf", "-p", "homogeneous:40", "--baseline", "sjf", "--out", site / "c")
    assert free.exit_code == 0, free.stderr
    assert '"site-rules"' in (site / "c" / "summary.json").read_text()


def test_predictions_and_indices_are_compared_under_the_rules(site: Path):
    common = ("compare", "es-generalist", "sjf+easy@geo", "-w", site / "jobs.swf", "--windows", "3:1", "-j", 1)
    judged = call(*common, "-p", site / "platform.json", "--baseline", "slurm", "--out", site / "e")
    assert judged.exit_code == 0, judged.stderr
    assert '"site-rules"' not in (site / "e" / "summary.json").read_text()


def test_candidates_that_sites_do_not_play_are_refused_at_once(site: Path):
    common = ("compare", "slurm", "-w", site / "jobs.swf", "--windows", "3:1", "-j", 1, "--out", site / "d")
    for machine, why in ((site / "platform.json", "'platform' has rules of a site"), ("homogeneous:40", "needs it")):
        for name in ("sjf+easy@geo/all", "sjf+easy~off600", "fcfs+easy@last2/all"):
            refused = call(*common, name, "-p", machine)
            assert (refused.exit_code, (site / "d").exists()) == (2, False)
            assert f"does not play '{name}' (" in refused.stderr
            assert why in refused.stderr


def test_slurm_needs_no_site():
    platform = read_platform("homogeneous:8")
    workload = read_workload("lublin_gaia_1000", read_platform("gaia"), n_jobs=30, bandwidth="none", memory="none")
    small = workload.take(np.flatnonzero(workload.jobs["cores"] <= 8))
    assert simulate(platform, small, "slurm").info["simulator"] == "site"
