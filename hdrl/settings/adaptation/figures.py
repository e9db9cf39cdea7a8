"""Figures of adaptations: accuracy and regret over time, and ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hdrl.base.errors import OptionsError
from hdrl.figures.figure import SUMMARY, Figure, OnPage, by_name
from hdrl.figures.over_time import over_time
from hdrl.figures.steps import StepFunction
from hdrl.figures.style import FAINT, GRID, WIDTH_IN, canvas, colour, legend, run_label
from hdrl.figures.tables import TABLE_FIGURES
from hdrl.settings.adaptation.files import SEQUENCES_FILE, AdaptationRun, Sequences
from hdrl.settings.adaptation.metrics import regret_so_far


def anytime(runs: Sequence[AdaptationRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the mean regret of all jobs so far over the time of the device, search included."""
    steps = []
    for run in runs:
        end_s = run.tasks["end_s"]
        regret = regret_so_far(end_s, run.outcomes["best"] - run.outcomes["expected"])
        steps.append(StepFunction(end_s, regret[:-1]))
    return over_time(runs, steps, title="Regret so far", quantity="mean regret (accuracy)", positions=positions, ax=ax)


def accuracies(runs: Sequence[AdaptationRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the mean accuracy on each table, a point for each run, with the best and its standard deviation."""
    figure, (part,) = canvas(ax, 1, size_in=(WIDTH_IN, 3.4))
    names = sorted({name for run in runs for name in run.job_tables})
    for number, run in enumerate(runs):
        on = np.array(run.job_tables)
        means = [float(run.outcomes["test"][on == name].mean()) if (on == name).any() else np.nan for name in names]
        spread = [float(run.outcomes["test"][on == name].std()) if (on == name).any() else np.nan for name in names]
        x = np.arange(len(names)) + 0.6 * ((number + 0.5) / len(runs) - 0.5)
        shade = colour(number if positions is None else positions[number])
        part.errorbar(x, means, yerr=spread, fmt="o", markersize=4, color=shade, label=run_label(run, runs))
    for position, name in enumerate(names):
        best = max(float(run.outcomes["best"][np.array(run.job_tables) == name].max(initial=0.0)) for run in runs)
        part.hlines(best, position - 0.4, position + 0.4, colors="0.6", linewidth=1, zorder=0)
    part.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
    part.set_ylabel("test accuracy")
    part.set_title("Accuracy; lines: the best sequence in the mean", loc="left", fontsize=10)
    legend(part, len(runs))
    return figure


def ranks(runs: Sequence[AdaptationRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the cumulative distribution of the jobs' ranks among all sequences."""
    figure, (part,) = canvas(ax, 1, size_in=(WIDTH_IN, 3.2))
    for number, run in enumerate(runs):
        rank = np.sort(run.outcomes["rank"])
        shares = np.arange(1, len(rank) + 1) / len(rank)
        shade = colour(number if positions is None else positions[number])
        part.step(rank, shares, where="post", color=shade, label=run_label(run, runs))
    part.set_xlabel("rank of the sequence")
    part.set_ylabel("share of jobs")
    part.set_ylim(0.0, 1.02)
    part.set_title("Ranks", loc="left", fontsize=10)
    legend(part, len(runs))
    return figure


MAX_TABLES = 12
"""Tables that the picture of sequences shows at most, by name."""

N_COLUMNS = 3


def sequences(runs: Sequence[AdaptationRun], ax: Any = None, *, positions: Sequence[int] | None = None) -> Any:
    """Draw the accuracy of every sequence of each table by its rank, and mark what each run did most often."""
    # Tables of one name may differ: each has a part of its own.
    known = {_key(name, found): found for run in runs for name, found in run.sequences.items()}
    tables = sorted(known)[:MAX_TABLES]
    if not tables:
        raise OptionsError(f"{runs[0].name}: holds no {SEQUENCES_FILE}, as runs of older versions do not")
    n_columns = min(N_COLUMNS, len(tables))
    n_rows = math.ceil(len(tables) / n_columns)
    figure, axes = canvas(ax, n_rows, n_columns, size_in=(WIDTH_IN, 0.8 + 2.6 * n_rows))
    for part in axes[len(tables) :]:
        part.set_visible(False)
    for part, table in zip(axes, tables, strict=False):
        _draw_sequences(part, known[table])
        _mark_choices(part, table, known[table], runs, range(len(runs)) if positions is None else positions)
        part.set_title(table[0], loc="left", fontsize=9)
    for part in axes[::n_columns]:
        part.set_ylabel("test accuracy")
    for part in axes[max(0, len(tables) - n_columns) : len(tables)]:
        part.set_xlabel("rank of the sequence")
    lines = [line for part in axes for line in part.get_lines() if not str(line.get_label()).startswith("_")]
    handles = {line.get_label(): line for line in lines}  # a run need not have jobs of every table
    legend(axes[n_columns - 1], len(handles), handles=list(handles.values()))
    return figure


_Key = tuple[str, tuple[str, ...], tuple[float, ...]]


def _key(name: str, found: Sequences) -> _Key:
    return name, found.actions, tuple(found.test.tolist())


def _draw_sequences(ax: Any, found: Sequences) -> None:
    x = np.arange(1, len(found.test) + 1)
    ax.fill_between(x, found.test - found.test_std, found.test + found.test_std, color=GRID, linewidth=0, zorder=0)
    ax.plot(x, found.test, ".", color=FAINT, markersize=3, zorder=1)


def _mark_choices(
    ax: Any, table: _Key, found: Sequences, runs: Sequence[AdaptationRun], positions: Sequence[int]
) -> None:
    """Mark the actions that runs chose for most of the last jobs of a table; equal choices are nested rings."""
    shown = set()
    name = table[0]
    for number, run in enumerate(runs):
        is_on = name in run.sequences and _key(name, run.sequences[name]) == table
        done = [actions for one, actions in zip(run.job_tables, run.actions, strict=True) if one == name and actions]
        if not is_on or not done:
            continue
        actions, _ = Counter(done[-max(1, len(done) // 10) :]).most_common(1)[0]
        at, shade = found.actions.index(actions), colour(positions[number])
        size = 6.0 + 9.0 * (len(runs) - 1 - number) / len(runs)
        ax.plot([at + 1], [found.test[at]], "o", color=shade, markersize=size, zorder=3, label=run_label(run, runs))
        if actions not in shown:
            spot = (at + 1, found.test[at])
            ax.annotate(actions, spot, xytext=(5, 5), textcoords="offset points", fontsize=8, color=shade)
        shown.add(actions)


FIGURES = by_name(
    Figure("anytime", "mean regret of the jobs so far over time", anytime, on_page=(OnPage(SUMMARY, "Regret so far"),)),
    Figure("accuracies", "accuracy on each table", accuracies, on_page=(OnPage("Accuracy", "Accuracy on each table"),)),
    Figure("ranks", "ranks among all sequences", ranks, on_page=(OnPage("Accuracy", "Ranks"),)),
    Figure(
        "sequences",
        "accuracy of every sequence by its rank, with the last choices of runs",
        sequences,
        needs=(SEQUENCES_FILE,),
        on_page=(OnPage("Accuracy", "Every sequence, and what was done last"),),
    ),
    *TABLE_FIGURES.values(),
)
"""All of them by name."""
