"""A setting in one file: jobs with exponential gaps and service times on c equal servers, the M/M/c queue."""

import heapq

import numpy as np

from hdrl.base.errors import OptionsError
from hdrl.base.seeding import stream
from hdrl.envs import PickEnv, PickSpec, follow
from hdrl.metrics import TASK_METRICS, UNRUN, with_roles
from hdrl.options import ExperimentOptions, SettingSweep
from hdrl.setting import Inputs, LoadGenerator, Measures, PolicyBook, RunView, Setting, Simulator
from hdrl.trace import PlainLoad, PlainMachine, TaskTrace, trace_of_runs

JOB = np.dtype([("release_s", np.float64), ("requested_s", np.float64)])

POLICIES = {
    "fcfs": lambda load, waiting: 0,
    "lcfs": lambda load, waiting: len(waiting) - 1,
    "shortest": lambda load, waiting: int(np.argmin(load.items["requested_s"][waiting])),
}


def poisson(machine, n_items, offered, seed):
    """Return a Poisson stream of jobs of 1 s in the mean that keeps a share of the servers busy."""
    random, jobs = stream(seed, "mmc"), np.zeros(n_items, JOB)
    jobs["release_s"] = np.cumsum(random.exponential(1 / (offered * machine.n_units), n_items))
    jobs["requested_s"] = random.exponential(1.0, n_items)
    return PlainLoad(f"poisson:{offered:g}", jobs, {"load": offered})


def decisions(machine, load):
    """Yield the waiting jobs whenever one of them can start, take the place of one, return what happened."""
    release_s, work_s = load.items["release_s"], load.items["requested_s"]
    start_s, unit = np.zeros(load.n_items), np.zeros(load.n_items, np.int32)
    free, waiting, n_decisions = [(0.0, number) for number in range(machine.n_units)], [], 0
    next_job = 0
    for _ in range(load.n_items):
        now_s, server = heapq.heappop(free)
        now_s = now_s if waiting else max(now_s, release_s[next_job])
        while next_job < load.n_items and release_s[next_job] <= now_s:
            waiting.append(next_job)
            next_job += 1
        n_decisions += len(waiting) > 1
        job = waiting.pop((yield waiting) if len(waiting) > 1 else 0)
        start_s[job], unit[job] = now_s, server
        heapq.heappush(free, (now_s + work_s[job], server))
    return trace_of_runs(machine, load, start_s, start_s + work_s, unit, n_decisions)


class QueueInputs(
    Inputs[ExperimentOptions, SettingSweep, PlainMachine, PlainLoad],
    LoadGenerator[SettingSweep, PlainMachine, PlainLoad],
):
    """Servers, and Poisson streams for them."""

    Options, Sweep, generator = ExperimentOptions, SettingSweep, "poisson"

    def machine(self, options):
        kind, _, number = options.platform.partition(":")
        if kind != "servers" or not number.isdigit() or int(number) < 1:
            raise OptionsError(f"{options.where}: platform is {options.platform!r}, expected servers:<number>")
        return PlainMachine(options.platform, {"server": int(number)})

    def shipped_machines(self):
        return {"servers:2": "two of them"}

    def load(self, options, machine):
        return self._stream(options, options.workload, machine)

    def loads(self, sweep, machine):
        return [self._stream(sweep, text, machine) for text in sweep.workloads]

    def generate(self, sweep, machine, n_items, *, offered_load, seed):
        return poisson(machine, n_items, offered_load, seed)

    def offered_load(self, machine, load):
        span_s = np.ptp(load.items["release_s"])
        return float(load.items["requested_s"].sum() / (span_s * machine.n_units)) if span_s else None

    def _stream(self, options, text, machine):
        kind, _, number = text.partition(":")
        if kind != "poisson" or not number.replace(".", "", 1).isdigit() or not float(number) > 0:
            raise OptionsError(f"{options.where}: workload is {text!r}, expected poisson:<offered load>")
        return poisson(machine, options.nb_jobs or 1000, float(number), options.seed)


class QueueSimulator(Simulator[ExperimentOptions, SettingSweep, PlainMachine, PlainLoad, TaskTrace]):
    """The queue under a discipline."""

    def simulate(self, machine, load, policy, *, seed, **more):
        choose = POLICIES.get(policy, policy)
        return follow(decisions(machine, load), lambda waiting: choose(load, waiting))


class Disciplines(PolicyBook):
    """Who is next."""

    default_baseline = "fcfs"

    def names(self):
        return tuple(POLICIES)

    def groups(self):
        return {"heuristics": ("fcfs", "lcfs")}

    def from_module(self, module, path, suffix):
        return getattr(module, "pick", None)

    def draws(self, policy):
        return False

    def uses_hidden_information(self, policy):
        return policy == "shortest"


class Picks(PickEnv[PlainMachine, PlainLoad, TaskTrace]):
    """Pick one of the first eight waiting jobs; the return is minus the mean wait."""

    n_features, objective = 2, "mean_wait_s"
    decisions = staticmethod(decisions)

    def features(self, load, items):
        return [(1.0, load.items["requested_s"][job]) for job in items]


SETTING = Setting(
    name="mmc",
    title="an M/M/c queue",
    inputs=QueueInputs(),
    simulator=QueueSimulator(),
    policies=Disciplines(),
    measures=Measures(
        with_roles(
            TASK_METRICS,
            compared=("mean_wait_s", "max_wait_s", "utilization"),
            shown=("n_jobs", "mean_wait_s", "utilization", *UNRUN),
        )
    ),
    view=RunView("server"),
    environments={"picks": PickSpec("toy/Mmc-v0", Picks)},
)
