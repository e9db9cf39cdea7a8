"""Recorded conversations between Batsim and schedulers, replayed on the embedded simulator."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hdrl.settings.batch.platform import read_simgrid
from hdrl.settings.batch.simulation import (
    Annotate,
    AskEnergy,
    At,
    BatchTrace,
    CallAt,
    Decision,
    EmbeddedSimulator,
    JobState,
    Kill,
    News,
    Reject,
    SetPState,
    Start,
    View,
)
from hdrl.settings.batch.simulation.outputs import format_jobs, format_machine_states, format_pstate_changes
from hdrl.settings.batch.workload import Workload, merge, read_batsim_json

ROOT = Path(__file__).resolve().parents[4]
RUNS = ROOT.parent / "shared" / "batsim-runs"

OPTIONS_WITHOUT_EFFECT = {"-p", "-w", "-E", "-q", "--forward-profiles-on-submission", "--sched-cfg"}
NEWS = {
    "SIMULATION_BEGINS": News.SIMULATION_BEGINS,
    "JOB_SUBMITTED": News.JOB_SUBMITTED,
    "JOB_COMPLETED": News.JOB_COMPLETED,
    "JOB_KILLED": News.JOB_KILLED,
    "RESOURCE_STATE_CHANGED": News.PSTATE_CHANGED,
    "REQUESTED_CALL": News.REQUESTED_CALL,
    "NOTIFY": News.NO_MORE_JOBS,
    "ANSWER": News.ENERGY,
    "SIMULATION_ENDS": News.SIMULATION_ENDS,
}
CALLED = {News.NODE_SWITCHED: News.PSTATE_CHANGED}
"""News that Batsim tells as other ones."""


class NotSayableError(Exception):
    """A scheduler asks for something for which there is no decision, or Batsim is run with an option we do not have."""


def ids_of(text: str) -> list[int]:
    """Return the ids of a set such as '0-3 5'."""
    ids: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    return ids


@dataclass(frozen=True)
class Conversation:
    """What Batsim told, and what it was answered, message by message."""

    told: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    arguments: list[str]
    folder: Path

    @classmethod
    def read(cls, folder: Path) -> Conversation:
        """Read the conversation of a run; without a recorded run, the test is skipped."""
        if not folder.is_dir():
            pytest.skip(f"no recorded run {folder}")
        zipped = folder / "transcript.jsonl.gz"
        text = gzip.decompress(zipped.read_bytes()).decode() if zipped.exists() else ""
        text = text or (folder / "transcript.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        arguments = json.loads((folder / "run.json").read_text())["args"]
        told = [line["message"] for line in lines if line["from"] == "batsim"]
        answers = [json.loads(line["message"]) for line in lines if line["from"] == "scheduler"]
        return cls([json.loads(message) for message in told], answers, arguments, folder)

    @property
    def energy(self) -> bool:
        """Whether Batsim accounted for energy."""
        return "-E" in self.arguments

    def check_options(self) -> None:
        """Raise `NotSayableError` at an option of Batsim that the simulator does not have."""
        for argument in self.arguments:
            if argument.startswith("-") and argument not in OPTIONS_WITHOUT_EFFECT:
                raise NotSayableError(argument)

    def workload(self) -> Workload:
        """Return the jobs of all files."""
        names = [Path(self.arguments[k + 1]).name for k, a in enumerate(self.arguments) if a == "-w"]
        return merge(read_batsim_json(self.folder / name, source=f"w{k}") for k, name in enumerate(names))

    def simulator(self, *, energy: bool | None = None) -> EmbeddedSimulator:
        """Return a simulator of the same platform and jobs."""
        platform = read_simgrid(self.folder / "platform.xml")
        return EmbeddedSimulator(platform, self.workload(), energy=self.energy if energy is None else energy)


def job_numbers(workload: Workload) -> dict[str, int]:
    """Return the index of each job by its full id."""
    return {
        f"{workload.sources[source]}!{job_id}": index
        for index, (source, job_id) in enumerate(zip(workload.jobs["source"], workload.job_ids, strict=True))
    }


def decision(event: dict[str, Any], numbers: dict[str, int]) -> Decision:
    """Return what an event of a scheduler asks for."""
    kind, data = event["type"], event["data"]
    if kind == "EXECUTE_JOB" and set(data) == {"job_id", "alloc"}:
        asked: Any = Start(numbers[data["job_id"]], ids_of(data["alloc"]))
    elif kind == "REJECT_JOB":
        asked = Reject(numbers[data["job_id"]])
    elif kind == "KILL_JOB":
        asked = Kill([numbers[job] for job in data["job_ids"]])
    elif kind == "CALL_ME_LATER":
        asked = CallAt(data["timestamp"])
    elif kind == "SET_RESOURCE_STATE":
        asked = SetPState(ids_of(data["resources"]), int(data["state"]))
    elif kind == "SET_JOB_METADATA":
        asked = Annotate(numbers[data["job_id"]], data["metadata"])
    elif kind == "QUERY":
        asked = AskEnergy()
    else:
        raise NotSayableError(kind if kind != "EXECUTE_JOB" else "mapping")
    return At(event["timestamp"], asked)


def check_message(message: dict[str, Any], view: View, numbers: dict[str, int]) -> None:
    """Check that a view holds what Batsim told: date, and kind, subject and date of each event."""
    assert f"{view.now_s:.6f}" == f"{message['now']:.6f}"
    if view.is_over:
        assert [event["type"] for event in message["events"]] == ["SIMULATION_ENDS"]
        return
    found = [(CALLED.get(kind, kind), f"{s:.6f}") for (kind, _), s in zip(view.news, view.news_s.tolist(), strict=True)]
    assert found == [(NEWS[event["type"]], f"{event['timestamp']:.6f}") for event in message["events"]]
    for (kind, subject), event in zip(view.news, message["events"], strict=True):
        data = event["data"]
        if kind in (News.JOB_SUBMITTED, News.JOB_COMPLETED):
            assert subject == numbers[data["job_id"]]
        if kind == News.JOB_COMPLETED:
            assert view.outcome(subject) == (JobState[data["job_state"]], data["return_code"])
        if kind == News.JOB_KILLED:
            check_progress(view, data["job_progress"], numbers)
        if kind == News.PSTATE_CHANGED:
            assert str(subject) == data["state"]
        if kind == News.NODE_SWITCHED:
            assert subject == ids_of(data["resources"])[0], "a node of one host"
        if kind == News.ENERGY:
            assert view.energy_j == pytest.approx(data["consumed_energy"], rel=1e-9, abs=1e-6)


def check_progress(view: View, told: dict[str, dict[str, Any]], numbers: dict[str, int]) -> None:
    """Check what is told of the progress of killed jobs, where it is told as one number."""
    for job, progress in told.items():
        if "progress" in progress:
            assert view.progress(numbers[job]) == pytest.approx(progress["progress"], abs=6e-7)


def replay(conversation: Conversation, simulator: EmbeddedSimulator, *, check: bool = True) -> BatchTrace:
    """Give the recorded answers; check every message on the way."""
    numbers = job_numbers(simulator.workload)
    view = simulator.reset()
    n_answered = 0
    for message, answer in zip(conversation.told, conversation.answers, strict=False):
        if check:
            check_message(message, view, numbers)
        if view.is_over and not answer["events"]:
            break
        view = simulator.step([decision(event, numbers) for event in answer["events"]], now_s=answer["now"])
        n_answered += 1
    if check:
        assert view.is_over
        assert n_answered == len(conversation.told) - 1
    return simulator.trace


def check_files(conversation: Conversation, trace: BatchTrace) -> None:
    """Compare what Batsim writes with what it wrote, to the last digit; energies to 1e-9 of their value."""
    found, expected = rows(format_jobs(trace)), rows((conversation.folder / "out_jobs.csv").read_text())
    column = found[0].index("consumed_energy")
    for mine, theirs in zip(found[1:], expected[1:], strict=True):
        energy, wanted = mine.pop(column), theirs.pop(column)
        assert (energy == "") == (wanted == "")
        assert float(energy or 0) == pytest.approx(float(wanted or 0), rel=1e-9, abs=1e-6)
    assert found == expected
    assert format_machine_states(trace) == (conversation.folder / "out_machine_states.csv").read_text()
    changes = conversation.folder / "out_pstate_changes.csv"
    assert changes.exists() == conversation.energy
    if changes.exists():
        assert format_pstate_changes(trace) == changes.read_text()


def rows(text: str) -> list[list[str]]:
    """Return the fields of a CSV text."""
    return list(csv.reader(io.StringIO(text)))
