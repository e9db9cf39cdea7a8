"""Simulating a few windows of a result again, and asking what its entry knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrl.bench.divisions import Known, knowledge, world_of
from hdrl.bench.results import BenchResult, read_result
from hdrl.bench.tasks import Named, read_task
from hdrl.experiment.compare.points import Point, PointRunner
from hdrl.experiment.compare.pointstore import number_as_json
from hdrl.setting import setting_ref


def replay(result: BenchResult, named: Named, windows: Sequence[int], *, runs_python: bool) -> dict[str, Any]:
    """Simulate windows of a task again, under the entry and the baseline.

    Parameters
    ----------
    windows
        Numbers of the windows, in the order of the cases.
    runs_python
        True if the Python file of an entry may run in this process.

    Returns
    -------
    dict
        ``rows``: for each of them the window's number, the name of the candidate, the number of the seed, metrics and
        problem. ``known``: what the entry knows, as pairs.
    """
    world = world_of(named, result.sweep(named))
    plan = world.plan
    candidates = [one for one in (world.baseline(), world.candidate()) if runs_python or not one.is_file]
    place = setting_ref(plan.request.setting_name, plan.request.folder)
    runner = PointRunner(place, plan.request, plan.machine, plan.loads, world.cases, tuple(candidates))
    points = [
        Point(window, who, seed)
        for window in windows
        for who, one in enumerate(candidates)
        for seed in range(one.n_seeds)
    ]
    rows = [
        {
            "window": point.case,
            "candidate": candidates[point.candidate].name,
            "seed": point.seed,
            "metrics": {name: number_as_json(value) for name, value in found.metrics.items()},
            "problem": found.problem,
        }
        for point, found in zip(points, runner(points), strict=True)
    ]
    known = knowledge(world, runs_python=runs_python)
    return {"rows": rows, "known": [list(one) for one in known], "problem": ""}


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of `replay`, at the request of another process.

    Parameters
    ----------
    request
        ``folder``, ``task`` and ``windows``.
    """
    result = read_result(Path(request["folder"]))
    return replay(result, read_task(request["task"]), request["windows"], runs_python=True)


def known_of(found: Mapping[str, Any]) -> list[Known]:
    """Return the information that the entry uses, from an answer."""
    return [Known(kind, words) for kind, words in found.get("known", ())]
