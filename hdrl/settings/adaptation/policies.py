"""Policies: fixed sequences, search by trial and error within a job, and bandits that learn from job to job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import UnknownName, WorkloadError
from hdrl.base.sequences import EXAMPLE, fixed_actions, is_fixed
from hdrl.settings.adaptation.index import BY_HAND, sequence_of, start_weights
from hdrl.settings.adaptation.simulation import AdaptingJob, Advisor, decide_step_by_step
from hdrl.settings.adaptation.table import Table

LINEAR_DECAY = "linear-decay"

EPSILON = 0.1
"""Probability with which epsilon-greedy tries a random sequence."""

SPREAD = 0.05
"""Size of differences between sequences, by which the bandits scale their doubts: some hundredths of accuracy."""


class Chooses:
    """Chooses by a function of the job, and ignores the outcomes."""

    def __init__(self, choose: Callable[[AdaptingJob], int | str]) -> None:
        self._choose = choose

    def choose(self, job: AdaptingJob) -> int | str:
        """Return the action for a job."""
        return self._choose(job)

    def observe(self, job: AdaptingJob, chosen: int | str, validation: float) -> None:
        """Take in the outcome of a job: see `Advisor.observe`."""


class Bandit:
    """A bandit whose arms are the sequences, one for each table: it can see which jobs are alike.

    Parameters
    ----------
    index
        From how often each arm was pulled (float64, shape ``(n_arms,)``), the mean of what it brought (0 without), how
        many pulls there were, and random numbers, to a number for each arm; the largest is pulled.
    """

    def __init__(self, index: Index, random: np.random.Generator) -> None:
        self._index, self._random = index, random
        self._pulls: dict[int, NDArray[np.float64]] = {}
        self._sums: dict[int, NDArray[np.float64]] = {}

    def choose(self, job: AdaptingJob) -> int:
        """Return the arm with the largest index."""
        pulls = self._pulls.setdefault(job.kind, np.zeros(job.table.n_sequences))
        sums = self._sums.setdefault(job.kind, np.zeros(job.table.n_sequences))
        means = sums / np.maximum(pulls, 1.0)
        index = self._index(pulls, means, float(pulls.sum()), self._random)
        best = np.flatnonzero(index == index.max())
        return int(best[self._random.integers(len(best))])

    def observe(self, job: AdaptingJob, chosen: int | str, validation: float) -> None:
        """Learn from the outcome of a job: see `Advisor.observe`."""
        self._pulls[job.kind][int(chosen)] += 1.0
        self._sums[job.kind][int(chosen)] += validation


Index = Callable[[NDArray[np.float64], NDArray[np.float64], float, np.random.Generator], NDArray[np.float64]]


def _epsilon_greedy(
    pulls: NDArray[np.float64], means: NDArray[np.float64], n: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the means; now and then, and at first, any arm is as good as any other (Sutton and Barto, 2018, 2.2)."""
    if n == 0 or random.random() < EPSILON:
        return np.zeros(len(pulls))
    return np.where(pulls > 0, means, -np.inf)


def _ucb(
    pulls: NDArray[np.float64], means: NDArray[np.float64], n: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return UCB1 (Auer et al., Machine Learning 47, 2002): every arm once, then mean plus doubt."""
    del random
    doubt = SPREAD * np.sqrt(2.0 * math.log(max(n, 1.0)) / np.maximum(pulls, 1.0))
    return np.where(pulls > 0, means + doubt, np.inf)


def _thompson(
    pulls: NDArray[np.float64], means: NDArray[np.float64], n: float, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return draws from what is believed of each arm (Agrawal and Goyal, AISTATS 2013, normal priors).

    Before an arm was pulled it is believed to be like all that were.
    """
    prior = float((pulls * means).sum() / n) if n else 0.0
    centre = (prior + pulls * means) / (pulls + 1.0)
    return centre + SPREAD / np.sqrt(pulls + 1.0) * random.standard_normal(len(pulls))


BANDITS: Mapping[str, Index] = MappingProxyType({"epsilon-greedy": _epsilon_greedy, "ucb": _ucb, "thompson": _thompson})


def _look_ahead(job: AdaptingJob) -> int:
    """Try each action now and nothing later, keep the best, and go on from there."""
    table = job.table
    nothing = table.n_actions - 1

    def decide(state: int, actions: Sequence[int]) -> int:
        del state
        rest = [nothing] * (table.n_steps - len(actions) - 1)
        found = [job.train(table.sequence([*actions, action, *rest])) for action in range(table.n_actions)]
        # Of equal ones doing nothing is cheapest.
        return nothing if found[nothing] >= max(found) else int(np.argmax(found))

    return decide_step_by_step(table, decide)


def _hill_climbing(job: AdaptingJob) -> int:
    """Change one action of the best sequence so far, as long as that helps (after Elsken et al., arXiv 1711.04528)."""
    table = job.table
    here = table.never
    value = job.train(here)
    while True:
        near = _neighbours(table, here)
        found = [job.train(one) for one in near]
        best = int(np.argmax(found))
        if found[best] <= value:
            return here
        here, value = near[best], found[best]


def _neighbours(table: Table, sequence: int) -> list[int]:
    actions = table.actions(sequence)
    return [
        table.sequence([*actions[:step], action, *actions[step + 1 :]])
        for step in range(table.n_steps)
        for action in range(table.n_actions)
        if action != actions[step]
    ]


def _successive_halving(job: AdaptingJob) -> int:
    """Train all for a while, keep the better half, and so on (Jamieson and Talwalkar, AISTATS 2016).

    The halves are those of the table's rungs: after each of them, and at the end, as many are left as take equal steps
    from all of them to one.

    Raises
    ------
    WorkloadError
        If the table has no curves.
    """
    table = job.table
    if not table.rungs:
        raise WorkloadError(
            f"{table.name}: has no learning curves, which successive-halving needs; tables of hdrl adaptation table"
            " have them"
        )
    left = list(range(table.n_sequences))
    shrink = table.n_sequences ** (1.0 / (len(table.rungs) + 1))
    for rung in (*range(len(table.rungs)), None):
        found = [(job.train(one, rung), -one) for one in left]
        n_kept = 1 if rung is None else max(1, round(len(left) / shrink))
        left = [-number for _, number in sorted(found, reverse=True)[:n_kept]]
    return left[0]


def _exhaustive(job: AdaptingJob) -> int:
    """Train the job under every sequence and keep what is best by validation."""
    found = [job.train(one) for one in range(job.table.n_sequences)]
    return int(np.argmax(found))


def _always(block: int) -> Callable[[AdaptingJob], int]:
    return lambda job: job.table.sequence([block % (job.table.n_actions - 1)] * job.table.n_steps)


def _fixed(policy: str) -> Callable[[AdaptingJob], int]:
    def choose(job: AdaptingJob) -> int:
        table = job.table
        return table.sequence(fixed_actions(policy, table.n_steps, table.n_actions, table.name))

    return choose


FIXED: Mapping[str, Callable[[AdaptingJob], int | str]] = MappingProxyType(
    {
        "never": lambda job: job.table.never,
        LINEAR_DECAY: lambda _: LINEAR_DECAY,
        "always-first": _always(0),
        "always-last": _always(-1),
        "oracle": lambda job: int(np.argmax(job.table.expected)),
    }
)
"""Policies that try nothing out. ``oracle`` uses the table itself."""

SEARCHES: Mapping[str, Callable[[AdaptingJob], int]] = MappingProxyType(
    {
        "look-ahead": _look_ahead,
        "hill-climbing": _hill_climbing,
        "successive-halving": _successive_halving,
        "exhaustive": _exhaustive,
    }
)
"""Policies that train copies of the job, which takes time of the device."""

NAMES = (*FIXED, BY_HAND, "random", *SEARCHES, *BANDITS)


def read_policy(text: str) -> str:
    """Return the name of a policy: one of `NAMES`, or ``fixed-`` and a sequence, see `hdrl.base.sequences.words_of`.

    Raises
    ------
    UnknownName
        If there is no such policy.
    """
    name = text.strip().lower().replace("_", "-")
    if name not in NAMES and not is_fixed(name):
        raise UnknownName("policy", text, (*NAMES, EXAMPLE))
    return name


def index_advisor(weights: NDArray[np.float64]) -> Advisor:
    """Return an advisor that decides by an index with some weights."""
    by_kind: dict[int, int] = {}

    def choose(job: AdaptingJob) -> int:
        if job.kind not in by_kind:
            by_kind[job.kind] = sequence_of(job.table, weights)
        return by_kind[job.kind]

    return Chooses(choose)


def make_advisor(policy: str, random: np.random.Generator) -> Advisor:
    """Return the advisor of a policy."""
    if is_fixed(policy):
        return Chooses(_fixed(policy))
    if policy in BANDITS:
        return Bandit(BANDITS[policy], random)
    if policy == BY_HAND:
        return index_advisor(start_weights())
    if policy == "random":
        return Chooses(lambda job: int(random.integers(job.table.n_sequences)))
    return Chooses(FIXED[policy] if policy in FIXED else SEARCHES[policy])
