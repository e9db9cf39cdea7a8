"""Numbers that pages quote are those that hdrl computes or claims."""

import re
from pathlib import Path

import pytest

from hdrl.experiment.reproduce.recipe import read_experiment, shipped_experiments
from hdrl.experiment.reproduce.resulttable import read_reference
from hdrl.metrics.planning import fewest_windows, windows_needed

ROOT = Path(__file__).parents[2]
COMPARING = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
EVOLVED = ROOT / "experiments" / "es-held-out" / "reference.csv"
SHIPPED = ROOT / "experiments" / "es-generalist" / "reference.csv"
PPO_BESIDE = ROOT / "experiments" / "ppo-generalist" / "reference.csv"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_windows_that_a_change_needs():
    (said,) = re.findall(r"a change of 20 % needs about (\d+) windows, 10 % (\d+), 5 % (\d+)", COMPARING)
    for change, windows in zip((0.2, 0.1, 0.05), said, strict=True):
        assert int(windows) == pytest.approx(windows_needed(1 - change, 0.35), rel=0.05)


def test_windows_of_the_readme_can_show_something():
    (windows,) = re.findall(r"--windows \d+:(\d+) --baseline best", README)
    assert int(windows) >= fewest_windows(3)


@pytest.mark.parametrize("name", ["ppo-held-out-exact", "ppo-held-out", "ppo-held-out-sdsc-blue"])
def test_held_out_intervals_are_those_of_the_table(name: str):
    (row,) = [line for line in EXPERIMENTS.splitlines() if f"| `{name}` |" in line]
    quoted, *_ = re.findall(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", row)
    assert quoted in " ".join(README.split())


def test_what_is_said_of_the_generalist_is_what_was_claimed():
    page = (ROOT / "docs" / "generalist.md").read_text(encoding="utf-8")
    trained, shipped = read_reference(EVOLVED, 0.0), read_reference(SHIPPED, 0.0)
    for protocol, opponent in (("windows", "requests"), ("windows", "predictions"), ("padded", "requests")):
        column = f"{protocol}, to {opponent}"
        assert f"**{_interval(shipped, 'es-generalist', column).replace(' ', '** ', 1)}" in page
        assert _interval(shipped, "es-unguarded", column) in page
        assert _interval(trained, "es", column) in page
        if protocol == "windows":
            assert _interval(trained, "es", column) in " ".join(README.split())
    assert _interval(shipped, "es-generalist", "windows, to requests") in README


def _interval(found, name, column):
    rows = (f"{name}, all logs{end}" for end in ("", ", lower end", ", upper end"))
    value, low, high = (f"{found[row, column].value:.2f}" for row in rows)
    return f"{value} [{low}, {high}]"


def test_what_is_said_of_ppo_beside_the_generalist_is_what_was_claimed():
    found = {place: one.value for place, one in read_reference(PPO_BESIDE, 0.0).items()}
    page = (ROOT / "docs" / "generalist.md").read_text(encoding="utf-8")
    (line,) = [line for line in EXPERIMENTS.splitlines() if "| `ppo-generalist` |" in line]
    for opponent in ("requests", "predictions", "es-generalist"):
        rows = ("ppo, all logs", "ppo, all logs, lower end", "ppo, all logs, upper end")
        value, low, high = (f"{found[row, f'windows, to {opponent}']:.2f}" for row in rows)
        assert f"{value} [{low}, {high}]" in line
        assert f"{value} [{low}, {high}]" in page
    unguarded = read_reference(SHIPPED, 0.0)["es-unguarded, all logs", "windows, to requests"].value
    assert found["es-generalist, all logs", "windows, to requests"] == pytest.approx(unguarded, rel=1e-9)


@pytest.mark.parametrize("name", ["ppo-evolution-equal", "ppo-ablation"])
def test_what_is_said_of_ppo_and_its_rivals_is_what_was_claimed(name: str):
    found = read_reference(shipped_experiments()[name] / "reference.csv", 0.0)
    (line,) = [line for line in EXPERIMENTS.splitlines() if f"| `{name}` |" in line]
    first, *others = read_experiment(name).recipe.options
    said = re.findall(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", line)
    assert _interval(found, first, "windows, to requests") in said
    for other in others:
        assert _interval(found, first, f"windows, to {other}") in said


@pytest.mark.parametrize(
    ("name", "said"),
    [("ppo-lublin1-rlscheduler", r"(\d+\.\d) on the ten sequences"), ("ppo-lublin1-easy", r"(\d+\.\d), in")],
)
def test_means_of_ten_trainings_are_those_claimed(name: str, said: str):
    (row,) = [line for line in EXPERIMENTS.splitlines() if f"| `{name}` |" in line]
    (quoted,) = re.findall(said, row)
    claimed = read_reference(shipped_experiments()[name] / "reference.csv", 0.0)
    assert any(f"{value.value:.1f}" == quoted for value in claimed.values())


def test_what_is_said_of_the_ablation_in_the_dissertations_world_is_what_was_claimed():
    found = read_reference(shipped_experiments()["dissertation-ablation"] / "reference.csv", 0.0)
    (line,) = [line for line in EXPERIMENTS.splitlines() if "| `dissertation-ablation` |" in line]
    for name in ("ppo", "ppo-gan", "ppo-attention", "ppo-attention-gan"):
        rows = [f"{name}, all trainings{end}" for end in ("", ", lower end", ", upper end")]
        value, low, high = (f"{found[row, 'ratio to f2, best on the first half'].value:.2f}" for row in rows)
        assert f"{value} [{low}, {high}]" in line
