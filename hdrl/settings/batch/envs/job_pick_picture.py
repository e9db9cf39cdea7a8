"""The observation of JobPick where the kernel simulates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled.lend import Lent
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions
from hdrl.settings.batch.envs.job_pick_rules import NOBODY, PickRules
from hdrl.settings.batch.envs.machines import PoolInputs
from hdrl.settings.batch.identical_cores import entries
from hdrl.settings.batch.identical_cores.state import OrderState, new_order_state, set_episode
from hdrl.settings.batch.identical_cores.table import PoolPast, most_groups
from hdrl.settings.batch.policies.machine import MachinePicture
from hdrl.settings.batch.simulation.view import News, View


def new_picture_pool(inputs: PoolInputs, options: JobPickOptions, n_sums: int) -> OrderState:
    """Return the arrays of a pool, a batch of one, that is to hold what somebody else simulates of one workload.

    Parameters
    ----------
    n_sums
        For how many groups of jobs there is room, where run times are predicted.
    """
    n_jobs = len(inputs.orders[0])
    pool = new_order_state(1, n_jobs, n_sums=n_sums, **options.shared_arrays(inputs.columns, inputs.n_procs))
    set_episode(pool, 0, 0, n_jobs)
    pool.scalars["first_submit_s"] = inputs.columns.submit_s[0]
    return pool


_ONLY_ROW = np.ones(1, dtype=np.bool_)


class Picture:
    """What an agent sees of a machine that somebody else simulates: the observation of JobPick.

    The arrays of a pool are filled with what the scheduler knows, and compiled code makes the observation of them.
    """

    def __init__(self, inputs: PoolInputs, options: JobPickOptions) -> None:
        self.order = inputs.orders[0]
        self._place_of = np.argsort(self.order)
        self._shape = (options.max_jobs, options.n_features)
        self._n_procs, self._max_jobs = inputs.platform.n_cores, options.max_jobs
        self._pool = new_picture_pool(inputs, options, most_groups(len(self.order)))
        self._lent = Lent(self._pool)
        self._past = PoolPast(inputs.workloads, inputs.orders) if options.predicts else None
        self._waiting: dict[int, None] = {}  # by their places, in the order in which they came

    def hear(self, view: View) -> None:
        """Take in a message, if anything is predicted: jobs that have come or ended, in the order of the news."""
        if self._past is None:
            return
        pool = self._pool
        pool.scalars[0]["message_s"] = view.now_s
        for kind, subject in view.news:
            if kind == News.SIMULATION_BEGINS:
                pool.sums[:] = np.zeros(1, dtype=pool.sums.dtype)
                self._past.write(pool, 0, 0, 0, len(self.order))
                self._waiting.clear()
            elif kind == News.JOB_SUBMITTED:
                self._waiting[int(self._place_of[subject])] = None
                entries.note_submission_of(self._lent, int(self._place_of[subject]))
            elif kind == News.JOB_COMPLETED:
                pool.waiting[0, : len(self._waiting)] = list(self._waiting)
                pool.scalars[0]["n_waiting"] = len(self._waiting)
                entries.note_end_of(self._lent, int(self._place_of[subject]))

    def note_starts(self, machine: MachinePicture) -> None:
        """Take in what has been started by the present answer, if anything is predicted."""
        if self._past is None:
            return
        self._pool.scalars[0]["message_s"] = machine.now_s
        for one in machine.started:
            place = int(self._place_of[one.job])
            if place in self._waiting:
                del self._waiting[place]
                entries.note_start_of(self._lent, place)

    def show(self, rules: PickRules, stage: int) -> tuple[NDArray[np.float32], list[int]]:
        """Return the observation, and the jobs of its rows."""
        self.note_starts(rules.machine)
        pool, s = self._pool, self._pool.scalars[0]
        fits = dict(zip(rules.queue, rules.fitting().tolist(), strict=True))
        jobs = sorted(rules.queue, key=lambda job: int(self._place_of[job]))
        n_waiting, places = len(jobs), self._place_of[jobs]
        submit_s = pool.jobs["submit_s"][places]
        sizes = pool.jobs["n_requested"][places]
        pool.waiting[0, :n_waiting] = places
        pool.waiting_submit_s[0, :n_waiting] = submit_s
        # What lacks memory cannot start either: to compiled code it is too large.
        pool.waiting_sizes[0, :n_waiting] = np.where([fits[job] for job in jobs], sizes, self._n_procs + 1)
        running = rules.expected_ends
        pool.expected_s[0, : len(running)] = [end_s for end_s, _ in running]
        pool.expected_jobs[0, : len(running)] = self._place_of[[job for _, job in running]]
        s["n_waiting"], s["n_running"], s["n_free"] = n_waiting, len(running), rules.machine.n_free
        # Dates of messages have six decimals: a job may seem to come a little later.
        s["message_s"] = max(rules.machine.now_s, float(submit_s.max(initial=0.0)))
        s["chosen"] = -1 if rules.chosen == NOBODY else self._place_of[rules.chosen]
        s["stage"] = stage
        entries.show_rows(self._lent, _ONLY_ROW)
        shown = self.order[pool.waiting[0, : min(n_waiting, self._max_jobs)]].tolist()
        return pool.observations[0].reshape(self._shape).copy(), shown
