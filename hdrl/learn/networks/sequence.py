"""A network that reads a sequence of ids and a share of time: what an advisor sees of a network that trains.

After ChamiLamelas' advisor and H. Cai et al., "Efficient Architecture Search by Network Transformation", AAAI 2018.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hdrl.base.errors import LearningError
from hdrl.learn import portable
from hdrl.learn.masking import mask_logits
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, mlp
from hdrl.learn.portable.sequences import EMBEDDED, ENCODED, N_IDS, N_WAVES, READ, WAVE, read_sequences

HEAD = (128, 128)


class SequenceActorCritic(ActorCritic):
    """Ids through a frozen embedding and two recurrent layers, time as sines, both into fully connected layers.

    ========  ==============================================  ==============================  ==========
    part      input                                           layers                          output
    ========  ==============================================  ==============================  ==========
    encoder   ids, each as 16 random numbers that stay        LSTM both ways, 50 units each;  16
    ..                                                        LSTM, its last output
    time      the share t of time that is left                5 sin(2 pi i t), i = 1 ... 8    8
    actor     both                                            128, 128                        n_actions
    critic    both                                            128, 128                        1
    ========  ==============================================  ==============================  ==========

    Observations that are equal are read once.

    ``observation_shape``: ``(1 + length,)``: the share of time, then ids, whole numbers below 64, 0 behind the last
    one.
    """

    is_portable = True
    embedding: Tensor
    waves: Tensor

    def __init__(
        self,
        observation_shape: tuple[int, ...],
        n_actions: int,
        generator: torch.Generator,
        *,
        has_critic: bool = True,
        n_atoms: int = 1,
    ) -> None:
        super().__init__()
        if len(observation_shape) != 1 or observation_shape[0] < 2:
            raise LearningError(
                f"network 'sequence' reads a share of time and ids in one row, not observations of {observation_shape}"
            )
        self.has_critic, self.n_atoms = has_critic, n_atoms
        self.register_buffer("embedding", portable.normal((N_IDS, EMBEDDED), generator))
        self.register_buffer("waves", 2.0 * math.pi * torch.arange(1, N_WAVES + 1, dtype=torch.float32))
        self.reader = _lstm(EMBEDDED, READ, generator, is_both_ways=True)
        self.encoder = _lstm(2 * READ, ENCODED, generator)
        sizes = (ENCODED + N_WAVES, *HEAD)
        self.actor = mlp((*sizes, n_actions * n_atoms), generator, last_gain=POLICY_GAIN)
        self.critic = mlp((*sizes, n_atoms), generator, last_gain=VALUE_GAIN) if has_critic else nn.Sequential()

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action."""
        seen, position = self._read(observations)
        return mask_logits(self.by_atoms(self.actor(seen)[position]), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation."""
        del mask
        seen, position = self._read(observations)
        return self.without_axis(self.critic(seen)[position])

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return both, reading once."""
        seen, position = self._read(observations)
        return mask_logits(self.by_atoms(self.actor(seen)[position]), mask), self.without_axis(
            self.critic(seen)[position]
        )

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""
        return list(self.critic.parameters())

    def _read(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return the encoding of each different observation, and the index of each observation among them."""
        weights = [*self.reader.parameters(), *self.encoder.parameters()]
        if portable.is_own(observations, self.embedding, *weights):
            return read_sequences(observations, self.embedding, self.waves, weights)
        different, position = torch.unique(observations, dim=0, return_inverse=True)
        ids = different[:, 1:].long().clamp(0, N_IDS - 1)
        lengths = (ids > 0).sum(-1).clamp(min=1).cpu()  # packing needs them on the CPU
        ids = ids[:, : int(lengths.max())]
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding[ids], lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.encoder(self.reader(packed)[0])
        time = portable.sin(different[:, :1] * self.waves) * float(WAVE)
        return torch.cat([last[-1], time], -1), position


class _Lstm(nn.LSTM):
    """A layer that draws nothing by itself."""

    def reset_parameters(self) -> None:
        """Leave the weights to the caller."""


def _lstm(n_in: int, n_out: int, generator: torch.Generator, *, is_both_ways: bool = False) -> nn.LSTM:
    layer = _Lstm(n_in, n_out, batch_first=True, bidirectional=is_both_ways)
    bound = 1.0 / math.sqrt(n_out)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(portable.uniform(tuple(weight.shape), -bound, bound, generator))
    return layer
