"""Learning by several workers: real processes beside one, the server's update, the shared replay."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from common.report import Report, arguments, finish

N_ENVS = 64
N_ITERATIONS = 3
N_UPDATES = 200
N_ROUNDS = 5
SPEEDUP_AT_LEAST = 1.7
UPDATE_MS_AT_MOST = 1.0
TRANSITIONS_AT_LEAST = 200_000


def job_pick(n_envs: int) -> Any:
    """Return the batch of `benchmarks/training.py`, whose steps take less time than the network that acts."""
    from hdrl.batch import JobPickVectorEnv

    return JobPickVectorEnv.of(n_envs, n_procs=256, commitment="block", backfilling="none", copy=False)


def policy_pair(n_envs: int) -> Any:
    """Return windows of 1,000 shipped jobs on gaia, all of which is simulated: environments dominate."""
    from hdrl import read_platform, read_workload
    from hdrl.batch import PolicyPairVectorEnv

    platform = read_platform("gaia")
    jobs = read_workload("lublin_gaia_10000", platform)
    arguments = {"n_jobs": 1000, "observation": "normal", "void": False, "copy": False}
    return PolicyPairVectorEnv(n_envs, platform=platform, workload=jobs, **arguments)


WORLDS: dict[str, tuple[Callable[[int], Any], dict[str, Any]]] = {
    "PolicyPair": (policy_pair, {"hidden": [32]}),
    "JobPick": (job_pick, {"network": "kernel"}),
}
"""Environments, and the network that acts in them."""


def team(world: str, n_workers: int, on: str) -> Any:
    """Return workers that hardly learn."""
    from hdrl.agents import make_agent
    from hdrl.distributed.training import DistributedTrainer
    from hdrl.options.distributed import DistributedOptions

    make_envs, settings = WORLDS[world]
    envs = make_envs(1)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = make_agent("a2c", *spaces, n_steps=512, **settings)
    options = DistributedOptions(scheme="sync", workers=n_workers)
    return DistributedTrainer(agent, make_envs, N_ENVS, options, on=on)


def cpu_s(trainer: Any) -> list[float]:
    """Return the processor time that each process of a team has used: this one, servers, then workers."""
    import ray

    group = trainer._team.group  # noqa: SLF001 (no public name leads to the workers)
    times = [one.__ray_call__.remote(_process_time) for one in (*group.servers, *group.workers)]
    return [time.process_time(), *ray.get(times)]


def _process_time(member: Any) -> float:
    del member
    return time.process_time()


def steps_per_s(world: str) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """Return environment steps per second of each round, on Ray, by one worker and by two in turn.

    Returns
    -------
    tuple
        By the wall clock; and by processor time, as if every process had a core to itself: the time of this process
        and of the server, which everybody waits for, and of the worker that takes longest. Where other programs run, or
        there are fewer cores than processes, the second one tells what the first one would.
    """
    trainers = {n: team(world, n, "ray") for n in (1, 2)}
    for trainer in trainers.values():
        trainer.run(1)  # processes start, and load what is compiled
    rates: dict[int, list[float]] = {1: [], 2: []}
    alone: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(N_ROUNDS):
        for n, trainer in trainers.items():
            used_s = cpu_s(trainer)
            before, began_s = trainer.n_steps, time.perf_counter()
            trainer.run(trainer.n_iterations + N_ITERATIONS)
            n_steps = trainer.n_steps - before
            rates[n].append(n_steps / (time.perf_counter() - began_s))
            spent_s = [after - before_s for after, before_s in zip(cpu_s(trainer), used_s, strict=True)]
            alone[n].append(n_steps / (sum(spent_s[:-n]) + max(spent_s[-n:])))
    for n in (2, 1):  # the first has started Ray, and ends it
        trainers[n].close()
    return rates, alone


def update_s() -> list[float]:
    """Return seconds of an update of about 20,000 weights: gradients in, step, weights out."""
    import torch
    from gymnasium import spaces

    from hdrl.agents import make_agent
    from hdrl.distributed.training.server import ParameterServer, parts_of, weights_of

    box = spaces.Box(0.0, 1.0, (90,))
    agent = make_agent("dqn", box, spaces.Discrete(12), hidden=[128, 64])
    weights = weights_of(agent)
    (part,) = parts_of(agent, 1, "agent", "here")
    server = ParameterServer(part, weights)
    gradients = [[torch.randn_like(one) for one in weights] for _ in range(2)]
    seconds = []
    for _ in range(N_UPDATES):
        began_s = time.perf_counter()
        norms, _ = server.take(gradients)
        server.step([norms], 10.0)
        server.weights()
        seconds.append(time.perf_counter() - began_s)
    return seconds


def transitions_per_s() -> list[float]:
    """Return transitions per second that are added by actors and drawn by a learner, each counted once."""
    import torch

    from hdrl.distributed.training.replay import Chunk, SharedReplay
    from hdrl.learn.memory import Outcome
    from hdrl.learn.replay import Schedule

    n_each, n_steps, batch = 64, 16, 512
    replay = SharedReplay(
        4,
        n_each,
        capacity=131_072,
        batch_size=batch,
        gamma=0.99,
        generator=torch.Generator(),
        n_steps=3,
        alpha=0.6,
        beta=Schedule(0.4, 1.0, 1000),
    )
    no = torch.zeros(n_each, dtype=torch.bool)
    seen, actions = torch.rand((n_each, 10)), torch.zeros(n_each, dtype=torch.int64)
    outcome = Outcome(torch.rand(n_each), no, no, ~no, None)
    rates = []
    for _ in range(N_ROUNDS):
        began_s, n = time.perf_counter(), 0
        for k in range(40):
            chunk = Chunk(k % 4, ((seen, None, actions),) * n_steps, (outcome,) * n_steps)
            replay.add(chunk)
            drawn = [replay.sample() for _ in range(2)]
            for one in drawn:
                one.errors = torch.rand(batch)
                replay.after_learning(one)
            n += n_each * n_steps + 2 * batch
        rates.append(n / (time.perf_counter() - began_s))
    return rates


def main() -> None:
    """Measure and show."""
    import torch

    report_options = arguments(__doc__)
    torch.set_num_threads(1)
    report = Report("Learning by several workers")
    report.add(
        "update of 20,000 weights by a server", [1000 * one for one in update_s()], "ms", at_most=UPDATE_MS_AT_MOST
    )
    report.add("shared replay, added and drawn", transitions_per_s(), "/s", at_least=TRANSITIONS_AT_LEAST)
    for world in WORLDS:
        # The target is for environments that dominate.
        at_least = SPEEDUP_AT_LEAST if world == "PolicyPair" else None
        for rates, clock in zip(steps_per_s(world), ("wall clock", "processor time"), strict=True):
            one, two = rates[1], rates[2]
            report.add(f"{world}: environment steps, one process, {clock}", one, "/s")
            ratios = [b / a for a, b in zip(one, two, strict=True)]
            report.add(f"{world}: environment steps, two processes, {clock}", two, "/s")
            report.add(
                f"{world}: two processes beside one, {clock}", [statistics.median(ratios)], "x", at_least=at_least
            )
    finish(report, report_options)


if __name__ == "__main__":
    main()
