"""The simulator `site`: jobs on a machine with the rules of a site, in compiled code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import SimulationError, WorkloadError
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.compiled.fields import new_arrays
from hdrl.settings.batch.kernel import codes as kernel_codes
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule, arrays_of
from hdrl.settings.batch.kernel.groups import N_LEVELS, N_NEURONS
from hdrl.settings.batch.kernel.keys import N_FEATURES
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.decisions import Decision
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    OverUtilization,
)
from hdrl.settings.batch.site_rules import codes
from hdrl.settings.batch.site_rules.fit import can_ever_start
from hdrl.settings.batch.site_rules.kernel import events
from hdrl.settings.batch.site_rules.kernel import state as arrays
from hdrl.settings.batch.site_rules.kernel.jit import CACHE_FOLDER
from hdrl.settings.batch.site_rules.kernel.state import YEAR_S, SiteState, grown_site_state
from hdrl.settings.batch.site_rules.model import (
    ACCOUNT_DTYPE,
    NODE_DTYPE,
    PARTITION_DTYPE,
    QOS_DTYPE,
    SITE_RECORD_DTYPE,
    UNLIMITED,
    DependencyKind,
    PreemptBy,
    SiteJobs,
    SiteRules,
    components_of,
    undemanding_jobs,
    unlimited,
)
from hdrl.settings.batch.site_rules.outside import DATES_PER_CALL, StepwiseSimulation
from hdrl.settings.batch.site_rules.view import SiteView, SiteWorld
from hdrl.settings.batch.workload.model import NO_WALLTIME, StepKind, Workload
from hdrl.settings.batch.workload.run_times import run_times_at


@dataclass(frozen=True, slots=True)
class Looks:
    """A daemon that orders Slurm's queue by a policy, with its Lua: what it does beside `PolicyRule`.

    Attributes
    ----------
    key
        The job key of the policy, of `kernel.codes`.
    interval_s
        Seconds between two looks.
    bound_s
        Wait in seconds after which a job is first.
    aging_per_s
        Fall of the index of each waiting job in a second, where it is the same for all; else 0.
    has_lua
        True if jobs get a number when they are submitted.
    """

    key: int
    interval_s: float
    bound_s: float
    aging_per_s: float = 0.0
    has_lua: bool = True


Progress = Callable[[int, int], None]

_DISCIPLINES = {
    kernel_codes.NO_BACKFILLING: codes.NOTHING,
    kernel_codes.EASY_FCFS: codes.EASY,
    kernel_codes.EASY_SJBF: codes.EASY,
    kernel_codes.EASY_PRIORITY: codes.EASY,
    kernel_codes.CONSERVATIVE: codes.CONSERVATIVE,
    codes.SLURM_CYCLE: codes.SLURM,
}
"""Discipline of each kind of backfilling."""

_CORE_KEYS = (kernel_codes.CORE_HIGH_GFLOPS, kernel_codes.CORE_FIRST)
_KNOWN = (
    "'site' simulates 'slurm', 'multifactor', the priorities of the literature, and indices with a gate, by requests "
    "or predictions, but no core selections, nodes that are switched off, or reservations by predictions; expected for "
    "instance 'sjf+easy', 'sjf+easy@geo' or 'es-generalist'"
)

_KEYS = frozenset({*range(kernel_codes.JOB_FIRST, kernel_codes.JOB_GIVEN), kernel_codes.JOB_INDEX, codes.MULTIFACTOR})
"""The job keys that this simulator has: no random ones."""


class UnsupportedPolicy(SimulationError):
    """A policy that this simulator does not have."""

    def __init__(self, policy: str = "the policy") -> None:
        super().__init__(f"{policy}: {_KNOWN}")


def plain_rules(platform: Platform) -> SiteRules:
    """Return the rules of a machine that has none: one partition of all nodes, Slurm's defaults.

    The processors of a machine that is one node are its nodes, as Slurm reserves whole nodes.
    """
    cores = _cores_of_nodes(platform)
    n_nodes = len(cores)
    nodes = np.zeros(n_nodes, NODE_DTYPE)
    memory_mib = platform.memory_mib if platform.n_nodes > 1 else platform.memory_mib / n_nodes
    nodes["cores"], nodes["memory_mib"], nodes["weight"] = cores, memory_mib, 1
    partitions = np.zeros(1, PARTITION_DTYPE)
    partitions["tier"] = partitions["job_factor"] = 1
    partitions["max_nodes"] = partitions["qos"] = UNLIMITED
    partitions["max_time_s"], partitions["default_time_s"] = np.inf, np.inf
    return SiteRules(
        nodes=nodes,
        node_names=tuple(f"n{i}" for i in range(1, n_nodes + 1)),
        partitions=partitions,
        partition_names=("all",),
        partition_nodes=np.ones((1, n_nodes), np.bool_),
        counts_memory=True,
    )


def with_plain_rules(platform: Platform) -> Platform:
    """Return a machine with the rules of a site that has none: one partition of all nodes, Slurm's defaults.

    The simulator `site` then simulates it, which knows jobs that follow the ends of others (fields 17 and 18 of logs).
    """
    return replace(platform, site=plain_rules(platform))


def plain_jobs(workload: Workload) -> SiteJobs:
    """Return the site requests of a workload that has none: only users and numbers of nodes are set."""
    jobs = undemanding_jobs(workload.n_jobs)
    jobs["user"] = workload.jobs["user"]
    if workload.nodes is not None:
        jobs["nodes"] = workload.nodes
    return SiteJobs(jobs=jobs)


def _cores_of_nodes(platform: Platform) -> NDArray[np.int32]:
    of_processors: NDArray[np.int32] = np.diff(platform.first_core_of_processor)
    if platform.n_nodes == 1:
        return of_processors
    return np.add.reduceat(of_processors, platform.first_processor_of_node[:-1])


def _as_bits(rows: NDArray[np.bool_], n_nodes: int) -> NDArray[np.uint64]:
    """Return flags of nodes as rows of words of 64 bits."""
    n_words = max(1, -(-n_nodes // 64))
    padded = np.zeros((len(rows), n_words * 64), np.uint8)
    padded[:, :n_nodes] = rows
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def run_times_s(platform: Platform, workload: Workload) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the run time of each job if nothing ends it, in seconds, and its return code.

    Raises
    ------
    SimulationError
        If jobs compute, and the nodes are not all equally fast, or jobs slow each other down.
    """
    steps, jobs = workload.steps, workload.jobs
    computes = np.isin(steps["kind"], (StepKind.COMPUTE, StepKind.COMPUTE_TOTAL))
    speed = platform.speed_flops[:, 0]
    if computes.any() and len(speed) and np.any(speed != speed[0]):
        raise SimulationError(
            f"platform {platform.name!r}: its cores differ in speed; 'site' expects equal ones, as of homogeneous:256"
        )
    most_gbps = float(jobs["bandwidth_gbps"].max(initial=0.0)) * float(np.diff(platform.first_core_of_processor).max())
    if computes.any() and most_gbps > platform.bandwidth_gbps.min() and platform.rules is not None:
        raise SimulationError(f"workload {workload.name!r}: 'site' does not simulate contention for memory bandwidth")
    return run_times_at(workload, float(speed[0]) if len(speed) else 1.0)


def world_of(platform: Platform, workload: Workload) -> SiteWorld:
    """Return a platform and a workload with what the site adds, complete."""
    rules = plain_rules(platform) if platform.site is None else platform.site
    return SiteWorld(platform, workload, rules, plain_jobs(workload) if workload.site is None else workload.site)


def check_rules(rules: SiteRules) -> None:
    """Refuse rules that are not simulated.

    Raises
    ------
    SimulationError
        If the site has such a one; the message names it.
    """
    if rules.preemption.by != PreemptBy.NOTHING and rules.preemption.is_within:
        raise SimulationError("'site' does not simulate PreemptMode=WITHIN and PRIORITY")
    if rules.preemption.by != PreemptBy.QOS:
        return
    reached = _reached(rules.qos["preempts"])
    for number, name in enumerate(rules.qos_names):
        if reached[number] >> number & 1:
            raise SimulationError(f"'site' does not simulate QOS that preempt themselves, as {name!r} does")


def _reached(preempts: NDArray[np.uint64]) -> list[int]:
    """Return which QOS each one preempts, itself or by others, as bits."""
    reached = [int(bits) for bits in preempts]
    for through in range(len(reached)):
        reached = [bits | reached[through] if bits >> through & 1 else bits for bits in reached]
    return reached


def _check(inputs: SiteWorld) -> None:
    """Refuse what is not simulated.

    Raises
    ------
    SimulationError, WorkloadError
        If a site or a job has something that this simulator does not know.
    """
    rules = inputs.rules
    known = _cores_of_nodes(inputs.platform)
    if not np.array_equal(rules.nodes["cores"], known) and rules.nodes["cores"].tolist() != [known.sum()]:
        raise SimulationError(
            f"platform {inputs.platform.name!r}: its nodes and those of its site have different cores"
        )
    check_rules(rules)


def has_het_jobs(site_requests: SiteJobs) -> bool:
    """Tell whether jobs are components of heterogeneous ones."""
    return bool(np.any(components_of(site_requests.jobs["het_group"])[0] >= 0))


def new_site_state(inputs: SiteWorld, key: int, backfilling: int, rule: PolicyRule) -> SiteState:
    """Return the arrays of a simulation that is about to begin."""
    rules, site_requests, jobs = inputs.rules, inputs.site_requests, inputs.workload.jobs
    n_nodes, n_jobs = len(rules.nodes), len(jobs)
    given: dict[str, NDArray[Any]] = {}
    given["settings"] = settings = _settings(inputs, key, backfilling)
    given["nodes"] = nodes = np.zeros(n_nodes, arrays.NODE_DTYPE)
    for name in ("cores", "gpus", "memory_mib", "weight"):
        nodes[name] = rules.nodes[name]
    nodes["first_core"] = np.cumsum(rules.nodes["cores"]) - rules.nodes["cores"]
    for partition, of_nodes in enumerate(rules.partition_nodes):
        nodes["partitions"] |= of_nodes.astype(np.uint64) << np.uint64(partition)
    for name, column in (("free", "cores"), ("free_mib", "memory_mib"), ("free_gpus", "gpus")):
        given[name] = rules.nodes[column].astype(np.float64 if column == "memory_mib" else np.int32)
        given[name.replace("free", "all") if name != "free" else "all_free"] = given[name].copy()
    given["free_nodes"] = _as_bits(given["free"][None, :] > 0, n_nodes)[0]
    given["partitions"] = _partitions(rules)
    given["partition_nodes"] = _as_bits(rules.partition_nodes, n_nodes)
    given["open_nodes"] = _as_bits(np.ones((1, n_nodes), np.bool_), n_nodes)[0]
    given |= _closures(rules, site_requests.origin_s)
    given["core_owner"] = np.full(inputs.platform.n_cores, -1, np.int32)
    given |= _limits(rules)
    given |= _jobs(inputs, settings[0])
    given |= arrays_of(rule, inputs.platform, inputs.workload)
    sizes = {"one": 1, "n_nodes": n_nodes, "n_words": given["open_nodes"].shape[0], "n_jobs": n_jobs}
    sizes |= {"n_cores": inputs.platform.n_cores, "n_partitions": len(rules.partitions), "n_dropped": n_jobs + 1}
    for size, name in (("n_features", "feature_nodes"), ("n_entries", "entries"), ("n_arrays", "arrays")):
        sizes[size] = len(given[name])
    components = given["jobs"][given["jobs"]["first_component"] >= 0]
    sizes["n_components"] = len(components)
    for name in ("reservations", "outages", "dependencies", "qos", "accounts", "qos_users", "account_users"):
        sizes[f"n_{name}"] = len(given[name])
    sizes["n_ordered"], sizes["n_levels"] = len(rules.accounts), given["paths"].shape[1]
    sizes |= {"n_predicted": len(given["predictions"]), "n_group_levels": N_LEVELS, "n_groups": len(given["sums"])}
    sizes |= {"n_weights": len(given["weights"]), "n_network": len(given["network"])}
    sizes |= {"n_neurons": N_NEURONS if len(given["network"]) else 0, "n_described": N_FEATURES}
    n_planned = sizes["n_entries"]
    if settings[0]["discipline"] == codes.SLURM and settings[0]["bf_max_job_test"] > 0:
        n_planned = min(n_planned, int(settings[0]["bf_max_job_test"]))
    elif settings[0]["discipline"] == codes.EASY:
        n_planned = min(n_planned, len(rules.partitions) + int(components["n_entries"].sum()))
    sizes["n_segments"] = 2 * n_planned + 2
    sizes["n_users"] = int(max(given["jobs"]["user"].max(initial=-1) + 1, 1))
    margin = inputs.platform.n_cores + 64
    sizes["n_dates"] = (
        3 * n_jobs + 2 * (len(rules.reservations) + len(rules.outages) + len(site_requests.dependencies)) + margin
    )
    sizes["n_pair_log"] = 2 * n_jobs + margin
    sizes["n_core_log"] = int(jobs["cores"].sum()) + margin
    sizes["n_log"] = 2 * n_jobs + 2 * margin
    scalars = np.zeros(1, arrays.SCALARS_DTYPE)
    scalars["predictor"], scalars["index_form"] = rule.predictor, rule.index_form
    scalars["has_gate"] = rule.has_gate
    scalars["first_submit_s"] = first_s = float(jobs["submit_s"].min()) if n_jobs else 0.0
    scalars["decayed_s"] = math.floor(first_s / rules.weights.calc_period_s) * rules.weights.calc_period_s
    return new_arrays(SiteState, sizes, given | {"scalars": scalars})


def _settings(inputs: SiteWorld, key: int, backfilling: int) -> NDArray[np.void]:
    """Return the settings of a simulation."""
    rules = inputs.rules
    s = np.zeros(1, arrays.SETTINGS_DTYPE)
    discipline = _DISCIPLINES[backfilling]
    s["key"], s["is_asked"] = key, key == kernel_codes.JOB_GIVEN
    if key == codes.MULTIFACTOR and rules.weights.is_basic:
        s["key"] = kernel_codes.JOB_FIRST
    s["n_nodes"], s["n_partitions"] = len(rules.nodes), len(rules.partitions)
    s["n_words"], s["n_cores"] = max(1, -(-len(rules.nodes) // 64)), inputs.platform.n_cores
    s["most_cores"] = rules.nodes["cores"].max(initial=1)
    s["fewest_cores"] = rules.nodes["cores"].min() if len(rules.nodes) else 0
    s["counts_memory"] = rules.counts_memory and bool(np.any(inputs.workload.jobs["memory_mib"] > 0))
    s["counts_gpus"] = bool(np.any(inputs.site_requests.jobs["gpus"] > 0))
    names = arrays.SETTINGS_DTYPE.names or ()
    for one in (rules.scheduler, rules.weights):
        for name in one.__dataclass_fields__:
            if name in names:
                s[name] = getattr(one, name)
    # A quantity that halves in half a life, after one period
    halves = rules.weights.calc_period_s / rules.weights.half_life_s if rules.weights.half_life_s > 0 else 0.0
    s["decay"] = float(elementary.exp(np.array([-math.log(2.0) * halves]))[0])
    s["preempt_by"], s["exempt_s"] = rules.preemption.by, rules.preemption.exempt_s
    s["is_youngest_first"], s["restart_s"] = rules.preemption.is_youngest_first, rules.preemption.restart_s
    s["kill_wait_s"], s["over_time_limit_s"] = rules.kill_wait_s, rules.over_time_limit_s
    set_backfilling(s, backfilling)
    if discipline != codes.SLURM:  # they plan exactly
        s["bf_resolution_s"], s["bf_window_s"], s["bf_max_job_test"] = 0.0, np.inf, 0
        s["bf_max_job_user"], s["bf_max_job_part"], s["partition_job_depth"], s["bf_busy_nodes"] = 0, 0, 0, 0
        s["bf_hetjob_prio"] = 0
    return s


def set_backfilling(settings: NDArray[np.void], backfilling: int) -> None:
    """Write a kind of backfilling, by its number in `kernel.codes`, into the settings of a simulation."""
    settings["discipline"] = discipline = _DISCIPLINES[backfilling]
    settings["order_key"], settings["max_reserve_part"] = backfilling, discipline == codes.EASY


def _partitions(rules: SiteRules) -> NDArray[np.void]:
    rows = np.zeros(len(rules.partitions), arrays.PARTITION_DTYPE)
    for name in ("tier", "max_time_s", "min_nodes", "max_nodes", "is_exclusive", "preempt_mode", "grace_s"):
        rows[name] = rules.partitions[name]
    largest = rules.partitions["job_factor"].max(initial=0)
    rows["factor"] = rules.partitions["job_factor"] / largest if largest > 0 else 0.0
    rows["qos"] = rules.partitions["qos"]
    rows["n_cores"] = rows["free_cores"] = rules.partition_nodes @ rules.nodes["cores"].astype(np.int64)
    return rows


def _closures(rules: SiteRules, origin_s: float) -> dict[str, NDArray[Any]]:
    """Return the reservations, by start, and the outages, in the clock of jobs."""
    by_start = np.argsort(rules.reservations["start_s"], kind="stable")
    reservations = np.zeros(len(by_start), arrays.RESERVATION_DTYPE)
    outages = rules.outages.astype(arrays.OUTAGE_DTYPE)
    for column in ("start_s", "end_s"):
        reservations[column] = rules.reservations[column][by_start] - origin_s
        outages[column] -= origin_s
    reservations["latest_end_s"] = np.maximum.accumulate(reservations["end_s"])
    n_nodes = len(rules.nodes)
    nodes = _as_bits(rules.reservation_nodes.reshape(-1, n_nodes)[by_start], n_nodes)
    return {"reservations": reservations, "reservation_nodes": nodes, "outages": outages}


_COUNTED = ("cores", "gpus", "jobs", "submitted")
"""Quantities that limits of groups count."""


def _limits(rules: SiteRules) -> dict[str, NDArray[Any]]:
    """Return the limits of QOS and accounts."""
    qos, accounts = np.zeros(len(rules.qos), arrays.LIMIT_DTYPE), np.zeros(len(rules.accounts), arrays.LIMIT_DTYPE)
    for name in _COUNTED:
        qos[f"most_{name}"], accounts[f"most_{name}"] = rules.qos[f"group_{name}"], rules.accounts[f"group_{name}"]
    for name in ("priority", "preempts", "preempt_mode", "grace_s", "exempt_s", "is_over_partition"):
        qos[name] = rules.qos[name]
    largest = rules.qos["priority"].max(initial=0)
    qos["factor"] = rules.qos["priority"] / largest if largest > 0 else 0.0
    qos["parent"], accounts["parent"] = UNLIMITED, rules.accounts["parent"]
    accounts["shares"] = rules.accounts["shares"]
    order = sorted(range(len(accounts)), key=lambda account: len(_accounts_above(rules, account)))
    return {"qos": qos, "accounts": accounts, "account_order": np.array(order, np.int32)}


def _accounts_above(rules: SiteRules, account: int) -> list[int]:
    """Return an account and those above it, the highest one first.

    Raises
    ------
    SimulationError
        If it is its own ancestor.
    """
    above: list[int] = []
    while account >= 0:
        if account in above:
            raise SimulationError(f"account {rules.account_names[account]!r} is its own ancestor")
        above.insert(0, account)
        account = int(rules.accounts["parent"][account])
    return above


def _number_users_of_qos(
    rules: SiteRules, site_requests: NDArray[np.void], rows: NDArray[np.void], entries: NDArray[np.void]
) -> NDArray[np.void]:
    """Return the users of the QOS of jobs and of their partitions with the limits of each, and number them."""
    of_partitions = rules.partitions["qos"][entries["partition"]]
    has_one = of_partitions >= 0
    qos = np.append(site_requests["qos"], of_partitions[has_one])
    number, n = _numbered(qos, np.append(site_requests["user"], site_requests["user"][entries["job"][has_one]]))
    entries["qos_user"] = UNLIMITED
    rows["qos_user"], entries["qos_user"][has_one] = number[: len(rows)], number[len(rows) :]
    users = np.zeros(n, arrays.USE_DTYPE)
    limits = np.append(rules.qos, unlimited(QOS_DTYPE, 1))
    for name in _COUNTED:
        users[f"most_{name}"][number] = limits[f"user_{name}"][qos]
    return users


_TITLES = {"cores": "TRES=cpu", "gpus": "TRES=gres/gpu", "jobs": "Jobs"}


def _limit_each(inputs: SiteWorld, rows: NDArray[np.void], entries: NDArray[np.void]) -> dict[str, NDArray[np.bool_]]:
    """Write the time limits of jobs, and which jobs exceed a limit even if nothing else runs; return these by limit."""
    rules, site_requests, jobs = inputs.rules, inputs.site_requests.jobs, inputs.workload.jobs
    is_killed = jobs["walltime_s"] != NO_WALLTIME
    rows["walltime_s"] = np.where(is_killed, jobs["walltime_s"], np.inf)
    if not len(rules.qos) and not len(rules.accounts):
        return {}
    limits = np.append(rules.qos, unlimited(QOS_DTYPE, 1))
    own, of_partition = site_requests["qos"][entries["job"]], rules.partitions["qos"][entries["partition"]]
    is_own_first = (of_partition < 0) | (limits["is_over_partition"][own] != 0)
    first, second = np.where(is_own_first, own, of_partition), np.where(is_own_first, of_partition, own)
    account, association = site_requests["account"][entries["job"]], site_requests["association"][entries["job"]]

    def most(name: str, of_accounts: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Return a limit for each entry: that of the first QOS that has one, else that of accounts."""
        found = np.full(len(entries), np.inf)
        for one in (of_accounts, limits[name][second], limits[name][first]):
            found = found if one is None else np.where(_is_limit(one), one, found)
        return found

    def inherited(name: str) -> NDArray[Any]:
        return _of_accounts(rules, name, account, association, takes_least=False)

    most_s = most("max_time_s", inherited("max_time_s"))
    requested_s = np.where(is_killed, jobs["walltime_s"], jobs["requested_time_s"])
    refused = {"MaxWall": requested_s[entries["job"]] > most_s}
    # MaxWall is the limit of jobs that request no time.
    rows["walltime_s"] = np.where(requested_s > 0, rows["walltime_s"], most_s[rows["first_entry"]])
    wanted = {"cores": jobs["cores"][entries["job"]], "gpus": rows["n_gpus"][entries["job"]], "jobs": 1}
    for kind, amount in wanted.items():
        of_group = _of_accounts(rules, f"group_{kind}", account, association, takes_least=True)
        title = _TITLES[kind]
        refused[f"Grp{title}"] = amount > most(f"group_{kind}", of_group)
        of_users = inherited("user_jobs") if kind == "jobs" else None
        refused[f"Max{title} of a user"] = amount > most(f"user_{kind}", of_users)
        if kind != "jobs":
            refused[f"Max{title} of a job"] = amount > most(f"job_{kind}", inherited(f"job_{kind}"))
    is_refused = np.any(list(refused.values()), axis=0)
    entries["is_refused"] = is_refused
    is_open = np.bincount(entries["job"][~is_refused], minlength=len(rows)) > 0
    # Where limits refuse a job in some of its partitions, the others may lack nodes for it.
    some = np.intersect1d(entries["job"][is_refused], np.flatnonzero(is_open))
    if len(some):
        left = ~is_refused & np.isin(entries["job"], some)
        requests = site_requests[some]
        requests["partitions"], requests["het_group"] = 0, UNLIMITED
        bits = np.uint64(1) << entries["partition"][left].astype(np.uint64)
        np.bitwise_or.at(requests["partitions"], np.searchsorted(some, entries["job"][left]), bits)
        is_open[some] = can_ever_start(rules, SiteJobs(jobs=requests), jobs["cores"][some], jobs["memory_mib"][some])
    rows["is_refused"] = ~is_open
    return {
        title: (np.bincount(entries["job"][applies], minlength=len(rows)) > 0) & ~is_open
        for title, applies in refused.items()
    }


def limits_exceeded(platform: Platform, workload: Workload) -> dict[str, NDArray[np.bool_]]:
    """Tell by limit which jobs exceed it on their own, so that they never start."""
    inputs = world_of(platform, workload)
    rows = np.zeros(workload.n_jobs, arrays.JOB_DTYPE)
    _write_requests(inputs, rows)
    return _limit_each(inputs, rows, _entries(inputs, rows))


def _users_of_accounts(
    rules: SiteRules, site_requests: NDArray[np.void], number: NDArray[np.int32], n: int
) -> dict[str, Any]:
    """Return users with their accounts, and the path from the root to each: accounts, then the user behind them all."""
    users = np.zeros(n, arrays.USE_DTYPE)
    users["account"][number] = site_requests["account"]
    association = np.full(n, UNLIMITED, np.int32)
    np.maximum.at(association, number, site_requests["association"])
    own = np.append(rules.associations, unlimited(ACCOUNT_DTYPE, 1))[association]
    users["shares"] = own["shares"]
    for name in _COUNTED:
        users[f"most_{name}"] = own[f"group_{name}"]
    for name in ("jobs", "submitted"):
        users[f"own_{name}"] = _of_accounts(rules, f"user_{name}", users["account"], association, takes_least=False)
    above = [_accounts_above(rules, int(account)) for account in users["account"]]
    paths = np.full((n, max(map(len, above), default=0) + 1), UNLIMITED, np.int32)
    for user, path in enumerate(above):
        paths[user, : len(path)] = path
        paths[user, len(path)] = len(rules.accounts) + user
    return {"account_users": users, "paths": paths}


def _of_accounts(
    rules: SiteRules,
    name: str,
    account: NDArray[np.int32],
    association: NDArray[np.int32],
    *,
    takes_least: bool,
) -> NDArray[Any]:
    """Return a limit of users in accounts: their own, else that of the next account above that has one.

    Parameters
    ----------
    takes_least
        True for limits that all hold, of which this returns the least one.
    """
    none = unlimited(ACCOUNT_DTYPE, 1)[name]
    of_accounts = rules.accounts[name].copy()
    for one in range(len(of_accounts)):
        limits = rules.accounts[name][_accounts_above(rules, one)[::-1]]
        limits = np.append(limits[_is_limit(limits)], none)
        of_accounts[one] = limits[:-1].min(initial=limits[0]) if takes_least else limits[0]
    own, above = np.append(rules.associations[name], none)[association], np.append(of_accounts, none)[account]
    found: NDArray[Any] = np.where(_is_limit(own), own, above)
    return np.where(_is_limit(above), np.minimum(found, above), found) if takes_least else found


def _is_limit(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which values are limits, neither `UNLIMITED`, NaN nor infinity."""
    found: NDArray[np.bool_] = (values >= 0) & (values < np.inf)
    return found


def _numbered(first: NDArray[np.int32], second: NDArray[np.int32]) -> tuple[NDArray[np.int32], int]:
    """Return the number of each pair of numbers, and how many pairs there are."""
    if not len(first):
        return np.zeros(0, np.int32), 0
    pairs, number = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int32), len(pairs)


def _jobs(inputs: SiteWorld, settings: np.void) -> dict[str, NDArray[Any]]:
    """Return the jobs and all that is numbered by them."""
    workload, rules, site_requests = inputs.workload, inputs.rules, inputs.site_requests.jobs
    jobs, n_jobs = workload.jobs, workload.n_jobs
    rows = np.zeros(n_jobs, arrays.JOB_DTYPE)
    for name in ("submit_s", "requested_time_s", "memory_mib", "bandwidth_gbps"):
        rows[name] = jobs[name]
    _write_requests(inputs, rows)
    for name in (
        *("is_exclusive", "begin_s", "held_until_s", "cancelled_s", "nice", "qos", "account", "user"),
        *("array", "site_factor"),
    ):
        rows[name] = site_requests[name]
    has_user = rows["user"] >= 0
    rows["user"][has_user] = np.unique(rows["user"][has_user], return_inverse=True)[1]
    rows["run_s"], rows["return_code"] = run_times_s(inputs.platform, workload)
    entries = _entries(inputs, rows)
    _limit_each(inputs, rows, entries)
    limit_s = np.where(np.isfinite(rows["walltime_s"]), rows["walltime_s"], jobs["requested_time_s"])
    limit_s = np.where(limit_s > 0, np.minimum(limit_s, YEAR_S), YEAR_S)
    rows["limit_s"] = np.ceil(limit_s / 60.0) * 60.0 if settings["discipline"] == codes.SLURM else limit_s
    follows = inputs.site_requests.dependencies["kind"] == DependencyKind.THINK
    rows["submit_s"][inputs.site_requests.dependencies["job"][follows]] = np.inf
    for name in ("start_s", "ended_s", "due_s", "eligible_s", "planned_s", "suspended_since_s", "component_s"):
        rows[name] = -1.0
    rows["first_component"], rows["next_component"] = components_of(site_requests["het_group"])
    features, rows["features"] = _feature_nodes(rules, site_requests["features"])
    qos_users = _number_users_of_qos(rules, site_requests, rows, entries)
    account_user, n_account_users = _numbered(site_requests["account"], site_requests["user"])
    rows["account_user"] = account_user
    dependencies = inputs.site_requests.dependencies.astype(arrays.DEPENDENCY_DTYPE)
    rows["first_dependency"] = np.searchsorted(dependencies["job"], np.arange(n_jobs))
    rows["n_dependencies"] = np.bincount(dependencies["job"], minlength=n_jobs)[:n_jobs]
    by_other = np.argsort(dependencies["on"], kind="stable")
    rows["first_dependent"] = np.searchsorted(dependencies["on"][by_other], np.arange(n_jobs))
    rows["n_dependents"] = np.bincount(dependencies["on"], minlength=n_jobs)[:n_jobs]
    return {
        "jobs": rows,
        "entries": entries,
        "feature_nodes": features,
        "dependencies": dependencies,
        "dependents": dependencies["job"][by_other].astype(np.int32),
        "arrays": _arrays_of_jobs(rows, site_requests),
        "qos_users": qos_users,
        **_users_of_accounts(rules, site_requests, account_user, n_account_users),
    }


def _write_requests(inputs: SiteWorld, rows: NDArray[np.void]) -> None:
    """Write the cores, nodes and GPUs that jobs request."""
    requests = inputs.site_requests.jobs
    rows["n_requested"] = inputs.workload.jobs["cores"]
    rows["nodes"], rows["gpus"] = requests["nodes"], requests["gpus"]
    rows["n_gpus"] = rows["gpus"].astype(np.int64) * np.maximum(rows["nodes"], 1)


def _feature_nodes(rules: SiteRules, site_requests: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Return the nodes that have all of each set of features that jobs ask for, and which set each job asks for."""
    wanted, number = np.unique(np.append(site_requests, np.uint64(0)), return_inverse=True)
    has_all = (rules.nodes["features"][None, :] & wanted[:, None]) == wanted[:, None]
    return _as_bits(has_all, len(rules.nodes)), number.reshape(-1)[:-1].astype(np.int32)


def _entries(inputs: SiteWorld, rows: NDArray[np.void]) -> NDArray[np.void]:
    """Return a row per job and partition that it may run in.

    Raises
    ------
    WorkloadError
        If a job fits into none of its partitions even when they are empty.
    """
    rules, site_requests = inputs.rules, inputs.site_requests.jobs
    chosen = np.where(
        site_requests["partitions"] == 0,
        np.uint64(1) << np.uint64(rules.default_partition),
        site_requests["partitions"],
    )
    bits = (chosen[:, None] >> np.arange(len(rules.partitions), dtype=np.uint64)) & np.uint64(1)
    job, partition = np.nonzero(bits)
    for number in np.unique(partition):
        mine = job[partition == number]
        cores = rules.nodes["cores"][rules.partition_nodes[number]]
        too_large = mine[rows["n_requested"][mine] > cores.sum()]
        if len(too_large):
            name, needed = inputs.workload.job_ids[too_large[0]], rows["n_requested"][too_large[0]]
            where = rules.partition_names[number]
            raise WorkloadError(f"job {name!r} needs {needed} cores; partition {where!r} has {cores.sum()}")
    entries = np.zeros(len(job), arrays.ENTRY_DTYPE)
    entries["job"], entries["partition"] = job, partition
    rows["first_entry"] = np.searchsorted(job, np.arange(len(rows)))
    rows["n_entries"] = np.bincount(job, minlength=len(rows))[: len(rows)]
    return entries


def _arrays_of_jobs(rows: NDArray[np.void], site_requests: NDArray[np.void]) -> NDArray[np.void]:
    """Return the arrays of jobs, number them from 0, and chain their tasks."""
    rows["next_task"] = UNLIMITED
    tasks = np.flatnonzero(rows["array"] >= 0)
    tasks = tasks[np.argsort(rows["array"][tasks], kind="stable")]
    is_first = np.diff(rows["array"][tasks], prepend=-1) != 0
    rows["array"][tasks] = np.cumsum(is_first) - 1
    found = np.zeros(np.count_nonzero(is_first), arrays.ARRAY_DTYPE)
    found["first_task"] = tasks[is_first]
    found["limit"][rows["array"][tasks]] = site_requests["array_limit"][tasks]
    same = ~is_first[1:]
    rows["next_task"][tasks[:-1][same]] = tasks[1:][same]
    return found


def plays(rule: PolicyRule) -> bool:
    """Tell whether this simulator knows what a policy adds to its job key and its backfilling."""
    return not rule.predicts_ends and rule.node_rule == kernel_codes.NODES_LEFT_ALONE


def stepwise_simulation(world: SiteWorld) -> StepwiseSimulation:
    """Return a simulation whose decisions come from outside the kernel, about to begin.

    Raises
    ------
    SimulationError, WorkloadError
        If a site or a job has something that is not simulated.
    """
    _check(world)
    # Conservative backfilling needs the largest arrays; `set_backfilling` says what is done.
    return StepwiseSimulation(world, new_site_state(world, kernel_codes.JOB_GIVEN, kernel_codes.CONSERVATIVE, NO_RULE))


class SiteSimulator:
    """One simulation on a machine with the rules of a site.

    Parameters
    ----------
    platform
        The machine; without rules of a site it has one partition of all nodes.
    rule
        Parts of a policy beside its job key and its backfilling.

    Raises
    ------
    SimulationError
        If the site or the policy has something that this simulator does not know; the message names it.
    WorkloadError
        If a job fits into none of its partitions.
    """

    def __init__(self, platform: Platform, workload: Workload, rule: PolicyRule = NO_RULE) -> None:
        if not plays(rule):
            raise UnsupportedPolicy
        self._rule = rule
        workload.check_simulated()
        self.workload = workload
        self._inputs = world_of(platform, workload)
        _check(self._inputs)
        self._state: SiteState | None = None
        self._stepwise: StepwiseSimulation | None = None

    def run_pair(
        self,
        job_key: int,
        core_key: int,
        backfilling: int = kernel_codes.NO_BACKFILLING,
        *,
        looks: Looks | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Simulate from date 0 to the end under a priority.

        Parameters
        ----------
        job_key
            Its number in `kernel.codes`, or ``MULTIFACTOR`` of `site_rules.codes`.
        core_key
            The default one, as nodes are chosen as Slurm does.
        backfilling
            Its number in `kernel.codes`, or ``SLURM_CYCLE`` of `site_rules.codes`.
        looks
            A daemon that orders the queue of ``MULTIFACTOR`` and ``SLURM_CYCLE`` by the rule.
        progress
            Called with the numbers of finished and of all jobs, a few times a second.

        Raises
        ------
        SimulationError
            If the simulator does not know the priority, or it never starts some jobs, or if jobs wait and nothing
            will ever happen again.
        """
        is_known = job_key in _KEYS and backfilling in _DISCIPLINES and core_key in _CORE_KEYS
        is_index = job_key == kernel_codes.JOB_INDEX
        if not is_known or (is_index and (not self._rule.weights or backfilling not in kernel_codes.EASY)):
            raise UnsupportedPolicy
        self._check_het_jobs(backfilling)
        if looks is not None and (job_key, backfilling) != (codes.MULTIFACTOR, codes.SLURM_CYCLE):
            raise SimulationError("a daemon orders the queue of 'slurm' only")
        state = new_site_state(self._inputs, job_key, backfilling, self._rule)
        if looks is not None:
            s = state.settings[0]
            s["look_key"], s["has_lua"], s["aging_per_s"] = looks.key, looks.has_lua, looks.aging_per_s
            s["look_interval_s"], s["look_bound_s"] = looks.interval_s, looks.bound_s
        status = codes.PAUSED
        while status != codes.ENDED:
            status = events.advance(Borrowed(state), DATES_PER_CALL)
            if status == codes.GROW:
                state = grown_site_state(state)
            if progress is not None:
                progress(int(state.scalars["n_completed"][0]), self.workload.n_jobs)
        self._state = state
        self._check_ended(state)

    def reset(self) -> SiteView:
        """Begin at date 0, for decisions from outside the kernel, and return the first view."""
        self._stepwise = stepwise_simulation(self._inputs)
        self._stepwise.go_on()
        return self._seen(self._stepwise.view())

    def step(self, decisions: Iterable[Decision] = ()) -> SiteView:
        """Carry out decisions, and return the view at the next message.

        Raises
        ------
        DecisionError
            At the first decision that the rules forbid.
        SimulationError
            If jobs wait and nothing will ever happen again, or if the simulation has ended.
        """
        self._now.state.scalars["n_passes"] += 1
        return self._seen(self._now.step(decisions))

    def start_by(
        self,
        priorities: NDArray[np.float64],
        job_key: int,
        core_key: int,
        backfilling: int = kernel_codes.NO_BACKFILLING,
    ) -> None:
        """Start waiting jobs by given priorities; `step` goes on then.

        Parameters
        ----------
        priorities
            Of each waiting job, in the order in which they came (`View.waiting`); the lowest is served first.
        job_key, core_key, backfilling
            Numbers of the keys and of the kind of backfilling in `kernel.codes`; the job key is ``JOB_GIVEN``.
        """
        del job_key
        if core_key not in _CORE_KEYS:
            raise UnsupportedPolicy
        self._check_het_jobs(backfilling)
        set_backfilling(self._now.state.settings, backfilling)
        self._now.start_by(priorities)

    @property
    def is_due(self) -> bool:
        """True if a priority would decide now: something has changed, and jobs wait."""
        return self._now.n_waiting > 0

    @property
    def n_done(self) -> int:
        """Number of jobs that have ended or were rejected."""
        return int(self._now.state.scalars["n_completed"][0])

    @property
    def trace(self) -> BatchTrace:
        """Trace of the simulation.

        Raises
        ------
        SimulationError
            If nothing has been simulated yet.
        """
        state = self._state if self._stepwise is None else self._stepwise.state
        if state is None:
            raise SimulationError("nothing has been simulated yet")
        return trace_of(self._inputs, state)

    @property
    def _now(self) -> StepwiseSimulation:
        if self._stepwise is None:
            raise SimulationError("the simulation has not begun; reset() begins it")
        return self._stepwise

    def _seen(self, view: SiteView) -> SiteView:
        if view.is_over:
            self._check_ended(self._now.state)
        return view

    def _check_het_jobs(self, backfilling: int) -> None:
        if _DISCIPLINES[backfilling] == codes.NOTHING and has_het_jobs(self._inputs.site_requests):
            raise SimulationError(
                "only backfilling starts heterogeneous jobs in 'site'; expected 'slurm', or for instance 'sjf+easy'"
            )

    def _check_ended(self, state: SiteState) -> None:
        stuck = np.flatnonzero(np.isin(state.jobs["state"], (codes.NOT_SUBMITTED, codes.WAITING)))
        if len(stuck):
            name = self.workload.job_ids[stuck[0]]
            raise SimulationError(
                f"deadlock: {len(stuck)} jobs wait and none can ever start, for instance job {name!r}"
            )

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _records(state: SiteState) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    """Return the outcome of each job, and the cores of all, ascending within each job."""
    jobs = state.jobs
    records = np.zeros(len(jobs), RECORD_DTYPE)
    records["state"], records["return_code"] = jobs["state"], jobs["return_code"]
    records["start_s"], records["energy_j"] = jobs["start_s"], -1.0
    has_ended = (jobs["start_s"] >= 0) & (jobs["ended_s"] >= 0)
    records["run_s"] = np.where(has_ended, np.maximum(jobs["length_s"], 1e-5), -1.0)
    records["n_cores"] = jobs["n_cores"]
    records["first_core"] = np.cumsum(jobs["n_cores"]) - jobs["n_cores"]
    # The log holds cores in the order of starts, ascending within each job.
    starts = zip(jobs["first_core"].tolist(), jobs["n_cores"].tolist(), strict=True)
    cores = [state.allocated[first : first + n] for first, n in starts]
    return records, np.concatenate(cores) if cores else np.zeros(0, np.int32)


def _site_records(state: SiteState) -> NDArray[np.void]:
    jobs = state.jobs
    found = np.zeros(len(jobs), SITE_RECORD_DTYPE)
    for name in SITE_RECORD_DTYPE.names or ():
        if name != "partition":
            found[name] = jobs[name]
    found["partition"] = np.where(jobs["start_s"] >= 0, state.entries["partition"][jobs["entry"]], UNLIMITED)
    return found


def trace_of(inputs: SiteWorld, state: SiteState) -> BatchTrace:
    """Return the trace of a simulation."""
    s = state.scalars[0]
    records, cores = _records(state)
    log = state.machine_log[: int(s["n_machine_log"])]
    machine_states = np.zeros(len(log), MACHINE_STATE_DTYPE)
    machine_states["time_s"], machine_states["computing"] = log["time_s"], log["computing"]
    machine_states["idle"] = inputs.platform.n_cores - log["computing"]
    none = np.zeros(0)
    return BatchTrace(
        platform=inputs.platform,
        workload=inputs.workload_at(state),
        records=records,
        completion_order=state.completed[: int(s["n_completed"])].copy(),
        allocated_cores=cores,
        machine_states=machine_states,
        pstate_changes=np.zeros(0, PSTATE_CHANGE_DTYPE),
        pstate_cores=np.zeros(0, np.int32),
        energy=np.zeros(0, ENERGY_DTYPE),
        overutilization=OverUtilization(none, none, np.zeros(0, np.int32), none, none),
        consumed_j=0.0,
        end_s=float(s["message_s"]),
        n_decisions=int(s["n_passes"] + s["n_cycles"]),
        n_grouped_switches=0,
        n_machine_switches=0,
        site=_site_records(state),
        time_in_state_s={"computing": float(s["time_computing_s"]), "idle": float(s["time_idle_s"])},
        info={
            "simulator": "site",
            "n_passes": int(s["n_passes"]),
            "n_cycles": int(s["n_cycles"]),
            **{name: int(s[name]) for name in ("n_requeued", "n_preempted", "n_missed_reservations")},
            **{name: float(s[name]) for name in ("lost_core_s", "preempted_core_s")},
        },
    )


def site_simulator(
    platform: Platform,
    workload: Workload,
    *,
    compatibility: str | None = None,
    rule: PolicyRule = NO_RULE,
    **others: Any,
) -> SiteSimulator:
    """Return the simulator `site`; it needs no files, and accounts for no energy.

    Raises
    ------
    SimulationError
        If it is to behave like another system, or if a policy needs something that it does not know.
    """
    del others
    if compatibility is not None:
        raise SimulationError(f"'site' has no compatibility mode {compatibility!r}")
    return SiteSimulator(platform, workload, rule)


def warm_up(message: Callable[[str], None] | None = None) -> None:
    """Compile the simulator if it has never been compiled here; later processes load it from the cache."""
    text = "compiling the simulator of sites (the first time only, about ten seconds)"
    compile_once(CACHE_FOLDER, "compiled", text, lambda: events.advance(Borrowed(arrays.smallest_state()), 1), message)
