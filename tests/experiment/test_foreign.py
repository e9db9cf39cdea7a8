"""``hdrl model import``: models of other libraries decide as they did there; anything else is one line."""

import itertools
import json
import re
import runpy
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

import gymnasium  # noqa: E402
from torch import nn  # noqa: E402

import hdrl.envs  # noqa: E402, F401 (registers them)
from hdrl.agents import load_agent  # noqa: E402
from hdrl.base.errors import OptionsError, ReadError  # noqa: E402
from hdrl.batch import read_platform, read_workload  # noqa: E402
from hdrl.experiment import Model  # noqa: E402
from hdrl.experiment.run.inputs import read_options  # noqa: E402
from hdrl.launcher.main import cli  # noqa: E402
from hdrl.learn import load_checkpoint  # noqa: E402
from hdrl.options.learning import LearningOptions  # noqa: E402
from hdrl.setting import find_setting  # noqa: E402

ROOT = Path(__file__).parents[2]
N_ROWS, N_FEATURES = 6, 8
N_NUMBERS = N_ROWS * N_FEATURES
OBSERVATIONS = torch.rand(20, N_ROWS, N_FEATURES, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def options(tmp_path: Path) -> Path:
    path = tmp_path / "options.json"
    learning = {"environment": "job_pick", "arguments": {"max_jobs": N_ROWS}, "episodes": {"n_jobs": 20}}
    given = {"platform_file_path": "homogeneous:4096", "workload_file_path": "lublin_gaia_1000", "learning": learning}
    path.write_text(json.dumps(given))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["model", "import", *map(str, words)], prog_name="hdrl")


def layers(*sizes: int, last: bool = False) -> nn.Sequential:
    parts: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        parts += [nn.Linear(n_in, n_out), nn.Tanh()]
    return nn.Sequential(*(parts if last else parts[:-1]))


def named(**parts: nn.Module) -> dict[str, Any]:
    """A state dict whose parts have dots in their names."""
    return {
        f"{part.replace('__', '.')}.{name}": tensor
        for part, module in parts.items()
        for name, tensor in module.state_dict().items()
    }


def test_cleanrls_models_decide_as_there(tmp_path: Path, options: Path) -> None:
    actor, critic = layers(N_NUMBERS, 9, 7, N_ROWS), layers(N_NUMBERS, 9, 7, 1)
    torch.save(named(critic=critic, actor=actor), tmp_path / "cleanrl.pt")
    result = run(tmp_path / "cleanrl.pt", options, "-o", tmp_path / "m.pt")
    assert result.output == f"{tmp_path / 'm.pt'}: PPO of CleanRL, 48-9-7-6, tanh\n"
    agent = load_agent(tmp_path / "m.pt")
    logits = actor(OBSERVATIONS.flatten(1))
    assert torch.equal(agent.act(OBSERVATIONS, None, explore=False).actions, logits.argmax(-1))
    assert agent.values(OBSERVATIONS, None) == pytest.approx(critic(OBSERVATIONS.flatten(1))[:, 0].detach(), abs=1e-6)
    mask = torch.ones(20, N_ROWS, dtype=torch.bool).scatter_(1, logits.argmax(-1, keepdim=True), value=False)
    assert torch.equal(agent.act(OBSERVATIONS, mask, explore=False).actions, logits.topk(2).indices[:, 1])
    checkpoint = load_checkpoint(tmp_path / "m.pt")
    assert checkpoint.environment == {"id": "hdrl/JobPick-v0", "arguments": checkpoint.environment["arguments"]}
    assert checkpoint.notes["trained_on"]["last_job"] == 599, "the first 60 % of the log"
    machine = read_platform("homogeneous:4096")
    trace = Model(tmp_path / "m.pt").play(machine, read_workload("lublin_gaia_1000", machine, n_jobs=30))
    assert np.isfinite(trace.records["start_s"]).all()


@pytest.mark.parametrize("is_shared", [False, True])
def test_rllibs_models_decide_as_there(tmp_path: Path, options: Path, *, is_shared: bool) -> None:
    encoder, head, value = layers(N_NUMBERS, 9, 7, last=True), layers(7, 5, N_ROWS), layers(7, 5, 1)
    clip = {"pi.log_std_clip_param_const": torch.tensor([20.0])}
    heads = {"pi__net__mlp": head, "vf__net__mlp": value}
    if is_shared:
        parts = named(encoder__encoder__net__mlp=encoder, **heads)
    else:
        other = layers(N_NUMBERS, 9, 7, last=True)
        parts = named(encoder__actor_encoder__net__mlp=encoder, encoder__critic_encoder__net__mlp=other, **heads)
    torch.save(parts | clip, tmp_path / "rllib.pt")
    refused = run(tmp_path / "rllib.pt", options, "-o", tmp_path / "m.pt")
    assert (refused.exit_code, "--activation" in refused.stderr) == (2, True)
    assert run(tmp_path / "rllib.pt", options, "-o", tmp_path / "m.pt", "--activation", "tanh").exit_code == 0
    agent = load_agent(tmp_path / "m.pt")
    known = encoder(OBSERVATIONS.flatten(1))
    assert torch.equal(agent.act(OBSERVATIONS, None, explore=False).actions, head(known).argmax(-1))
    if is_shared:
        assert agent.values(OBSERVATIONS, None) == pytest.approx(value(known)[:, 0].detach(), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "algorithm", "told"),
    [
        ("PPO", {}, "ppo", "48-64-64-6, tanh"),
        ("A2C", {"net_arch": {"pi": [12], "vf": [5, 5]}, "activation_fn": nn.ReLU}, "reinforce", "48-12-6, relu"),
        ("DQN", {}, "dqn", "48-64-64-6, relu"),
    ],
)
def test_models_of_stable_baselines3_decide_as_there(
    tmp_path: Path, options: Path, name: str, settings: dict[str, Any], algorithm: str, told: str
) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="needs stable-baselines3 (the extra dev)")
    env = gymnasium.make("hdrl/JobPick-v0", n_procs=64, n_jobs=20, max_jobs=N_ROWS)
    small = {"buffer_size": 10} if name == "DQN" else {}
    model = getattr(sb3, name)("MlpPolicy", env, policy_kwargs=settings or None, seed=1, device="cpu", **small)
    model.save(tmp_path / "sb3.zip")
    result = run(tmp_path / "sb3.zip", options, "-o", tmp_path / "m.pt")
    assert result.output.endswith(f"of Stable-Baselines3, {told}\n"), result.stderr
    assert load_checkpoint(tmp_path / "m.pt").algorithm == algorithm
    chosen = load_agent(tmp_path / "m.pt").act(OBSERVATIONS, None, explore=False).actions
    assert chosen.tolist() == model.predict(OBSERVATIONS.numpy(), deterministic=True)[0].tolist()


def test_networks_over_rows_decide_as_there(tmp_path: Path, options: Path) -> None:
    actor, critic = layers(N_FEATURES, 9, 7, 1), layers(N_FEATURES, 5, 1)
    torch.save(named(actor=actor, critic=critic), tmp_path / "cleanrl.pt")
    result = run(tmp_path / "cleanrl.pt", options, "-o", tmp_path / "m.pt")
    assert result.output == f"{tmp_path / 'm.pt'}: PPO of CleanRL, 6 rows of 8-9-7-1, tanh\n", result.stderr
    logits = actor(OBSERVATIONS).squeeze(-1)
    mask = torch.ones(20, N_ROWS, dtype=torch.bool).scatter_(1, logits.argmax(-1, keepdim=True), value=False)
    agent = load_agent(tmp_path / "m.pt")
    assert torch.equal(agent.act(OBSERVATIONS, None, explore=False).actions, logits.argmax(-1))
    assert torch.equal(agent.act(OBSERVATIONS, mask, explore=False).actions, logits.topk(2).indices[:, 1])


@pytest.mark.parametrize("may_hold", [False, True])
def test_the_policy_for_tables_of_stable_baselines3_decides_as_there(
    tmp_path: Path, options: Path, monkeypatch: pytest.MonkeyPatch, *, may_hold: bool
) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="needs sb3-contrib (the extra sb3)")
    from hdrl.envs.sb3 import as_vec_env
    from hdrl.learn.sb3 import RowPolicy

    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "logs"))
    arguments = {"n_procs": 64, "n_jobs": 20, "max_jobs": N_ROWS, "may_hold": may_hold}
    batch = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=4, autoreset_mode="SameStep", **arguments)
    model = contrib.MaskablePPO(
        RowPolicy, as_vec_env(batch), n_steps=32, batch_size=64, n_epochs=2, learning_rate=0.03, seed=1, device="cpu"
    )
    before = {name: weight.clone() for name, weight in model.policy.state_dict().items()}
    model.learn(256)
    assert all(not weight.equal(before[name]) for name, weight in model.policy.state_dict().items())
    model.save(tmp_path / "sb3.zip")
    words = ["--set", f"learning.arguments.may_hold={str(may_hold).lower()}"]
    result = run(tmp_path / "sb3.zip", options, "-o", tmp_path / "m.pt", *words)
    assert result.output.endswith(f"6 rows of 8-32-16-8-{1 + may_hold}, relu\n"), result.stderr
    masks = np.random.default_rng(1).random((20, N_ROWS * (1 + may_hold))) < 0.5
    masks[:, 2] = True
    chosen = load_agent(tmp_path / "m.pt").act(OBSERVATIONS, torch.from_numpy(masks), explore=False).actions
    there = model.predict(OBSERVATIONS.numpy(), action_masks=masks, deterministic=True)[0]
    assert chosen.tolist() == there.tolist()


def test_a_policy_for_tables_refuses_what_is_none(tmp_path: Path) -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="needs sb3-contrib (the extra sb3)")
    from hdrl.envs.sb3 import as_vec_env
    from hdrl.learn.sb3 import RowPolicy

    batch = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=2, n_procs=64, skip=True, autoreset_mode="SameStep")
    with pytest.raises(OptionsError, match=r"shape \(128, 8\) and there are 129 actions, expected a table"):
        contrib.MaskablePPO(RowPolicy, as_vec_env(batch), device="cpu")


# ------------------------------------------------------------------ statistics of observations


@pytest.mark.parametrize("n_in", [N_NUMBERS, N_FEATURES])
def test_models_behind_statistics_decide_as_there(tmp_path: Path, options: Path, n_in: int) -> None:
    """As `VecNormalize` computes: in double precision, clipped, then rounded to single."""
    rng = np.random.default_rng(3)
    mean, var = rng.random((N_ROWS, N_FEATURES)), rng.random((N_ROWS, N_FEATURES)) ** 8
    assert (np.abs((OBSERVATIONS.numpy() - mean) / np.sqrt(var)) > 3).any(), "some are clipped"
    actor = layers(n_in, 9, N_ROWS if n_in == N_NUMBERS else 1)
    torch.save(named(actor=actor), tmp_path / "cleanrl.pt")
    np.savez(tmp_path / "statistics.npz", mean=mean, var=var, clip_obs=3.0)
    words = [tmp_path / "cleanrl.pt", options, "-o", tmp_path / "m.pt", "--statistics", tmp_path / "statistics.npz"]
    result = run(*words)
    assert result.output.endswith("tanh, observations normalized\n"), result.stderr
    seen = np.clip((OBSERVATIONS.numpy() - mean) / np.sqrt(var + 1e-8), -3, 3).astype(np.float32)
    table = torch.from_numpy(seen)
    logits = actor(table.flatten(1)) if n_in == N_NUMBERS else actor(table).squeeze(-1)
    agent = load_agent(tmp_path / "m.pt")
    assert torch.equal(agent.act(OBSERVATIONS, None, explore=False).actions, logits.argmax(-1))
    assert not torch.equal(actor_of(actor, OBSERVATIONS, n_in), logits.argmax(-1)), "statistics matter"
    machine = read_platform("homogeneous:4096")
    trace = Model(tmp_path / "m.pt").play(machine, read_workload("lublin_gaia_1000", machine, n_jobs=30))
    assert np.isfinite(trace.records["start_s"]).all()


def actor_of(actor: nn.Module, table: Any, n_in: int) -> Any:
    return (actor(table.flatten(1)) if n_in == N_NUMBERS else actor(table).squeeze(-1)).argmax(-1)


def test_the_statistics_of_vec_normalize_are_what_is_documented(tmp_path: Path, options: Path) -> None:
    pytest.importorskip("stable_baselines3", reason="needs stable-baselines3 (the extra sb3)")
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    from hdrl.envs.sb3 import as_vec_env

    arguments = {"n_procs": 64, "n_jobs": 20, "max_jobs": N_ROWS}
    batch = gymnasium.make_vec("hdrl/JobPick-v0", num_envs=4, autoreset_mode="SameStep", **arguments)
    env = VecNormalize(as_vec_env(batch, illegal="nearest"), clip_obs=2.0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu")
    model.learn(128)
    model.save(tmp_path / "sb3.zip")
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^numpy\.savez\(.*\)$", page, flags=re.MULTILINE)
    exec(line.replace('"statistics.npz"', "out"), {"numpy": np, "env": env, "out": tmp_path / "s.npz"})
    result = run(tmp_path / "sb3.zip", options, "-o", tmp_path / "m.pt", "--statistics", tmp_path / "s.npz")
    assert result.exit_code == 0, result.stderr
    chosen = load_agent(tmp_path / "m.pt").act(OBSERVATIONS, None, explore=False).actions
    there = model.predict(env.normalize_obs(OBSERVATIONS.numpy()), deterministic=True)[0]
    assert chosen.tolist() == there.tolist()


def test_other_statistics_are_one_line(tmp_path: Path, options: Path) -> None:
    torch.save(named(actor=layers(N_NUMBERS, 9, N_ROWS)), tmp_path / "cleanrl.pt")
    one = np.ones((N_ROWS, N_FEATURES))
    (tmp_path / "text.npz").write_text("mean")
    np.savez(tmp_path / "half.npz", mean=one)
    np.savez(tmp_path / "wide.npz", mean=np.ones((2, 3)), var=np.ones((2, 3)))
    np.savez(tmp_path / "zero.npz", mean=one, var=0 * one, epsilon=0.0)
    np.savez(tmp_path / "nan.npz", mean=one * np.nan, var=one)
    np.savez(tmp_path / "object.npz", mean=np.array([{}], dtype=object), var=one)
    for name, says in {
        "none.npz": "no such file, expected what numpy.savez",
        "text.npz": "cannot be read",
        "half.npz": "has no var; expected what numpy.savez",
        "wide.npz": "the statistics are of 2 x 3 numbers, but observations are 6 x 8",
        "zero.npz": "var + epsilon is not above 0 everywhere",
        "nan.npz": "holds no finite mean and var",
        "object.npz": "cannot be read",
    }.items():
        words = ["-o", tmp_path / "m.pt", "--statistics", tmp_path / name]
        result = run(tmp_path / "cleanrl.pt", options, *words)
        assert (result.exit_code, says in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr
    assert not (tmp_path / "m.pt").exists()


def test_what_is_no_such_model_is_one_line(tmp_path: Path, options: Path) -> None:
    actor = layers(N_NUMBERS, 9, N_ROWS)
    files: dict[str, Any] = {
        "odd.pt": named(policy=actor),
        "list.pt": [1, 2],
        "deep.pt": {"actor": named(actor=actor)},
        "wide.pt": named(actor=layers(N_NUMBERS + 1, 9, N_ROWS)),
        "image.pt": named(actor=nn.Sequential(nn.Conv2d(1, 2, 3))),
        "more.pt": named(actor=actor, lstm=nn.Linear(2, 2)),
        "broken.pt": named(actor=nn.Sequential(nn.Linear(N_NUMBERS, 9), nn.Tanh(), nn.Linear(8, N_ROWS))),
    }
    for name, content in files.items():
        torch.save(content, tmp_path / name)
    torch.save({"format": "hdrl model"}, tmp_path / "ours.pt")
    (tmp_path / "text.pt").write_text("model")
    with zipfile.ZipFile(tmp_path / "pickle.zip", "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", b"\x80\x04cos\nsystem\n(S'true'\ntR.")
    for name, told in {
        "odd.pt": "begins with policy.0.weight",
        "list.pt": "holds no state dict",
        "deep.pt": "holds no state dict",
        "ours.pt": "is a model file of hdrl already",
        "wide.pt": "takes 49 numbers and chooses among 6 actions, but hdrl/JobPick-v0 gives 48 and has 6, or 8 and 1",
        "image.pt": "actor.0.weight is no fully connected layer",
        "more.pt": "looks like PPO of CleanRL, but has lstm.weight",
        "broken.pt": "actor.2.weight is no fully connected layer that follows",
        "text.pt": "cannot be read",
        "pickle.zip": "is not a model file",
        "none.pt": "no such file",
    }.items():
        result = run(tmp_path / name, options, "-o", tmp_path / "m.pt")
        assert (result.exit_code, told in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr
    assert not (tmp_path / "m.pt").exists()


# ------------------------------------------------------------------ the recipe of docs/agents.md

JOB_PICK = ROOT / "examples" / "job_pick.json"


def test_the_options_of_the_recipe_describe_its_environment(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    recipe = page.partition("## Models of other libraries")[2]
    call = re.search(r"gymnasium\.make_vec\(.*?\)\n", recipe, flags=re.DOTALL)
    assert call is not None
    batch = eval(call[0], {"gymnasium": gymnasium})
    (n_rows, n_features), n_actions = batch.single_observation_space.shape, int(batch.single_action_space.n)
    batch.close()
    torch.save(named(actor=layers(n_rows * n_features, 9, n_actions)), tmp_path / "mine.pt")
    imported = run(tmp_path / "mine.pt", JOB_PICK, "-o", tmp_path / "m.pt")
    assert imported.exit_code == 0, imported.stderr
    trained = load_checkpoint(tmp_path / "m.pt")
    example = runpy.run_path(str(ROOT / "examples" / "rllib_job_pick.py"), run_name="example")["ARGUMENTS"]
    for key in ("platform", "workload", "part", "n_jobs", "max_jobs", "reward"):
        assert f'{key}="{example[key]}"' in call[0] or f"{key}={example[key]}" in call[0], key
    assert trained.environment["arguments"]["max_jobs"] == example["max_jobs"]
    assert trained.notes["trained_on"]["last_job"] == 599, "the part 'train'"


@pytest.mark.parametrize("name", ["sb3", "cleanrl"])
def test_the_options_of_a_recipe_describe_its_environment(name: str) -> None:
    pytest.importorskip("sb3_contrib" if name == "sb3" else "torch", reason="needs the extra sb3")
    example = runpy.run_path(str(ROOT / "examples" / f"{name}_job_pick.py"), run_name="example")["ARGUMENTS"]
    options = json.loads((ROOT / "examples" / "loaded_job_pick.json").read_text(encoding="utf-8"))
    said = {
        "platform": options["platform_file_path"],
        "n_jobs": options["learning"]["episodes"]["n_jobs"],
        **options["learning"]["arguments"],
    }
    assert said | {"features": tuple(said["features"])} == example


# ------------------------------------------------------------------ weights of an index

JOB_INDEX = ROOT / "examples" / "job_index.json"


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("log") / "jobs.swf.gz"
    words = ["workload", "generate", "lublin", "-p", "homogeneous:256", "-n", "3000", "--load", "0.8", "-o", str(log)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    return log


def imported_weights(source: Path, log: Path) -> Any:
    out = source.with_suffix(".hdrl")
    result = run(source, JOB_INDEX, "-o", out, "--set", f"workload_file_path={log}")
    assert "24 weights" in result.output, result.stderr
    assert load_checkpoint(out).environment["id"] == "hdrl/JobIndex-v0"
    return load_agent(out).weights


@pytest.mark.parametrize("name", ["sb3", "cleanrl"])
def test_a_recipe_moves_the_weights_of_an_index(
    tmp_path: Path, small_log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="needs the extra sb3") if name == "sb3" else None
    out = tmp_path / ("mine.zip" if sb3 else "mine.pt")
    sizes = ("--steps", "--n-envs") if sb3 else ("--total-timesteps", "--num-envs")
    words = ["--workload", str(small_log), sizes[0], "44", sizes[1], "4", "--out", str(out)]
    recipe = ROOT / "examples" / f"{name}_job_index.py"
    monkeypatch.setattr("sys.argv", [str(recipe), *words])
    runpy.run_path(str(recipe), run_name="__main__")
    printed = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in printed] == ["steps", "0", "40", "44"]
    weights = imported_weights(out, small_log)
    if sb3:
        learned = sb3.PPO.load(out, device="cpu").predict(np.zeros(1, dtype=np.float32), deterministic=True)[0]
    else:
        learned = torch.load(out)["actor_mean.bias"].numpy()
    assert weights == pytest.approx(learned)
    curve = [float(line[2]) for line in printed[1:]]
    assert (abs(weights).max() > 0) == (max(curve) > curve[0]), "the best by validation is kept"


def test_a_network_before_an_index_says_what_it_says_of_nothing(tmp_path: Path, small_log: Path) -> None:
    actor = layers(1, 5, 24)
    torch.save(named(actor_mean=actor, critic=layers(1, 5, 1)), tmp_path / "mine.pt")
    expected = actor(torch.zeros(1)).detach().numpy()
    assert imported_weights(tmp_path / "mine.pt", small_log) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["sb3", "cleanrl"])
def test_the_options_of_an_index_describe_its_environment(name: str) -> None:
    pytest.importorskip("sb3_contrib" if name == "sb3" else "torch", reason="needs the extra sb3")
    example = runpy.run_path(str(ROOT / "examples" / f"{name}_job_index.py"), run_name="example")["ARGUMENTS"]
    options = json.loads(JOB_INDEX.read_text(encoding="utf-8"))
    said = {"platform": options["platform_file_path"], "n_jobs": options["learning"]["episodes"]["n_jobs"]}
    assert said | {"autoreset_mode": "SameStep"} == example


def test_what_was_not_imported_is_told_how(tmp_path: Path, options: Path) -> None:
    torch.save(named(actor=layers(N_NUMBERS, 9, N_ROWS)), tmp_path / "cleanrl.pt")
    torch.save(layers(3, 2), tmp_path / "whole.pt")
    with zipfile.ZipFile(tmp_path / "sb3.pt", "w") as archive:
        archive.writestr("policy.pth", b"")
    for name, says in (
        (
            "cleanrl.pt",
            "is not a model file of hdrl; hdrl model import reads files of Stable-Baselines3, RLlib and CleanRL",
        ),
        (
            "sb3.pt",
            "is not a model file of hdrl; hdrl model import reads files of Stable-Baselines3, RLlib and CleanRL",
        ),
        ("whole.pt", r"it holds more than tensors; save the network's state_dict\(\)\)$"),
    ):
        with pytest.raises(ReadError, match=says):
            load_checkpoint(tmp_path / name)
    whole = run(tmp_path / "whole.pt", options, "-o", tmp_path / "m.pt")
    assert (whole.exit_code, len(whole.stderr.splitlines())) == (2, 1)
    assert "save the network's state_dict()" in whole.stderr
    words = ["compare", "mine=sb3.zip", "-p", "homogeneous:64", "-w", "lublin_gaia_1000"]
    compared = CliRunner().invoke(cli, words, prog_name="hdrl")
    says = "sb3.zip: expected a model file; hdrl model import makes one of what that library saved"
    assert compared.stderr.strip() == f"hdrl: error: {says}"


def test_gymnasiums_name_of_an_environment_is_answered_with_ours(tmp_path: Path, options: Path) -> None:
    options.write_text(options.read_text().replace('"job_pick"', '"hdrl/JobPick-v0"'))
    with pytest.raises(OptionsError, match=r"learning.environment is 'hdrl/JobPick-v0', which options call 'job_pick'"):
        read_options(options)
    for setting in ("batch", "gpu", "pipelines", "adaptation"):
        for ours, spec in find_setting(setting).environments.items():
            with pytest.raises(ValueError, match=f"which options call {ours!r}"):
                LearningOptions(environment=spec.id)
