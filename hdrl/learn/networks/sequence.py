"""A network that reads a sequence of ids and a share of time: what an advisor sees of a network that trains.

After ChamiLamelas' advisor and H. Cai et al., "Efficient Architecture Search by Network Transformation", AAAI 2018.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hdrl.errors import LearningError
from hdrl.learn.masking import mask_logits
from hdrl.learn.networks.base import ActorCritic
from hdrl.learn.networks.layers import POLICY_GAIN, VALUE_GAIN, mlp

N_IDS = 64
"""Ids that can be told apart; 0 is none."""

EMBEDDED, READ, ENCODED, N_WAVES = 16, 50, 16, 8
HEAD = (128, 128)
WAVE = 5.0
"""Height of the waves that time is shown by."""


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

    Parameters
    ----------
    observation_shape
        ``(1 + length,)``: the share of time, then ids, whole numbers below 64, 0 behind the last one.
    n_actions
        Of the environment.
    generator
        Source of the first weights, and of the embedding.
    has_critic
        Whether there is a critic.
    n_atoms
        Numbers for each action, and of the critic.

    Raises
    ------
    LearningError
        If observations are of another shape.
    """

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
        self.register_buffer("embedding", torch.randn(N_IDS, EMBEDDED, generator=generator))
        self.register_buffer("waves", 2.0 * math.pi * torch.arange(1, N_WAVES + 1, dtype=torch.float32))
        self.reader = _lstm(EMBEDDED, READ, generator, is_both_ways=True)
        self.encoder = _lstm(2 * READ, ENCODED, generator)
        sizes = (ENCODED + N_WAVES, *HEAD)
        self.actor = mlp((*sizes, n_actions * n_atoms), generator, last_gain=POLICY_GAIN)
        self.critic = mlp((*sizes, n_atoms), generator, last_gain=VALUE_GAIN) if has_critic else nn.Sequential()

    def logits(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each action."""
        seen, place = self._read(observations)
        return mask_logits(self.by_atoms(self.actor(seen)[place]), mask)

    def values(self, observations: Tensor, mask: Tensor | None) -> Tensor:
        """Return a number for each observation."""
        del mask
        seen, place = self._read(observations)
        return self.without_axis(self.critic(seen)[place])

    def both(self, observations: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return both, reading once."""
        seen, place = self._read(observations)
        return mask_logits(self.by_atoms(self.actor(seen)[place]), mask), self.without_axis(self.critic(seen)[place])

    def critic_parameters(self) -> list[nn.Parameter]:
        """Return the weights that serve the critic alone."""
        return list(self.critic.parameters())

    def _read(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is known of each different observation, and which of them each of all is."""
        different, place = torch.unique(observations, dim=0, return_inverse=True)
        ids = different[:, 1:].long().clamp(0, N_IDS - 1)
        lengths = (ids > 0).sum(-1).clamp(min=1).cpu()  # where packing wants them
        ids = ids[:, : int(lengths.max())]
        last = self._read_padded(ids, lengths) if ids.device.type == "cpu" else self._read_packed(ids, lengths)
        time = WAVE * torch.sin(different[:, :1] * self.waves)
        return torch.cat([last, time], -1), place

    def _read_packed(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the last output of the encoder, by what torch has for sequences of unequal lengths."""
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding[ids], lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.encoder(self.reader(packed)[0])
        return torch.as_tensor(last[-1])

    def _read_padded(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return the same by layers that read what is padded, and whose outputs there are not looked at.

        Three packed sequences of unequal lengths take a CPU 4.5 ms forward and back where these take 0.9 ms, and an
        update of an advisor takes half as long.
        """
        places = torch.arange(ids.shape[1])
        # Backwards, each sequence begins at its own end; the same indices turn the outputs round again.
        turned = (lengths.unsqueeze(-1) - 1 - places).clamp(min=0).unsqueeze(-1)
        seen = self.embedding[ids]
        ahead = _outputs(self.reader, seen)
        back = _outputs(self.reader, seen.gather(1, turned.expand_as(seen)), "_reverse")
        read = torch.cat([ahead, back.gather(1, turned.expand_as(back))], -1)
        return _outputs(self.encoder, read)[torch.arange(len(ids)), lengths - 1]


def _outputs(layer: nn.LSTM, x: Tensor, direction: str = "") -> Tensor:
    """Return the outputs of one direction of a layer, shape ``(n, length, n_out)``."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weights = [getattr(layer, f"{name}_l0{direction}") for name in names]
    start = x.new_zeros((1, len(x), layer.hidden_size))
    outputs, _, _ = torch.lstm(
        x,
        (start, start),
        weights,
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=layer.training,
        bidirectional=False,
        batch_first=True,
    )
    return outputs


def _lstm(n_in: int, n_out: int, generator: torch.Generator, *, is_both_ways: bool = False) -> nn.LSTM:
    with torch.random.fork_rng(devices=[]):  # it draws weights by the global generator, which are drawn anew
        layer = nn.LSTM(n_in, n_out, batch_first=True, bidirectional=is_both_ways)
    bound = 1.0 / math.sqrt(n_out)
    with torch.no_grad():
        for weight in layer.parameters():
            nn.init.uniform_(weight, -bound, bound, generator=generator)
    return layer
