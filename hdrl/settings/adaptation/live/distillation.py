"""The way back, when a GPU is taken away: a smaller network that starts from a deep one and learns of it.

G. Hinton, O. Vinyals and J. Dean, "Distilling the Knowledge in a Neural Network", 2015; temperature, weight and its
decay are those of ChamiLamelas' advisor.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from hdrl.settings.adaptation.live.network import Network

TEMPERATURE, WEIGHT, DECAY = 2.0, 0.75, 0.25


def shrunk(network: Network) -> Network:
    """Return a copy of a network without the blocks that were inserted: weight distillation."""
    found = copy.deepcopy(network)
    model, blocks = network.model, list(found.blocks)
    kept: list[nn.Module] = []
    words: list[list[object]] = []
    for block, layers, added in zip(blocks, model.blocks, network.added, strict=True):
        modules = list(block)  # type: ignore[call-overload]
        if not added:
            kept.append(nn.Sequential(*modules))
            words.append(list(layers))
            continue
        # What follows an inserted block, pooling for instance, belonged to the block before it.
        end = _end_of_insertion([str(layer) for layer in layers])
        kept[-1] = nn.Sequential(*kept[-1], *modules[end:])  # type: ignore[misc]
        words[-1] += layers[end:]
    found.blocks = nn.ModuleList(kept)
    found.added = [False] * len(kept)
    found.model = type(model)(model.name, tuple(map(tuple, words)), tuple(range(len(kept))))  # type: ignore[arg-type]
    return found


def _end_of_insertion(layers: list[str]) -> int:
    end = 1
    while end < len(layers) and layers[end].split()[0] in ("batchnorm", "relu"):
        end += 1
    return end


class KnowledgeDistillation:
    """Knowledge distillation: a network learns the softened outputs of its teacher beside the labels.

    Attributes
    ----------
    weight
        Weight of the teacher in the loss; `epoch_ended` lets it decay.
    """

    def __init__(self, teacher: nn.Module) -> None:
        self.teacher = copy.deepcopy(teacher).eval()
        self.weight = WEIGHT

    def loss(self, network: nn.Module, examples: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a network that learns from its teacher."""
        with torch.no_grad():
            taught = torch.softmax(self.teacher(examples) / TEMPERATURE, -1)
        logits = network(examples)
        soft = nn.functional.kl_div(torch.log_softmax(logits / TEMPERATURE, -1), taught, reduction="batchmean")
        hard = nn.functional.cross_entropy(logits, labels)
        return self.weight * TEMPERATURE**2 * soft + (1.0 - self.weight) * hard

    def epoch_ended(self) -> None:
        """Let the teacher count less."""
        self.weight *= DECAY
