"""The networks of a dissertation on scheduling by PPO: each job, alone or beside the others, and the whole cluster.

LANNDS18/DeepRLScheduler, ``hpc_rl_simulator/agent/models.py`` (2023).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hdrl.base.errors import LearningError
from hdrl.learn import portable
from hdrl.learn.masking import ILLEGAL, mask_logits
from hdrl.learn.networks.attention import attended
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, linear, mlp, through
from hdrl.learn.networks.rows import Rows, rows_of

N_FEATURES = 10
"""Numbers of a row, of the encoded cluster, and of what both networks end with before their last layer."""

KERNEL_LAYERS = (64, 32, 16, N_FEATURES)

ATTENTION_WIDTH, ATTENTION_HEADS = 32, 4
AFTER_ATTENTION = (16, N_FEATURES)

CRITICS = {
    "small": (64, 32, 16, 8, N_FEATURES),
    "deep": (64, 32, 32, 32, 32, N_FEATURES),
    "large": (128, 128, 128, 128, N_FEATURES),
}
"""Layers of the critics by name."""


class JobAttention(nn.Module):
    """Jobs that look at each other: queries, keys and values by a layer each, then attention with several heads.

    Its program let each job look at those in the same row of other observations of the batch (``batch_first`` is not
    set there); here jobs look at those of their own observation.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        # The name stands in files of trained models.
        self.asks = nn.ModuleList(
            mlp((2 * N_FEATURES, ATTENTION_WIDTH), generator, is_open=True) for _ in ("queries", "keys", "values")
        )
        # As torch.nn.MultiheadAttention has them: a layer each before the heads, one behind them.
        self.projects = nn.ModuleList(
            linear(ATTENTION_WIDTH, ATTENTION_WIDTH, generator, 1.0) for _ in ("queries", "keys", "values")
        )
        self.merge = linear(ATTENTION_WIDTH, ATTENTION_WIDTH, generator, 1.0)
        self.after = mlp((ATTENTION_WIDTH, *AFTER_ATTENTION), generator, is_open=True)

    def forward(self, rows: Rows) -> Tensor:
        """Return ten numbers for each row of 20, shape ``(n, n_rows, 10)``, with 0 for empty rows."""
        pairs: list[tuple[Any, Any]] = list(zip(self.asks, self.projects, strict=True))
        parts = [through(project, rows.of(ask.through(rows, 0.0)), 0.0) for ask, project in pairs]
        mixed = attended(torch.cat(parts, -1), rows, ATTENTION_HEADS)
        return self.after.through(rows.of(through(self.merge, rows.of(mixed), 0.0)), 0.0)


class DissertationActorCritic(ActorCritic):
    """An actor gives each row a logit, from the rows and from a linear code of the nodes; a critic reads everything.

    ========  ================================  ==========================================  =========
    part      input                             layers                                      output
    ========  ================================  ==========================================  =========
    code      a number for each node            10, without activation                      ten numbers
    actor     a row of ten, and that code       64, 32, 16, 10, the same for all rows; 1    its logit
    or        the same                          `JobAttention`: 32 (4 heads), 16, 10; 1     its logit
    critic    all rows and all nodes            one of `CRITICS`, the last without
                                                activation; 1                               the value
    ========  ================================  ==========================================  =========

    - ``observation_shape``: ``(10 * n_actions + n_nodes,)``: the rows one after the other, then the nodes.
    - ``has_attention``: whether the actor looks at each job beside the others.
    """

    is_portable = True
    is_parted = True

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        *,
        critic: str = "small",
        has_attention: bool = False,
        has_critic: bool = True,
    ) -> None:
        super().__init__()
        n_nodes = observation_shape[0] - N_FEATURES * n_actions
        if len(observation_shape) != 1 or n_nodes < 1:
            name = "attention" if has_attention else critic
            raise LearningError(
                f"network 'dissertation_{name}' needs observations of ten numbers for each of {n_actions} actions and"
                f" some more for nodes, as JobPick with compatibility 'dissertation' gives them;"
                f" found shape {observation_shape}"
            )
        self.has_critic, self.n_rows = has_critic, n_actions
        self.code = mlp((n_nodes, N_FEATURES), generator)
        self.kernel = mlp((2 * N_FEATURES,), generator)
        self.attention: JobAttention | None = None
        if has_attention:
            self.attention = JobAttention(generator)
        else:
            self.kernel = mlp((2 * N_FEATURES, *KERNEL_LAYERS), generator, is_open=True)
        self.head = linear(N_FEATURES, 1, generator, POLICY_GAIN)
        self.critic = nn.Sequential()
        if has_critic:
            body = mlp((*observation_shape, *CRITICS[critic]), generator)
            self.critic = nn.Sequential(body, linear(N_FEATURES, 1, generator, VALUE_GAIN))

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a logit for each row."""
        n_seen = self.n_rows * N_FEATURES
        rows = observations[:, :n_seen].reshape(-1, self.n_rows, N_FEATURES)
        code = portable.expand(self.code(observations[:, n_seen:]).unsqueeze(1), -1, self.n_rows, -1)
        rows = torch.cat([rows, code], dim=-1)
        seen = rows_of(rows, mask)
        numbers = self.kernel.through(seen, 0.0) if self.attention is None else self.attention(seen)
        return mask_logits(through(self.head, seen.of(numbers), ILLEGAL).squeeze(-1), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the value of each observation."""
        del mask
        values: Tensor = self.critic(observations).squeeze(-1)
        return values

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the critic."""
        return list(self.critic.parameters())
