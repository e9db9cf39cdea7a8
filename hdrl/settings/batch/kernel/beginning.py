"""Initial state at date 0: the platform and the workload as the kernel keeps them.

A `PolicyRule` is what orders jobs beyond a job key: a predictor of run times, an index, a gate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.compiled import bits
from hdrl.compiled.codes import CodeTable
from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.dtypes import (
    CORE_DTYPE,
    CURVE_DTYPE,
    DUE_PSTATE_DTYPE,
    FIT_DTYPE,
    JOB_STATE_DTYPE,
    NODE_DTYPE,
    NODE_POWER_DTYPE,
    OVERCOMMITMENT_DTYPE,
    PROCESSOR_DTYPE,
    RUNG_DTYPE,
    SCALAR_DTYPE,
    SLEEP_STATE_DTYPE,
    SUBMITTER_DTYPE,
)
from hdrl.settings.batch.kernel.groups import N_LEVELS, N_NUMBERS, SUMS_DTYPE, end_in
from hdrl.settings.batch.kernel.history import PREDICTION_DTYPE
from hdrl.settings.batch.kernel.jit import entry
from hdrl.settings.batch.kernel.keys import N_WEIGHTS, N_WEIGHTS_OF_NETWORK
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import IDLE, SERVING
from hdrl.settings.batch.platform.sleep import FALLS_ASLEEP
from hdrl.settings.batch.workload.history import Past, past_of
from hdrl.settings.batch.workload.model import Workload


def n_weights_of(form: int) -> int:
    """Return the number of weights of an index and its gate."""
    return N_WEIGHTS_OF_NETWORK if form == codes.INDEX_NETWORK else N_WEIGHTS


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Rules of a policy beyond its job key and its backfilling."""

    predictor: int = codes.PREDICT_NOTHING  # ``PREDICT_*`` of `kernel.codes`
    by_name: bool = False  # True if jobs are alike by name, see `workload.history`
    predicts_ends: bool = False  # True if reservations use predictions, too
    weights: tuple[float, ...] = ()  # of the index and the gate, see `kernel.keys`; empty: neither
    index_form: int = codes.INDEX_LINEAR  # ``INDEX_*`` of `kernel.codes`
    has_gate: bool = False  # True if the gate may hold jobs
    network: tuple[float, ...] = ()  # of ``PREDICT_LEARNED``: the numbers of `kernel.groups`; else empty
    node_rule: int = codes.NODES_LEFT_ALONE  # ``NODES_*`` of `kernel.codes`: who switches nodes off and on
    sleep_state: int = 0  # to which of the platform's sleep states nodes are switched: its position among them
    # of ``NODES_BY_TIMEOUT``: after how long without a job a node is switched off, in seconds
    off_after_s: float = math.inf
    share_on: float = 1.0  # of ``NODES_BY_NUMBER``: which share of the nodes is to be on
    decides_idle: bool = False  # True if decisions are due without waiting jobs, too
    # of a predictor outside the kernel: the function from a platform and a workload to what it says of each job, in
    # seconds
    run_times: Callable[[Platform, Workload], NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        codes.PREDICTORS.check(self.predictor)
        codes.NODE_RULES.check(self.node_rule)
        codes.INDEX_FORMS.check(self.index_form)
        CodeTable("number of weights", (0, n_weights_of(self.index_form))).check(len(self.weights))
        needed = N_NUMBERS if self.predictor == codes.PREDICT_LEARNED else 0
        CodeTable("number of weights of the network", (needed,)).check(len(self.network))


NO_RULE = PolicyRule()


@entry
def _learn(sums, groups, run_s, requested_s):
    _learn_all(sums, groups, run_s, requested_s)


@jit
def _learn_all(sums, groups, run_s, requested_s):
    for job in range(len(run_s)):
        end_in(sums, groups[job], run_s[job], requested_s[job])


def first_sums(past: Past) -> NDArray[np.void]:
    """Return the sums of the groups of a workload before its first job, an array of `kernel.history.SUMS_DTYPE`."""
    sums = np.zeros(past.n_groups, dtype=SUMS_DTYPE)
    _learn(sums, past.ended_groups, past.run_s, past.requested_time_s)
    return sums


def arrays_of(rule: PolicyRule, platform: Platform, workload: Workload) -> dict[str, NDArray[Any]]:
    """Return the arrays of a state that a rule needs; they are empty where it needs none."""
    weights = np.array(rule.weights, dtype=np.float64)
    if rule.predictor == codes.PREDICT_NOTHING:
        nothing = np.zeros((0, N_LEVELS), dtype=np.int32)
        no_sums, no_predictions = np.zeros(0, dtype=SUMS_DTYPE), np.zeros(0, dtype=PREDICTION_DTYPE)
        known = {"job_groups": nothing, "sums": no_sums, "predictions": no_predictions}
        return {**known, "weights": weights, "network": np.zeros(0)}
    past = past_of(workload.jobs, workload.history, workload.positions, by_name=rule.by_name)
    predictions = np.zeros(workload.n_jobs, dtype=PREDICTION_DTYPE)
    if rule.run_times is not None:
        predictions["given_s"] = rule.run_times(platform, workload)
    known = {"job_groups": past.groups, "sums": first_sums(past), "predictions": predictions}
    return {**known, "weights": weights, "network": np.array(rule.network, dtype=np.float64)}


@lru_cache(maxsize=4)
def of_platform(platform: Platform, *, energy: bool) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a state that the platform alone defines, by name; copy what is to be written to.

    All simulations on a platform begin with them. Making them each time took 0.4 ms, a tenth of a comparison of windows
    of 256 jobs.
    """
    processor_rows = processors(platform)
    due_pstates = np.zeros(platform.n_processors, dtype=DUE_PSTATE_DTYPE)
    due_pstates["serving"], due_pstates["unused"] = SERVING, IDLE
    n_free = np.diff(platform.first_core_of_processor).astype(np.int32)
    index = np.arange(platform.n_processors)
    levels = () if platform.rules is None else platform.rules.contention.speed_factors
    rung_rows, kind = rungs(platform)
    arrays = {
        "scalars": scalars(platform),
        "cores": cores(platform),
        "pstates": np.array(platform.initial_pstate, dtype=np.int16),
        "idle": bits.all_of(platform.n_cores),
        "processor_of": np.array(platform.processor_of_core, dtype=np.int32),
        "first_rung_of": (kind * platform.n_pstates).astype(np.int32),
        "message_s": np.array(platform.message_s, dtype=np.float64),
        "rungs": rung_rows,
        "free": bits.all_of(platform.n_cores),
        "was_free": bits.all_of(platform.n_cores),
        "processors": processor_rows,
        "n_free": n_free,
        "free_bandwidth_gbps": np.array(platform.bandwidth_gbps, dtype=np.float64),
        "due_pstates": due_pstates,
        "nodes": nodes(platform, may_sleep=energy),
        **(node_power(platform) if energy else {}),
        "n_free_on": np.add.reduceat(n_free, platform.first_processor_of_node[:-1], dtype=np.int32),
        "free_memory_mib": np.array(platform.memory_mib, dtype=np.float64),
        **speeds_of_nodes(platform),
        "overcommitments": overcommitments(platform),
        "contention": np.array(levels, dtype=np.float64),
        **curves(platform),
        "paces": np.ones(platform.n_cores if len(platform.curves) else 0),
        "by_speed": np.lexsort((index, -processor_rows["peak_gflops"])).astype(np.int32),
        "by_power": np.lexsort((index, processor_rows["peak_power_w"])).astype(np.int32),
    }
    return MappingProxyType(arrays)


def rungs(platform: Platform) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return the P-states of the distinct kinds of cores, one kind after the other, and of which kind each core is."""
    host_flops = platform.speed_flops * platform.host_cores[:, None]
    all_rungs = np.stack(
        [platform.speed_flops, host_flops, platform.idle_w, platform.epsilon_w, platform.full_w], axis=2
    )
    if platform.n_sleep_states:
        # on a way, a host computes: one flop
        ways = platform.pstate_uses >= FALLS_ASLEEP
        all_rungs[ways, 2] = all_rungs[ways, 3] = all_rungs[ways, 4]
    flat = np.ascontiguousarray(all_rungs.reshape(platform.n_cores, -1))
    # `np.unique` compares rows as structures, while which NumPy turns Ctrl-C into a TypeError.
    order = np.lexsort(flat.T[::-1])
    ordered = flat[order]
    is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    kind = np.empty(platform.n_cores, dtype=np.int64)
    kind[order] = np.cumsum(is_first) - 1
    return ordered[is_first].reshape(-1).view(RUNG_DTYPE), kind


def jobs(workload: Workload) -> NDArray[np.void]:
    """Return the job rows, before anything happened."""
    rows = np.zeros(workload.n_jobs, dtype=JOB_STATE_DTYPE)
    for name in ("submit_s", "walltime_s", "memory_mib", "bandwidth_gbps"):
        rows[name] = workload.jobs[name]
    # An unknown time (-1) counts as none at all: a reservation that ended before it began would double cores.
    rows["requested_time_s"] = np.maximum(workload.jobs["requested_time_s"], 0.0)
    rows["n_requested"] = workload.jobs["cores"]
    rows["first_step"] = workload.first_step[workload.jobs["profile"]]
    rows["end_step"] = workload.first_step[workload.jobs["profile"] + 1]
    rows["start_s"] = rows["run_s"] = rows["energy_j"] = -1.0
    rows["return_code"] = -1
    return rows


def cores(platform: Platform) -> NDArray[np.void]:
    """Return the core rows at date 0."""
    rows = np.zeros(platform.n_cores, dtype=CORE_DTYPE)
    rows["owner"] = rows["job"] = -1
    return rows


def processors(platform: Platform) -> NDArray[np.void]:
    """Return the processor rows."""
    rows = np.zeros(platform.n_processors, dtype=PROCESSOR_DTYPE)
    rows["node"] = platform.node_of_processor
    rows["first_core"] = platform.first_core_of_processor[:-1]
    rows["end_core"] = platform.first_core_of_processor[1:]
    rows["bandwidth_gbps"] = platform.bandwidth_gbps
    rows["peak_gflops"] = platform.peak_flops / 1e9
    rows["peak_power_w"] = platform.peak_power_w
    return rows


def curves(platform: Platform) -> dict[str, NDArray[Any]]:
    """Return the curves of processors, or their fits, and what cores draw by them."""
    rows = np.array(platform.curves).reshape(-1)
    if not platform.is_fitted:
        return {"curves": rows.view(CURVE_DTYPE)}
    return {"fits": rows.view(FIT_DTYPE), "watts": np.array(platform.idle_w[:, 0])}


def nodes(platform: Platform, *, may_sleep: bool) -> NDArray[np.void]:
    """Return the node rows, with the positions of their sleep states if they may sleep."""
    rows = np.zeros(platform.n_nodes, dtype=NODE_DTYPE)
    rows["first_processor"] = platform.first_processor_of_node[:-1]
    rows["end_processor"] = platform.first_processor_of_node[1:]
    rows["memory_mib"] = platform.memory_mib
    if may_sleep and platform.n_sleep_states:
        rows["end_sleep_state"] = np.cumsum([len(states) for states in platform.sleep_states_of_node])
        rows["first_sleep_state"][1:] = rows["end_sleep_state"][:-1]
    return rows


def node_power(platform: Platform) -> dict[str, NDArray[Any]]:
    """Return the rows of the nodes that can be switched off, to what, and in which order they are booted.

    First come those with the most flop per joule; of equal ones those that take the shortest from their first sleep
    state; of these those with the lower number. Where none can be switched off, nothing is returned.
    """
    if not platform.n_sleep_states:
        return {}
    first = platform.first_core_of_processor[platform.first_processor_of_node[:-1]]
    rows = np.zeros(platform.n_nodes, dtype=NODE_POWER_DTYPE)
    rows["leader"] = -1
    rows["on_pstate"] = platform.initial_pstate[first]
    states, boot_s = _sleep_states(platform, first)
    n_cores = np.diff(platform.first_core_of_processor)
    of_node = platform.first_processor_of_node[:-1]
    flops = np.add.reduceat(platform.peak_flops * n_cores, of_node)
    power_w = np.add.reduceat(platform.peak_power_w * n_cores, of_node)
    efficiency = np.divide(flops, power_w, out=np.full(platform.n_nodes, np.inf), where=power_w > 0)
    order = np.lexsort((np.arange(platform.n_nodes), boot_s, -efficiency))
    return {"node_power": rows, "sleep_states": states, "boot_order": order.astype(np.int32)}


def _sleep_states(platform: Platform, first_core: NDArray[np.int32]) -> tuple[NDArray[np.void], NDArray[np.float64]]:
    """Return the sleep states of all nodes, and how long each node takes from its first one (0 where it has none)."""
    of_node = platform.sleep_states_of_node
    rows = np.array([(*state, 0.0, 0.0) for states in of_node for state in states], dtype=SLEEP_STATE_DTYPE)
    n_states = np.array([len(states) for states in of_node])
    first_row = np.cumsum(n_states) - n_states
    for states in set(of_node):
        having = np.array([one == states for one in of_node])
        for k, state in enumerate(states):
            # a node is off, or on, with the last of its cores
            for name, way in (("shutdown_s", state.down), ("boot_s", state.up)):
                way_s = np.maximum.reduceat(1.0 / platform.speed_flops[:, way], first_core)
                rows[name][first_row[having] + k] = way_s[having]
    boot_s = np.zeros(platform.n_nodes)
    boot_s[n_states > 0] = rows["boot_s"][first_row[n_states > 0]]
    return rows, boot_s


def speeds_of_nodes(platform: Platform) -> dict[str, NDArray[Any]]:
    """Return the speeds of nodes, which are as fast as their slowest processors, fastest first, and which is whose."""
    gflops = np.minimum.reduceat(platform.peak_flops / 1e9, platform.first_processor_of_node[:-1])
    falling, index = np.unique(-gflops, return_inverse=True)
    return {"node_gflops": -falling, "speed_of": index.astype(np.int32)}


def overcommitments(platform: Platform) -> NDArray[np.void]:
    """Return that no processor has ever been over-committed."""
    rows = np.zeros(platform.n_processors, dtype=OVERCOMMITMENT_DTYPE)
    rows["open_span"] = rows["last_span"] = -1
    return rows


def submitters(workload: Workload) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return one submitter per source, and the order in which they submit."""
    order = workload.submission_order()
    source = workload.jobs["source"][order]
    order = order[np.argsort(source, kind="stable")]
    rows = np.zeros(len(workload.sources), dtype=SUBMITTER_DTYPE)
    counts = np.bincount(workload.jobs["source"], minlength=len(workload.sources))
    rows["end"] = np.cumsum(counts)
    rows["next"] = rows["batch"] = rows["end"] - counts
    return rows, np.ascontiguousarray(order, dtype=np.int64)


def scalars(platform: Platform) -> NDArray[np.void]:
    """Return the scalars at date 0, as far as the platform defines them."""
    rows = np.zeros(1, dtype=SCALAR_DTYPE)
    flat = (platform.idle_w == platform.full_w) & (platform.idle_w == platform.epsilon_w)
    first = np.arange(platform.n_cores), platform.initial_pstate
    rows["loopback_s"] = platform.loopback_s
    rows["transfer_end_s"] = np.inf
    rows["n_idle"] = rows["n_free_cores"] = platform.n_cores
    rows["flat_power"] = bool(flat.all())
    rows["power_w"] = platform.idle_w[:, 0].sum()
    rows["epsilon_w"] = platform.epsilon_w[first].sum()
    rows["layer"] = platform.rules is not None
    rows["reference_flops"] = platform.reference_gflops * 1e9
    rows["follows_progress"] = 1
    rows["queue_key"] = codes.QUEUE_BY_ARRIVAL
    rows["blocked_job"] = -1
    return rows
