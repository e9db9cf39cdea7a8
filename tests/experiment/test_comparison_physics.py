"""A learned model and the policies that it is compared with live in the same world: memory, walltimes, speeds."""

import csv
import json
import math
from pathlib import Path

import pytest

pytest.importorskip("scipy", reason="scipy is not installed (extra report)")
pytest.importorskip("torch", reason="torch is not installed (extra learn)")

import hdrl
from hdrl.base.errors import OptionsError
from hdrl.experiment import run_experiment
from hdrl.experiment.compare.comparison import run_comparison
from hdrl.experiment.run.inputs import make_sweep, parse_options
from hdrl.experiment.train.modeluse import Model
from hdrl.setting import find_setting
from hdrl.settings.batch.workload import lublin_log, write_swf

MEMORY_KB = int(0.9 * 1024 * 1024)

BOX = {
    "clusters": [
        {
            "id": "one",
            "nodes": [{"type": "box", "number": 1}],
            "local_links": {"type": "Gigabit Ethernet 1000BASE-T", "latency": "0us"},
        }
    ],
    "global_links": {"type": "Gigabit Ethernet 1000BASE-T", "latency": "0us"},
    "types": {
        "nodes": {"box": {"processors": [{"type": "chip", "number": 1}], "memory": {"capacity": 1}}},
        "processors": {"chip": {"cores": 4, "clock_rate": 2, "dpflops_per_cycle": 4, "mem_bw": 20, "power": 40}},
    },
}
"""Four cores with 1 GB between them."""


def swf(*jobs: tuple[int, int, int]) -> str:
    """Return a log of jobs of one core that come at date 0, each by run time, requested time (s) and memory (kB)."""
    lines = [f"{n} 0 -1 {run} 1 -1 -1 1 {asked} {kb} 1 1 1 1 1 1 -1 -1" for n, (run, asked, kb) in enumerate(jobs, 1)]
    return "; MaxProcs: 4\n" + "\n".join(lines) + "\n"


def options(folder: Path, **learning):
    return parse_options(
        {
            "seed": 1,
            "platform_file_path": "homogeneous:4",
            "workload_file_path": "log.swf",
            "pybatsim": {"agent": {"type": "LEARNING", "run": "train"}},
            "learning": {
                "algorithm": "reinforce",
                "environment": "job_pick",
                "episodes": {"n_jobs": 20, "train": [0.0, 0.5], "test": [0.5, 1.0]},
                "tensorboard": False,
                **learning,
            },
        },
        folder=folder,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model that was hardly trained, and the worlds to compare it in."""
    folder = tmp_path_factory.mktemp("physics")
    write_swf(lublin_log(80, 4, load=0.8), folder / "log.swf")
    (folder / "box.json").write_text(json.dumps(BOX))
    (folder / "memory.swf").write_text(swf(*[(10, 10, MEMORY_KB)] * 3))
    (folder / "walltimes.swf").write_text(swf((100, 20, -1), (10, 15, -1), (100, 20, -1)))
    run_experiment(options(folder), out=folder / "run")
    return folder


def compared(folder: Path, out: Path, **changes) -> dict[str, dict[str, str]]:
    data = {
        "candidates": ["mine=run/model.pt"],
        "baseline": "fcfs",
        "resamples": 200,
        "workload": {"bandwidth": "none", **changes.pop("workload", {})},
    }
    run_comparison(make_sweep({**data, **changes}, folder=folder), out=out, n_workers=1)
    with (out / "results.csv").open() as file:
        return {row["candidate"]: row for row in csv.DictReader(file)}


def test_memory_holds_for_the_model_too(folder: Path, tmp_path: Path):
    rows = compared(folder, tmp_path / "out", platform="box.json", workloads=["memory.swf"])
    assert {name: round(float(row["makespan_s"])) for name, row in rows.items()} == {"fcfs": 30, "mine": 30}


def test_walltimes_hold_for_the_model_too(folder: Path, tmp_path: Path):
    rows = compared(
        folder,
        tmp_path / "out",
        platform="homogeneous:1",
        workloads=["walltimes.swf"],
        workload={"walltime": "requested"},
    )
    assert {name: round(float(row["makespan_s"])) for name, row in rows.items()} == {"fcfs": 50, "mine": 50}
    assert {float(row["n_walltime_reached"]) for row in rows.values()} == {2.0}


def test_a_model_plays_on_a_heterogeneous_machine(folder: Path, tmp_path: Path):
    rows = compared(
        folder, tmp_path / "out", platform="gaia", workloads=["lublin_gaia_1000"], nb_jobs=60, baseline="fcfs+easy"
    )
    assert float(rows["mine"]["n_finished"]) == 60
    assert float(rows["mine"]["energy_j"]) > 0


def test_a_test_simulates_what_a_comparison_simulates(folder: Path, tmp_path: Path):
    data = options(folder).model_dump(mode="json")
    data |= {"platform_file_path": "box.json", "workload_file_path": "memory.swf"}
    data["workload"] = {"bandwidth": "none"}
    data["learning"]["episodes"] = {}
    data["pybatsim"]["agent"] |= {"run": "test", "input_model": "run/model.pt"}
    run_experiment(parse_options(data, folder=folder), out=tmp_path / "tested")
    assert round(json.loads((tmp_path / "tested" / "metrics.json").read_text())["makespan_s"]) == 30


def test_a_training_in_another_world_than_its_test_is_refused(folder: Path, tmp_path: Path):
    changed = options(folder).model_copy(update={"platform_file_path": "box.json", "workload_file_path": "memory.swf"})
    with pytest.raises(
        OptionsError, match=r"JobPick-v0 cannot simulate memory on box: jobs of memory take up to"
    ) as caught:
        run_experiment(changed, out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_models_of_a_mode_of_its_own_are_not_compared_but_can_be_played_as_trained(folder: Path, tmp_path: Path):
    run_experiment(options(folder, arguments={"compatibility": "rlscheduler"}), out=tmp_path / "run")
    with pytest.raises(OptionsError, match=r"model\.pt: compatibility is 'rlscheduler', a simulator of its own"):
        compared(
            folder,
            tmp_path / "out",
            platform="homogeneous:4",
            workloads=["log.swf"],
            candidates=[f"mine={tmp_path / 'run' / 'model.pt'}"],
        )
    assert not (tmp_path / "out").exists()
    platform = hdrl.read_platform("homogeneous:4")
    jobs = hdrl.read_workload(folder / "log.swf", platform, bandwidth="none", n_jobs=20)
    trace = Model(tmp_path / "run" / "model.pt").play(platform, jobs, as_trained=True)
    assert trace.info["simulator"] == "pool"


def test_a_model_whose_training_did_without_energy_is_measured_like_all_others():
    setting = find_setting("batch")
    data = {"platform": "gaia", "candidates": ["fcfs"], "workloads": ["lublin_gaia_1000"], "nb_jobs": 20}
    for accounts in (True, False):
        asked = make_sweep({**data, "energy": accounts})
        machine = setting.inputs.machine(asked)
        (load,) = setting.inputs.loads(asked, machine)
        arguments = {"objective": "makespan", "actions": ["first-high_gflops"], "void": False, "energy": False}
        env = setting.environments["policy_pair"].player(machine, load, arguments, asked)
        env.reset(seed=0)
        while not env.step(0)[2]:
            pass
        policy = setting.measures.measure(
            setting.simulator.simulate(machine, load, "first-high_gflops", seed=0, options=asked)
        )
        model = setting.measures.measure(env.trace())
        assert math.isnan(policy["energy_j"]) is not accounts
        assert (str(model["energy_j"]), model["mean_wait_s"]) == (str(policy["energy_j"]), policy["mean_wait_s"])
