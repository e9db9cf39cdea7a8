"""Shipped families, and what is judged on those that a training has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdrl.base.errors import OptionsError
from hdrl.experiments import adaptation_unseen as unseen
from hdrl.settings.adaptation.inputs import FAMILIES, family_of, find_tables, shipped_tables
from hdrl.settings.adaptation.models import describe
from hdrl.settings.adaptation.table import Table

from .made_tables import Plays

NAMES = ("clusters", "digits", "shapes", "signals")


def tables(text: str) -> list[Table]:
    return find_tables(text, Path(text), "options.json: workload")


def test_families_share_no_data_no_networks_and_no_starts() -> None:
    found = tables(FAMILIES)
    assert len(found) == len(shipped_tables(FAMILIES)) == 16
    assert sorted({family_of(table.name) for table in found}) == list(NAMES)
    for what in (
        lambda table: table.data.partition(":")[0],
        lambda table: tuple(describe(table.model)),
        lambda table: table.scenario,
    ):
        owners: dict[Any, set[str]] = {}
        for table in found:
            owners.setdefault(what(table), set()).add(family_of(table.name))
        assert {len(families) for families in owners.values()} == {1}
    assert all((table.n_draws, table.n_sequences, bool(table.rungs)) == (10, 64, True) for table in found)


def test_workloads_name_families_and_all_but_one() -> None:
    some, others = tables("families/digits_*"), tables("families/!digits_*")
    assert [len(some), len(others)] == [4, 12]
    assert {family_of(table.name) for table in others} == set(NAMES) - {"digits"}
    assert len(tables("tables")) == len(tables("!nothing")) == 4  # what is in folders is asked for by their names
    with pytest.raises(OptionsError, match=r"no shipped table 'families/digit', and no such file; did you mean"):
        tables("families/digit")


def test_advisors_are_judged_by_the_family_that_they_have_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen, "N_JOBS", (3, 6))
    monkeypatch.setattr(unseen, "BANDITS", ("ucb",))
    digits = dict(zip(NAMES, ("333", "222", "223", "233"), strict=True))
    models: Any = [Plays(f"mine-without-{name}", digits[name]) for name in NAMES for _ in range(2)]
    results = unseen.judge_unseen(models)
    found = {position: one.value for position, one in results.items()}
    regret: dict[str, list[float]] = {name: [] for name in NAMES}
    for table in tables(FAMILIES):
        actions = [int(digit) for digit in digits[family_of(table.name)]]
        regret[family_of(table.name)].append(table.best - table.expected[table.sequence(actions)])
    for name in NAMES:
        assert found[f"mine on {name}", "regret"] == pytest.approx(np.mean(regret[name]))
    assert found["mine", "regret"] == pytest.approx(np.mean(list(regret.values())))
    assert results["mine", "regret"].low < found["mine", "regret"] < results["mine", "regret"].high
    assert results["mine", "regret"].trainings == (pytest.approx(found["mine", "regret"]),) * 2
    assert results["best-fixed", "regret"].trainings == ()
    assert results["mine less best-fixed", "regret"].null == 0.0
    # UCB pulls arms that nobody has pulled first: six jobs, six different sequences, which it draws.
    assert 0.0 < found["ucb, 6 jobs", "regret"] < 0.2
    difference = found["mine", "regret"] - found["best-fixed", "regret"]
    assert found["mine less best-fixed", "regret"] == pytest.approx(difference)
    # What is best on three families is not looked up on the fourth.
    known = [table.expected_validation for table in tables("families/!signals_*")]
    best = int(np.argmax(np.mean(known, axis=0)))
    expected = [table.best - table.expected[best] for table in tables("families/signals_*")]
    assert found["best-fixed on signals", "regret"] == pytest.approx(np.mean(expected))
    with pytest.raises(OptionsError, match="mine has no row mine-without-signals, expected one for each family"):
        unseen.judge_unseen(models[:6])
    with pytest.raises(OptionsError, match="row 'mine', expected METHOD-without-FAMILY with one of clusters, digits"):
        unseen.judge_unseen([Plays("mine", "333")])  # type: ignore[list-item]
