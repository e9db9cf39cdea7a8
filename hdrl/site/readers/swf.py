"""Logs in the Standard Workload Format, with node counts in the descriptors that some sites put behind the fields."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import ReadError
from hdrl.base.files import open_bytes
from hdrl.batch import read_swf
from hdrl.site.records import UNKNOWN, AttemptState, Dump, integers, new_names, unknown_records

_N_FIELDS = 18
_DESCRIPTOR = re.compile(r"[^:]+:[^:]+:(\d{1,9})x\d{1,9}")
_DESCRIPTOR_FIELD, _GPUS_FIELD = 21, 19
"""Logs of Frontier have three fields more: GPUs, a soft limit, and a descriptor such as ``frontier:excl:2500x112``."""

_STATES = {
    1: AttemptState.DONE,
    0: AttemptState.FAILED,
    5: AttemptState.CANCELLED,
    2: AttemptState.STOPPED,
    3: AttemptState.DONE,
    4: AttemptState.FAILED,
}
PARTIAL = "parts of a checkpointed job that another row covers"


def is_swf(first_line: str) -> bool:
    """Tell whether a file begins as a log in SWF: with a directive or 18 numbers."""
    if first_line.startswith(";"):
        return True
    words = first_line.split()
    return len(words) >= _N_FIELDS and all(re.fullmatch(r"-?\d+(?:\.\d+)?", word) for word in words[:_N_FIELDS])


def read_swf_dump(path: Path, nodes_field: int | None) -> Dump:
    """Read a log in SWF.

    Where field 21 is a descriptor that says a number of nodes (``frontier:excl:2500x112``), or ``nodes_field`` names a
    field, that number of nodes counts; cores then follow from the nodes of the site. With the descriptor, field 19 says
    how many GPUs a job had.

    Parameters
    ----------
    nodes_field
        Number of the field that holds the nodes of a job, counted from 1.

    Raises
    ------
    ReadError
        If it is no such log, or lacks the field.
    """
    log = read_swf(path)
    rows = log.rows
    records = unknown_records(len(rows))
    first_s = log.first_date_s
    records["job"] = integers(rows["job_number"])
    records["submit_s"] = np.where(rows["submit_s"] >= 0, rows["submit_s"] + first_s, np.nan)
    records["eligible_s"] = records["submit_s"]
    records["start_s"] = np.where(rows["wait_s"] >= 0, records["submit_s"] + rows["wait_s"], np.nan)
    records["run_s"] = np.where(rows["run_s"] >= 0, rows["run_s"], np.nan)
    records["end_s"] = records["start_s"] + records["run_s"]
    records["limit_s"] = np.where(rows["requested_s"] > 0, rows["requested_s"], np.nan)
    records["cores"] = integers(np.where(rows["processors"] > 0, rows["processors"], rows["requested_processors"]))
    records["requested_cores"] = integers(rows["requested_processors"])
    records["memory_kb"] = np.where(rows["requested_memory_kb"] > 0, rows["requested_memory_kb"], np.nan)
    records["gpus"] = 0
    records["after"] = np.where(rows["preceding_job"] > 0, integers(rows["preceding_job"]), UNKNOWN)
    records["think_s"] = np.where(records["after"] >= 0, np.maximum(rows["think_s"], UNKNOWN), np.nan)
    status = rows["status"]
    records["state"] = AttemptState.DONE
    for number, state in _STATES.items():
        records["state"][status == number] = state
    names = new_names()
    shown = {"user": "user", "account": "group", "name": "executable", "qos": "queue", "partition": "partition"}
    for column, field in shown.items():
        titles = log.titles(field)
        texts = ["" if value == UNKNOWN else titles.get(int(value), str(int(value))) for value in rows[field].tolist()]
        records[column] = names[column].numbers(texts, len(texts))
    notes = ["waits count from the submission: a log in SWF has no dates of eligibility"]
    takes_whole_nodes = _read_nodes(path, records, nodes_field, notes)
    whole = np.isin(status, (2, 3, 4), invert=True)
    is_part = ~whole & np.isin(records["job"], records["job"][whole])
    dump = Dump("swf", records[~is_part], names, len(rows), notes=notes, header=dict(log.header))
    dump.takes_whole_nodes = takes_whole_nodes
    if np.any(is_part):
        dump.skipped[PARTIAL] = int(np.count_nonzero(is_part))
    return dump


def _read_nodes(path: Path, records: NDArray[np.void], nodes_field: int | None, notes: list[str]) -> bool:
    """Read the nodes of jobs, and GPUs, from what stands behind the 18 fields; tell whether there are some."""
    nodes = np.full(len(records), UNKNOWN, dtype=np.int64)
    position = 0
    with open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
        for number, line in enumerate(text, start=1):
            words = line.split()
            if not words or words[0].startswith(";") or position >= len(records):
                continue
            if nodes_field is not None:
                nodes[position] = _field(path, words, nodes_field, number)
            elif len(words) == _DESCRIPTOR_FIELD and (found := _DESCRIPTOR.fullmatch(words[-1])) is not None:
                nodes[position] = int(found[1])
                gpus = words[_GPUS_FIELD - 1]
                records["gpus"][position] = int(gpus) if re.fullmatch(r"\d{1,9}", gpus) else 0
            position += 1
    is_known = nodes > 0
    if np.any(is_known):
        records["nodes"] = np.where(is_known, nodes, records["nodes"])
        where = "the descriptor at the end of lines" if nodes_field is None else f"field {nodes_field}"
        notes.append(f"number of nodes from {where}: {np.count_nonzero(is_known):,} jobs, which have whole nodes")
        if not np.all(is_known):
            notes.append(
                f"jobs without such a number, which have the cores of field 5: {np.count_nonzero(~is_known):,}"
            )
    return bool(np.any(is_known))


def _field(path: Path, words: list[str], nodes_field: int, number: int) -> int:
    if nodes_field > len(words):
        raise ReadError(path, f"{len(words)} fields, expected nodes in field {nodes_field}", line=number)
    text = words[nodes_field - 1]
    if not re.fullmatch(r"-1|\d{1,9}", text):
        raise ReadError(path, f"field {nodes_field} is {text[:40]!r}, expected a number of nodes", line=number)
    return int(text)
