"""Words of the command line that must reach the options before these are checked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.experiment.run.agentfile import AgentKind, load_agent
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.settings.batch.workload import shipped_workloads

ROOT = Path(__file__).parents[2]


@pytest.fixture
def options(tmp_path: Path) -> Path:
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"platform_file_path": "learning", "pybatsim": {"log_level": "DEBUG"}}))
    return file


@pytest.mark.parametrize(
    "words", [["-cw", "learning"], ["-cw", str(shipped_workloads()["learning"])], ["--set", "workload.custom=learning"]]
)
def test_a_policy_as_the_agent_honours_the_workload(options: Path, tmp_path: Path, words: list[str]):
    done = CliRunner().invoke(launch, ["sjf", str(options), *words, "--out", str(tmp_path / "r"), "--quiet"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(cli, ["options", "check", str(options), "-a", "sjf", *words]).exit_code == 0


def test_a_policy_as_the_agent_honours_a_log(options: Path, tmp_path: Path):
    words = ["sjf", str(options), "--set", "workload_file_path=lublin_gaia_1000", "--set", "nb_jobs=5"]
    done = CliRunner().invoke(launch, [*words, "--set", "platform_file_path=gaia", "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output


def test_quiet_silences_the_log(options: Path, tmp_path: Path):
    command = [sys.executable, "-c", "from hdrl.launcher.launch import launch; launch()", "sjf", str(options)]
    done = subprocess.run(
        [*command, "-cw", "learning", "--quiet", "--out", str(tmp_path / "r")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{tmp_path / 'r'}\n")


def test_agents_of_hdeeprm_run_with_their_import(tmp_path: Path):
    pytest.importorskip("torch", reason="agents that learn need torch")
    text = (ROOT / "examples" / "reinforce.py").read_text()
    assert "from hdrl.compat.hdeeprm.bases import" in text
    file = tmp_path / "agent.py"
    file.write_text(text.replace("from hdrl.compat.hdeeprm.bases import", "from hdeeprm.agent import"))
    assert load_agent(file, lambda: "first-first").kind is AgentKind.HDEEPRM
    assert "hdeeprm" not in sys.modules
