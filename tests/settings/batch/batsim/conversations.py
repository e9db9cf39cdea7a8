"""Recorded conversations between Batsim and a scheduler, and schedulers for tests."""

import csv
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hdrl.batsim.exact import BatsimOptions, ExactBatsim, Result
from hdrl.launcher.batsim import batsim_options, main

from ..recorded_runs import RECORDED, recorded_parameters  # noqa: TID252 - of all tests

ROOT = Path(__file__).resolve().parents[4]
WORLDS = Path(__file__).parent / "worlds"
FILES = {
    "jobs": "jobs",
    "machine_states": "machine_states",
    "pstate_changes": "pstate_changes",
    "energy": "consumed_energy",
}
WALL_CLOCK = ("scheduling_time", "simulation_time")


def recorded(*folders: str) -> list[Any]:
    """Return the recorded runs of some folders as parameters of a test, which calls `need_recorded_runs` first."""
    runs = [path.parent for folder in folders for path in sorted((RECORDED / folder).glob("*/run.json"))]
    return recorded_parameters(runs)


def options_of(folder: Path) -> BatsimOptions:
    """Return the options of a run's command line; its files lie in the run's folder."""
    args = json.loads((folder / "run.json").read_text())["args"]
    args = [str(folder / arg) if (folder / arg).is_file() else arg for arg in args]
    with main.make_context("hdrl-batsim", args) as context:
        assert isinstance(context, click.Context)
        return batsim_options(context.params)


class Replay:
    """A scheduler that gives recorded replies, and compares what it is told with what was recorded."""

    def __init__(self, folder: Path) -> None:
        path = folder / "transcript.jsonl.gz"
        text = (
            gzip.decompress(path.read_bytes()).decode() if path.exists() else (folder / "transcript.jsonl").read_text()
        )
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        self.expected = [line["message"] for line in lines if line["from"] == "batsim"]
        self.replies = [line["message"] for line in lines if line["from"] == "scheduler"]
        self.n_messages = 0

    def exchange(self, message: str) -> str:
        k = self.n_messages
        self.n_messages += 1
        assert k < len(self.expected), f"message {k} was not recorded: {message}"
        if k == 0:
            assert _without_folders(message) == _without_folders(self.expected[0])
        else:
            assert message == self.expected[k], f"message {k} differs"
        return self.replies[k]


class Scripted:
    """A scheduler that answers with what a function makes of each message."""

    def __init__(self, decide: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> None:
        self._decide = decide
        self.messages: list[dict[str, Any]] = []

    def exchange(self, message: str) -> str:
        self.messages.append(json.loads(message))
        now = self.messages[-1]["now"]
        requests = [{"timestamp": now, **request} for request in self._decide(self.messages[-1])]
        return json.dumps({"now": now, "events": requests})


class FirstComeFirstServed:
    """Starts the waiting jobs in order, each on the first free machines."""

    def __init__(self) -> None:
        self.free: list[int] = []
        self.waiting: list[dict[str, Any]] = []

    def exchange(self, message: str) -> str:
        data = json.loads(message)
        for event in data["events"]:
            if event["type"] == "SIMULATION_BEGINS":
                self.free = list(range(event["data"]["nb_compute_resources"]))
            elif event["type"] == "JOB_SUBMITTED":
                self.waiting.append(event["data"]["job"])
            elif event["type"] == "JOB_COMPLETED":
                self.free = sorted(self.free + ids_of(event["data"]["alloc"]))
        starts = []
        while self.waiting and self.waiting[0]["res"] <= len(self.free):
            job = self.waiting.pop(0)
            ids, self.free = self.free[: job["res"]], self.free[job["res"] :]
            starts.append({"job_id": job["id"], "alloc": " ".join(map(str, ids))})
        events = [{"timestamp": data["now"], "type": "EXECUTE_JOB", "data": start} for start in starts]
        return json.dumps({"now": data["now"], "events": events})


def ids_of(text: str) -> list[int]:
    """Return the ids of a set such as '0-3 5'."""
    ids: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return ids


def compare_files(folder: Path, result: Result) -> None:
    """Compare the lines of a result with the files of a recorded run, to the last digit."""
    for name, file_name in FILES.items():
        path = folder / f"out_{file_name}.csv"
        if path.exists():
            assert getattr(result.outputs, name) == path.read_text().splitlines()[1:], path.name
    with (folder / "out_schedule.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    expected = {key: value for key, value in row.items() if key not in WALL_CLOCK}
    # builds of 4.2.1 call themselves so with or without a "v"
    expected["batsim_version"] = "v" + expected["batsim_version"].removeprefix("v")
    assert {key: value for key, value in result.schedule.items() if key not in WALL_CLOCK} == expected
    assert list(result.schedule) == list(row)
    trace = folder / "out_schedule.trace"
    if trace.exists():
        assert _without_colours(result.trace or "") == _without_colours(trace.read_text())


def replay(folder: Path) -> Result:
    """Replay a recorded run and compare everything that Batsim said and wrote."""
    scheduler = Replay(folder)
    result = ExactBatsim(options_of(folder)).run(scheduler)
    assert scheduler.n_messages == len(scheduler.expected)
    compare_files(folder, result)
    return result


def _without_colours(trace: str) -> str:
    """Blank the colours of jobs, which Batsim draws by chance."""
    return re.sub(r'^(5 j.*") "[0-9. ]+"$', r"\1", trace, flags=re.MULTILINE)


def _without_folders(message: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(message)
    workloads = data["events"][0]["data"]["workloads"]
    for name, path in workloads.items():
        workloads[name] = path.rsplit("/", 1)[-1]
    return data
