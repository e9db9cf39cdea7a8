"""Machines, pipelines, their files, and what is released when."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, OptionsError, PlatformError, ReadError, WorkloadError
from hdrl.settings.pipelines.inputs import all_configurations, loads_of
from hdrl.settings.pipelines.loads.covers import cheapest_cover, demand_us, latency_us
from hdrl.settings.pipelines.loads.generate import SHAPES, SPLITS, PipelineModel, drs, generate, uunifast
from hdrl.settings.pipelines.loads.load import PipelineLoad, Times
from hdrl.settings.pipelines.loads.pipeline import NEVER, Group, Kernel, Pipeline
from hdrl.settings.pipelines.loads.readers import read_graph, read_period_file, read_set, write_set
from hdrl.settings.pipelines.loads.releases import Context, hyperperiod_us, release
from hdrl.settings.pipelines.machine import read_machine
from hdrl.settings.pipelines.simulation.policies import simulate

from .worlds import ADAS, chain, pipelines, released

BOTH = (0, 1)
needs_adas = pytest.mark.skipif(not ADAS.is_dir(), reason="rlschedsim's files are not at hand")


def test_machines_by_their_names():
    machine = read_machine("2x(2cpu+1gpu),1gpu")
    assert machine.kinds == (0, 0, 1, 0, 0, 1, 1)
    assert machine.ecus == (0, 0, 0, 1, 1, 1, 2)
    assert machine.unit_kinds == {"cpu": 4, "gpu": 3}
    assert machine.labels[3:] == ("ecu1.cpu0", "ecu1.cpu1", "ecu1.gpu0", "ecu2.gpu0")
    assert read_machine("1cpu+1gpu").labels == ("cpu0", "gpu0")
    assert read_machine("1gpu+1cpu").sha256() == read_machine("1cpu+1gpu").sha256()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1tpu", "machine is '1tpu', expected a form such as '1cpu"),
        ("0cpu", "machine '0cpu': ECU 0 has no units"),
        ("4000cpu", "cpu is 4000, expected a whole number from 0 to 1024"),
        ("2x(1000cpu)", "has more than 1024 units"),
        ("0x1cpu", "0 ECUs, expected 1 to 1024"),
        ("2x(1cpu", r"machine is '2x\(1cpu', expected a form such as"),
        ("1cpu)", r"machine is '1cpu\)', expected a form such as"),
        ("\uff11cpu", "machine is '\uff11cpu', expected a form such as"),
        ("none.json", "none.json: no such file"),
        pytest.param(f"{'9' * 5000}cpu", "expected a form such as '1cpu", id="digits"),
    ],
)
def test_wrong_machines(text: str, message: str):
    with pytest.raises((PlatformError, ReadError), match=message):
        read_machine(text)


def test_a_machine_in_a_file(tmp_path: Path):
    (tmp_path / "car.json").write_text('{"ecus": [{"cpu": 4, "gpu": 1}, {"cpu": 2}]}')
    assert read_machine("car.json", tmp_path).facts() == {"name": "car", "n_units": 7, "n_ecus": 2, "cpu": 6, "gpu": 1}
    (tmp_path / "car.json").write_text('{"ecus": [{"cpus": 4}]}')
    with pytest.raises(ReadError, match=r"car.json: ecus\[0\] has no key 'cpus'; did you mean 'cpu'\?"):
        read_machine("car.json", tmp_path)
    (tmp_path / "car.json").write_text('{"name": ["car"], "ecus": [{"cpu": 4}]}')
    with pytest.raises(ReadError, match=r"car.json: name is a list, expected text"):
        read_machine("car.json", tmp_path)


# ---------------------------------------------------------------------- rlschedsim's files


@needs_adas
def test_the_graphs_of_rlschedsim():
    cnn, dnn = read_graph(ADAS / "cnn.graph"), read_graph(ADAS / "dnn_reduced.graph")
    assert (len(cnn.kernels), len(cnn.groups)) == (6, 15)
    assert cnn.kernels[0] == Kernel("cnn_0", 52678, 61745)
    # What the table in the reference says: best per kernel, and fused as is best, in microseconds.
    assert demand_us(cnn, BOTH, is_fusing=False) == 215660
    assert (demand_us(cnn, (0,)), demand_us(cnn, (1,))) == (76356, 76943)
    assert demand_us(dnn, BOTH, is_fusing=False) == 377228
    assert (demand_us(dnn, (0,)), demand_us(dnn, (1,))) == (275715, 719080)
    assert demand_us(read_graph(ADAS / "dnn_v1.graph"), (0,)) == 135339
    assert read_graph(ADAS / "dag_HOG_odroid.graph", "us").kernels[0].cpu_us == 3480  # rounded up
    assert len(read_graph(ADAS / "cnn_expanded.graph").groups) == 45


@needs_adas
@pytest.mark.parametrize(
    ("name", "unit", "message"),
    [
        ("adas_job1.graph", "ms", r"adas_job1.graph:7: holds 1 time, expected two, on a CPU and on a GPU"),
        ("dag_HOG_odroid.graph", "s", "holds a time of 3479.5 s, longer than 60 s; if the unit differs, name it"),
        (
            "dag_matrix_for_512_odroid.graph",
            "us",
            r":7: holds '0 1', expected a kernel \(name:cpu,gpu\): 6 are announced",
        ),
    ],
)
def test_odd_graphs_are_refused(name: str, unit: str, message: str):
    with pytest.raises(ReadError, match=message):
        read_graph(ADAS / name, unit)


@needs_adas
def test_period_files_of_rlschedsim():
    found = read_period_file(ADAS / "period2.stats")
    assert [one.name for one in found.pipelines] == ["dnn_reduced", "cnn", "dnn_reduced#2", "cnn#2"]
    assert found.periods_us[1] == (340_000, 510_000, 1_020_000)
    configurations = list(found.configurations())
    assert configurations == [found.configuration(number) for number in range(found.n_configurations)]
    assert len(configurations) == 81
    assert configurations[1] == (850_000, 340_000, 850_000, 510_000)
    # The fastest configuration asks for more than two units unless kernels are fused.
    for file, needs in (("period1.stats", 2.16), ("period2.stats", 2.16)):
        fastest = read_period_file(ADAS / file)
        load = PipelineLoad("x", fastest.pipelines, release(fastest.pipelines, [Context(fastest.configuration(0))]))
        machine = read_machine("1cpu+1gpu")
        assert round(load.offered(machine, is_fusing=False) * 2, 2) == needs
        assert load.offered(machine) < 0.56


GRAPH = "2 1\na:1,2\nb:3,4\n0 1\n0,1:2.5,7\n"


def test_a_graph(tmp_path: Path):
    path = tmp_path / "x.graph"
    path.write_text(GRAPH)
    assert read_graph(path, "ms") == Pipeline(
        "x", (Kernel("a", 1000, 2000), Kernel("b", 3000, 4000)), ((0, 1),), (Group((0, 1), 2500, 7000),)
    )
    path.write_text("# unit: us\n" + GRAPH)
    assert read_graph(path).groups[0].cpu_us == 3


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("2 1\n", "two one\n", ":1: holds 'two one', expected numbers of kernels and edges"),
        pytest.param("2 1\n", f"{'9' * 5000} 1\n", "expected numbers of kernels and edges", id="digits"),
        pytest.param("0,1:", f"{'9' * 5000},1:", "expected a fused group", id="digits of a group"),
        ("a:1,2", "a:1,1e999999", ":2: holds '1e999999', expected a time in s"),
        ("2 1\n", "9 1\n", ":1: 9 kernels and 1 edges are announced, but 4 lines follow"),
        ("a:1,2", "a:1,x", ":2: holds 'x', expected a time in s"),
        ("a:1,2", "a:1,-2", ":2: holds a time of -2 s, expected more than 0"),
        ("a:1,2", "a:1,nan", ":2: holds a time of nan s, expected more than 0"),
        ("0 1\n", "0 2\n", "edge 0 2, but its kernels are 0 to 1"),
        ("0 1\n", "1 1\n", "its edges go round in a circle"),
        ("0,1:", "0,0:", "group 0,0, expected at least two kernels in ascending order"),
        ("0,1:", "0,5:", "group 0,5, but its kernels are 0 to 1"),
        ("0,1:", "0;1:", ":5: holds '0;1:2.5,7', expected a fused group"),
        ("0,1:2.5,7\n", "0,1:2.5,7\n0,1:2.5,7\n", "group 0,1 appears twice"),
    ],
)
def test_wrong_graphs(tmp_path: Path, before: str, after: str, message: str):
    path = tmp_path / "x.graph"
    path.write_text(GRAPH.replace(before, after))
    with pytest.raises(ReadError, match=message):
        read_graph(path)


def test_texts_are_never_run(tmp_path: Path):
    (tmp_path / "x.graph").write_text(GRAPH)
    (tmp_path / "p.stats").write_text("x.graph=[__import__('os').getpid()]\n")
    with pytest.raises(ReadError, match=r"p.stats:1: holds .* expected a time in ms"):
        read_period_file(tmp_path / "p.stats")
    with pytest.raises(OptionsError, match="unit of times is 'min'"):
        read_graph(tmp_path / "x.graph", "min")


# ---------------------------------------------------------------------- our own files


@hypothesis_settings(max_examples=30)
@given(st.lists(pipelines(2), min_size=1, max_size=3), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_sets_survive_their_file(tmp_path_factory: pytest.TempPathFactory, found: list[Pipeline], periods: list[int]):
    from hdrl.settings.pipelines.loads.readers import PipelineSet

    path = tmp_path_factory.mktemp("sets") / "set.json"
    found = [dataclasses.replace(one, name=f"{one.name}{number}") for number, one in enumerate(found)]
    written = PipelineSet("s", tuple(found), (tuple(periods),) * len(found))
    write_set(written, path)
    assert read_set(path) == written


ONE = {"kernels": [{"cpu_us": 1}], "periods_us": [1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the file is a list, expected an object"),
        ('{"pipelines": []}', "pipelines is empty, expected at least one entry"),
        ('{"pipelines": [3]}', r"pipelines\[0\] is 3, expected an object"),
        (ONE | {"periods_us": None}, r"pipelines\[0\].periods_us is null, expected a list"),
        (ONE | {"periods_us": -3}, r"pipelines\[0\].periods_us is -3, expected a list"),
        (ONE | {"periods_us": [1.5]}, r"pipelines\[0\].periods_us\[0\] is 1.5, expected a whole number"),
        (ONE | {"periods_us": [0]}, r"pipelines\[0\].periods_us\[0\] is 0, expected at least 1"),
        (ONE | {"kernel": []}, r"pipelines\[0\] has no key 'kernel'; did you mean 'kernels'\?"),
        (ONE | {"kernels": [{"cpu_us": 0}]}, r"kernels\[0\].cpu_us is 0, expected at least 1"),
        (ONE | {"kernels": [{"cpu_us": 0.5}]}, r"kernels\[0\].cpu_us is 0.5, expected a whole number"),
        (ONE | {"kernels": [{"cpu_us": 1, "gpu": 1}]}, r"kernels\[0\] has no key 'gpu'; did you mean 'gpu_us'\?"),
        (ONE | {"kernels": [{}]}, "pipeline '0': kernel 0 .* can run nowhere"),
        (ONE | {"edges": [[0, 1e308]]}, r"edges\[0\]\[1\] is 1e\+308, expected a whole number"),
        (ONE | {"groups": [{"kernels": [0], "cpu": 1}]}, r"groups\[0\] has no key 'cpu'; did you mean 'cpu_us'\?"),
        (ONE | {"name": None, "ecu": "0"}, r"pipelines\[0\].ecu is '0', expected a whole number"),
        (ONE | {"name": "a\nb"}, r"pipelines\[0\].name is 'a.*b', expected text of printable characters"),
        (ONE | {"name": []}, r"pipelines\[0\].name is a list, expected text"),
        ('{"name": "a\\nb", "pipelines": [3]}', r"s.json: name is 'a.*b', expected text of printable characters"),
        (json.dumps({"pipelines": [ONE, ONE | {"name": "0"}]}), "pipelines 0 and 1 have the same name '0'"),
        (json.dumps({"pipeline": [], "pipelines": [ONE]}), "the file has no key 'pipeline'; did you mean"),
    ],
)
def test_wrong_sets(tmp_path: Path, text: str | dict[str, object], message: str):
    (tmp_path / "s.json").write_text(text if isinstance(text, str) else json.dumps({"pipelines": [text]}))
    with pytest.raises(ReadError, match=message):
        read_set(tmp_path / "s.json")


def test_files_that_are_not_there(tmp_path: Path):
    (tmp_path / "p.stats").write_text("lost.graph=[5]\n")
    with pytest.raises(ReadError, match=r"p.stats:1: no graph .*lost.graph; load.graphs says in which folder"):
        read_set(tmp_path / "p.stats")
    with pytest.raises(ReadError, match="generatd: no such file; generated pipelines are 'generated'"):
        loads_of("generatd", tmp_path)


# ---------------------------------------------------------------------- pipelines


def test_what_a_kernel_may_be_fused_with():
    pipeline = chain("a", (5, 5), (5, 5), (5, 5), groups={(0, 1, 2): (9, 9), (0, 1): (7, 7), (1, 2): (6, 6)})
    assert pipeline.choices == ((0, 4, 3), (1, 5), (2,))
    assert cheapest_cover(pipeline, BOTH) == (9, (3,))
    with pytest.raises(WorkloadError, match="group 0,2: a path leads out of it and back into it"):
        chain("a", (5, 5), (5, 5), (5, 5), groups={(0, 2): (9, 9)})


def test_the_least_that_an_instance_needs():
    diamond = Pipeline(
        "d",
        tuple(Kernel(str(k), 10, 20) for k in range(4)),
        ((0, 1), (0, 2), (1, 3), (2, 3)),
        (Group((1, 2), 12, NEVER),),
    )
    assert demand_us(diamond, BOTH) == 32
    assert demand_us(diamond, (1,)) == 80
    assert latency_us(diamond, (0, 1)) == 26  # 10, half of 12, 10
    assert latency_us(chain("a", (3, 5), (9, 4)), BOTH) == 7
    # A share of 0 is a share, too: 10, 1 on a GPU for both in the middle, 10.
    quick = Pipeline("q", diamond.kernels, diamond.edges, (Group((1, 2), NEVER, 1), Group((1, 3), 30, NEVER)))
    assert latency_us(quick, BOTH) <= 21


# ---------------------------------------------------------------------- releases


def test_releases_are_periodic_with_phases_and_own_deadlines():
    world = chain("a", (1, 1), phase_us=5), chain("b", (1, 1), deadline_us=4, tolerance_us=1)
    table = release(world, [Context((10, 20))])
    assert table.tolist() == [(1, 0, 4, 1, 20), (0, 5, 15, 0, 10), (0, 15, 25, 0, 10)]


def test_periods_that_switch():
    table = release((chain("a", (1, 1)),), [Context((10,), 25), Context((4,), 12)])
    assert table["release_us"].tolist() == [0, 10, 20, 30, 34]
    assert table["deadline_us"].tolist() == [10, 20, 30, 34, 38]


def test_sporadic_releases_are_at_least_a_period_apart():
    table = release((chain("a", (1, 1)),), [Context((1000,), 10**6)], spread=0.5, random=np.random.default_rng(0))
    gaps = np.diff(table["release_us"])
    assert gaps.min() >= 1000
    assert 1400 < gaps.max() <= 1500


def test_hyperperiods_do_not_explode():
    assert hyperperiod_us([850_000, 340_000]) == 1_700_000
    with pytest.raises(
        WorkloadError, match=r"their least common multiple is .* s, within which .* instances are released"
    ):
        hyperperiod_us([999_983, 1_000_003, 10])
    with pytest.raises(WorkloadError, match="more than 1000000; shorten the horizon"):
        release((chain("a", (1, 1)),), [Context((10,), 10**9)])
    with pytest.raises(WorkloadError, match="a period of 0 us, expected 1 to"):
        hyperperiod_us([0])
    with pytest.raises(WorkloadError, match=r"a period of 1000000000.*, expected 1 to"):
        release((chain("a", (1, 1)),), [Context((10**400,), 10**6)])


def test_windows_are_of_instances():
    load = released((chain("a", (1, 1)),), *((0, k, k + 5) for k in range(10)))
    assert load.window(3, 4).instances["release_us"].tolist() == [3, 4, 5, 6]
    assert load.window(3, 4).window(1, 2).origin["first_item"] == 4
    assert load.window(0, 10) is load
    with pytest.raises(WorkloadError, match="no window of 8 instances after the first 3: it has 10"):
        load.window(3, 8)
    assert load.sha256() != load.window(0, 9).sha256()


@pytest.mark.parametrize("low", [0.0, 1.5, float("nan")])
def test_wrong_execution_times(low: float):
    with pytest.raises(WorkloadError, match=r"expected more than 0, at most 1"):
        Times(low)


# ---------------------------------------------------------------------- generated


@pytest.mark.parametrize("split", [uunifast, drs])
def test_utilisations_have_their_sum_and_limit(split: object):
    random = np.random.default_rng(1)
    found = np.array([split(5, 2.0, random, 0.7) for _ in range(4000)])
    assert np.allclose(found.sum(axis=1), 2.0)
    assert found.min() >= 0.0
    assert found.max() <= 0.7
    # No place is preferred, and both ways draw from the same region.
    assert np.abs(found.mean(axis=0) - 0.4).max() < 0.01
    assert abs(float((found > 0.6).mean()) - 0.1763) < 0.012


def test_what_is_rare_is_found_by_rescaling():
    with pytest.raises(WorkloadError, match="too rare; use split 'drs'"):
        uunifast(20, 19.5, np.random.default_rng(0))
    found = drs(20, 19.5, np.random.default_rng(0))
    assert abs(found.sum() - 19.5) < 1e-9
    assert found.max() <= 1.0


@pytest.mark.parametrize("shape", [*SHAPES, "mixed"])
@pytest.mark.parametrize("split", SPLITS)
def test_generated_sets_need_what_they_should(shape: str, split: str):
    model = PipelineModel(n_pipelines=5, utilization=0.6, shape=shape, split=split, implicit_deadlines=False)
    found = generate(model, np.random.default_rng(4))
    load = PipelineLoad("x", found.pipelines, release(found.pipelines, [Context(found.configuration(0))]))
    assert abs(load.offered(read_machine("1cpu+1gpu")) - 0.6) < 1e-3
    assert generate(model, np.random.default_rng(4)) == found
    for one in found.pipelines:
        assert 3 <= len(one.kernels) <= 8
        for group in one.groups:
            for kind in BOTH:
                alone = [one.kernels[k].times_us[kind] for k in group.kernels]
                assert max(alone) - 1 <= group.times_us[kind] <= sum(alone) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": "chian"}, "shape is 'chian'; did you mean 'chain'?"),
        ({"split": "x"}, "split is 'x'; known: drs, uunifast_discard"),
        ({"utilization": 3.0}, "a utilisation of 3 on 2 units cannot be split among 4 pipelines of at most 1"),
        ({"n_kernels": (5, 2)}, "n_kernels is"),
        ({"periods_ms": ()}, "periods_ms is empty"),
    ],
)
def test_wrong_models(arguments: dict[str, object], message: str):
    with pytest.raises(HdrlError, match=message):
        PipelineModel(**arguments)


@pytest.mark.parametrize("split", ["uunifast_discard", "drs"])
def test_one_pipeline_may_have_the_largest_utilization(split: str):
    model = PipelineModel(n_pipelines=1, n_units=2, utilization=0.5, largest=1.0, split=split)
    load = all_configurations(generate(model, np.random.default_rng(1)))[0]
    assert abs(load.offered(read_machine("1cpu+1gpu")) - 0.5) < 1e-3


def test_no_groups_of_a_cover_wait_for_each_other():
    """A static mapping of such groups started nothing more."""
    kernels = tuple(Kernel(f"k{k}", 10, 10) for k in range(4))
    crossing = Pipeline("x", kernels, ((0, 1), (2, 3)), (Group((0, 3), 1, 1), Group((1, 2), 1, 1)))
    assert cheapest_cover(crossing, BOTH)[0] == 21
    trace = simulate(read_machine("1cpu"), released((crossing,), (0, 0, 30)), "static")
    assert trace.end_us.tolist() == [21]
