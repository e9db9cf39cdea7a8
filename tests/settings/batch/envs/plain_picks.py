"""What picks start on a machine of any kind, in plain Python made of `policies.backfilling.Easy`.

`compiled_play` is held against it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.settings.batch.envs.job_pick_options import SKIP, JobPickOptions, PickChoices
from hdrl.settings.batch.identical_cores.codes import CHOOSE, OVERTAKE
from hdrl.settings.batch.policies.backfilling import Easy, HeadReservation
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.simulation.embedded import EmbeddedSimulator
from hdrl.settings.batch.simulation.view import News, View

NO_JOB = -1
"""No job, where a job is expected."""


class PickRules(Easy):
    """The commitments of an agent that picks waiting jobs.

    Parameters
    ----------
    core_selection
        Which free cores a job gets: ``"high_gflops"`` or ``"low_power"``.

    Attributes
    ----------
    machine
        What is free now, and what has been started by the present answer.
    queue
        The waiting jobs, in the order in which they came.
    chosen
        The job that waits for its start or its reservation, `NO_JOB` without.
    n_submitted
        How many jobs have come.
    held
        The waiting jobs that are held until jobs arrive or end.
    """

    machine: MachinePicture
    _then: HeadReservation

    def __init__(self, options: JobPickOptions, core_selection: str = "high_gflops") -> None:
        super().__init__(core_selection=core_selection)
        self._backfilling = options.backfilling
        self._blocks = options.commitment == "block"

    def _begin(self) -> None:
        super()._begin()
        self.queue: list[int] = []
        self.chosen = NO_JOB
        self.n_submitted = 0
        self.held: set[int] = set()
        self._fits: NDArray[np.bool_] | None = None
        self._is_reserved = False

    @property
    def is_running(self) -> bool:
        """Whether jobs run, those included that the present answer starts."""
        return bool(self._running)

    @property
    def can_wait(self) -> bool:
        """Whether anything will happen if nothing is started."""
        return bool(self._running) or self.n_submitted < len(self.machine.jobs)

    def see(self, view: View) -> bool:
        """Take in a message; return whether jobs have arrived or ended."""
        is_due = False
        for kind, subject in view.news:
            if kind == News.SIMULATION_BEGINS:
                self._begin()
            elif kind == News.JOB_COMPLETED:
                self._forget(subject)
            elif kind == News.JOB_SUBMITTED:
                self.n_submitted += 1
            is_due = is_due or kind in (News.JOB_SUBMITTED, News.JOB_COMPLETED)
        if is_due:
            self.machine = self._machine(view)
            self._fits = None
            self.queue = view.waiting.tolist()
            self.held.clear()
            self._is_reserved = False
            if not self._blocks:
                self.chosen = NO_JOB
        return is_due

    def stage(self) -> int | None:
        """Start what is committed; return what is to be decided then (`CHOOSE`, `OVERTAKE`), ``None`` if nothing is."""
        if self.chosen != NO_JOB:
            cores = self.machine.choose(self.chosen)
            if cores is None:
                return self._keep_chosen()
            self._start_waiting(self.chosen, cores)
            self.chosen = NO_JOB
        return CHOOSE if self.queue and (self._blocks or self.fitting().any()) else None

    def _keep_chosen(self) -> int | None:
        """Let others overtake the chosen job, which does not fit; return whether somebody is to be asked who."""
        asks = self._backfilling == "easy_priority"
        if self._backfilling != "none" and not self._is_reserved:
            self._is_reserved = True
            if self._backfilling != "rlscheduler":
                self._then = self._reserve(self.machine, self.chosen)
            if not asks:
                self._backfill()
        return OVERTAKE if asks else None

    def pick(self, job: int) -> None:
        """Carry out a pick at the stage at hand.

        Parameters
        ----------
        job
            Index of a waiting job; at the stage `OVERTAKE` one that may overtake.
        """
        if self.chosen != NO_JOB:
            self._overtake(job)
            return
        cores = self.machine.choose(job)
        if cores is not None:
            self._start_waiting(job, cores)
            return
        self.chosen = job
        self._is_reserved = False
        if self._backfilling == "rlscheduler":
            self._then = self._reserve(self.machine, self.chosen)

    def hold(self, job: int) -> None:
        """Hold a job until jobs arrive or end: it is neither chosen nor may it overtake."""
        self.held.add(job)
        self._fits = None

    def fitting(self) -> NDArray[np.bool_]:
        """Tell of each job of the queue whether it could start now and is not held, shape ``(len(queue),)``."""
        if self._fits is None:
            self._fits = self._fitting()
        return self._fits

    def _fitting(self) -> NDArray[np.bool_]:
        jobs = self.machine.jobs[self.queue]
        fits = jobs["cores"] <= self.machine.n_free
        if self.held:
            fits &= np.array([job not in self.held for job in self.queue])
        hungry = np.flatnonzero(fits & (jobs["memory_mib"] > 0)).tolist()
        if hungry:
            free = self.machine.cores_per_node(np.flatnonzero(self.machine.free))
            for position in hungry:
                room = self.machine.room(self.queue[position], free, self.machine.free_memory_mib)
                fits[position] = room.sum() >= jobs["cores"][position]
        return np.asarray(fits)

    def overtakers(self) -> list[int]:
        """Return the waiting jobs that may start now although the chosen one waits."""
        fits = self.fitting().tolist()
        return [job for job, fit in zip(self.queue, fits, strict=True) if fit and self._may_overtake(job) is not None]

    # ------------------------------------------------------------------ parts

    def _start_waiting(self, job: int, cores: NDArray[np.int64]) -> None:
        self._start(self.machine, job, cores)
        self.queue.remove(job)
        self._fits = None

    def _may_overtake(self, job: int) -> tuple[NDArray[np.int64], HeadReservation] | None:
        """Return the cores on which a job may start although the chosen one waits, and what that is left then.

        ``None``: it may not start.
        """
        cores = None if job == self.chosen else self.machine.choose(job)
        if cores is None:
            return None
        if self._backfilling == "rlscheduler":
            is_early = self.machine.now_s + self.machine.duration_s(job, cores) < self._then.shadow_s
            return (cores, self._then) if is_early else None
        left = self._reservation_after(self.machine, self.chosen, job, cores, self._then)
        return None if left is None else (cores, left)

    def _overtake(self, job: int) -> None:
        """Start a job before the chosen one, if it may."""
        found = self._may_overtake(job)
        if found is not None:
            cores, self._then = found
            self._start_waiting(job, cores)

    def _backfill(self) -> None:
        """Start the jobs that may overtake the chosen one, in the order of their submission or requested time."""
        jobs = [job for job, fit in zip(self.queue, self.fitting().tolist(), strict=True) if fit]
        if self._backfilling == "easy_sjbf":
            jobs.sort(key=self.machine.requested_s)
        for job in jobs:
            self._overtake(job)


class PlainPicks:
    """A simulation whose choices are made by actions of JobPick.

    Attributes
    ----------
    stage
        What is to be chosen now, ``None`` when the simulation has ended.
    """

    def __init__(self, env: Any, core_selection: str = "high_gflops", **choices: Any) -> None:
        self._options = PickChoices(**choices).checked()
        self._rules = PickRules(self._options, core_selection)
        self._n_jobs, self._n_decisions = env.workload.n_jobs, 0
        self._simulator = EmbeddedSimulator(env.platform, env.workload, energy=env.platform.has_power)
        view = self._simulator.reset()
        while not self._rules.see(view):
            view = self._simulator.step()
        self.stage = self._to_choice()

    def mask(self, shown: list[int]) -> NDArray[np.bool_]:
        """Return which actions are legal while these jobs are shown."""
        rules, n_rows = self._rules, self._options.max_jobs
        mask = np.zeros(self._options.layout.n_actions, dtype=np.bool_)
        open_jobs = set(self._open())
        mask[: len(shown)] = [job in open_jobs for job in shown]
        if self._options.may_hold and rules.is_running:
            mask[n_rows : n_rows + len(shown)] = mask[: len(shown)]
        if self._options.has_skip:
            mask[-1] = rules.can_wait
        return mask

    def act(self, action: int, shown: list[int]) -> None:
        """Carry out an action while these jobs are shown, and go on to the next choice."""
        self._n_decisions += 1
        if self._options.layout.name_of(action) == SKIP:
            self._to_next_event()
        elif action >= self._options.max_jobs:
            self._rules.hold(shown[action - self._options.max_jobs])
        else:
            self._rules.pick(shown[action])
        self.stage = self._to_choice()

    @property
    def trace(self) -> Any:
        """What has happened."""
        return replace(self._simulator.trace, n_decisions=self._n_decisions)

    def _open(self) -> list[int]:
        rules = self._rules
        return [job for job in rules.queue if job not in rules.held] if self.stage == CHOOSE else rules.overtakers()

    def _to_choice(self) -> int | None:
        rules = self._rules
        while rules.queue or rules.n_submitted < self._n_jobs:
            self.stage = rules.stage()
            if self.stage is not None and self._open():
                return self.stage
            self._to_next_event()
        view = self._simulator.step(rules.machine.started)
        while not view.is_over:
            view = self._simulator.step()
        return None

    def _to_next_event(self) -> None:
        view = self._simulator.step(self._rules.machine.started)
        while not self._rules.see(view) and not view.is_over:
            view = self._simulator.step()
