"""The environments of a training or a test, from options or from what a model file says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import OptionsError, UnknownName, suggest
from hdrl.options.file import OptionsFile
from hdrl.setting import (
    Configured,
    EnvironmentSpec,
    ExtraTrainingData,
    Fingerprints,
    Indexed,
    Load,
    LoadPart,
    Machine,
    Player,
    Setting,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


RECORDS = "records"
"""Argument of environments that keep a trace only on request."""


@dataclass(frozen=True, slots=True)
class ChosenEnvironment:
    """An environment without the machine and the load that it simulates."""

    spec: EnvironmentSpec  # kind of the environment
    arguments: dict[str, Any]  # its arguments, as JSON

    @property
    def id(self) -> str:
        """Its registered name."""
        return self.spec.id

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in a model file."""
        arguments = _with_objective_at(self.arguments, lambda file: Path(file).name)
        return {"id": self.id, "arguments": _with_files_at(self.spec, arguments, lambda file: Path(file).name)}

    def single(self, machine: Machine, load: Load) -> Any:
        """Make a single environment of a whole load, which keeps the trace of its last episode."""
        if isinstance(self.spec, Indexed):  # weights are simulated as policies are; its environment keeps no trace
            return self.player(machine, load)
        given = self.spec.input_arguments(machine, load, None) | self.arguments
        if not self.is_compatible and RECORDS in inspect.signature(creator(self.id, "vector_entry_point")).parameters:
            given[RECORDS] = True
        return creator(self.id, "entry_point")(**given)

    def batch(self, n_envs: int, machine: Machine, load: Load, **window: Any) -> Any:
        """Make a batch of environments."""
        given = self.spec.input_arguments(machine, load, window or None) | self.arguments
        return creator(self.id, "vector_entry_point")(num_envs=n_envs, **given)

    def player(self, machine: Machine, load: Load, options: Any = None) -> Any:
        """Make an environment in which a model decides about a whole load, under the physics of all candidates."""
        return self.spec.player(machine, load, self.arguments, options)

    def player_outside(self, machine: Machine, load: Load, options: Any, folder: Path | None) -> Any:
        """Make the same in the simulator that options name, which may leave files in a folder."""
        return self.spec.player_outside(machine, load, self.arguments, options, folder)

    def check_can_play(self, where: str, machine: Machine | None = None) -> None:
        """Refuse an environment whose models `player` cannot play, on any machine or on this one."""
        why = self.spec.unplayable_reason(self.arguments, machine)
        if why is not None:
            raise OptionsError(f"{where}: {why}")

    def check_exact(self, machine: Machine, load: Load, where: str) -> None:
        """Refuse a machine and a load that it cannot simulate exactly."""
        why = self.spec.unsupported_reason(machine, load, self.arguments)
        if why is not None:
            raise OptionsError(f"{where}: {self.id} cannot simulate {load.name} on {machine.name}: {why}")

    @property
    def is_compatible(self) -> bool:
        """True if it is in a compatibility mode, which is a simulator of its own."""
        return self.arguments.get("compatibility") is not None

    def configurations(self, load: Load) -> Sequence[int]:
        """Return the first items of the configurations of a load; most loads have one."""
        return self.spec.configurations(load) if isinstance(self.spec, Configured) else (0,)

    def configuration_coordinates(self, load: Load) -> Sequence[tuple[float, ...]]:
        """Return the coordinates of the configurations of a load."""
        return self.spec.configuration_coordinates(load) if isinstance(self.spec, Configured) else ((0.0,),)

    def configuration_now(self, env: Player, load: Load) -> int:
        """Return the configuration of a load that is in force in a single environment that simulates all of it."""
        return self.spec.configuration_now(env, load) if isinstance(self.spec, Configured) else 0

    def extra_training_data(self, part: tuple[float, float]) -> Sequence[LoadPart]:
        """Return further training loads, see `ExtraTrainingData.extra_training_data`."""
        return self.spec.extra_training_data(self.arguments, part) if isinstance(self.spec, ExtraTrainingData) else ()

    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actions; none where they have no lasting meaning."""
        return self.spec.action_names(self.arguments)

    def objective(self) -> tuple[str, int]:
        """Return the metric that an episode is for, and 1 where more of it is better, else -1."""
        return self.spec.objective(self.arguments)

    def usual_settings(self) -> dict[str, object]:
        """Return settings of agents that are usual in it: how far a search of weights goes at first."""
        return {"sigma": self.spec.index(self.arguments).sigma} if isinstance(self.spec, Indexed) else {}


def fingerprints_of(spec: EnvironmentSpec, machine: Machine, load: Load) -> NDArray[np.int64] | None:
    """Return the fingerprint of each item of a load as one number; ``None`` if only a whole load has a hash."""
    return spec.item_fingerprints(machine, load) if isinstance(spec, Fingerprints) else None


def run_length_of(spec: EnvironmentSpec) -> int:
    """Return the number of items one after the other that are known again."""
    return spec.run_length if isinstance(spec, Fingerprints) else Fingerprints.run_length


def environment_of(options: OptionsFile, setting: Setting) -> ChosenEnvironment:
    """Return the environment that options of a setting ask for."""
    known = setting.environments
    if not known:
        raise OptionsError(f"{options.where}: setting {setting.name} has no environment to learn in")
    name = options.learning.environment or next(iter(known), "")
    if name not in known:
        raise OptionsError(f"{options.where}: learning.environment: {UnknownName('environment', name, known)}")
    spec = known[name]
    parameters = _parameters(spec)
    for key in options.learning.arguments:
        if key not in parameters:
            raise OptionsError(f"{options.where}: learning.arguments has no key {key!r}; {suggest(key, parameters)}")
    arguments = {**spec.arguments(options), **options.learning.arguments}
    arguments = _with_files_at(spec, arguments, options.file_or_name)
    return ChosenEnvironment(spec, _with_objective_at(arguments, options.path_of))


def environment_from(spec: EnvironmentSpec, arguments: Mapping[str, Any]) -> ChosenEnvironment:
    """Return the environment that a model file says it was trained in."""
    without = _with_objective_at(arguments, None)  # its file may be gone; playing has no rewards
    return ChosenEnvironment(spec, spec.saved_arguments(without))


def _with_objective_at(arguments: Mapping[str, Any], path_of: Callable[[str], Path | str] | None) -> dict[str, Any]:
    """Return arguments in which a file of a user's own objective has a new path; ``None`` leaves the objective out."""
    from hdrl.envs.own_objective import is_objective_file, moved_objective

    objective = arguments.get("objective")
    if not isinstance(objective, str) or not is_objective_file(objective):
        return dict(arguments)
    if path_of is None:
        return {name: value for name, value in arguments.items() if name != "objective"}
    return {**arguments, "objective": moved_objective(objective, path_of)}


def _with_files_at(
    spec: EnvironmentSpec, arguments: Mapping[str, Any], path_of: Callable[[str], Path | str]
) -> dict[str, Any]:
    """Return arguments in which lists of files are named from another folder."""
    moved = {
        name: [str(path_of(one)) for one in arguments[name]]
        for name in (spec.file_arguments if isinstance(spec, ExtraTrainingData) else ())
        if isinstance(arguments.get(name), list) and all(isinstance(one, str) for one in arguments[name])
    }
    return {**arguments, **moved}


def creator(environment: str, entry: str) -> Any:
    """Return the constructor of environments.

    ``entry`` is ``"entry_point"`` for single ones, ``"vector_entry_point"`` for batches.
    """
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    import hdrl.envs  # noqa: F401 (registers them)

    found = getattr(gymnasium.spec(environment), entry)
    return load_env_creator(found) if isinstance(found, str) else found


def _parameters(spec: EnvironmentSpec) -> dict[str, inspect.Parameter]:
    """Return the parameters of an environment that options may give, by name."""
    parameters = inspect.signature(creator(spec.id, "vector_entry_point")).parameters
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {name: one for name, one in parameters.items() if name not in spec.given and one.kind in kinds}


CHANGES_NEITHER = ("objective", "reward", "reference", "n_threads", "more_logs")
"""Arguments that change neither actions nor observations: what is rewarded, and how fast it is."""


def check_same_meaning(trained: ChosenEnvironment, now: ChosenEnvironment, path: Path) -> None:
    """Refuse a model whose actions or observations mean something else here."""
    if trained.id != now.id:
        raise OptionsError(f"{path}: was trained in {trained.id}, not in {now.id}")
    before, after = meaning_of(trained), meaning_of(now)
    for key in sorted({*before, *after}):
        if before.get(key) != after.get(key):
            raise OptionsError(f"{path}: was trained with {key} = {before.get(key)!r}, not {after.get(key)!r}")


def meaning_of(environment: ChosenEnvironment) -> dict[str, Any]:
    """Return the arguments that actions and observations depend on, with the defaults filled in."""
    spec = environment.spec
    defaults = {
        name: one.default for name, one in _parameters(spec).items() if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    values = defaults | environment.arguments
    values |= spec.effective_arguments(values)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if name not in CHANGES_NEITHER
    }
