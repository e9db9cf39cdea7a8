"""Writing the decisions of a policy in Python into the kernel's answer, whatever the simulator."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import DecisionError, quoted
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.fields import grown
from hdrl.settings.batch.kernel import codes, entries
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.sleep import FALLS_ASLEEP, SLEEPS
from hdrl.settings.batch.simulation.decisions import (
    Annotate,
    AskEnergy,
    At,
    CallAt,
    Decision,
    Kill,
    Reject,
    SetPState,
    Start,
    SwitchOff,
    SwitchOn,
)
from hdrl.settings.batch.simulation.view import NODE_STATUS
from hdrl.settings.batch.workload.model import Workload

CANNOT_SWITCH = (
    "option node_power is not given; set it, node_power of a node type, or sleep_pstates of a host in a SimGrid file"
)
"""Why nodes are always on."""

_ON = -1
"""Instead of the number of a sleep state: a node is switched on."""


def job_name(workload: Workload, job: int) -> str:
    """Return the full id of a job, ``"w0!17"``."""
    return f"{workload.sources[workload.jobs['source'][job]]}!{workload.job_ids[job]}"


def check_job(workload: Workload, job: object) -> None:
    """Raise an error if a decision does not name a job by its index."""
    if not isinstance(job, int | np.integer):
        raise DecisionError(f"job {job!r}: expected the index of a job (0 to {workload.n_jobs - 1})")
    if not 0 <= job < workload.n_jobs:
        raise DecisionError(f"there is no job {job} (0 to {workload.n_jobs - 1})")


def check_call(time_s: object, now_s: float) -> None:
    """Raise an error if a call is not at a date in the future."""
    if not isinstance(time_s, int | float | np.integer | np.floating):
        raise DecisionError(f"a call at {quoted(time_s)}: expected a date in seconds")
    if not now_s < time_s <= sys.float_info.max:
        raise DecisionError(f"t={now_s:g} s: a call must be at a date in the future")


def deadlock_message(workload: Workload, state: BatchState) -> str:
    """Say that nothing will ever happen again although jobs are waiting."""
    s = state.scalars[0]
    waiting = int(s["n_queue"])
    example = f", for instance {job_name(workload, int(state.queue[0]))!r}" if waiting else ""
    return (
        f"t={s['now']:g} s: nothing will happen any more, but {waiting} jobs are waiting{example}: "
        "the policy does not start them"
    )


def grown_for(state: BatchState, platform: Platform, workload: Workload) -> BatchState:
    """Return the state with more room in its logs."""
    return grown(state, margin=64 + 2 * platform.n_cores + workload.n_jobs)


def with_room_for_decisions(state: BatchState, platform: Platform, workload: Workload) -> BatchState:
    """Return the state, with room in what one answer may log."""
    s = state.scalars[0]
    is_full = (
        int(s["n_core_fails"]) + 2 > len(state.core_fails)
        or int(s["n_memory_fails"]) + 2 > len(state.memory_fails)
        or int(s["n_spans"]) + platform.n_processors > len(state.spans)
    )
    return grown_for(state, platform, workload) if is_full else state


def core_ids(cores: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return core ids as an array, after a look at what they are."""
    ids = np.asarray(cores)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise DecisionError(f"cores {cores!r}: expected the ids of cores")
    return ids.astype(np.int64)


class Answer:
    """Writes decisions into the answer of an environment, after checking them.

    Attributes
    ----------
    borrowed
        The arrays of the environment, as the kernel is given them.
    metadata
        Texts attached to jobs, by index.
    may_sleep
        True if the simulator knows P-states that put hosts to sleep.
    """

    # Names, since methods of its own would be a cycle that keeps the arrays until it is searched for.
    _ADDERS: ClassVar[dict[type, str]] = {
        At: "_add_dated",
        Start: "_add_start",
        Reject: "_add_reject",
        Kill: "_add_kill",
        SetPState: "_add_pstate",
        SwitchOff: "_switch_nodes",
        SwitchOn: "_switch_nodes",
        CallAt: "_add_call",
        Annotate: "_add_annotation",
        AskEnergy: "_ask_energy",
    }

    def __init__(self, platform: Platform, workload: Workload, state: BatchState, *, may_sleep: bool = False) -> None:
        self.borrowed = Borrowed(state)
        self.metadata: dict[int, str] = {}
        self.may_sleep = may_sleep
        self._platform = platform
        self._workload = workload

    @property
    def state(self) -> BatchState:
        """The arrays of the environment; to be replaced when they are."""
        return self.borrowed.arrays

    @state.setter
    def state(self, state: BatchState) -> None:
        if state is not self.borrowed.arrays:
            self.borrowed = Borrowed(state)

    def add_all(self, decisions: Iterable[Decision]) -> None:
        """Append decisions to the answer.

        Raises
        ------
        DecisionError
            At the first one that cannot be followed; those before it are kept.
        """
        self.state = with_room_for_decisions(self.state, self._platform, self._workload)
        for decision in decisions:
            self._add(decision)

    def error(self, code: int, job: int, core: int) -> DecisionError:
        """Return the error for an error code of the kernel.

        - ``code``: one of ``ERROR_*`` in `kernel.codes`.
        - ``job``, ``core``: what it is about, or -1.
        """
        name = job_name(self._workload, job) if job >= 0 else ""
        n_requested = int(self._workload.jobs["cores"][job]) if job >= 0 else 0
        text = {
            codes.ERROR_JOB_NOT_WAITING: f"job {name!r} is not waiting",
            codes.ERROR_CORE_BUSY: f"job {name!r}: core {core} is not free",
            codes.ERROR_WRONG_SIZE: f"job {name!r} asks for {n_requested} cores and was given another number",
            codes.ERROR_CALL_IN_PAST: "a call must be at a date in the future",
            codes.ERROR_TOO_MANY_TIMERS: "too many calls are pending at one time",
            codes.ERROR_UNKNOWN_CORE: f"job {name!r}: there is no core {core} (0 to {self._platform.n_cores - 1})",
            codes.ERROR_MEMORY: f"job {name!r}: the node of core {core} lacks the memory for it",
            codes.ERROR_DUPLICATE_CORE: f"job {name!r}: core {core} is named twice",
            codes.ERROR_KILL_UNKNOWN: f"job {name!r} cannot be killed: it has never run",
            codes.ERROR_KILL_ENDED: f"job {name!r} cannot be killed: the scheduler already got the message of its end",
            codes.ERROR_NODE_NOT_FREE: f"node {core} cannot be switched off: jobs hold cores of it",
            codes.ERROR_NODE_STATUS: f"node {core} is {self._status(core)}: "
            "a node is switched off that is on, and on that is off",
            codes.ERROR_PART_OF_NODE: f"hosts of node {core} cannot be switched without the others of their node",
            codes.ERROR_UNKNOWN_CODE: f"no table has the code {core}",
        }.get(code, f"error {code}")
        return DecisionError(f"t={float(self.state.scalars['message_s'][0]):g} s: {text}")

    def _add(self, decision: Decision) -> None:
        name = self._ADDERS.get(type(decision))
        if name is None:
            kinds = ", ".join(kind.__name__ for kind in self._ADDERS)
            raise DecisionError(f"{quoted(decision)} is not a decision; expected one of hdrl.batch: {kinds}")
        getattr(self, name)(decision)

    def _add_dated(self, decision: At) -> None:
        if not math.isfinite(decision.time_s):
            raise DecisionError(f"a decision is dated {decision.time_s!r}; expected a finite date")
        first = int(self.state.scalars["n_ops"][0])
        self._add(decision.decision)
        self.state.ops["time_s"][first : int(self.state.scalars["n_ops"][0])] = decision.time_s

    def _ask_energy(self, decision: AskEnergy) -> None:
        del decision
        self._add_op(codes.ASK_ENERGY)

    def _put_into_pool(self, values: Sequence[int] | NDArray[np.int64]) -> int:
        """Copy ids into the answer's pool and return where they begin."""
        first = int(self.state.scalars["n_pool"][0])
        if first + len(values) > len(self.state.pool) - self._platform.n_cores:
            raise DecisionError("the decisions name more cores than there are")
        self.state.pool[first : first + len(values)] = values
        return first

    def _add_start(self, decision: Start) -> None:
        check_job(self._workload, decision.job)
        job, cores = int(decision.job), core_ids(decision.cores)
        n = len(cores)
        if n != self._workload.jobs["cores"][job]:
            raise self.error(codes.ERROR_WRONG_SIZE, job, -1)
        first = self._put_into_pool(cores)
        code, core = entries.start(self.borrowed, job, first, n)
        if code:
            raise self.error(code, job, core)

    def _add_reject(self, decision: Reject) -> None:
        check_job(self._workload, decision.job)
        job = int(decision.job)
        code = entries.reject(self.borrowed, job)
        if code:
            raise self.error(code, job, -1)

    def _add_kill(self, decision: Kill) -> None:
        for job in decision.jobs:
            check_job(self._workload, job)
            if not np.any(self.state.cores["owner"] == job):
                never = int(self.state.jobs["state"][job]) in (codes.NOT_SUBMITTED, codes.WAITING, codes.REJECTED)
                raise self.error(codes.ERROR_KILL_UNKNOWN if never else codes.ERROR_KILL_ENDED, job, -1)
        first = self._put_into_pool(decision.jobs)
        self._add_op(codes.KILL, first=first, n=len(decision.jobs))

    def _add_pstate(self, decision: SetPState) -> None:
        cores = np.unique(core_ids(decision.cores))
        if len(cores) == 0 or cores[0] < 0 or cores[-1] >= self._platform.n_cores:
            raise DecisionError(f"P-state {decision.pstate}: cores must be 0 to {self._platform.n_cores - 1}")
        if not 0 <= decision.pstate < self._platform.n_pstates:
            raise DecisionError(f"there is no P-state {decision.pstate} (0 to {self._platform.n_pstates - 1})")
        switches = self._is_switch(cores, decision.pstate)
        if not switches and not self.may_sleep:
            self._refuse_sleep(cores, decision.pstate)
        first = self._put_into_pool(cores)
        if not switches:
            self._add_op(codes.SET_PSTATE, subject=decision.pstate, first=first, n=len(cores))
            return
        code, node = entries.switch_hosts_of(self.borrowed, decision.pstate, first, len(cores))
        if code:
            raise self.error(code, -1, node)

    def _is_switch(self, cores: NDArray[np.int64], pstate: int) -> bool:
        """Tell whether a P-state switches hosts off, or some that are not on to another one: on."""
        rows = self.state.node_power
        if len(rows) == 0:
            return False
        uses = self._platform.pstate_uses[cores, pstate]
        nodes = self._platform.node_of_processor[self._platform.processor_of_core[cores]]
        goes = (uses == SLEEPS) | (rows["status"][nodes] != codes.NODE_ON)
        return bool(np.any(goes) and np.all(uses < FALLS_ASLEEP))

    def _switch_nodes(self, decision: SwitchOff | SwitchOn) -> None:
        nodes = np.unique(core_ids(decision.nodes))
        if len(self.state.node_power) == 0:
            why = "energy is not accounted for" if self._platform.n_sleep_states else CANNOT_SWITCH
            raise DecisionError(f"nodes of platform {self._platform.name!r} cannot be switched off: {why}")
        for node in nodes.tolist():
            if not 0 <= node < self._platform.n_nodes:
                raise DecisionError(f"there is no node {node} (0 to {self._platform.n_nodes - 1})")
            code = entries.switch_node(self.borrowed, node, self._sleep_state(node, decision))
            if code:
                raise self.error(code, -1, node)

    def _sleep_state(self, node: int, decision: SwitchOff | SwitchOn) -> int:
        """Return to which of its sleep states a node is to go, or `_ON`."""
        n = len(self._platform.sleep_states_of_node[node])
        if n == 0:
            raise DecisionError(f"node {node} cannot be switched: it has no sleep state")
        if isinstance(decision, SwitchOn):
            return _ON
        number = decision.sleep_state
        if not (isinstance(number, int | np.integer) and 0 <= number < n):
            raise DecisionError(f"node {node}: there is no sleep state {number!r} (0 to {n - 1})")
        return int(number)

    def _status(self, node: int) -> str:
        """Return in words what a node does, if there is one of that number."""
        known = 0 <= node < len(self.state.node_power)
        return NODE_STATUS[int(self.state.node_power["status"][node])] if known else "unknown"

    def _refuse_sleep(self, cores: NDArray[np.int64], pstate: int) -> None:
        """Refuse P-states of ways to sleep and back, and all that have two parts."""
        for core in cores if self._platform.properties else ():
            asleep = self._platform.properties[core].get("sleep_pstates", "")
            if str(pstate) in asleep.replace(",", ":").replace(" ", "").split(":"):
                raise DecisionError(
                    f"P-state {pstate} of core {core} is a sleep state or a transition to one; the embedded simulator "
                    "supports sleep states only with energy, no P-state of two of them, and no requests for transitions"
                )

    def _add_call(self, decision: CallAt) -> None:
        check_call(decision.time_s, float(self.state.scalars["message_s"][0]))
        self._add_op(codes.CALL, value=decision.time_s)

    def _add_annotation(self, decision: Annotate) -> None:
        check_job(self._workload, decision.job)
        self.metadata[int(decision.job)] = decision.text
        self._add_op(codes.ANNOTATE, subject=int(decision.job))

    def _add_op(self, kind: int, *, subject: int = 0, first: int = 0, n: int = 0, value: float = 0.0) -> None:
        if int(self.state.scalars["n_ops"][0]) >= len(self.state.ops) - self._platform.n_pstates:
            raise DecisionError("too many decisions in one answer")
        entries.add_op(self.borrowed, kind, subject, first, n, float(value))
