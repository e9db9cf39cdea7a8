"""The environments of batch jobs, as trainings and model files ask for them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import OptionsError
from hdrl.base.windows import range_of_shares
from hdrl.setting import EnvironmentSpec, ExtraTrainingData, Fingerprints, Index, Indexed, LoadPart, Message
from hdrl.settings.batch.options import Options
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulator_arguments import simulator_arguments
from hdrl.settings.batch.sweep import BatchSweep
from hdrl.settings.batch.workload.model import Workload

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


GIVEN = frozenset(
    (
        *("platform", "workload", "n_procs", "n_jobs", "start", "part"),
        *("num_envs", "autoreset_mode", "copy", "render_mode"),
    )
)
"""Arguments that other options amount to."""

OF_DATES = ("f1", "f2", "f3", "f4")
"""Priorities that depend on the date from which dates are counted."""

SECONDS_BITS = 32
"""Of the mark of a job, the bits that hold its run time."""

LONGEST_S = 2.0**SECONDS_BITS - 1.0
"""Run times that are longer look alike in marks."""


class _BatchEnvironment(EnvironmentSpec[Options, BatchSweep, Platform, Workload], Fingerprints[Platform, Workload]):
    """Behaviour that all environments of batch jobs share."""

    def input_arguments(self, machine: Platform, load: Workload, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated: all jobs, unless a window is given."""
        return {"n_jobs": "all", "platform": machine, "workload": load, **(window or {})}

    def item_fingerprints(self, machine: Platform, load: Workload) -> NDArray[np.int64]:
        """Return the cores and the seconds of each job; where nothing says these, the requested ones."""
        import numpy as np

        from hdrl.settings.batch.workload.statistics import known_or_requested_times

        order = np.argsort(load.jobs["submit_s"], kind="stable")
        seconds = np.rint(np.minimum(known_or_requested_times(load, machine), LONGEST_S)).astype(np.int64)
        return np.asarray(((load.jobs["cores"].astype(np.int64) << SECONDS_BITS) + seconds)[order])


class _OfMoreLogs(_BatchEnvironment, ExtraTrainingData):
    """Behaviour that environments with further training logs share."""

    file_arguments = ("more_logs",)

    def extra_training_data(self, arguments: Mapping[str, Any], part: tuple[float, float]) -> Sequence[LoadPart]:
        """Return the further logs, on identical processors as their headers say, and the same shares of them."""
        logs = arguments.get("more_logs") or ()
        if not logs:
            return ()
        from hdrl.settings.batch.envs.machines import pool_inputs

        read = [pool_inputs(log, None, None) for log in logs]
        loads = [(one.platform, one.workloads[0]) for one in read]
        what = "the part to learn from"
        return [
            (machine, load, range_of_shares(part, load.n_jobs, what=what, items=f"jobs of {load.name}"))
            for machine, load in loads
        ]


class PolicyPairSpec(_BatchEnvironment):
    """Choosing a policy pair at every decision, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/PolicyPair-v0"
    given = GIVEN

    def arguments(self, options: Options) -> dict[str, Any]:
        """Return its arguments as ``pybatsim.env`` says them."""
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

    def input_arguments(self, machine: Platform, load: Workload, window: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that say what is simulated."""
        return {"platform": machine, "workload": load, **(window or {})}

    def action_names(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the pairs, and void."""
        from hdrl.settings.batch.envs.policy_pair_arguments import action_names

        return tuple(action_names(arguments["actions"], void=arguments["void"]))

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective, and 1 where more of it is better, else -1."""
        from hdrl.settings.batch.envs.policy_pair import PolicyPairVectorEnv

        return _goal(PolicyPairVectorEnv, arguments)

    def unplayable_reason(self, arguments: Mapping[str, Any], machine: Platform | None = None) -> str | None:
        """Return why no model of it can be played on a machine with the rules of a site."""
        from hdrl.settings.batch.envs.policy_pair_arguments import site_rules_reason

        del arguments
        return None if machine is None else site_rules_reason(machine)

    def unsupported_reason(self, machine: Platform, load: Workload, arguments: Mapping[str, Any]) -> str | None:
        """Return why the policies' simulator, on which it runs, cannot simulate jobs exactly; ``None`` if it can."""
        from hdrl.settings.batch.envs.policy_pair import PolicyPairVectorEnv

        del arguments
        return PolicyPairVectorEnv.unsupported_reason(machine, load)

    def player(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep | None = None,
    ) -> Any:
        """Return an environment in which a model decides about all jobs.

        Energy is accounted for where options or the arguments say so.
        """
        from hdrl.settings.batch.envs.policy_pair import PolicyPairEnv

        _check_simulator(options, "policy_pair")
        if options is not None and options.simulator == "exact":
            return self.player_outside(machine, load, arguments, options, None)
        # A model whose training did without it is measured like all others.
        asked = {"energy": True} if options is not None and options.energy else {}
        return PolicyPairEnv(platform=machine, workload=load, **{**arguments, **asked})

    def player_outside(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep,
        folder: Path | None,
    ) -> Any:
        """Return the same in the simulator that options name: the decision system of each shows the same."""
        simulator = simulator_arguments(options, machine, folder)
        if not simulator:
            return self.player(machine, load, arguments, options)
        from hdrl.settings.batch.envs.policy_pair_outside import PolicyPairOutside

        given = {**arguments, "energy": bool(options.energy)}
        return PolicyPairOutside(platform=machine, workload=load, simulator=simulator, **given)


class JobPickSpec(_OfMoreLogs):
    """Picking waiting jobs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/JobPick-v0"
    given = GIVEN | {"guide", "keeps"}

    def arguments(self, options: Options) -> dict[str, Any]:
        """Return by what columns are scaled, which model files of older versions do not say.

        A compatibility mode has its own scales, and is not played.
        """
        from hdrl.settings.batch.envs.job_pick_options import FIXED

        return {} if options.learning.arguments.get("compatibility") else {"scales": FIXED}

    def saved_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return that the largest values scale columns, unless the file says something else."""
        from hdrl.settings.batch.envs.job_pick_options import LARGEST

        return dict(arguments) if arguments.get("compatibility") else {"scales": LARGEST, **arguments}

    @staticmethod
    def is_dissertation(arguments: Mapping[str, Any]) -> bool:
        """Tell whether it is the environment of the dissertation."""
        return arguments.get("compatibility") == "dissertation"

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective, and 1 where more of it is better, else -1."""
        from hdrl.settings.batch.envs.job_pick_making import job_pick_vector

        return _goal(job_pick_vector, arguments)

    def unsupported_reason(self, machine: Platform, load: Workload, arguments: Mapping[str, Any]) -> str | None:
        """Return why its simulator of identical processors cannot simulate jobs exactly; ``None`` if it can."""
        if machine.site is not None:
            from hdrl.settings.batch.envs.site_pick import SitePickVectorEnv

            return SitePickVectorEnv.unsupported_reason(machine, load)
        from hdrl.settings.batch.envs.job_pick import JobPickVectorEnv

        del arguments
        return JobPickVectorEnv.unsupported_reason(machine, load)

    def effective_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the choices whose defaults depend on other arguments."""
        if self.is_dissertation(arguments):
            return {}
        from hdrl.envs.arguments import taken
        from hdrl.settings.batch.envs.job_pick_options import PickChoices

        options = taken(PickChoices(), dict(arguments)).checked()
        names = ("commitment", "backfilling", "features", "scales")
        return {name: getattr(options, name) for name in names}

    def uses_hidden_information(self, arguments: Mapping[str, Any]) -> bool:
        """Tell whether agents see how long jobs really run: an error of the dissertation, on request."""
        return self.is_dissertation(arguments) and "true_run_times" in (arguments.get("errors") or ())

    def cautions(self, arguments: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        """Return the differences between a window and the log that a model has learned from.

        That is the order by F1 to F4 of dates from the beginning of a log, and columns that are scaled by the largest
        values of the jobs at hand.
        """
        from hdrl.settings.batch.envs.job_pick_options import LARGEST

        concerned = ["order"] + (["reference"] if arguments.get("reward") == "relative" else [])
        defaults = {"order": "fcfs", "reference": "f4"}
        cautions = [
            (
                "dates",
                f"learned with {name} ({key}) of dates from the beginning of its log; here they count from the "
                f"beginning of each window, which is another order: {name}_relative is the same in both",
            )
            for key in concerned
            if (name := str(arguments.get(key, defaults[key]))) in OF_DATES
        ]
        says = self.saved_arguments(arguments)
        is_scaled = says.get("scaled_columns", True) or "log_requested_time" in str(says.get("features"))
        if is_scaled and says.get("scales") == LARGEST:
            text = (
                "learned with requested times divided by the largest of its log; here by that of each window, later "
                "jobs included, so that jobs look different: what is trained now has scales 'fixed', the same in both"
            )
            cautions.append(("scales", text))
        return cautions

    def unplayable_reason(self, arguments: Mapping[str, Any], machine: Platform | None = None) -> str | None:
        """Return why no model of it can be played on the kernel; ``None`` if one can."""
        from hdrl.settings.batch.envs.job_pick_player import check_can_play

        try:
            check_can_play(arguments.get("compatibility"))
            if machine is not None:
                from hdrl.envs.arguments import taken
                from hdrl.settings.batch.envs.job_pick_options import PickChoices

                choices = taken(PickChoices(), dict(arguments)).checked()
                choices.check_world(has_rules=machine.site is not None)
        except OptionsError as error:
            return str(error)
        return None

    def player(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep | None = None,
    ) -> Any:
        """Return an environment on the policies' simulator in which a model picks among all jobs."""
        _check_simulator(options, "job_pick")
        return self.player_outside(machine, load, arguments, options, None)

    def player_outside(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep | None,
        folder: Path | None,
    ) -> Any:
        """Return the same in the simulator that options name: the decision system of each shows the same."""
        if machine.site is not None:
            from hdrl.settings.batch.envs.site_pick import SitePickEnv

            given = {name: value for name, value in arguments.items() if name not in ("kill", "more_logs", "n_threads")}
            return SitePickEnv(platform=machine, workload=load, n_jobs="all", **given)
        from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer

        energy = None if options is None else options.energy
        simulator = simulator_arguments(options, machine, folder)
        return JobPickPlayer(platform=machine, workload=load, energy=energy, simulator=simulator, **arguments)

    def warm_up(self, message: Message) -> None:
        """Compile the code that plays models."""
        from hdrl.settings.batch.compiled_play.entries import warm_up

        warm_up(message)


class JobIndexSpec(_OfMoreLogs, Indexed[Platform, Workload]):
    """Weights of an index of jobs, judged by whole windows of logs, see `hdrl.setting.EnvironmentSpec`."""

    id = "hdrl/JobIndex-v0"
    given = GIVEN

    def objective(self, arguments: Mapping[str, Any]) -> tuple[str, int]:
        """Return the metric of its objective; less of each is better."""
        return str(arguments.get("objective", "mean_bounded_slowdown")), -1

    def player(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep | None = None,
    ) -> Any:
        """Return an environment in which weights decide about all jobs."""
        return self.player_outside(machine, load, arguments, options, None)

    def player_outside(
        self,
        machine: Platform,
        load: Workload,
        arguments: Mapping[str, Any],
        options: Options | BatchSweep | None,
        folder: Path | None,
    ) -> Any:
        """Return the same in the simulator that options name: weights decide as the policy that has them."""
        from hdrl.settings.batch.envs.job_index import JobIndexPlayer

        energy = None if options is None else options.energy
        simulator = simulator_arguments(options, machine, folder)
        return JobIndexPlayer(platform=machine, workload=load, energy=energy, simulator=simulator, **arguments)

    def index(self, arguments: Mapping[str, Any]) -> Index:
        """Return the names of the weights, and the start of evolution."""
        from hdrl.settings.batch.policies.indexed import SIGMA, IndexKind, first_weights, names_of_weights

        form = IndexKind.of(arguments).form
        return Index(names_of_weights(form), first_weights(form), SIGMA)

    def run_index(
        self,
        machine: Platform,
        loads: Sequence[Workload],
        weights: NDArray[np.float64],
        arguments: Mapping[str, Any],
        *,
        n_threads: int = 1,
    ) -> NDArray[np.float64]:
        """Simulate whole workloads under candidates, in compiled code from first to last job."""
        from hdrl.settings.batch.envs.window_judge import run_policies
        from hdrl.settings.batch.policies.indexed import IndexKind, first_weights

        kind = IndexKind.of(arguments)
        candidates = [kind.policy(row - first_weights(kind.form)) for row in weights]
        return run_policies(machine, loads, candidates, self.objective(arguments)[0], n_threads=n_threads)


def _check_simulator(options: Options | BatchSweep | None, environment: str) -> None:
    """Refuse a simulator in which no model of an environment decides, as `Options.no_model` does for runs."""
    if options is not None and options.simulator not in ("embedded", "exact", "site"):
        raise OptionsError(
            f"simulator is {options.simulator!r}, where no model of {environment} decides; expected 'embedded' or "
            "'exact', or a model of job_index"
        )


def _goal(environment: Any, arguments: Mapping[str, Any]) -> tuple[str, int]:
    """Return the metric of an environment's objective, and 1 where more of it is better, else -1."""
    from hdrl.settings.batch.envs.rewards import read_objective

    default = inspect.signature(environment).parameters["objective"].default
    objective = read_objective(arguments.get("objective", default))
    return objective.metric, objective.sign
