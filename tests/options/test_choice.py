"""Names of registries in options: who adds a simulator or a contention model can ask for it in a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hdrl.base.errors import OptionsError
from hdrl.base.registry import Registry
from hdrl.experiment.run.inputs import parse_options
from hdrl.options.reading import schema_of, validated
from hdrl.settings.batch.contention import CONTENTION_MODELS, ContentionModel
from hdrl.settings.batch.options import Options
from hdrl.settings.batch.platform import pstate_rules
from hdrl.settings.batch.policies import simulate
from hdrl.settings.batch.policies.simulation import embedded_simulator
from hdrl.settings.batch.simulators import SIMULATORS, SimulatorKind
from hdrl.settings.batch.sweep import BatchSweep
from hdrl.testing import small_platform, small_workload
from hdrl.testing.worlds import JobSpec

LEAST = {"platform_file_path": "gaia", "workload_file_path": "w.swf"}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return what registers a thing for one test."""

    def register(registry: Registry[Any], name: str, thing: object) -> None:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
        registry.register(name)(thing)

    return register


def test_a_simulator_of_a_user_is_an_option_and_simulates(registered: Any):
    made = []

    def simulator(*arguments: Any, **choices: Any) -> object:
        made.append(choices["folder"])
        return embedded_simulator(*arguments, **choices)

    with pytest.raises(OptionsError, match="simulator is 'mine'; known: batsim, embedded, exact"):
        parse_options(LEAST | {"simulator": "mine"})
    registered(SIMULATORS, "mine", SimulatorKind(simulator))
    options = parse_options(LEAST | {"simulator": "mine"})
    assert parse_options(options.portable()).simulator == "mine"
    trace = simulate(
        small_platform(),
        small_workload(JobSpec()),
        "fcfs",
        energy=False,
        simulator=options.simulator,
        folder=Path("here"),
    )
    assert made == [Path("here")]
    assert len(trace.records) == 1


def test_a_contention_model_of_a_user_is_an_option_of_runs_and_comparisons(registered: Any):
    sweep = {"platform": "gaia", "workloads": ["w.swf"], "candidates": ["fcfs"], "contention": "halved"}
    for model, data in ((Options, LEAST | {"contention": "halved"}), (BatchSweep, sweep)):
        with pytest.raises(
            OptionsError, match="contention is 'halved'; known: modelV1, modelV2, none, proportional, step"
        ):
            validated(model, data, "file")
    registered(CONTENTION_MODELS, "halved", ContentionModel("halved", (0.5,)))
    for model, data in ((Options, LEAST | {"contention": "halved"}), (BatchSweep, sweep)):
        assert validated(model, data, "file").contention == "halved"
    assert pstate_rules("halved").contention.speed_factors == (0.5,)
    assert schema_of(Options)["properties"]["contention"]["enum"] == [
        "step",
        "proportional",
        "none",
        "modelV1",
        "modelV2",
        "halved",
    ]


@pytest.mark.parametrize("value", [5, None, ["exact"]])
def test_a_choice_is_a_text(value: object):
    with pytest.raises(OptionsError, match=r"simulator is .*; known: embedded, site, exact, batsim"):
        parse_options(LEAST | {"simulator": value})
