"""Worlds for PyBatsim's schedulers, and where PyBatsim needs forbearance."""

import json
from pathlib import Path

import pytest

from hdrl.settings.batch.kernel import warm_up
from hdrl.settings.batch.platform import Platform, read_simgrid
from hdrl.settings.batch.workload import Workload, read_batsim_json

HERE = Path(__file__).parent
N_HOSTS = 8

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="main" routing="Full">
  <host id="master_host" speed="1Gf"><prop id="wattage_per_state" value="0:0"/></host>
  {parts}
</zone></platform>
"""
HOST = """<host id="h{k}" speed="1Gf"><prop id="wattage_per_state" value="1:2"/></host>"""
LINK = """<link id="l{k}" bandwidth="10GBps" latency="0s"/>"""
ROUTE = """<route src="master_host" dst="h{k}"><link_ctn id="l{k}"/></route>"""


class World:
    """Eight equal hosts and thirty jobs, as files and as values."""

    def __init__(self, folder: Path) -> None:
        self.platform_file = folder / "platform.xml"
        self.workload_file = folder / "workload.json"
        parts = [part.format(k=k) for part in (HOST, LINK, ROUTE) for k in range(N_HOSTS)]
        self.platform_file.write_text(PLATFORM.format(parts="\n".join(parts)))
        # The newer kind of scheduler cannot start jobs at date 0.
        jobs = [
            {
                "id": k,
                "subtime": 1 + 3 * k + k % 4 / 8,
                "res": 1 + k * k % N_HOSTS,
                "walltime": 10 + 7 * (k % 5),
                "profile": f"p{k % 7}",
            }
            for k in range(30)
        ]
        profiles = {
            f"p{k}": {"type": "parallel_homogeneous", "cpu": (5.5 + 6.25 * k) * 1e9, "com": 0} for k in range(7)
        }
        self.workload_file.write_text(json.dumps({"nb_res": N_HOSTS, "jobs": jobs, "profiles": profiles}))

    @property
    def platform(self) -> Platform:
        return read_simgrid(self.platform_file)

    @property
    def workload(self) -> Workload:
        return read_batsim_json(self.workload_file)


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile the simulator before processes wait for each other."""
    warm_up(lambda text: None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PyBatsim calls ``Logger.warn``, which Python would rather not have; nothing else is forgiven."""
    forgiven = pytest.mark.filterwarnings("ignore:The 'warn' method is deprecated:DeprecationWarning")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(forgiven)
