"""GPU clusters as a setting: the checks of all settings, runs and comparisons by command, cautions, metrics."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import ReadError
from hdrl.experiment import Model
from hdrl.figures.numbers import time_unit
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.setting import SETTINGS
from hdrl.settings.gpu.cluster.machine import NODE_DTYPE, GpuCluster, GpuType, read_cluster
from hdrl.settings.gpu.loads.load import GpuLoad, new_jobs
from hdrl.settings.gpu.loads.synthetic import Poisson, poisson_load
from hdrl.settings.gpu.metrics import METRICS, compute_metrics
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.simulation.events import simulate
from hdrl.testing import SettingCheck, parametrize_with_checks


def write(path: Path, **data: Any) -> Path:
    path.write_text(json.dumps({"setting": "gpu", "platform": "drl-gpu", **data}))
    return path


def run(*words: object, command: Any = launch, code: int = 0) -> Result:
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


@parametrize_with_checks(SETTINGS["gpu"], platform="drl-gpu", workload="poisson", n_items=60)
def test_it_is_a_setting(check: SettingCheck) -> None:
    check()


def test_a_run_by_command_holds_its_files(tmp_path: Path) -> None:
    options = write(
        tmp_path / "o.json", workload="poisson", nb_jobs=200, load={"offered": 0.8}, agent={"policy": "srtf"},
        rules={"restart_s": [10, 30]},
    )  # fmt: skip
    shown = run(options, "--out", tmp_path / "run")
    assert "mean_jct_s" in shown.output
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"jobs.csv", "per_priority.csv", "tasks.csv", "stays.csv", "metrics.json"} <= names
    numbers = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert numbers["n_preemptions"] > 0
    assert numbers["busy_utilization"] < numbers["utilization"]
    log = (tmp_path / "run" / "jobs.csv").read_text().splitlines()
    assert len(log) == 201
    assert "A100:" in "".join(log)
    (tmp_path / "run" / "metrics.json").write_text('{"mean_jct_s": "long"}')
    with pytest.raises(ReadError, match="must be an object of numbers by name"):
        SETTINGS["gpu"].view.read(tmp_path / "run")


@pytest.mark.parametrize(
    ("agent", "policy"), [("fcfs", "fifo"), ("first_fit", "fifo+first-fit+skip"), ("sjf", "sjf"), ("srtf", "srtf")]
)
def test_a_policy_is_an_agent_of_the_command(agent: str, policy: str, tmp_path: Path) -> None:
    options = write(tmp_path / "o.json", workload="poisson", nb_jobs=30, load={"offered": 0.9}, agent={"policy": "drf"})
    run(agent, options, "--out", tmp_path / "named")
    run(options, "--set", f"agent.policy={policy}", "--out", tmp_path / "set")
    assert (tmp_path / "named" / "jobs.csv").read_bytes() == (tmp_path / "set" / "jobs.csv").read_bytes()


def test_a_comparison_tells_the_offered_load_and_faults(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    lines = [f"{10_300_000 + i},{5000 + i},{8 if i % 7 else 0},1" for i in range(60)]
    trace.write_text("\n".join(["arrival_time,runtime,gpus,priority", *lines]) + "\n")
    sweep = write(tmp_path / "s.json", workloads=["t.csv"], candidates=["fifo", "sjf+fgd", "las-2d"])
    shown = run("compare", sweep, "--out", tmp_path / "c", command=cli).output
    text = (tmp_path / "c" / "cautions.md").read_text() if (tmp_path / "c" / "cautions.md").is_file() else shown
    assert "the offered load on drl-gpu is" in " ".join(text.split())
    assert "9 jobs that ask for 0 GPUs" in " ".join(text.split())


def test_pictures_show_the_times_of_the_job_log(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from hdrl.report.drawing import draw

    options = write(tmp_path / "o.json", workload="poisson", nb_jobs=60, load={"offered": 1.2})
    run("srtf", options, "--out", tmp_path / "r")
    with (tmp_path / "r" / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for kind, column in (("jct_cdf", "jct"), ("wait_cdf", "wait_time")):
        (line,) = draw(kind, [tmp_path / "r"]).axes[0].lines
        expected = sorted({float(row[column]) for row in rows})
        # Sums of stays differ from the log's in their last digits.
        assert max(line.get_xdata()) == pytest.approx(expected[-1])
        assert min(line.get_xdata()) == pytest.approx(expected[0])
    metrics = json.loads((tmp_path / "r" / "metrics.json").read_text())
    for of, name in (("gpus", "utilization"), ("flops", "flops_utilization")):
        (patch,) = draw("utilization", [tmp_path / "r"], of=of).axes[0].patches
        values, edges, _ = patch.get_data()
        # The metrics go from the first arrival to the last end, as the picture does.
        assert float((values * np.diff(edges)).sum() / (edges[-1] - edges[0])) == pytest.approx(100 * metrics[name])
    (part,) = draw("groups", [tmp_path / "r"]).axes
    labels = [text.get_text().split("\n") for text in part.get_xticklabels()]
    priorities = Counter(float(row["priority"]) for row in rows)
    assert [(float(one), words) for one, words in labels] == [(k, f"{n} jobs") for k, n in sorted(priorities.items())]
    (part,) = draw("jct_by_arrival", [tmp_path / "r"]).axes
    points, means = part.lines
    jct_s = sorted(float(row["jct"]) for row in rows)
    seconds, unit = time_unit(jct_s[-1])
    assert part.get_ylabel() == f"job completion time ({unit})"
    assert sorted(points.get_ydata() * seconds) == pytest.approx(jct_s)
    assert 1 < len(means.get_ydata()) <= 20


def test_runs_and_comparisons_tell_that_cores_stand_for_gpus(tmp_path: Path) -> None:
    events = [
        f"{(5 * job + at_s) * 1_000_000},,{job},0,m,{event},u,2,9,0.25,0.1,0,0"
        for job in range(30)
        for at_s, event in ((0, 0), (1, 1), (4, 4))
    ]
    (tmp_path / "t.csv").write_text("\n".join(sorted(events, key=lambda line: int(line.partition(",")[0]))) + "\n")
    sweep = write(tmp_path / "s.json", workloads=["t.csv"], candidates=["fifo", "sjf"])
    shown = run("compare", sweep, "-j", 1, "--out", tmp_path / "c", command=cli).output
    text = (tmp_path / "c" / "cautions.md").read_text() if (tmp_path / "c" / "cautions.md").is_file() else shown
    told = "the cores of a machine stand for 8 of them"
    assert told in " ".join(text.split())
    options = write(tmp_path / "o.json", workload="t.csv")
    assert told in run("fifo", options, "--out", tmp_path / "run").stderr
    assert run("fifo", options, "--out", tmp_path / "quiet", "--quiet").output == f"{tmp_path / 'quiet'}\n"


def test_wrong_options_are_told_in_a_line(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"workload": "poison"}, "generators poisson, gavel"),
        ({"workload": "gavel"}, "needs load.throughputs"),
        ({"workload": "poisson", "platform": "drl-gpus"}, "did you mean 'drl-gpu'"),
        ({"workload": "poisson", "rules": {"ties": "first"}}, "tie"),
        ({"workload": "poisson", "load": {"poisson": {"max_gpus": 64}}}, "cannot give it even when it is empty"),
        ({"workload": "poisson", "agent": {"policy": "sfj"}}, "did you mean 'sjf'"),
        ({"workload": "poisson", "agent": {"policy": "gavel-las+fgd"}}, "in its own rounds"),
        ({"workload": "wide.csv"}, "job 1 asks for 99 GPUs"),
        ({"workload": "zero.csv"}, "no job is left; left out: 2 jobs that ask for 0 GPUs"),
        ({"workload": "past.csv"}, "1 jobs that arrive before date 0, 1 jobs that end before they start"),
        ({"workload": "typed.csv"}, "job 0 may run on A10 alone, drl-gpu has A100"),
        ({"workload": "wide.csv", "load": {"seed": 1}}, "load.seed has no effect on a trace"),
        ({"workload": "narrow.csv", "load": {"gpus_per_machine": 4}}, "load.gpus_per_machine has no effect"),
        ({"workload": "poisson", "load": {"form": "philly"}}, "load.form has no effect on poisson"),
        ({"workload": "poisson", "load": {"throughputs": "t.json"}}, "load.throughputs has no effect on poisson"),
        (
            {"workload": "gavel", "platform": "gavel", "load": {"throughputs": "t.json", "spread_speed": 0.5}},
            "it is for",
        ),
        ({"workload": "gavel", "platform": "gavel", "load": {"throughputs": "t.json"}}, "v100, ('A', 1), null is -1"),
        ({"workload": "gavel", "platform": "gavel", "load": {"throughputs": "k.json"}}, "'A' is not a kind of job"),
        ({"workload": "gavel", "platform": "gavel", "load": {"throughputs": "p.json"}}, "('A', 1), ('A', 1) is not a"),
        ({"workload": "gavel", "platform": "gavel", "load": {"throughputs": "m.json"}}, "no throughput of"),
        (
            {"workload": "poisson", "agent": {"policy": "gavel-las"}, "rules": {"checkpoint_s": 9}},
            "rules.checkpoint_s has no effect on gavel-las",
        ),
        (
            {
                "workload": "poisson",
                "agent": {"policy": None},
                "rules": {"tie": "last"},
                "learning": {"algorithm": "d3qn", "arguments": {"compatibility": "drl-gpu"}},
            },
            "rules have no effect with compatibility",
        ),
        (
            {
                "workload": "poisson",
                "agent": {"policy": None},
                "rules": {"round_s": 60},
                "learning": {"algorithm": "ppo"},
            },
            "rules.round_s has no effect on agents",
        ),
    ]
    head = "arrival_time,runtime,gpus,priority\n"
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    for name, text in {
        "wide.csv": head + "0,100,4,1\n5,100,99,1\n",
        "narrow.csv": head + "0,100,4,1\n",
        "zero.csv": head + "0,100,0,1\n5,100,0,1\n",
        "past.csv": head + "-50,100,1,1\n5,-100,1,1\n",
        "typed.csv": pods + "\np,1000,100,1,1000,A10,LS,Running,0,100,0\n",
        "t.json": json.dumps({"v100": {"('A', 1)": {"null": -1}}}),
        "k.json": json.dumps({"v100": {"A": {"null": 1}}}),
        "p.json": json.dumps({"v100": {"('A', 1)": {"null": 1, "('A', 1)": [1]}}}),
        "m.json": json.dumps({name: {"('A', 1)": {"null": 1}} for name in ("v100", "p100", "k80")}),
    }.items():
        (tmp_path / name).write_text(text)
    for data, message in cases:
        options = write(tmp_path / "o.json", **{"agent": {"policy": "fifo"}, **data})
        shown = run(options, "--out", tmp_path / "run", code=2)
        assert message in " ".join(shown.output.split()), shown.output
        assert not (tmp_path / "run").exists()


def test_options_of_loads_that_a_comparison_does_not_hear_are_refused(tmp_path: Path) -> None:
    windows = {"length": 20, "count": 2}
    for load, message in (
        ({"offered": 0.5}, "load.offered has no effect on loads"),
        ({"unrunnable": "leave out"}, "load.unrunnable has no effect on loads"),
        ({"gavel": {"jobs_per_hour": 3}}, "load.gavel has no effect on poisson"),
        ({"poisson": {"min_gpus": 20, "max_gpus": 64}}, "cannot give it even when it is empty"),
    ):
        sweep = write(tmp_path / "s.json", loads=[0.8], windows=windows, candidates=["fifo", "sjf"], load=load)
        assert message in " ".join(run("compare", sweep, "--out", tmp_path / "c", command=cli, code=2).output.split())


def test_metrics_of_a_world_solved_by_hand() -> None:
    nodes = np.array([(0, 1, 0, 0), (1, 1, 0, 0)], dtype=NODE_DTYPE)
    cluster = GpuCluster("c", (GpuType("fast", 3.0), GpuType("slow", 1.0)), nodes)
    jobs = new_jobs(3)  # alone on the fast GPU: 4, 2, 2 s; speeds are 1.5 and 0.5
    jobs["arrival_s"], jobs["work"], jobs["priority"] = [0, 0, 2], [6, 3, 3], [1, 1, 2]
    jobs["deadline_s"] = [np.inf, 5, 100]
    numbers = compute_metrics(simulate(cluster, GpuLoad("l", jobs), read_policy("fifo"), rules=Rules()))
    assert list(numbers) == list(METRICS)
    assert numbers["mean_jct_s"] == pytest.approx((4 + 6 + 4) / 3)  # the third waits for the fast one until 4
    assert numbers["mean_queueing_s"] == pytest.approx(2 / 3)
    assert numbers["mean_slowdown"] == pytest.approx((1 + 3 + 2) / 3)
    assert numbers["priority_jct_s"] == pytest.approx((4 + 6 + 8) / 4)
    assert numbers["n_missed"] == 1
    assert numbers["makespan_s"] == 6
    assert numbers["utilization"] == pytest.approx(12 / 12)
    assert numbers["flops_utilization"] == pytest.approx((6 * 1.5 + 6 * 0.5) / 12)
    # The second job was there with (2 * 2 + 3 * 2 + 2 * 2) / 6 jobs in the mean, itself among them, on two GPUs.
    assert numbers["max_fair_rho"] == pytest.approx(6 / (2 * (14 / 6) / 2))
    assert numbers["share_unfair"] == pytest.approx(2 / 3)


def test_what_is_summarised_can_be_told_of_windows() -> None:
    setting = SETTINGS["gpu"]
    assert not [name for name in setting.measures.compared if setting.measures.metrics[name].is_of_whole_run]


def test_each_workload_is_judged_at_each_offered_load(tmp_path: Path) -> None:
    sweep = write(
        tmp_path / "s.json", workloads=["poisson"], nb_jobs=60, load={"offered": [0.5, 0.9]},
        windows={"length": 20, "count": 2}, candidates=["fifo", "srtf"],
    )  # fmt: skip
    run("compare", sweep, "-j", 1, "--out", tmp_path / "c", command=cli)
    rows = (tmp_path / "c" / "results.csv").read_text()
    assert "poisson at 0.5" in rows
    assert "poisson at 0.9" in rows
    run("report", tmp_path / "c", "-o", tmp_path / "c.html", command=cli)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert ">drl-gpu<" in page
    assert ">cores<" not in page, "GPU clusters are not told by their cores"
    sweep = write(tmp_path / "s.json", workloads=["poisson"], load={"offered": [0.5, 0.5]}, candidates=["fifo", "srtf"])
    shown = run("compare", sweep, "--out", tmp_path / "d", command=cli, code=2)
    assert "holds one load twice" in shown.output


@pytest.mark.parametrize("shown", ["durations", "no durations"])
def test_what_was_trained_is_judged_by_the_rules_of_the_comparison(shown: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    sees_durations = shown == "durations"
    learning = {
        "iterations": 1, "n_envs": 2, "settings": {"n_steps": 16, "n_epochs": 1},
        "episodes": {"n_jobs": 12},
        "arguments": {"sees_durations": sees_durations, "max_jobs": 8, "order": "las", "reference": "fifo"},
    }  # fmt: skip
    options = write(tmp_path / "o.json", workload="poisson", nb_jobs=60, learning=learning, rules={"restart_s": [1, 2]})
    run("ppo", options, "--out", tmp_path / "t")
    sweep = write(
        tmp_path / "s.json", workloads=["poisson"], nb_jobs=60, load={"seed": 1, "offered": 0.9},
        windows={"length": 20, "count": 2}, rules={"restart_s": [30, 30], "levels": [100.0]},
        candidates=["las", "mine=t/model.pt"],
    )  # fmt: skip
    told = " ".join(run("compare", sweep, "-j", 1, "--out", tmp_path / "c", command=cli).output.split())
    assert ("mine sees true run times" in told) == sees_durations, told
    model, cluster = Model(tmp_path / "t" / "model.pt"), read_cluster("drl-gpu")
    jobs = poisson_load(Poisson(), 20, seed=3)
    assert repr(model).endswith("model.pt: ppo in hdrl/GpuCluster-v0>")
    assert model.play(cluster, jobs, as_trained=True).load.n_items == model.play(cluster, jobs).load.n_items == 20


def test_metrics_of_runs_stand_side_by_side_also_as_bars(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from hdrl.report.drawing import draw

    options = write(tmp_path / "o.json", workload="poisson", nb_jobs=30, load={"offered": 1.2})
    for policy in ("fifo", "srtf"):
        run(policy, options, "--out", tmp_path / policy)
    folders = [str(tmp_path / "fifo"), str(tmp_path / "srtf")]
    shown = run("metrics", *folders, "-n1", "first", "-n2", "second", "-s", tmp_path / "m.png", command=cli).output
    assert "mean_jct_s" in shown
    assert "second" in shown
    assert (tmp_path / "m.png").stat().st_size > 1000
    numbers = [json.loads((tmp_path / name / "metrics.json").read_text())["mean_slowdown"] for name in ("fifo", "srtf")]
    titles = {ax.get_title(loc="left"): ax for ax in draw("bars", folders).axes}
    assert [bar.get_height() for bar in titles["mean slowdown"].patches] == pytest.approx(numbers)
    wrong = CliRunner().invoke(cli, ["metrics", *folders, "-m", "mean_wait_s"])
    assert wrong.exit_code == 2
    assert "no metric 'mean_wait_s'" in wrong.output


def test_a_test_takes_the_model_of_its_own_training_and_a_comparison_the_folder(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    learning = {"algorithm": "ppo", "environment": "gpu_cluster", "n_envs": 2, "iterations": 1}
    learning |= {"n_validation_episodes": 1, "episodes": {"n_jobs": 16}}
    write(tmp_path / "o.json", workload="poisson", nb_jobs=40, load={"offered": 0.8}, learning=learning)
    untrained = run("ppo", "o.json", "--seed", 42, "--set", "agent.run=test", code=2).output
    assert "none that the same options have trained is in runs/" in " ".join(untrained.split())
    trained = run("ppo", "o.json", "--seed", 42, "--quiet").output.strip()
    shown = run("ppo", "o.json", "--seed", 42, "--set", "agent.run=test", "--out", "tested").output
    assert f"model: {trained}/model.pt, trained with the same options" in " ".join(shown.split())
    assert (tmp_path / "tested" / "jobs.csv").read_bytes() == (tmp_path / trained / "jobs.csv").read_bytes()
    assert run("ppo", "o.json", "--seed", 43, "--set", "agent.run=test", code=2)
    common = ("--setting", "gpu", "-p", "drl-gpu", "-w", "poisson", "--windows", "20:2", "-j", 1, "--quiet", "--out")
    run("compare", trained, f"mine={trained}", "fifo", *common, "c", command=cli)
    with (tmp_path / "c" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    ours, mine = ([r["mean_jct_s"] for r in rows if r["candidate"] == n] for n in (Path(trained).name, "mine"))
    assert ours == mine
    refused = run("compare", "tested", "fifo", *common, "d", command=cli, code=2).output
    assert "tested is a folder without model.pt" in " ".join(refused.split())
