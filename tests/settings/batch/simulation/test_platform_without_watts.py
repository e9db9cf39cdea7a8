"""A platform that does not say what its hosts draw: each simulator says what to do, in words of the options."""

import json

import pytest
from click.testing import CliRunner

from hdrl.base.errors import WorkloadError
from hdrl.batch import read_workload, simulate
from hdrl.launcher.launch import launch
from hdrl.settings.batch.platform.simgrid import read_simgrid
from hdrl.settings.batch.workload.batsim_json import merge

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
<host id="node_0" speed="1Gf"/><host id="node_1" speed="1Gf"/><host id="master_host" speed="1Gf"/>
</zone></platform>
"""
LOG = "; MaxProcs: 2\n" + "".join(f"{k} {k} 0 10 1 -1 -1 1 20 -1 1 1 1 1 -1 -1 -1 -1\n" for k in range(1, 4))


@pytest.fixture
def options(tmp_path):
    (tmp_path / "plain.xml").write_text(PLATFORM)
    (tmp_path / "log.swf").write_text(LOG)
    path = tmp_path / "o.json"
    path.write_text('{"platform_file_path": "plain.xml", "workload_file_path": "log.swf"}')
    return path


@pytest.mark.parametrize("simulator", ["embedded", "exact"])
def test_no_watts_is_said_of_the_platform_that_was_named(options, simulator):
    arguments = ["fcfs", str(options), "--simulator", simulator, "--out", str(options.parent / "out")]
    found = CliRunner().invoke(launch, arguments)
    assert found.exit_code == 2
    assert "platform 'plain' has no power figures of its hosts (wattage_per_state)" in found.output
    assert "--set energy=false" in found.output
    assert "platform.xml" not in found.output


def test_the_old_name_of_the_watts_is_named(options):
    prop = '<prop id="watt_per_state" value="1:2"/>'
    path = options.parent / "plain.xml"
    path.write_text(PLATFORM.replace('node_0" speed="1Gf"/>', f'node_0" speed="1Gf">{prop}</host>'))
    found = CliRunner().invoke(launch, ["fcfs", str(options), "--out", str(options.parent / "out")])
    assert found.exit_code == 2
    assert "rename watt_per_state, an old name that SimGrid ignores, or simulate it without energy" in found.output


@pytest.mark.parametrize("simulator", ["embedded", "exact"])
def test_what_the_message_proposes_works(options, simulator):
    out = options.parent / "out"
    arguments = ["fcfs", str(options), "--simulator", simulator, "--set", "energy=false", "--out", str(out)]
    found = CliRunner().invoke(launch, arguments)
    assert found.exit_code == 0, found.output
    assert (out / "out_jobs.csv").read_text().count("\n") == 4


@pytest.mark.parametrize("n_files", [1, 2])
def test_an_error_of_the_exact_engine_names_the_file_that_was_given(options, n_files):
    """The engine reads copies in a temporary folder, which is gone when the user sees the message."""
    platform = read_simgrid(options.parent / "plain.xml")
    profiles = {"good": {"type": "delay", "delay": 1}, "bad": {"type": "parallel", "cpu": [1, 1], "com": [0]}}
    workloads = []
    for name in ("good", "bad")[-n_files:]:
        path = options.parent / f"{name}.json"
        jobs = [{"id": 1, "subtime": 0, "res": 1, "profile": name}]
        path.write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": {name: profiles[name]}}))
        workloads.append(read_workload(path, platform))
    workload = workloads[0] if n_files == 1 else merge(workloads)
    with pytest.raises(WorkloadError, match=r"^bad\.json: profile 'bad': 'com' has 1 entries"):
        simulate(
            platform, workload, "fcfs", energy=False, simulator="exact", platform_file=options.parent / "plain.xml"
        )
