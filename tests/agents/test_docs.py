"""docs/agents.md says what is true: every setting with its default, every logged number, and code that runs."""

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import ALGORITHMS, make_agent  # noqa: E402
from hdrl.learn import NETWORKS, NetworkConfig, ReplayConfig, Trainer, ValueConfig  # noqa: E402
from hdrl.testing.toys import IdentityEnvs  # noqa: E402

DOC = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
SECTIONS = {"ppo": "PPO", "a2c": "A2C", "reinforce": "REINFORCE", "dqn": "DQN", "sac": "SAC", "random": "Random"}


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", DOC, re.MULTILINE | re.DOTALL)
    assert found, title
    return found.group(1)


def shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, str):
        return f"`{value}`"
    return f"{value:g}" if isinstance(value, float) else str(value)


def rows(config: type, text: str, without: type | None = None) -> None:
    common = without.model_fields if without else {}
    for name, field in config.model_fields.items():
        if name not in common:
            assert f"| `{name}` | {shown(field.default)} | {field.description} |" in text, name


@pytest.mark.parametrize("name", SECTIONS)
def test_every_setting_is_told_with_its_default(name: str) -> None:
    config = ALGORITHMS[name].agent_class().Config
    shared = next((base for base in (ReplayConfig, ValueConfig, NetworkConfig) if issubclass(config, base)), None)
    rows(config, section(SECTIONS[name]), shared)


def test_every_network_and_every_algorithm_is_told() -> None:
    rows(NetworkConfig, section("Networks"))
    rows(ValueConfig, section("Networks"), NetworkConfig)
    rows(ReplayConfig, section("Networks"), ValueConfig)
    for name in (*NETWORKS, *ALGORITHMS):
        assert f"`{name}`" in DOC, name


@pytest.mark.parametrize("name", SECTIONS)
def test_every_logged_number_is_told(name: str) -> None:
    envs = IdentityEnvs(4, length=3)
    extra = {"dqn": {"warm_up": 1}, "sac": {"warm_up": 1}, "reinforce": {"has_baseline": True}}.get(name, {})
    agent = make_agent(name, envs.single_observation_space, envs.single_action_space, **extra)
    told = []
    Trainer(agent, envs, n_threads=1).run(1, on_iteration=told.append)
    for logged in told[0].losses:
        assert f"`{logged}`" in section(SECTIONS[name]), logged


def test_its_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.search(r"^```python\n(.*?)^```$", DOC, re.MULTILINE | re.DOTALL)
    assert code
    exec(compile(code.group(1), "docs/agents.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert (tmp_path / "model.pt").is_file()
