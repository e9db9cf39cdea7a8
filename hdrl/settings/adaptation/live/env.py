"""One live job at a time as an environment: an advisor of tables decides about networks that really train."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, OptionsError
from hdrl.envs.requests import checked_count
from hdrl.settings.adaptation.index import best_actions, features
from hdrl.settings.adaptation.live.clocks import find_clock
from hdrl.settings.adaptation.live.data import read_data
from hdrl.settings.adaptation.live.job import JobRules, LiveJob
from hdrl.settings.adaptation.live.making import TablePlan, check_plan
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.models import N_IDS, layer_ids
from hdrl.settings.adaptation.ownmodels import read_model


class LiveAdaptationEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A job that trains while it is decided about; spaces and observations are those of ``hdrl/Adaptation-v0``.

    The reward of the last decision is the validation accuracy at the end of the budget; the info of the end holds the
    test accuracy, too.

    Parameters
    ----------
    max_layers
        Layers of the deepest network.

    Raises
    ------
    OptionsError
        If the plan cannot be carried out, or a network can have more layers.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, plan: TablePlan, max_layers: int = 32) -> None:
        check_plan(plan)
        self.plan = plan
        data = read_data(plan.data, 0)
        model = read_model(plan.model, data.shape, data.n_classes)
        n_numbers = 1 + checked_count("max_layers", max_layers)
        self.observation_space = spaces.Box(0.0, N_IDS - 1.0, (n_numbers,), np.float32)
        self.n_actions = len(model.targets) + 1
        self.action_space = spaces.Discrete(self.n_actions)
        self._clock = find_clock(plan.clock, read_device(plan.device, "device"))
        self._job: LiveJob | None = None
        self._n_done = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Train a new job up to its first decision; the seed sets weights, order of examples and parts of the data."""
        super().reset(seed=seed)
        del options
        number = int(self.np_random.integers(2**31)) if seed is None else seed
        plan = self.plan
        rules = JobRules(
            plan.budget_s,
            lr=plan.lr,
            rate=plan.rate,  # type: ignore[arg-type]
            batch_size=plan.batch_size,
            norm=plan.norm,  # type: ignore[arg-type]
        )
        self._job = LiveJob(plan.model, read_data(plan.data, number), rules, self._clock, number)
        self._job.train_until(plan.start_s)
        self._n_done = 0
        return self._seen(self._job), self._mask()

    def step(self, action: Any) -> Any:
        """Adapt the job, and train it up to its next decision or its end.

        Raises
        ------
        DecisionError
            If no job is under way, or there is no such action.
        """
        job = self._job
        if job is None:
            raise DecisionError("no job is active, expected a reset")
        job.adapt(int(action))
        self._n_done += 1
        if self._n_done < self.plan.n_steps:
            job.train_until(job.spent_s + self.plan.gap_s)
            return self._seen(job), 0.0, False, False, self._mask()
        job.train_until(self.plan.budget_s)
        self._job = None
        validation = job.validation()
        results = {"r": validation, "l": self._n_done, "objective": validation, "test_accuracy": job.test()}
        return self._seen(job), validation, True, False, {**self._mask(), "results": results}

    def index_action(self, weights: NDArray[np.float64]) -> int:
        """Return the action of an index (`hdrl.settings.adaptation.index`) for the job that is under way."""
        job, plan = self._job, self.plan
        if job is None:
            raise DecisionError("no job is active, expected a reset")
        seen = features(job.network.model, job.left_s / plan.budget_s, self._n_done / plan.n_steps)
        return int(best_actions(seen, weights[np.newaxis])[0])

    def _mask(self) -> dict[str, Any]:
        return {"action_mask": np.ones(self.n_actions, dtype=np.int8)}

    def _seen(self, job: LiveJob) -> NDArray[np.float32]:
        found = np.zeros(self.observation_space.shape or (), dtype=np.float32)
        ids = layer_ids(job.network.model.layers)
        if len(ids) >= len(found):
            raise OptionsError(f"{self.plan.model}: has {len(ids)} layers now, max_layers is {len(found) - 1}")
        found[0] = job.left_s / self.plan.budget_s
        found[1 : 1 + len(ids)] = ids
        return found
