"""Loads from texts: sets of pipelines in files, all their configurations, or generated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hdrl.base.arguments import listed
from hdrl.base.errors import ReadError, WorkloadError
from hdrl.base.files import expanded
from hdrl.base.seeding import stream
from hdrl.base.textnumbers import float_of, int_of
from hdrl.settings.pipelines.loads.generate import PipelineModel, generate
from hdrl.settings.pipelines.loads.load import PipelineLoad, Times
from hdrl.settings.pipelines.loads.readers import MAX_CONFIGURATIONS, PipelineSet, read_set
from hdrl.settings.pipelines.loads.releases import MAX_INSTANCES, Context, ends_us, release
from hdrl.settings.pipelines.machine import Units
from hdrl.settings.pipelines.options import GENERATED

LoadLike: TypeAlias = PipelineLoad | str | Path

N_DEFAULT_LOADS = 16
"""Generated loads that episodes hold if no others are given."""


def load_of(
    found: PipelineSet,
    contexts: Sequence[Context],
    *,
    times: Times | None = None,
    spread: float = 0.0,
    seed: int = 0,
    name: str = "",
) -> PipelineLoad:
    """Return the load that a set of pipelines releases in successive contexts.

    ``spread`` and ``seed`` are those of sporadic releases, see `hdrl.settings.pipelines.loads.releases.release`.
    """
    random = stream(seed, "releases") if spread > 0.0 else None
    instances = release(found.pipelines, contexts, spread=spread, random=random)
    firsts = np.searchsorted(instances["release_us"], [0, *ends_us(contexts)[:-1]])
    periods = [[period / 1000 for period in context.periods_us] for context in contexts]
    shown = "/".join("-".join(f"{period:g}" for period in one) for one in periods)
    return PipelineLoad(
        name or f"{found.name}@{shown}",
        found.pipelines,
        instances,
        times or Times(),
        {"set": found.name, "periods_ms": periods, "spread": spread, "seed": seed},
        _firsts(firsts.tolist(), len(instances)),
    )


def _firsts(positions: Sequence[int], n_items: int) -> tuple[int, ...]:
    """Return each of the positions once; a context that is too short to release anything has none."""
    return tuple(sorted({0, *(position for position in positions if position < n_items)}))


def all_configurations(found: PipelineSet) -> list[PipelineLoad]:
    """Return a load of one hyperperiod for every combination of periods, the last pipeline's changing fastest."""
    return [load_of(found, [Context(periods)]) for periods in found.configurations()]


def generated_load(
    model: PipelineModel,
    *,
    seed: int,
    times: Times | None = None,
    spread: float = 0.0,
    length_us: int = 0,
    n_items: int = 0,
) -> PipelineLoad:
    """Return a load by a model.

    Parameters
    ----------
    spread
        Of sporadic releases, see `hdrl.settings.pipelines.loads.releases.release`; 0: strictly periodic ones.
    length_us
        Time in which instances are released, in microseconds; 0: one hyperperiod.
    n_items
        Number of instances, instead of a length; 0: as many as arrive.
    """
    found = generate(model, stream(seed, "pipelines"), f"{GENERATED}-{model.utilization:g}-{seed}")
    periods = found.configuration(0)
    if n_items > 0:
        # With a spread, releases come at most so much more slowly.
        length_us = int((n_items / sum(1 / period for period in periods) + max(periods)) * (1.0 + spread))
    load = load_of(found, [Context(periods, length_us)], times=times, spread=spread, seed=seed, name=found.name)
    return load.window(0, n_items) if n_items > 0 else load


def generated_loads(
    model: PipelineModel,
    *,
    seed: int,
    n_sets: int,
    utilizations: Sequence[float] = (),
    shortest: float = 1.0,
    spread: float = 0.0,
    length_us: int = 0,
) -> list[PipelineLoad]:
    """Return several loads by a model: sets of consecutive seeds, each at all utilisations before the next one comes.

    So a share of them holds whole seeds at all utilisations: agents that learn on the first ones are judged by others.

    Parameters
    ----------
    spread
        Of sporadic releases, see `hdrl.settings.pipelines.loads.releases.release`; 0: strictly periodic ones.
    length_us
        Time in which instances of each are released, in microseconds; 0: one hyperperiod.

    Raises
    ------
    WorkloadError
        If there are too many, or the model cannot be followed.
    """
    n_loads = n_sets * max(1, len(utilizations))
    if n_loads > MAX_CONFIGURATIONS:
        raise WorkloadError(
            f"{n_sets:,} sets at {len(utilizations):,} utilisations are {n_loads:,} loads, more than "
            f"{MAX_CONFIGURATIONS:,}; choose fewer"
        )
    return [
        generated_load(
            replace(model, utilization=one),
            seed=number,
            times=Times(shortest, number),
            spread=spread,
            length_us=length_us,
        )
        for number in range(seed, seed + n_sets)
        for one in utilizations or (model.utilization,)
    ]


def in_a_row(loads: Sequence[PipelineLoad], name: str, times: Times | None = None) -> PipelineLoad:
    """Return one load in which others follow each other: each begins when the last period of the one before ends."""
    n_instances = sum(load.n_items for load in loads)
    if n_instances > MAX_INSTANCES:
        raise WorkloadError(f"{len(loads)} sets release {n_instances:,} instances, more than {MAX_INSTANCES:,}")
    tables: list[NDArray[np.void]] = []
    firsts: list[int] = []
    n_before, first_us, first_pipeline = 0, 0, 0
    for load in loads:
        table = load.instances.copy()
        table["release_us"] += first_us
        table["deadline_us"] += first_us
        table["pipeline"] += first_pipeline
        firsts += [n_before + first for first in load.first_items]
        n_before += load.n_items
        tables.append(table)
        first_us = int((table["release_us"] + table["period_us"]).max())
        first_pipeline += len(load.pipelines)
    pipelines = [replace(one, name=f"{load.name}.{one.name}") for load in loads for one in load.pipelines]
    spread = max(load.origin.get("spread", 0.0) for load in loads)
    origin: dict[str, Any] = {"sets": [load.name for load in loads], **({"spread": spread} if spread > 0.0 else {})}
    return PipelineLoad(name, tuple(pipelines), np.concatenate(tables), times or Times(), origin, tuple(firsts))


def loads_of(text: str | Path, folder: Path = Path()) -> list[PipelineLoad]:
    """Return the loads that a text stands for: all configurations of a set in a file, or one generated load.

    Parameters
    ----------
    text
        A file that `hdrl.settings.pipelines.loads.readers.read_set` reads; ``"generated"``: the default model;
        ``"generated:0.8"``: with a utilisation, ``"generated:0.8:7"`` and a seed.
    """
    if isinstance(text, str) and text.partition(":")[0] == GENERATED:
        return [_generated(text)]
    return all_configurations(read_set(file_of(text, folder)))


def read_loads(load: LoadLike | Sequence[LoadLike] | None, machine: Units) -> list[PipelineLoad]:
    """Return the loads of an environment, see `loads_of`.

    Without a load these are sets of two pipelines for each unit that need 0.8 of all units. Raise OptionsError if there
    are none.
    """
    if load is None:
        model = PipelineModel(utilization=0.8, n_units=machine.n_units, n_pipelines=2 * machine.n_units)
        return [generated_load(model, seed=seed) for seed in range(N_DEFAULT_LOADS)]
    given = listed("load", load, (PipelineLoad, str, Path), "'generated', a file, or a PipelineLoad")
    return [one for text in given for one in ([text] if isinstance(text, PipelineLoad) else loads_of(text))]


def file_of(text: str | Path, folder: Path) -> Path:
    """Return the file of a set that options name, relative to a folder.

    Raise ReadError if it is missing: the word for generated pipelines may have been meant.
    """
    path = folder / expanded(text)
    if not path.exists():
        raise ReadError(path, f"no such file; generated pipelines are {GENERATED!r}")
    return path


def _generated(text: str) -> PipelineLoad:
    parts = text.split(":")[1:]
    try:
        utilization = float_of(parts[0]) if parts else 0.5
        seed = int_of(parts[1]) if len(parts) > 1 else 0
        if len(parts) > 2 or seed < 0:
            raise ValueError(text)
    except ValueError:
        raise WorkloadError(
            f"load is {text!r}, expected generated:<utilisation>:<seed>, such as generated:0.8:7"
        ) from None
    return generated_load(PipelineModel(utilization=utilization), seed=seed)
