"""The environments of batch jobs, as trainings and model files ask for them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError
from hdrl.setting import Message, PlainEnvironment

if TYPE_CHECKING:
    from hdrl.settings.batch.options import Options
    from hdrl.settings.batch.platform.model import Platform
    from hdrl.settings.batch.workload.model import Workload

GIVEN = frozenset(
    (
        *("platform", "workload", "n_procs", "n_jobs", "start", "part"),
        *("num_envs", "autoreset_mode", "copy", "render_mode"),
    )
)
"""Arguments that other options amount to."""


class PolicyPairSpec(PlainEnvironment):
    """Choosing a policy pair at every decision, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/PolicyPair-v0"
    given = GIVEN

    def arguments(self, options: Options) -> dict[str, Any]:
        """Return its arguments as ``pybatsim.env`` says them.

        Parameters
        ----------
        options
            The options.
        """
        env = options.pybatsim.env
        return {
            "objective": env.objective,
            "actions": env.actions.pairs(),
            "void": env.actions.void,
            "observation": env.observation,
            "queue_sensitivity": env.queue_sensitivity,
            "energy": options.energy,
            "compatibility": options.compatibility,
        }

    def places(self, machine: Platform, load: Workload, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated.

        Parameters
        ----------
        machine, load, window
            See `hdrl.setting.EnvironmentSpec.places`.
        """
        return {"platform": machine, "workload": load, **(window or {})}

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the pairs, and void.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        from hdrl.settings.batch.envs.policy_pair_arguments import action_names

        return tuple(action_names(arguments["actions"], void=arguments["void"]))

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective, and 1 where more of it is better, else -1.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        from hdrl.envs import PolicyPairVectorEnv

        return _goal(PolicyPairVectorEnv, arguments)

    def refuses(self, machine: Platform, load: Workload, arguments: Mapping[str, Any]) -> str | None:
        """Return why it cannot simulate jobs exactly; ``None`` if it can, since it runs on the policies' simulator.

        Parameters
        ----------
        machine, load, arguments
            See `hdrl.setting.EnvironmentSpec.refuses`.
        """
        from hdrl.envs import PolicyPairVectorEnv

        del arguments
        return PolicyPairVectorEnv.refuses(machine, load)

    def player(self, machine: Platform, load: Workload, arguments: Mapping[str, Any], options: Any = None) -> Any:
        """Return an environment in which a model decides about all jobs.

        Parameters
        ----------
        machine, load, arguments, options
            See `hdrl.setting.EnvironmentSpec.player`; the arguments say whether energy is accounted for.
        """
        from hdrl.envs import PolicyPairEnv

        del options
        return PolicyPairEnv(platform=machine, workload=load, **arguments)


class JobPickSpec(PlainEnvironment):
    """Picking waiting jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/JobPick-v0"
    given = GIVEN | {"guide", "keeps"}
    file_arguments = ("more_logs",)

    @staticmethod
    def is_dissertation(arguments: Mapping[str, Any]) -> bool:
        """Tell whether it is the environment of the dissertation.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        return arguments.get("compatibility") == "dissertation"

    def places(self, machine: Platform, load: Workload, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated.

        Parameters
        ----------
        machine, load, window
            See `hdrl.setting.EnvironmentSpec.places`.
        """
        return {"n_jobs": "all", "platform": machine, "workload": load, **(window or {})}

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective, and 1 where more of it is better, else -1.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        from hdrl.envs import JobPickVectorEnv

        return _goal(JobPickVectorEnv, arguments)

    def refuses(self, machine: Platform, load: Workload, arguments: Mapping[str, Any]) -> str | None:
        """Return why its simulator of identical processors cannot simulate jobs exactly; ``None`` if it can.

        Parameters
        ----------
        machine, load, arguments
            See `hdrl.setting.EnvironmentSpec.refuses`.
        """
        from hdrl.envs import JobPickVectorEnv

        del arguments
        return JobPickVectorEnv.refuses(machine, load)

    def meaning(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the choices whose defaults depend on other arguments.

        Parameters
        ----------
        arguments
            Its arguments, with defaults filled in.
        """
        if self.is_dissertation(arguments):
            return {}
        from hdrl.settings.batch.envs.job_pick_options import job_pick_options

        known = inspect.signature(job_pick_options).parameters
        options = job_pick_options(**{name: value for name, value in arguments.items() if name in known})
        return {"commitment": options.commitment, "backfilling": options.backfilling, "features": options.features}

    def knows_too_much(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether agents see how long jobs really run: an error of the dissertation, on request.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        return self.is_dissertation(arguments) and "true_run_times" in (arguments.get("errors") or ())

    def unplayable(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why no model of it can be played on the kernel; ``None`` if it can.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        from hdrl.settings.batch.envs.job_pick_player import check_can_play

        try:
            check_can_play(arguments.get("compatibility"))
        except OptionsError as error:
            return str(error)
        return None

    def player(self, machine: Platform, load: Workload, arguments: Mapping[str, Any], options: Any = None) -> Any:
        """Return an environment on the kernel in which a model picks among all jobs.

        Parameters
        ----------
        machine, load, arguments, options
            See `hdrl.setting.EnvironmentSpec.player`.
        """
        from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer

        energy = None if options is None else options.energy
        return JobPickPlayer(platform=machine, workload=load, energy=energy, **arguments)

    def warm_up(self, message: Message) -> None:
        """Compile what plays models.

        Parameters
        ----------
        message
            Message callback, called before anything takes long.
        """
        from hdrl.settings.batch.picking.compilation import warm_up

        warm_up(message)


class JobIndexSpec(PlainEnvironment):
    """Weights of an index of jobs, judged by whole windows of logs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/JobIndex-v0"
    given = GIVEN
    file_arguments = ("more_logs",)

    def places(self, machine: Platform, load: Workload, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated.

        Parameters
        ----------
        machine, load, window
            See `hdrl.setting.EnvironmentSpec.places`.
        """
        return {"n_jobs": "all", "platform": machine, "workload": load, **(window or {})}

    def goal(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective; less of each is better.

        Parameters
        ----------
        arguments
            Its arguments.
        """
        return str(arguments.get("objective", "mean_bounded_slowdown")), -1

    def player(self, machine: Platform, load: Workload, arguments: Mapping[str, Any], options: Any = None) -> Any:
        """Return an environment in which weights decide about all jobs.

        Parameters
        ----------
        machine, load, arguments, options
            See `hdrl.setting.EnvironmentSpec.player`.
        """
        from hdrl.settings.batch.envs.job_index import JobIndexPlayer

        energy = None if options is None else options.energy
        return JobIndexPlayer(platform=machine, workload=load, energy=energy, **arguments)


def _goal(environment: Any, arguments: Mapping[str, Any]) -> tuple[str, int]:
    """Return the metric of an environment's objective, and 1 where more of it is better, else -1."""
    from hdrl.settings.batch.envs.rewards import read_objective

    default = inspect.signature(environment).parameters["objective"].default
    objective = read_objective(arguments.get("objective", default))
    return objective.metric, objective.sign
