"""The environments of a training or a test, from options or from what a model file says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError, suggest
from hdrl.options import Options

if TYPE_CHECKING:
    from hdrl.platform.model import Platform
    from hdrl.workload.model import Workload

IDS = {"policy_pair": "hdrl/PolicyPair-v0", "job_pick": "hdrl/JobPick-v0"}
"""Registered names of the environments, by their names in options."""

GIVEN = (
    *("platform", "workload", "n_procs", "n_jobs", "start", "part"),
    *("num_envs", "autoreset_mode", "copy", "render_mode"),
)
"""Arguments that other options amount to."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """An environment without the platform and the jobs that it simulates.

    Attributes
    ----------
    id
        Its registered name.
    arguments
        Its arguments, as JSON.
    """

    id: str
    arguments: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it as it stands in a model file."""
        return {"id": self.id, "arguments": with_objective_at(self.arguments, lambda file: Path(file).name)}

    def single(self, platform: Platform, workload: Workload, **arguments: Any) -> Any:
        """Make a single environment.

        Parameters
        ----------
        platform, workload
            What it simulates.
        **arguments
            Further arguments, for instance which jobs an episode holds.
        """
        given = {**self._whole(), **self.arguments, **arguments}
        return _creator(self.id, "entry_point")(platform=platform, workload=workload, **given)

    def batch(self, n_envs: int, platform: Platform, workload: Workload, **arguments: Any) -> Any:
        """Make a batch of environments.

        Parameters
        ----------
        n_envs
            How many.
        platform, workload
            What they simulate.
        **arguments
            Further arguments, for instance which jobs an episode holds.
        """
        make = _creator(self.id, "vector_entry_point")
        given = {**self._whole(), **self.arguments, **arguments}
        return make(num_envs=n_envs, platform=platform, workload=workload, **given)

    def player(self, platform: Platform, workload: Workload, *, energy: bool | None = None) -> Any:
        """Make the environment in which a model is played: all is simulated there as for any other policy.

        Parameters
        ----------
        platform, workload
            What is simulated.
        energy
            Whether energy is accounted for where the model does not say so; ``None``: if the platform tells of it.

        Raises
        ------
        HdrlError
            If the decisions of the model cannot be carried out there.
        """
        if self.id != IDS["job_pick"]:
            return self.single(platform, workload)
        from hdrl.envs.job_pick_player import JobPickPlayer

        return JobPickPlayer(platform=platform, workload=workload, energy=energy, **self.arguments)

    def check_can_play(self) -> None:
        """Refuse an environment of which no model can be played by `player`.

        Raises
        ------
        OptionsError
            If it is in a compatibility mode of its own.
        """
        if self.id == IDS["job_pick"]:
            from hdrl.envs.job_pick_player import check_can_play

            check_can_play(self.arguments.get("compatibility"))

    def check_exact(self, platform: Platform, workload: Workload, where: str) -> None:
        """Refuse what the environment does not simulate as the other policies are simulated.

        Parameters
        ----------
        platform, workload
            What it would simulate.
        where
            Who asks for it, for the message.

        Raises
        ------
        OptionsError
            If it simulates these in another way.
        """
        why = _creator(self.id, "vector_entry_point").refuses(platform, workload)
        if why is not None:
            raise OptionsError(f"{where}: {self.id} does not simulate this: {why}")

    @property
    def is_compatible(self) -> bool:
        """Whether it is in a compatibility mode, which is a simulator of its own."""
        return self.arguments.get("compatibility") is not None

    def goal(self) -> tuple[str, int]:
        """Return what an episode is for, a metric, and 1 where more of it is better, else -1."""
        from hdrl.envs.rewards import read_objective

        parameters = inspect.signature(_creator(self.id, "vector_entry_point")).parameters
        objective = read_objective(self.arguments.get("objective", parameters["objective"].default))
        return objective.metric, objective.sign

    def action_names(self) -> tuple[str, ...]:
        """Return the names of the actions; none where they have no lasting meaning."""
        if self.id != IDS["policy_pair"]:
            return ()
        from hdrl.envs.policy_pair_arguments import action_names

        return tuple(action_names(self.arguments["actions"], void=self.arguments["void"]))

    def _whole(self) -> dict[str, Any]:
        """Return the arguments that make an episode of all jobs."""
        return {"n_jobs": "all"} if self.id == IDS["job_pick"] else {}


def environment_of(options: Options) -> EnvironmentSpec:
    """Return the environment that options ask for.

    Parameters
    ----------
    options
        The options.

    Raises
    ------
    OptionsError
        If an argument of it does not exist.
    """
    name = options.learning.environment
    arguments = dict(options.learning.arguments)
    for key in arguments:
        _check_argument(options, IDS[name], key)
    if name == "policy_pair":
        env = options.pybatsim.env
        arguments = {
            "objective": env.objective,
            "actions": env.actions.pairs(),
            "void": env.actions.void,
            "observation": env.observation,
            "queue_sensitivity": env.queue_sensitivity,
            "energy": options.energy,
            "compatibility": options.compatibility,
        } | arguments
    return EnvironmentSpec(IDS[name], with_objective_at(arguments, options.path_of))


def environment_from(data: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the environment that a model file says it was trained on.

    Parameters
    ----------
    data
        What `EnvironmentSpec.as_json` returned.
    """
    arguments = with_objective_at(data["arguments"], None)  # its file may be gone, and playing needs no rewards
    return EnvironmentSpec(str(data["id"]), arguments)


def with_objective_at(arguments: Mapping[str, Any], path_of: Callable[[str], Path | str] | None) -> dict[str, Any]:
    """Return arguments of an environment in which the file of a user's own objective is named from another place.

    Parameters
    ----------
    arguments
        The arguments; an objective that is no file is left alone.
    path_of
        Returns the new path of a file; ``None`` leaves such an objective out.
    """
    from hdrl.envs.own_objective import is_objective_file, moved_objective

    objective = arguments.get("objective")
    if not isinstance(objective, str) or not is_objective_file(objective):
        return dict(arguments)
    if path_of is None:
        return {name: value for name, value in arguments.items() if name != "objective"}
    return {**arguments, "objective": moved_objective(objective, path_of)}


def _creator(environment: str, entry: str) -> Any:
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    import hdrl.envs  # noqa: F401 (registers them)

    found = getattr(gymnasium.spec(environment), entry)
    return load_env_creator(found) if isinstance(found, str) else found


def _check_argument(options: Options, environment: str, key: str) -> None:
    parameters = inspect.signature(_creator(environment, "vector_entry_point")).parameters
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [name for name, one in parameters.items() if name not in GIVEN and one.kind in kinds]
    if key not in known:
        raise OptionsError(f"{options.where}: learning.arguments has no key {key!r}; {suggest(key, known)}")
