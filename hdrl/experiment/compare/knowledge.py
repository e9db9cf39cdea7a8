"""What files of candidates hold: something that decides, and whether it knows what it should not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.errors import OptionsError
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case
from hdrl.experiment.compare.sweep import Sweep
from hdrl.experiment.run.agentfile import AgentKind, Policy, load_agent
from hdrl.experiment.run.provenance import workload_sha256
from hdrl.policies import is_clairvoyant
from hdrl.policies.clairvoyance import EXACT_ESTIMATES
from hdrl.workload.model import Workload


def check_files(candidates: Sequence[Candidate]) -> None:
    """Check before anything is simulated that the files of candidates can be used.

    Parameters
    ----------
    candidates
        The candidates.

    Raises
    ------
    HdrlError
        If a Python file defines no policy, or a model cannot be read.
    """
    for candidate in candidates:
        if candidate.is_file:
            policy_of(candidate)
        if candidate.is_model:
            from hdrl.experiment.train.modeluse import Model

            for file in candidate.files:
                Model(file)


def policy_of(candidate: Candidate) -> Policy:
    """Return what a Python file decides by, loaded anew.

    Parameters
    ----------
    candidate
        The candidate.

    Raises
    ------
    HdrlError
        If the file defines nothing of the kind.
    """
    path = Path(candidate.files[0])
    agent = load_agent(path, lambda: _no_pair(path))
    if agent.kind is not AgentKind.POLICY:
        raise OptionsError(f"{path}: an agent that learns is compared by its model (*.pt), which hdrl-launch trains")
    return f"{path}{candidate.suffix}" if candidate.suffix else agent.policy


def _no_pair(path: Path) -> str:
    raise OptionsError(f"{path}: an agent that asks for a policy pair cannot be compared by itself; write policy(view)")


def clairvoyant_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return the names of the candidates that say they see true run times.

    Parameters
    ----------
    candidates
        The candidates; a Python file says so by ``clairvoyant = True``, on its function or in the file.
    """
    return [
        candidate.name
        for candidate in candidates
        if candidate.is_file and is_clairvoyant(policy_of(dataclasses.replace(candidate, suffix="")))
    ]


def exact_estimates(sweep: Sweep, workloads: Sequence[Workload]) -> list[str]:
    """Return the names of the workloads whose requested times are the run times.

    Parameters
    ----------
    sweep, workloads
        What is compared.
    """
    names = [workload.name for workload in workloads if workload.origin.get("estimates") == EXACT_ESTIMATES]
    return names + (
        [f"lublin@{load:g}" for load in sweep.loads] if sweep.generated_estimates == EXACT_ESTIMATES else []
    )


def trained_on(candidates: Sequence[Candidate], cases: Sequence[Case], workloads: Sequence[Workload]) -> dict[str, str]:
    """Return which of the windows models were trained on, in words, by name of the candidate.

    Parameters
    ----------
    candidates, cases, workloads
        What is compared.
    """
    models = [candidate for candidate in candidates if candidate.is_model]
    hashes = [workload_sha256(workload) for workload in workloads] if models else []
    found = {}
    for candidate in models:
        words = {_words(_record(file), cases, workloads, hashes) for file in candidate.files} - {""}
        if words:
            found[candidate.name] = sorted(words)[0]
    return found


def _record(file: str) -> Mapping[str, Any]:
    """Return what a model file says of its training."""
    from hdrl.experiment.train.learning import require_torch

    require_torch()
    from hdrl.experiment.train.modelfile import read_checkpoint

    record: Mapping[str, Any] = read_checkpoint(file).notes.get("trained_on", {})
    return record


def _words(
    record: Mapping[str, Any], cases: Sequence[Case], workloads: Sequence[Workload], hashes: Sequence[str]
) -> str:
    """Say which windows hold jobs of a training; empty if none does."""
    if not {"workload_sha256", "first_job", "last_job"} <= set(record):
        return "jobs that its file does not tell: nobody knows whether they are in these windows"
    shared = [case for case in cases if case.source >= 0 and _shares(case, record)]
    same = [case for case in shared if hashes[case.source] == record["workload_sha256"]]
    if same:
        return f"jobs of {len(same)} of the {len(cases)} windows that judge it ({same[0].workload}): it knows them"
    # The same log with other memory or another seed has another hash, but its jobs have the same places.
    alike = [case for case in shared if workloads[case.source].name == record.get("workload")]
    if alike:
        name = alike[0].workload
        return f"{name}, made otherwise: probably jobs of {len(alike)} of the {len(cases)} windows that judge it"
    return ""


def _shares(case: Case, record: Mapping[str, Any]) -> bool:
    return case.first_job <= int(record["last_job"]) and int(record["first_job"]) < case.first_job + case.n_jobs
