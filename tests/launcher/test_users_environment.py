"""What users' shells, notebooks and clusters set does not change what hdrl does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli

LOG = "".join(f"{job} {job * 5} -1 20 1 -1 -1 1 30 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for job in range(1, 6))


def run(*words: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    environment = os.environ | variables
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.mark.parametrize(
    "program",
    [
        "import gymnasium, hdrl; gymnasium.make('hdrl/JobPick-v0')",
        "import hdrl, gymnasium; gymnasium.make('hdrl/JobPick-v0')",
        "import gymnasium; gymnasium.make('hdrl:hdrl/JobPick-v0')",
        "import sys, hdrl; assert 'gymnasium' not in sys.modules",
    ],
)
def test_environments_are_registered_in_any_order(tmp_path: Path, program: str):
    done = run("-c", program, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_python_m_hdrl(tmp_path: Path):
    done = run("-m", "hdrl", "list", folder=tmp_path)
    assert done.returncode == 0
    assert "policies" in done.stdout


def test_no_numba_threads_is_one_line(tmp_path: Path):
    done = run("-m", "hdrl", "list", folder=tmp_path, NUMBA_NUM_THREADS="0")
    assert (done.returncode, done.stderr) == (
        2,
        "hdrl: error: the environment variable NUMBA_NUM_THREADS is 0, expected 1 or more\n",
    )


def test_terminals_without_the_letters_of_a_name(tmp_path: Path):
    (tmp_path / "ü.swf").write_text(LOG)
    done = run("-m", "hdrl", "workload", "stat", "ü.swf", folder=tmp_path, PYTHONIOENCODING="ascii", LANG="C")
    assert done.returncode == 0, done.stderr
    assert "\\xfc" in done.stdout
    missing = run("-m", "hdrl", "workload", "stat", "ö.swf", folder=tmp_path, PYTHONIOENCODING="ascii")
    assert (missing.returncode, len(missing.stderr.splitlines())) == (2, 1)


def test_pictures_do_not_depend_on_the_users_matplotlib(tmp_path: Path):
    pytest.importorskip("matplotlib")
    draw = (
        "from pathlib import Path; from hdrl.figures.style import canvas, default_look, save\n"
        "with default_look():\n"
        "    figure, (ax,) = canvas(None)\n"
        "    ax.set_title('日本_1'); ax.plot([0, 1])\n"
        "save(figure, 'a.png')"
    )
    pictures = []
    for name, rc, backend in (("plain", "", "agg"), ("tex", "text.usetex: True\nlines.linewidth: 9\n", "nonsense")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "matplotlibrc").write_text(rc)
        done = run("-W", "error::UserWarning", "-c", draw, folder=folder, MPLBACKEND=backend)
        assert done.returncode == 0, done.stderr
        pictures.append((folder / "a.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_mistakes_in_json_name_line_and_column(tmp_path: Path):
    file = tmp_path / "o.json"
    file.write_text('{"seed": 1, "b" 3}')
    done = CliRunner().invoke(cli, ["options", "check", str(file)], prog_name="hdrl")
    assert f"{file}:1:17: is not JSON" in done.stderr


def test_ray_address_is_the_cluster(tmp_path: Path):
    pytest.importorskip("ray")
    (tmp_path / "log.swf").write_text(LOG)
    words = "compare fcfs sjf -p homogeneous:4 -w log.swf --windows 2:2 --on ray --out r"
    done = run("-m", "hdrl", *words.split(), folder=tmp_path, RAY_ADDRESS="127.0.0.1:9")
    assert done.returncode == 2
    assert "127.0.0.1:9: nothing answers there" in done.stderr
