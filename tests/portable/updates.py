"""Updates of small networks without any environment: their hash, for processors that nothing else is compiled for.

python tests/portable/updates.py          prints the hash
python tests/portable/updates.py small    without attention and recurrent layers, which take an emulator minutes
"""

from __future__ import annotations

import hashlib
import sys


def digest(*, is_small: bool) -> str:
    """Return a hash of what three updates of some networks have made of their weights, and of draws."""
    import torch

    from hdrl.learn import portable
    from hdrl.learn.masking import mask_logits, sample
    from hdrl.learn.networks.attention import AttentionActorCritic
    from hdrl.learn.networks.kernel import KernelActorCritic
    from hdrl.learn.networks.mlp import MlpActorCritic
    from hdrl.learn.networks.sequence import SequenceActorCritic

    torch.set_num_threads(1)
    found, generator = hashlib.sha256(), torch.Generator().manual_seed(0)
    networks = [
        KernelActorCritic((12, 7), 13, generator),
        MlpActorCritic((12, 7), 13, generator, hidden=(40, 24), activation="tanh", is_shared=True),
        MlpActorCritic((12, 7), 13, generator, activation="leaky_relu", has_plain_init=True),
        AttentionActorCritic((12, 7), 13, generator, width=16, n_heads=2),
        SequenceActorCritic((7,), 13, generator),
    ]
    tables = portable.normal((70, 12, 7), generator)
    sequences = torch.cat([torch.rand((70, 1), generator=generator), torch.arange(420).reshape(70, 6) % 61 + 1], 1)
    mask = torch.rand((70, 13), generator=generator) < 0.7
    mask[:, 3] = True
    for network in networks[:3] if is_small else networks:
        optimizer = portable.Adam(network.parameters(), 1e-2)
        observations = sequences if isinstance(network, SequenceActorCritic) else tables
        for _ in range(3):
            logits, values = network.both(observations, mask)
            actions = sample(mask_logits(logits.detach(), mask), generator)
            log_probs, entropies = portable.choose(logits, actions)
            loss = portable.mean(values.square()) - portable.mean(portable.exp(log_probs)) - portable.mean(entropies)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            portable.clip(list(network.parameters()), 0.5)
            optimizer.step()
            found.update(actions.numpy().tobytes())
        for weight in network.parameters():
            found.update(weight.detach().numpy().tobytes())
    return found.hexdigest()[:16]


if __name__ == "__main__":
    sys.stdout.write(digest(is_small="small" in sys.argv) + "\n")
