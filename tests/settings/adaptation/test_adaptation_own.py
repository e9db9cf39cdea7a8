"""Networks of users are deepened, measured and read; times that were measured on one machine are taken on another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch", reason="needs torch (the extra adaptation)")

from hdrl.base.errors import HdrlError, OptionsError  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402
from hdrl.settings.adaptation.live import timing  # noqa: E402
from hdrl.settings.adaptation.live.clocks import MeasuredClock, network_key  # noqa: E402
from hdrl.settings.adaptation.live.network import build  # noqa: E402
from hdrl.settings.adaptation.live.widening import widen  # noqa: E402
from hdrl.settings.adaptation.models import describe, describe_blocks, find_model, model_of, reachable  # noqa: E402
from hdrl.settings.adaptation.ownmodels import check_fits, read_own_model  # noqa: E402
from hdrl.settings.adaptation.table import read_table  # noqa: E402

OWN = """
def blocks(shape, n_classes):
    first = ["flatten", f"linear {shape[0] * shape[1]} 12", "relu", "linear 12 8", "relu"]
    return [first, [f"linear 8 {n_classes}"]]
"""

PLAN = ["--data", "clusters", "--budget", "0.004", "--start", "0.001", "--gap", "0.0004", "--seeds", "1", "-j", "1"]


def adaptation(*words: object) -> Result:
    return CliRunner().invoke(cli, ["adaptation", *map(str, words)])


def test_blocks_of_several_layers_are_deepened_behind_the_last_one(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    model = read_own_model(tmp_path / "own.py", (1, 10), 5)
    assert [len(block) for block in describe_blocks(model)] == [5, 1]
    deep = model.deepened(0)
    assert describe(deep)[:7] == [*describe(model)[:5], "linear 8 8", "relu"]
    network = build(model, 1)
    x = torch.randn((16, 1, 10), generator=torch.Generator().manual_seed(0))
    before = network(x)
    network.deepen(0)
    assert describe(network.model) == describe(deep)
    torch.testing.assert_close(network(x), before)
    with pytest.raises(OptionsError, match="a block has 2 convolutions and linear layers, expected one to widen it"):
        widen(network, 0, 20, torch.Generator())


def test_a_table_of_an_own_network_is_measured_by_times_of_a_machine_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(timing, "N_STEPS", 2)
    Path("own.py").write_text(OWN)
    done = adaptation("times", "times.json", "--model", "own.py", "--data", "clusters", "--device", "mine")
    assert done.output == "times.json: 10 networks on mine\n"
    times = json.loads(Path("times.json").read_text())
    times["example_s"] = dict.fromkeys(times["example_s"], 1e-6)  # so that what follows depends on no machine
    Path("times.json").write_text(json.dumps(times))
    words = ["--model", "own.py", *PLAN, "--clock", "table:times.json"]
    done = adaptation("table", "made.json", *words)
    assert (done.exit_code, "made.json: 1 training of each" in done.output) == (0, True), done.output
    table = read_table(Path("made.json"))
    assert (table.device, table.n_sequences, table.model.name) == ("mine", 27, "own")
    assert describe_blocks(table.model) == describe_blocks(read_own_model(Path("own.py"), (1, 10), 5))
    # Steps of 64 examples take 64 us: the first decision comes behind 16 of them.
    assert table.time_left_s[0] == pytest.approx(0.004 - 0.001, abs=64e-6)
    # What was measured with other layers, or by other times, does not count as a part of this table.
    Path("made.json").unlink()
    Path("own.py").write_text(OWN.replace("12", "14"))
    assert "holds no time for 1x10: flatten, linear 10 14" in adaptation("table", "made.json", *words).output
    Path("own.py").write_text(OWN)
    Path("times.json").write_text(json.dumps({**times, "example_s": dict.fromkeys(times["example_s"], 2e-6)}))
    assert "was measured by another plan" in adaptation("table", "made.json", *words).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--clock", "table:times.json", "--device", "other"),
            "device is 'other', but times.json was measured on 'mine'",
        ),
        (
            ("--clock", "wall", "--device", "counted"),
            "device 'counted' is one where work is counted, clock 'wall' is of",
        ),
        (("--clock", "table:none.json"), "none.json"),
        (("--clock", "table:"), "clock is 'table:', expected counted, table:FILE or wall"),
        (("--clock", "table:broken.json"), "broken.json: is not a table of times, expected an object with machine"),
        (("--device", "gv100"), "device is 'gv100', but clock 'counted' counts work on counted, expected"),
        (("--clock", "counted:2"), "clock is 'counted:2', expected counted, table:FILE or wall"),
        (("--budget", "nan"), "'nan', expected a number"),
        (("--start", "-1"), "are not within the budget"),
        (("--model", "wide.py"), "wide.py: 3 decisions among 17 actions are more than 4096 sequences"),
        (("--model", "none.py"), "none.py"),
        (("--data", "clusters:x"), "data is 'clusters:x', expected clusters:DIFFICULTY"),
    ],
)
def test_plans_that_cannot_be_carried_out_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    Path("wide.py").write_text(
        "def blocks(shape, n):\n    return [['flatten', 'linear 10 5'], *[['linear 5 5']] * 15]\n"
    )
    model = read_own_model(Path("own.py"), (1, 10), 5)
    Path("times.json").write_text(json.dumps({"machine": "mine", "example_s": {network_key(model, (1, 10)): 1}}))
    Path("broken.json").write_text(json.dumps({"machine": "mine", "example_s": {"x": 0.0}}))
    done = adaptation("table", "made.json", "--model", "own.py", *PLAN, *words)
    assert (done.exit_code, done.output.count("\n")) == (2, 1), done.output
    assert message in done.output
    assert not Path("made.parts").exists()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("blocks = 3", "has no function blocks(shape, n_classes)"),
        ("def blocks(shape): return []", "own.py:1: blocks(shape) takes other arguments, expected blocks(shape, n_cl"),
        ("def blocks(shape, n): return [1]", "blocks returns no list of lists of layers in words"),
        ("def blocks(shape, n): return ['relu']", "blocks returns no list of lists of layers in words"),
        ("def blocks(shape, n): return []", "own has no blocks"),
        ("def blocks(shape, n): return [['relu']]", "block 0 of own has no convolution and no linear layer"),
        ("def blocks(shape, n): return [['linear 10 x']]", "layer 'linear 10 x', expected linear and 2 whole numbers"),
        ("def blocks(shape, n): return [['linear 10 5']]", "is given 1 channels of 10, expected numbers in a row, so"),
        ("def blocks(shape, n): return [['conv 1 5 3']]", "is given 1 channels of 10, expected channels of a picture"),
        ("def blocks(shape, n): return [['flatten', 'linear 9 5']]", "is given 10 numbers, expected 10 instead of 9"),
        ("def blocks(shape, n): return [['flatten', 'linear 10 4']]", "gives 4 numbers, expected 5 numbers, one for"),
        ("def blocks(shape, n): return 1 / 0", "own.py:1: ZeroDivisionError: division by zero"),
    ],
)
def test_own_networks_that_are_none_are_one_line(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "own.py").write_text(source)
    with pytest.raises(HdrlError) as told:
        read_own_model(tmp_path / "own.py", (1, 10), 5)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        (["conv1d 1 4 3", "batchnorm 5", "flatten", "linear 80 5"], (1, 20), "expected 4 instead of 5"),
        (["conv1d 1 4 3", "avgpool 30", "flatten", "linear 4 5"], (1, 20), "which is smaller than that"),
        (["flatten", "avgpool 2", "linear 20 5"], (1, 20), "is given 20 numbers, expected a signal or a picture"),
    ],
)
def test_layers_that_do_not_follow_are_named(layers: list[str], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(OptionsError, match="layer 1, ") as told:
        check_fits(model_of("odd", layers), shape, 5, "odd")
    assert message in str(told.value)


def test_shapes_are_followed_as_torch_does() -> None:
    for name, shape in (("small_convnet", (1, 21)), ("convnet3", (2, 9, 7)), ("tapered_feedforward", (1, 4, 4))):
        model = find_model(name, shape, 5)
        check_fits(model, shape, 5, name)
        with torch.no_grad():
            assert build(model, 0)(torch.zeros(2, *shape)).shape == (2, 5)


def test_every_network_that_decisions_lead_to_is_reachable() -> None:
    model = find_model("small_convnet", (1, 20), 5)
    found = {tuple(describe(one)) for one in reachable(model, 2)}
    assert len(found) == len(reachable(model, 2)) == 1 + 3 + 6
    assert tuple(describe(model.deepened(2).deepened(0))) in found


@pytest.mark.parametrize("value", [0, -1, True, "1"])
def test_times_that_are_none_are_refused(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "times.json"
    path.write_text(json.dumps({"machine": "mine", "example_s": {"x": 1}}))
    assert MeasuredClock(path).machine == "mine"
    path.write_text(json.dumps({"machine": "mine", "example_s": {"x": value}}))
    with pytest.raises(HdrlError, match="is not a table of times"):
        MeasuredClock(path)
