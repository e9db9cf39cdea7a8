from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, OutputError, PlatformError, ReadError
from hdrl.settings.batch.platform import build as build_module
from hdrl.settings.batch.platform import build_platform, pstate_rules, read_platform, read_simgrid, write_simgrid
from hdrl.settings.batch.simgrid.file import SimGridPlatform

from .platform_descriptions import LADDERS, descriptions, tiny
from .platform_mutations import mutated

RECORDED = Path(__file__).parents[4] / ".." / "shared" / "batsim-runs"
HDEEPRM = pstate_rules(compatibility="hdeeprm-0.3.1")

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">'
SMALL = (
    HEAD
    + """
<zone id="main" routing="Full">
 <zone id="master" routing="Full"><host id="master_host" speed="1Gf"/></zone>
 <zone id="rack" routing="Full">
  <router id="out"/>
  <host id="h2" speed="2Gf, 1Gf" pstate="1" core="4"><prop id="wattage_per_state" value="10:20, 5:6:8"/></host>
  <host id="h10" speed="100Mf, 0.5f"><prop id="wattage_per_state" value="1:2, 3:4"/><prop id="color" value="red"/>
  </host>
  <link id="near" bandwidth="125MBps" latency="10us" sharing_policy="SPLITDUPLEX"/>
  <link id="bus" bandwidth="2GBps" latency="1us"/>
  <route src="h2" dst="out"><link_ctn id="near" direction="UP"/></route>
  <route src="out" dst="h10"><link_ctn id="bus"/><link_ctn id="bus"/></route>
 </zone>
 <link id="far" bandwidth="8Gbps" latency="100us"/>
 <zoneRoute src="master" dst="rack" gw_src="master_host" gw_dst="out"><link_ctn id="far"/></zoneRoute>
</zone>
</platform>
"""
)


def recorded(name: str) -> Path:
    path = RECORDED / name / "platform.xml"
    if not path.is_file():
        pytest.skip("the recorded runs of Batsim are not beside this checkout")
    return path


def recorded_platforms() -> list[Path]:
    return sorted(RECORDED.glob("*/platform.xml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "machine.xml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("run", "name"), [("hdeeprm_gaia200_padded", "gaia"), ("hdeeprm_learning4_50jobs", "learning")]
)
def test_compatible_platforms_are_those_that_hdeeprm_wrote(run: str, name: str) -> None:
    theirs, ours = read_simgrid(recorded(run)), read_platform(name, rules=HDEEPRM)
    for field in ("speed_flops", "idle_w", "epsilon_w", "full_w", "initial_pstate", "host_cores"):
        assert np.array_equal(getattr(ours, field), getattr(theirs, field)), field
    for field in ("message_s", "message_latency_s", "loopback_s", "loopback_latency_s"):
        assert np.array_equal(getattr(ours, field), getattr(theirs, field)), field


def renumbered(network: SimGridPlatform) -> tuple[object, ...]:
    """Return hosts, in Batsim's order of their names, and their routes; different padding of names does not matter."""
    master = network.master()
    hosts = sorted((host for host in network.hosts if host is not master), key=lambda host: host.name)
    watts = [host.watts for host in (*hosts, master)]
    machines = [(host.speeds_flops, host.pstate, host.cores) for host in (*hosts, master)]
    routes = [
        [(link.name, link.bandwidth_bytes_per_s, link.latency_s, link.fatpipe) for link in route.links]
        for host in hosts
        for route in (network.route(host, master), network.route(master, host), network.route(hosts[0], host))
    ]
    return machines, watts, routes


@pytest.mark.parametrize(
    ("run", "name"), [("hdeeprm_gaia200_padded", "gaia"), ("hdeeprm_learning4_50jobs", "learning")]
)
def test_written_files_describe_the_recorded_network(tmp_path: Path, run: str, name: str) -> None:
    path = tmp_path / "ours.xml"
    write_simgrid(read_platform(name, rules=HDEEPRM), path)
    assert renumbered(SimGridPlatform(path)) == renumbered(SimGridPlatform(recorded(run)))


def test_recorded_platforms_are_read_or_refused() -> None:
    recorded("single_job")
    refused: dict[str, str] = {}
    for path in recorded_platforms():
        try:
            platform = read_simgrid(path)
        except (PlatformError, ReadError) as error:
            refused[path.parent.name] = str(error)
            continue
        assert sorted(platform.core_names) == list(platform.core_names)
        assert "master_host" not in platform.core_names
        assert platform.rules is None
        assert platform.clusters == ()
    reasons = {"platform_cluster_energy": "no host 'master_host', on which Batsim runs"}  # it was told another one
    assert refused.keys() == reasons.keys()
    assert all(reason in refused[name] for name, reason in reasons.items())


def test_recorded_hosts_come_in_the_order_of_their_names() -> None:
    names = read_simgrid(recorded("host_order")).core_names
    assert names[:4] == ("cor_0", "cor_1", "cor_10", "cor_11")


def test_recorded_properties_are_what_batsim_told_its_scheduler() -> None:
    assert read_simgrid(recorded("single_job")).properties[0] == {
        "role": "",
        "wattage_per_state": "95:120:200, 93:110:170, 90:105:150, 10:10:10, 110:110:110, 125:125:125",
        "sleep_pstates": "3:4:5",
        "wattage_off": "5",
    }


def test_recorded_latencies() -> None:
    platform = read_simgrid(recorded("fcfs_200_latency"))
    assert platform.loopback_s == pytest.approx(15.002e-6, rel=1e-5)
    assert platform.message_latency_s.tolist() == [pytest.approx(150e-6)] * 32
    assert platform.message_s.tolist() == [pytest.approx(150.008e-6)] * 32


def test_hand_solved_file(tmp_path: Path) -> None:
    platform = read_simgrid(write(tmp_path, SMALL))
    assert platform.name == "machine"
    assert platform.core_names == ("h10", "h2")
    assert platform.speed_flops.tolist() == [[1e8, 0.5], [2e9, 1e9]]
    assert platform.idle_w.tolist() == [[1, 3], [10, 5]]
    assert platform.epsilon_w.tolist() == [[1, 3], [10, 6]]
    assert platform.full_w.tolist() == [[2, 4], [20, 8]]
    assert platform.initial_pstate.tolist() == [0, 1]
    assert platform.host_cores.tolist() == [1, 4]
    assert platform.memory_mib.tolist() == [np.inf, np.inf]
    assert platform.peak_flops.tolist() == [1e8, 2e9]
    assert platform.peak_power_w.tolist() == [2, 20]
    assert platform.properties[0]["color"] == "red"
    # h10: twice over a bus of 2 GB/s (half of it for each passage), then 1 GB/s; h2: 125 MB/s, then 1 GB/s
    assert platform.message_latency_s.tolist() == [pytest.approx(102e-6), pytest.approx(110e-6)]
    assert platform.message_s.tolist() == [pytest.approx(102e-6 + 1e-9), pytest.approx(110e-6 + 8e-9)]
    assert platform.loopback_s == 1e-10


def test_zones_within_zones(tmp_path: Path) -> None:
    text = SMALL.replace('<zone id="rack"', '<zone id="hall" routing="Full"><zone id="rack"').replace(
        " </zone>\n <link", ' </zone>\n</zone><link id="x" bandwidth="1Bps" latency="0s"/><link'
    )
    network = SimGridPlatform(write(tmp_path, text.replace('dst="rack"', 'dst="hall"')))
    master, h2, h10 = (network.host_named(name) for name in ("master_host", "h2", "h10"))
    assert [link.name for link in network.route(h2, master).links] == ["near_UP", "far"]
    assert [link.name for link in network.route(master, h10).links] == ["far", "bus", "bus"]
    assert [link.name for link in network.route(master, h2).links] == ["far", "near_DOWN"]


CASES = Path(__file__).parents[4] / ".." / "shared" / "cases"


@pytest.mark.parametrize(
    "path", sorted([*CASES.glob("simgrid-two-readers/*.xml"), *CASES.glob("platform-without-routes/*.xml")])
)
def test_what_simgrid_reads_is_read(path: Path) -> None:
    platform = read_simgrid(path)
    assert platform.n_cores >= 2
    assert "master_host" not in platform.core_names


def test_another_master_host_has_the_role(tmp_path: Path) -> None:
    head = '<host id="front" speed="1Gf"><prop id="role" value="master"/></host><host id="a" speed="1Gf"/>'
    store = '<host id="store" speed="1Gf"><prop id="role" value="storage"/></host>'
    text = f'{HEAD}<zone id="main" routing="Full">{head}{store}</zone></platform>'
    assert read_simgrid(write(tmp_path, text)).core_names == ("a",)


def test_hosts_with_fewer_p_states_keep_their_last_one(tmp_path: Path) -> None:
    text = SMALL.replace('"100Mf, 0.5f"><prop id="wattage_per_state" value="1:2, 3:4"/>', '"100Mf">')
    platform = read_simgrid(write(tmp_path, text))
    assert platform.speed_flops.tolist() == [[1e8, 1e8], [2e9, 1e9]]
    assert not platform.has_power


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(descriptions(), st.sampled_from(LADDERS), st.sampled_from([None, 3, 6]))
def test_what_is_written_is_read_again(
    tmp_path: Path, description: dict[str, Any], contention: str, decimals: int | None
) -> None:
    rules = replace(pstate_rules(contention), decimals=decimals)
    platform = build_platform(description, name="--random--", rules=rules)
    path = tmp_path / "random.xml"
    write_simgrid(platform, path)
    assert read_simgrid(path) == platform
    assert read_platform(path, rules=rules) == platform
    # the hosts alone say the same
    path.write_text(re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL))
    foreign = read_simgrid(path)
    assert foreign.rules is None
    assert np.array_equal(foreign.speed_flops, platform.speed_flops)
    assert np.array_equal(foreign.full_w, platform.full_w)
    assert foreign.properties == platform.properties


def test_same_platform_same_bytes(tmp_path: Path) -> None:
    for name in ("a.xml", "b.xml"):
        write_simgrid(build_platform(tiny()), tmp_path / name)
    assert (tmp_path / "a.xml").read_bytes() == (tmp_path / "b.xml").read_bytes()


def test_other_rules_than_the_file_was_made_with(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    write_simgrid(build_platform(tiny()), path)
    assert read_platform(path, rules=pstate_rules()).rules == pstate_rules()
    with pytest.raises(PlatformError, match="was made with P-state rules 'default' with contention 'step'"):
        read_platform(path, rules=HDEEPRM)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("8000000000.0f", "9Gf", "speed_flops"),
        ('"cor_0001"', '"cor_0009"', "core_names"),
        ("10.0:10.0", "9:10", "idle_w"),
    ],
)
def test_edited_hosts_are_noticed(tmp_path: Path, old: str, new: str, field: str) -> None:
    description = tiny()
    description["clusters"][0]["nodes"][0]["number"] = 1
    path = tmp_path / "a.xml"
    write_simgrid(build_platform(description), path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(PlatformError, match=rf"the hosts were changed \({field}\)"):
        read_simgrid(path)


def test_damaged_comment(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    write_simgrid(build_platform(tiny()), path)
    path.write_text(path.read_text().replace('"decimals": null', '"decimals": 999999999'))
    with pytest.raises(PlatformError, match="comment in which hdrl stored the platform is damaged"):
        read_simgrid(path)


def test_foreign_platforms_cannot_be_written(tmp_path: Path) -> None:
    platform = read_simgrid(write(tmp_path, SMALL))
    with pytest.raises(PlatformError, match="has no description"):
        write_simgrid(platform, tmp_path / "again.xml")
    assert not (tmp_path / "again.xml").exists()


def test_writing_into_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        write_simgrid(build_platform(tiny()), tmp_path / "no" / "a.xml")


def test_hosts_without_power(tmp_path: Path) -> None:
    text = re.sub(r'<prop id="wattage_per_state" value="[^"]*"/>', "", SMALL)
    platform = read_simgrid(write(tmp_path, text))
    assert not platform.has_power
    assert np.all(np.isnan(platform.idle_w))
    assert platform == read_simgrid(tmp_path / "machine.xml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"rack" routing="Full"',
            '"rack" routing="Floyd"',
            "zone 'rack': routing 'Floyd' is not simulated, expected one of Full, None, Vivaldi",
        ),
        ('<router id="out"/>', '<router id="out"/><cluster id="c"/>', "<cluster> has no 'radical'"),
        ('"2Gf, 1Gf"', '"2Gh, 1Gf"', "host 'h2': speed: '2Gh' is not a quantity; expected a number"),
        ('"2Gf, 1Gf"', '"0f, 1Gf"', "host 'h2': its speed is 0, expected more in its first P-state"),
        ('"2Gf, 1Gf"', '"2Gf"', "host 'h2': P-state 1, but only 1 speeds are given"),
        ('value="1:2, 3:4"/>', 'value="1, 3:4"/>', "host 'h10': wattage_per_state holds '1', expected idle:full"),
        ('value="1:2, 3:4"/>', 'value="1:nan, 3:4"/>', "host 'h10': wattage_per_state holds '1:nan'"),
        ('core="4"', 'core="-4"', "host 'h2': -4 cores, expected 1 to 1000000"),
        ('core="4"', 'cores="4"', "<host id='h2'>: attribute 'cores' is not known; did you mean 'core'?"),
        ('core="4"', 'core="4" speed_file="x"', "host 'h2': speed_file is not simulated"),
        (' id="near" bandwidth="125MBps"', ' id="near"', "<link> has no 'bandwidth'"),
        ('bandwidth="125MBps"', 'bandwidth="0"', "link 'near': bandwidth is 0, expected more"),
        ("SPLITDUPLEX", "FULLDUPLEX", "link 'near': sharing_policy is 'FULLDUPLEX'; did you mean 'SPLITDUPLEX'?"),
        (' direction="UP"', "", "<route 'h2' to 'out'>: link 'near' is SPLITDUPLEX, expected direction UP or DOWN"),
        ('<link_ctn id="bus"/><link_ctn id="bus"/>', "", "<route 'out' to 'h10'>: crosses no link"),
        (
            '<link_ctn id="bus"/><link_ctn',
            '<link_ctn id="bas"/><link_ctn',
            "<route 'out' to 'h10'>: no link 'bas'; did you mean 'bus'?",
        ),
        (
            '<route src="h2" dst="out">',
            '<route src="h2" dst="exit">',
            "<route 'h2' to 'exit'>: 'exit' is not a host or router of zone 'rack'",
        ),
        (
            '<route src="h2" dst="out">',
            '<route src="out" dst="h10">',
            "<route 'out' to 'h10'>: there is a route from 'out' to 'h10' already",
        ),
        ('gw_dst="out"', 'gw_dst="in"', "<zoneRoute 'master' to 'rack'>: gateway 'in' is not a host or router"),
        (
            'gw_dst="out"',
            'gw_dst="master_host"',
            "<zoneRoute 'master' to 'rack'>: gateway 'master_host' is not in zone 'rack'",
        ),
        (
            'src="master" dst="rack"',
            'src="master" dst="rock"',
            "<zoneRoute 'master' to 'rock'>: 'rock' is not a zone in 'main'; did you mean 'rack'?",
        ),
        (
            'src="master" dst="rack"',
            'src="rack" dst="rack"',
            "<zoneRoute 'rack' to 'rack'>: gateway 'master_host' is not in zone 'rack'",
        ),
        (
            '<host id="master_host"',
            '<host id="the_master_host"',
            "<zoneRoute 'master' to 'rack'>: gateway 'master_host' is not a host",
        ),
        ('<host id="h10"', '<host id="h2"', "two hosts or routers are called 'h2'"),
        (
            '<prop id="color" value="red"/>',
            '<prop id="role" value="master"/>',
            "host 'h10' has the role 'master', but 'master_host' is the master already",
        ),
        ('<prop id="color" value="red"/>', '<prop id="role" value="boss"/>', "host 'h10': role is 'boss'"),
        (
            '<prop id="color" value="red"/>',
            '<prop id="sleep_pstates" value="1:2"/>',
            "host 'h10': sleep_pstates holds '1:2'",
        ),
        (
            '<prop id="color" value="red"/>',
            '<prop id="sleep_pstates" value="1:1:1"/>',
            "host 'h10': sleep_pstates holds '1:1:1', expected sleep:off:on, three different ones of",
        ),
        (
            'value="1:2, 3:4"/>',
            'value="1:2, 3:4, 5:6"/>',
            "host 'h10': wattage_per_state has 3 P-states, speed has 2, expected as many",
        ),
        ('version="4.1"', 'version="2"', "<platform>: version is '2'"),
    ],
)
def test_messages_name_the_element(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SMALL.count(old) == 1
    path = write(tmp_path, SMALL.replace(old, new))
    with pytest.raises(PlatformError) as caught:
        read_simgrid(path)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert "\n" not in str(caught.value)


def test_no_hosts_but_the_master(tmp_path: Path) -> None:
    text = f'{HEAD}<zone id="main" routing="Full"><host id="master_host" speed="1Gf"/></zone></platform>'
    with pytest.raises(PlatformError, match="no host but 'master_host' runs jobs"):
        read_simgrid(write(tmp_path, text))


def test_no_master(tmp_path: Path) -> None:
    text = f'{HEAD}<zone id="main" routing="Full"><host id="master" speed="1Gf"/></zone></platform>'
    with pytest.raises(
        PlatformError,
        match="no host 'master_host', on which Batsim runs, and none with the role 'master'; did you mean",
    ):
        read_simgrid(write(tmp_path, text))


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE platform [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    '<platform version="4.1"><zone id="&b;" routing="Full"/></platform>'
)
LOADED = '<?xml version="1.0"?><!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/hostname">]><platform version="&a;"/>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "declares XML entities"),
        (LOADED, "declares XML entities"),
        ("", "is empty"),
        ("<platform", ":1: is not XML"),
        ("not xml\n\n<", ":1: is not XML"),
    ],
)
def test_what_is_no_xml(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ReadError, match=message):
        read_simgrid(write(tmp_path, text))


def test_deep_nesting(tmp_path: Path) -> None:
    text = "".join(f'<zone id="z{i}" routing="Full">' for i in range(3000)) + "</zone>" * 3000
    with pytest.raises(PlatformError, match="nested more than 50 deep"):
        read_simgrid(write(tmp_path, f"{HEAD}{text}</platform>"))


def test_damaged_files_give_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "MAX_CORES", 20_000)
    ours = tmp_path / "ours.xml"
    write_simgrid(build_platform(json.loads(json.dumps(tiny()))), ours)
    texts = [SMALL, ours.read_text()]
    texts += [(RECORDED / name / "platform.xml").read_text() for name in ("smpi", "sleep_wake") if RECORDED.is_dir()]
    messages = []
    path = tmp_path / "fuzzed.xml"
    for text in mutated(texts, n_variants=120, seed=2):
        path.write_text(text, encoding="utf-8")
        try:
            read_simgrid(path)
        except HdrlError as error:
            messages.append(str(error))
    assert not [message for message in messages if "\n" in message]
    assert len(messages) > 120
