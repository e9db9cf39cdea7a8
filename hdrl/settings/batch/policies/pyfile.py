"""Policies in Python files: a custom priority or policy works by its path wherever the name of a policy does.

``my.py`` may define ``policy(view)``, or ``priority(job, now_s)`` (and ``priorities(jobs, now_s)``, the same for all
waiting jobs at once). With a priority, backfilling and a core selection may follow: ``my.py+easy``,
``my.py+conservative-low_power``. With a class ``Predictor``, a classic policy follows: ``my.py@sjf+easy``
(`policies.predicted`). How a file is run: `hdrl.base.pyfiles`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from hdrl.base.pyfiles import AgentError, check_call, is_policy_file, run_policy_file
from hdrl.settings.batch.policies.choices import DEFAULT_CORE_SELECTION, PolicyPair, read_choices
from hdrl.settings.batch.policies.pairs import read_pair
from hdrl.settings.batch.policies.predicted import OwnPrediction, own_prediction
from hdrl.settings.batch.policies.priorities import OwnPriority
from hdrl.settings.batch.policies.python_policies import is_in_python, policy_in_python
from hdrl.settings.batch.simulators import policy_of_model

FilePolicy: TypeAlias = OwnPriority | OwnPrediction | Callable[[Any], Any]
"""Kinds of policies that a file may define."""

MODEL_SUFFIX = ".pt"
"""Suffix of model files; one of an index with weights names the policy that has them."""


def read_policy(name: str) -> PolicyPair | FilePolicy:
    """Return the policy of a name or of a Python file.

    Parameters
    ----------
    name
        For instance ``"fcfs+easy"``, ``"duplex"`` or ``"my.py+easy"``; or a model file whose weights evolved.

    Raises
    ------
    HdrlError
        If there is no such policy, or the file is wrong: see `policies.pairs.read_pair` and `load_policy`.
    """
    if name.endswith(MODEL_SUFFIX):
        found: PolicyPair = policy_of_model(Path(name))
        return found
    if is_in_python(name):
        return policy_in_python(name)
    return load_policy(name) if is_policy_file(name) else read_pair(name)


def load_policy(name: str) -> FilePolicy:
    """Return the policy that a Python file defines.

    Parameters
    ----------
    name
        Path of the file, with or without backfilling and a core selection.

    Returns
    -------
    OwnPriority, OwnPrediction or function
        A policy for `policies.simulate`.

    Raises
    ------
    ReadError
        If the file cannot be read.
    AgentError
        If it is no Python, fails, or does not define exactly one policy.
    UnknownName
        If there is no such backfilling or core selection.
    """
    module, path, _, suffix = run_policy_file(name)
    policy = policy_of(module, path, suffix)
    if policy is None:
        raise AgentError(f"{path}: defines no policy, expected a function policy(view) or priority(job, now_s)")
    return policy


def policy_of(module: ModuleType, path: Path, suffix: str = "") -> FilePolicy | None:
    """Return the policy that a module defines, or ``None`` if it defines none.

    Parameters
    ----------
    suffix
        Backfilling and core selection: ``"+easy-low_power"``.

    Raises
    ------
    AgentError
        If it defines both a policy and a priority, a policy is to be combined with backfilling, or one of them takes
        other arguments.
    UnknownName
        If there is no such backfilling or core selection.
    """
    if suffix.startswith("@"):
        return _prediction_of(module, path, suffix)
    policy = getattr(module, "policy", None)
    policy = policy if callable(policy) and not inspect.isclass(policy) else None
    priority, priorities = (_function(module, name) for name in ("priority", "priorities"))
    if policy is not None and (priority or priorities):
        raise AgentError(f"{path}: defines a policy and a priority, expected one of them")
    for function, words in ((policy, "view"), (priority, "job, now_s"), (priorities, "jobs, now_s")):
        check_call(function, words, path)
    if priority is None and priorities is None:
        if policy is not None and suffix:
            raise AgentError(f"{path}: a policy(view) decides itself; {suffix!r} goes with a priority(job, now_s)")
        return policy
    backfilling, core_selection = _choices(suffix)
    is_clairvoyant = any(getattr(thing, "clairvoyant", False) for thing in (module, priority, priorities))
    return OwnPriority(
        priority, backfilling, core_selection, priorities, f"{path.name}{suffix}", clairvoyant=is_clairvoyant
    )


def _prediction_of(module: ModuleType, path: Path, suffix: str) -> OwnPrediction:
    found = getattr(module, "Predictor", None)
    if not inspect.isclass(found):
        raise AgentError(f"{path}: defines no class Predictor, which {suffix!r} asks for")
    for word, words in (("predict", "self, job"), ("ended", "self, job, run_s")):
        check_call(getattr(found, word, None), words, path)
    is_clairvoyant = bool(getattr(module, "clairvoyant", False) or getattr(found, "clairvoyant", False))
    return own_prediction(found, suffix[1:], f"{path.name}{suffix}", clairvoyant=is_clairvoyant)


def _function(module: ModuleType, name: str) -> Callable[..., Any] | None:
    found = getattr(module, name, None)
    return found if inspect.isfunction(found) else None


def _choices(suffix: str) -> tuple[str | None, str]:
    """Return backfilling and core selection of ``"+easy-low_power"``."""
    kind, dash, core = suffix.partition("-")
    backfilling = kind.removeprefix("+") if kind else None
    core_selection = core if dash else DEFAULT_CORE_SELECTION
    read_choices(backfilling, core_selection)
    return backfilling, core_selection
