"""Self-attention over the jobs: the logit of a job may depend on which others wait."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from hdrl.base.errors import LearningError
from hdrl.learn import portable
from hdrl.learn.config import Activation
from hdrl.learn.masking import ILLEGAL, mask_logits
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, linear, mlp, through
from hdrl.learn.networks.rows import Rows, rows_of, table_shape


def attended(parts: Tensor, rows: Rows, n_heads: int) -> Tensor:
    """Return the attention of each row to the others, its heads side by side, shape ``(n, n_rows, width)``.

    ``parts`` holds queries, keys and values side by side, each head's in a piece: ``(n, n_rows, 3 * width)``. Rows that
    are not in ``rows`` neither attend nor are attended to.
    """
    n, n_rows = rows.shape
    if portable.is_own(parts):
        return portable.attend_rows(parts.flatten(0, 1), rows.positions, rows.shape, n_heads).view(n, n_rows, -1)
    queries, keys, values = parts.view(n, n_rows, 3, n_heads, -1).permute(2, 0, 3, 1, 4)
    present = torch.zeros(n * n_rows, dtype=torch.bool, device=parts.device)
    allowed = present.index_fill(0, rows.positions, value=True).view(n, 1, 1, n_rows)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    return mixed.transpose(1, 2).flatten(2)


class Encoder(nn.Module):
    """Rows that attend to each other: an embedding, and one layer of multi-head attention added to it."""

    def __init__(
        self, n_features: int, width: int, n_heads: int, activation: Activation, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.embed = mlp((n_features, width), generator, activation, is_open=True)
        self.project = linear(width, 3 * width, generator, gain=1.0)
        self.merge = linear(width, width, generator, gain=1.0)

    def forward(self, rows: Rows) -> Tensor:
        """Return the encoded rows, shape ``(n, n_rows, width)``, with 0 for rows that are empty."""
        embedded = self.embed.through(rows, 0.0)
        parts = through(self.project, rows.of(embedded), 0.0)
        return embedded + through(self.merge, rows.of(attended(parts, rows, self.n_heads)), 0.0)


class AttentionActorCritic(ActorCritic):
    """Encoded rows; the actor turns each into a logit, the critic the mean of those present into the value.

    ========  =======================================  ==================================
    part      layers                                   output
    ========  =======================================  ==================================
    actor     encoder, ``hidden``, 1 for each row      ``n_rows`` logits
    critic    encoder, mean, ``hidden``, 1             the value
    ========  =======================================  ==================================

    Attention runs over the jobs of one observation; rows that hold none are not attended to, and rows may be
    permuted: the logits are permuted alike. Where there are more actions than rows, the logits of the others come
    from the mean.

    ``sees_all_rows``: whether rows whose actions are illegal are attended to as well.
    """

    is_portable = True
    is_parted = True

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        *,
        width: int = 32,
        n_heads: int = 4,
        hidden: tuple[int, ...] = (64, 64),
        activation: Activation = "relu",
        has_critic: bool = True,
        sees_all_rows: bool = False,
        n_atoms: int = 1,
    ) -> None:
        super().__init__()
        if width % n_heads:
            raise LearningError(f"attention_width is {width}, expected a multiple of attention_heads ({n_heads})")
        self.n_rows, n_features, n_extra = table_shape(observation_shape, n_actions, "attention")
        self.has_critic, self.n_atoms = has_critic, n_atoms
        self.sees_all_rows = sees_all_rows
        self.actor_encoder = Encoder(n_features, width, n_heads, activation, generator)
        self.actor_head = mlp((width, *hidden, n_atoms), generator, activation, last_gain=POLICY_GAIN)
        self.actor_extra = (
            mlp((width, *hidden, n_extra * n_atoms), generator, activation, last_gain=POLICY_GAIN) if n_extra else None
        )
        self.critic_encoder: nn.Module = nn.Identity()
        self.critic_head = nn.Sequential()
        if has_critic:
            self.critic_encoder = Encoder(n_features, width, n_heads, activation, generator)
            self.critic_head = mlp((width, *hidden, n_atoms), generator, activation, last_gain=VALUE_GAIN)

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a logit for each row."""
        rows = self._rows(observations, mask)
        encoded = self.actor_encoder(rows)
        logits = self.without_axis(self.actor_head.through(rows.of(encoded), ILLEGAL))
        if self.actor_extra is not None:
            extra = self.by_atoms(self.actor_extra(rows.mean(encoded)))
            logits = torch.cat([logits, extra], dim=1)
        return mask_logits(logits, mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return the value of each observation."""
        rows = self._rows(observations, mask)
        return self.without_axis(self.critic_head(rows.mean(self.critic_encoder(rows))))

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights of the critic."""
        return [*self.critic_encoder.parameters(), *self.critic_head.parameters()]

    def _rows(self, observations: Tensor, mask: Tensor | None) -> Rows:
        if mask is None or self.sees_all_rows:
            return rows_of(observations, None)
        present = mask[:, : self.n_rows]
        # Where no row is legal, all are looked at: the mean over nothing is no number.
        return rows_of(observations, present | ~present.any(-1, keepdim=True))
