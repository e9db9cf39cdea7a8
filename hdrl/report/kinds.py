"""The pictures by name, and one function that reads runs, draws them and saves a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdrl.errors import OptionsError, OutputError, UnknownName
from hdrl.report.groups import with_labels
from hdrl.report.runs import LABELS, read_runs
from hdrl.report.style import check_format, require_matplotlib

RUNS, TRAININGS, COMPARISON = "runs", "trainings", "comparison"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of picture.

    Attributes
    ----------
    help
        What it shows, in a line.
    reads
        What it is made of: ``"runs"``, ``"trainings"`` or a ``"comparison"``.
    max_runs
        How many it can show.
    choices
        Which of the options ``by`` and ``of`` it takes.
    """

    help: str
    reads: str = RUNS
    max_runs: int = 16
    choices: tuple[str, ...] = ()


KINDS = {
    "gantt": Kind("which job had which cores when, with the ids of jobs where there is room", RUNS, 6, ("by",)),
    "gantt_no_label": Kind("the same without ids", RUNS, 6, ("by",)),
    "queue_size": Kind("waiting jobs over time"),
    "utilization": Kind("share of the cores in use over time"),
    "power": Kind("power of all hosts over time"),
    "lifecycle": Kind("how long each job waited and ran", RUNS, 6),
    "core_bubbles": Kind("when the job chosen next found too few free cores"),
    "mem_bubbles": Kind("when the job chosen next found too little memory"),
    "mem_bw_overutilization": Kind("when the memory bandwidth of which processor was over-committed", RUNS, 6),
    "losses": Kind("loss of each update of a training", TRAININGS),
    "rewards": Kind("sum of the rewards of each episode of a training", TRAININGS),
    "makespans": Kind("makespan of each episode of a training", TRAININGS),
    "action_preferences": Kind("how probable each action was while an agent learnt", TRAININGS, 1),
    "slowdown_cdf": Kind("cumulative distribution of the bounded slowdown", RUNS, 16, ("of",)),
    "groups": Kind("bounded slowdown by size, user, ... of the jobs", RUNS, 6, ("by", "of")),
    "comparison": Kind("metrics of a comparison with their intervals", COMPARISON, 1, ("of",)),
}
"""Every kind of picture by name."""


def draw(
    kind: str,
    folders: Sequence[str | Path],
    *,
    names: Sequence[str] = (),
    by: str | None = None,
    of: str | None = None,
    workload: str | Path | None = None,
) -> Any:
    """Return the figure of one kind.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    folders
        Folders of runs, at least one.
    names
        A name for each run; those of the folders by default.
    by
        What groups jobs (one of `hdrl.report.groups.GROUPINGS`), for kinds that do.
    of
        Which number of the jobs (a key of `hdrl.report.data.JOB_VALUES`), or which metric, for kinds that show one.
    workload
        The workload of the runs, if ``by`` is something that only a workload knows and the run does not find it.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    UnknownName
        If the kind, ``by`` or ``of`` is unknown.
    OptionsError
        If the kind takes no such choice, or not so many runs.
    ReadError
        If a folder is no run, or has not the files that this kind is made of.
    MissingExtra
        If matplotlib is missing.
    """
    if kind not in KINDS:
        raise UnknownName("kind of picture", kind, KINDS)
    known = KINDS[kind]
    choices = {name: value for name, value in (("by", by), ("of", of)) if value is not None}
    for name in choices:
        if name not in known.choices:
            takers = ", ".join(other for other, one in KINDS.items() if name in one.choices)
            raise OptionsError(f"{kind} takes no --{name}; these do: {takers}")
    if not folders:
        raise OptionsError(f"{kind} needs a folder to show")
    require_matplotlib()
    from hdrl.report import figures

    function = getattr(figures, kind)
    if known.reads != RUNS:
        if names:
            raise OptionsError(f"{kind} takes no names")
        _check_number(kind, len(folders), known.max_runs)
        given = [Path(folder) for folder in folders]
        return function(given if known.reads == TRAININGS else given[0], **choices)
    runs = read_runs(folders, names)
    _check_number(kind, len(runs), known.max_runs)
    if by in LABELS:
        runs = [with_labels(run, workload) for run in runs]
    return function(runs, **choices)


def plot(kind: str, folders: Sequence[str | Path], out: str | Path | None = None, **choices: Any) -> Path:
    """Draw runs and save the picture.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    folders
        Folders of runs, at least one.
    out
        The file; its name asks for the format (png, svg, pdf), and it is replaced if it is there. By default
        ``<kind>.png`` in the current folder, which must be new.
    **choices
        As in `draw`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    HdrlError
        If something that was given is wrong, see `draw`, or the file cannot be written.
    """
    path = Path(f"{kind}.png" if out is None else out)
    check_format(path)
    if out is None and path.exists():
        raise OutputError(f"{path}: exists already, and only a file that is named (-s FILE) is replaced")
    figure = draw(kind, folders, **choices)
    from hdrl.report.style import save

    save(figure, path)
    return path


def _check_number(kind: str, n_runs: int, max_runs: int) -> None:
    if n_runs > max_runs:
        raise OptionsError(f"{kind} shows at most {max_runs} run{'s' * (max_runs > 1)}, not {n_runs}")
