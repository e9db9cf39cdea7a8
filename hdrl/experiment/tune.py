"""Tuning: evolve an index on a log's first part, judge it once on its last part, recommend what won.

Nothing here depends on the clock: how much is evolved follows from the size of the log and the minutes of the request,
by a rate that was measured once (`SIMULATED_PER_S`), so that the same request gives the same bytes everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hdrl.base.errors import OptionsError
from hdrl.base.files import without_nan, write_json
from hdrl.base.hashing import sha256_of_file
from hdrl.experiment.compare.comparison import CompareProgress, run_comparison
from hdrl.experiment.compare.files import Comparison
from hdrl.experiment.compare.summary import SummaryRow, deciding_rows
from hdrl.experiment.compare.verdict import is_better, ratio_words, tail_words
from hdrl.experiment.experiment import run_experiment
from hdrl.experiment.plan import plan_of
from hdrl.experiment.run.folder import claim_folder
from hdrl.experiment.run.inputs import make_sweep, parse_options
from hdrl.experiment.run.manifest import write_manifest
from hdrl.experiment.run.progress import Progress, quiet
from hdrl.experiment.train.averaging import average_models, untrained_model
from hdrl.experiment.train.learning import require_torch
from hdrl.metrics.words import metric_words
from hdrl.options.sweep import Sweep

__all__ = ["Budget", "TuneRequest", "TuneProgress", "Tuned", "budget_of", "recommend", "tune"]

EVOLVED, TRAININGS, UNTRAINED, SHIPPED = "evolved", "trainings", "untrained", "es-pausing"
METRIC = "mean_bounded_slowdown"

LEARNED_UNTIL, JUDGED_FROM = 0.6, 0.7
"""Shares of the log: what is before the first evolves and chooses, what is behind the second judges, once."""

LENGTHS = (1024, 512, 256)
"""Jobs of a window: the first of which the last part has `USUAL_WINDOWS`, or else the last."""

USUAL_WINDOWS, FEWEST_WINDOWS = 20, 8
"""Fewer windows than the second show no difference, however large, once p is adjusted for the claims of the table."""

POPULATION, WINDOWS_OF_A_GENERATION = 14, 8
FEWEST_GENERATIONS, MOST_GENERATIONS = 5, 100

N_CLASSICS = 102
"""Classic policies among which one is chosen: 51 by requested times, 51 by predicted ones."""

MOST_CHOOSING = 40_000
"""Of how many jobs of the first part, the last ones, windows choose the best classic policy."""

SIMULATED_PER_S, STARTING_S = 200_000, 10
"""Jobs that two cores simulate in a second, and seconds until processes have started, to compute the budget."""

USUAL_SEEDS, FEWER_SEEDS, USUAL_GENERATIONS = 10, 5, 30
"""Trainings that are averaged: the usual number if each then has the usual generations, else the fewer."""

FEW_JOBS = 2_000_000
"""Up to this many simulated jobs of a table, starting processes takes longer than they save."""

TUNE_FILE, RECOMMENDATION_FILE, RUN_FILE, EVOLVED_FILE = "tune.json", "recommendation.json", "run.json", "evolved.pt"
JUDGED, PAGE_FILE, UNTRAINED_FILE = "judged", "report.html", "untrained.pt"

FILES = (TUNE_FILE, RECOMMENDATION_FILE, RUN_FILE, EVOLVED_FILE, UNTRAINED_FILE, PAGE_FILE)
"""Files that a tuning writes besides its trainings and comparisons; `launcher.tune` makes the page."""


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """Subject and budget of a tuning.

    Attributes
    ----------
    log
        The log, an absolute path or the name of a shipped one.
    platform
        Its machine: a file, a name, or ``homogeneous:<cores>``.
    minutes
        For which time on two cores the budget is made.
    n_seeds, seed
        Number of averaged trainings (``None``: as many as fit), and the seed of the first.
    """

    log: str
    platform: str
    minutes: float = 2.0
    n_seeds: int | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Budget:
    """Size of a tuning on its log.

    Attributes
    ----------
    n_jobs
        Jobs of the log that its machine can run.
    length, n_windows
        Jobs of a window, and the windows of the last part.
    n_seeds, n_generations
        Numbers of trainings, and of generations of each.
    choosing
        Shares of the log between which windows choose the best classic policy.
    n_simulated
        About how many jobs are simulated in all.
    """

    n_jobs: int
    length: int
    n_windows: int
    n_seeds: int
    n_generations: int
    choosing: tuple[float, float]
    n_simulated: int

    @property
    def estimated_s(self) -> float:
        """Estimated time on two cores, in seconds."""
        return STARTING_S + self.n_simulated / SIMULATED_PER_S


def budget_of(request: TuneRequest, n_jobs: int) -> Budget:
    """Return the budget of a request.

    Raises
    ------
    OptionsError
        If the log is too short.
    """
    judged = n_jobs - math.floor(JUDGED_FROM * n_jobs)
    shortest = LENGTHS[-1]
    if judged // shortest < FEWEST_WINDOWS:
        needed = math.ceil(FEWEST_WINDOWS * shortest / (1 - JUDGED_FROM))
        raise OptionsError(
            f"{request.log}: has {n_jobs:,} jobs, expected at least {needed:,}: the last "
            f"{1 - JUDGED_FROM:.0%} must hold {FEWEST_WINDOWS} windows of {shortest} jobs to show anything"
        )
    length = next((one for one in LENGTHS if judged // one >= USUAL_WINDOWS), shortest)
    n_windows = judged // length
    choosing_jobs = min(MOST_CHOOSING, math.floor(LEARNED_UNTIL * n_jobs))
    choosing_from = max(0.0, round(LEARNED_UNTIL - choosing_jobs / n_jobs, 4))
    generation = (POPULATION + 1) * WINDOWS_OF_A_GENERATION * length  # the reference is simulated, too
    affordable = (request.minutes * 60 - STARTING_S) * SIMULATED_PER_S - N_CLASSICS * choosing_jobs
    n_seeds = request.n_seeds
    if n_seeds is None:
        is_enough = affordable >= USUAL_SEEDS * USUAL_GENERATIONS * generation
        n_seeds = USUAL_SEEDS if is_enough else FEWER_SEEDS
    n_generations = min(max(math.floor(affordable / (n_seeds * generation)), FEWEST_GENERATIONS), MOST_GENERATIONS)
    judging = 3 * (n_seeds + 6) * n_windows * length  # three tables of at most these policies and trainings
    n_simulated = N_CLASSICS * choosing_jobs + n_seeds * n_generations * generation + judging
    choosing = (choosing_from, LEARNED_UNTIL)
    return Budget(n_jobs, length, n_windows, n_seeds, n_generations, choosing, n_simulated)


@dataclass(frozen=True, slots=True)
class Tuned:
    """Result of a tuning.

    Attributes
    ----------
    folder
        Its folder.
    recommended
        The policy that won: its name, or `EVOLVED`.
    why
        Why, in a sentence.
    classics
        The best classic policy of the first part by requested times, then those by predictions.
    comparisons
        The tables of the last part by their baseline: every policy that is simpler than another one.
    command
        Command that runs the winner, from the folder.
    """

    folder: Path
    recommended: str
    why: str
    classics: tuple[str, ...]
    comparisons: Mapping[str, Comparison]
    command: tuple[str, ...]

    @property
    def main(self) -> Comparison:
        """The table whose ratios refer to the best classic policy."""
        return self.comparisons[self.classics[0]]


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """Progress callbacks of a tuning.

    Attributes
    ----------
    comparing, training
        Callbacks of its comparisons and trainings; messages go to the first.
    """

    comparing: CompareProgress = field(default_factory=CompareProgress)
    training: Progress = field(default_factory=Progress)


def tune(
    request: TuneRequest, *, out: str | Path, n_workers: int | None = None, progress: TuneProgress | None = None
) -> Tuned | None:
    """Evolve, choose the best classic policy, judge, and recommend; the same call goes on after an interruption.

    The folder holds the models (``models/<seed>``, their mean ``evolved.pt``, ``untrained.pt``), the choice of the
    classic policy (``choice``), the tables of the last part (``judged/classic`` and so on, folders of comparisons),
    ``run.json`` with ``recommendation.json``, which says what won and how to run it.

    Parameters
    ----------
    out
        The folder: new, empty, or of the same tuning.
    n_workers
        Processes that compare; trainings use all cores. Results do not depend on it.

    Returns
    -------
    Tuned or None
        The result; ``None`` if `progress` stopped it.

    Raises
    ------
    HdrlError
        If the log, the machine or the folder is wrong.
    """
    require_torch()
    out, progress = Path(out), progress or TuneProgress()
    plan = plan_of(_sweep(request, out, [SHIPPED], SHIPPED))
    budget = budget_of(request, plan.load.n_items)
    _take(out, request, budget, plan.load.sha256())
    tell = progress.comparing.message
    tell(
        f"{budget.n_jobs:,} jobs: {budget.n_seeds} trainings of {budget.n_generations} generations, judged by "
        f"{budget.n_windows} windows of {budget.length} jobs; about {_duration(budget.estimated_s)} on two cores"
    )

    tell("choosing the best classic policy on the first part:")
    begin, end = budget.choosing
    looked_at = {"range": [LEARNED_UNTIL, JUDGED_FROM], "windows": {"length": budget.length}}
    choice = _sweep(request, out, [SHIPPED], f"best:{begin}:{end}", **looked_at)
    # What it warns of concerns the few windows that are looked at, and nothing is concluded from them.
    silent = replace(progress.comparing, message=quiet)
    chosen = run_comparison(choice, out=out / "choice", n_workers=n_workers, progress=silent)
    classics = tuple(dict.fromkeys((chosen.baseline, *(peer.name for peer in chosen.peer_baselines))))

    models = []
    for number in range(budget.n_seeds):
        seed = request.seed + number
        tell(f"training {number + 1} of {budget.n_seeds}:")
        model = _train(request, budget, chosen.baseline, seed, out, progress.training)
        if model is None:
            return None
        models.append(model)
    average_models(models, out / EVOLVED_FILE, force=True)
    untrained_model(models[0], out / UNTRAINED_FILE)

    tell(f"judging on the last {1 - JUDGED_FROM:.0%}:")
    ours = [f"{EVOLVED}={EVOLVED_FILE}", f"{TRAININGS}=models/*/model.pt"]
    learned = [SHIPPED, f"{UNTRAINED}={UNTRAINED_FILE}", *ours]
    part = {"range": [JUDGED_FROM, 1.0], "windows": {"length": budget.length}}
    simple = (*classics, SHIPPED)
    n_judged = budget.n_windows * budget.length * (budget.n_seeds + 6)
    n_judging = 1 if n_workers is None and n_judged <= FEW_JOBS else n_workers
    tables = {}
    for position, baseline in enumerate(simple):
        rest = [*classics, *learned] if position == 0 else [*simple[position + 1 :], *ours]
        sweep = _sweep(request, out, [baseline, *rest], baseline, **part)
        folder = out / JUDGED / _label(baseline, classics)
        tables[baseline] = run_comparison(sweep, out=folder, n_workers=n_judging, progress=progress.comparing)
    return _written(request, budget, out, classics, tables)


def _label(policy: str, classics: Sequence[str]) -> str:
    """Return the folder of the table whose ratios refer to a policy."""
    names = ["classic", *(f"classic_{number}" for number in range(2, len(classics) + 1))]
    return dict(zip(classics, names, strict=True)).get(policy, "shipped")


def _sweep(request: TuneRequest, out: Path, candidates: Sequence[str], baseline: str, **more: Any) -> Sweep:
    data = {
        "platform": request.platform,
        "workloads": [request.log],
        "candidates": list(dict.fromkeys(candidates)),
        "baseline": baseline,
        "metrics": [METRIC],
        "seed": request.seed,
        "workload": {"memory": "none", "bandwidth": "none"},
    }
    return make_sweep(data | more, where="tune", folder=out)


def _take(out: Path, request: TuneRequest, budget: Budget, sha256: str) -> None:
    """Take a folder for a tuning, or find that it is that of the same one."""
    # Where the log lies is a matter of this machine.
    recorded = asdict(request) | {"log": Path(request.log).name, "platform": Path(request.platform).name}
    data = {"request": recorded, "budget": asdict(budget) | {"choosing": list(budget.choosing)}, "log_sha256": sha256}
    claim_folder(out, TUNE_FILE, data, "another tuning, expected a new folder, or the same log and options")


def _train(
    request: TuneRequest, budget: Budget, reference: str, seed: int, out: Path, progress: Progress
) -> Path | None:
    """Evolve once, or find that it was done; ``None`` if it was stopped."""
    folder = out / "models" / str(seed)
    model = folder / "model.pt"
    if (folder / "timing.json").is_file() and model.is_file():  # the last file of a training
        return model
    # The model plays what was looked at: what judges is left alone.
    learning = _learning(reference) | {
        "settings": {"sigma": 0.25, "averaging": 0.8},
        "n_envs": POPULATION,
        "iterations": budget.n_generations,
        "tensorboard": False,
        "episodes": {"n_jobs": budget.length, "train": [0.0, LEARNED_UNTIL], "test": [LEARNED_UNTIL, JUDGED_FROM]},
    }
    data = _options(request) | {"seed": seed, "learning": learning}
    options = parse_options(data, where="tune", folder=out)
    result = run_experiment(options, out=folder, progress=progress, resumes=folder.exists())
    if result.training is not None and not result.training.is_complete:
        return None
    return model


def _options(request: TuneRequest) -> dict[str, Any]:
    return {
        "seed": request.seed,
        "platform_file_path": request.platform,
        "workload_file_path": request.log,
        "energy": False,
        "workload": {"memory": "none", "bandwidth": "none"},
    }


def _learning(reference: str) -> dict[str, Any]:
    """Return the options of the evolution: the form of the shipped weights, against the best classic policy."""
    return {
        "environment": "job_index",
        "algorithm": "cma_es",
        "arguments": {
            "form": "pausing",
            "tail": 0.3,
            "n_windows": WINDOWS_OF_A_GENERATION,
            "objective": METRIC,
            "reference": reference,
        },
    }


def recommend(ranked: Sequence[str], tables: Mapping[str, Comparison]) -> str:
    """Return the winner: the simplest policy, unless another is shown to be better, and no tail of it to be worse.

    - ``ranked``: policies, the simplest first.
    - ``tables``: for each but the last, the table whose ratios refer to it.
    """
    winner = ranked[0]
    for name in ranked[1:]:
        if beats(tables[winner], name):
            winner = name
    return winner


def beats(table: Comparison, name: str) -> bool:
    """Return whether a candidate is shown to be better than a table's baseline, and no tail of it to be worse."""
    own = row_of(table, name, table.metric)
    if own.n_unfinished or is_better(own, table.metrics[table.metric]) is not True:
        return False
    return not any(is_better(row, table.metrics[row.metric]) is False for row in tail_rows(table, name))


def row_of(table: Comparison, name: str, metric: str) -> SummaryRow:
    """Return the row of a candidate over all windows."""
    return next(row for row in deciding_rows(table.rows, metric) if row.candidate == name)


def tail_rows(table: Comparison, name: str) -> list[SummaryRow]:
    """Return the rows of a candidate by metrics of the tail."""
    return [row_of(table, name, metric) for metric in table.tails]


def _written(
    request: TuneRequest, budget: Budget, out: Path, classics: Sequence[str], tables: Mapping[str, Comparison]
) -> Tuned:
    """Decide, and write it down."""
    ranked = (*classics, SHIPPED, EVOLVED)
    winner = recommend(ranked, tables)
    why = _recommendation_reason(winner, ranked, tables)
    run = _options(request)
    if winner == EVOLVED:
        run |= {
            "learning": _learning(classics[0]) | {"episodes": {"test": [0.0, 1.0]}},
            "pybatsim": {"agent": {"type": "LEARNING", "run": "test", "input_model": EVOLVED_FILE}},
        }
    write_json(out / RUN_FILE, run)
    command = ("hdrl-launch", RUN_FILE) if winner == EVOLVED else ("hdrl-launch", winner, RUN_FILE)
    main = tables[classics[0]]
    facts = [
        _facts(name, tables) for name in dict.fromkeys(row.candidate for row in deciding_rows(main.rows, main.metric))
    ]
    write_json(
        out / RECOMMENDATION_FILE,
        {
            "recommended": winner,
            "why": why,
            "command": list(command),
            "run_in": "this folder",
            "files": {EVOLVED: EVOLVED_FILE, "sha256": sha256_of_file(out / EVOLVED_FILE)},
            "log": Path(request.log).name,
            "platform": Path(request.platform).name,
            "metric": main.metric,
            "n_windows": budget.n_windows,
            "length": budget.length,
            "best_classics": list(classics),
            "shipped": SHIPPED,
            "policies": facts,
            "verdicts": {baseline: list(table.verdicts) for baseline, table in tables.items()},
            "warnings": list(dict.fromkeys(one.text for table in tables.values() for one in table.cautions)),
        },
    )
    write_manifest(out, FILES)
    return Tuned(out, winner, why, tuple(classics), tables, command)


def _facts(name: str, tables: Mapping[str, Comparison]) -> dict[str, Any]:
    """Return the ratios of a policy to every baseline, with intervals, for a file."""
    found = {}
    for baseline, table in tables.items():
        if name == baseline or name not in {row.candidate for row in table.rows}:
            continue
        rows = [row_of(table, name, table.metric), *tail_rows(table, name)]
        found[baseline] = {
            row.metric: without_nan({"ratio": row.ratio, "low": row.ratio_low, "high": row.ratio_high, "p": row.p_holm})
            for row in rows
        }
    return {"policy": name, "ratios_to": found}


def _recommendation_reason(winner: str, ranked: Sequence[str], tables: Mapping[str, Comparison]) -> str:
    """Say in a sentence why a policy is recommended, and what the more complicated ones came to against it."""
    position = ranked.index(winner)
    said = []
    if position:
        beaten = [one for one in ranked[:position] if beats(tables[one], winner)]
        said += [f"better than {one} ({_numbers(tables[one], winner)})" for one in beaten]
    for other in ranked[position + 1 :]:
        table = tables[winner]
        worse = [row for row in tail_rows(table, other) if is_better(row, table.metrics[row.metric]) is False]
        better = is_better(row_of(table, other, table.metric), table.metrics[table.metric])
        numbers = _numbers(table, other)
        if better is None:
            said.append(f"{other} shows no difference ({numbers})")
        elif better and worse:
            tails = ", ".join(f"{tail_words(row.metric)} {ratio_words(row)} times" for row in worse)
            said.append(f"{other} is better on the mean ({numbers}), but worse in the tail ({tails})")
        else:
            said.append(f"{other} {'left jobs unrun' if better else 'is worse'} ({numbers})")
    return "; ".join(said)


def _numbers(table: Comparison, name: str) -> str:
    row = row_of(table, name, table.metric)
    return f"{ratio_words(row)} times its {metric_words(table.metric)}"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} minutes"
