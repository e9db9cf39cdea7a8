"""Advantages of single candidates: true run times, or the very windows that judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from hdrl.base.windows import overlap
from hdrl.experiment.compare.candidates import Candidate
from hdrl.experiment.compare.cases import Case
from hdrl.experiment.decider import Decider, ModelDecider
from hdrl.experiment.recognition import KNOWN_SHARE, Runs, generator_seed, known_share, runs_of
from hdrl.experiment.train.environments import fingerprints_of, run_length_of
from hdrl.setting import EnvironmentSpec, Load, Machine, Setting

_Part: TypeAlias = Mapping[str, Any]
"""Entry of a model file about jobs of one load."""

_Test: TypeAlias = Callable[[Case, _Part], bool]
"""Test whether a case holds jobs of a part."""


def deciders_of_files(candidates: Sequence[Candidate], setting: Setting) -> dict[str, list[Decider]]:
    """Return the deciders in the files of candidates, by name of the candidate, before anything is simulated."""
    return {
        candidate.name: [candidate.decider(setting, seed) for seed in range(len(candidate.files))]
        for candidate in candidates
        if candidate.files
    }


def hidden_information_users(
    deciders: Mapping[str, Sequence[Decider]], candidates: Sequence[Candidate], setting: Setting
) -> list[str]:
    """Return the names of the candidates that say they see what no scheduler sees.

    A Python file says so by ``clairvoyant = True``, on its function or in the file.
    """
    named = {one.name: [one.decider(setting)] for one in candidates if not one.files}
    all_deciders = {**named, **deciders}
    return [
        one.name
        for one in candidates
        if any(each.knowledge().uses_hidden_information for each in all_deciders[one.name])
    ]


class JudgingWindows:
    """The windows that judge, as models may know them; what that takes is found out when a model asks for it.

    ``generate`` makes the items of a generated case, including those that do not count.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        workloads: Sequence[Load],
        machine: Machine,
        generate: Callable[[Case], Load],
    ) -> None:
        self.cases, self.workloads = tuple(cases), tuple(workloads)
        self._machine, self._generate = machine, generate
        self._known: dict[tuple[Any, ...], Any] = {}

    def words(self, record: Mapping[str, Any], environment: EnvironmentSpec | None) -> str:
        """Describe the windows that hold jobs of a training; empty if there are none."""
        parts = [record, *record.get("further", ())]
        if not all({"workload_sha256", "first_job", "last_job"} <= set(one) for one in parts):
            return "jobs that its file does not name: they may be in these windows"
        same = self._cases_with(parts, self._is_same)
        if same:
            return f"jobs of {self._counted(same)}"
        alike = self._cases_with(parts, self._likeness(environment))
        if alike:
            return f"jobs of at least {self._counted(alike)}, with other dates or in another file"
        # The same log with other run times has other hashes, but its jobs have the same positions.
        namesakes = self._cases_with(parts, self._is_namesake)
        if namesakes:
            names, n = _names(namesakes), len(namesakes)
            return f"{names}, made otherwise: probably jobs of {n} of the {len(self.cases)} windows that judge it"
        return ""

    def words_of_choice(self, record: Mapping[str, Any], environment: EnvironmentSpec | None) -> str:
        """Describe the windows that hold jobs by which a training chose its model; empty if there are none."""
        part = record.get("chosen_by")
        known = self._cases_with([part] if part else [], self._is_same, self._likeness(environment), self._is_namesake)
        return f"jobs of {self._counted(known)}" if known else ""

    def _cases_with(self, parts: Sequence[_Part], *tests: _Test) -> list[Case]:
        """Return the cases that hold jobs of one of the parts, by one of the tests."""
        return [case for case in self.cases if any(test(case, part) for part in parts for test in tests)]

    def _likeness(self, environment: EnvironmentSpec | None) -> _Test:
        return lambda case, part: self._is_alike(case, part, environment)

    def _counted(self, those: Sequence[Case]) -> str:
        return f"{len(those)} of the {len(self.cases)} windows that judge it ({_names(those)})"

    def _is_same(self, case: Case, part: Mapping[str, Any]) -> bool:
        if case.source >= 0:
            is_possible = _overlaps(case.first_job, case.n_jobs, part)
        else:
            is_possible = part.get("n_jobs") == case.n_simulated and _overlaps(case.warm_up, case.n_jobs, part)
        return is_possible and self._sha256(case) == part["workload_sha256"]

    def _is_alike(self, case: Case, part: Mapping[str, Any], environment: EnvironmentSpec | None) -> bool:
        if environment is None or not part.get("sketch"):
            return False
        runs = self._cached(("runs", case, environment.id), lambda: self._runs_of(case, environment))
        return runs is not None and known_share(part["sketch"], runs) >= KNOWN_SHARE

    def _is_namesake(self, case: Case, part: Mapping[str, Any]) -> bool:
        if case.source < 0 or not _overlaps(case.first_job, case.n_jobs, part):
            return False
        load = self.workloads[case.source]
        seeds = generator_seed(load), part.get("seed")
        are_others = None not in seeds and seeds[0] != seeds[1]  # another seed generates other jobs
        return load.name == part.get("workload") and not are_others

    def _source(self, case: Case) -> Load:
        """Return the whole load of a case; a generated case is its own load."""
        if case.source >= 0:
            return self.workloads[case.source]
        found: Load = self._cached(("load", case), lambda: self._generate(case))
        return found

    def _sha256(self, case: Case) -> str:
        return str(self._cached(("sha256", _key(case)), lambda: self._source(case).sha256()))

    def _runs_of(self, case: Case, environment: EnvironmentSpec) -> Runs | None:
        """Return the runs of the items that count."""
        key = "marks", _key(case), environment.id
        fingerprints = self._cached(key, lambda: fingerprints_of(environment, self._machine, self._source(case)))
        first = case.first_job if case.source >= 0 else case.warm_up
        if fingerprints is None:
            return None
        return runs_of(fingerprints[first : first + case.n_jobs], run_length_of(environment))

    def _cached(self, key: tuple[Any, ...], find: Callable[[], Any]) -> Any:
        """Return a value that takes long to find, and is needed again and again."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]


def cautions_of_windows(deciders: Mapping[str, Sequence[Decider]], windows: JudgingWindows) -> list[tuple[str, str]]:
    """Return cautions about models that were trained on or chosen by the windows: kinds and sentences."""
    trained = {
        name: [known for one in those if (known := one.knowledge()).is_trained] for name, those in deciders.items()
    }
    found = []
    for kind, verb, words_of in (
        ("trained-on", "was trained on", windows.words),
        ("chosen-by", "was chosen by its results on", windows.words_of_choice),
    ):
        for name, those in trained.items():
            words = {words_of(one.trained_on, one.environment) for one in those} - {""}
            found += [(kind, f"{name} {verb} {one}") for one in sorted(words)[:1]]
    return found


def cautions_of_models(deciders: Mapping[str, Sequence[Decider]]) -> list[tuple[str, str]]:
    """Return cautions about the training of models: kinds and sentences, each once."""
    found = [
        (kind, f"{name} {what}")
        for name, those in deciders.items()
        for one in those
        if isinstance(one, ModelDecider)
        for kind, what in one.model.spec.cautions(one.model.environment["arguments"])
    ]
    return list(dict.fromkeys(found))


def peer_groups(
    deciders: Mapping[str, Sequence[Decider]], candidates: Sequence[Candidate], setting: Setting
) -> dict[str, list[str]]:
    """Return the candidates that know more than the heuristics do, by the group of policies that know as much."""
    found: dict[str, list[str]] = {}
    for candidate in candidates:
        knowledge: list[str | Mapping[str, Any]] = [candidate.policy] if candidate.policy else []
        knowledge += [
            one.model.environment for one in deciders.get(candidate.name, ()) if isinstance(one, ModelDecider)
        ]
        for group in {setting.policies.peer_group(one) for one in knowledge} - {None}:
            found.setdefault(str(group), []).append(candidate.name)
    return found


def _key(case: Case) -> int | Case:
    return case.source if case.source >= 0 else case


def _names(cases: Sequence[Case]) -> str:
    return ", ".join(dict.fromkeys(case.workload for case in cases))


def _overlaps(first_job: int, n_jobs: int, part: Mapping[str, Any]) -> bool:
    return overlap((first_job, first_job + n_jobs), (int(part["first_job"]), int(part["last_job"]) + 1))
