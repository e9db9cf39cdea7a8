"""SECURITY.md: each line of the threat model names tests, and these exist; what no other file tests."""

import re
from pathlib import Path

import pytest

from hdrl.base.errors import HdrlError
from hdrl.base.files import unsafe_reason
from hdrl.batch import read_platform
from hdrl.experiment.reproduce.recipe import trace_folders
from hdrl.settings.batch.options import Options
from hdrl.settings.batch.simulators import FREE_ENDPOINT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()


def rows() -> list[str]:
    """Return the lines of the tables, without their heads."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    return [line for line in lines if not line.startswith("|--") and not line.endswith("| tests |")]


def test_every_line_names_tests_that_exist():
    tests = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(rows()) > 20
    for row in rows():
        named = re.findall(r"`(test_\w+)`", row.rstrip("|").rpartition("|")[2])
        assert named, row
        assert set(named) <= tests, row


def test_the_page_says_how_to_report():
    assert "## Reporting a vulnerability" in PAGE
    headings = ["Code", "Data", "Write access", "Network addresses"]
    assert [line[3:] for line in PAGE.splitlines() if line.startswith("## ")][2:] == headings


@pytest.mark.parametrize(
    "entity",
    [
        '<!ENTITY a "x">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY a "xxxxxxxxxx"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">',
    ],
)
def test_xml_reads_no_entities(tmp_path: Path, entity: str):
    path = tmp_path / "a.xml"
    path.write_text(f'<?xml version="1.0"?><!DOCTYPE platform [{entity}]><platform version="4">&a;</platform>')
    with pytest.raises(HdrlError, match=r"a\.xml") as error:
        read_platform(path)
    assert "root:" not in str(error.value)


def test_sockets_are_of_this_machine():
    assert FREE_ENDPOINT.startswith("tcp://127.0.0.1:")
    assert "tcp://127.0.0.1:*" in str(Options.model_json_schema())
    ray = (ROOT / "hdrl" / "distributed" / "ray_cluster.py").read_text()
    assert '"include_dashboard": False' in ray
    assert '"_node_ip_address": "127.0.0.1"' in ray
    binding = re.compile(r"\.bind\((?!\*)|HTTPServer|TCPServer|\.listen\(")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("hdrl", "launcher", "agents", "experiments")
        for path in (ROOT / folder).rglob("*.py")
        if binding.search(path.read_text().replace("signature(function).bind(", ""))
    }
    # Those of hdrl/slurm only look which ports are free.
    assert found == {
        *("hdrl/batsim/client.py", "launcher/watch.py"),
        *("hdrl/slurm/cluster.py", "hdrl/slurm/driver.py"),
    }


def test_logs_are_kept_where_nobody_else_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    requests = pytest.importorskip("requests", reason="fetching needs requests")
    from hdrl.settings.batch.workload import fetch_log

    del requests
    monkeypatch.setenv("HDRL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "workloads").mkdir(parents=True)
    assert trace_folders()[-1] == tmp_path / "cache" / "workloads"
    (tmp_path / "cache").chmod(0o777)
    if not unsafe_reason(tmp_path / "cache"):
        pytest.skip("this system has no permissions of POSIX")
    assert tmp_path / "cache" / "workloads" not in trace_folders()
    with pytest.raises(HdrlError, match=r"others could replace logs there: .*cache is writable by everybody"):
        fetch_log("SDSC-SP2", base_url="http://127.0.0.1:9")
