"""One process of a training by torch's DistributedDataParallel; the test starts several: ddp.py RANK N FOLDER."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import teams
import torch
from torch import distributed, nn

from hdrl.distributed.training.sharing import shared_config
from hdrl.distributed.training.worker import WorkerPlan
from hdrl.learn import Trainer
from hdrl.options.distributed import DistributedOptions

N_ENVS = 4
N_ITERATIONS = 4


class Asked(nn.Module):
    """A network whose answers with a gradient go through `forward`, where DistributedDataParallel sees them."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, question: str, *arguments: Any) -> Any:
        return getattr(self.network, question)(*arguments)


class Watched:
    """Stands where an agent has its network."""

    is_parted = False  # actor and critic are asked at once, through `both`

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._parallel = nn.parallel.DistributedDataParallel(Asked(network))

    def both(self, *arguments: Any) -> Any:
        # Acting and judging need no gradient, and are not done equally often everywhere.
        return self._parallel("both", *arguments) if torch.is_grad_enabled() else self._network.both(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)


def worker(name: str, number: int, n: int) -> Trainer:
    """Return what worker `number` of n is in the scheme sync, but that it learns by itself."""
    agent = teams.agent(name)
    options = DistributedOptions(scheme="sync", workers=n)
    plan = WorkerPlan(
        type(agent),
        shared_config(agent.config, options, "test"),
        (agent.observation_space, agent.action_space),
        teams.make_envs,
        N_ENVS // n,
        seed=1,
        first=agent.state_dict(),
        number=number,
    )
    return Trainer(plan.agent(), plan.make_envs(plan.n_envs), seed=plan.env_seed(), n_threads=1)


def weights(trainer: Any) -> list[torch.Tensor]:
    return [one.detach() for module in trainer.agent.modules.values() for one in module.parameters()]


def main(number: int, n: int, folder: Path) -> NoReturn:
    torch.set_num_threads(1)
    store = distributed.FileStore(str(folder / "store"), n)
    distributed.init_process_group("gloo", store=store, rank=number, world_size=n)
    for name in teams.SETTINGS:
        trainer = worker(name, number, n)
        trainer.agent.network = Watched(trainer.agent.network)
        trainer.run(N_ITERATIONS)
        torch.save(weights(trainer), folder / f"{name}_{number}.pt")
    # A group of processes that torch takes down waits, holding the interpreter's lock, for a thread of gloo that may
    # wait for that lock: one process in some fifteen never ended. Everything is written, so nothing is taken down.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
