"""Options files of IRMaSim, read as options of ours.

=====================================  =================================================================================
IRMaSim                                here
=====================================  =================================================================================
``platform_file``, ``platform_name``   ``platform_file_path``: ``"file.json#name"``
``workload_file``                      ``workload_file_path``
``workload_manager.type``              ``Minimal`` and ``NodeWM``: ``first-first``; ``Heuristic``: ``<job
                                       selection>-node_<resource selection>``; ``Backfill``:
                                       ``fcfs+easy-node_<resource selection>``; ``EnergyHeuristic``: a policy of
                                       `policies.node_policies_energy`; ``HBackfill``, ``HBackfillR``, ``BackfillFit``
                                       and ``BackfillBestFit``: policies of `policies.node_policies_backfill`;
                                       ``Duplex``: ``duplex``, ``min_min`` or ``max_min``; ``Policy``: an agent that
                                       learns, or its only action
``environment``                        ``pybatsim.env``, without void; the observation is ``minimal`` by default
``agent``                              ``pybatsim.agent``; ``ActorCritic``: ``hdeeprm_actor_critic``, which it is
``nbtrajectories``                     ``learning.n_envs``: simulations of one update
``trajectory_length`` and ``_origin``  ``learning.episodes``; of an agent that does not learn ``nb_jobs`` and
                                       ``workload.start``
=====================================  =================================================================================

Contention is that of the platform, ``modelV1`` (of ``modelV1_1``, too) or ``modelV2``. Where results go is said by
``--out``, how many simulations by ``-nr``. The file may hold keys of ours, too, which come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdrl.base.csvfiles import read_records
from hdrl.base.errors import HdrlError, OptionsError, suggest
from hdrl.base.files import expanded, read_json
from hdrl.base.seeding import stream
from hdrl.options.problems import shown
from hdrl.settings.batch.contention import MODEL_V1, MODEL_V1_1
from hdrl.settings.batch.irmasim import CSV_SUFFIXES, OPTIONS_KEYS
from hdrl.settings.batch.platform.reader import file_and_name

READ_KEYS = (*OPTIONS_KEYS, "nbtrajectories", "trajectory_origin", "trajectory_length")

PASSED_OVER = ("output_dir", "platform_library_path", "log_resource_type", "log_level", "env", "agent")
"""Keys that mean nothing here: folders and logs of its own, and what older versions of it have left in its examples."""

BY_ORDER = ("HBackfill", "HBackfillR")
"""Managers that try the jobs that may overtake in an order."""

MANAGERS = (
    *("Minimal", "NodeWM", "Heuristic", "EnergyHeuristic", "Backfill", "BackfillFit", "BackfillBestFit"),
    *(*BY_ORDER, "Duplex", "Policy"),
)

_NO_START = "which no version of IRMaSim can start: its class is not called like its file; nearest: HBackfillR"
_ON_V1_1 = "a copy of another for modelV1_1 that lets jobs overtake by rules of its own; nearest: HBackfill"
_ALL_ORDERS = "which needs IRMaSim's search through all orders of jobs; nearest: Duplex"

ELSEWHERE = {
    **dict.fromkeys(("BackfillMPI", "HBackfillMPI"), _NO_START),
    **dict.fromkeys(("BackfillV1_1", "HBackfillV1_1"), _ON_V1_1),
    **dict.fromkeys(("Hesitant", "HesitantShMem", "Pareto"), _ALL_ORDERS),
    "HeteroBackfill": "which ends with an error on empty nodes in IRMaSim, too; nearest: HBackfillR",
    **dict.fromkeys(
        ("Action", "ActionScheduler"),
        "which learns pairs of a job and a node with an agent of its own; nearest: Policy, or the environment"
        " hdrl/JobPick-v0",
    ),
}
"""Managers of single branches of IRMaSim that are not simulated here: why, and what comes near."""

OTHER_ORDERS = {"narrowest": "smallest", "widest": "largest"}
"""Orders of jobs in HBackfillR, and what they are called here."""

MANAGER_KEYS = (
    *("type", "job_selection", "resource_selection", "node_selection", "scheduling_option", "metric", "fit_criteria"),
    *("environment", "agent"),
)
"""Keys of a manager; one may hold keys of another, which IRMaSim ignores, too."""

ALGORITHMS = {"ActorCritic": "hdeeprm_actor_critic"}
PHASES = {"train": "train", "eval": "test"}
DUPLEX = ("duplex", "min_min", "max_min")
ENERGY_METRICS = ("energy", "edp", "timetasks")
FIT_METRICS = ("time", "core", "timecore")
FIT_CRITERIA = ("best", "worst")
RANDOM = "random"


def options_of(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return options of IRMaSim as options of ours.

    Raise OptionsError if a key is missing or has a value that means nothing here, ReadError if trajectories are drawn
    and the workload cannot be read.

    ``folder``: folder that relative paths start from.
    """
    if "workload_file" not in data:
        raise OptionsError("workload_file is missing, expected the path of a workload")
    platform, named = data.get("platform_file"), data.get("platform_name")
    if not (isinstance(named, str) or isinstance(platform, str)):
        raise OptionsError("platform_file and platform_name are missing, expected a file and a name in it")
    manager = _block(data, "workload_manager")
    if "type" not in manager:
        manager["type"] = "Minimal"
    env, agent = _decider(manager)
    path = named if platform is None else platform if named is None else f"{platform}#{named}"
    translated: dict[str, Any] = {
        "platform_file_path": path,
        "workload_file_path": data["workload_file"],
        "contention": _model(path, folder),
        "pybatsim": {"env": env, "agent": agent},
    }
    if agent["type"] == "LEARNING":
        translated["learning"] = _learning(data, manager, folder)
    else:
        translated |= _window(data, folder)
    return _merged(translated, {key: value for key, value in data.items() if key not in (*READ_KEYS, *PASSED_OVER)})


def _model(path: object, folder: Path) -> str:
    """Return the contention of a platform; mistakes are named when the platform is read."""
    file, name = file_and_name(folder / expanded(str(path)))
    try:
        platforms = read_json(file)["platform"]
        model = str(platforms[name or next(iter(platforms))].get("model_name", MODEL_V1))
    except (HdrlError, LookupError, TypeError, AttributeError, StopIteration):
        return MODEL_V1
    return MODEL_V1 if model == MODEL_V1_1 else model


def _merged(options: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block with the keys of another, which come first; blocks within are merged alike."""
    merged = dict(options)
    for key, value in given.items():
        known = merged.get(key)
        merged[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
    return merged


def _block(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, Mapping):
        raise OptionsError(f"{key} is {shown(value)}, expected an object")
    return dict(value)


def _decider(manager: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the environment and the agent that a workload manager amounts to."""
    kind = manager["type"]
    if not isinstance(kind, str) or kind not in MANAGERS:
        why = ELSEWHERE.get(str(kind), f"which is not simulated here; {suggest(str(kind), MANAGERS)}")
        raise OptionsError(f"workload_manager.type is {shown(kind)}, {why}")
    for key in manager:
        if key not in MANAGER_KEYS:
            raise OptionsError(f"workload_manager has no key {shown(key)}; {suggest(key, MANAGER_KEYS)}")
    resources = _word(manager, "resource_selection", "first")
    if kind == "Policy":
        return _learner(manager)
    if kind == "Duplex":
        policy = _chosen(manager, "scheduling_option", DUPLEX)
    elif kind in BY_ORDER:
        order = _word(manager, "job_selection", "first")
        # Older versions say node_selection.
        resources = _word(manager, "resource_selection", _word(manager, "node_selection", "first"))
        policy = f"fcfs+{kind.lower()}_{OTHER_ORDERS.get(order, order)}-node_{resources}"
    elif kind == "BackfillFit":
        fit = f"{_chosen(manager, 'metric', FIT_METRICS)}_{_chosen(manager, 'fit_criteria', FIT_CRITERIA)}"
        policy = f"fcfs+backfillfit_{fit}-node_{resources}"
    elif kind == "BackfillBestFit":
        policy = f"fcfs+backfillbestfit-node_{resources}"
    elif kind == "EnergyHeuristic":
        policy = _by_energy(manager)
    else:
        jobs = {"Heuristic": _word(manager, "job_selection", "first"), "Backfill": "fcfs+easy"}.get(kind)
        policy = "first-first" if jobs is None else f"{jobs}-node_{resources}"
    return {}, {"type": "CLASSIC", "policy_pair": policy}


def _word(manager: Mapping[str, Any], key: str, default: str) -> str:
    """Return the word that a key has."""
    word = manager.get(key, default)
    if not isinstance(word, str):
        raise OptionsError(f"workload_manager.{key} is {shown(word)}, expected a word such as {default!r}")
    return word


def _chosen(manager: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str:
    """Return one of the words that a key may have, the first by default."""
    word = manager.get(key, known[0])
    if word not in known:
        raise OptionsError(f"workload_manager.{key} is {shown(word)}; {suggest(str(word), known)}")
    return str(word)


def _by_energy(manager: Mapping[str, Any]) -> str:
    """Return the policy that uses energies."""
    metric = _chosen(manager, "metric", ENERGY_METRICS)
    job, node = (_word(manager, f"{what}_selection", "lowest") for what in ("job", "resource"))
    return f"{metric}_{job}+skip-node_{'energy' if metric == 'timetasks' else metric}_{node}"


def _learner(manager: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the environment and the agent of the manager that learns."""
    env = {"observation": "minimal", **_block(manager, "environment")}
    agent = _block(manager, "agent")
    name, phase = agent.pop("name", "ActorCritic"), agent.pop("phase", "train")
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise OptionsError(f"workload_manager.agent.name is {shown(name)}; {suggest(str(name), ALGORITHMS)}")
    if not isinstance(phase, str) or phase not in PHASES:
        raise OptionsError(f"workload_manager.agent.phase is {shown(phase)}; {suggest(str(phase), PHASES)}")
    actions = {"void": False, **_block(env, "actions")}
    env["actions"] = actions
    pairs = _pairs(actions.get("selection"))
    if len(pairs) == 1:  # there is nothing to learn
        return env, {"type": "CLASSIC", "policy_pair": pairs[0]}
    return env, {"type": "LEARNING", "run": PHASES[phase], **agent}


def _pairs(selection: object) -> list[str]:
    """Return the pairs of a selection, if it is one: options check it later."""
    entries = [entry for entry in selection if isinstance(entry, Mapping)] if isinstance(selection, list) else []
    return [
        f"{job}-{core}"
        for entry in entries
        for job, cores in entry.items()
        if isinstance(cores, list)
        for core in cores
    ]


def _learning(data: Mapping[str, Any], manager: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the learning options of the agent, and the jobs of its training."""
    name = _block(manager, "agent").get("name", "ActorCritic")
    learning: dict[str, Any] = {
        "algorithm": ALGORITHMS[name],
        "n_envs": _count(data, "nbtrajectories", 1),
    }
    length, origin = (_count(data, f"trajectory_{key}", 0, may_be_drawn=True) for key in ("length", "origin"))
    if length == 0 and origin == 0:
        return learning
    if length == 0:
        raise OptionsError(f"trajectory_origin is {shown(origin)}, expected a trajectory_length, too")
    n_jobs = [1, _n_jobs(folder / expanded(str(data["workload_file"])))] if length == RANDOM else length
    learning["episodes"] = {"n_jobs": n_jobs, "start": origin}
    # IRMaSim knows no parts: it learns from all jobs and is measured on them.
    learning["episodes"] |= {part: [0.0, 1.0] for part in ("train", "validation", "test")}
    return learning


def _window(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the window of an agent that does not learn; ``random`` values are drawn by the seed."""
    length, origin = (_count(data, f"trajectory_{key}", 0, may_be_drawn=True) for key in ("length", "origin"))
    if RANDOM in (length, origin):
        n_jobs = _n_jobs(folder / expanded(str(data["workload_file"])))
        draws = stream(_count(data, "seed", 0), "irmasim-trajectory")
        length = int(draws.integers(1, n_jobs, endpoint=True)) if length == RANDOM else length
        most = max(0, n_jobs - max(length, 1))
        origin = int(draws.integers(0, most, endpoint=True)) if origin == RANDOM else origin
    chosen: dict[str, Any] = {} if length == 0 else {"nb_jobs": length}
    return chosen if origin == 0 else {**chosen, "workload": {"start": origin}}


_MOST_DIGITS = 18
"""Digits of the largest number that is read from text."""


def _count(data: Mapping[str, Any], key: str, default: int, *, may_be_drawn: bool = False) -> Any:
    """Return a number that IRMaSim takes as text, too."""
    value = data.get(key, default)
    if may_be_drawn and value == RANDOM:
        return RANDOM
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        or_drawn = " or 'random'" if may_be_drawn else ""
        raise OptionsError(f"{key} is {shown(value)}, expected a number{or_drawn}")
    return int(text)


def _n_jobs(path: Path) -> int:
    """Return the number of jobs of a workload."""
    if path.name.lower().endswith(CSV_SUFFIXES):
        n_jobs = len(read_records(path))
    else:
        content = read_json(path)
        jobs = content.get("jobs") if isinstance(content, Mapping) else None
        n_jobs = len(jobs) if isinstance(jobs, list) else 0
    if n_jobs == 0:
        raise OptionsError(f"{path}: holds no jobs to draw a trajectory from")
    return n_jobs
