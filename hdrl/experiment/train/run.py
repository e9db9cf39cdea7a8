"""A training from options to a folder with a model, logs, checkpoints, and the results of the model.

The folder is made when the training begins, and can be resumed whenever it is left before it is complete: what a
checkpoint holds is all that counts, logs beyond it are cut off. A complete folder has ``metrics.json``.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import LearningError, OptionsError
from hdrl.base.files import atomic_write_bytes
from hdrl.base.pyfiles import located_errors
from hdrl.base.seeding import stream_seed
from hdrl.experiment.plan import RunPlan
from hdrl.experiment.run.agentfile import AgentError, AgentKind
from hdrl.experiment.run.folder import check_free
from hdrl.experiment.run.insights import LOGGER
from hdrl.experiment.run.progress import Progress
from hdrl.experiment.train.decisions import DecisionLog
from hdrl.experiment.train.environments import check_same_meaning
from hdrl.experiment.train.folder import TrainingFolder, check_writable
from hdrl.experiment.train.learning import (
    check_options_of,
    device_of,
    imitation_of,
    make_agent,
    one_thread,
    require_torch,
    settings_of,
)
from hdrl.experiment.train.loop import LoggedTraining
from hdrl.experiment.train.modelfile import (
    check_hdeeprm_layout,
    checkpoint_of_choice,
    load_weights,
    read_model,
    spec_of,
    write_hdeeprm_model,
)
from hdrl.experiment.train.modeluse import load_model, played, switch_of
from hdrl.experiment.train.resuming import (
    LAYOUT,
    check_same_layout,
    check_same_training,
    layout_of,
    read_resumed,
    version_errors,
)
from hdrl.experiment.train.world import TrainingEnvs, TrainingWorld
from hdrl.setting import Trace

if TYPE_CHECKING:
    from hdrl.distributed.training import ConfigurationTrainer, DistributedTrainer
    from hdrl.learn.agent import Agent
    from hdrl.learn.library import Specialist
    from hdrl.learn.train import Trainer
    from hdrl.options.distributed import DistributedOptions


@dataclass(frozen=True, slots=True)
class Trained:
    """Result of a training."""

    is_complete: bool  # True if it went through all its iterations; otherwise it can be resumed
    model: Path  # the best by validation, else the last
    # iterations, decisions and episodes in all
    n_iterations: int
    n_steps: int
    n_episodes: int
    best_iteration: int  # after which iteration the model was taken
    # trace of the model on the jobs of the test; ``None`` if the training is not complete
    trace: Trace | None = field(default=None, repr=False)


class TrainingRun:
    """A training that is set up, and has not touched anything yet.

    Its folder is new or empty, or with ``resumes`` that of an earlier training. If anything does not fit, nothing is
    written.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        resumes: bool = False,
        progress: Progress | None = None,
        on: str = "local",
        hdeeprm_model: bool = False,
    ) -> None:
        self.options, self.choice = options, choice = plan.request, plan.agent
        why_not = options.no_learning()
        if why_not is not None:
            raise OptionsError(f"{options.where}: {why_not}")
        if not resumes:
            check_free(plan.out)
        given = options.agent_options.output_model
        self._output = None if given is None else options.path_of(given)
        if hdeeprm_model:
            check_hdeeprm_layout(choice, self._output)
        self._save_output = write_hdeeprm_model if hdeeprm_model else _copy_atomically
        self.folder = TrainingFolder(plan)
        progress = progress or Progress()
        self.world = TrainingWorld(plan)
        require_torch()
        from hdrl.learn.device import name_of
        from hdrl.learn.portability import nonportable_reasons

        check_options_of(options, choice)
        self._validation_envs = self._make_validation_envs()
        self.trainer: Trainer | DistributedTrainer | ConfigurationTrainer = self._make_trainer(on)
        self.device = name_of(self.trainer.agent.device)
        self.nonportable_reasons = nonportable_reasons(self.trainer.agent)
        self._trained_on = self.world.trained_on(is_validated=options.learning.validation_every is not None)
        self.world.check_test()
        check_writable(self._output)
        given = options.agent_options.input_model
        if given is not None:
            held = load_model(options.path_of(given), choice, self.trainer.agent, self.world)
            if len(held) > 1 and not resumes:
                progress.message(
                    f"{given} holds what was learned for {len(held)} configurations, each for itself: this training "
                    "begins with what was learned last"
                )
        self.training = LoggedTraining(
            plan,
            self.world,
            self.trainer,
            save_checkpoint=self._save_checkpoint,
            save_best=lambda: self._save_model(self.folder.best),
            validation_envs=self._validation_envs,
            progress=progress,
            decisions=self._listen(),
        )
        self._resumes = resumes
        if resumes:
            self._resume()

    def device_name(self) -> str | None:
        """Return the name of the training's device, ``None`` if it is the CPU by default."""
        return None if self.options.learning.device == "cpu" else self.device

    def provenance(self) -> dict[str, Any]:
        """Return the entries of the provenance about the training."""
        device = self.device_name()
        found: dict[str, Any] = {} if device is None else {"device": device}
        found["is_portable"] = not self.nonportable_reasons
        return found | ({"why_not_portable": self.nonportable_reasons} if self.nonportable_reasons else {})

    def _listen(self) -> DecisionLog | None:
        """Listen to the agent if its decisions are logged; the agents of several workers are in other processes."""
        decisions = DecisionLog(self.world.spec.action_names(), self.options.also_write_names)
        if self.options.learning.distributed is not None:
            if decisions.lines:
                raise OptionsError(
                    f"{self.options.where}: also_write has {next(iter(decisions.lines))}, "
                    "which trainings with several workers do not write"
                )
            return None
        if not decisions.is_needed:
            return None
        self.trainer.agent.listener = decisions
        return decisions

    def run(self) -> Trained:
        """Train, save the model, and simulate with it."""
        try:
            is_complete = self._train()
            return self._finish(is_complete=is_complete)
        finally:
            self.folder.release()

    def _train(self) -> bool:
        is_new = self.folder.make()
        LOGGER.info("device %s", self.device)
        if self.nonportable_reasons:
            LOGGER.info("another processor may find other weights: %s", "; ".join(self.nonportable_reasons))
        else:
            LOGGER.info("every x86-64 processor with AVX2 finds the same weights")
        try:
            with one_thread():
                return self.training.run()
        except BaseException as error:
            if not self.folder.checkpoint.is_file() and not self._resumes:
                self.folder.take_back(is_gone=is_new)
            elif isinstance(error, (AgentError, LearningError)):
                raise type(error)(f"{error}; {self._last_good_model()}") from error
            raise
        finally:
            self.trainer.close()
            if self._validation_envs is not None:
                self._validation_envs.close()

    def _last_good_model(self) -> str:
        """Name the model to go back to after a training has failed."""
        kept = self.folder.best if self.folder.best.is_file() else self.folder.checkpoint
        return f"the last good model is {kept}"

    def _finish(self, *, is_complete: bool) -> Trained:
        from hdrl.learn.device import CPU

        reached = self.training.reached
        best, model = self.folder.best, self.folder.model
        has_best = best.is_file() and self.options.learning.validation_every is not None
        if has_best:
            shutil.copyfile(best, model)
        else:
            self._save_model(model)
        if self._output is not None:
            self._save_output(model, self._output)
        trace = None
        if is_complete:
            checkpoint, _ = read_model(model, self.choice)
            load_weights(self.trainer.agent, checkpoint, model.name, self.choice.path)
            self.trainer.agent.to(CPU)  # where models are played
            env = self.world.test()
            switch = switch_of(
                self._specialists, self.trainer.agent, env, self.world.tested(), self.world.spec, model.name
            )
            trace = played(self.trainer.agent, env, self.options.seed, self.choice.path, switch)
        self.folder.write_manifest(is_final=False)
        return Trained(
            is_complete,
            model,
            reached.n_iterations,
            reached.n_steps,
            reached.n_episodes,
            reached.best_iteration if has_best else reached.n_iterations,
            trace,
        )

    def _make_trainer(self, on: str) -> Trainer | DistributedTrainer | ConfigurationTrainer:
        from hdrl.learn.train import Trainer

        options, distributed = self.options, self.options.learning.distributed
        if distributed is None and on != "local":
            raise OptionsError(f"{options.where}: --on {on} is for several workers, expected learning.distributed")
        envs = self.world.batch("train", options.learning.n_envs)
        self._layout = layout_of(envs)
        made = make_agent(
            self.choice,
            settings_of(options, self.choice, self.world.spec.usual_settings()),
            (envs.single_observation_space, envs.single_action_space),
            seed=options.seed,
            where=f"{options.where}: learning.settings",
        )
        made.to(device_of(options, made))
        if distributed is not None:
            envs.close()
            return self._several(made, distributed, on)
        with located_errors(self.choice.path):
            return Trainer(
                made, envs, seed=stream_seed(options.seed, "train"), imitation=imitation_of(options, made, envs)
            )

    def _several(
        self, agent: Agent, distributed: DistributedOptions, on: str
    ) -> Trainer | DistributedTrainer | ConfigurationTrainer:
        """Return the trainer of several workers."""
        from hdrl.distributed.training import ConfigurationTrainer, DistributedTrainer, row_trainer

        options = self.options
        if self.choice.path is not None and on != "local":
            raise OptionsError(f"{self.choice.path}: other processes cannot import its class, expected --on local")
        # What travels to other processes are options; worlds hold what need not travel.
        make_envs = TrainingEnvs(self.world)
        if distributed.allotment == "configurations":
            self.world.check_shares(distributed.workers)
        n_envs, seed = options.learning.n_envs, stream_seed(options.seed, "train")
        if agent.shares_rows:
            return row_trainer(agent, make_envs, n_envs, distributed, seed=seed, on=on, where=options.where)
        if distributed.reliance == "pooled":
            return DistributedTrainer(agent, make_envs, n_envs, distributed, seed=seed, on=on, where=options.where)
        points = self.world.configuration_coordinates()
        self.world.check_shares(len(points), "reliance")
        return ConfigurationTrainer(
            agent, make_envs, n_envs, distributed, points, seed=seed, on=on, where=options.where
        )

    @property
    def _specialists(self) -> list[Specialist]:
        """Agents learned for single configurations, none if one agent decides about all of them."""
        return list(getattr(self.trainer, "specialists", ()))

    def _make_validation_envs(self) -> Any:
        """Return the environments to validate in, ``None`` without validation."""
        learning = self.options.learning
        if learning.validation_every is None:
            return None
        n_envs = 1 if self.choice.kind is AgentKind.HDEEPRM else min(learning.n_validation_episodes, 64)
        return self.world.batch("validation", n_envs)

    def _resume(self) -> None:
        self.folder.take()
        try:
            path = self.folder.checkpoint
            if self.folder.has_not_begun:
                self.folder.begin_anew()
                self._resumes = False
                return
            checkpoint = read_resumed(path, self.choice)
            check_same_training(self.options, self._trained_on, checkpoint.notes, self.folder.path)
            if checkpoint.environment:
                check_same_meaning(spec_of(checkpoint, path, self.world.setting), self.world.spec, path)
            check_same_layout(checkpoint, self._layout, path)
            with version_errors(checkpoint, path):
                self.training.resume(checkpoint.agent, checkpoint.training)
        except BaseException:
            self.folder.release()
            raise

    def _save_checkpoint(self, state: Mapping[str, Any]) -> None:
        from hdrl.learn.checkpoint import save_checkpoint

        notes = {**self._notes(), "options": self.options.portable(), LAYOUT: self._layout}
        checkpoint = checkpoint_of_choice(
            self.choice, self.trainer.agent, self.world.spec.as_json(), notes, state, self._specialists
        )
        save_checkpoint(self.folder.checkpoint, checkpoint)
        self.folder.write_manifest(is_final=False)

    def _save_model(self, path: Path) -> None:
        from hdrl.learn.checkpoint import save_checkpoint

        model = checkpoint_of_choice(
            self.choice, self.trainer.agent, self.world.spec.as_json(), self._notes(), specialists=self._specialists
        )
        save_checkpoint(path, model)

    def _notes(self) -> dict[str, Any]:
        return {"trained_on": self._trained_on, "reached": asdict(self.training.reached), "seed": self.options.seed}


def _copy_atomically(source: Path, target: Path) -> None:
    with atomic_write_bytes(target) as out:
        out.write(source.read_bytes())
