from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, PlatformError, ReadError, UnknownName
from hdrl.settings.batch.platform import (
    Platform,
    build_platform,
    describe_platform,
    find_platform,
    pstate_rules,
    read_platform,
    shipped_platforms,
)
from hdrl.settings.batch.platform import build as build_module
from hdrl.settings.batch.platform.library import type_library
from hdrl.settings.batch.platform.pstates import STOPPED_FLOPS

from .platform_descriptions import LADDERS, descriptions, tiny
from .platform_mutations import mutated

ROOT = Path(__file__).parents[4]

EXPECTED = {
    "learning": (1, 2, 4, 4.2),
    "das2": (72, 72, 144, 1.0),
    "gaia": (153, 342, 2280, 11.715),
    "pik": (320, 640, 2560, 12.0),
    "ricc": (1024, 2048, 8192, 11.72),
    "mc2": (641, 1548, 10002, 16.422),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_sizes_and_reference_speeds(name: str) -> None:
    platform = read_platform(name)
    assert (platform.n_nodes, platform.n_processors, platform.n_cores) == EXPECTED[name][:3]
    assert round(platform.reference_gflops, 3) == EXPECTED[name][3]
    assert platform.name == name


def test_all_shipped_platforms_are_checked_here() -> None:
    assert set(shipped_platforms()) == set(EXPECTED)


def test_hand_solved_platform() -> None:
    platform = build_platform(tiny())
    assert platform.node_of_processor.tolist() == [0, 0, 1, 1]
    assert platform.processor_of_core.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert platform.first_core_of_processor.tolist() == [0, 4, 8, 12, 16]
    assert platform.first_processor_of_node.tolist() == [0, 2, 4]
    assert platform.cluster_of_node.tolist() == [0, 0]
    assert platform.core_names[:2] == ("cor_0000", "cor_0001")
    assert platform.memory_mib.tolist() == [16384.0, 16384.0]
    assert platform.bandwidth_gbps.tolist() == [20.0] * 4
    assert platform.speed_flops[15].tolist() == [8e9, 6e9, STOPPED_FLOPS, STOPPED_FLOPS]
    assert platform.full_w[15].tolist() == [10.0, 10.0, 1.5, 0.5]
    assert platform.initial_pstate.tolist() == [3] * 16
    # 150 us of latency, then one byte at 1 Gbit/s: the slower of both links
    assert platform.message_latency_s.tolist() == [pytest.approx(150e-6, rel=1e-15)] * 16
    assert platform.message_s.tolist() == [pytest.approx(150e-6 + 8e-9, rel=1e-15)] * 16
    assert platform.loopback_s == 1e-10
    assert platform.has_power


def test_long_latencies_bound_the_flow_by_its_window() -> None:
    slow = {"type": "InfiniBand QDR", "latency": "1s"}
    platform = build_platform(tiny(global_links=slow))
    latency_s = 1 + 1e-4
    assert platform.message_s[0] == pytest.approx(latency_s + 2 * latency_s / 4194304, rel=1e-15)


def test_ladder_of_further_contention_levels() -> None:
    platform = build_platform(tiny(), rules=pstate_rules("proportional"))
    assert platform.n_pstates == 4 + 18
    assert platform.speed_flops[0, [0, 1, 4, 21]] == pytest.approx([8e9, 7.6e9, 7.2e9, 0.4e9])
    assert platform.full_w[0, [1, 4, 21]].tolist() == [10.0] * 3
    none = build_platform(tiny(), rules=pstate_rules("none"))
    assert none.speed_flops[0].tolist() == [8e9, 8e9, STOPPED_FLOPS, STOPPED_FLOPS]


def test_compatibility_rounds_as_hdeeprm_does() -> None:
    description = tiny()
    description["types"]["processors"]["chip"] |= {"clock_rate": 2.93, "power": 71.25, "cores": 6}
    platform = build_platform(description, rules=pstate_rules(compatibility="hdeeprm-0.3.1"))
    assert platform.speed_flops[0].tolist() == [11.72e9, 8.79e9, 0.001, 0.001]
    assert platform.full_w[0].tolist() == [11.875, 11.875, 2.969, 0.594]
    assert platform.memory_mib.tolist() == [16000.0, 16000.0]
    assert platform.peak_power_w[0] == 71.25 / 6


def test_numa_order_of_mixed_nodes() -> None:
    platform = read_platform("learning")
    assert platform.peak_flops.tolist() == [4e9, pytest.approx(4.4e9)]
    assert platform.bandwidth_gbps.tolist() == [32.0, 32.0]
    assert platform.memory_mib.tolist() == [32 * 1024]


def test_arrays_cannot_be_changed() -> None:
    platform = build_platform(tiny())
    for field in Platform.__dataclass_fields__:
        value = getattr(platform, field)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[0] = 0


def test_equality_looks_into_the_arrays() -> None:
    assert build_platform(tiny()) == build_platform(tiny())
    assert hash(build_platform(tiny())) == hash(build_platform(tiny()))
    assert build_platform(tiny()) != build_platform(tiny(), rules=pstate_rules("none"))
    assert build_platform(tiny()) != build_platform(tiny(), name="other")
    assert build_platform(tiny()) != "platform"


@settings(max_examples=30, deadline=None)
@given(descriptions(), st.sampled_from(LADDERS))
def test_every_platform_is_consistent(description: dict[str, Any], contention: str) -> None:
    platform = build_platform(description, rules=pstate_rules(contention))
    assert np.all(np.diff(platform.first_core_of_processor) > 0)
    assert np.all(np.diff(platform.first_processor_of_node) > 0)
    cores = np.diff(platform.first_core_of_processor)
    assert np.array_equal(platform.processor_of_core, np.repeat(np.arange(platform.n_processors), cores))
    assert np.array_equal(platform.speed_flops[:, 0], platform.peak_flops[platform.processor_of_core])
    assert np.all(platform.speed_flops[:, 1] <= platform.speed_flops[:, 0])
    assert np.all(platform.message_s > platform.message_latency_s)
    assert sorted(platform.core_names) == list(platform.core_names)
    assert build_platform(describe_platform(platform), rules=platform.rules) == platform


def test_names_sort_as_ids_on_more_than_ten_thousand_cores() -> None:
    names = read_platform("mc2").core_names
    assert sorted(names) == list(names)


def test_reading_is_quick() -> None:
    read_platform("learning")  # loads the type library
    for name, limit_s in (("gaia", 0.1), ("mc2", 0.3)):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            read_platform(name)
            times.append(time.perf_counter() - start)
        assert min(times) < limit_s


def test_names_and_paths(tmp_path: Path) -> None:
    assert find_platform("gaia") == shipped_platforms()["gaia"]
    own = tmp_path / "mine.json"
    own.write_text(json.dumps(tiny()))
    assert read_platform(own) == build_platform(tiny(), name="mine")
    assert read_platform(str(own)).name == "mine"
    with pytest.raises(ReadError, match="did you mean 'gaia'"):
        read_platform("gaja")
    with pytest.raises(ReadError, match="no such file"):
        read_platform(tmp_path / "gaia.json")
    with pytest.raises(ReadError, match="too long"):
        read_platform("g" * 5000)


def test_job_limits_of_old_files_are_accepted() -> None:
    limits = {"max_time": 100, "reference_machine": {"clock_rate": 2.75, "dpflop_vector_width": 8}}
    links = {"type": "Gigabit Ethernet 1000BASE-T", "latency": "0us"}  # the same in all versions
    assert build_platform(tiny(job_limits=limits, global_links=links)) == build_platform(tiny(global_links=links))


def test_files_of_hdeeprm_0_1_have_the_numbers_of_its_types() -> None:
    nodes = [{"type": name, "number": 1} for name in ("Test0_N1", "Bullx S6030")]
    links = {"type": "InfiniBand QDR", "latency": "0us"}
    description = tiny(clusters=[{"id": "one", "nodes": nodes, "local_links": links}])
    for limits, bandwidth_gbps, link_gbit_per_s in (({}, 32.0, 40.0), (None, 51.2, 10.0)):
        platform = build_platform({**description, "job_limits": limits})
        test, bullx = (group.type.processors[0][0] for group in platform.clusters[0].groups)
        assert (test.name, test.clock_ghz, test.cores) == ("Test0_P1", 1.2, 2)
        assert (bullx.name, bullx.memory_bandwidth_gbps) == ("Xeon E7-4850", bandwidth_gbps)
        assert platform.clusters[0].local_link.bandwidth_gbit_per_s == link_gbit_per_s


def test_the_small_types_of_hdeeprm_are_there() -> None:
    library = type_library()
    assert {"Example", "Basic", "TestMem"} <= library.nodes.keys()
    basic, plus = (kind for kind, _ in library.nodes["Basic"].processors)
    assert (basic.clock_ghz, plus.name, plus.clock_ghz) == (1.0, "Basic+", 1.1)
    assert (library.processors["Example"].clock_ghz, library.processors["TestMem"].llc_mb) == (2.5, 16.0)


def change(path: str, value: object) -> dict[str, Any]:
    """Return `tiny` with one value changed, or removed if it is None."""
    description = json.loads(json.dumps(tiny()))
    *parents, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    position = description
    for key in parents:
        position = position[key]
    if value is None:
        del position[last]
    else:
        position[last] = value
    return description


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("clusters/0/nodes/0/type", "Bulx B505-0", "no node type 'Bulx B505-0'; did you mean 'Bullx B505-0'?"),
        ("clusters/0/nodes/0/number", 0, "is 0, expected at least 1"),
        ("clusters/0/nodes/0/number", True, "is true, expected a whole number"),
        ("clusters/0/nodes", [], "is empty, expected at least one entry"),
        ("clusters/0/local_links/latency", "5 parsecs", "'5 parsecs' is not a quantity; expected a number"),
        ("clusters/0/local_links/latency", "-1us", "'-1us' is not a quantity"),
        ("clusters/0/local_links", None, "is missing"),
        ("clusters", "gaia", "is 'gaia', expected a list"),
        ("global_links/type", "Infiniband QDR", "no network type 'Infiniband QDR'; did you mean 'InfiniBand QDR'?"),
        ("types/processors/chip/cores", 2.5, "is 2.5, expected a whole number"),
        ("types/processors/chip/power", -1, "is -1, expected at least 0"),
        ("types/processors/chip/clock_rate", 0, "is 0, expected at least 1e-06"),
        ("types/processors/chip/clock_rate", 10**400, ""),
        ("types/processors/chip/clock_rate", "2GHz", "is '2GHz', expected a number"),
        ("types/nodes/box/processors/0/type", "chop", "no processor type 'chop'; did you mean 'chip'?"),
        ("types/nodes/box/memory/type", "DDR9", "no memory type 'DDR9'"),
        ("types/networks", {"slow": {"bandwidth": "0Gbps"}}, "'0Gbps' must be more than 0"),
    ],
)
def test_messages_name_the_place(path: str, value: object, message: str) -> None:
    with pytest.raises(PlatformError) as caught:
        build_platform(change(path, value))
    where, problem = re.fullmatch(r"(\S+?):? (.*)", str(caught.value)).groups()
    assert re.sub(r"\.networks\..*", ".networks", where) == place_of(path)
    assert problem.startswith(message)
    assert "\n" not in problem


def place_of(path: str) -> str:
    """Return a path as messages write it: clusters[0].nodes[0].type."""
    return re.sub(r"/(\d+)", r"[\1]", path).replace("/", ".")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("clusters/0/local_link", {}, "clusters[0] has no key 'local_link'; did you mean 'local_links'?"),
        ("types/processors/chip/gpu", 1, "types.processors.chip has no key 'gpu'"),
        ("clusters/0/nodes/0/number", 2**24, f"{2**27} cores are too many; at most {2**24}"),
    ],
)
def test_messages_about_a_whole(path: str, value: object, message: str) -> None:
    with pytest.raises(PlatformError) as caught:
        build_platform(change(path, value))
    assert str(caught.value).startswith(message)


def test_two_clusters_of_one_id() -> None:
    cluster = tiny()["clusters"][0]
    with pytest.raises(PlatformError, match=r"clusters\[1\]\.id: 'one' is the id of another cluster"):
        build_platform(tiny(clusters=[cluster, cluster]))


def test_messages_of_a_file_begin_with_it(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("[]")
    with pytest.raises(PlatformError, match=f"^{re.escape(str(path))}: the file is a list, expected an object"):
        read_platform(path)
    path.write_text('{"clusters": [')
    with pytest.raises(ReadError, match=f"^{re.escape(str(path))}:1:15: is not JSON"):
        read_platform(path)


def test_unknown_rules() -> None:
    with pytest.raises(UnknownName, match="did you mean 'step'"):
        pstate_rules("stepp")


def test_damaged_files_give_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "MAX_CORES", 20_000)
    path = tmp_path / "fuzzed.json"
    messages = []
    texts = [shipped_platforms()["learning"].read_text(), shipped_platforms()["gaia"].read_text(), json.dumps(tiny())]
    for text in mutated(texts, n_variants=150, seed=1):
        path.write_text(text)
        try:
            read_platform(path)
        except HdrlError as error:
            messages.append(str(error))
    assert not [message for message in messages if "\n" in message]
    assert len(messages) > 75


def test_every_library_type_makes_a_platform() -> None:
    library = type_library()
    nodes = [{"type": name, "number": 1} for name in library.nodes]
    description = tiny(clusters=[{"id": "all", "nodes": nodes, "local_links": tiny()["global_links"]}])
    platform = build_platform(description)
    assert platform.n_nodes == len(library.nodes)
    used = {kind.name for node in library.nodes.values() for kind, _ in node.processors}
    assert used == set(library.processors)


def test_every_type_says_where_its_numbers_come_from() -> None:
    library = type_library()
    assert all(kind.source for kind in library.processors.values())
    assert all(node.source for node in library.nodes.values())
    assert len([node for node in library.nodes.values() if not node.source.startswith("HDeepRM")]) >= 12


@pytest.mark.parametrize(
    ("name", "peak_tflops"),
    # double precision, vector units, whole processor: vendors' data sheets
    [
        ("V100 SXM2", 7.8), ("A100 SXM 80GB", 9.7), ("H100 SXM", 33.5), ("H200 SXM", 33.5), ("B200 SXM", 37.0),
        ("MI250X", 47.9), ("MI300X", 81.7), ("MI300A", 61.3), ("RTX 4090", 82.6 / 64), ("A64FX", 3.3792),
        ("Grace", 3.55),
    ],
)  # fmt: skip
def test_peaks_are_those_of_the_data_sheets(name: str, peak_tflops: float) -> None:
    kind = type_library().processors[name]
    assert kind.cores * kind.clock_ghz * kind.flops_per_cycle / 1e3 == pytest.approx(peak_tflops, rel=0.01)


def test_examples_of_the_documentation_are_platforms() -> None:
    text = (ROOT / "docs" / "platforms.md").read_text()
    examples = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert examples
    for example in examples:
        assert build_platform(json.loads(example)).n_cores > 0
