"""What candidates know that others do not: true run times, or the very windows that judge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case
from hdrl.experiment.decider import Decider, ModelDecider
from hdrl.setting import Load, Setting


def deciders_of_files(candidates: Sequence[Candidate], setting: Setting) -> dict[str, list[Decider]]:
    """Return what the files of candidates hold, by name of the candidate, before anything is simulated.

    Parameters
    ----------
    candidates
        The candidates.
    setting
        The setting.

    Raises
    ------
    HdrlError
        If a Python file defines no policy, or a model cannot be read.
    """
    return {
        candidate.name: [candidate.decider(setting, seed) for seed in range(len(candidate.files))]
        for candidate in candidates
        if candidate.files
    }


def see_too_much(
    deciders: Mapping[str, Sequence[Decider]], candidates: Sequence[Candidate], setting: Setting
) -> list[str]:
    """Return the names of the candidates that say they see what no scheduler sees.

    Parameters
    ----------
    deciders
        What files hold; a Python file says so by ``clairvoyant = True``, on its function or in the file.
    candidates
        The candidates.
    setting
        The setting.
    """
    named = {one.name: [one.decider(setting)] for one in candidates if not one.files}
    everybody = {**named, **deciders}
    return [one.name for one in candidates if any(each.knows().sees_too_much for each in everybody[one.name])]


def trained_on(
    deciders: Mapping[str, Sequence[Decider]], cases: Sequence[Case], workloads: Sequence[Load]
) -> dict[str, str]:
    """Return which of the windows models were trained on, in words, by name of the candidate.

    Parameters
    ----------
    deciders
        What the files of candidates hold.
    cases, workloads
        What is compared on.
    """
    records = {name: [one.knows() for one in those] for name, those in deciders.items()}
    models = {name: those for name, those in records.items() if any(one.is_trained for one in those)}
    hashes = [workload.sha256() for workload in workloads] if models else []
    found = {}
    for name, those in models.items():
        words = {_words(one.trained_on, cases, workloads, hashes) for one in those} - {""}
        if words:
            found[name] = sorted(words)[0]
    return found


def rival_groups(
    deciders: Mapping[str, Sequence[Decider]], candidates: Sequence[Candidate], setting: Setting
) -> dict[str, list[str]]:
    """Return the candidates that know more than the heuristics do, by the group of policies that know as much.

    Parameters
    ----------
    deciders
        What the files of candidates hold.
    candidates
        The candidates.
    setting
        The setting.
    """
    found: dict[str, list[str]] = {}
    for candidate in candidates:
        knows: list[str | Mapping[str, Any]] = [candidate.policy] if candidate.policy else []
        knows += [one.model.environment for one in deciders.get(candidate.name, ()) if isinstance(one, ModelDecider)]
        for group in {setting.policies.rivals(one) for one in knows} - {None}:
            found.setdefault(str(group), []).append(candidate.name)
    return found


def _words(record: Mapping[str, Any], cases: Sequence[Case], workloads: Sequence[Load], hashes: Sequence[str]) -> str:
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
