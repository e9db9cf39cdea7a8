"""Live jobs: what is inserted changes nothing, clocks agree with themselves, and tables come of real training."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="needs torch (the extra adaptation)")

from torch import nn  # noqa: E402

from hdrl.base.errors import OptionsError, ReadError  # noqa: E402
from hdrl.base.files import write_json  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402
from hdrl.settings.adaptation.live.clocks import CountedClock, MeasuredClock, find_clock, flops, network_key  # noqa: E402
from hdrl.settings.adaptation.live.data import Data, read_data  # noqa: E402
from hdrl.settings.adaptation.live.distillation import KnowledgeDistillation, shrunk  # noqa: E402
from hdrl.settings.adaptation.live.job import JobRules, LiveJob  # noqa: E402
from hdrl.settings.adaptation.live.making import TablePlan, check_plan, is_measured, measure, measure_part, table_json  # noqa: E402
from hdrl.settings.adaptation.live.network import Network, build, carried  # noqa: E402
from hdrl.settings.adaptation.live.widening import widen  # noqa: E402
from hdrl.settings.adaptation.machine import read_device  # noqa: E402
from hdrl.settings.adaptation.models import describe, find_model  # noqa: E402
from hdrl.settings.adaptation.table import read_table  # noqa: E402

SHAPES = {"convnet2": (3, 8, 8), "small_convnet": (1, 20), "feedforward2": (1, 6, 6), "convnet3": (1, 8, 8)}


def trained(name: str, seed: int = 1) -> tuple[Network, torch.optim.Adam, Any, Any]:
    """Return a network after some steps, its optimiser, and examples."""
    generator = torch.Generator().manual_seed(seed)
    shape = SHAPES[name]
    x, y = torch.randn((48, *shape), generator=generator), torch.randint(5, (48,), generator=generator)
    network = build(find_model(name, shape, 5), seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for part in range(3):
        step(network, optimizer, x[16 * part : 16 * part + 16], y[16 * part : 16 * part + 16])
    return network, optimizer, x, y


def step(network: nn.Module, optimizer: torch.optim.Optimizer, x: Any, y: Any) -> None:
    network.train()
    optimizer.zero_grad(set_to_none=True)
    nn.functional.cross_entropy(network(x), y).backward()
    optimizer.step()


def outputs(network: nn.Module, x: Any, *, train: bool) -> Any:
    copied = copy.deepcopy(network).train(train)  # running means move while training
    with torch.no_grad():
        return copied(x)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("target", [0, 1, 2])
def test_deepening_preserves_outputs_in_both_modes_and_the_next_step(name: str, target: int) -> None:
    network, optimizer, x, y = trained(name)
    before = {train: outputs(network, x, train=train) for train in (True, False)}
    deep, deep_optimizer = copy.deepcopy((network, optimizer))
    old = list(deep.parameters())
    n_before = len(list(deep.modules()))
    carried(deep_optimizer, deep.deepen(target))
    assert len(list(deep.modules())) > n_before
    for train in (True, False):
        torch.testing.assert_close(outputs(deep, x, train=train), before[train], atol=1e-5, rtol=1e-5)
    step(network, optimizer, x, y)
    step(deep, deep_optimizer, x, y)
    for mine, its in zip(network.parameters(), old, strict=True):
        torch.testing.assert_close(its, mine, atol=2e-5, rtol=1e-4)
    # And what is new learns.
    assert any(not torch.equal(a, b) for a, b in zip(deep.deepen(target), deep.parameters(), strict=False))


def test_a_fresh_normalisation_changes_what_is_computed_while_training() -> None:
    network, _, x, _ = trained("convnet2")
    before = {train: outputs(network, x, train=train) for train in (True, False)}
    network.deepen(0, norm="fresh")
    assert (outputs(network, x, train=False) - before[False]).abs().max() < 1e-3
    assert (outputs(network, x, train=True) - before[True]).abs().max() > 0.02  # preserving: below 1e-5


@pytest.mark.parametrize("name", SHAPES)
def test_widening_preserves_outputs_in_both_modes_and_carries_moments(name: str) -> None:
    network, optimizer, x, y = trained(name)
    network.deepen(0)
    wide, wide_optimizer = copy.deepcopy((network, optimizer))
    generator = torch.Generator().manual_seed(4)
    before = {train: outputs(network, x, train=train) for train in (True, False)}
    width = wide.model.blocks[1][0].sizes[1] + 5
    widen(wide, 1, width, generator, wide_optimizer)
    widen(wide, 2, wide.model.blocks[2][0].sizes[1] + 3, generator, wide_optimizer)
    for train in (True, False):
        torch.testing.assert_close(outputs(wide, x, train=train), before[train], atol=1e-5, rtol=1e-4)
    assert wide.model.blocks[1][0].sizes[1] == width
    for weight in wide.parameters():
        state = wide_optimizer.state.get(weight)
        assert state is None or state["exp_avg"].shape == weight.shape
    known = [weight for group in wide_optimizer.param_groups for weight in group["params"]]
    assert {id(one) for one in known} <= {id(one) for one in wide.parameters()}
    step(wide, wide_optimizer, x, y)
    with pytest.raises(OptionsError, match="expected a width of at least that"):
        widen(wide, 1, 2, generator)


def test_a_network_that_shrinks_learns_from_the_deep_one() -> None:
    network, _, x, y = trained("small_convnet")
    network.deepen(1)
    small = shrunk(network)
    assert describe(small.model) == describe(find_model("small_convnet", SHAPES["small_convnet"], 5))
    torch.testing.assert_close(outputs(small, x, train=False), outputs(network, x, train=False))
    teaching = KnowledgeDistillation(network)
    first = teaching.loss(small, x, y)
    optimizer = torch.optim.Adam(small.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        loss = teaching.loss(small, x, y)
        loss.backward()
        optimizer.step()
    assert teaching.loss(small, x, y).item() < first.item()
    teaching.epoch_ended()
    assert teaching.weight == pytest.approx(0.75 * 0.25)


def test_work_is_counted_as_by_hand() -> None:
    model = find_model("small_convnet", (1, 40), 10)
    # conv 1-8: 2*3*1*8*40, norm and ReLU 5*8*40, pooling 8*40; conv 8-8 on 20 places; pooling; linear 8-10.
    by_hand = (2 * 3 * 8 * 40 + 5 * 320 + 320) + (2 * 3 * 64 * 20 + 5 * 160 + 160) + 2 * 80
    assert flops(model, (1, 40)) == 3 * by_hand
    assert flops(model.deepened(0), (1, 40)) == 3 * (by_hand + 2 * 3 * 64 * 40 + 5 * 320)


def small_data() -> Data:
    data = read_data("signals", 0)
    parts = [(x[:80], y[:80]) for x, y in (data.train, data.validation, data.test)]
    return Data(data.name, data.n_classes, *parts)


def test_a_job_keeps_its_budget_and_copies_go_their_own_ways() -> None:
    clock = find_clock("counted", read_device("counted"))
    job = LiveJob("small_convnet", small_data(), JobRules(budget_s=0.02, decision_s=0.001), clock, 1)
    job.train_until(0.008)
    spent_s = job.spent_s
    assert 0.008 <= spent_s < 0.008 + 64 * flops(job.network.model, (1, 40)) / 1e9
    here, there = job.snapshot(), job.snapshot()
    here.adapt(0)
    there.adapt(3)
    assert here.spent_s == pytest.approx(spent_s + 0.001)
    for one in (here, there):
        one.train_until(0.02)
        assert one.left_s == 0.0
    assert len(here.network.blocks) == len(there.network.blocks) + 1 == len(job.network.blocks) + 1
    assert job.spent_s == spent_s
    again = job.snapshot()
    again.adapt(3)
    again.train_until(0.02)
    for mine, its in zip(again.network.parameters(), there.network.parameters(), strict=True):
        assert torch.equal(mine, its)


def test_rates_follow_their_rules() -> None:
    clock = CountedClock(1e9)
    for rule, expected in (("reset", 0.01), ("epochs", 0.01 * 0.9**2)):
        job = LiveJob("small_convnet", small_data(), JobRules(1.0, rate=rule, batch_size=40), clock, 1)  # type: ignore[arg-type]
        job.train_until(4 * 40 * flops(job.network.model, (1, 40)) / 1e9 - 1e-9)
        job.adapt(2)
        assert job._rate() == pytest.approx(expected)
    job = LiveJob("small_convnet", small_data(), JobRules(0.01, rate="linear"), clock, 1)
    job.train_until(0.005)
    assert job._rate() == pytest.approx(0.01 * (1 - job.spent_s / 0.01))


def test_measured_times_are_read(tmp_path: Path) -> None:
    model = find_model("small_convnet", (1, 40), 10)
    path = tmp_path / "times.json"
    write_json(path, {"machine": "mine", "example_s": {network_key(model, (1, 40)): 0.25}})
    clock = MeasuredClock(path)
    ran = []
    assert clock.took_s(model, (1, 40), 8, lambda: ran.append(1)) == 2.0
    assert ran == [1]
    with pytest.raises(OptionsError, match="holds no time for 1x40: conv1d 1 8 3"):
        clock.took_s(model.deepened(0), (1, 40), 8, lambda: None)
    with pytest.raises(OptionsError, match="device is 'gv100', but clock 'counted' counts work on counted"):
        find_clock("counted", read_device("gv100"))


def test_a_table_is_measured_resumed_and_read(tmp_path: Path) -> None:
    plan = TablePlan("feedforward1", "signals", 0.02, 0.004, 0.0015)
    parts = [tmp_path / f"seed_{seed}.json" for seed in (0, 1)]
    assert not is_measured(plan, 0, parts[0])
    for seed, part in enumerate(parts):
        write_json(part, measure_part(plan, seed), indent=None)
    assert is_measured(plan, 0, parts[0])
    with pytest.raises(ReadError, match="was measured by another plan"):
        is_measured(plan, 5, parts[0])
    damaged = json.loads(parts[1].read_text())
    damaged["curve"].popitem()
    write_json(tmp_path / "damaged.json", damaged)
    with pytest.raises(ReadError, match="lacks some of 27 sequences: remove it to measure them again"):
        is_measured(plan, 1, tmp_path / "damaged.json")
    write_json(tmp_path / "table.json", table_json(plan, parts, "made"), indent=None)
    table = read_table(tmp_path / "table.json")
    assert (table.n_sequences, table.n_draws, table.rungs) == (27, 2, (0.25, 0.5))
    assert table.has_validation
    assert table.time_left_s[0] == pytest.approx(0.02 - 0.004, abs=0.002)
    assert set(table.others) == {"linear-decay"}
    words = ["--model", "feedforward1", "--data", "signals", "--budget", "0.02", "--start", "0.004", "--gap", "0.0015"]
    words = ["adaptation", "table", str(tmp_path / "cli.json"), *words, "--seeds", "2", "-j", "1", "--scenario", "made"]
    (tmp_path / "cli.parts").mkdir()
    parts[0].rename(tmp_path / "cli.parts" / "seed_0.json")  # as if it had been interrupted
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "cli.json").read_bytes() == (tmp_path / "table.json").read_bytes()
    again = CliRunner().invoke(cli, words)
    assert (again.exit_code, "exists already, expected NEW.json" in again.output) == (2, True)
    with pytest.raises(OptionsError, match="are not within the budget"):
        check_plan(TablePlan("feedforward1", "signals", 0.03, 0.028, 0.004))


def test_cifar10_is_read_from_its_binary_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        rows = random.integers(0, 256, (10, 3073), dtype=np.uint8)
        rows[:, 0] = np.arange(10)
        rows.tofile(tmp_path / f"{name}.bin")
    data = read_data(f"cifar10:{tmp_path}", 0)
    assert (data.shape, data.n_classes, len(data.train[1]), len(data.test[1])) == ((3, 32, 32), 10, 36, 12)
    (tmp_path / "data_batch_3.bin").write_bytes(b"short")
    with pytest.raises(ReadError, match=r"data_batch_3.bin: is not a file of CIFAR-10: 5 bytes"):
        read_data(f"cifar10:{tmp_path}", 0)


@pytest.mark.parametrize("name", ["signals", "shapes"])
def test_made_up_data_are_harder_with_more_noise_and_parts_do_not_meet(name: str) -> None:
    easy, hard = read_data(f"{name}:0", 3), read_data(f"{name}:2", 3)

    def spread(data: Data) -> float:
        x, y = data.train
        means = torch.stack([x[y == label].mean(0) for label in range(data.n_classes)])
        return float(means.std() / x.std())

    assert spread(easy) > spread(hard)
    rows = [tuple(row.flatten().tolist()) for part in (hard.train, hard.validation, hard.test) for row in part[0]]
    assert len(set(rows)) == len(rows) == 1000
    with pytest.raises(OptionsError, match="with a number from 0 to 100"):
        read_data(f"{name}:many", 0)


def test_the_machine_is_described() -> None:
    done = CliRunner().invoke(cli, ["adaptation", "check"])
    assert done.exit_code == 0
    assert {"python", "torch", "cuda", "gpus"} <= {line.partition(":")[0] for line in done.output.splitlines()}


def test_live_jobs_are_decided_about_as_on_tables() -> None:
    plan = TablePlan("feedforward1", "signals", 0.02, 0.004, 0.0015)
    words = ["--model", "feedforward1", "--data", "signals", "--budget", "0.02", "--start", "0.004", "--gap", "0.0015"]
    done = CliRunner().invoke(cli, ["adaptation", "run", "fixed-021", *words])
    assert done.exit_code == 0, done.output
    validation, test = measure(plan, 0)["draw"]["021"]
    assert done.output == f"seed 0: 021, validation {validation:.3f}, test {test:.3f}\n"
    wrong = CliRunner().invoke(cli, ["adaptation", "run", "fixed-03", *words])
    assert (wrong.exit_code, wrong.output.count("\n")) == (2, 1)
