"""The per-job kernel of RLScheduler: one small network, applied to each job alike; or one with other layers.

Zhang et al., "RLScheduler: an automated HPC batch job scheduler using reinforcement learning", SC 2020.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from hdrl.base.plainnet import PlainActor
from hdrl.learn.config import Activation
from hdrl.learn.masking import ILLEGAL, mask_logits
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, mlp, plain_layers
from hdrl.learn.networks.rows import Rows, rows_at, rows_of, table_shape

ROW_LAYERS = (32, 16, 8)
CRITIC_LAYERS = (64, 32, 8, 1)


class KernelActorCritic(ActorCritic):
    """One network gives each job a logit; another gives each job a number, from which the value comes.

    With the layers of RLScheduler:

    ========  =========================  =============================================  ==========
    part      input                      layers                                         output
    ========  =========================  =============================================  ==========
    actor     a row of ``n_features``    32, 16, 8, 1, the same for all rows            its logit
    critic    a row of ``n_features``    32, 16, 8, 1, the same for all rows            a number
    ..        ``n_rows`` such numbers    64, 32, 8, 1                                   the value
    ========  =========================  =============================================  ==========

    With several atoms, the last layers have as many outputs. With 8 features the actor has 961 weights. Rows that hold
    no job are not computed: their logits are impossible, and they count as 0 to the critic (RLScheduler sends a fixed
    padding row through its critic instead, a constant that the next layer can learn away). Where there are more actions
    than rows, the logits of the others (for instance "wait") come from a linear layer over the mean of the rows' last
    hidden layer.

    Parameters
    ----------
    generator
        Source of the first weights.
    sees_all_rows
        True if rows whose actions are illegal are looked at as well.
    n_per_row
        Number of actions of each row; a row's last hidden layer gives the logits of all of them.
    hidden
        Units of the hidden layers that each row passes, at least one.
    """

    is_portable = True
    is_parted = True

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        *,
        has_critic: bool = True,
        sees_all_rows: bool = False,
        n_atoms: int = 1,
        n_per_row: int = 1,
        hidden: tuple[int, ...] = ROW_LAYERS,
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        n_rows, n_features, n_extra = table_shape(observation_shape, n_actions, "kernel", n_per_row)
        sizes = (n_features, *hidden)
        self.n_per_row = n_per_row
        self.has_critic, self.n_atoms = has_critic, n_atoms
        self.sees_all_rows = sees_all_rows
        self.n_extra = n_extra
        self.actor_body = mlp(sizes, generator, activation, is_open=True)
        self.actor_head = mlp((sizes[-1], n_per_row * n_atoms), generator, activation, last_gain=POLICY_GAIN)
        self.actor_extra = mlp((sizes[-1], n_extra * n_atoms), generator, last_gain=POLICY_GAIN) if n_extra else None
        self.critic_rows = mlp((n_features,), generator)
        self.critic_head = mlp((n_rows,), generator)
        if has_critic:
            self.critic_rows = mlp((*sizes, 1), generator, activation, last_gain=VALUE_GAIN)
            self.critic_head = mlp((n_rows, *CRITIC_LAYERS[:-1], n_atoms), generator, last_gain=VALUE_GAIN)

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a logit for each row."""
        return self._logits(self._rows(observations, mask), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the value of each observation."""
        return self._values(self._rows(observations, mask))

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return both, collecting the rows once."""
        rows = self._rows(observations, mask)
        return self._logits(rows, mask), self._values(rows)

    def apart(
        self, observations: Tensor, mask: Tensor | None, index: Tensor
    ) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
        """Return functions that compute both apart, from rows that stay where they are."""
        rows = rows_at(observations, None if self.sees_all_rows else mask, index)
        legal = mask.index_select(0, index) if mask is not None and self._looks_at_mask else None
        return partial(self._logits, rows, legal), partial(self._values, rows)

    def plain_actor(self) -> PlainActor | None:
        """Return the actor in plain numbers."""
        if self.n_atoms != 1:
            return None
        layers = plain_layers([*self.actor_body, *self.actor_head])
        extra = None if self.actor_extra is None else plain_layers([*self.actor_extra])
        return (
            None if layers is None else PlainActor(layers, by_rows=True, extra=extra, sees_all_rows=self.sees_all_rows)
        )

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the critic."""
        return [*self.critic_rows.parameters(), *self.critic_head.parameters()]

    @property
    def _looks_at_mask(self) -> bool:
        """True if logits of illegal actions may be computed."""
        return self.sees_all_rows or self.n_per_row > 1 or self.actor_extra is not None

    def _rows(self, observations: Tensor, mask: Tensor | None) -> Rows:
        return rows_of(observations, None if self.sees_all_rows else mask)

    def _logits(self, rows: Rows, mask: Tensor | None) -> Tensor:
        if self.actor_extra is None:
            of_rows = self.actor_body.through(rows, ILLEGAL, self.actor_head)
        else:
            hidden = self.actor_body.through(rows, 0.0)
            of_rows = self.actor_head.through(rows.of(hidden), ILLEGAL)
        parts = [self.without_axis(part) for part in torch.split(of_rows, self.n_atoms, dim=-1)]
        if self.actor_extra is not None:
            parts.append(self.by_atoms(self.actor_extra(rows.mean(hidden))))
        logits = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return mask_logits(logits, mask) if self._looks_at_mask else logits

    def _values(self, rows: Rows) -> Tensor:
        numbers = self.critic_rows.through(rows, 0.0).squeeze(-1)
        return self.without_axis(self.critic_head(numbers))
