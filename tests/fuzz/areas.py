"""What is damaged, and which commands see it."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from click.testing import CliRunner

from hdrl.launcher.main import cli

from .judge import Finding, judged
from .mutations import mutations_of
from .samples import AGENTS, write_good_files, write_models

RESULTS = {
    "run": "run GOOD/batch.json",
    "training": "run GOOD/training.json",
    "comparison": "compare GOOD/sweep.json -j 1",
    "gpu_run": "run GOOD/gpu_adapting.json",
    "pipelines_run": "run GOOD/pipelines.json",
    "adapting_run": "run GOOD/adapting.json",
    "gpu_comparison": "compare GOOD/gpu_sweep.json -j 1",
}
"""Folders of results that are damaged, and what makes them."""


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
        write_good_files(self.good)

    def result(self, name: str) -> Path:
        """Return a folder of results, made when it is first asked for.

        Parameters
        ----------
        name
            One of `RESULTS`, or ``model``: a folder with a model file alone.
        """
        out = self.good / f"{name}_results"
        if out.exists():
            return out
        if name == "model":
            model = self.result("training") / "model.pt"
            out.mkdir()
            shutil.copy(model, out)
            write_models(out)
            return out
        command = [word.replace("GOOD", str(self.good)) for word in RESULTS[name].split()]
        ended = CliRunner().invoke(cli, [*command, "--out", str(out)], prog_name="hdrl")
        assert ended.exit_code == 0, ended.stderr
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


def _part(names: str, command: str) -> Case:
    """Return the case of a command whose arguments are in order, but a file that they name is damaged.

    ``BAD`` stands for the folder of all files, of which one of the names is damaged, ``NAME`` for that one.
    """

    def run(places: Places, draw: random.Random) -> Finding | None:
        name = draw.choice(names.split())
        folder = places.damaged(name, draw)
        words = [word.replace("BAD", str(folder)).replace("NAME", name) for word in shlex.split(command)]
        return judged(words, folder / "out")

    return run


def _folder(good: str, commands: Sequence[str]) -> Case:
    """Return the case of commands that get a damaged result folder: ``BAD``; ``GOOD`` are the good files."""

    def run(places: Places, draw: random.Random) -> Finding | None:
        folder = places.damaged_folder(places.result(good), draw)
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
_OUT = "--out BAD/out"
_PICTURE = "-s BAD/it.svg"
_RESULTS = ("clean --dry-run BAD", "report BAD -o BAD/p.html", "runs BAD")
_TRACES = "drl.csv sia.csv helios.csv openb.csv pai.csv google_2011.csv google_2019.csv philly.json"
_PREDICTED = "-p homogeneous:4 -w BAD/jobs.swf --windows 2 -j 1"

AREAS: dict[str, tuple[Case, int]] = {
    "options of a run": (_file("batch.json", "run"), 40),
    "options of a training": (_file("training.json", "run"), 20),
    "options of GPU clusters": (_file("gpu.json", "run"), 30),
    "options of pipelines": (_file("pipelines.json", "run"), 30),
    "options of jobs that adapt": (_file("adapting.json", "run"), 30),
    "options of IRMaSim": (_part("irmasim.json irmasim_learning.json", f"run BAD/NAME {_OUT}"), 30),
    "options check": (_file("batch.json", "options", "check", out=False), 40),
    "sweep": (_file("sweep.json", "compare", "-j", "1"), 20),
    "sweep of GPU clusters": (_file("gpu_sweep.json", "compare", "-j", "1"), 20),
    "set of pipelines": (_part("set.json", f"run BAD/of_file.json {_OUT}"), 30),
    "graphs and periods": (_part("lanes.graph periods.txt", f"run BAD/of_periods.json {_OUT}"), 30),
    "machine of pipelines": (
        _part("machine.json", f"run BAD/pipelines.json --set platform=BAD/machine.json {_OUT}"),
        20,
    ),
    "GPU cluster": (
        _part("cluster.json nodes.csv", f"run BAD/gpu.json --set platform=BAD/NAME {_OUT}"),
        40,
    ),
    "GPU traces": (
        _part(_TRACES, f"run BAD/gpu.json --set workload=BAD/NAME --set 'load.unrunnable=leave out' {_OUT}"),
        60,
    ),
    "throughputs": (_part("throughputs.json", f"run BAD/gavel.json {_OUT}"), 20),
    "values of jobs": (_part("values.json", f"run BAD/gpu_adapting.json {_OUT}"), 30),
    "table of adaptations": (
        _part("table.json", f"run BAD/adapting.json --set workload=BAD/table.json --set platform=made {_OUT}"),
        30,
    ),
    "values of a table": (_part("table.json", "adaptation values BAD/out.json BAD/table.json"), 20),
    "platform in JSON": (_file("platform.json", "platform", "show", out=False), 60),
    "platform in XML": (_file("platform.xml", "platform", "show", out=False), 60),
    "platform of IRMaSim": (_file("nodes.json", "platform", "show", out=False), 30),
    "log": (_file("jobs.swf", "workload", "stat", out=False), 60),
    "jobs in JSON": (_file("jobs.json", "workload", "stat", out=False), 60),
    "jobs of IRMaSim": (_part("ops.json ops.csv", f"run BAD/irmasim.json --set workload_file_path=NAME {_OUT}"), 30),
    "predictor": (_part("predictor.json", f"compare fcfs+easy sjf+easy@BAD/predictor.json {_PREDICTED} {_OUT}"), 10),
    "site of Slurm": (_part("sacct.txt slurm.conf", f"site import BAD/sacct.txt --conf BAD/slurm.conf {_OUT}"), 60),
    "site described by hand": (_part("site.json", f"site import BAD/sacct.txt --conf BAD/site.json {_OUT}"), 20),
    "rules and columns of a site": (
        _part("ruled_site.json ruled.site.csv ruled.swf", f"run BAD/ruled_run.json {_OUT}"),
        60,
    ),
    "limits of a site": (
        _part(
            "qos.txt accounts.txt",
            f"site import BAD/sacct.txt --conf BAD/slurm.conf --qos BAD/qos.txt --accounts BAD/accounts.txt {_OUT}",
        ),
        20,
    ),
    "maintenance of a site": (
        _part("res.txt", f"site import BAD/sacct.txt --conf BAD/slurm.conf --downtimes BAD/res.txt {_OUT}"),
        20,
    ),
    "site of other accounting": (
        _part("pbs.txt lsf.txt jobcomp.txt kubernetes.json jobs.swf", f"site import BAD/NAME {_OUT}"),
        60,
    ),
    "site of a table": (
        _part("table.csv mapping.json", f"site import BAD/table.csv --mapping BAD/mapping.json {_OUT}"),
        30,
    ),
    "report of a site": (_part("import.json", "site show BAD"), 30),
    "what-if of a site": (_part("site.json jobs.swf", f"what-if BAD --windows 2:2 --warm-up 1 -j 1 {_OUT}"), 30),
    "live A/B": (_part("plan.json sacct.txt", f"ab analyze BAD/plan.json BAD/sacct.txt {_OUT}"), 30),
    "agents": (_agent, 40),
    "run folder": (
        _folder(
            "run",
            [
                *("metrics BAD", *_RESULTS, "workload export-swf BAD --out BAD/o.swf"),
                *(f"plot gantt BAD {_PICTURE}", f"plot queue_size BAD {_PICTURE}"),
            ],
        ),
        20,
    ),
    "training folder": (
        _folder(
            "training",
            [
                *("run --resume BAD", "run --resume BAD", "run --resume BAD", "report BAD -o BAD/p.html"),
                *(f"plot rewards BAD {_PICTURE}", f"plot losses BAD {_PICTURE}"),
            ],
        ),
        20,
    ),
    "comparison folder": (
        _folder(
            "comparison",
            [
                *("compare --resume --out BAD -j 1", "report BAD -o BAD/p.html", f"plot comparison BAD {_PICTURE}"),
                "clean --dry-run BAD",
            ],
        ),
        20,
    ),
    "run folder of GPU clusters": (_folder("gpu_run", [*_RESULTS, f"plot gantt BAD {_PICTURE}"]), 15),
    "run folder of pipelines": (_folder("pipelines_run", [*_RESULTS, f"plot misses BAD {_PICTURE}"]), 15),
    "run folder of jobs that adapt": (_folder("adapting_run", [*_RESULTS, f"plot anytime BAD {_PICTURE}"]), 15),
    "comparison folder of GPU clusters": (
        _folder("gpu_comparison", ["compare --resume --out BAD -j 1", "report BAD -o BAD/p.html"]),
        10,
    ),
    "model file": (
        _folder(
            "model",
            [
                f"compare BAD/model.pt fcfs+easy {_WHERE} --out BAD/out",
                "run GOOD/training.json -im BAD/model.pt --out BAD/out",
                "model import BAD/weights.pt GOOD/importing.json -o BAD/other.pt",
                "model average BAD/evolved.pt GOOD/model_results/evolved.pt -o BAD/other.pt",
            ],
        ),
        20,
    ),
}
"""What is damaged, the case, and how many fixed inputs every run of the tests tries."""
