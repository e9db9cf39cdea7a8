"""Experiments on other simulators: the same folder, and what the simulator was given besides."""

import contextlib
import csv
import json
import sys
from pathlib import Path

import pytest

from hdrl.base.errors import HdrlError, OptionsError
from hdrl.experiment import run_experiment
from hdrl.experiment.compare.comparison import run_comparison
from hdrl.experiment.run.inputs import make_sweep, read_options
from hdrl.setting import find_setting
from hdrl.settings.batch.workload import lublin_log, write_swf

COMMON = {
    "manifest.json",
    "metrics.json",
    "options.resolved.json",
    "out_consumed_energy.csv",
    "out_jobs.csv",
    "out_machine_states.csv",
    "out_pstate_changes.csv",
    "out_schedule.csv",
    "overutilizations.json",
    "provenance.json",
    "timing.json",
}


@pytest.fixture
def batsim(tmp_path: Path) -> Path:
    """Return a command that stands in for Batsim."""
    path = tmp_path / "stand_in"
    path.write_text(f"#!{sys.executable}\nfrom hdrl.launcher.batsim import main\nmain()\n")
    path.chmod(0o755)
    return path


def test_folders_of_all_simulators(small_world: Path, batsim: Path, tmp_path: Path):
    folders = {}
    for name in ("embedded", "exact", "batsim"):
        # A path with a slash starts from the options file.
        options = read_options(small_world, overrides=[f"simulator={name}", "batsim.executable=./stand_in"])
        folders[name] = run_experiment(options, out=tmp_path / name).folder
    found = {name: {path.name for path in folder.iterdir()} for name, folder in folders.items()}
    assert found["embedded"] == COMMON
    assert found["exact"] == COMMON | {"platform.xml", "workload.json"}
    assert found["batsim"] == COMMON | {"platform.xml", "workload.json", "batsim.log"}
    for name in ("out_machine_states.csv", "out_pstate_changes.csv", "overutilizations.json"):
        texts = {(folder / name).read_text() for folder in folders.values()}
        assert len(texts) == 1, name
    for name in ("out_jobs.csv", "out_schedule.csv", "out_consumed_energy.csv"):
        assert (folders["exact"] / name).read_bytes() == (folders["batsim"] / name).read_bytes()
    told = json.loads((folders["batsim"] / "provenance.json").read_text())
    assert told["versions"]["batsim"] == "v4.2.1"
    assert json.loads((folders["batsim"] / "timing.json").read_text())["scheduling_time_s"] > 0


SAME = ("out_machine_states.csv", "out_pstate_changes.csv", "overutilizations.json")
NEARLY = {
    "out_jobs.csv": {"consumed_energy": 1e-9},
    "out_schedule.csv": {"consumed_joules": 1e-12, "time_computing": 1e-12, "time_idle": 1e-12},
    "out_consumed_energy.csv": {"energy": 1e-12, "wattmin": 1e-9, "epower": 1e-9},
}
"""What docs/real-batsim.md says of the columns that differ: by how much at most."""


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("platform", "policy"), [("das2", "shortest-high_gflops"), ("gaia", "random-random")])
def test_the_kernel_and_the_exact_engine_write_the_same(platform: str, policy: str, tmp_path: Path):
    options = {
        "seed": 1,
        "platform_file_path": platform,
        "workload_file_path": "lublin_gaia_1000",
        "workload": {"oversized": "drop"},
        "nb_jobs": 60,
        "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": policy}},
    }
    (tmp_path / "options.json").write_text(json.dumps(options))
    folders = []
    for name in ("embedded", "exact"):
        read = read_options(tmp_path / "options.json", overrides=[f"simulator={name}"])
        folders.append(run_experiment(read, out=tmp_path / name).folder)
    for name in SAME:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    for name, tolerances in NEARLY.items():
        left, right = (rows_of(folder / name) for folder in folders)
        assert len(left) == len(right) > 0
        date = ""
        for mine, theirs in zip(left, right, strict=True):
            is_at_once, date = mine.get("time") == date, mine.get("time", "")
            for column in set(mine) - {"batsim_version", *(["epower"] if is_at_once else [])}:
                if column in tolerances and mine[column] != "NA":
                    expected = pytest.approx(float(theirs[column]), rel=tolerances[column], abs=2e-6)
                    assert float(mine[column]) == expected, (name, column)
                else:
                    assert mine[column] == theirs[column], (name, column)


def test_runs_on_the_exact_engine_repeat_byte_by_byte(small_world: Path, tmp_path: Path):
    options = read_options(small_world, overrides=["simulator=exact"])
    folders = [run_experiment(options, out=tmp_path / name).folder for name in ("a", "b")]
    for path in folders[0].iterdir():
        if path.name != "timing.json":
            assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


WITH_LATENCY = (
    '<platform version="4.1"><zone id="main" routing="Full"><host id="master_host" speed="1Gf">'
    '<prop id="wattage_per_state" value="0:0"/></host><host id="a" speed="1Gf"><prop id="wattage_per_state"'
    ' value="10:100"/></host>{more}<link id="wire" bandwidth="100MBps" latency="5ms"/><route src="master_host" dst="a">'
    '<link_ctn id="wire"/></route></zone></platform>'
)
SECOND_HOST = (
    '<host id="b" speed="1Gf"><prop id="wattage_per_state" value="10:100"/></host>',
    '<route src="a" dst="b"><link_ctn id="wire"/></route></zone>',
)


def test_a_platform_of_somebody_else(small_world: Path, tmp_path: Path):
    (tmp_path / "other.xml").write_text(WITH_LATENCY.format(more=""))
    (tmp_path / "own.json").write_text(
        '{"nb_res": 1, "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "p"}],'
        ' "profiles": {"p": {"type": "delay", "delay": 5}}}'
    )
    changes = ["platform_file_path=other.xml", "workload_file_path=own.json"]
    with pytest.raises(HdrlError, match="latencies"):
        run_experiment(read_options(small_world, overrides=changes), out=tmp_path / "out")
    result = run_experiment(read_options(small_world, overrides=[*changes, "simulator=exact"]), out=tmp_path / "out")
    assert result.metrics["n_finished"] == 1
    assert (result.folder / "platform.xml").read_bytes() == (tmp_path / "other.xml").read_bytes()


def test_a_batsim_that_is_not_there_leaves_nothing(small_world: Path, tmp_path: Path):
    before = sorted(tmp_path.iterdir())
    options = read_options(small_world, overrides=["simulator=batsim", "batsim.executable=no-batsim"])
    with pytest.raises(HdrlError, match="no executable 'no-batsim' on PATH"):
        run_experiment(options, out=tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["simulator=exakt"], "simulator is 'exakt'; did you mean 'exact'?"),
        (["batsim.timeout=3"], "batsim has no key 'timeout'; did you mean 'timeout_s'?"),
        (["batsim.timeout_s=0"], "batsim.timeout_s is 0, expected more than 0"),
        (["batsim.wait_for=conect"], "did you mean 'connect'?"),
        (["batsim.wait_for=connect"], "batsim.folder is missing; it is for batsim.wait_for 'connect'"),
        (["batsim.folder=x"], "batsim.folder is given; it is for batsim.wait_for 'connect'"),
        (
            ["simulator=batsim", "batsim.wait_for=connect", "batsim.folder=x", "runs=2"],
            "runs is 2, but a Batsim that connects from elsewhere simulates once",
        ),
    ],
)
def test_mistakes_are_one_line(small_world: Path, overrides: list[str], problem: str):
    with pytest.raises(OptionsError) as caught:
        read_options(small_world, overrides=overrides)
    assert problem in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("simulator", ["exact", "batsim"])
def test_agents_learn_in_the_embedded_simulator_only(small_world: Path, simulator: str, tmp_path: Path):
    options = read_options(small_world, overrides=[f"simulator={simulator}", "pybatsim.agent.run=train"])
    why = options.no_learning()
    assert why == f"simulator is '{simulator}', but agents learn in 'embedded' only; their models can decide here"
    pytest.importorskip("torch", reason="agents that learn need torch")
    learning = ["learning.environment=job_index", "learning.algorithm=cma_es", "pybatsim.agent.policy_pair=null"]
    options = read_options(small_world, overrides=[f"simulator={simulator}", *learning])
    with pytest.raises(OptionsError, match="agents learn in 'embedded' only"):
        run_experiment(options, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("environment", ["policy_pair", "job_pick"])
def test_a_real_slurm_says_what_decides_elsewhere(small_world: Path, environment: str):
    changes = ["simulator=slurm", f"learning.environment={environment}"]
    assert read_options(small_world, overrides=changes).no_model() == (
        f"simulator is 'slurm', but models of {environment} decide in 'embedded', 'exact' or 'batsim' only; expected "
        "that, or a model of job_index"
    )


@pytest.mark.parametrize("environment", ["policy_pair", "job_pick"])
def test_comparisons_in_a_real_slurm_refuse_networks(environment: str):
    sweep = make_sweep({"platform": "learning", "candidates": ["sjf"], "workloads": ["learning"], "simulator": "slurm"})
    setting = find_setting("batch")
    machine = setting.inputs.machine(sweep)
    with pytest.raises(OptionsError, match=f"simulator is 'slurm', where no model of {environment} decides"):
        setting.environments[environment].player(machine, None, {}, sweep)


def test_comparisons_on_the_exact_engine_take_latencies_and_communication(tmp_path: Path):
    host, route = SECOND_HOST
    (tmp_path / "other.xml").write_text(WITH_LATENCY.format(more=host).replace("</zone>", route))
    jobs = [{"id": n, "subtime": 0, "res": 2, "profile": "p"} for n in range(2)]
    profile = {"type": "parallel", "cpu": [0, 0], "com": [0, 1e8, 0, 0]}
    (tmp_path / "own.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": {"p": profile}}))
    given = {"platform": "other.xml", "candidates": ["sjf"], "workloads": ["own.json"], "simulator": "exact"}
    run_comparison(make_sweep(given, folder=tmp_path), out=tmp_path / "compared", n_workers=1)
    rows = rows_of(tmp_path / "compared" / "results.csv")
    assert [row["n_finished"] for row in rows] == ["2", "2"]
    # Each of two jobs sends 1e8 bytes over a link of 1e8 bytes/s; its latency is 5 ms.
    assert [float(row["makespan_s"]) for row in rows] == pytest.approx([2.01] * 2, abs=0.006)


def test_comparisons_on_the_exact_engine_equal_those_of_the_kernel(tmp_path: Path):
    given = {
        "platform": "gaia",
        "candidates": ["shortest-high_gflops"],
        "workloads": ["lublin_gaia_1000"],
        "windows": {"length": 12, "count": 1},
    }
    columns = ("mean_wait_s", "max_wait_s", "makespan_s", "energy_j", "utilization", "n_finished")
    found = []
    for name in ("embedded", "exact"):
        run_comparison(make_sweep({**given, "simulator": name}), out=tmp_path / name, n_workers=1)
        found.append([float(row[column]) for row in rows_of(tmp_path / name / "results.csv") for column in columns])
    assert found[1] == pytest.approx(found[0], rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"candidates": ["slurm"]}, "simulator is 'exact', expected 'embedded': 'slurm' needs the simulator of sites"),
        ({"workload": {"think_times": True}}, "expected 'embedded': workload.think_times is true"),
    ],
)
def test_comparisons_on_the_exact_engine_refuse_sites(changes: dict, problem: str):
    given = {"platform": "homogeneous:16", "candidates": ["sjf"], "workloads": ["learning"], "simulator": "exact"}
    with pytest.raises(OptionsError, match=problem):
        find_setting("batch").inputs.machine(make_sweep(given | changes))


@pytest.mark.parametrize(("environment", "arguments"), [("policy_pair", {"actions": ["sjf"]}), ("job_pick", {})])
def test_comparisons_on_the_exact_engine_play_models(environment: str, arguments: dict):
    sweep = make_sweep({"platform": "gaia", "candidates": ["sjf"], "workloads": ["lublin_gaia_1000"]})
    sweep = sweep.model_copy(update={"simulator": "exact", "energy": True, "nb_jobs": 3})
    setting = find_setting("batch")
    machine = setting.inputs.machine(sweep)
    load = setting.inputs.loads(sweep, machine)[0]
    with contextlib.closing(setting.environments[environment].player(machine, load, arguments, sweep)) as env:
        env.reset(seed=0)
        while not env.step(0)[2]:
            pass
        assert env.trace().info["simulator"] == "exact"


def folders_of(policies: dict[str, dict], tmp_path: Path, simulators: tuple[str, ...]) -> dict[tuple[str, str], Path]:
    """Run experiments with 80 jobs of gaia in simulators; return the folders."""
    options = {
        "seed": 1,
        "platform_file_path": "gaia",
        "workload_file_path": "lublin_gaia_1000",
        "nb_jobs": 80,
        "batsim": {"executable": "./stand_in"},
    }
    folders = {}
    for name, changes in policies.items():
        (tmp_path / "options.json").write_text(json.dumps(options | changes))
        for simulator in simulators:
            read = read_options(tmp_path / "options.json", overrides=[f"simulator={simulator}"])
            folders[name, simulator] = run_experiment(read, out=tmp_path / f"{name}-{simulator}").folder
    return folders


def schedule(folder: Path) -> list[dict[str, str]]:
    """Return the jobs of a run without what the simulators round differently."""
    return [{k: v for k, v in row.items() if k != "consumed_energy"} for row in rows_of(folder / "out_jobs.csv")]


def test_a_model_of_weights_is_the_policy_that_has_them(tmp_path: Path, batsim: Path, generalist_model: Path):
    kind = {"form": "guarded"}
    decider = {"type": "LEARNING", "run": "test", "input_model": str(generalist_model)}
    learning = {"environment": "job_index", "algorithm": "cma_es", "arguments": kind}
    model = {"pybatsim": {"agent": decider}, "learning": learning}
    named, other = ({"pybatsim": {"agent": {"policy_pair": name}}} for name in ("es-generalist", "fcfs+easy"))
    folders = folders_of({"model": model, "named": named}, tmp_path, ("embedded", "exact"))
    folders |= folders_of({"model": model}, tmp_path, ("batsim",)) | folders_of({"other": other}, tmp_path, ("exact",))
    folders["named", "batsim"] = folders["named", "exact"]  # of which it writes the files
    for simulator in ("embedded", "exact", "batsim"):
        for name in ("out_jobs.csv", "out_schedule.csv", "out_machine_states.csv"):
            mine, named = (folders[decider, simulator] / name for decider in ("model", "named"))
            assert mine.read_bytes() == named.read_bytes(), (simulator, name)
    assert schedule(folders["model", "embedded"]) == schedule(folders["model", "exact"])
    assert schedule(folders["model", "exact"]) != schedule(folders["other", "exact"])


def test_a_network_picks_the_same_jobs_in_every_simulator(tmp_path: Path, batsim: Path):
    pytest.importorskip("torch", reason="agents that learn need torch")
    write_swf(lublin_log(80, 64, seed=1, load=1.2), tmp_path / "jobs.swf")
    world = {"platform_file_path": "homogeneous:64", "workload_file_path": "jobs.swf"}
    world |= {"workload": {"memory": "none", "bandwidth": "none"}}
    learning = {"environment": "job_pick", "algorithm": "ppo", "iterations": 1, "n_envs": 1, "settings": {"n_steps": 8}}
    training = world | {"pybatsim": {"agent": {"type": "LEARNING"}}, "learning": learning}
    model = folders_of({"training": training}, tmp_path, ("embedded",))["training", "embedded"] / "model.pt"
    tested = training | {"pybatsim": {"agent": {"type": "LEARNING", "run": "test", "input_model": str(model)}}}
    folders = folders_of({"model": tested}, tmp_path, ("embedded", "exact", "batsim"))
    other = world | {"pybatsim": {"agent": {"policy_pair": "fcfs+easy"}}}
    folders |= folders_of({"other": other}, tmp_path, ("embedded",))
    assert schedule(folders["model", "embedded"]) == schedule(folders["model", "exact"])
    assert schedule(folders["model", "embedded"]) != schedule(folders["other", "embedded"])
    for name in ("out_jobs.csv", "out_schedule.csv", "out_machine_states.csv"):
        assert len({(folders["model", one] / name).read_bytes() for one in ("exact", "batsim")}) == 1, name


def test_a_network_chooses_the_same_pairs_in_every_simulator(tmp_path: Path, batsim: Path):
    pytest.importorskip("torch", reason="agents that learn need torch")
    agent = {"type": "LEARNING", "hidden": 8, "lr": 0.01, "gamma": 0.99}
    env = {"actions": {"selection": [{"shortest": ["high_gflops"], "first": ["low_power", "random"]}], "void": True}}
    training = {"pybatsim": {"agent": agent, "env": env}, "learning": {"algorithm": "ppo", "iterations": 1}}
    training["learning"] |= {"n_envs": 1, "settings": {"n_steps": 8}}
    model = folders_of({"training": training}, tmp_path, ("embedded",))["training", "embedded"] / "model.pt"
    tested = training | {"pybatsim": {"agent": agent | {"run": "test", "input_model": str(model)}, "env": env}}
    folders = folders_of({"model": tested}, tmp_path, ("embedded", "exact", "batsim"))
    assert schedule(folders["model", "embedded"]) == schedule(folders["model", "exact"])
    for name in ("out_jobs.csv", "out_schedule.csv", "out_machine_states.csv"):
        assert len({(folders["model", one] / name).read_bytes() for one in ("exact", "batsim")}) == 1, name
