"""The policies by name, and simulating a load under one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from numpy.typing import ArrayLike

from hdrl.base.arguments import check_type
from hdrl.base.errors import SimulationError, UnknownName
from hdrl.base.seeding import stream_seed
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.cache import compile_once
from hdrl.settings.pipelines.analysis.mapping import best_mapping
from hdrl.settings.pipelines.kernel import codes, entries
from hdrl.settings.pipelines.kernel.jit import CACHE_FOLDER
from hdrl.settings.pipelines.kernel.state import PipelinesState, new_state, set_episode, smallest_state
from hdrl.settings.pipelines.loads.load import PipelineLoad, check_runs_on
from hdrl.settings.pipelines.machine import Units
from hdrl.settings.pipelines.simulation.index import (
    INDEX_CODES,
    checked_weights,
    shipped_indices,
    shipped_weights,
    start_weights,
)
from hdrl.settings.pipelines.simulation.tables import Plan, shared_tables
from hdrl.settings.pipelines.simulation.trace import PipelineTrace, trace_of


@dataclass(frozen=True, slots=True)
class PipelineRule:
    """Rules of a policy."""

    # rules for the next ready kernel, its unit, and its fusion: numbers of
    # `hdrl.settings.pipelines.kernel.codes`
    order: int
    where: int
    fusion: int
    what: str  # the same in words
    weights: tuple[float, ...] = ()  # of an index, see `hdrl.settings.pipelines.simulation.index`

    @property
    def codes(self) -> tuple[int, int, int]:
        """The three numbers."""
        return self.order, self.where, self.fusion


_FUSED = "+fusion"

STATIC = "static"
"""The policy that follows a plan, see `hdrl.settings.pipelines.analysis.mapping`."""

BY_HAND = "doomed_last+fusion"
"""The policy that follows the index with its weights by hand: where evolution begins."""


def index_rule(weights: ArrayLike, what: str = "index") -> PipelineRule:
    """Return the rules of a policy with an index; raise OptionsError if the weights are invalid."""
    return PipelineRule(*INDEX_CODES, what, tuple(checked_weights(weights).tolist()))


_RULES = {
    "edf": PipelineRule(
        codes.BY_DEADLINE, codes.ON_IDLE, codes.SINGLE, "earliest deadline of the instance, on the fastest idle unit"
    ),
    "edf_global": PipelineRule(
        codes.BY_DEADLINE, codes.ON_ANY, codes.SINGLE, "earliest deadline of the instance, on the unit that ends first"
    ),
    "edf_local": PipelineRule(
        codes.BY_LOCAL_DEADLINE, codes.ON_ANY, codes.SINGLE, "earliest local deadline, on the unit that ends first"
    ),
    "rm": PipelineRule(codes.BY_PERIOD, codes.ON_IDLE, codes.SINGLE, "shortest period, on the fastest idle unit"),
    "dm": PipelineRule(
        codes.BY_RELATIVE_DEADLINE, codes.ON_IDLE, codes.SINGLE, "shortest relative deadline, on the fastest idle unit"
    ),
    "llf": PipelineRule(codes.BY_LAXITY, codes.ON_IDLE, codes.SINGLE, "least laxity, on the fastest idle unit"),
    "heft": PipelineRule(
        codes.BY_UPWARD_RANK, codes.ON_ANY, codes.SINGLE, "highest upward rank, on the unit that ends first"
    ),
    "earliest_finish": PipelineRule(
        codes.BY_FINISH, codes.ON_ANY, codes.SINGLE, "the kernel and the unit that end first of all"
    ),
    "cpu": PipelineRule(codes.BY_LOCAL_DEADLINE, codes.ON_CPU, codes.SINGLE, "earliest local deadline, CPUs only"),
    "gpu": PipelineRule(codes.BY_LOCAL_DEADLINE, codes.ON_GPU, codes.SINGLE, "earliest local deadline, GPUs only"),
}

_FUSIONS = {
    "edf_global": (codes.BEST_GAIN, "the group that gains most"),
    "edf_local": (codes.BY_THRESHOLD, "as long as local deadlines are before those of all others"),
}

RULES: Mapping[str, PipelineRule] = MappingProxyType(
    {
        **_RULES,
        **{
            f"{name}{_FUSED}": PipelineRule(
                one.order,
                one.where,
                _FUSIONS.get(name, (codes.SHORTEST, ""))[0],
                f"{one.what}, fused: {_FUSIONS.get(name, (0, 'the group that lets the instance end first'))[1]}",
            )
            for name, one in _RULES.items()
        },
        STATIC: PipelineRule(
            codes.BY_DEADLINE, codes.ON_PLANNED, codes.PLANNED, "the best static mapping, by deadline"
        ),
        "random": PipelineRule(
            codes.BY_CHANCE, codes.ON_RANDOM, codes.ANY_DEPTH, "any ready kernel, any unit, any fusion"
        ),
        BY_HAND: index_rule(start_weights(), "index by hand: what is lost last, early deadlines on their best units"),
        **{name: index_rule(shipped_weights(name), "index with evolved weights") for name in shipped_indices()},
    }
)
"""The policies by name."""


def read_policy(text: str) -> str:
    """Return the name of a policy; raise UnknownName if there is no such policy."""
    check_type("policy", text, str, "the name of a policy; simulate_python takes a function")
    name = text.strip().lower().replace("-", "_")
    if name not in RULES:
        raise UnknownName("policy", text, RULES)
    return name


def draws(policy: str) -> bool:
    """Return whether the results of a policy depend on the seed."""
    return policy == "random"


@lru_cache(maxsize=1024)  # 23 us of the 0.5 ms of a short simulation
def _random_state(seed: int) -> int:
    """Return the initial state of a random policy's generator."""
    return 1 + stream_seed(seed, "policy") % 2147483646


def one_state(
    machine: Units, load: PipelineLoad, *, seed: int = 0, plan: Plan | None = None, compatibility: int = codes.PLAIN
) -> PipelinesState:
    """Return the arrays of one environment, ready to begin a load; the seed is that of random policies."""
    shared = shared_tables(machine, [load], plan)
    shared["settings"]["compatibility"] = compatibility
    state = new_state(1, load.n_items, int(load.first_kernels[-1]), shared)
    set_episode(state, 0, 0, load.n_items, load.shares())
    state.scalars[0, 0]["random"] = _random_state(seed)
    return state


def simulate(
    machine: Units,
    load: PipelineLoad,
    policy: str,
    *,
    seed: int = 0,
    plan: Plan | None = None,
    compatibility: int = codes.PLAIN,
) -> PipelineTrace:
    """Simulate a load under a policy.

    Parameters
    ----------
    plan
        The mapping of the policy ``static``; ``None``: the best one.
    compatibility
        Mode in which releases are noticed, see `hdrl.settings.pipelines.kernel.codes`.
    """
    name = read_policy(policy)
    check_runs_on(load, machine)
    if name == STATIC and plan is None:
        plan = best_mapping(machine, load).plan
    used = plan if name == STATIC else None
    return simulate_rule(machine, load, name, RULES[name], seed=seed, plan=used, compatibility=compatibility)


def simulate_rule(
    machine: Units,
    load: PipelineLoad,
    name: str,
    rule: PipelineRule,
    *,
    seed: int = 0,
    plan: Plan | None = None,
    compatibility: int = codes.PLAIN,
) -> PipelineTrace:
    """Simulate a load under a rule, which need not have a name among `RULES`.

    Raise SimulationError if it never starts what is left, because it has no unit for it.
    """
    state = one_state(machine, load, seed=seed, plan=plan, compatibility=compatibility)
    state.weights[0, : len(rule.weights)] = rule.weights
    entries.run_policy(Borrowed(state), rule.codes)
    check_ended(state, name)
    return trace_of(state, 0, machine, load, {"policy": name})


def check_ended(state: PipelinesState, policy: str) -> None:
    """Raise SimulationError if a simulation stopped before every instance had ended."""
    scalars = state.scalars[0, 0]
    if scalars["stage"] != codes.OVER:
        n_left = int(scalars["end_instance"] - scalars["first_instance"] - scalars["n_ended"])
        raise SimulationError(
            f"policy {policy!r} starts nothing more at {int(scalars['now_us']) / 1e6:g} s, but {n_left} instances have"
            " not ended"
        )


def warm_up(message: Callable[[str], None]) -> None:
    """Compile the simulator if it has never been compiled here, after a message; later processes load the cache."""
    text = "compiling the simulator of pipelines (the first time only, about half a minute)"
    compile_once(CACHE_FOLDER, "compiled", text, lambda: entries.begin_one(Borrowed(smallest_state())), message)
