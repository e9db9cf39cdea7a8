"""A small network that predicts run times from what is known of ended jobs, in compiled code.

It sees what `kernel.groups` says of a job at each level, before and after shrinking, its request, and its user: 20
numbers through two layers of 32 neurons (tanh) to two, the logarithm of run / request and that of the mean of
10 / max(run, 10). `predict.training` trains it, on logs and not on the machine that it is used on: all that it sees
has no unit but the request.
"""

from __future__ import annotations

import math
from itertools import pairwise

from hdrl.compiled.jit import jit
from hdrl.settings.batch.kernel.groups import (
    FIRST_INVERSE,
    FIRST_LOG_RATIO,
    N_LEVELS,
    SHORT_S,
    SHRINKAGES,
    spread,
)
from hdrl.settings.batch.workload.history import USER_LEVEL

LAYERS = (3 * N_LEVELS + 5, 32, 32, 2)
"""How many numbers go in, the neurons of the layers, and how many numbers come out."""

N_NUMBERS = sum((n_in + 1) * n_out for n_in, n_out in pairwise(LAYERS))
"""How many weights and biases there are: layer by layer, and there neuron by neuron: its weights, then its bias."""

N_NEURONS = sum(LAYERS)


@jit
def look(sums, groups, requested_s, seen):
    """Write what the network sees of a job to the first places of ``seen``."""
    log_request = math.log(max(requested_s, 1.0))
    log_ratio, inverse = FIRST_LOG_RATIO, FIRST_INVERSE
    for level in range(N_LEVELS):
        group, m = sums[groups[level]], SHRINKAGES[level]
        log_ratio = (group.log_ratio + m * log_ratio) / (group.n + m)
        inverse = (group.inverse + m * inverse) / (group.n + m)
        seen[3 * level] = log_ratio / 2.0
        seen[3 * level + 1] = math.log(inverse) / 2.0 + 1.0
        seen[3 * level + 2] = group.n / (group.n + 2.0)
    user, first = sums[groups[USER_LEVEL]], 3 * N_LEVELS
    last = math.log(max(user.last_s, 1.0)) if user.n_ended > 0 else log_request
    seen[first] = (log_request - 8.0) / 2.0
    seen[first + 1] = (last - log_request) / 2.0
    seen[first + 2] = (math.log(max(user.before_last_s, 1.0)) - log_request) / 2.0 if user.n_ended > 1 else 0.0
    seen[first + 3] = spread(user) - 1.0
    seen[first + 4] = math.log(1.0 + user.n_here) / 2.0


@jit
def answer(network, neurons):
    """Let the network answer to what stands in the first places of ``neurons``; return its two numbers."""
    place, first = 0, 0
    for layer in range(1, len(LAYERS)):
        n_in, n_out = LAYERS[layer - 1], LAYERS[layer]
        for neuron in range(n_out):
            total = network[place + n_in]
            for i in range(n_in):
                total += network[place + i] * neurons[first + i]
            place += n_in + 1
            neurons[first + n_in + neuron] = math.tanh(total) if layer < len(LAYERS) - 1 else total
        first += n_in
    return neurons[first], neurons[first + 1]


@jit
def learned(network, neurons, sums, groups, requested_s):
    """Return the geometric and the harmonic mean that the network predicts of a run time, in seconds."""
    look(sums, groups, requested_s, neurons)
    log_ratio, log_inverse = answer(network, neurons)
    inverse = min(1.0, max(math.exp(min(log_inverse, 0.0)), SHORT_S / max(requested_s, SHORT_S)))
    return requested_s * math.exp(min(log_ratio, 0.0)), SHORT_S / inverse
