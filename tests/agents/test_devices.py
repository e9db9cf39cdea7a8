"""Networks elsewhere than on the CPU: everything gets there and back, and what is not there is told in one line."""

import copy
import functools
import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import ALGORITHMS, make_agent  # noqa: E402
from hdrl.base.errors import LearningError, OptionsError  # noqa: E402
from hdrl.experiment import Progress  # noqa: E402
from hdrl.experiment import devices as measured  # noqa: E402
from hdrl.launcher.launch import launch  # noqa: E402
from hdrl.learn import Trainer, checkpoint_of, evaluate, save_checkpoint  # noqa: E402
from hdrl.learn import device as devices  # noqa: E402
from hdrl.learn.portable import own  # noqa: E402
from hdrl.testing.toys import IdentityEnvs, ShortestRowEnvs  # noqa: E402


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_far = _loaded(Path(__file__).with_name("far.py"))
far = _far.far
worlds = _loaded(Path(__file__).parents[1] / "experiment" / "learning.py")

REPLAY = {"warm_up": 20, "updates_per_iteration": 2, "batch_size": 8, "capacity": 64}
CASES: dict[str, dict[str, Any]] = {
    "reinforce": {"has_baseline": True},
    "a2c": {"n_steps": 7},
    "ppo": {"n_steps": 7, "minibatch_size": 10},
    "dqn": REPLAY,
    "d3qn": REPLAY,
    "rainbow": REPLAY,
    "sac": REPLAY,
    "advisor": {},
}
NETWORKS = ("mlp", "masked mlp", "kernel", "attention")


def envs_of(network: str) -> Any:
    if "mlp" in network:
        return IdentityEnvs(3, length=5, is_masked="masked" in network)
    return ShortestRowEnvs(3, length=5)


def trained(name: str, network: str, device: Any = None) -> Trainer:
    envs = envs_of(network)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = make_agent(name, *spaces, seed=1, network=network.split()[-1], **CASES[name])
    if device is not None:
        agent.to(device)
    trainer = Trainer(agent, envs, seed=1, n_threads=1)
    trainer.run(3)
    return trainer


def weights(trainer: Trainer) -> list[Any]:
    return [one.detach().cpu() for module in trainer.agent.modules.values() for one in module.parameters()]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", CASES)
def test_what_is_learned_elsewhere_is_what_is_learned_here(
    name: str, network: str, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "JIT_DISABLED", True)  # here, too, torch's layers compute: elsewhere nothing else can
    here = weights(trained(name, network))
    device = request.getfixturevalue("far")
    there = trained(name, network, device)
    parameters = [one for module in there.agent.modules.values() for one in module.parameters()]
    assert all(one.device == device for one in parameters)
    # Attention alone is composed in another way where no kernel of the CPU does it; Adam makes much of last digits.
    same = functools.partial(torch.allclose, atol=1e-2) if network == "attention" else torch.equal
    assert all(same(one, other) for one, other in zip(weights(there), here, strict=True))
    played = evaluate(there.agent, envs_of(network), 3, seed=2)
    there.agent.to(devices.CPU)
    assert evaluate(there.agent, envs_of(network), 3, seed=2) == played


def test_tensors_here_and_there_cannot_be_mixed_in_these_tests(far: Any) -> None:
    there = torch.ones(3).to(far)
    assert (there + there).cpu().tolist() == [2.0] * 3
    assert float(there.sum()) == 3.0
    with pytest.raises(RuntimeError, match="here and there"):
        there + torch.ones(3)


def test_a_training_goes_on_elsewhere_and_its_files_are_those_of_the_cpu(
    tmp_path: Path, request: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "JIT_DISABLED", True)  # here, too, torch's layers compute: elsewhere nothing else can

    def saved(trainer: Trainer, name: str) -> str:
        save_checkpoint(tmp_path / name, checkpoint_of(trainer.agent, "sac", training=trainer.state_dict()))
        return hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()

    here = trained("sac", "mlp")
    state = copy.deepcopy(here.state_dict())
    here.run(5)
    expected = saved(here, "here.pt")
    device = request.getfixturevalue("far")
    there = trained("sac", "mlp", device)
    there.load_state_dict(state)
    there.run(5)
    assert saved(there, "there.pt") == expected
    content = torch.load(tmp_path / "there.pt", weights_only=True)
    assert content["agent"]["optimizers"]["actor"]["state"][0]["exp_avg"].device == devices.CPU
    there.agent.to(devices.CPU)
    there.run(6)
    here.run(6)
    assert all(torch.equal(one, other) for one, other in zip(weights(there), weights(here), strict=True))


# ------------------------------------------------------------------ which devices there are


def having(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in kinds)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in kinds)


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for kinds, expected in (((), "cpu"), (("mps",), "mps"), (("cuda",), "cuda"), (("cuda", "mps"), "cuda")):
        having(monkeypatch, *kinds)
        assert devices.find_device("auto").type == expected
    having(monkeypatch, "mps")
    with pytest.raises(OptionsError, match=r"^device is 'cuda', but torch finds cpu, mps here$"):
        devices.find_device("cuda")
    with pytest.raises(OptionsError, match=r"^device is 'gpu', expected one of cpu, cuda, mps or auto$"):
        devices.find_device("gpu")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H100")
    assert devices.name_of(torch.device("cuda")) == "cuda (NVIDIA H100)"
    for n_threads, words in ((1, ", 1 thread"), (4, ", 4 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda n_threads=n_threads: n_threads)
        assert measured._name_of("cpu").endswith(words)


def test_agents_that_have_no_networks_stay_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, "cuda")
    envs = IdentityEnvs(2)
    spaces = (envs.single_observation_space, envs.single_action_space)
    with pytest.raises(LearningError, match="Random computes on the CPU alone, expected device cpu, not cuda"):
        make_agent("random", *spaces, device="cuda")
    assert make_agent("random", *spaces, device="cpu").device == devices.CPU
    alone = {name for name in ALGORITHMS if ALGORITHMS[name].agent_class().computes_on == "cpu"}
    assert alone == {"random", "cma_es", "openai_es"}


OPTIONS = str(Path(__file__).parents[2] / "examples" / "learning.json")


@pytest.mark.parametrize(
    ("agent", "given", "message"),
    [
        ("ppo", ["learning.device=cuda"], "learning.device is 'cuda', but torch finds cpu, mps here"),
        ("ppo", ["learning.device=cuba"], "learning.device is 'cuba'; did you mean 'cuda'?"),
        ("random", ["learning.device=mps"], "learning.device is 'mps', but Random computes on the CPU alone"),
        (
            "d3qn",
            ["learning.device=mps", "learning.distributed.scheme=sync"],
            "learning.device is 'mps', but workers of learning.distributed compute on the CPU alone, expected 'cpu'",
        ),
    ],
)
def test_what_is_not_there_is_told_in_one_line(
    agent: str, given: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "mps")
    words = [agent, OPTIONS, "--out", str(tmp_path / "out"), "--quiet"]
    result = CliRunner().invoke(launch, [*words, *(word for one in given for word in ("--set", one))])
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def quiet(messages: list[str]) -> Progress:
    return Progress(message=messages.append, jobs=lambda *_: None, training=lambda *_: None)


def test_the_device_is_told_and_changes_no_file_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch)
    told: list[str] = []
    changes = {"algorithm": "ppo", "settings": {"n_steps": 4}}
    worlds.train(tmp_path, "plain", **changes)
    worlds.train(tmp_path, "auto", "pybatsim.log_level=INFO", device="auto", progress=quiet(told), **changes)
    assert "learning on cpu" in told
    assert "INFO device cpu" in (tmp_path / "auto" / "insights.log").read_text().splitlines()
    assert json.loads((tmp_path / "auto" / "provenance.json").read_text())["device"] == "cpu"
    assert "device" not in json.loads((tmp_path / "plain" / "provenance.json").read_text())
    assert "device" not in json.loads((tmp_path / "plain" / "options.resolved.json").read_text())["learning"]
    models = [(tmp_path / name / "model.pt").read_bytes() for name in ("plain", "auto")]
    assert models[0] == models[1]


def test_a_training_of_an_options_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    changes = {"algorithm": "rainbow", "settings": REPLAY, "iterations": 4, "validation_every": 2}
    monkeypatch.setattr(own, "JIT_DISABLED", True)  # here, too, torch's layers compute: elsewhere nothing else can
    worlds.train(tmp_path, "here", **changes)
    device = request.getfixturevalue("far")
    monkeypatch.setattr(devices, "find_device", lambda *_: device)
    worlds.train(tmp_path, "there", device="cuda", **changes)
    told = json.loads((tmp_path / "there" / "provenance.json").read_text())
    assert told["device"] == "meta"
    assert not told["is_portable"]
    assert "it learns on meta" in told["why_not_portable"]
    for name in ("model.pt", "training.csv", "metrics.json"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
