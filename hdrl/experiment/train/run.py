"""A training from options to a folder with a model, logs, checkpoints, and the results of the model.

The folder is made when the training begins, and can be gone on with whenever it is left before it is complete: what a
checkpoint holds is all that counts, logs beyond it are cut off. A complete folder has ``metrics.json``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdrl.errors import OptionsError, OutputError
from hdrl.experiment.run.agentfile import Agent
from hdrl.experiment.run.folder import check_free
from hdrl.experiment.train.environments import Environment, environment_of
from hdrl.experiment.train.learner import EpisodeRow
from hdrl.experiment.train.learning import job_range, make_learner, one_thread, stream_seed
from hdrl.experiment.train.loop import Plan, Training
from hdrl.experiment.train.modelfile import checkpoint_of_learner, read_model
from hdrl.experiment.train.modeluse import playing_environment
from hdrl.experiment.train.resuming import check_same_training, read_resumed, write_resume_file
from hdrl.files import write_json
from hdrl.options.file import OptionsFile
from hdrl.setting import Load, Machine, Trace, find_setting

if TYPE_CHECKING:
    from hdrl.experiment.run.progress import Progress
    from hdrl.experiment.train.modelfile import AnyLearner

CHECKPOINT_FILE = "checkpoint.pt"
BEST_FILE = "best.pt"
MODEL_FILE = "model.pt"


@dataclass(frozen=True, slots=True)
class Trained:
    """What a training has come to.

    Attributes
    ----------
    is_complete
        Whether it went through all its iterations; else it can be gone on with.
    model
        The model file: the best by validation, else the last.
    n_iterations, n_steps, n_episodes
        Iterations, decisions and episodes in all.
    best_iteration
        After which iteration the model was taken.
    trace
        What the model does on the jobs of the test; ``None`` if the training is not complete.
    """

    is_complete: bool
    model: Path
    n_iterations: int
    n_steps: int
    n_episodes: int
    best_iteration: int
    trace: Trace | None = field(default=None, repr=False)


class TrainingRun:
    """A training that is set up, and has not touched anything yet.

    Parameters
    ----------
    options
        The options, resolved.
    agent
        An agent that learns.
    folder
        Its folder; new or empty, or that of an earlier training to go on with.
    resumes
        Whether to go on with what is there.
    progress
        Whom to tell how far it is.

    Raises
    ------
    HdrlError
        If anything does not fit; nothing has been written then.
    """

    def __init__(
        self,
        options: OptionsFile,
        agent: Agent,
        folder: Path,
        *,
        resumes: bool = False,
        progress: Progress | None = None,
    ) -> None:
        why_not = options.no_learning()
        if why_not is not None:
            raise OptionsError(f"{options.where}: {why_not}")
        if not resumes:
            check_free(folder)
        self.options, self.agent, self.folder, self.progress = options, agent, folder, progress
        setting = find_setting(options.setting_name)
        self.machine: Machine = setting.machine(options)
        self.load: Load = setting.load(options, self.machine)
        self.spec: Environment = environment_of(options)
        self.learner: AnyLearner = make_learner(options, agent, self.spec, self.machine, self.load)
        self._trained_on = self._training_jobs()
        job_range(options, "test", self.load)  # an empty one would be found after the training
        _warm_output(options)
        given = options.agent_options.input_model
        if given is not None:
            path = options.path_of(given)
            model, _ = read_model(path, agent)
            self.learner.load_model(model, str(path))
        self.training = Training(
            folder=folder,
            learner=self.learner,
            plan=self._plan(),
            save_checkpoint=self._save_checkpoint,
            save_best=lambda: self._save_model(BEST_FILE),
            score=self._score,
            progress=progress,
        )
        self._resumes = resumes
        if resumes:
            self._resume()

    def run(self) -> Trained:
        """Train, save the model, and simulate with it.

        Raises
        ------
        HdrlError
            If the agent fails, or something cannot be written.
        """
        is_new = not self.folder.exists()
        self._make_folder()
        try:
            with one_thread():
                is_complete = self.training.run()
        except BaseException:
            if not (self.folder / CHECKPOINT_FILE).is_file() and not self._resumes:
                _empty(self.folder, is_gone=is_new)
            raise
        finally:
            self.learner.close()
        return self._finish(is_complete=is_complete)

    def _finish(self, *, is_complete: bool) -> Trained:
        reached = self.training.reached
        has_best = (self.folder / BEST_FILE).is_file() and self.options.learning.validation_every is not None
        if has_best:
            shutil.copyfile(self.folder / BEST_FILE, self.folder / MODEL_FILE)
        else:
            self._save_model(MODEL_FILE)
        output = self.options.agent_options.output_model
        if output is not None:
            _copy_atomically(self.folder / MODEL_FILE, self.options.path_of(output))
        trace = None
        if is_complete:
            model, _ = read_model(self.folder / MODEL_FILE, self.agent)
            self.learner.load_model(model, MODEL_FILE)
            env = playing_environment(self.options, self.spec, self.machine, self.load)
            with one_thread():
                trace = self.learner.play(env, self.options.seed)
        return Trained(
            is_complete,
            self.folder / MODEL_FILE,
            reached.n_iterations,
            reached.n_steps,
            reached.n_episodes,
            reached.best_iteration if has_best else reached.n_iterations,
            trace,
        )

    def _plan(self) -> Plan:
        learning = self.options.learning
        return Plan(
            n_iterations=self.options.runs * learning.iterations,
            checkpoint_every=learning.checkpoint_every,
            validation_every=learning.validation_every,
            n_validation_episodes=learning.n_validation_episodes,
            validation_seed=stream_seed(self.options.seed, "validation"),
            actions=self.spec.action_names(),
            has_events=learning.tensorboard,
        )

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self.folder}: cannot be made ({error.strerror or error})") from None
        write_json(self.folder / "options.resolved.json", self.options.portable())
        write_resume_file(self.folder, self.options)

    def _resume(self) -> None:
        checkpoint = read_resumed(self.folder / CHECKPOINT_FILE, self.agent)
        check_same_training(self.options, self._trained_on, checkpoint.notes, self.folder)
        self.training.resume(checkpoint.agent, checkpoint.training)

    def _save_checkpoint(self, state: Mapping[str, Any]) -> None:
        from hdrl.learn.checkpoint import save_checkpoint

        notes = {**self._notes(), "options": self.options.portable()}
        checkpoint = checkpoint_of_learner(self.agent, self.learner, self.spec.as_json(), notes, state)
        save_checkpoint(self.folder / CHECKPOINT_FILE, checkpoint)

    def _save_model(self, name: str) -> None:
        from hdrl.learn.checkpoint import save_checkpoint

        model = checkpoint_of_learner(self.agent, self.learner, self.spec.as_json(), self._notes())
        save_checkpoint(self.folder / name, model)

    def _notes(self) -> dict[str, Any]:
        return {"trained_on": self._trained_on, "reached": self.training.reached.as_json(), "seed": self.options.seed}

    def _training_jobs(self) -> dict[str, Any]:
        """Return on which jobs the model is trained, so that nobody tests it on the same ones by accident."""
        first, last = job_range(self.options, "train", self.load)
        return {
            "workload": self.load.name,
            "workload_sha256": self.load.sha256(),
            "n_jobs": self.load.n_items,
            "first_job": first,
            "last_job": last - 1,
            "platform": self.machine.name,
        }

    def _score(self, episodes: list[EpisodeRow]) -> float:
        """Return how good a validation was, the more the better."""
        _, sign = self.spec.goal()
        return sum(sign * row["objective"] for row in episodes) / len(episodes)


def _warm_output(options: OptionsFile) -> None:
    """Refuse a model file that cannot be written before hours are spent on it."""
    output = options.agent_options.output_model
    if output is not None and not options.path_of(output).parent.is_dir():
        raise OutputError(f"{options.path_of(output)}: cannot be written (no such folder)")


def _copy_atomically(source: Path, target: Path) -> None:
    from hdrl.files import atomic_write_bytes

    with atomic_write_bytes(target) as out:
        out.write(source.read_bytes())


def _empty(folder: Path, *, is_gone: bool) -> None:
    """Take back a folder in which nothing was reached."""
    if is_gone:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            Path(entry.path).unlink(missing_ok=True)
