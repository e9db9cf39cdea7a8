"""torch's own way to average gradients over processes, as an outside check of ours."""

import datetime
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional


class Values(nn.Module):
    """Values of actions, by a forward pass, which is what DDP listens to."""

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = [agent]  # no module of ours
        self.network = agent.network

    def forward(self, observations: Any) -> Any:
        return self.agent[0].action_values(self.network, observations, None)


def gradients_of(rank: int, n: int, folder: str, agent: Any, batch: Any) -> list[Any]:
    """Return the averaged gradients as DDP leaves them in process ``rank``."""
    store = distributed.FileStore(str(Path(folder) / "store"), n)
    wait = datetime.timedelta(seconds=60)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=n, timeout=wait)
    try:
        # A bias that cancels out of the advantages' own mean has no gradient, and one network is without a critic.
        wrapped = nn.parallel.DistributedDataParallel(Values(agent), find_unused_parameters=True)
        with torch.no_grad():
            judged = agent.action_values(agent.target, batch["next_observations"], None).amax(-1)
        values = wrapped(batch["observations"]).gather(1, batch["actions"][:, None]).squeeze(1)
        errors = functional.smooth_l1_loss(values, batch["returns"] + batch["discounts"] * judged, reduction="none")
        (batch["weights"] * errors).mean().backward()
        return [p.grad for p in agent.network.parameters()]
    finally:
        distributed.destroy_process_group()


def work(rank: int, n: int, folder: str, state: Any, batch: Any) -> None:
    """Be one of the processes."""
    import teams

    torch.set_num_threads(1)
    agent = teams.agent("d3qn", is_double=False)
    agent.load_state_dict(state)
    gradients_of(rank, n, folder, agent, batch)
