"""A small file cannot ask for more than the memory holds: what multiplies out is counted before it is made."""

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import ReadError, WorkloadError
from hdrl.launcher.main import cli
from hdrl.settings.gpu.loads.values import read_values
from hdrl.settings.pipelines.inputs import loads_of
from hdrl.settings.pipelines.loads.readers import MAX_CONFIGURATIONS, read_set
from hdrl.site import ImportChoices, import_site, read_conf

MOST_BYTES = 100 * 2**20


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


def pipelines(folder: Path, n: int) -> Path:
    """Write a set of pipelines with two periods each."""
    one = {"name": "p", "kernels": [{"cpu_us": 10}], "periods_us": [1000, 2000]}
    (folder / "set.json").write_text(json.dumps({"pipelines": [one | {"name": f"p{number}"} for number in range(n)]}))
    return folder / "set.json"


@pytest.mark.parametrize(("n", "shown"), [(24, "16,777,216"), (40, "1,099,511,627,776"), (200, "about 1e60")])
def test_configurations_of_pipelines_are_counted(tmp_path: Path, n: int, shown: str):
    path = pipelines(tmp_path, n)
    message = f"set: has {shown} combinations of periods, too many to take all"
    with little_memory():
        found = read_set(path)
        assert found.n_configurations == 2**n
        assert found.configuration(0) == (1000,) * n
        assert found.configuration(2**n - 1) == (2000,) * n
        assert found.configuration(2**n // 2) == (2000, *(1000,) * (n - 1))
        with pytest.raises(WorkloadError, match=message):
            found.configurations()
        with pytest.raises(WorkloadError, match=message):
            loads_of(path)
    (tmp_path / "options.json").write_text(
        json.dumps({"setting": "pipelines", "workload": "set.json", "platform": "1cpu", "agent": {"policy": "edf"}})
    )
    with little_memory():
        done = call("run", tmp_path / "options.json", "--out", tmp_path / "out", "--set", "load.tour=shuffled")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert message in done.stderr
        done = call("compare", "edf", "--setting", "pipelines", "-p", "1cpu", "-w", path, "--out", tmp_path / "cmp")
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
        assert message in done.stderr
        done = call("options", "check", tmp_path / "options.json", "--set", "load.configuration=12345")
        assert (done.exit_code, done.stderr) == (0, "")


def test_few_configurations_are_all_taken(tmp_path: Path):
    path = pipelines(tmp_path, 3)
    assert [one.origin["periods_ms"][0] for one in loads_of(path)] == [
        [a, b, c] for a in (1, 2) for b in (1, 2) for c in (1, 2)
    ]
    assert MAX_CONFIGURATIONS > 2**14


def test_generated_sets_are_counted(tmp_path: Path):
    options = {"setting": "pipelines", "workload": "generated", "platform": "1cpu", "agent": {"policy": "edf"}}
    load = {"sets": 10_000, "utilizations": [0.001 * one for one in range(1, 1001)]}
    (tmp_path / "options.json").write_text(json.dumps({**options, "load": load}))
    with little_memory():
        done = call("options", "check", tmp_path / "options.json")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "10,000 sets at 1,000 utilisations are 10,000,000 loads, more than" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--loads 0.1,0.2,0.3,0.4,0.5,0.6 --windows 100:1000000", "6 loads with as many windows as windows.count says"),
        ("--loads 0.1 --windows 10:20000 --seeds 1000", "simulations, more than 5,000,000; take fewer of them"),
    ],
)
def test_simulations_of_a_comparison_are_counted(tmp_path: Path, words: str, message: str):
    with little_memory():
        done = call(
            *("compare", "random+easy", "fcfs", "-p", "homogeneous:8", *words.split(), "--out", tmp_path / "out")
        )
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_sequences_of_actions_are_counted(tmp_path: Path):
    path = tmp_path / "values.json"
    row = {"actions": [1e308] * 5000, "decisions": [0.1] * 5000, "shares": [0, 1], "draws": [[0, 1]]}
    path.write_text(json.dumps({"jobs": [{"name": "x", "rows": [row]}]}))
    with pytest.raises(ReadError, match="must have one row for each sequence of actions"):
        read_values(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slurm.conf", "NodeName=n[1-999999999] CPUs=1"),
        ("slurm.conf", "NodeName=r[1-9999]n[1-9999] CPUs=1"),
        ("slurm.conf", "NodeName=n[1-100000] CPUs=1\nNodeName=m[1-100000] CPUs=1"),
        ("slurm.conf", "NodeName=n1\nPartitionName=p Nodes=n[1-999999999]"),
        ("site.json", '{"nodes": [{"names": "n[1-999999999]", "cores": 1}]}'),
        ("site.json", '{"nodes": [{"names": "n1", "cores": 1}], "partitions": {"p": {"nodes": "n[1-999999999]"}}}'),
    ],
)
def test_lists_of_nodes_are_counted(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text)
    with little_memory(), pytest.raises(ReadError, match=r"nodes.*more than 131,072"):
        read_conf(tmp_path / name)


def test_sizes_in_a_dump_are_counted(tmp_path: Path):
    header = "JobID|Submit|Start|End|AllocCPUS|NodeList|State\n"
    rows = [
        "1|2025-01-01T00:00:00|2025-01-01T00:00:01|2025-01-01T00:00:09|4|n[1-999999999]|COMPLETED",
        "2|2025-01-01T00:00:00|2025-01-01T00:00:01|2025-01-01T00:00:09|999999999999|n1|COMPLETED",
        "3_[0-999999999999]|2025-01-01T00:00:00|Unknown|Unknown|0||PENDING",
    ]
    (tmp_path / "sacct.txt").write_text(header + "\n".join(rows))
    with little_memory():
        found = import_site([tmp_path / "sacct.txt"], tmp_path / "site", ImportChoices())
    assert (found.jobs.n_jobs, found.platform.n_cores) == (1, 4)
    assert set(found.jobs.left_out.values()) == {1, 2**31 - 1}
    pods = {"count": 10**9, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "64"}}}]}}}
    one = {
        "kind": "Workload",
        "metadata": {"name": "w", "creationTimestamp": "2025-01-01T00:00:00Z"},
        "spec": {"podSets": [pods]},
    }
    (tmp_path / "dump.json").write_text(json.dumps(one))
    with little_memory(), pytest.raises(WorkloadError, match="1 rows that cannot be read"):
        import_site([tmp_path / "dump.json"], tmp_path / "other", ImportChoices())
