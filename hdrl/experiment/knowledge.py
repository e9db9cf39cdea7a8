"""What candidates know that they should not: true run times, or the windows that judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.experiment.agentfile import load_agent
from hdrl.experiment.candidates import Candidate
from hdrl.experiment.cases import Case
from hdrl.workload.model import Workload


def clairvoyant_names(candidates: Sequence[Candidate], workloads: Sequence[Workload]) -> list[str]:
    """Return the names of the candidates that say they see true run times.

    Parameters
    ----------
    candidates
        The candidates; a Python file says so by ``clairvoyant = True``, on its function or in the file.
    workloads
        The workloads.
    """
    del workloads
    return [candidate.name for candidate in candidates if candidate.is_file and _is_clairvoyant(candidate)]


def _is_clairvoyant(candidate: Candidate) -> bool:
    policy = load_agent(Path(candidate.files[0]), lambda: "first-high_gflops").policy
    module = getattr(policy, "__globals__", {})
    return bool(getattr(policy, "clairvoyant", False) or module.get("clairvoyant", False))


def trained_on(candidates: Sequence[Candidate], cases: Sequence[Case], workloads: Sequence[Workload]) -> dict[str, str]:
    """Return which of the windows models were trained on, in words, by name of the model.

    Parameters
    ----------
    candidates, cases, workloads
        What is compared.
    """
    del cases, workloads
    records: Mapping[str, Any] = {}
    return {candidate.name: "" for candidate in candidates if candidate.name in records}
