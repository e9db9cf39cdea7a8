"""Checks that every setting must pass: the questions of `hdrl.setting.Setting`, answered as they are meant."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import HdrlError
from hdrl.setting import EnvironmentSpec, Fingerprints, Indexed, Load, LoadGenerator, Machine, PolicyBook, Setting
from hdrl.trace.model import TaskState


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def check_setting(
    setting: Setting, *, platform: str, workload: str, n_items: int = 50, offered_load: float = 0.7
) -> None:
    """Check that a setting answers what it is asked.

    Parameters
    ----------
    setting
        The setting.
    platform
        A machine of it, as its sweeps name it.
    workload
        A load of at least ``n_items`` items, as its sweeps name it.
    n_items
        How many items are simulated.
    offered_load
        Offered load of what is generated.

    Raises
    ------
    AssertionError
        If an answer is not as it is meant; the message says which.
    """
    baseline = setting.policies.default_baseline
    data: dict[str, Any] = {"platform": platform, "workloads": [workload], "candidates": [baseline]}
    if "setting" in setting.inputs.Sweep.model_fields:
        data["setting"] = setting.name
    sweep = setting.inputs.Sweep.model_validate(data)
    machine = setting.inputs.machine(sweep)
    sweep = sweep.completed(machine, baseline=baseline, metrics=setting.measures.compared)
    (whole,) = setting.inputs.loads(sweep, machine)
    load = whole.window(0, n_items)
    _check_names(setting)
    _check_inputs(machine, load)
    if isinstance(setting.inputs, LoadGenerator):
        generated = setting.inputs.generate(sweep, machine, n_items, offered_load=offered_load, seed=1)
        _check_generated(setting, machine, load, generated)
    setting.simulator.warm_up([baseline], _hear)
    for policy in (baseline, *_others(setting)):
        _check_simulation(setting, sweep, machine, load, policy)
    _check_environments(setting, machine, load)


def _others(setting: Setting) -> list[str]:
    """Return a policy of each group."""
    return [names[-1] for names in setting.policies.groups().values() if names]


def _check_names(setting: Setting) -> None:
    policies = setting.policies
    known = set(policies.names())
    _require("heuristics" in policies.groups(), "policies.groups() has no 'heuristics'")
    for name in known:
        _require(policies.read(name) == name, f"policies.read({name!r}) gives another name")
    for group, names in policies.groups().items():
        _require(names, f"the group {group!r} is empty")
        for name in names:
            _require(policies.read(name) == name, f"the group {group!r} has a policy that is not today's: {name!r}")
    _require(not _is_read(policies, "no such policy"), "policies.read takes a policy that does not exist")
    for addition in policies.additions():
        _require(
            any(_is_read(policies, f"{name}{addition}") for name in policies.names()),
            f"policies.additions() has {addition!r}, which may follow the name of no policy",
        )
    _require(setting.measures.compared, "measures.compared is empty: no metric decides")
    _require("n_jobs" in setting.measures.metrics, "metrics has no n_jobs: how many items a simulation had")


def _is_read(policies: PolicyBook, name: str) -> bool:
    try:
        policies.read(name)
    except HdrlError:
        return False
    return True


def _check_inputs(machine: Machine, load: Load) -> None:
    _require(machine.n_units == sum(machine.unit_kinds.values()), "unit_kinds do not add up to n_units")
    _require(machine.facts().get("name") == machine.name, "machine.facts() has no name")
    _require(len(machine.sha256()) == len(load.sha256()) == 64, "a SHA-256 has 64 digits")
    _require(load.window(0, load.n_items).sha256() == load.window(0, load.n_items).sha256(), "window is not repeatable")
    _require(load.window(1, 2).n_items == 2, "window(1, 2) does not hold two items")
    for start, n_items in ((-1, 1), (0, load.n_items + 1), (0, 0)):
        try:
            load.window(start, n_items)
        except HdrlError:
            continue
        raise AssertionError(f"window({start}, {n_items}) of {load.n_items} items is not refused")


def _check_generated(setting: Setting, machine: Machine, load: Load, generated: Load) -> None:
    _require(generated.n_items == load.n_items, "generate made another number of items")
    offered = setting.inputs.offered_load(machine, generated)
    _require(offered is not None and offered > 0, "a generated load has no offered load")


def _check_simulation(setting: Setting, sweep: Any, machine: Machine, load: Load, policy: str) -> None:
    trace = setting.simulator.simulate(machine, load, policy, seed=3, options=sweep)
    again = setting.simulator.simulate(machine, load, policy, seed=3, options=sweep)
    what = f"{policy}: "
    tasks, stays = trace.tasks, trace.stays
    _require(len(tasks) == load.n_items, what + "tasks are not the items of the load")
    _require(tasks.tobytes() == again.tasks.tobytes(), what + "the same seed gives other tasks")
    started = tasks["start_s"] >= 0
    ended = tasks["end_s"] >= 0
    _require(np.all(tasks["start_s"][started] >= tasks["release_s"][started] - 1e-6), what + "a start before a release")
    _require(np.all(tasks["end_s"][ended] >= tasks["start_s"][ended]), what + "an end before a start")
    is_done = np.isin(tasks["state"], (TaskState.DONE, TaskState.FAILED, TaskState.OVERRAN, TaskState.KILLED))
    _require(np.all(ended[is_done & started]), what + "a finished task without an end")
    _require(np.all(np.diff(stays["start_s"]) >= 0), what + "stays are not in the order of their starts")
    last = stays["first_unit"] + stays["n_units"]
    _require(np.all(last <= len(trace.stay_units)), what + "a stay on units that are not in stay_units")
    if len(trace.stay_units):
        _require(0 <= trace.stay_units.min() <= trace.stay_units.max() < machine.n_units, what + "no such unit")
    for name, signal in trace.signals.items():
        _require(np.all(np.diff(signal.time_s) >= 0), what + f"the dates of {name} go back")
        _require(len(signal.time_s) == len(signal.value), what + f"{name} has dates without values")
    numbers = setting.measures.measure(trace)
    _require(
        list(numbers) == list(setting.measures.metrics),
        what + "measure gives other names than metrics, or another order",
    )
    _require(all(isinstance(value, float) for value in numbers.values()), what + "measure gives what is no float")
    _require(numbers["n_jobs"] == load.n_items, what + "n_jobs is not the number of items")
    fewer = setting.measures.measure(trace.part(5, load.n_items - 8))
    _require(fewer["n_jobs"] == load.n_items - 8, what + "part of a Trace leaves another number of items")
    _require(not math.isnan(numbers[setting.measures.compared[0]]), what + f"{setting.measures.compared[0]} is NaN")
    _check_files(setting, trace, what)


def _check_files(setting: Setting, trace: Any, what: str) -> None:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file in setting.view.files:
            file.write(trace, folder)
        promised = {name for file in setting.view.files for name in file.names}
        made = {path.name for path in folder.iterdir()}
        promised -= {name for file in setting.view.files if file.is_of_few for name in file.names} - made
        _require(made == promised, what + f"files are {sorted(made)}, promised were {sorted(promised)}")


def _check_environments(setting: Setting, machine: Machine, load: Load) -> None:
    for name, spec in setting.environments.items():
        what = f"environment {name}: "
        metric, sign = spec.goal({})
        _require(metric in setting.measures.metrics or metric == "return", what + f"its goal {metric!r} is no metric")
        _require(sign in (-1, 1), what + "the sign of its goal is neither 1 nor -1")
        _check_marks(what, spec, machine, load)
        if spec.refuses(machine, load, {}) is not None or spec.unplayable({}) is not None:
            continue
        if isinstance(spec, Indexed):
            _check_index(what, spec, machine, load)
            continue
        env = spec.player(machine, load, {})
        observation, info = env.reset(seed=1)
        done = False
        while not done:
            _require(env.observation_space.contains(observation), what + "an observation is not in its space")
            action = int(np.argmax(np.asarray(info["action_mask"])))
            observation, _, terminated, truncated, info = env.step(action)
            done = bool(terminated or truncated)
        episode = info.get("episode")
        _require(
            isinstance(episode, Mapping) and "objective" in episode,
            what + "an episode's end does not tell its objective",
        )
        _require(len(env.trace().tasks) == load.n_items, what + "its trace has another number of items")
        env.close()


def _check_index(what: str, spec: Any, machine: Machine, load: Load) -> None:
    """Check that weights are judged as they are played, and that the last of several candidates is, too."""
    index = spec.index({})
    n = len(index.names)
    _require(len(set(index.names)) == n and index.start.shape == (n,), what + "names and first weights do not fit")
    _require(index.sigma > 0, what + "its sigma is not above 0")
    objectives = spec.run_index(machine, [load], np.array([index.start + index.sigma, index.start]), {})
    _require(objectives.shape == (2, 1), what + "run_index gives no objective of each candidate and load")
    env = spec.player(machine, load, {})
    observation, _ = env.reset(seed=1)
    _require(env.observation_space.contains(observation), what + "an observation is not in its space")
    _require(env.action_space.shape == (n,), what + "an action is not as many weights as have names")
    _, _, terminated, _, info = env.step(np.zeros(n))
    _require(terminated, what + "an episode has more than one step")
    _require(info["episode"]["objective"] == objectives[1, 0], what + "weights are judged otherwise than played")
    _require(len(env.trace().tasks) == load.n_items, what + "its trace has another number of items")
    env.close()


def _check_marks(what: str, spec: EnvironmentSpec, machine: Machine, load: Load) -> None:
    if not isinstance(spec, Fingerprints):
        return
    whole = spec.marks(machine, load)
    _require(whole.shape == (load.n_items,) and whole.dtype == np.int64, what + "its marks are not one int64 an item")
    part = spec.marks(machine, load.window(1, load.n_items - 1))
    _require(np.array_equal(part, whole[1:]), what + "marks of a window differ from those before")


def _hear(message: str) -> None:
    _require(message and "\n" not in message, "a message before something takes long is no line")
