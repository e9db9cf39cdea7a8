"""Playing a model of JobPick beside a heuristic on the same windows: in compiled code, and decision by decision.

Jobs are of the Lublin-Feitelson model with users and Tsafrir's estimates, on 256 processors at load 0.9; with
``python benchmarks/playing.py LOG PROCESSORS`` they are those of a log. The networks have their first weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from common.inputs import log_or_generated
from common.measure import compile_first, ratio_of_medians, time_in_turn
from common.report import Report, arguments, finish

if TYPE_CHECKING:
    from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer

N_JOBS, N_WINDOWS, N_ROUNDS, N_PROCS = 1024, 4, 5, 256
AT_MOST = 5.0
"""How many times as long as a heuristic a model may take."""

CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "network kernel, easy_priority, index": (
        *("saf+easy_priority@geo", "kernel"),
        {"backfilling": "easy_priority", "features": ["index", "backlog"]},
    ),
    "network kernel, as ppo-generalist's": (
        *("saf+easy_priority@geo", "kernel"),
        {
            "backfilling": "easy_priority",
            "may_hold": True,
            "max_jobs": 64,
            "order": "saf",
            "features": ["index", "backlog", "free_processors", "earliest_start", "is_chosen"],
            "scaled_columns": False,
        },
    ),
    "network mlp": ("sjf+easy", "mlp", {}),
    "network kernel": ("sjf+easy", "kernel", {}),
}


def play_in_python(env: JobPickPlayer, agent: Any) -> None:
    """Play an episode with the best actions, decision by decision."""
    import torch

    from hdrl.learn.evaluate import batch_of_one

    observation, info = env.reset(seed=0)
    has_ended = False
    with torch.no_grad():
        while not has_ended:
            chosen = agent.act(*batch_of_one(observation, info["action_mask"]), explore=False)
            observation, _, has_ended, _, info = env.step(int(chosen.actions[0]))


def measure(report: Report, log: str | None, n_procs: int) -> None:
    """Measure each case beside its heuristic."""
    import numpy as np

    from hdrl.agents.ppo import PPO
    from hdrl.learn.evaluate import play
    from hdrl.settings.batch.envs.job_pick_player import JobPickPlayer
    from hdrl.settings.batch.platform import read_platform
    from hdrl.settings.batch.policies import simulate

    platform = read_platform(f"homogeneous:{n_procs}")
    workload = log_or_generated(log, platform)
    starts = np.linspace(0, workload.n_jobs - N_JOBS, N_WINDOWS).astype(int).tolist()
    windows = [workload.window(start, N_JOBS) for start in starts]
    for name, (heuristic, network, options) in CASES.items():
        envs = [JobPickPlayer(platform=platform, workload=one, energy=False, **options) for one in windows]
        agent = PPO(envs[0].observation_space, envs[0].layout.action_space, PPO.Config(network=network))

        def simulate_all(heuristic: str = heuristic) -> None:
            for one in windows:
                simulate(platform, one, heuristic, energy=False)

        def play_all(agent: PPO = agent, envs: list[JobPickPlayer] = envs) -> None:
            for env in envs:
                play(agent, env, seed=0)

        simulate_all()
        play_all()
        n_decisions = sum(env.trace().n_decisions for env in envs)
        seconds = time_in_turn({"heuristic": simulate_all, "model": play_all}, N_ROUNDS)
        report.add(f"{heuristic}, {N_WINDOWS} windows of {N_JOBS:,} jobs", seconds["heuristic"])
        report.add(f"{name}, the same, {n_decisions:,} decisions", seconds["model"])
        ratio = ratio_of_medians(seconds["model"], seconds["heuristic"])
        report.add(f"{name}: model beside heuristic", [ratio], "x", at_most=AT_MOST)
    plain = time_in_turn({"plain": lambda: play_in_python(envs[0], agent)}, 1)["plain"]
    quick = time_in_turn({"compiled": lambda: play(agent, envs[0], seed=0)}, N_ROUNDS)["compiled"]
    faster = f"{ratio_of_medians(plain, quick):.0f} x as long as in compiled code"
    report.add(f"{name}, one window decision by decision", plain, ratio=faster)


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__, rest="LOG PROCESSORS")
    log, n_procs = (*report_options.rest, None, None)[:2]
    on = f"of {Path(log).name}" if log else f"of {N_JOBS:,} jobs on {N_PROCS} processors"
    report = Report(f"Models of JobPick beside heuristics, {N_WINDOWS} {'' if log else 'generated '}windows {on}")
    compile_first()
    measure(report, log, int(n_procs or N_PROCS))
    finish(report, report_options)


if __name__ == "__main__":
    main()
