"""The embedded simulator: the compiled kernel behind the face that every simulator has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import SimulationError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.twister import python_twister_state, twister_state
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.kernel.groups import SHORT_S
from hdrl.settings.batch.kernel.state import BatchState, new_state
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.answer import CANNOT_SWITCH, Answer, deadlock_message, grown_for
from hdrl.settings.batch.simulation.collect import collect_trace
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.trace import BatchTrace
from hdrl.settings.batch.simulation.view import View
from hdrl.settings.batch.simulators import HDEEPRM
from hdrl.settings.batch.workload.model import Workload

STEPS_PER_CALL = 100_000
"""Engine steps between two looks at the world outside (progress, Ctrl-C): some 20 ms."""

JOBS_PER_WORD = 1000
"""Finished jobs between two words of progress, where each decision is a call."""

Progress = Callable[[int, int], None]


def first_state(
    platform: Platform,
    workload: Workload,
    *,
    seed: int,
    energy: bool,
    compatibility: str | None,
    rule: PolicyRule = NO_RULE,
) -> BatchState:
    """Return the state of a simulation at date 0.

    Raises
    ------
    SimulationError
        If a policy switches nodes off that cannot be.
    """
    compatible = compatibility == HDEEPRM
    if rule.node_rule != codes.NODES_LEFT_ALONE:
        check_switches(platform, energy=energy, sleep_state=rule.sleep_state)
    twister = python_twister_state(seed) if compatible else twister_state(seed, "policy")
    return new_state(platform, workload, twister=twister, energy=energy, compatible=compatible, rule=rule)


def check_switches(platform: Platform, *, energy: bool, sleep_state: int = 0) -> None:
    """Raise an error if the nodes of a platform cannot be switched off.

    A sleep state will do that one of them has; nodes that have fewer go to their last one.

    Raises
    ------
    SimulationError
        If none of them can.
    """
    if not energy or sleep_state >= platform.n_sleep_states:
        why = "energy is not accounted for" if platform.n_sleep_states else CANNOT_SWITCH
        if energy and platform.n_sleep_states:
            why = f"there is no sleep state {sleep_state} (0 to {platform.n_sleep_states - 1})"
        raise SimulationError(f"nodes of platform {platform.name!r} cannot be switched off: {why}")


def check_platform(platform: Platform, *, energy: bool) -> None:
    """Raise an error if a platform is not for the embedded simulator."""
    if platform.site is not None:
        raise SimulationError(
            f"platform {platform.name!r} has the rules of a site, which only 'site' simulates; --set site_rules=false "
            "leaves them out"
        )
    if platform.message_latency_s.any() or platform.loopback_latency_s:
        raise SimulationError(
            f"platform {platform.name!r} has links with latencies, which the embedded simulator does not support"
        )
    if energy:
        check_power(platform)


def check_power(platform: Platform) -> None:
    """Raise an error if a platform does not say what its hosts draw."""
    if not platform.has_power:
        renamed = any("watt_per_state" in properties for properties in platform.properties)
        raise SimulationError(
            f"platform {platform.name!r} has no power figures of its hosts (wattage_per_state); "
            + ("rename watt_per_state, an old name that SimGrid ignores, or " if renamed else "")
            + 'simulate it without energy ("energy": false in the options, or --set energy=false)'
        )


def start_by(
    borrowed: Borrowed[BatchState], priorities: NDArray[np.float64], job_key: int, core_key: int, backfilling: int
) -> None:
    """Let the kernel start waiting jobs by given priorities: see `EmbeddedSimulator.start_by`."""
    state = borrowed.arrays
    queue = state.queue[: int(state.scalars["n_queue"][0])]
    arrivals = queue[np.argsort(state.jobs["rank"][queue], kind="stable")]
    state.jobs["priority"][arrivals] = priorities
    entries.schedule_pair(borrowed, job_key, core_key, backfilling)


def predict_given(state: BatchState, jobs: NDArray[np.int64], lengths_s: NDArray[np.float64]) -> None:
    """Set the given predictions of run times, as `kernel.history.predict` uses them."""
    rows = state.predictions
    rows["given_s"][jobs] = rows["length_s"][jobs] = lengths_s
    rows["harmonic_s"][jobs] = np.maximum(lengths_s, SHORT_S)
    rows["log_length"][jobs] = elementary.log(np.maximum(lengths_s, 1.0))
    rows["log_harmonic"][jobs] = elementary.log(np.maximum(lengths_s, SHORT_S))


class EmbeddedSimulator:
    """One simulation on the compiled kernel.

    ``view = simulator.reset()``, then ``view = simulator.step(decisions)`` until ``view.is_over``; the result is
    `trace`. A policy pair known to the kernel runs much faster through `run_pair`.

    Parameters
    ----------
    platform
        The machine; its links must have no latency.
    workload
        The jobs; every job must fit the platform (`workload.check_fits`).
    seed
        Seed of what is random in a policy; streams are spawned from it by name.
    compatibility
        ``None``, or ``"hdeeprm-0.3.1"`` to decide as HDeepRM 0.3.1 does, bugs included. The platform and the
        workload must have been read in the same mode.
    rule
        Rules of a policy beyond its job key and its backfilling: predictions, an index, a gate.

    Raises
    ------
    SimulationError
        If the platform has what only the exact simulator knows.
    """

    def __init__(
        self,
        platform: Platform,
        workload: Workload,
        *,
        seed: int = 0,
        energy: bool = True,
        compatibility: str | None = None,
        rule: PolicyRule = NO_RULE,
    ) -> None:
        check_platform(platform, energy=energy)
        workload.check_simulated()
        self.platform = platform
        self.workload = workload
        self._seed = seed
        self._energy = energy
        self._compatibility = compatibility
        self._rule = rule
        self._current: Answer | None = None

    @property
    def _answer(self) -> Answer:
        """Receives decisions; it holds the state, which is made on first use."""
        if self._current is None:
            state = first_state(
                self.platform,
                self.workload,
                seed=self._seed,
                energy=self._energy,
                compatibility=self._compatibility,
                rule=self._rule,
            )
            self._current = Answer(self.platform, self.workload, state)
        return self._current

    @property
    def _state(self) -> BatchState:
        return self._answer.state

    @property
    def _borrowed(self) -> Borrowed[BatchState]:
        return self._answer.borrowed

    def reset(self) -> View:
        """Go back to date 0 and return the first view."""
        self._current = None
        entries.begin(self._borrowed)
        return self._advance()

    def step(self, decisions: Iterable[Decision] = (), *, now_s: float | None = None) -> View:
        """Carry out decisions and return the view at the next message.

        Parameters
        ----------
        decisions
            Carried out in order.
        now_s
            Date until which the scheduler is busy with this answer; ``None``: it takes no time.

        Raises
        ------
        DecisionError
            At the first decision that cannot be followed; neither it nor any after it is applied. Those before it are
            kept and take effect with the next step.
        SimulationError
            If jobs are waiting and nothing will ever happen again, or if the simulation has ended.
        """
        if self._state.scalars["ended"][0]:
            raise SimulationError("the simulation has ended; reset() begins it anew")
        self._state.scalars["n_decisions"] += 1
        self._answer.add_all(decisions)
        if now_s is not None:
            self._state.scalars["reply_now_s"] = now_s
        entries.answer(self._borrowed)
        return self._advance()

    def run_pair(
        self, job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING, *, progress: Progress | None = None
    ) -> None:
        """Simulate from date 0 to the end under a policy pair, in compiled code.

        Parameters
        ----------
        job_key, core_key, backfilling
            Numbers of the keys and of the kind of backfilling in `kernel.codes`.
        progress
            Called with the numbers of finished and of all jobs, a few times a second.

        Raises
        ------
        SimulationError
            If jobs are waiting and nothing will ever happen again.
        """
        if backfilling == codes.CONSERVATIVE:  # it is compiled apart from the simulation
            self.run_by(lambda borrowed: entries.schedule_pair(borrowed, job_key, core_key, backfilling), progress)
            return
        self._begin_unwatched()
        status = codes.PAUSED
        while status in (codes.PAUSED, codes.GROW):
            status = entries.run_pair(self._borrowed, job_key, core_key, STEPS_PER_CALL, backfilling)
            self._handle_status(status)
            if progress is not None:
                progress(self.n_done, self.workload.n_jobs)

    def _begin_unwatched(self) -> None:
        """Begin at date 0 for a policy that never asks what is left of a job, which takes time to follow."""
        self._current = None
        self._state.scalars["follows_progress"] = 0
        entries.begin(self._borrowed)

    def run_by(self, decide: Callable[[Borrowed[BatchState]], object], progress: Progress | None = None) -> None:
        """Simulate from date 0 to the end with calls for each decision of compiled code that is apart from the kernel.

        Parameters
        ----------
        decide
            Called with the arrays when jobs have come or ended while jobs wait; it writes its starts into the answer.

        Raises
        ------
        SimulationError
            If jobs are waiting and nothing will ever happen again.
        """
        n_reported = 0
        for borrowed in self.decisions():
            decide(borrowed)
            if progress is not None and self.n_done >= n_reported + JOBS_PER_WORD:
                n_reported = self.n_done
                progress(n_reported, self.workload.n_jobs)
        if progress is not None:
            progress(self.n_done, self.workload.n_jobs)

    def decisions(self) -> Iterator[Borrowed[BatchState]]:
        """Simulate from date 0 to the end; yield the arrays whenever jobs have come or ended while jobs wait.

        Compiled code that is apart from the kernel writes its starts into the answer before the next one.

        Raises
        ------
        SimulationError
            If jobs are waiting and nothing will ever happen again.
        """
        self._begin_unwatched()
        status = entries.to_decision(self._borrowed, STEPS_PER_CALL)
        while status != codes.ENDED:
            if status == codes.MESSAGE:
                yield self._borrowed
                status = entries.to_next_decision(self._borrowed, STEPS_PER_CALL)
            else:
                self._handle_status(status)
                status = entries.to_decision(self._borrowed, STEPS_PER_CALL)

    @property
    def is_due(self) -> bool:
        """True if a policy pair would decide now: jobs came or ended since the last decision, and jobs wait."""
        s = self._state.scalars[0]
        return bool(s["news"] != codes.NO_NEWS and s["n_queue"] > 0)

    def start_by(
        self, priorities: NDArray[np.float64], job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING
    ) -> None:
        """Let the kernel start waiting jobs by given priorities; `step` goes on then.

        Parameters
        ----------
        priorities
            Of each waiting job, in the order in which they came (`View.waiting`); the lowest is served first.
        job_key, core_key, backfilling
            Numbers of the keys and of the kind of backfilling in `kernel.codes`; the job key is ``JOB_GIVEN``.
        """
        start_by(self._borrowed, priorities, job_key, core_key, backfilling)

    def start_predicted(
        self,
        jobs: NDArray[np.int64],
        lengths_s: NDArray[np.float64],
        job_key: int,
        core_key: int,
        backfilling: int = codes.NO_BACKFILLING,
    ) -> None:
        """Let the kernel start waiting jobs by given predictions of run times; `step` goes on then.

        Parameters
        ----------
        jobs, lengths_s
            All waiting jobs, and how long they are expected to run, in seconds.
        job_key, core_key, backfilling
            Numbers of the keys and of the kind of backfilling in `kernel.codes`.
        """
        predict_given(self._state, jobs, lengths_s)
        entries.schedule_pair(self._borrowed, job_key, core_key, backfilling)

    def run_s(self, job: int) -> float:
        """Return the run time of a job that has just ended, in seconds; its rule must predict run times."""
        return float(self._state.scalars["message_s"][0] - self._state.predictions["started_s"][job])

    def close(self) -> None:
        """Do nothing: only simulators outside the kernel leave something to close."""

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return int(self._state.scalars["n_done"][0])

    @property
    def trace(self) -> BatchTrace:
        """Trace of the simulation so far."""
        trace = collect_trace(self.platform, self.workload, self._state, self._compatibility)
        trace.metadata.update(self._answer.metadata)
        return trace

    def _advance(self) -> View:
        """Go on to the next message, or to the end."""
        while True:
            status = entries.advance(self._borrowed, STEPS_PER_CALL)
            if status == codes.MESSAGE and not self._state.scalars["ended"][0]:
                break
            if status == codes.MESSAGE:
                entries.answer(self._borrowed)
                continue
            self._handle_status(status)
            if status == codes.ENDED:
                break
        return View(self.platform, self.workload, self._borrowed)

    def _handle_status(self, status: int) -> None:
        """React to a status of the kernel."""
        if status == codes.GROW:
            self._answer.state = grown_for(self._state, self.platform, self.workload)
        elif status == codes.STUCK:
            raise SimulationError(deadlock_message(self.workload, self._state))
        elif status == codes.ILLEGAL:
            s = self._state.scalars[0]
            raise self._answer.error(int(s["error"]), int(s["error_job"]), int(s["error_core"]))
