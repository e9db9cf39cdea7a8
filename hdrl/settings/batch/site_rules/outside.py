"""A simulation of a site that stops at each decision: policies in Python and models make them, under the same rules."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, SimulationError
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.simulation.answer import check_call, check_job, core_ids, job_name
from hdrl.settings.batch.simulation.decisions import CallAt, Decision, Reject, Start
from hdrl.settings.batch.simulation.view import News
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.kernel import events
from hdrl.settings.batch.site_rules.kernel.state import SiteState, grown_site_state, waiting_jobs
from hdrl.settings.batch.site_rules.view import SiteView, SiteWorld

DATES_PER_CALL = 50_000
"""Dates between two looks at the world outside (progress, Ctrl-C): some 100 ms."""

_NOTHING = -1
"""The subject of news that are about no job."""


class StepwiseSimulation:
    """One simulation that stops whenever something has changed.

    Parameters
    ----------
    state
        Arrays with ``is_asked`` set, of a simulation that is about to begin.
    """

    def __init__(self, world: SiteWorld, state: SiteState) -> None:
        self.world = world
        self.borrowed = Borrowed(state)
        self.is_over = False
        self._n_reported = 0
        self._reported_at = np.full(world.workload.n_jobs, -1, dtype=np.int64)  # restarts of each job in its last news
        self._given = np.zeros(world.workload.n_jobs)
        self._may_go_on = False  # more may start at this date

    @property
    def state(self) -> SiteState:
        """The arrays; others once logs have grown."""
        return self.borrowed.arrays

    @property
    def n_waiting(self) -> int:
        """Number of entries in the queue."""
        return int(self.state.scalars["n_queue"][0])

    def go_on(self) -> None:
        """Go on to the next date at which something changes, or to the end."""
        status = codes.PAUSED
        while status in (codes.PAUSED, codes.GROW):
            status = events.advance(self.borrowed, DATES_PER_CALL)
            if status == codes.GROW:
                self._grow()
        self.is_over = status == codes.ENDED

    def decide(self, request: int, entry: int = 0) -> int:
        """Carry out a decision, see `kernel.events.decide`."""
        return events.decide(self.borrowed, request, entry)

    def end_decisions(self) -> None:
        """Note that what was decided at this date is no news for the next one."""
        self.state.scalars["is_changed"] = 0

    def view(self) -> SiteView:
        """Return the scheduler's view now, with the news since the last view."""
        return SiteView.of(self.world, self.borrowed, self._news(), is_over=self.is_over)

    def step(self, decisions: Iterable[Decision]) -> SiteView:
        """Carry out decisions, and return the view at the next message.

        After starts and rejections that is one of the same date while jobs wait, so that a policy can start one job for
        each message.

        Raises
        ------
        DecisionError
            At the first one that the rules forbid; those before it have been carried out.
        """
        if self.is_over:
            raise SimulationError("the simulation has ended; reset() begins it anew")
        for decision in decisions:
            self._carry_out(decision)
            self._may_go_on = self._may_go_on or not isinstance(decision, CallAt)
        self.end_decisions()
        more, self._may_go_on = self._may_go_on and self.n_waiting > 0, False
        if not more:
            self.go_on()
        return self.view()

    def start_by(self, priorities: NDArray[np.float64]) -> None:
        """Start the jobs that start now by given priorities.

        Parameters
        ----------
        priorities
            Of each waiting job, in the order of `SiteView.waiting`; the lowest is served first.
        """
        state = self.state
        queue = state.queue[: self.n_waiting]
        self._given[waiting_jobs(state)] = priorities
        state.entries["priority"][queue] = -self._given[state.entries["job"][queue]]
        self._may_go_on = bool(self.decide(codes.START_BY_PRIORITY))
        self.end_decisions()

    # ------------------------------------------------------------------ parts

    def _grow(self) -> None:
        self.borrowed = Borrowed(grown_site_state(self.state))

    def _news(self) -> list[tuple[News, int]]:
        state, n = self.state, int(self.state.scalars["n_completed"][0])
        news = (
            [] if self._reported_at.max(initial=-1) >= 0 or self._n_reported else [(News.SIMULATION_BEGINS, _NOTHING)]
        )
        news += [(News.JOB_COMPLETED, job) for job in state.completed[self._n_reported : n].tolist()]
        self._n_reported = n
        jobs = waiting_jobs(state)
        fresh = jobs[self._reported_at[jobs] != state.jobs["n_restarts"][jobs]]
        self._reported_at[fresh] = state.jobs["n_restarts"][fresh]
        news += [(News.JOB_SUBMITTED, job) for job in fresh.tolist()]
        return [*news, (News.SIMULATION_ENDS, _NOTHING)] if self.is_over else news

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self._start(decision)
        elif isinstance(decision, Reject):
            check_job(self.world.workload, decision.job)
            self._check_waiting(int(decision.job), "be rejected")
            self.decide(codes.REJECT, int(self.state.jobs["first_entry"][decision.job]))
        elif isinstance(decision, CallAt):
            now_s = float(self.state.scalars["message_s"][0])
            check_call(decision.time_s, now_s)
            if len(self.state.dates_s) - int(self.state.scalars["n_events"][0]) < self.state.settings["n_cores"][0]:
                self._grow()
            self.state.scalars["asked_s"] = decision.time_s
            self.decide(codes.CALL)
        else:
            raise DecisionError(
                f"{decision!r}: on a machine with the rules of a site, expected Start, Reject or CallAt "
                "(--set site_rules=false simulates without the rules)"
            )

    def _error(self, job: int, why: str, *, what: str = "start") -> DecisionError:
        now_s = float(self.state.scalars["message_s"][0])
        return DecisionError(f"t={now_s:g} s: job {job_name(self.world.workload, job)!r} cannot {what}: {why}")

    def _check_waiting(self, job: int, what: str = "start") -> None:
        """Raise an error if a job is not in the queue."""
        row = self.state.jobs[job]
        if row["state"] == codes.WAITING and row["is_queued"] == 0:
            why = "it is not eligible yet (View.waiting has those that are)"
            raise self._error(job, why, what=what)
        if row["state"] != codes.WAITING:
            names = {codes.NOT_SUBMITTED: "it has not been submitted yet", codes.RUNNING: "it runs already"}
            raise self._error(job, names.get(int(row["state"]), "it has ended"), what=what)
        if row["first_component"] >= 0 and what == "start":
            raise self._error(job, "it is a component of a heterogeneous job, which only backfilling starts")

    def _start(self, decision: Start) -> None:
        check_job(self.world.workload, decision.job)
        job, cores = int(decision.job), core_ids(decision.cores)
        self._check_waiting(job)
        n_cores = self.world.platform.n_cores
        if len(cores) == 0 or cores.min() < 0 or cores.max() >= n_cores:
            raise self._error(job, f"its cores are {cores.tolist()}, expected ids from 0 to {n_cores - 1}")
        if len(np.unique(cores)) < len(cores):
            raise self._error(job, "a core is named twice")
        first = self.state.nodes["first_core"]
        nodes, counts = np.unique(np.searchsorted(first, cores, side="right") - 1, return_counts=True)
        row, reasons = self.state.jobs[job], []
        for entry in range(row["first_entry"], row["first_entry"] + row["n_entries"]):
            why = self._blocking_rule(job, entry, nodes, counts)
            if why is None:
                chosen = self.state.selected[: len(nodes)]
                chosen["node"], chosen["cores"] = nodes, counts
                self.state.scalars["n_selected"] = len(nodes)
                self.decide(codes.START, entry)
                return
            reasons.append(why)
        raise self._error(job, "; ".join(dict.fromkeys(reasons)))

    def _blocking_rule(self, job: int, entry: int, nodes: NDArray[np.int64], counts: NDArray[np.int64]) -> str | None:
        """Return the rule that keeps a job from starting on some cores of some nodes in a partition."""
        found, state, rules = self.decide(codes.LOOK, entry), self.state, self.world.rules
        if found == codes.IS_LIMITED:
            requested = self.world.site_requests.jobs[job]
            names = [f"QOS {rules.qos_names[requested['qos']]!r}"] if requested["qos"] >= 0 else []
            names += [f"account {rules.account_names[requested['account']]!r}"] if requested["account"] >= 0 else []
            return f"the limits of its {' and '.join(names)} are reached"
        row, partition = state.jobs[job], int(state.entries["partition"][entry])
        limits = state.partitions[partition]
        where = f"partition {rules.partition_names[partition]!r}"
        for node, n in zip(nodes.tolist(), counts.tolist(), strict=True):
            why = self._blocking_rule_on(row, partition, node, n)
            if why is not None:
                return why
        is_whole = bool(row["is_exclusive"] or limits["is_exclusive"])
        if is_whole and np.any(counts < state.nodes["cores"][nodes]):
            return "it gets whole nodes"
        least = max(int(row["nodes"]), int(limits["min_nodes"]), 1)
        if len(nodes) < least:
            return f"it needs at least {least} nodes in {where} and was given {len(nodes)}"
        wanted = max(int(row["n_requested"]), least)  # each of its nodes gives it a core
        if counts.sum() < wanted or (not is_whole and counts.sum() > wanted):
            return f"it asks for {wanted} cores and was given {counts.sum()}"
        if 0 <= limits["max_nodes"] < len(nodes):
            return f"{where} gives a job at most {limits['max_nodes']} nodes; it was given {len(nodes)}"
        return None

    def _blocking_rule_on(self, row: np.void, partition: int, node: int, n: int) -> str | None:
        """Return why a job cannot have ``n`` cores of a node; the usable nodes are those of `LOOK`."""
        state, rules = self.state, self.world.rules
        name = f"node {rules.node_names[node]!r}"
        if not rules.partition_nodes[partition, node]:
            return f"{name} is not in partition {rules.partition_names[partition]!r}"
        if not _has(state.feature_nodes[row["features"]], node):
            return f"{name} lacks features that it asks for"
        if state.nodes["n_closed"][node] > 0:
            return f"{name} has failed or is drained"
        if not _has(state.usable, node):
            return f"{name} is reserved before it would have reached its limit"
        if state.free[node] < n:
            return f"{name} has {max(state.free[node], 0)} free cores, it was given {n}"
        if row["gpus"] > 0 and state.free_gpus[node] < row["gpus"]:
            return f"{name} has {state.free_gpus[node]} free GPUs, it needs {row['gpus']}"
        if state.settings["counts_memory"][0] and row["memory_mib"] * n > state.free_mib[node] + 1e-9:
            return f"{name} lacks the memory for it"
        return None


def _has(words: NDArray[np.uint64], node: int) -> bool:
    """Tell whether a node is in a set of nodes."""
    return bool(int(words[node >> 6]) >> (node & 63) & 1)
