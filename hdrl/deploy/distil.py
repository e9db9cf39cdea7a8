"""Distillation: an index of few terms that picks as a learned network does, and how near it is by results.

The network plays windows of the first part of a log. Each of its picks says that a job came before the others that it
could have picked; a conditional logit of the features of an index (D. McFadden, "Conditional logit analysis of
qualitative choice behavior", 1974) is fitted to that. Its negative coefficients are the weights of a linear index.
What counts is not how often the index picks the same job, but its results: both are simulated on windows of the last
part, which the fit has not seen.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hdrl.base.errors import LearningError, OptionsError, OutputError
from hdrl.base.files import write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.batch import Platform, Workload
from hdrl.deploy.policy import JOB_INDEX_ID
from hdrl.deploy.promise import FEWEST_WINDOWS, JUDGED_FROM, LENGTHS, MOST_WINDOWS, USUAL_WINDOWS
from hdrl.deploy.ranking import described, learn, waiting_rows
from hdrl.envs.index import index_spaces
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.compare.summary import deciding_rows
from hdrl.experiment.plan import plan_of
from hdrl.experiment.run.inputs import make_sweep
from hdrl.experiment.train.learning import require_torch
from hdrl.experiment.train.modeluse import Model
from hdrl.settings.batch.kernel.beginning import first_sums
from hdrl.settings.batch.kernel.keys import N_FEATURES
from hdrl.settings.batch.policies.choices import EASY_ORDERS
from hdrl.settings.batch.policies.indexed import LARGEST_WEIGHT, IndexKind, first_weights, names_of_weights
from hdrl.settings.batch.workload.history import USER_LEVEL, past_of

Floats = NDArray[np.float64]

JOB_PICK_ID = "hdrl/JobPick-v0"
INDEX, REPORT, FIDELITY = "index.pt", "distilled.json", "fidelity"
NETWORK_NAME, INDEX_NAME = "network", "index"
METRIC = "mean_bounded_slowdown"

FORM, PREDICTOR = "linear", "geo"
"""Of the index; whatever the network sees, an index of a real queue sees predictions."""

MOST_RATIO = 1.1
"""If even the lower end of the interval of the ratio is above, the index does not stand for the network."""

N_PLAYED, PLAYED_JOBS = 12, 256
MOST_DECISIONS, FEWEST_DECISIONS = 20_000, 100
RIDGE = 1e-3
LARGEST_OF_INDEX = 10.0
"""Largest weight after scaling: only ratios of weights matter to an order."""


class Choice(NamedTuple):
    """Pick of the network.

    Attributes
    ----------
    features
        Features of the jobs that it could have picked, shape ``(n_jobs, 13)``.
    picked
        Index of the picked one.
    """

    features: Floats
    picked: int


@dataclass(frozen=True, slots=True)
class Distilled:
    """Result of a distillation.

    Attributes
    ----------
    folder
        Its folder.
    terms
        The weights of the index by the names of its features.
    n_choices, agreement
        Number of picks of the network for the fit, and how often it picks the same job, on other windows than those.
    ratio, low, high
        Mean bounded slowdown of the index over that of the network, with its interval of 95 %.
    verdict
        The same as a sentence.
    """

    folder: Path
    terms: dict[str, float]
    n_choices: int
    agreement: float
    ratio: float
    low: float
    high: float
    verdict: str


def distil(
    model: Path,
    log: str,
    platform: str,
    out: Path,
    *,
    seed: int = 1,
    n_workers: int | None = None,
    progress: CompareProgress | None = None,
) -> Distilled:
    """Write an index that stands for a network, into a folder that appears whole or not at all.

    Parameters
    ----------
    model
        A model file of an agent that picks jobs.
    log, platform
        The log, and its machine.
    out
        The folder to make.

    Raises
    ------
    OptionsError
        If the model is no network that picks jobs, or may hold them back, or the log is too short.
    LearningError
        If no index comes near to the network.
    OutputError
        If the folder is there already, or cannot be written.
    HdrlError
        If a file cannot be read.
    """
    require_torch()
    progress = progress or CompareProgress()
    if out.exists():
        raise OutputError(f"{out}: exists already, expected the name of a new folder")
    if not out.parent.is_dir():
        raise OutputError(f"{out}: its folder {out.parent} does not exist")
    network = Model(model)
    if network.spec.id != JOB_PICK_ID:
        raise OptionsError(
            f"{model}: decides in {network.spec.id}, expected a network that picks jobs, in {JOB_PICK_ID}"
        )
    held = [name for name in ("may_hold", "skip") if network.environment["arguments"].get(name)]
    if held:
        raise OptionsError(
            f"{model}: holds jobs back ({' and '.join(held)}), which no index can; expected a network that was trained "
            "without"
        )
    if network.uses_hidden_information:
        raise OptionsError(f"{model}: sees true run times, which no index of a real queue can")
    folder = Path(tempfile.mkdtemp(dir=out.parent.resolve(), prefix=f".{out.name}."))
    try:
        found = _distilled(network, log, platform, folder, seed, n_workers, progress)
        folder.chmod(0o755)
        folder.rename(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error})") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Distilled(out, *found)


def _distilled(
    network: Model,
    log: str,
    platform: str,
    folder: Path,
    seed: int,
    n_workers: int | None,
    progress: CompareProgress,
) -> tuple[Any, ...]:
    data = {
        "platform": platform,
        "workloads": [log],
        "candidates": [f"{NETWORK_NAME}={network.path.resolve()}", f"{INDEX_NAME}={INDEX}"],
        "baseline": NETWORK_NAME,
        "metrics": [METRIC],
        "seed": seed,
        "site_rules": False,  # networks are not played under them
        "workload": {"memory": "none", "bandwidth": "none"},
    }
    plan = plan_of(
        make_sweep({**data, "candidates": ["fcfs+easy"], "baseline": "fcfs+easy"}, where="distil", folder=folder)
    )
    workload, machine = cast("Workload", plan.load), cast("Platform", plan.machine)
    n_judged = round(workload.n_jobs * (1 - JUDGED_FROM))
    length = next((one for one in LENGTHS if n_judged // one >= USUAL_WINDOWS), LENGTHS[-1])
    n_windows = min(n_judged // length, MOST_WINDOWS)
    if n_windows < FEWEST_WINDOWS:
        least = round(FEWEST_WINDOWS * LENGTHS[-1] / (1 - JUDGED_FROM))
        raise OptionsError(
            f"{log}: has {workload.n_jobs:,} jobs, expected at least {least:,}: the index is judged on "
            f"{FEWEST_WINDOWS} windows of {LENGTHS[-1]} jobs of the last {1 - JUDGED_FROM:.0%}"
        )
    progress.message(f"the network plays {N_PLAYED} windows of {PLAYED_JOBS} jobs")
    choices = [list(choices_of(network, machine, window, seed)) for window in _windows(workload)]
    fitted = [choice for window in choices[::2] for choice in window][:MOST_DECISIONS]
    other = [choice for window in choices[1::2] for choice in window][:MOST_DECISIONS]
    if len(fitted) < FEWEST_DECISIONS:
        raise OptionsError(
            f"{log}: the network chose between jobs {len(fitted)} times there, expected at least {FEWEST_DECISIONS}"
        )
    agreement = agreement_of(fit(fitted), other)
    weights = fit([*fitted, *other])
    write_index(folder / INDEX, weights, network)
    sweep = make_sweep(
        {**data, "range": [JUDGED_FROM, 1.0], "windows": {"length": length, "count": n_windows}},
        where="distil",
        folder=folder,
    )
    found = run_comparison(sweep, out=folder / FIDELITY, n_workers=n_workers, progress=progress)
    row = next(one for one in deciding_rows(found.rows, found.metric) if one.candidate == INDEX_NAME)
    shown = f"{row.ratio:.3f} [{row.ratio_low:.3f}, {row.ratio_high:.3f}]"
    if not row.ratio_low <= MOST_RATIO:
        raise LearningError(
            f"{network.path}: cannot be distilled: an index of {N_FEATURES} terms picks the same job in "
            f"{agreement:.0%} of the choices, and has {shown} times its mean bounded slowdown over {n_windows} windows"
        )
    names = names_of_weights(FORM)[:N_FEATURES]
    terms = dict(zip(names, weights.tolist(), strict=True))
    verdict = f"index has {shown} times the mean bounded slowdown of the network over {n_windows} windows"
    write_json(
        folder / REPORT,
        {
            "model_sha256": sha256_of_file(network.path),
            "terms": terms,
            "choices": len(fitted) + len(other),
            "agreement": agreement,
            "metric": METRIC,
            "ratio": row.ratio,
            "interval": [row.ratio_low, row.ratio_high],
            "windows": n_windows,
            "window_jobs": length,
        },
    )
    return terms, len(fitted) + len(other), agreement, row.ratio, row.ratio_low, row.ratio_high, verdict


def _windows(workload: Workload) -> list[Workload]:
    """Return windows of the first part of a log, spread over it."""
    n_first = round(workload.n_jobs * JUDGED_FROM)
    starts = np.linspace(0, n_first - PLAYED_JOBS, N_PLAYED).astype(int)
    return [workload.window(int(start), PLAYED_JOBS) for start in starts]


class _Pick(NamedTuple):
    now_s: float
    n_free: int
    queue: tuple[int, ...]
    jobs: tuple[int, ...]
    picked: int


class _Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Records the picks and their alternatives; as a wrapper it has no short cut through compiled code."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.picks: list[_Pick] = []

    def step(self, action: Any) -> Any:
        player: Any = self.env
        shown = player.shown
        n_rows = player.options.max_jobs
        legal = np.flatnonzero(player.action_masks()[:n_rows]).tolist()
        if int(action) < n_rows and len(legal) > 1:
            jobs = tuple(shown[row] for row in legal)
            pick = _Pick(player.now_s, player.n_free, tuple(player.queue), jobs, legal.index(int(action)))
            self.picks.append(pick)
        return self.env.step(action)


def choices_of(network: Model, platform: Platform, window: Workload, seed: int) -> Iterator[Choice]:
    """Yield the picks of a network in a window, with the features that an index sees.

    Yields
    ------
    Choice
        A pick among several jobs.

    Raises
    ------
    HdrlError
        If the network cannot decide there.
    """
    from types import SimpleNamespace

    from hdrl.learn.evaluate import play

    env = network.spec.player(platform, window, network.environment["arguments"], None)
    recorder = _Recorder(env)
    spaces = SimpleNamespace(single_observation_space=env.observation_space, single_action_space=env.action_space)
    play(network.agent(spaces), recorder, seed=seed)
    yield from _described(recorder.picks, env.trace(), platform, window)


def _described(picks: Sequence[_Pick], trace: Any, platform: Platform, window: Workload) -> Iterator[Choice]:
    """Yield picks with the features of the jobs; only what had ended by then has been learned from."""
    past = past_of(window.jobs, window.history, window.positions)
    sums, jobs = first_sums(past), window.jobs
    users = past.groups[:, USER_LEVEL]
    rows = waiting_rows(jobs["submit_s"], jobs["requested_time_s"], jobs["cores"])
    start_s, run_s = trace.records["start_s"], trace.records["run_s"]
    end_s = start_s + run_s
    ends, n_ended = np.argsort(end_s, kind="stable"), 0
    for pick in picks:
        while n_ended < len(ends) and end_s[ends[n_ended]] <= pick.now_s:
            job = ends[n_ended]
            learn(sums, past.groups[job], float(run_s[job]), float(jobs["requested_time_s"][job]))
            n_ended += 1
        is_here = (jobs["submit_s"] <= pick.now_s) & (end_s > pick.now_s)
        sums["n_here"] = np.bincount(users[is_here], minlength=len(sums))
        sums["n_waiting"] = np.bincount(users[list(pick.queue)], minlength=len(sums))
        chosen = list(pick.jobs)
        features = described(
            np.ascontiguousarray(rows[chosen]),
            past.groups[chosen],
            sums,
            now_s=pick.now_s,
            n_procs=platform.n_cores,
            n_free=pick.n_free,
        )
        yield Choice(features, pick.picked)


def fit(choices: Sequence[Choice]) -> Floats:
    """Return the weights of a linear index, lowest first, by a conditional logit with a small ridge.

    The largest weight is `LARGEST_OF_INDEX`: an order depends on ratios of weights alone.
    """
    weights = np.zeros(N_FEATURES)
    for _ in range(100):
        gradient, curvature = RIDGE * len(choices) * weights, RIDGE * len(choices) * np.eye(N_FEATURES)
        for features, picked in choices:
            scores = features @ weights
            share = np.exp(scores - scores.max())
            share /= share.sum()
            mean = share @ features
            gradient += mean - features[picked]
            centred = features - mean
            curvature += (centred * share[:, None]).T @ centred
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.max(np.abs(step)) < 1e-9:
            break
    largest = float(np.max(np.abs(weights)))
    return -weights * (LARGEST_OF_INDEX / largest if largest > 0 else 0.0)


def agreement_of(weights: Floats, choices: Sequence[Choice]) -> float:
    """Return in which share of the choices an index picks the same job; NaN without any."""
    same = [int(np.argmin(features @ weights)) == picked for features, picked in choices]
    return float(np.mean(same)) if same else float("nan")


def write_index(path: Path, weights: Floats, network: Model) -> None:
    """Write a linear index as a model file.

    Parameters
    ----------
    network
        The network that it stands for: it was trained where that was.
    """
    from hdrl.agents import make_agent
    from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint

    backfilling = str(network.environment["arguments"].get("backfilling", ""))
    order = backfilling if backfilling in EASY_ORDERS else "easy_priority"
    kind = IndexKind(FORM, gate=False, predictor=PREDICTOR, backfilling=order)
    agent = make_agent("cma_es", *index_spaces(kind.n_weights, LARGEST_WEIGHT))
    offsets = -first_weights(kind.form)
    offsets[:N_FEATURES] += weights
    agent.load_weights({"weights": offsets})
    arguments = asdict(kind)
    notes: dict[str, Any] = {"api": "learning", "distilled_sha256": sha256_of_file(network.path)}
    if network.trained_on:
        notes["trained_on"] = dict(network.trained_on)
    environment = {"id": JOB_INDEX_ID, "arguments": arguments}
    save_checkpoint(path, checkpoint_of(agent, "cma_es", environment=environment, notes=notes))
