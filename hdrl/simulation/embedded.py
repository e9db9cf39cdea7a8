"""The embedded simulator: the compiled kernel behind the face that every simulator has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hdrl.errors import DecisionError, SimulationError
from hdrl.kernel import codes, entries
from hdrl.kernel.state import State, grown, new_state
from hdrl.kernel.twister import python_twister_state, twister_state
from hdrl.platform.model import Platform
from hdrl.simulation.collect import collect_trace
from hdrl.simulation.decisions import Annotate, AskEnergy, At, CallAt, Decision, Kill, Reject, SetPState, Start
from hdrl.simulation.trace import Trace
from hdrl.simulation.view import View
from hdrl.workload.model import Workload

HDEEPRM = "hdeeprm-0.3.1"
"""The compatibility mode that reproduces HDeepRM 0.3.1."""

STEPS_PER_CALL = 100_000
"""Engine steps between two looks at the world outside (progress, Ctrl-C): some 20 ms."""

Progress = Callable[[int, int], None]


class EmbeddedSimulator:
    """One simulation on the compiled kernel.

    ``view = simulator.reset()``, then ``view = simulator.step(decisions)`` until ``view.is_over``; the result is
    `trace`. A policy pair known to the kernel runs much faster through `run_pair`.

    Parameters
    ----------
    platform
        The machine; its links must have no latency.
    workload
        The jobs; every job must fit the platform (`hdrl.workload.check_fits`).
    seed
        Seed of what is random in a policy; streams are spawned from it by name.
    energy
        Account for energy.
    compatibility
        ``None``, or ``"hdeeprm-0.3.1"`` to decide as HDeepRM 0.3.1 does, bugs included. The platform and the
        workload must have been read in the same mode.

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
    ) -> None:
        if platform.message_latency_s.any() or platform.loopback_latency_s:
            raise SimulationError(
                f"platform {platform.name!r} has links with latencies, which the embedded simulator does not know"
            )
        self.platform = platform
        self.workload = workload
        self._seed = seed
        self._energy = energy
        self._compatibility = compatibility
        self._metadata: dict[int, str] = {}
        self._state = self._birth()

    def _birth(self) -> State:
        compatible = self._compatibility == HDEEPRM
        twister = python_twister_state(self._seed) if compatible else twister_state(self._seed, "policy")
        return new_state(self.platform, self.workload, twister=twister, energy=self._energy, compatible=compatible)

    def reset(self) -> View:
        """Go back to date 0 and return the first view."""
        self._metadata = {}
        self._state = self._birth()
        entries.begin(self._state)
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
            If jobs are waiting and nothing will ever happen again.
        """
        self._state.scalars["n_decisions"] += 1
        for decision in decisions:
            self._add(decision)
        if now_s is not None:
            self._state.scalars["reply_now_s"] = now_s
        entries.answer(self._state)
        return self._advance()

    def run_pair(self, job_key: int, core_key: int, *, progress: Progress | None = None) -> None:
        """Simulate from date 0 to the end under a policy pair, in compiled code.

        Parameters
        ----------
        job_key, core_key
            Numbers of the keys in `hdrl.kernel.codes`.
        progress
            Called with the numbers of finished and of all jobs, a few times a second.

        Raises
        ------
        SimulationError
            If jobs are waiting and nothing will ever happen again.
        """
        self._state = self._birth()
        entries.begin(self._state)
        status = codes.PAUSED
        while status in (codes.PAUSED, codes.GROW):
            status = entries.run_pair(self._state, job_key, core_key, STEPS_PER_CALL)
            self._after(status)
            if progress is not None:
                progress(self.n_done, self.workload.n_jobs)

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return int(self._state.scalars["n_done"][0])

    @property
    def trace(self) -> Trace:
        """What has happened so far."""
        trace = collect_trace(self.platform, self.workload, self._state, self._compatibility)
        trace.metadata.update(self._metadata)
        return trace

    def _advance(self) -> View:
        """Go on to the next message, or to the end."""
        while True:
            status = entries.advance(self._state, STEPS_PER_CALL)
            if status == codes.MESSAGE and not self._state.scalars["ended"][0]:
                break
            if status == codes.MESSAGE:
                entries.answer(self._state)
                continue
            self._after(status)
            if status == codes.ENDED:
                break
        return View(self.platform, self.workload, self._state)

    def _after(self, status: int) -> None:
        """Do what a status of the kernel calls for."""
        if status == codes.GROW:
            self._state = grown(self._state, margin=64 + 2 * self.platform.n_cores + self.workload.n_jobs)
        elif status == codes.STUCK:
            raise SimulationError(self._why_stuck())
        elif status == codes.ILLEGAL:
            raise self._illegal()

    def _why_stuck(self) -> str:
        s = self._state.scalars[0]
        waiting = int(s["n_queue"])
        example = f", for instance {self._name(int(self._state.queue[0]))!r}" if waiting else ""
        return (
            f"t={s['now']:g} s: nothing will happen any more, but {waiting} jobs are waiting{example}: "
            "the policy does not start them"
        )

    def _name(self, job: int) -> str:
        return f"{self.workload.sources[self.workload.jobs['source'][job]]}!{self.workload.job_ids[job]}"

    def _illegal(self) -> DecisionError:
        s = self._state.scalars[0]
        return self._error(int(s["error"]), int(s["error_job"]), int(s["error_core"]))

    def _error(self, code: int, job: int, core: int) -> DecisionError:
        """Return the error for an error code of the kernel."""
        name = self._name(job) if job >= 0 else ""
        asked = int(self.workload.jobs["cores"][job]) if job >= 0 else 0
        text = {
            codes.ERROR_JOB_NOT_WAITING: f"job {name!r} is not waiting",
            codes.ERROR_CORE_BUSY: f"job {name!r}: core {core} is not free",
            codes.ERROR_WRONG_SIZE: f"job {name!r} asks for {asked} cores and was given another number",
            codes.ERROR_CALL_IN_PAST: "a call must be asked for at a date in the future",
            codes.ERROR_TOO_MANY_TIMERS: "too many calls are pending at one time",
            codes.ERROR_UNKNOWN_CORE: f"job {name!r}: there is no core {core} (0 to {self.platform.n_cores - 1})",
            codes.ERROR_MEMORY: f"job {name!r}: the node of core {core} lacks the memory for it",
            codes.ERROR_DUPLICATE_CORE: f"job {name!r}: core {core} is named twice",
            codes.ERROR_KILL_UNKNOWN: f"job {name!r} cannot be killed: it has never run",
        }.get(code, f"error {code}")
        return DecisionError(f"t={float(self._state.scalars['message_s'][0]):g} s: {text}")

    def _add(self, decision: Decision) -> None:
        """Append one decision to the answer."""
        if isinstance(decision, At):
            self._add(decision.decision)
            self._state.ops["time_s"][int(self._state.scalars["n_ops"][0]) - 1] = decision.time_s
        elif isinstance(decision, Start):
            self._add_start(decision)
        elif isinstance(decision, Reject):
            self._add_reject(decision)
        elif isinstance(decision, Kill):
            self._add_kill(decision)
        elif isinstance(decision, SetPState):
            self._add_pstate(decision)
        elif isinstance(decision, CallAt):
            self._add_call(decision)
        elif isinstance(decision, Annotate):
            self._check_job(decision.job)
            self._metadata[int(decision.job)] = decision.text
            self._add_op(codes.ANNOTATE)
        elif isinstance(decision, AskEnergy):
            self._add_op(codes.ASK_ENERGY)
        else:
            raise DecisionError(f"{decision!r} is no decision; expected one of hdrl.simulation.decisions")

    def _check_job(self, job: int) -> None:
        if not 0 <= job < self.workload.n_jobs:
            raise DecisionError(f"there is no job {job} (0 to {self.workload.n_jobs - 1})")

    def _put_into_pool(self, values: Sequence[int] | NDArray[np.int64]) -> int:
        """Copy ids into the answer's pool and return where they begin."""
        first = int(self._state.scalars["n_pool"][0])
        if first + len(values) > len(self._state.pool):
            raise DecisionError("the decisions name more cores than there are")
        self._state.pool[first : first + len(values)] = values
        return first

    def _add_start(self, decision: Start) -> None:
        job, n = int(decision.job), len(decision.cores)
        self._check_job(job)
        if n != self.workload.jobs["cores"][job]:
            raise self._error(codes.ERROR_WRONG_SIZE, job, -1)
        first = self._put_into_pool(np.asarray(decision.cores, dtype=np.int64))
        code, core = entries.start(self._state, job, first, n)
        if code:
            raise self._error(code, job, core)

    def _add_reject(self, decision: Reject) -> None:
        job = int(decision.job)
        self._check_job(job)
        code = entries.reject(self._state, job)
        if code:
            raise self._error(code, job, -1)

    def _add_kill(self, decision: Kill) -> None:
        for job in decision.jobs:
            if not 0 <= job < self.workload.n_jobs or self._state.jobs["state"][job] < codes.RUNNING:
                raise DecisionError(f"job {job} cannot be killed: it has never run")
        first = self._put_into_pool(decision.jobs)
        self._add_op(codes.KILL, first=first, n=len(decision.jobs))

    def _add_pstate(self, decision: SetPState) -> None:
        cores = np.unique(np.asarray(decision.cores, dtype=np.int64))
        if len(cores) == 0 or cores[0] < 0 or cores[-1] >= self.platform.n_cores:
            raise DecisionError(f"P-state {decision.pstate}: cores must be 0 to {self.platform.n_cores - 1}")
        if not 0 <= decision.pstate < self.platform.n_pstates:
            raise DecisionError(f"there is no P-state {decision.pstate} (0 to {self.platform.n_pstates - 1})")
        self._refuse_sleep(cores, decision.pstate)
        first = self._put_into_pool(cores)
        self._add_op(codes.SET_PSTATE, subject=decision.pstate, first=first, n=len(cores))

    def _refuse_sleep(self, cores: NDArray[np.int64], pstate: int) -> None:
        """Refuse P-states that put hosts to sleep, which take time that this simulator does not know."""
        for core in cores if self.platform.properties else ():
            asleep = self.platform.properties[core].get("sleep_pstates", "")
            if str(pstate) in asleep.replace(",", ":").replace(" ", "").split(":"):
                raise DecisionError(
                    f"P-state {pstate} of core {core} is a sleep state; the embedded simulator has none"
                )

    def _add_call(self, decision: CallAt) -> None:
        if not decision.time_s > float(self._state.scalars["message_s"][0]):
            raise self._error(codes.ERROR_CALL_IN_PAST, -1, -1)
        self._add_op(codes.CALL, value=decision.time_s)

    def _add_op(self, kind: int, *, subject: int = 0, first: int = 0, n: int = 0, value: float = 0.0) -> None:
        if int(self._state.scalars["n_ops"][0]) >= len(self._state.ops) - self.platform.n_pstates:
            raise DecisionError("too many decisions in one answer")
        entries.add_op(self._state, kind, subject, first, n, float(value))
