"""Claims about advisors that are more than one comparison: a function each, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hdrl.registry import Registry
from hdrl.setting import Place, Playable, ReproduceProtocol
from hdrl.settings.adaptation.load import jobs_of
from hdrl.settings.adaptation.machine import read_device
from hdrl.settings.adaptation.table import read_table

PROTOCOLS: Registry[ReproduceProtocol] = Registry("protocol")

PUBLISHED: Mapping[str, tuple[str, str]] = {
    "early": ("convnet2_early", "110"),
    "late": ("convnet2_late", "011"),
    "late to early, its own weights": ("convnet2_early", "101"),
    "late to early, its parent's weights": ("convnet2_early", "111"),
    "late to early, its own weights, on late": ("convnet2_late", "011"),
    "early to late at T 10, its own weights": ("convnet2_late", "011"),
    "early to late at T 10, its parent's weights": ("convnet2_late", "001"),
}
"""What agents of ChamiLamelas' advisor do, by how they were trained and by which weights they were judged: table and
sequence. What was published of transferred agents is what their parents' weights do."""


@PROTOCOLS.register("adaptation-tables")
def adaptation_tables(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return the best, the mean and the unadapted accuracy of each table, and the ranks of published agents.

    Parameters
    ----------
    traces
        Holds the ten tables.
    models
        Not used: a protocol of tables.

    References
    ----------
    ChamiLamelas, DNN adaptation for ML schedulers, simulation data and published runs.
    """
    del models
    tables = {table.name: table for table in map(read_table, traces.values())}
    found: dict[Place, float] = {}
    for name, table in tables.items():
        found[name, "best"] = table.best
        found[name, "never"] = float(table.expected[table.never])
        found[name, "mean"] = float(table.expected.mean())
    for agent, (name, digits) in PUBLISHED.items():
        table = tables[name]
        accuracy = float(table.expected[table.sequence([int(digit) for digit in digits])])
        found[agent, "accuracy"] = accuracy
        found[agent, "rank"] = float(table.rank(accuracy))
    return found


@PROTOCOLS.register("adaptation-ranks")
def adaptation_ranks(traces: Mapping[str, Path], models: Sequence[Playable]) -> dict[Place, float]:
    """Return the rank that each model reaches on each table: a row of the matrix of transfers.

    Parameters
    ----------
    traces
        Holds tables.
    models
        The models of one training, by seed.
    """
    found: dict[Place, float] = {}
    for path in traces.values():
        table = read_table(path)
        device, load = read_device(table.device), jobs_of(table.name, [table], 1)
        for number, model in enumerate(models):
            trace = model.play(device, load)
            found[f"model {number}", table.name] = float(trace.outcomes["rank"][0])
    return found
