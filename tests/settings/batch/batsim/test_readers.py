"""Platforms, workloads and event files: what is read, and what is refused with one clear line."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import HdrlError, PlatformError, ReadError, WorkloadError
from hdrl.batsim.exact.jobs import read_workload
from hdrl.batsim.exact.machines import Machines
from hdrl.batsim.exact.sharing import SharedNetwork
from hdrl.batsim.exact.submission import read_events
from hdrl.settings.batch.simgrid.file import SimGridPlatform

from ..recorded_runs import RECORDED  # noqa: TID252 - of all tests
from .conversations import ROOT, WORLDS

HEAD, TAIL = '<platform version="4.1"><zone id="main" routing="Full">', "</zone></platform>"
HOSTS = '<host id="a" speed="1Gf"/><host id="b" speed="2Gf"/>'


def _platform(folder: Path, body: str) -> SimGridPlatform:
    path = folder / "platform.xml"
    path.write_text(HEAD + body + TAIL)
    return SimGridPlatform(path)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "has no host"),
        ('<host id="a"/>', "<host> has no 'speed'"),
        ('<host id="a" speed="fast"/>', "speed: 'fast' is not a quantity; expected a number"),
        ('<host id="a" speed="1Gb"/>', "speed: '1Gb' is not a quantity"),
        ('<host id="a" speed="-1Gf"/>', "not negative"),
        ('<host id="a" speed="1e400f"/>', "'1e400f' is not a quantity"),
        ('<host id="a" speed="1Gf" pstate="1"/>', "P-state 1, but only 1 speeds"),
        ('<host id="a" speed="1Gf" core="0"/>', "0 cores"),
        ('<host id="a" speed="1Gf" core="two"/>', "core is 'two', expected an integer"),
        ('<host id="a" speed="1Gf"/><host id="a" speed="1Gf"/>', "called 'a'"),
        ('<host id="a" speed="1Gf" speed_file="x"/>', "speed_file is not simulated"),
        ('<host id="a" speed="1Gf"><prop id="wattage_per_state" value="1:2:3:4"/></host>', "expected idle:full"),
        ('<cluster id="c" radical="0-3"/>', "<cluster> has no 'bw'"),
        ('<cluster id="c" radical="3-0" bw="1GBps" speed="1f"/>', "radical holds '3-0', expected numbers and ranges"),
        (
            '<cluster id="c" radical="0-9999999" bw="1GBps" speed="1f"/>',
            "cluster 'c': radical '0-9999999' makes 10000000 hosts; at most 1000000",
        ),
        (
            f'<cluster id="c" radical="{",".join(["0-99999"] * 11)}" bw="1GBps" speed="1f"/>',
            "0-99999,0-99999,0-99999,0-99999,0-99999,' makes 1100000 hosts; at most 1000000",
        ),
        (
            '<cluster id="c" radical="0" bw="1GBps" speeed="1f"/>',
            "<cluster id='c'>: attribute 'speeed' is not known; did you mean 'speed'?",
        ),
        (
            '<host id="a" speed="1f"><prob id="x"/></host>',
            "<prob> in <host id='a'> is not simulated; did you mean 'prop'",
        ),
        (
            HOSTS + '<route src="a" dst="b"><link id="l"/></route>',
            "<link> in <route 'a' to 'b'> is not simulated; did you mean 'link_ctn'?",
        ),
        ('<cluster id="c" radical="0-3" topology="TORUS"/>', "topology 'TORUS' is not simulated, expected 'FLAT'"),
        ('<cluster id="c" radical="0" bw="1GBps" lat="5parsec" speed="1f"/>', "lat: '5parsec' is not a quantity"),
        ('<zone id="z" routing="Vivaldi"><host id="a" speed="1f"/></zone>', "coordinates are None, expected three"),
        (HOSTS + '<link id="l" bandwidth="1GBps" sharing_policy="WIFI"/>', "sharing_policy is 'WIFI'"),
        (HOSTS + '<link id="l" bandwidth="1Gf"/>', "bandwidth: '1Gf' is not a quantity"),
        (HOSTS + '<link id="l" bandwidth="1GBps"/><link id="l" bandwidth="1GBps"/>', "two links are called 'l'"),
        (HOSTS + '<route src="a" dst="b"><link_ctn id="l"/></route>', "no link 'l'"),
        (HOSTS + '<route src="a" dst="c"></route>', "'c' is not a host or router of zone"),
        (
            HOSTS + '<link id="l" bandwidth="1GBps" sharing_policy="SPLITDUPLEX"/>'
            '<route src="a" dst="b"><link_ctn id="l"/></route>',
            "expected direction UP or DOWN",
        ),
        ('<zone id="z" routing="Floyd"/>', "'Floyd' is not simulated"),
        ('<zone id="z">' * 60 + "</zone>" * 60, "two zones are called 'z'"),
    ],
)
def test_a_platform_that_makes_no_sense(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(PlatformError) as caught:
        _platform(tmp_path, body)
    assert problem in str(caught.value)
    assert "platform.xml" in str(caught.value)


def test_many_zones_are_read_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    hosts = "".join(f'<zone id="z{k}"><host id="h{k}" speed="1f"/></zone>' for k in range(20_000))
    started_s = time.process_time()
    assert len(_platform(tmp_path, hosts).hosts) == 20_000
    assert time.process_time() - started_s < 5


def test_hosts_of_a_cluster_share_its_backbone_and_reach_themselves_over_it(tmp_path: Path) -> None:
    body = '<cluster id="c" prefix="n" radical="0-1,7" speed="1f" bw="1GBps" lat="1us" bb_bw="2GBps" bb_lat="5us"/>'
    platform = _platform(tmp_path, body)
    assert [host.name for host in platform.hosts] == ["n0", "n1", "n7"]
    names = ["c_link_0_UP", "c_backbone", "c_link_7_DOWN"]
    assert [link.name for link in platform.route(platform.hosts[0], platform.hosts[2]).links] == names
    itself = platform.route(platform.hosts[0], platform.hosts[0])
    assert [link.name for link in itself.links] == ["c_link_0_UP", "c_backbone", "c_link_0_DOWN"]
    assert itself.latency_s == pytest.approx(7e-6)


def test_hosts_in_a_space_are_as_far_as_their_coordinates(tmp_path: Path) -> None:
    hosts = '<host id="a" coordinates="0 0 1" speed="1f"/><host id="b" coordinates="3 4 2" speed="1f"/>'
    platform = _platform(tmp_path, f'<zone id="z" routing="Vivaldi">{hosts}</zone>')
    route = platform.route(*platform.hosts)
    assert route.links == ()
    assert route.latency_s == pytest.approx(0.008)


@pytest.mark.parametrize("energy", [False, True])
def test_fewer_watts_than_speeds_matter_with_energy_only(tmp_path: Path, *, energy: bool) -> None:
    watts = '<prop id="wattage_per_state" value="1:2"/>'
    hosts = f'<host id="master_host" speed="1f"/><host id="a" speed="1f,2f">{watts}</host>'
    platform = _platform(tmp_path, hosts)
    network = SharedNetwork(platform)
    if energy:
        with pytest.raises(PlatformError, match="has 1 P-states, speed has 2"):
            Machines(platform, network, master="master_host", energy=True)
    else:
        assert len(Machines(platform, network, master="master_host", energy=False)) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("<platform>", ":1: is not XML"),
        ('<!DOCTYPE p [<!ENTITY a "b">]><platform>&a;</platform>', "declares XML entities"),
    ],
)
def test_a_file_that_is_no_platform(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "platform.xml"
    path.write_text(text)
    with pytest.raises(ReadError, match=problem):
        SimGridPlatform(path)


def test_routes(tmp_path: Path) -> None:
    inner = (
        '<zone id="{0}"><host id="{0}1" speed="1Gf"/><router id="{0}r"/>'
        '<link id="{0}l" bandwidth="1Gbps" latency="1ms" sharing_policy="SPLITDUPLEX"/>'
        '<route src="{0}1" dst="{0}r"><link_ctn id="{0}l" direction="UP"/></route></zone>'
    )
    platform = _platform(
        tmp_path,
        inner.format("x") + inner.format("y") + '<link id="m" bandwidth="10Gbps" latency="5us"/>'
        '<zoneRoute src="x" dst="y" gw_src="xr" gw_dst="yr"><link_ctn id="m"/></zoneRoute>',
    )
    x, y = platform.hosts
    route = platform.route(x, y)
    assert [link.name for link in route.links] == ["xl_UP", "m", "yl_DOWN"]
    assert [link.name for link in platform.route(y, x).links] == ["yl_UP", "m", "xl_DOWN"]
    assert route.latency_s == 1e-3 + 5e-6 + 1e-3
    assert route.links[0].bandwidth_bytes_per_s == 1.25e8
    assert [link.fatpipe for link in platform.route(x, x).links] == [True]


def test_two_hosts_without_a_route_reach_each_other_at_once(tmp_path: Path) -> None:
    platform = _platform(tmp_path, HOSTS)
    route = platform.route(*platform.hosts)
    assert (route.links, route.latency_s) == ((), 0.0)


def test_machines_go_by_name_as_text_and_storage_comes_last(tmp_path: Path) -> None:
    body = "".join(f'<host id="{name}" speed="1Gf"/>' for name in ("m", "h2", "h10", "h1", "disk"))
    platform = _platform(tmp_path, body)
    machines = Machines(platform, SharedNetwork(platform), master="m", energy=False, roles={"disk": "storage"})
    assert [machine.name for machine in machines.all] == ["h1", "h10", "h2", "disk"]
    with pytest.raises(PlatformError, match=r"no host 'master_hots'.*did you mean|no host 'master_hots'; known"):
        Machines(platform, SharedNetwork(platform), master="master_hots", energy=False)
    with pytest.raises(PlatformError, match="no property wattage_per_state"):
        Machines(platform, SharedNetwork(platform), master="m", energy=True)


@pytest.mark.parametrize("text", ["3", "3:4", "3:4:4", "3:4:9", "a:b:c"])
def test_sleep_states_that_make_no_sense(tmp_path: Path, text: str) -> None:
    speeds = ", ".join(["1Gf"] * 6)
    platform = _platform(
        tmp_path,
        f'<host id="m" speed="1Gf"/><host id="a" speed="{speeds}"><prop id="sleep_pstates" value="{text}"/></host>',
    )
    with pytest.raises(PlatformError, match="expected three different P-states below 6"):
        Machines(platform, SharedNetwork(platform), master="m", energy=True)


GOOD_JOB = {"id": 1, "subtime": 0, "res": 1, "profile": "p"}
GOOD_PROFILES = {"p": {"type": "delay", "delay": 1}}


@pytest.mark.parametrize(
    ("jobs", "profiles", "problem"),
    [
        ([{**GOOD_JOB, "id": None}], {}, "has id None"),
        ([{**GOOD_JOB, "id": "abw0c"}], {}, "contains the workload's name"),
        ([{**GOOD_JOB, "id": "x!1"}], {}, "contains '!'"),
        ([GOOD_JOB, GOOD_JOB], {}, "already a job with this id"),
        ([{**GOOD_JOB, "subtime": -1}], {}, "'subtime' is -1"),
        ([{**GOOD_JOB, "subtime": "0"}], {}, "'subtime' is '0'"),
        ([{**GOOD_JOB, "walltime": 0}], {}, "'walltime' is 0"),
        ([{**GOOD_JOB, "res": 1.5}], {}, "'res' is 1.5"),
        ([{**GOOD_JOB, "profile": "q"}], {}, "profile 'q' does not exist; known: p"),
        ([3], {}, "'3' is not a job"),
        ([], {"q": 3}, "profile 'q' is 3, expected an object"),
        ([], {"q": {"type": "dellay"}}, "did you mean 'delay'"),
        ([], {"q": {"type": "delay"}}, "has no 'delay'"),
        ([], {"q": {"type": "delay", "delay": -1}}, "expected 0 or a finite positive number"),
        (
            [],
            {"q": {"type": "parallel_homogeneous", "cpu": 1e-310, "com": 0}},
            "expected 0 or a finite positive number",
        ),
        ([], {"q": {"type": "smpi", "trace": "x"}}, "'smpi' (replay of an MPI trace) is not simulated"),
        ([], {"q": {"type": "parallel", "cpu": [1, 2], "com": [0]}}, "has 1 entries, expected 2 x 2"),
        ([], {"q": {"type": "parallel", "cpu": 1, "com": []}}, "expected an array of numbers"),
        ([], {"q": {"type": "composed", "seq": []}}, "expected names of profiles"),
        ([], {"q": {"type": "composed", "seq": ["r"]}}, "profile 'r' does not exist"),
        ([], {"q": {"type": "composed", "seq": ["q"]}}, "composed of itself"),
        ([], {"q": {"type": "composed", "seq": ["p"], "repeat": 0}}, "an integer of at least 1"),
        ([], {"q": {"type": "parallel_homogeneous_pfs"}}, "neither 'bytes_to_read' nor"),
        ([], {"q": {"type": "recv", "regex": "("}}, "is not a regular expression"),
        ([], {"q": {"type": "recv", "polltime": 0}}, "expected a positive number"),
        ([], {"q": {"type": "usage_trace", "trace": "nowhere.txt"}}, "no such file"),
    ],
)
def test_a_workload_that_makes_no_sense(
    tmp_path: Path, jobs: list[object], profiles: dict[str, object], problem: str
) -> None:
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": {**GOOD_PROFILES, **profiles}}))
    with pytest.raises((WorkloadError, ReadError)) as caught:
        read_workload(path, "w0")
    assert problem in str(caught.value)


def test_a_usage_trace_that_makes_no_sense(tmp_path: Path) -> None:
    profiles = {"q": {"type": "usage_trace", "trace": "ranks.txt"}}
    path = tmp_path / "workload.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": [], "profiles": profiles}))
    (tmp_path / "ranks.txt").write_text("one.txt\n")
    (tmp_path / "one.txt").write_text("0 m_usage 0.5 100\n0 m_usage much 100\n")
    with pytest.raises(ReadError, match=r"one.txt:2: .* expected '0 m_usage USAGE FLOPS'"):
        read_workload(path, "w0")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("x", "is not JSON"),
        ("[]", "expected an object"),
        ('{"type": "machine_available", "resources": "0"}', "'timestamp' is None"),
        ('{"timestamp": 1, "type": 3}', "'type' is 3"),
        ('{"timestamp": 1, "type": "machine_unavailable", "resources": "0-9"}', "machine 9 does not exist"),
        ('{"timestamp": 1, "type": "earthquake"}', "--forward-unknown-events is not given"),
    ],
)
def test_an_event_that_makes_no_sense(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "events.txt"
    path.write_text("\n" + line)
    with pytest.raises(ReadError, match=f"events.txt:2: .*{problem}"):
        read_events(path, n_machines=4, forward_unknown=False)


def test_events_of_a_date_come_in_batsims_order(tmp_path: Path) -> None:
    path = tmp_path / "events.txt"
    kinds = ["flood", "machine_unavailable", "machine_available"]
    path.write_text("\n".join(json.dumps({"timestamp": 1, "type": kind, "resources": "0"}) for kind in kinds))
    events = read_events(path, n_machines=1, forward_unknown=True)
    assert [event["type"] for event in events] == kinds[::-1]


def _real_files() -> list[Path]:
    files = [*WORLDS.glob("*/platform.xml"), *WORLDS.glob("*/workload.json")]
    if RECORDED.is_dir():
        files += [
            RECORDED / name for name in ("storage/platform.xml", "messages/workload.json", "storage/workload.json")
        ]
        files += [RECORDED / name for name in ("various_profiles/workload.json", "external_events/events.txt")]
    return files


@pytest.mark.parametrize("path", _real_files(), ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, path: Path) -> None:
    text = path.read_text()
    generator = np.random.default_rng(len(text))
    target = tmp_path / path.name
    n_refused = 0
    for _ in range(60):
        target.write_text(_damaged(text, generator))
        try:
            if path.suffix == ".xml":
                _read_everything(target)
            elif path.suffix == ".json":
                read_workload(target, "w0")
            else:
                read_events(target, n_machines=4, forward_unknown=True)
        except HdrlError:
            n_refused += 1
    assert 0 < n_refused <= 60


def _read_everything(path: Path) -> None:
    platform = SimGridPlatform(path)
    Machines(platform, SharedNetwork(platform), master="master_host", energy=True)
    for source in platform.hosts:
        for target in platform.hosts:
            platform.route(source, target)


def _damaged(text: str, generator: np.random.Generator) -> str:
    at, length = int(generator.integers(len(text))), int(generator.integers(1, 12))
    how = int(generator.integers(4))
    if how == 0:
        return text[:at] + text[at + length :]
    if how == 1:
        return text[:at]
    if how == 2:
        return text[:at] + text[at : at + length] + text[at:]
    return text[:at] + "".join(generator.choice(list('{}[]<>"0-9eE.:,/ax'), length)) + text[at + length :]
