"""An agent for each configuration of periods: how time grows with configurations k^N, simulations S and epochs E."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
from common.report import Report, arguments, finish

N_WORKERS = 4
N_ENVS = 8
SIZES = (4, 8, 16, 32)
VISITS = (1, 2, 4)
EPOCHS = (1, 2, 4)
EXPONENT_OFF_BY_AT_MOST = {"processor time": 0.25, "virtual time": 0.01}
"""How far the exponent of a growth may be from 1: environments are made and compiled code is loaded at any size."""


def configurations(n: int) -> list[Any]:
    """Return n configurations of five generated pipelines with two periods each, as loads."""
    from hdrl.base.seeding import stream
    from hdrl.settings.pipelines.inputs import load_of
    from hdrl.settings.pipelines.loads.generate import PipelineModel, generate
    from hdrl.settings.pipelines.loads.releases import Context

    model = PipelineModel(n_pipelines=5, utilization=0.6, periods_ms=(60.0, 80.0, 100.0))
    found = generate(model, stream(1, "benchmark"))
    choices = [(one, 3 * one // 2) for (one,) in found.periods_us]
    periods = itertools.islice(itertools.product(*choices), n)
    return [load_of(found, [Context(tuple(one), 1_000_000)]) for one in periods]


def trained(n: int, visit: int, n_epochs: int, allotment: str) -> tuple[float, float, int]:
    """Train, and return processor time, virtual time, and decisions.

    Parameters
    ----------
    n, visit, n_epochs
        Configurations, iterations of a visit to each, visits to each.
    allotment
        How the work is shared.
    """
    from hdrl.agents import make_agent
    from hdrl.distributed.training import ConfigurationTrainer
    from hdrl.options.distributed import DistributedOptions
    from hdrl.settings.pipelines.envs.env import PipelinesVectorEnv

    loads = configurations(n)

    def make_envs(n_envs: int, share: tuple[int, int] | None = None) -> Any:
        chosen = loads if share is None else [loads[share[0]]]
        return PipelinesVectorEnv(n_envs, load=chosen, max_ready=1, n_depths=4, copy=False)

    envs = make_envs(1)
    agent = make_agent(
        "dqn",
        envs.single_observation_space,
        envs.single_action_space,
        **{"warm_up": 32, "batch_size": 32, "capacity": 512, "updates_per_iteration": 8},
    )
    envs.close()
    given = {"scheme": "sync", "workers": N_WORKERS, "reliance": "none", "visit_iterations": visit}
    options = DistributedOptions.model_validate({**given, "allotment": allotment})
    trainer = ConfigurationTrainer(agent, make_envs, N_ENVS, options, [(float(k),) for k in range(n)])
    told: list[Any] = []
    began_s = time.process_time()
    trainer.run(n * visit * n_epochs, on_iteration=told.append)
    spent_s = time.process_time() - began_s
    trainer.close()
    return spent_s, told[-1].losses["virtual_time_s"], told[-1].n_steps


def exponent(sizes: tuple[int, ...], values: list[float]) -> float:
    """Return by which power of the size values grow: the slope of a line through their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    """Measure and show."""
    import torch

    report_options = arguments(__doc__)
    torch.set_num_threads(1)
    report = Report("An agent for each configuration: k^N configurations, S simulations of each, E epochs")
    trained(4, 1, 1, "simulations")  # compiles
    factors = {
        "k^N": (SIZES, lambda size: (size, 1, 1)),
        "S": (VISITS, lambda size: (8, size, 1)),
        "E": (EPOCHS, lambda size: (8, 1, size)),
    }
    for allotment in ("simulations", "configurations"):
        for name, (sizes, given) in factors.items():
            found = [trained(*given(size), allotment) for size in sizes]
            shown = ", ".join(map(str, sizes))
            for what, unit, k in (("processor time", "s", 0), ("virtual time", "s", 1)):
                values = [one[k] for one in found]
                power = exponent(sizes, values)
                note = f"~ {name}^{power:.2f}: " + ", ".join(f"{one:.3g}" for one in values)
                report.add(f"{allotment}, {name} {shown}: {what} of the last", [values[-1]], unit, ratio=note)
                report.add(
                    f"{allotment}, {name}: exponent of {what}, off 1 by",
                    [abs(power - 1.0)],
                    "",
                    at_most=EXPONENT_OFF_BY_AT_MOST[what],
                )
    finish(report, report_options)


if __name__ == "__main__":
    main()
