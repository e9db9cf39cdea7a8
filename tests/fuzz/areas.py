"""What is damaged, and which commands see it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from click.testing import CliRunner

from hdrl.launcher.main import cli
from hdrl.platform import read_platform, write_simgrid

from .judge import Finding, judged
from .mutations import mutations_of

ROOT = Path(__file__).parents[2]

SWF = """\
; Version: 2.2
; UnixStartTime: 0
; MaxProcs: 4
1 0 0 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1
2 5 0 20 1 -1 -1 1 30 -1 1 2 1 1 1 -1 -1 -1
3 6 0 30 4 -1 -1 4 40 -1 1 1 1 1 1 -1 -1 -1
4 9 2 5 3 5 -1 3 5 2000 0 1 1 2 1 -1 -1 -1
"""
JOBS = {
    "nb_res": 4,
    "jobs": [
        {"id": "1", "subtime": 0, "walltime": 20, "res": 2, "profile": "work"},
        {"id": "2", "subtime": 3.5, "res": 1, "profile": "both"},
    ],
    "profiles": {
        "work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "wait": {"type": "delay", "delay": 4},
        "both": {"type": "composed", "repeat": 2, "seq": ["work", "wait"]},
    },
}
BATCH = {
    "seed": 3,
    "runs": 1,
    "platform_file_path": "learning",
    "workload_file_path": "jobs.swf",
    "nb_jobs": 4,
    "workload": {"memory": "none", "bandwidth": "none", "oversized": "drop"},
    "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "first-high_gflops"}, "env": {"objective": "makespan"}},
}
TRAINING = {
    "seed": 3,
    "platform_file_path": "homogeneous:4",
    "workload_file_path": "jobs.swf",
    "learning": {
        "algorithm": "ppo",
        "environment": "job_pick",
        "n_envs": 2,
        "iterations": 1,
        "episodes": {"n_jobs": 2},
        "settings": {"n_steps": 4},
    },
}
GPU = {
    "setting": "gpu",
    "platform": "drl-gpu",
    "workload": "poisson",
    "nb_jobs": 6,
    "agent": {"type": "CLASSIC", "policy": "fifo"},
}
GPU_ADAPTING = {
    **GPU,
    "load": {"adapting": {"values": "values.json"}},
    "agent": {"type": "CLASSIC", "policy": "fifo+promise"},
}
VALUES = {
    "jobs": [
        {
            "name": "small",
            "rows": [
                {
                    "actions": [action],
                    "decisions": [0.3],
                    "shares": [0, 0.3, 1],
                    "draws": [[0.1, 0.2, 0.6 + action]] * 2,
                }
                for action in range(2)
            ],
        }
    ]
}
PIPELINES = {
    "setting": "pipelines",
    "platform": "1cpu+1gpu",
    "workload": "generated",
    "nb_jobs": 20,
    "load": {"model": {"utilization": 0.6}},
    "agent": {"type": "CLASSIC", "policy": "edf"},
}
PIPELINE_SET = {
    "pipelines": [
        {
            "name": "lanes",
            "kernels": [{"name": "a", "cpu_us": 5000, "gpu_us": 600}, {"name": "b", "cpu_us": 500, "gpu_us": 610}],
            "edges": [[0, 1]],
            "groups": [{"kernels": [0, 1], "cpu_us": 5200, "gpu_us": 1000}],
            "periods_us": [34000, 68000],
        }
    ]
}
PIPELINES_OF_FILE = {**PIPELINES, "workload": "set.json", "load": {"horizon_ms": 200}}
GPU_SWEEP = {
    "setting": "gpu",
    "platform": "drl-gpu",
    "loads": [0.5],
    "windows": {"length": 5, "count": 2},
    "candidates": ["fifo", "sjf+fgd"],
    "baseline": "fifo",
}
SWEEP = {
    "platform": "homogeneous:4",
    "workloads": ["jobs.swf"],
    "candidates": ["fcfs+easy", "sjf+easy"],
    "baseline": "fcfs+easy",
    "windows": {"length": 2, "count": 2},
    "seeds": 1,
    "seed": 1,
    "metrics": ["mean_wait_s"],
}
AGENTS = [
    *(
        "",
        "policy = 3",
        "def policy(): return []",
        "def policy(view, more): return []",
        "async def policy(view): return []",
    ),
    *("def policy(view): return None", "def policy(view): return [7]", "def policy(view):\n    raise SystemExit(0)"),
    *("import nosuchmodule", "def policy(view:", "exec('1/0')", "class Agent: pass"),
    *(
        "def priority(job): return 1",
        "def priority(job, now_s): return 'x'",
        "def priority(job, now_s): return float('nan')",
    ),
    *(
        "def policy(view):\n    while view.no_such: pass",
        "def policy(view):\n    return view.waiting",
        "policy = print",
    ),
    *("from hdrl.policies import Easy\npolicy = Easy(3)", "SETTING = 5", "\x00", "def policy(view):\n    yield 1"),
    *("from hdrl.simulation import Start\ndef policy(view): return [Start(99, [0])]", "import os; os._exit(0)"),
    *(
        "from hdrl.simulation import CallAt\ndef policy(view): return [CallAt(float('nan'))]",
        "import sys; sys.exit('x' * 9999)",
    ),
    *("import sys\nsys.stdout.close()", "class Agent:\n    def __init__(self, *a): raise ValueError(chr(27))"),
]


class Places:
    """Good files to start from, and a folder for damaged ones.

    Parameters
    ----------
    folder
        Where everything is made.
    """

    def __init__(self, folder: Path) -> None:
        self.good = folder / "good"
        self.bad = folder / "bad"
        self.good.mkdir(parents=True)
        (self.good / "jobs.swf").write_text(SWF)
        files = {
            **{"jobs": JOBS, "batch": BATCH, "training": TRAINING, "sweep": SWEEP},
            **{"gpu": GPU, "gpu_sweep": GPU_SWEEP, "gpu_adapting": GPU_ADAPTING, "values": VALUES},
            **{"pipelines": PIPELINES, "set": PIPELINE_SET, "of_file": PIPELINES_OF_FILE},
        }
        for name, content in files.items():
            (self.good / f"{name}.json").write_text(json.dumps(content))
        shutil.copy(ROOT / "platforms" / "learning.json", self.good / "platform.json")
        shutil.copy(ROOT / "hdrl" / "settings" / "gpu" / "data" / "drl-gpu.json", self.good / "cluster.json")
        write_simgrid(read_platform("learning"), self.good / "platform.xml")

    @cached_property
    def run(self) -> Path:
        """A run folder."""
        return self._made("run", "run", str(self.good / "batch.json"))

    @cached_property
    def training(self) -> Path:
        """The folder of a training."""
        return self._made("training", "run", str(self.good / "training.json"))

    @cached_property
    def comparison(self) -> Path:
        """The folder of a comparison."""
        return self._made("comparison", "compare", str(self.good / "sweep.json"), "-j", "1")

    @cached_property
    def model(self) -> Path:
        """A folder with a model file."""
        folder = self.good / "model"
        folder.mkdir()
        shutil.copy(self.training / "model.pt", folder)
        return folder

    def _made(self, name: str, *command: str) -> Path:
        out = self.good / name
        result = CliRunner().invoke(cli, [*command, "--out", str(out)], prog_name="hdrl")
        assert result.exit_code == 0, result.stderr
        return out

    def damaged(self, name: str, draw: random.Random) -> Path:
        """Return a folder in which one good file is damaged; nothing else is if there is no such name."""
        shutil.rmtree(self.bad, ignore_errors=True)
        self.bad.mkdir()
        for path in self.good.iterdir():
            if path.is_file():
                shutil.copy(path, self.bad)
        if name:
            content = draw.choice(mutations_of(name))((self.good / name).read_bytes(), draw)
            (self.bad / name).write_bytes(content)
        return self.bad

    def damaged_folder(self, folder: Path, draw: random.Random) -> Path:
        """Return a copy of a result folder in which one file is damaged, gone, or a folder."""
        shutil.rmtree(self.bad, ignore_errors=True)
        shutil.copytree(folder, self.bad)
        path = draw.choice(sorted(path for path in self.bad.rglob("*") if path.is_file()))
        if draw.randrange(8):
            path.write_bytes(draw.choice(mutations_of(path.name))(path.read_bytes(), draw))
        else:
            path.unlink()
            if draw.randrange(2):
                path.mkdir()
        return self.bad


Case = Callable[[Places, random.Random], Finding | None]


def _file(name: str, *command: str, out: bool = True) -> Case:
    """Return the case of a command that gets a damaged file."""

    def run(places: Places, draw: random.Random) -> Finding | None:
        folder = places.damaged(name, draw)
        rest = ["--out", str(folder / "out")] if out else []
        return judged([*command, str(folder / name), *rest], folder / "out")

    return run


def _part(name: str, *command: str) -> Case:
    """Return the case of a command whose arguments are in order, but a file that they name is damaged."""

    def run(places: Places, draw: random.Random) -> Finding | None:
        folder = places.damaged(name, draw)
        return judged([word.replace("BAD", str(folder)) for word in command], folder / "out")

    return run


def _folder(good: str, commands: Sequence[str]) -> Case:
    """Return the case of commands that get a damaged result folder: ``BAD``; ``GOOD`` are the good files."""

    def run(places: Places, draw: random.Random) -> Finding | None:
        folder = places.damaged_folder(getattr(places, good), draw)
        words = draw.choice(commands).split()
        return judged([word.replace("BAD", str(folder)).replace("GOOD", str(places.good)) for word in words])

    return run


def _agent(places: Places, draw: random.Random) -> Finding | None:
    """Run a user's file with a mistake."""
    folder = places.damaged("", draw)
    path = folder / "mine.py"
    path.write_text(draw.choice(AGENTS))
    name = f"{path}{draw.choice(['', '', '+easy'])}"
    command = ["run", name, str(folder / "batch.json")]
    if draw.randrange(2):
        where = ["-p", "homogeneous:4", "-w", str(folder / "jobs.swf"), "--windows", "2", "-j", "1"]
        command = ["compare", name, "fcfs+easy", *where]
    return judged([*command, "--out", str(folder / "out")], folder / "out")


_WHERE = "-p homogeneous:4 -w GOOD/jobs.swf --windows 2 -j 1"

AREAS: dict[str, tuple[Case, int]] = {
    "options of a run": (_file("batch.json", "run"), 40),
    "options of a training": (_file("training.json", "run"), 20),
    "options of GPU clusters": (_file("gpu.json", "run"), 30),
    "options of pipelines": (_file("pipelines.json", "run"), 30),
    "options check": (_file("batch.json", "options", "check", out=False), 40),
    "sweep": (_file("sweep.json", "compare", "-j", "1"), 20),
    "sweep of GPU clusters": (_file("gpu_sweep.json", "compare", "-j", "1"), 20),
    "set of pipelines": (_part("set.json", "run", "BAD/of_file.json", "--out", "BAD/out"), 30),
    "GPU cluster": (
        _part("cluster.json", "run", "BAD/gpu.json", "--set", "platform=BAD/cluster.json", "--out", "BAD/out"),
        30,
    ),
    "values of jobs": (_part("values.json", "run", "BAD/gpu_adapting.json", "--out", "BAD/out"), 30),
    "platform in JSON": (_file("platform.json", "platform", "show", out=False), 60),
    "platform in XML": (_file("platform.xml", "platform", "show", out=False), 60),
    "log": (_file("jobs.swf", "workload", "stat", out=False), 60),
    "jobs in JSON": (_file("jobs.json", "workload", "stat", out=False), 60),
    "agents": (_agent, 40),
    "run folder": (
        _folder(
            "run",
            [
                *(
                    "metrics BAD",
                    "clean --dry-run BAD",
                    "workload export-swf BAD BAD/o.swf",
                    "report BAD -o BAD/p.html",
                ),
                *("plot gantt BAD -s BAD/it.svg", "plot queue_size BAD -s BAD/it.svg"),
            ],
        ),
        20,
    ),
    "training folder": (
        _folder(
            "training",
            [
                *("run --resume BAD", "run --resume BAD", "run --resume BAD", "report BAD -o BAD/p.html"),
                *("plot rewards BAD -s BAD/it.svg", "plot losses BAD -s BAD/it.svg"),
            ],
        ),
        20,
    ),
    "comparison folder": (
        _folder(
            "comparison",
            [
                *("compare --resume --out BAD -j 1", "report BAD -o BAD/p.html", "plot comparison BAD -s BAD/it.svg"),
                "clean --dry-run BAD",
            ],
        ),
        20,
    ),
    "model file": (
        _folder(
            "model",
            [
                f"compare BAD/model.pt fcfs+easy {_WHERE} --out BAD/out",
                "run GOOD/training.json -im BAD/model.pt --out BAD/out",
            ],
        ),
        20,
    ),
}
"""What is damaged, the case, and how many fixed inputs every run of the tests tries."""
