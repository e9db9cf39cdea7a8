"""What docs/pipelines.md and the notes on rlschedsim's agents say holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.learn.evolution import EvolutionConfig
from hdrl.setting import SETTINGS
from hdrl.settings.pipelines.envs.index import DEFAULT_N_WINDOWS
from hdrl.settings.pipelines.envs.options import ERRORS, OBJECTIVES, REWARDS
from hdrl.settings.pipelines.inputs import all_configurations
from hdrl.settings.pipelines.loads.readers import read_set
from hdrl.settings.pipelines.machine import read_machine
from hdrl.settings.pipelines.options import PipelineLoadOptions
from hdrl.settings.pipelines.simulation.index import SIGMA
from hdrl.settings.pipelines.simulation.policies import RULES
from hdrl.settings.pipelines.simulation.view import simulate_python

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
NOTES = (ROOT / "experiments" / "adas-modes-period1" / "README.md").read_text(encoding="utf-8")
BLOCKS = {kind: re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL) for kind in ("python", "json", "console")}


def test_every_name_is_told():
    fused = "+fusion"
    for name in (*(one for one in RULES if not one.endswith(fused)), *OBJECTIVES, *REWARDS, *ERRORS):
        assert f"`{name}`" in TEXT, name
    table = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
    assert set(PipelineLoadOptions.model_fields) - {"graphs", "seed"} <= table


def test_its_file_and_its_policy(tmp_path: Path):
    text, _ = BLOCKS["json"]
    (tmp_path / "set.json").write_text(text)
    loads = all_configurations(read_set(tmp_path / "set.json"))
    assert [load.n_items for load in loads] == [1, 1]
    policy_text, env_text = BLOCKS["python"]
    found: dict[str, object] = {}
    exec(policy_text, found)
    machine = read_machine("1cpu+1gpu")
    assert len(simulate_python(machine, loads[0], found["policy"]).runs) == 1
    exec(env_text, {})


def test_its_options_run():
    text, _ = BLOCKS["console"]
    options = SETTINGS["pipelines"].inputs.Options.model_validate(
        json.loads(text[text.index("{") : text.rindex("}") + 1])
    )
    setting = SETTINGS["pipelines"]
    machine = setting.inputs.machine(options)
    trace = setting.simulator.simulate(machine, setting.inputs.load(options, machine), options.policy(), seed=0)
    assert setting.measures.measure(trace)["n_jobs"] == trace.load.n_items


def test_its_training_is_that_of_the_experiment():
    """But for what the claimed one says of itself: its seed, its logs, and what is so by default."""
    _, text = BLOCKS["json"]
    shown = json.loads(text)
    claimed_file = ROOT / "experiments" / "pipelines-index" / "train.json"
    ours, theirs = (
        SETTINGS["pipelines"].inputs.Options.model_validate(one)
        for one in (shown, json.loads(claimed_file.read_text(encoding="utf-8")))
    )
    assert theirs.learning.settings == {"sigma": SIGMA, "averaging": EvolutionConfig().averaging}
    assert theirs.learning.arguments == {"n_windows": DEFAULT_N_WINDOWS}
    assert ours.load == theirs.load
    for name in ("environment", "algorithm", "n_envs", "iterations", "episodes"):
        assert getattr(ours.learning, name) == getattr(theirs.learning, name), name


def test_its_numbers_are_the_claimed_ones():
    values_by_row = claimed("pipelines-generated")
    shown = re.findall(r"^\| `([\w+]+)` \| (0\.\d{3}(?: \| 0\.\d{3}){5}) \|$", TEXT, re.MULTILINE)
    assert len(shown) == 5
    for name, values in shown:
        for load, value in zip(("0.5", "0.6", "0.7", "0.8", "0.9", "1"), values.split(" | "), strict=True):
            assert values_by_row[f"{name} on generated@{load}"] == pytest.approx(float(value), abs=5.1e-4)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_shipped_sets_are_claimed_to_be_solved(number: int):
    static = [value for row, value in claimed(f"adas-period{number}").items() if row.startswith("static on ")]
    assert static == [0.0] * 81


def test_what_is_said_of_agents_on_unseen_sets_is_what_is_claimed():
    values_by_row = claimed("pipelines-unseen")
    said = re.findall(r"`([\w+]+)` (0\.\d{3})", TEXT[TEXT.index("(`pipelines-unseen`") :].partition("\n\n")[0])
    assert {name for name, _ in said} >= {"ppo", "d3qn", "static", "earliest_finish+fusion"}
    for name, value in said:
        assert values_by_row[name] == pytest.approx(float(value), abs=5.1e-4), name


def claimed(experiment: str) -> dict[str, float]:
    """Return the claimed miss ratios by row."""
    return {one.row: one.value for one in read_experiment(experiment).claims() if one.column == "miss_ratio"}


def test_what_agents_miss_is_what_is_claimed():
    modes = claimed("adas-modes-period1")
    shown = re.findall(r"^\| (\w+), (\w+), (\w+) \| (0\.\d{4}) \[", NOTES, re.MULTILINE)
    assert len(shown) == 8
    for *parts, value in shown:
        assert f"{modes['-'.join(parts)]:.4f}" == value
    own = claimed("adas-modes-rlschedsim")
    for row in ("as-published", "errors-off"):
        assert f"{own[f'{row}, agent on period1']:.3f} [" in NOTES
    reliance = claimed("pipelines-reliance")
    notes = (ROOT / "experiments" / "pipelines-reliance" / "README.md").read_text(encoding="utf-8")
    for row in ("pooled", "carried", "nearest", "none"):
        (line,) = re.findall(rf"^\| `{row}`.* \| 0\..*$", notes, re.MULTILINE)
        names = [f"{row}-split", f"{row}-own", *([] if row == "pooled" else [f"{row}-own-equal-time"])]
        assert re.findall(r"(0\.\d{3}) \[", line) == [f"{reliance[name]:.3f}" for name in names]
