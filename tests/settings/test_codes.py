"""A number that is in no table of compiled code is an error or NaN, never one of the others: in every setting.

The tables are found, not listed: a new one fails here until it says how its compiled code is asked.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import hdrl.compat
import hdrl.settings
from hdrl.base.errors import SimulationError
from hdrl.batch import PolicyPairVectorEnv
from hdrl.compat.dissertation import entries as dissertation_entries
from hdrl.compat.dissertation import world as dissertation
from hdrl.compat.dissertation.env import DissertationVectorEnv
from hdrl.compat.drl_gpu import world as seconds
from hdrl.compat.drl_gpu.playing import shared_arrays
from hdrl.compiled.borrow import borrow
from hdrl.compiled.borrowed import Borrowed
from hdrl.compiled.codes import UNKNOWN_CODE, CodeTable
from hdrl.compiled.serving import Served
from hdrl.settings.batch.compiled_play import entries as play_entries
from hdrl.settings.batch.compiled_play.state import small_play
from hdrl.settings.batch.identical_cores import codes as order_codes
from hdrl.settings.batch.identical_cores import entries as order_entries
from hdrl.settings.batch.identical_cores import observe as order_observe
from hdrl.settings.batch.identical_cores.engine import _candidate_key as order_candidate_key
from hdrl.settings.batch.identical_cores.entries import run_keys
from hdrl.settings.batch.identical_cores.queue import key_value
from hdrl.settings.batch.identical_cores.state import new_order_state, smallest_state
from hdrl.settings.batch.kernel import codes, entries, episodes, keys, observe, reward, selection
from hdrl.settings.batch.kernel.backfill import _candidate_key as candidate_key
from hdrl.settings.batch.kernel.state import small_state
from hdrl.settings.gpu.cluster.machine import read_cluster
from hdrl.settings.gpu.envs.env import GpuClusterVectorEnv
from hdrl.settings.gpu.kernel import acting
from hdrl.settings.gpu.kernel import codes as gpu_codes
from hdrl.settings.gpu.kernel import entries as gpu_entries
from hdrl.settings.gpu.kernel import rounds as gpu_rounds
from hdrl.settings.gpu.kernel import state as gpu_state
from hdrl.settings.gpu.loads.synthetic import Poisson, at_offered_load
from hdrl.settings.gpu.policies.names import read_policy
from hdrl.settings.gpu.policies.rules import Rules
from hdrl.settings.gpu.policies.shares import SharePolicy
from hdrl.settings.gpu.simulation import events as gpu_simulation
from hdrl.settings.gpu.simulation.rounds import _new as new_rounds
from hdrl.settings.pipelines.kernel import codes as pipeline_codes
from hdrl.settings.pipelines.kernel import entries as pipeline_entries
from hdrl.settings.pipelines.kernel.state import smallest_state as smallest_pipelines

HDRL = Path(hdrl.compat.__file__).parent.parent

OUTSIDE = [-7, -1, 57, 99, 102]
NO_JOB_KEY = codes.JOB_INDEX + 1

# What Python cannot call, a compiled function can.


@numba.njit
def value_of_key(state: Any, key: int) -> float:
    return keys.job_key(borrow(state), 0, key, 60.0)


@numba.njit
def value_of_candidate(state: Any, order: int) -> float:
    return candidate_key(borrow(state), 0, order)


@numba.njit
def value_of_group(state: Any, core_key: int) -> tuple[float, int]:
    borrowed = borrow(state)
    return selection._group_key(borrowed, 0, core_key), selection.choose_cores(borrowed, 0, core_key)


@numba.njit
def value_of_attribute(state: Any, which: int) -> float:
    return observe.attribute(borrow(state), 0, which)


def run(borrowed: Borrowed[Any], job_key: int, core_key: int, backfilling: int) -> int:
    """Run a policy whose codes Python does not check before."""
    return entries._call(borrowed.addresses, entries._RUN_PAIR, job_key, core_key, backfilling, 1000, 0.0)[0]


@numba.njit
def value_in_order(pool: Any, which: int, code: int) -> float:
    borrowed = borrow(pool)
    if which == 0:
        return key_value(borrowed, 0, code)
    if which == 1:
        return order_candidate_key(borrowed, 0, code, codes.JOB_FIRST)
    if which == 2:
        return order_observe._common_column(borrowed, code)
    return order_observe._own_column(borrowed, code, 0)


def first_of(pool: Any) -> Any:
    """Return the arrays of the first environment of a batch."""
    rows = {name: array[0] for name, array in pool._asdict().items() if array.ndim > 1 and name != "templates"}
    return pool._replace(**rows)


# ------------------------------------------------------------------ every table of every setting


def compiled_modules() -> Iterator[Any]:
    """Return the modules of all packages that compile something: those with a module ``jit``."""
    packages = (hdrl.settings, hdrl.compat)
    for found in (
        one for package in packages for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ):
        if found.name.endswith(".jit"):
            package = importlib.import_module(found.name.rpartition(".")[0])
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                yield importlib.import_module(module.name)


def tables_of(modules: Iterator[Any]) -> list[CodeTable]:
    found = [value for module in modules for value in vars(module).values() if isinstance(value, CodeTable)]
    return list({id(table): table for table in found}.values())


TABLES = tables_of(compiled_modules())


def run_on(borrowed: Borrowed[Any], budget: int = 1000) -> None:
    entries.run_pair(borrowed, codes.JOB_FIRST, codes.CORE_FIRST, budget)


def meet_op(borrowed: Borrowed[Any], code: int) -> None:
    entries.advance(borrowed, 1000)
    entries.add_op(borrowed, code, 0, 0, 0, 0.0)
    entries.answer(borrowed)
    entries.advance(borrowed, 1000)


def meet_message(borrowed: Borrowed[Any], code: int) -> None:
    borrowed.arrays.box["kind"][0] = code
    run_on(borrowed)


def meet_event(borrowed: Borrowed[Any], code: int) -> None:
    borrowed.arrays.events["kind"][0] = code
    entries.take_events(borrowed)


def meet_step(borrowed: Borrowed[Any], code: int) -> None:
    borrowed.arrays.steps["kind"] = code
    run_on(borrowed)


def meet_sleep(borrowed: Borrowed[Any], code: int) -> None:
    jobs = borrowed.arrays.jobs
    while jobs["state"][0] != codes.RUNNING:
        run_on(borrowed, budget=1)
    jobs["sleep_kind"] = code
    run_on(borrowed)


def kernel_meets(meet: Callable[[Borrowed[Any], int], None]) -> Callable[[int], None]:
    """Return what lets the kernel, with a job that is a delay, meet a number that it knows, then another."""

    def ask(code: int) -> None:
        for one in (0, code):
            state = small_state()
            borrowed = Borrowed(state._replace(steps=state.steps.copy()))  # environments share them, read-only
            borrowed.arrays.jobs["end_step"] = 1
            borrowed.arrays.steps["kind"], borrowed.arrays.steps["amount"] = codes.STEP_DELAY, 10.0
            entries.begin(borrowed)
            meet(borrowed, one)
            assert one != 0 or borrowed.arrays.scalars["error"][0] != codes.ERROR_UNKNOWN_CODE
        refuse_if_illegal(borrowed.arrays, code)

    return ask


def refuse_if_illegal(state: Any, code: int) -> None:
    s = state.scalars[0]
    if (s["error"], s["error_core"]) == (codes.ERROR_UNKNOWN_CODE, code):
        raise SimulationError(str(code))


def rule_of_kernel(name: str) -> Callable[[int], None]:
    def ask(code: int) -> None:
        borrowed = Borrowed(small_state())
        borrowed.arrays.scalars[name] = code
        entries.begin(borrowed)
        refuse_if_illegal(borrowed.arrays, code)

    return ask


@cache
def pair_batch() -> PolicyPairVectorEnv:
    return PolicyPairVectorEnv(1, platform="learning", workload="learning", void=False)


def watch_of_batch(name: str) -> Callable[[int], None]:
    def ask(code: int) -> None:
        rows = pair_batch()._rows.watches.rows
        known = rows[name].copy()
        rows[name] = code
        try:
            pair_batch().reset(seed=0)
        finally:
            rows[name] = known

    return ask


def run_of_kernel(code: int) -> None:
    borrowed = Borrowed(small_state())
    entries.begin(borrowed)
    assert run(borrowed, codes.JOB_FIRST, codes.CORE_FIRST, code) == codes.ILLEGAL
    refuse_if_illegal(borrowed.arrays, code)


def setting_of_pool(name: str) -> Callable[[int], None]:
    def ask(code: int) -> None:
        pool = smallest_state()
        pool.settings[name] = code
        new_order_state(1, 1, jobs=pool.jobs, templates=pool.templates, settings=pool.settings, columns=pool.columns)

    return ask


@cache
def whole_nodes() -> DissertationVectorEnv:
    return DissertationVectorEnv(1, workload="lublin_gaia_1000", n_nodes=16, n_jobs=20)


def setting_of_nodes(position: int) -> Callable[[int], None]:
    def ask(code: int) -> None:
        env = whole_nodes()
        known = int(env._world.settings[position])
        env._world.settings[position] = code
        try:
            with pytest.raises(SimulationError, match=f"is {code}; expected one of"):
                ask_nodes(dissertation_entries.PLAY, dissertation.BY_F1)
            env.reset(seed=0)
        finally:
            env._world.settings[position] = known

    return ask


def ask_nodes(request: int, order: int) -> None:
    dissertation_entries.SERVED.call(whole_nodes()._borrowed, request, np.ones(1, dtype=bool), np.array([order]))


def order_of_nodes(code: int) -> None:
    with pytest.raises(SimulationError, match=f"the order is {code}; expected one of"):
        ask_nodes(dissertation_entries.GUIDE, code)
    ask_nodes(dissertation_entries.PLAY, code)


CLUSTER = read_cluster("drl-gpu")
LOAD = at_offered_load(Poisson(), 8, CLUSTER, 1.2, seed=4)


def rule_of_gpus(position: int) -> Callable[[int], int]:
    def ask(code: int) -> int:
        policy = read_policy("fifo")
        world = gpu_simulation.new_world(CLUSTER, LOAD, policy, seed=0, rules=Rules(), records=True)
        world.rules[position] = code
        borrowed, one = Borrowed(world), np.zeros(LOAD.n_items)
        gpu_entries.begin(borrowed.addresses)
        assert gpu_entries.place_jobs(borrowed.addresses, one, one.copy()) == UNKNOWN_CODE
        return int(gpu_entries.run(borrowed.addresses, 1000))

    return ask


def shares_of_rounds(code: int) -> int:
    policy = SharePolicy(None, "", code=code)
    state, _ = new_rounds(CLUSTER, LOAD, policy, 0, 360.0, 1920.0, None)
    has_new_shares = False
    return int(gpu_rounds.run(state, has_new_shares))


def env_of_gpus() -> GpuClusterVectorEnv:
    return GpuClusterVectorEnv.of(1, machine=CLUSTER, load=LOAD, n_jobs="all")


def objective_of_gpus(code: int) -> None:
    env = env_of_gpus()
    env._sizes[gpu_codes.OBJECTIVE] = code
    env.reset(seed=0)


def placement_of_gpus(code: int) -> int:
    env = env_of_gpus()
    env._placements[0] = code
    with pytest.raises(SimulationError, match=f"the placement is {code}; expected one of 0, 1"):
        env.reset(seed=0)
    return rule_of_gpus(gpu_codes.PLACEMENT)(code)


def request_to(served: Served[Any], example: Callable[[], Any]) -> Callable[[int], None]:
    """Return what asks a batch for a request."""

    def ask(code: int) -> None:
        served.call(Borrowed(example()), code, np.ones(1, dtype=bool), np.zeros(1, dtype=np.int64))

    return ask


def baseline_of_seconds(code: int) -> None:
    world = seconds.new_seconds(shared_arrays(CLUSTER, frozenset()), 1, 4)
    seconds.SERVED.call(Borrowed(world), seconds.PLAY, np.ones(1, dtype=bool), np.array([code]))


def part_of_pipelines(position: int) -> Callable[[int], Any]:
    def ask(code: int) -> Any:
        policy = [pipeline_codes.BY_DEADLINE, pipeline_codes.ON_ANY, pipeline_codes.SINGLE]
        policy[position] = code
        return pipeline_entries.run_policy(Borrowed(smallest_pipelines()), (policy[0], policy[1], policy[2]))

    return ask


def setting_of_pipelines(name: str) -> Callable[[int], None]:
    def ask(code: int) -> None:
        batch = smallest_pipelines()
        batch.settings[name] = code
        pipeline_entries.begin_one(Borrowed(batch))

    return ask


ASKERS: list[tuple[CodeTable, Callable[[int], Any]]] = [
    (codes.JOB_KEYS, lambda code: value_of_key(small_state(), code)),
    (codes.CORE_KEYS, lambda code: value_of_group(small_state(), code)[0]),
    (codes.EASY, lambda code: value_of_candidate(small_state(), code)),
    (codes.BACKFILLINGS, run_of_kernel),
    (codes.UNCALLED_BACKFILLINGS, lambda code: entries.run_pair(Borrowed(small_state()), 1, 1, 10, code)),
    (codes.OPS, kernel_meets(meet_op)),
    (codes.SERVER_MESSAGES, kernel_meets(meet_message)),
    (codes.EVENTS, kernel_meets(meet_event)),
    (codes.STEPS, kernel_meets(meet_step)),
    (codes.SLEEPS, kernel_meets(meet_sleep)),
    (codes.PREDICTORS, rule_of_kernel("predictor")),
    (codes.NODE_RULES, rule_of_kernel("node_rule")),
    (codes.INDEX_FORMS, rule_of_kernel("index_form")),
    (observe.DETAILS, watch_of_batch("detail")),
    (reward.OBJECTIVES, watch_of_batch("objective")),
    (reward.PAYMENTS, watch_of_batch("instantaneous")),
    (episodes.REQUESTS, request_to(episodes.SERVED, episodes.small_episodes)),
    (codes.ORDER_JOB_KEYS, lambda code: value_in_order(first_of(smallest_state()), 0, code)),
    (codes.ORDER_BACKFILLINGS, setting_of_pool("backfilling")),
    (order_codes.COMMITMENTS, setting_of_pool("commitment")),
    (order_codes.OBJECTIVES, setting_of_pool("objective")),
    (order_codes.COLUMNS, lambda code: value_in_order(first_of(smallest_state()), 2, code)),
    (play_entries.REQUESTS, lambda code: play_entries._run_request(Borrowed(small_play()), code)),
    (order_entries.REQUESTS, request_to(order_entries.SERVED, smallest_state)),
    (dissertation.ORDERS, order_of_nodes),
    (dissertation.SCORES, setting_of_nodes(dissertation.SCORE)),
    (dissertation.REWARDS, setting_of_nodes(dissertation.REWARD)),
    (dissertation_entries.REQUESTS, request_to(dissertation_entries.SERVED, dissertation.smallest_world)),
    (gpu_codes.ORDERS, rule_of_gpus(gpu_codes.ORDER)),
    (gpu_codes.PLACEMENTS, placement_of_gpus),
    (gpu_codes.RULES, rule_of_gpus(gpu_codes.RULE)),
    (gpu_codes.TIES, rule_of_gpus(gpu_codes.TIE)),
    (gpu_rounds.SHARES, shares_of_rounds),
    (acting.OBJECTIVES, objective_of_gpus),
    (acting.REQUESTS, request_to(acting.SERVED, gpu_state.smallest_world)),
    (seconds.REQUESTS, request_to(seconds.SERVED, seconds.smallest_seconds)),
    (seconds.BASELINES, baseline_of_seconds),
    (pipeline_codes.ORDERS, part_of_pipelines(0)),
    (pipeline_codes.PLACEMENTS, part_of_pipelines(1)),
    (pipeline_codes.FUSIONS, part_of_pipelines(2)),
    (pipeline_codes.REWARDS, setting_of_pipelines("reward")),
    (pipeline_codes.OBJECTIVES, setting_of_pipelines("objective")),
    (pipeline_codes.RELEASES, setting_of_pipelines("compatibility")),
    (pipeline_entries.REQUESTS, request_to(pipeline_entries.SERVED, smallest_pipelines)),
]
"""How the compiled code of each table is asked for a number."""


def outside(table: CodeTable) -> list[int]:
    """Return numbers that are not in a table, next to it and far from it."""
    return sorted({-7, min(table) - 1, max(table) + 1, 57, 99, 102} - set(table))


def test_every_table_is_asked() -> None:
    asked = {id(table) for table, _ in ASKERS}
    assert [table.what for table in TABLES if id(table) not in asked] == []
    # Those within functions check one number each, and are made when they do.
    in_modules = [re.findall(r"^[A-Z0-9_, =)]+ = CodeTable\(", path.read_text(), re.M) for path in HDRL.rglob("*.py")]
    assert len(TABLES) == sum(map(len, in_modules)) >= 40


@pytest.mark.parametrize(("table", "ask"), ASKERS, ids=[table.what.replace(" ", "-") for table, _ in ASKERS])
def test_a_number_that_is_in_no_table_is_an_error(table: CodeTable, ask: Callable[[int], Any]) -> None:
    for code in outside(table):
        with pytest.raises(SimulationError, match=rf"the {table.what} is {code}; expected one of"):
            table.check(code)
        try:
            result = ask(code)
        except (SimulationError, ValueError):  # the latter from compiled code that Numba calls
            continue
        assert result is not None, code
        assert result == UNKNOWN_CODE or math.isnan(result), code


def test_the_parts_of_a_policy_of_pipelines_go_together() -> None:
    for policy in ((7, 1, 0), (0, 5, 0), (0, 1, 5), (0, 1, 4), (0, 4, 0)):
        with pytest.raises(SimulationError, match="do not go together"):
            pipeline_entries.run_policy(Borrowed(smallest_pipelines()), policy)


def test_every_room_with_compiled_code_has_tables() -> None:
    rooms = {Path(module.__file__).parent.name for module in compiled_modules()}
    assert {"kernel", "identical_cores", "dissertation"} <= rooms


# ------------------------------------------------------------------ what single tables mean


@pytest.mark.parametrize("key", [codes.JOB_GIVEN, codes.JOB_INDEX])
def test_job_keys_that_need_more_than_a_key(key: int) -> None:
    assert math.isnan(value_of_key(small_state(), key))
    assert math.isnan(value_in_order(first_of(smallest_state()), 0, key))


@pytest.mark.parametrize("key", codes.JOB_KEYS[:-2])
def test_known_job_keys(key: int) -> None:
    assert not math.isnan(value_of_key(small_state(), key))


@pytest.mark.parametrize("which", [4, *OUTSIDE])
def test_attributes(which: int) -> None:
    assert math.isnan(value_of_attribute(small_state(), which))


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        ((NO_JOB_KEY, 1, 0), "job key"),
        ((1, 8, 0), "core key"),
        ((1, 1, 5), "backfilling"),
        ((1, 1, -1), "backfilling"),
    ],
)
def test_policies(policy: tuple[int, int, int], what: str) -> None:
    borrowed = Borrowed(small_state())
    entries.begin(borrowed)
    assert run(borrowed, *policy) == codes.ILLEGAL
    assert borrowed.arrays.scalars["error"][0] == codes.ERROR_UNKNOWN_CODE
    job_key, core_key, backfilling = policy
    for call in (
        lambda: entries.schedule_pair(borrowed, job_key, core_key, backfilling),
        lambda: entries.run_pair(borrowed, job_key, core_key, 10, backfilling),
    ):
        with pytest.raises(SimulationError, match=f"the {what} is {max(policy) if min(policy) >= 0 else -1}; expected"):
            call()


@pytest.mark.parametrize("backfilling", [codes.NO_BACKFILLING, codes.EASY_FCFS, codes.CONSERVATIVE])
def test_an_index_needs_weights_and_easy(backfilling: int) -> None:
    borrowed = Borrowed(small_state())
    entries.begin(borrowed)
    with pytest.raises(SimulationError, match=f"the job key is {codes.JOB_INDEX}, which needs weights and EASY"):
        entries.schedule_pair(borrowed, codes.JOB_INDEX, 1, backfilling)
    if backfilling != codes.CONSERVATIVE:
        assert run(borrowed, codes.JOB_INDEX, 1, backfilling) == codes.ILLEGAL


def test_conservative_backfilling_does_not_run_without_calls() -> None:
    with pytest.raises(SimulationError, match="is 4; expected one of 0, 1, 2, 3"):
        entries.run_pair(Borrowed(small_state()), codes.JOB_FIRST, codes.CORE_RANDOM, 10, codes.CONSERVATIVE)


def test_a_run_of_a_pool_knows_its_keys() -> None:
    with pytest.raises(SimulationError, match=f"the job key is {codes.JOB_GIVEN}; expected one of"):
        run_keys(Borrowed(smallest_state()), [codes.JOB_GIVEN])


def test_no_two_things_in_one_place_have_the_same_number() -> None:
    job_keys = [value for name, value in vars(codes).items() if name.startswith("JOB_") and isinstance(value, int)]
    assert sorted(job_keys) == sorted({*codes.JOB_KEYS, *codes.ORDER_JOB_KEYS})
    backfillings = codes.NO_BACKFILLING, *codes.EASY, codes.CONSERVATIVE, codes.STRICT_FCFS
    assert len(set(backfillings)) == len(backfillings)
    assert {*codes.BACKFILLINGS, *codes.ORDER_BACKFILLINGS} == set(backfillings)
    assert all(len(set(table)) == len(table) for table in TABLES)


@pytest.fixture(scope="module")
def batch() -> Iterator[PolicyPairVectorEnv]:
    env = PolicyPairVectorEnv(1, platform="learning", workload="learning", void=False)
    env.reset(seed=0)
    yield env
    env.close()


@pytest.mark.parametrize(("column", "code"), [(0, codes.JOB_INDEX), (0, NO_JOB_KEY), (1, 8), (2, codes.CONSERVATIVE)])
def test_policies_of_a_batch(batch: PolicyPairVectorEnv, column: int, code: int) -> None:
    batch.reset(seed=0)
    known = batch._rows.watches.pairs[0, column]
    batch._rows.watches.pairs[0, column] = code
    with pytest.raises(SimulationError):
        batch.step(np.zeros(1, dtype=np.int64))
    assert batch._rows.batch.scalars["error"][0, 0] == codes.ERROR_UNKNOWN_CODE
    batch._rows.watches.pairs[0, column] = known
