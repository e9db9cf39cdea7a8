"""Checks that every setting must pass: the parts of `hdrl.setting.Setting`, answered as they are meant."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdrl.base.errors import HdrlError
from hdrl.options import Sweep
from hdrl.setting import (
    Cautions,
    Configured,
    EnvironmentSpec,
    Fingerprints,
    Indexed,
    Load,
    LoadGenerator,
    Machine,
    Setting,
)
from hdrl.trace.model import TaskState, Trace

if TYPE_CHECKING:
    import pytest

_LONGEST_REPR = 1000
"""A notebook shows the repr of a value in its cell."""


@dataclass(frozen=True, slots=True)
class SettingCheck:
    """A check of a setting, to be called; it raises an `AssertionError` that says which answer is wrong.

    Attributes
    ----------
    name
        Subject of the check: ``"machine"``, ``"simulation of fcfs"``.
    """

    name: str
    _check: Callable[[], None]

    def __call__(self) -> None:
        """Check it."""
        try:
            self._check()
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}") from None

    def __str__(self) -> str:
        """Return the name, which identifies a test."""
        return self.name


def setting_checks(
    setting: Setting, *, platform: str, workload: str, n_items: int = 50, offered_load: float = 0.7
) -> list[SettingCheck]:
    """Return the checks of a setting one by one, for tests of their own (`parametrize_with_checks`).

    Nothing is read or simulated before a check is called.

    Parameters
    ----------
    platform
        A machine of it, as its sweeps name it.
    workload
        A load of at least ``n_items`` items, as its sweeps name it.
    """
    subject = _Subject(setting, platform, workload, n_items, offered_load)
    checks: list[tuple[str, Callable[[], None]]] = [
        (check.__name__.removeprefix("_check_").replace("_", " "), partial(check, subject))
        for check in (_check_names, _check_groups, _check_additions, _check_metrics, _check_machine, _check_load)
    ]
    if isinstance(setting.inputs, LoadGenerator):
        checks.append(("generated load", partial(_check_generated, subject, setting.inputs)))
    if isinstance(setting.inputs, Cautions):
        checks.append(("cautions", partial(_check_cautions, subject, setting.inputs)))
    checks.append(("warm-up", partial(_check_warm_up, subject)))
    for policy in _some_policies(setting):
        for what, check in (
            ("simulation of", _check_simulation),
            ("repetition of", _check_repetition),
            ("metrics of", _check_measures),
            ("part of", _check_part),
            ("files of", _check_files),
        ):
            checks.append((f"{what} {policy}", partial(check, subject, policy)))
    for name, spec in setting.environments.items():
        checks.append((f"goal of {name}", partial(_check_goal, subject, spec)))
        check_player = _check_index if isinstance(spec, Indexed) else _check_player
        checks.append((f"player of {name}", partial(check_player, subject, spec)))
        if isinstance(spec, Fingerprints):
            checks.append((f"marks of {name}", partial(_check_fingerprints, subject, spec)))
        if isinstance(spec, Configured):
            checks.append((f"configurations of {name}", partial(_check_configurations, subject, spec)))
    return [SettingCheck(name, check) for name, check in checks]


def check_setting(
    setting: Setting, *, platform: str, workload: str, n_items: int = 50, offered_load: float = 0.7
) -> None:
    """Check that a setting is complete: call all of `setting_checks`, with the same parameters."""
    for check in setting_checks(
        setting, platform=platform, workload=workload, n_items=n_items, offered_load=offered_load
    ):
        check()


def parametrize_with_checks(
    setting: Setting, *, platform: str, workload: str, n_items: int = 50, offered_load: float = 0.7
) -> pytest.MarkDecorator:
    """Return a decorator by which pytest calls a test with each of `setting_checks`, under its name.

    The test has one parameter, ``check``, and calls it. The parameters here are those of `setting_checks`.
    """
    import pytest

    checks = setting_checks(setting, platform=platform, workload=workload, n_items=n_items, offered_load=offered_load)
    return pytest.mark.parametrize("check", checks, ids=str)


@dataclass
class _Subject:
    """A setting, and what is simulated of it, made when it is first needed."""

    setting: Setting
    platform: str
    workload: str
    n_items: int
    offered_load: float
    _traces: dict[str, Trace] = field(default_factory=dict)

    @cached_property
    def _read(self) -> tuple[Sweep, Machine, Load]:
        inputs, baseline = self.setting.inputs, self.setting.policies.default_baseline
        data: dict[str, object] = {"platform": self.platform, "workloads": [self.workload], "candidates": [baseline]}
        if "setting" in inputs.Sweep.model_fields:
            data["setting"] = self.setting.name
        sweep = inputs.Sweep.model_validate(data)
        machine = inputs.machine(sweep)
        sweep = sweep.completed(machine, baseline=baseline, metrics=self.setting.measures.compared)
        (whole,) = inputs.loads(sweep, machine)
        return sweep, machine, whole.window(0, self.n_items)

    @property
    def sweep(self) -> Sweep:
        return self._read[0]

    @property
    def machine(self) -> Machine:
        return self._read[1]

    @property
    def load(self) -> Load:
        return self._read[2]

    def simulated(self, policy: str, seed: int) -> Trace:
        return self.setting.simulator.simulate(self.machine, self.load, policy, seed=seed, options=self.sweep)

    def trace(self, policy: str) -> Trace:
        """Return the trace of a policy, which its checks share."""
        if policy not in self._traces:
            self._traces[policy] = self.simulated(policy, seed=3)
        return self._traces[policy]


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _some_policies(setting: Setting) -> list[str]:
    """Return the baseline, and a policy of each group."""
    policies = setting.policies
    return list(
        dict.fromkeys([policies.default_baseline, *(names[-1] for names in policies.groups().values() if names)])
    )


# ------------------------------------------------------------------ policies and metrics


def _check_names(subject: _Subject) -> None:
    policies = subject.setting.policies
    for name in policies.names():
        _require(policies.read(name) == name, f"policies.read({name!r}) gives another name")
        _require(
            isinstance(policies.uses_hidden_information(name), bool),
            f"policies.uses_hidden_information({name!r}) is not a bool",
        )
    _require(not _is_read(subject, "no such policy"), "policies.read takes a policy that does not exist")


def _check_groups(subject: _Subject) -> None:
    policies = subject.setting.policies
    _require("heuristics" in policies.groups(), "policies.groups() has no 'heuristics'")
    for group, names in policies.groups().items():
        _require(names, f"the group {group!r} is empty")
        for name in names:
            _require(policies.read(name) == name, f"the group {group!r} has a policy that is not today's: {name!r}")


def _check_additions(subject: _Subject) -> None:
    policies = subject.setting.policies
    for addition in policies.suffixes():
        _require(
            any(_is_read(subject, f"{name}{addition}") for name in policies.names()),
            f"policies.suffixes() has {addition!r}, which may follow the name of no policy",
        )


def _is_read(subject: _Subject, name: str) -> bool:
    try:
        subject.setting.policies.read(name)
    except HdrlError:
        return False
    return True


def _check_metrics(subject: _Subject) -> None:
    measures = subject.setting.measures
    _require(measures.compared, "measures.compared is empty: no metric decides")
    _require("n_jobs" in measures.metrics, "measures.metrics has no n_jobs: how many items a simulation had")


# ------------------------------------------------------------------ inputs


def _check_machine(subject: _Subject) -> None:
    machine = subject.machine
    _require(machine.n_units == sum(machine.unit_kinds.values()), "unit_kinds do not add up to n_units")
    _require(machine.facts().get("name") == machine.name, "machine.facts() has no name")
    _require(len(machine.sha256()) == 64, "the SHA-256 of a machine has 64 digits")
    _check_repr(machine)


def _check_repr(value: object) -> None:
    length = len(repr(value))
    _require(length < _LONGEST_REPR, f"repr of {type(value).__name__} has {length:,} characters, expected one line")


def _check_load(subject: _Subject) -> None:
    load = subject.load
    _require(len(load.sha256()) == 64, "the SHA-256 of a load has 64 digits")
    _check_repr(load)
    _require(load.window(0, load.n_items).sha256() == load.window(0, load.n_items).sha256(), "window is not repeatable")
    _require(load.window(1, 2).n_items == 2, "window(1, 2) does not hold two items")
    for start, n_items in ((-1, 1), (0, load.n_items + 1), (0, 0)):
        try:
            load.window(start, n_items)
        except HdrlError:
            continue
        raise AssertionError(f"window({start}, {n_items}) of {load.n_items} items is not refused")


def _check_generated(subject: _Subject, inputs: LoadGenerator) -> None:
    def generate(seed: int) -> Load:
        return inputs.generate(
            subject.sweep, subject.machine, subject.n_items, offered_load=subject.offered_load, seed=seed
        )

    generated = generate(1)
    _require(generated.n_items == subject.n_items, "generate made another number of items")
    _require(generated.sha256() == generate(1).sha256(), "generate makes another load of the same seed")
    offered = subject.setting.inputs.offered_load(subject.machine, generated)
    _require(offered is not None and offered > 0, "a generated load has no offered load")


def _check_cautions(subject: _Subject, inputs: Cautions) -> None:
    loads = [subject.load]
    unknown = set(inputs.exact_estimates(subject.sweep, loads)) - {subject.load.name}
    _require(not unknown, f"exact_estimates names {sorted(unknown)}, which are not loads")
    for kind, sentence in inputs.cautions(subject.sweep, subject.machine, loads):
        _require(kind and sentence and "\n" not in sentence, f"the caution {kind!r} is not a line")


# ------------------------------------------------------------------ simulator, measures, view


def _check_warm_up(subject: _Subject) -> None:
    def note(message: str) -> None:
        _require(message and "\n" not in message, "a message before something takes long is not a line")

    subject.setting.simulator.warm_up([subject.setting.policies.default_baseline], note)


def _check_simulation(subject: _Subject, policy: str) -> None:
    trace, load = subject.trace(policy), subject.load
    _check_repr(trace)
    tasks, stays = trace.tasks, trace.stays
    _require(len(tasks) == load.n_items, "tasks are not the items of the load")
    started = tasks["start_s"] >= 0
    ended = tasks["end_s"] >= 0
    _require(np.all(tasks["start_s"][started] >= tasks["release_s"][started] - 1e-6), "a start before a release")
    _require(np.all(tasks["end_s"][ended] >= tasks["start_s"][ended]), "an end before a start")
    is_done = np.isin(tasks["state"], (TaskState.DONE, TaskState.FAILED, TaskState.OVERRAN, TaskState.KILLED))
    _require(np.all(ended[is_done & started]), "a finished task without an end")
    _require(np.all(np.diff(stays["start_s"]) >= 0), "stays are not in the order of their starts")
    last = stays["first_unit"] + stays["n_units"]
    _require(np.all(last <= len(trace.stay_units)), "a stay on units that are not in stay_units")
    if len(trace.stay_units):
        _require(0 <= trace.stay_units.min() <= trace.stay_units.max() < subject.machine.n_units, "no such unit")
    for name, signal in trace.signals.items():
        _require(np.all(np.diff(signal.time_s) >= 0), f"the dates of {name} go back")
        _require(len(signal.time_s) == len(signal.value), f"{name} has dates without values")


def _check_repetition(subject: _Subject, policy: str) -> None:
    tasks = subject.trace(policy).tasks.tobytes()
    _require(subject.simulated(policy, seed=3).tasks.tobytes() == tasks, "the same seed gives other tasks")
    if not subject.setting.policies.draws(policy):
        _require(
            subject.simulated(policy, seed=4).tasks.tobytes() == tasks,
            f"policies.draws({policy!r}) is False, but another seed gives other tasks",
        )


def _check_measures(subject: _Subject, policy: str) -> None:
    measures = subject.setting.measures
    numbers = measures.measure(subject.trace(policy))
    _require(numbers["n_jobs"] == subject.load.n_items, "n_jobs is not the number of items")
    _require(not math.isnan(numbers[measures.compared[0]]), f"{measures.compared[0]} is NaN")


def _check_part(subject: _Subject, policy: str) -> None:
    n_items = subject.load.n_items - 8
    fewer = subject.setting.measures.measure(subject.trace(policy).part(5, n_items))
    _require(fewer["n_jobs"] == n_items, "part of a Trace leaves another number of items")


def _check_files(subject: _Subject, policy: str) -> None:
    files = subject.setting.view.files
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for file in files:
            file.write(subject.trace(policy), folder)
        promised = {name for file in files for name in file.names}
        made = {path.name for path in folder.iterdir()}
        promised -= {name for file in files if file.is_of_few for name in file.names} - made
        _require(made == promised, f"files are {sorted(made)}, promised were {sorted(promised)}")


# ------------------------------------------------------------------ environments


def _check_goal(subject: _Subject, spec: EnvironmentSpec) -> None:
    metric, sign = spec.objective({})
    _require(metric in subject.setting.measures.metrics or metric == "return", f"its goal {metric!r} is not a metric")
    _require(sign in (-1, 1), "the sign of its goal is neither 1 nor -1")


def _check_player(subject: _Subject, spec: EnvironmentSpec) -> None:
    machine, load = subject.machine, subject.load
    if spec.unsupported_reason(machine, load, {}) is not None or spec.unplayable_reason({}) is not None:
        return
    env = spec.player(machine, load, {})
    observation, info = env.reset(seed=1)
    done = False
    while not done:
        _require(env.observation_space.contains(observation), "an observation is not in its space")
        action = int(np.argmax(np.asarray(info["action_mask"])))
        observation, _, terminated, truncated, info = env.step(action)
        done = bool(terminated or truncated)
    episode = info.get("results")
    _require(isinstance(episode, Mapping) and "objective" in episode, "an episode's end has no objective")
    _require(len(env.trace().tasks) == load.n_items, "its trace has another number of items")
    env.close()


def _check_index(subject: _Subject, spec: Any) -> None:
    """Check that weights are judged as they are played, and that the last of several candidates is, too."""
    machine, load, index = subject.machine, subject.load, spec.index({})
    n = len(index.names)
    _require(len(set(index.names)) == n and index.start.shape == (n,), "names and first weights do not fit")
    _require(index.sigma > 0, "its sigma is not above 0")
    objectives = spec.run_index(machine, [load], np.array([index.start + index.sigma, index.start]), {})
    _require(objectives.shape == (2, 1), "run_index gives no objective of each candidate and load")
    env = spec.player(machine, load, {})
    observation, _ = env.reset(seed=1)
    _require(env.observation_space.contains(observation), "an observation is not in its space")
    _require(env.action_space.shape == (n,), "an action is not as many weights as have names")
    _, _, terminated, _, info = env.step(np.zeros(n))
    _require(terminated, "an episode has more than one step")
    _require(info["results"]["objective"] == objectives[1, 0], "weights are judged otherwise than played")
    _require(len(env.trace().tasks) == load.n_items, "its trace has another number of items")
    env.close()


def _check_fingerprints(subject: _Subject, spec: Fingerprints) -> None:
    machine, load = subject.machine, subject.load
    whole = spec.item_fingerprints(machine, load)
    _require(whole.shape == (load.n_items,) and whole.dtype == np.int64, "its marks are not one int64 an item")
    part = spec.item_fingerprints(machine, load.window(1, load.n_items - 1))
    _require(np.array_equal(part, whole[1:]), "marks of a window differ from those before")


def _check_configurations(subject: _Subject, spec: Configured) -> None:
    begins = list(spec.configurations(subject.load))
    _require(begins[:1] == [0] and begins == sorted(set(begins)), "configurations do not begin at 0, one after another")
    _require(
        len(spec.configuration_coordinates(subject.load)) == len(begins), "points are not one for each configuration"
    )
