"""Learning speed of a device: DDPG on Pendulum, with the settings of a published comparison of devices.

The unit is steps of the environment per second, each with one update of actor and critic. Networks are small and
batches, too, so that what is measured is mostly how long it takes to start work on a device; that is the point: agents
of schedulers are as small.

Source of settings and published numbers: LANNDS18/DeepRLScheduler, speed test of the dissertation of 2023.
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hdrl.base.errors import OptionsError

if TYPE_CHECKING:
    from hdrl.agents.ddpg import DDPG

SETTINGS: dict[str, Any] = {
    "hidden": (512, 256, 64, 32),
    "lr": 1e-3,
    "tau": 0.01,
    "batch_size": 64,
    "capacity": 10**6,
    "gamma": 0.99,
    "noise": 0.1,
}
ENVIRONMENT = "Pendulum-v1"
EPISODE = 200
"""Steps of an episode, and of a window in which the rate is taken."""

EVALUATE_EVERY, N_EVALUATIONS = 2000, 3
STOP_RETURN = -300.0
MAX_STEPS, MAX_MINUTES = 400_000, 120.0
"""The whole protocol: it ends at a return of -300, or with these limits."""

PUBLISHED = {
    "Cirrus, CPU": (34.0, "cpu"),
    "ARCHER2, CPU": (90.0, "cpu"),
    "Apple M1, CPU": (296.0, "cpu"),
    "Cirrus, V100": (198.0, "cuda"),
    "Apple M1, Metal": (58.0, "mps"),
}
"""Steps per second that were published, and the kind of device."""


@dataclass(frozen=True, slots=True)
class DeviceSpeed:
    """Learning speed of a device."""

    # kind of device, and what it calls itself
    device: str
    name: str
    n_steps: int
    mean_per_s: float  # steps per second from the first to the last, evaluations left out
    steady_per_s: float  # median over the windows of the second half
    spread_per_s: float  # standard deviation over these windows
    best_return: float | None  # best mean return of an evaluation; ``None`` without any


def measure_device(
    device: str,
    *,
    max_steps: int = 6000,
    seed: int = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> DeviceSpeed:
    """Learn on a device and say how fast that went.

    It ends at a return of `STOP_RETURN`, after ``max_steps``, or after `MAX_MINUTES`.
    """
    from hdrl.learn.device import available_devices

    found = available_devices()
    if device not in found:
        raise OptionsError(f"device {device!r}: torch finds {', '.join(found)} here")
    import gymnasium

    from hdrl.agents.ddpg import DDPG, DDPGConfig

    env = gymnasium.make(ENVIRONMENT)
    agent = DDPG(env.observation_space, env.action_space, DDPGConfig(**SETTINGS), seed=seed, device=device)
    judge = gymnasium.make(ENVIRONMENT)
    began_s, rates, spent_s, n_steps = clock(), [], 0.0, 0
    best: float | None = None
    while n_steps < max_steps and clock() - began_s < 60.0 * MAX_MINUTES:
        from_s = clock()
        _episode(agent, env, seed + n_steps)
        _wait_for(device)
        n_steps += EPISODE
        spent_s += clock() - from_s
        rates.append(EPISODE / max(clock() - from_s, 1e-9))
        if n_steps % EVALUATE_EVERY == 0:
            mean = statistics.fmean(_return(agent, judge, seed + k) for k in range(N_EVALUATIONS))
            best = mean if best is None else max(best, mean)
            if mean >= STOP_RETURN:
                break
    steady = rates[len(rates) // 2 :]
    return DeviceSpeed(
        device,
        _name_of(device),
        n_steps,
        n_steps / spent_s,
        statistics.median(steady),
        statistics.stdev(steady) if len(steady) > 1 else 0.0,
        best,
    )


def compared(speeds: Sequence[DeviceSpeed]) -> list[tuple[str, str, float]]:
    """Return measured and published speeds: kind of device, name, steps per second; fastest first."""
    ours = [(one.device, one.name, one.steady_per_s) for one in speeds]
    theirs = [(kind, f"{name} (published)", rate) for name, (rate, kind) in PUBLISHED.items()]
    return sorted([*ours, *theirs], key=lambda row: -row[2])


def _episode(agent: DDPG, env: Any, seed: int) -> None:
    """Play an episode and learn at each of its steps."""
    from hdrl.agents.ddpg import Transition

    observation, _ = env.reset(seed=seed)
    for _ in range(EPISODE):
        action = agent.act(observation, explore=True)
        after, reward, terminated, _, _ = env.step(action)
        agent.remember(Transition(observation, action, float(reward), after, bool(terminated)))
        agent.learn()
        observation = after


def _return(agent: DDPG, env: Any, seed: int) -> float:
    observation, _ = env.reset(seed=1_000_000 + seed)
    total = 0.0
    for _ in range(EPISODE):
        observation, reward, _, _, _ = env.step(agent.act(observation, explore=False))
        total += float(reward)
    return total


def _wait_for(device: str) -> None:
    """Wait until a device has finished its work, which runs asynchronously."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def _name_of(device: str) -> str:
    import torch

    if device == "cuda":
        return str(torch.cuda.get_device_name())
    if device == "mps":
        return "Apple GPU"
    n_threads = torch.get_num_threads()
    return f"{platform.machine()}, {n_threads} thread{'' if n_threads == 1 else 's'}"
