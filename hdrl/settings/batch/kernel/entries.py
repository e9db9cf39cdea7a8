"""The kernel's face: the functions that Python calls. Each takes the `BatchState` of one environment, borrowed.

They are one compiled function behind several names: what Python and the kernel need to talk to each other is then
compiled, and loaded from the cache, once. Conservative backfilling, as large as half of the rest and rarely used, is a
second one, compiled when it is first called. What the requests do is documented where they are carried out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hdrl.base.errors import SimulationError
from hdrl.compiled.borrow import take_as
from hdrl.compiled.borrowed import Addresses, Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes, decide, engine, messages, printing, waiting
from hdrl.settings.batch.kernel.backfill import start_job
from hdrl.settings.batch.kernel.cluster import follow_owner, remaining
from hdrl.settings.batch.kernel.conservative import schedule_conservative
from hdrl.settings.batch.kernel.jit import CACHE_FOLDER, entry
from hdrl.settings.batch.kernel.onoff import switch_hosts, switch_off, switch_on
from hdrl.settings.batch.kernel.state import BatchState, small_state

_BEGIN, _ADVANCE, _ANSWER, _START, _REJECT, _ADD_OP = range(6)
_TAKE_EVENTS, _SCHEDULE_PAIR, _HAND_OUT, _RUN_PAIR, _REMAINING, _TO_DECISION = range(6, 12)
_SWITCH_NODE, _SWITCH_HOSTS, _TO_NEXT = range(12, 15)


@jit
def _advance(state, budget):
    status = engine.advance(state, budget)
    if status == codes.MESSAGE:
        decide.take_events(state)
    return status


@jit
def _start(state, job, first, n):
    position = waiting.find(state, job)
    if position < 0:
        return codes.ERROR_JOB_NOT_WAITING, -1
    code, core = decide.lock_cores(state, job, first, n)
    if code == 0:
        start_job(state, job, position, first, n)
    return code, core


@jit
def _reject(state, job):
    position = waiting.find(state, job)
    if position < 0:
        return codes.ERROR_JOB_NOT_WAITING
    waiting.take(state, position)
    state.scalars[0].has_plan = 0
    messages.add_op(state, codes.REJECT, job, 0, 0, 0.0)
    return 0


@jit
def _switch_node(state, node, sleep_state):
    return switch_on(state, node) if sleep_state < 0 else switch_off(state, node, sleep_state)


@jit
def _add_op(state, kind, subject, first, n, value):
    state.scalars[0].n_pool = max(state.scalars[0].n_pool, first + n)
    if kind == codes.SET_PSTATE:
        for i in range(first, first + n):
            follow_owner(state, state.pool[i])
    messages.add_op(state, kind, subject, first, n, value)


@jit
def _simulate(state, request, a, b, c, d):
    """Carry out what lets time go on; return what the simulation stopped for."""
    if request == _RUN_PAIR:
        return decide.run_pair(state, a, b, c, d)
    if request == _TO_NEXT:
        decide.answer(state)
    if request in (_TO_DECISION, _TO_NEXT):
        return decide.to_decision(state, state.scalars[0].n_engine_steps + a, a)
    return _advance(state, a)


@jit
def _other(state, request, a):
    """Carry out what returns a real number, or nothing."""
    if request == _REMAINING:
        return remaining(state, a)
    if request == _BEGIN:
        engine.begin(state)
        return 0.0
    return np.nan


_taken = take_as(small_state)


@entry
def _call(addresses: Addresses, request: int, a: int, b: int, c: int, d: int, value: float) -> tuple[int, int, float]:
    """Carry out one request of Python; return two whole numbers and a real one that depend on it."""
    state = _taken(addresses)
    first, second, real = 0, 0, 0.0
    if request in (_RUN_PAIR, _TO_DECISION, _TO_NEXT, _ADVANCE):
        first = _simulate(state, request, a, b, c, d)
    elif request == _ANSWER:
        decide.answer(state)
    elif request in (_START, _SWITCH_HOSTS):
        first, second = _start(state, a, b, c) if request == _START else switch_hosts(state, a, b, c)
    elif request == _ADD_OP:
        _add_op(state, a, b, c, d, value)
    elif request == _REJECT:
        first = _reject(state, a)
    elif request == _TAKE_EVENTS:
        first = 1 if decide.take_events(state) else 0
    elif request == _SCHEDULE_PAIR:
        decide.schedule(state, a, b, c)
    elif request == _HAND_OUT:
        decide.hand_out(state)
    elif request == _SWITCH_NODE:
        first = _switch_node(state, a, b)
    else:
        real = _other(state, request, a)
    return first, second, real


@entry
def _call_conservative(addresses: Addresses, job_key: int, core_key: int) -> None:
    schedule_conservative(_taken(addresses), job_key, core_key)


def begin(borrowed: Borrowed[BatchState]) -> None:
    """Start the simulation: see `kernel.engine.begin`."""
    _call(borrowed.addresses, _BEGIN, 0, 0, 0, 0, 0.0)


def advance(borrowed: Borrowed[BatchState], budget: int) -> int:
    """Simulate until a decision of the scheduler is due, and take in its events: see `kernel.engine.advance`."""
    return int(_call(borrowed.addresses, _ADVANCE, budget, 0, 0, 0, 0.0)[0])


def to_decision(borrowed: Borrowed[BatchState], budget: int) -> int:
    """Simulate until a compiled policy is to decide: see `kernel.decide.to_decision`."""
    return int(_call(borrowed.addresses, _TO_DECISION, budget, 0, 0, 0, 0.0)[0])


def to_next_decision(borrowed: Borrowed[BatchState], budget: int) -> int:
    """Let the answer take effect, and simulate until a compiled policy is to decide again: `answer`, `to_decision`."""
    return int(_call(borrowed.addresses, _TO_NEXT, budget, 0, 0, 0, 0.0)[0])


def answer(borrowed: Borrowed[BatchState]) -> None:
    """Let the answer take effect: see `kernel.decide.answer`."""
    _call(borrowed.addresses, _ANSWER, 0, 0, 0, 0, 0.0)


def start(borrowed: Borrowed[BatchState], job: int, first: int, n: int) -> tuple[int, int]:
    """Start a waiting job on the cores ``pool[first:first + n]``; return an error code (0: none) and a core."""
    code, core, _ = _call(borrowed.addresses, _START, int(job), int(first), int(n), 0, 0.0)
    return int(code), int(core)


def reject(borrowed: Borrowed[BatchState], job: int) -> int:
    """Reject a waiting job; return an error code (0: none)."""
    return int(_call(borrowed.addresses, _REJECT, int(job), 0, 0, 0, 0.0)[0])


def switch_node(borrowed: Borrowed[BatchState], node: int, sleep_state: int) -> int:
    """Begin to switch a node to a sleep state, or on (-1): see `kernel.onoff`; return an error code (0: none)."""
    return int(_call(borrowed.addresses, _SWITCH_NODE, int(node), int(sleep_state), 0, 0, 0.0)[0])


def switch_hosts_of(borrowed: Borrowed[BatchState], pstate: int, first: int, n: int) -> tuple[int, int]:
    """Begin to switch the hosts ``pool[first:first + n]``: see `kernel.onoff`; return an error code and a node."""
    code, node, _ = _call(borrowed.addresses, _SWITCH_HOSTS, int(pstate), int(first), int(n), 0, 0.0)
    return int(code), int(node)


def add_op(borrowed: Borrowed[BatchState], kind: int, subject: int, first: int, n: int, value: float) -> None:
    """Append any other request to the answer; what it names is ``pool[first:first + n]``."""
    _call(borrowed.addresses, _ADD_OP, kind, int(subject), first, n, value)


def take_events(borrowed: Borrowed[BatchState]) -> bool:
    """Take in a message from a simulator outside the kernel; return whether a decision is due.

    ``events[:n_events]`` and ``message_s`` must have been filled in; see `kernel.decide.take_events`.
    """
    return bool(_call(borrowed.addresses, _TAKE_EVENTS, 0, 0, 0, 0, 0.0)[0])


def _check_policy(state: BatchState, job_key: int, core_key: int, backfilling: int) -> None:
    codes.JOB_KEYS.check(job_key)
    if job_key == codes.JOB_INDEX and (len(state.weights) == 0 or backfilling not in codes.EASY):
        raise SimulationError(f"the job key is {job_key}, which needs weights and EASY")
    codes.CORE_KEYS.check(core_key)
    codes.BACKFILLINGS.check(backfilling)
    if backfilling == codes.CONSERVATIVE and np.any(state.node_power["status"] != codes.NODE_ON):
        raise SimulationError("conservative backfilling plans with all nodes on, and some are off")


def schedule_pair(
    borrowed: Borrowed[BatchState], job_key: int, core_key: int, backfilling: int = codes.NO_BACKFILLING
) -> None:
    """Start jobs as a compiled policy does: see `kernel.decide.schedule` and `kernel.conservative`."""
    _check_policy(borrowed.arrays, job_key, core_key, backfilling)
    if backfilling == codes.CONSERVATIVE:
        _call_conservative(borrowed.addresses, job_key, core_key)
        return
    _call(borrowed.addresses, _SCHEDULE_PAIR, job_key, core_key, backfilling, 0, 0.0)


def hand_out(borrowed: Borrowed[BatchState]) -> None:
    """Complete the answer for a simulator outside the kernel: see `kernel.decide.hand_out`."""
    _call(borrowed.addresses, _HAND_OUT, 0, 0, 0, 0, 0.0)


def remaining_work(borrowed: Borrowed[BatchState], job: int) -> float:
    """Return the part of its requested work that a running job has left: see `kernel.cluster.remaining`."""
    return float(_call(borrowed.addresses, _REMAINING, int(job), 0, 0, 0, 0.0)[2])


def run_pair(
    borrowed: Borrowed[BatchState], job_key: int, core_key: int, budget: int, backfilling: int = codes.NO_BACKFILLING
) -> int:
    """Simulate under a compiled policy: see `kernel.decide.run_pair`."""
    _check_policy(borrowed.arrays, job_key, core_key, backfilling)
    codes.UNCALLED_BACKFILLINGS.check(backfilling)
    return int(_call(borrowed.addresses, _RUN_PAIR, job_key, core_key, backfilling, budget, 0.0)[0])


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the kernel if it has never been compiled here; later processes load it from the cache."""
    text = "compiling the simulator (the first time only, about half a minute)"
    compile_once(CACHE_FOLDER, "compiled", text, _simulate_once, message)


def warm_up_conservative(message: Callable[[str], None]) -> None:
    """Compile conservative backfilling if it has never been compiled here; it is apart from the rest."""
    text = "compiling conservative backfilling (the first time only, some ten seconds)"
    compile_once(CACHE_FOLDER, "conservative", text, _plan_once, message)


def _plan_once() -> None:
    """Make a decision about nothing: no job waits at date 0."""
    schedule_pair(Borrowed(small_state()), codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, codes.CONSERVATIVE)


def _simulate_once() -> None:
    """Simulate and print: the entries of a simulation are one compiled function, so that this compiles them."""
    borrowed = Borrowed(small_state())
    begin(borrowed)
    run_pair(borrowed, codes.JOB_FIRST, codes.CORE_HIGH_GFLOPS, 1000)
    table = Borrowed(printing.small_table())
    printing.print_rows(table.addresses, 1, 0)
