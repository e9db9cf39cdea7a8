"""The candidates of a comparison: policies by name, by group or by pattern, Python files, and models."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError, ReadError, UnknownName, nearest, quoted, suggest
from hdrl.base.hashing import sha256_of_file
from hdrl.base.pyfiles import CPP_SUFFIX, SUFFIX, SUFFIX_MARKS
from hdrl.experiment.decider import Decider, ModelDecider, PolicyDecider, decider_of_file
from hdrl.experiment.train.modeluse import Model
from hdrl.options.sweep import MODEL_FILE, Sweep, strip_folder
from hdrl.setting import Clairvoyance, PolicyBook, Setting

MODEL_SUFFIXES = (".pt", ".safetensors")
PATTERN = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Candidate:
    """One side of a comparison."""

    name: str  # unique in tables
    policy: str = ""  # name of a policy; empty for files
    files: tuple[str, ...] = ()  # a Python file or C++ scheduler (one), or a model per seed
    suffix: str = ""  # suffix of a Python file that defines a priority: ``"+easy-low_power"``
    sha256: tuple[str, ...] = ()  # hash of each file
    n_seeds: int = 1  # seeds to run it with
    agent_files: tuple[str, ...] = ()  # agent files that the user has named for models
    trust: bool = False  # True if the agent file beside a model may run

    @property
    def is_model(self) -> bool:
        """True if it is a learned model (or several trainings of one)."""
        return bool(self.files) and self.files[0].endswith(MODEL_SUFFIXES)

    @property
    def is_file(self) -> bool:
        """True if it is a Python file, or a scheduler in C++."""
        return bool(self.files) and not self.is_model

    def decider(self, setting: Setting, seed: int = 0, options: Any = None) -> Decider:
        """Return a freshly loaded decider: what a policy remembers must not pass from one simulation to the next.

        Each of several trainings has a ``seed`` of its own.
        """
        if self.is_model:
            file = self.files[seed % len(self.files)]
            model = Model(file, agent_files=self.agent_files, setting=setting, trust=self.trust)
            model.check_can_play()
            return ModelDecider(model, options)
        if self.is_file:
            return decider_of_file(Path(self.files[0]), self.suffix, setting, options)
        return PolicyDecider(setting, self.policy, options=options)

    def identity(self) -> dict[str, Any]:
        """Return its identity, without paths."""
        return {
            "policy": strip_folder(self.policy) or None,
            "files": [Path(file).name for file in self.files],
            "suffix": self.suffix or None,
            "sha256": list(self.sha256),
            "n_seeds": self.n_seeds,
        }


def read_candidates(sweep: Sweep, policies: PolicyBook, written: Iterable[str] | None = None) -> list[Candidate]:
    """Return the candidates that a sweep names, each once, in its order.

    ``written`` replaces ``sweep.candidates``. Raise an `HdrlError` if a policy or a file does not exist, a pattern fits
    nothing, or two candidates have the same name.
    """
    found: dict[str, Candidate] = {}
    for text in sweep.candidates if written is None else written:
        for candidate in _read(sweep, policies, text):
            before = found.setdefault(candidate.name, candidate)
            if before.identity() != candidate.identity():
                raise OptionsError(
                    f"{sweep.where}: two candidates are called {candidate.name!r}; name them: NAME={text}"
                )
    return list(found.values())


def with_bounds(sweep: Sweep, policies: PolicyBook, candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """Return, for each candidate that has one, the same policy by true run times."""
    found = {}
    for one in candidates:
        twin = policies.with_true_times(one.policy) if one.policy and isinstance(policies, Clairvoyance) else None
        if twin is not None:
            (found[one.name],) = read_candidates(sweep, policies, [f"{one.name}{BOUND}={twin}"])
    if not found:
        raise OptionsError(f"{sweep.where}: bound: no candidate is a policy that can use true run times")
    return found


BOUND = ", true run times"
"""Suffix of the name of a candidate with true run times."""


def _read(sweep: Sweep, policies: PolicyBook, text: str) -> list[Candidate]:
    label, equals, what = text.rpartition("=")
    if equals and not (label and what):
        raise OptionsError(f"{sweep.where}: {quoted(text)}: expected NAME=CANDIDATE, or a candidate alone")
    if what.endswith(".zip"):  # what Stable-Baselines3 saves
        raise OptionsError(f"{what}: expected a model file; hdrl model import makes one of what that library saved")
    base, suffix = _split(what)
    if base:
        return _files(sweep, label, base, suffix)
    known = {} if label else policies.groups()
    if what in known:
        return [_policy(sweep, policies, name, name) for name in known[what]]
    if not label and PATTERN & set(what):
        return [_policy(sweep, policies, name, name) for name in _matching(sweep, policies, what)]
    try:
        name = policies.read(sweep.resolve_policy(what))
    except UnknownName:
        if sweep.path_of(what).is_dir():
            raise OptionsError(
                f"{sweep.where}: {what} is a folder without {MODEL_FILE}; expected that of a training, or a policy"
            ) from None
        if hint := _hint(what):
            raise OptionsError(f"{sweep.where}: no policy {quoted(what)}; {hint}") from None
        # It may have been meant as a group, which settings' messages about policies do not mention.
        if nearest(what, known) is None or nearest(what, policies.names()) is not None:
            raise
        raise UnknownName("policy, and no group of policies,", what, known) from None
    return [_policy(sweep, policies, label or strip_folder(name), name)]


def _hint(text: str) -> str:
    """Return how to write what was probably meant, empty if nothing is known."""
    if f"{SUFFIX}:" in text:
        return "name the file without a function: hdrl uses its policy(view) or priority(job, now_s)"
    return "candidates are separate words, without commas" if "," in text else ""


def _split(text: str) -> tuple[str, str]:
    """Return the path of a file and what follows it (``"+easy"``); two empty texts for what names no file."""
    for ending in (SUFFIX, CPP_SUFFIX, *MODEL_SUFFIXES):
        base, found, suffix = text.rpartition(ending)
        if found and suffix[:1] in SUFFIX_MARKS:
            return base + found, suffix
    return "", ""


def _policy(sweep: Sweep, policies: PolicyBook, label: str, name: str) -> Candidate:
    # Only what draws has results that depend on the seed.
    n_seeds = sweep.seeds if policies.draws(name) else 1
    return Candidate(label, policy=name, sha256=_hashes(map(Path, policies.files(name))), n_seeds=n_seeds)


_LONGEST_PATTERN = 1000


def _matching(sweep: Sweep, policies: PolicyBook, pattern: str) -> list[str]:
    # A pattern that is very long is none, and takes long to be compiled.
    is_pattern = len(pattern) <= _LONGEST_PATTERN
    names = [name for name in policies.names() if is_pattern and fnmatch.fnmatchcase(name, pattern)]
    if not names:
        known = [*policies.groups(), *policies.names()]
        raise OptionsError(f"{sweep.where}: no policy fits {quoted(pattern)}; {suggest(pattern, known)}")
    return names


def _files(sweep: Sweep, label: str, text: str, suffix: str) -> list[Candidate]:
    is_model = text.endswith(MODEL_SUFFIXES)
    paths = _paths(sweep, text)
    if not is_model and len(paths) > 1 and label:
        raise OptionsError(f"{sweep.where}: {label}={text} names {len(paths)} Python files, expected one")
    if is_model and suffix:
        raise OptionsError(f"{sweep.where}: {text}{suffix}: a model decides about backfilling itself")
    if is_model and label:
        # The trainings of one method: the seeds of the candidate.
        n_seeds = len(paths) if len(paths) > 1 else sweep.seeds
        return [_of_files(sweep, label, paths, "", n_seeds)]
    return [_of_files(sweep, label or _label(path, paths) + suffix, [path], suffix, sweep.seeds) for path in paths]


def _label(path: Path, paths: list[Path]) -> str:
    names = [other.name for other in paths]
    return path.name if names.count(path.name) == 1 else f"{path.parent.name}/{path.name}"


def _of_files(sweep: Sweep, label: str, paths: list[Path], suffix: str, n_seeds: int) -> Candidate:
    return Candidate(
        label,
        files=tuple(str(path) for path in paths),
        suffix=suffix,
        sha256=_hashes(paths),
        n_seeds=n_seeds,
        agent_files=sweep.agent_files,
        trust=sweep.trusts_models,
    )


def _hashes(paths: Iterable[Path]) -> tuple[str, ...]:
    hashes = []
    for path in paths:
        try:
            hashes.append(sha256_of_file(path))
        except FileNotFoundError:
            raise ReadError(path, "no such file, expected a policy (.py or .cpp) or a model") from None
        except OSError as error:
            raise ReadError(path, f"cannot be read ({error.strerror or error})") from None
    return tuple(hashes)


def _paths(sweep: Sweep, text: str) -> list[Path]:
    path = sweep.path_of(text)
    if not PATTERN & set(text) or path.is_file():
        return [path]
    root, pattern = (
        (Path(path.anchor), str(path.relative_to(path.anchor))) if path.is_absolute() else (Path(), str(path))
    )
    try:
        found = sorted(root.glob(pattern))
    except (ValueError, NotImplementedError) as error:  # a ** beside other letters
        raise ReadError(text, f"is not a pattern ({error})") from None
    if not found:
        raise ReadError(text, "no such file")
    return found
