"""Training a network that predicts run times, from logs whose ended jobs it replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hdrl.base import elementary
from hdrl.base.errors import MissingExtra, OptionsError, WorkloadError
from hdrl.settings.batch.kernel.groups import LAYERS, SHORT_S
from hdrl.settings.batch.predict.evaluation import has_names, judged_jobs, replayed
from hdrl.settings.batch.predict.network import RunTimeNetwork
from hdrl.settings.batch.workload.model import Workload

Floats = NDArray[np.float64]

N_EPOCHS = 30
BATCH = 512
FEWEST_BATCHES = 20
LEARNING_RATE = 3e-3
SHORTEST_S = 1.0


@dataclass(frozen=True, slots=True)
class _TrainingData:
    """Training data of a network: its inputs, and its targets computed from the run times of the jobs."""

    seen: Floats
    log_ratio: Floats
    inverse: Floats


def train_network(
    workloads: Sequence[Workload],
    shares: tuple[float, float] = (0.0, 0.6),
    *,
    seed: int = 0,
    by_name: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RunTimeNetwork:
    """Train a network on a part of several logs, each of which weighs the same.

    The logarithm of run / request is learned by Huber's loss, 10 / max(run, 10) by Poisson's, with Adam and a learning
    rate that falls to 0. Equal logs, shares and seeds give equal numbers.

    Parameters
    ----------
    workloads
        Logs with run times and dates of starts.
    shares
        Part of each log, as shares of the jobs in the order of submission; all that ended before a job is known.
    seed
        Of the first weights and the order of jobs.
    by_name
        True if the network sees groups by the names of jobs, as ``geo_name`` does.
    progress
        Called with the numbers of finished and of all epochs.

    Raises
    ------
    WorkloadError
        If there is no log behind a workload, or it does not tell when jobs started, or what they are called.
    OptionsError
        If two logs have one name, or a part is empty.
    MissingExtra
        If torch is not installed.
    """
    try:
        from hdrl.learn.threads import torch_threads
    except ModuleNotFoundError:
        raise MissingExtra("torch", "learn") from None
    names = [workload.name for workload in workloads]
    if len(set(names)) < len(names):
        raise OptionsError(f"{max(names, key=names.count)} is named twice, expected different logs")
    training_data = [_training_data(workload, shares, by_name=by_name) for workload in workloads]
    with torch_threads(1):  # more of them find other last bits
        numbers = _fit(training_data, seed, progress)
    return RunTimeNetwork(numbers, dict.fromkeys(names, float(shares[1])), by_name)


def _training_data(workload: Workload, shares: tuple[float, float], *, by_name: bool) -> _TrainingData:
    history, judged = judged_jobs(workload, shares)
    if len(judged) == 0:
        raise OptionsError(f"{workload.name}: no job lies in the part {shares[0]:g}:{shares[1]:g}")
    if by_name and not has_names(history):
        raise WorkloadError(f"{workload.name}: names no jobs (field 14), so a network cannot see groups by name")
    _, seen = replayed(history, by_name=by_name)
    run_s = np.maximum(history.run_s[judged], SHORTEST_S)
    requested_s = np.maximum(history.requested_time_s[judged], SHORTEST_S)
    ratio = np.minimum(elementary.log(run_s / requested_s), 0.0)
    return _TrainingData(seen[judged], ratio, SHORT_S / np.maximum(run_s, SHORT_S))


def _fit(
    training_data: Sequence[_TrainingData], seed: int, progress: Callable[[int, int], None] | None
) -> tuple[float, ...]:
    """Return the numbers of a network that has learned."""
    import torch
    from torch import nn

    torch_seed = torch.Generator().manual_seed(seed)
    layers = [nn.Linear(n_in, n_out, dtype=torch.float64) for n_in, n_out in pairwise(LAYERS)]
    with torch.no_grad():
        for layer in layers:
            nn.init.orthogonal_(layer.weight, generator=torch_seed)
            nn.init.zeros_(layer.bias)
        layers[-1].weight *= 0.1
        layers[-1].bias[:] = torch.tensor([-1.0, -3.0])
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    seen, log_ratio, inverse = (
        torch.from_numpy(np.concatenate([getattr(one, name) for one in training_data]))
        for name in ("seen", "log_ratio", "inverse")
    )
    sizes = [len(one.log_ratio) for one in training_data]
    chance = torch.cat([torch.full((size,), 1.0 / size, dtype=torch.float64) for size in sizes])
    n_batches = max(FEWEST_BATCHES, sum(sizes) // BATCH)
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, N_EPOCHS * n_batches)
    huber, poisson = nn.HuberLoss(), nn.PoissonNLLLoss()
    for epoch in range(N_EPOCHS):
        for _ in range(n_batches):
            drawn = torch.multinomial(chance, min(BATCH, len(chance)), replacement=True, generator=torch_seed)
            output = seen[drawn]
            for layer in layers[:-1]:
                output = torch.tanh(layer(output))
            output = layers[-1](output)
            loss = huber(output[:, 0], log_ratio[drawn]) + poisson(output[:, 1], inverse[drawn])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if progress is not None:
            progress(epoch + 1, N_EPOCHS)
    rows = [torch.cat([layer.weight, layer.bias[:, None]], 1).detach().flatten() for layer in layers]
    return tuple(float(f"{number:.9g}") for number in torch.cat(rows).tolist())
