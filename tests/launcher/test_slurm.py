"""hdrl slurm: files that sbatch takes, and that do what was asked for when they run."""

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.main import cli

SRUN = """#!/bin/bash
printf '%s\\n' "$@" "threads $OMP_NUM_THREADS $NUMBA_NUM_THREADS" "cache $HDRL_CACHE"
"""


def slurm(*words: object) -> Result:
    return CliRunner().invoke(cli, ["slurm", *map(str, words)], prog_name="hdrl")


def directives(text: str) -> dict[str, str]:
    lines = [line.removeprefix("#SBATCH --") for line in text.splitlines() if line.startswith("#SBATCH ")]
    return dict(line.split("=", 1) for line in lines)


def venv_in(folder: Path) -> Path:
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "bin" / "activate").write_text("")
    return folder / "venv"


def run(text: str, folder: Path, **told: str) -> list[str]:
    """Run a file as Slurm does, with an srun that prints what it is given."""
    (folder / "bin").mkdir()
    for name, content in (("srun", SRUN), ("module", "#!/bin/bash\n")):
        (folder / "bin" / name).write_text(content)
        (folder / "bin" / name).chmod(0o755)
    known = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": "/work", **told}
    done = subprocess.run(["bash"], input=text, env=known, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_task_with_its_processors(tmp_path: Path):
    result = slurm(
        "--cpus", 8, "--venv", venv_in(tmp_path), "--", "hdrl-launch", "ppo", "my options.json", "--set", "a='b'"
    )
    assert result.exit_code == 0, result.output
    found = directives(result.output)
    assert (found["nodes"], found["ntasks"], found["cpus-per-task"]) == ("1", "1", "8")
    assert result.output.startswith("#!/bin/bash\n#SBATCH --")
    lines = run(result.output, tmp_path, SLURM_CPUS_PER_TASK="8")
    assert lines[-7:-2] == ["hdrl-launch", "ppo", "my options.json", "--set", "a='b'"]
    assert lines[-2:] == ["threads 8 8", "cache /work/.hdrl-cache"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--array", "0-9%2", "--", "hdrl-launch", "o.json", "--out", "runs/s{task}"], "runs/s1"),
        (["--each", "a b", "--each", "c'd", "--", "hdrl", "run", "o.json", "--set", "x={each}"], "x=c'd"),
    ],
)
def test_tasks_of_an_array_differ(tmp_path: Path, words: list[str], expected: str):
    text = slurm("--venv", venv_in(tmp_path), *words).output
    found = directives(text)
    assert found["array"] in ("0-9%2", "0-1")
    assert found["output"] == "hdrl-%A_%a.out"
    assert expected in run(text, tmp_path, SLURM_CPUS_PER_TASK="1", SLURM_ARRAY_TASK_ID="1")


@pytest.mark.parametrize(
    ("site", "partition", "cpus"),
    [("archer2", "standard", "128"), ("cirrus-cpu", "standard", "36"), ("cirrus-gpu", "gpu", "10")],
)
def test_sites(tmp_path: Path, site: str, partition: str, cpus: str):
    out = tmp_path / "job.sh"
    result = slurm("--site", site, "--account", "e123", "-o", out, "--", "hdrl", "compare", "fcfs")
    assert (result.exit_code, result.output) == (0, f"sbatch {out}\n")
    found = directives(out.read_text())
    assert (found["partition"], found["cpus-per-task"], found["account"]) == (partition, cpus, "e123")
    assert (found.get("gres") == "gpu:1") == (site == "cirrus-gpu")
    assert ("module load cray-python" in out.read_text()) == (site == "archer2")
    assert subprocess.run(["bash", "-n", str(out)]).returncode == 0
    short = slurm("--site", site, "--account", "e1", "--directive", "qos=short", "--", "hdrl", "cache").output
    assert directives(short)["qos"] == "short"
    again = slurm("--site", site, "--account", "e123", "-o", out, "--", "hdrl", "cache")
    assert again.exit_code == 2
    assert "exists already" in again.output


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--", "python", "x.py"], "the command begins with 'python', expected one of hdrl"),
        (["--site", "archer", "--", "hdrl"], "no site 'archer'; did you mean 'archer2'"),
        (["--site", "archer2", "--", "hdrl"], "runs no job without an account"),
        (["--site", "archer2", "--account", "a", "--cpus", "129", "--", "hdrl"], "expected 1 to 128 on archer2"),
        (["--time", "1h", "--", "hdrl"], "time is '1h'"),
        (["--array", "a", "--", "hdrl", "{task}"], "array is 'a': expected numbers"),
        (["--array", "0-3", "--", "hdrl"], "has no {task}: all tasks would do the same"),
        (["--", "hdrl", "{task}"], "has {task}, which needs --array"),
        (["--name", "a b", "--", "hdrl"], "no option that can stand in a file for sbatch"),
        (["--directive", "ntasks=4", "--", "hdrl"], "ntasks is 4, expected 1"),
        (["--directive", "ntasks", "--", "hdrl"], "expected NAME=VALUE"),
        (["--directive", "cpus-per-task=many", "--", "hdrl"], "cpus-per-task is 'many', expected 1 to the processors"),
        (["--directive", "cpus-per-task=0", "--", "hdrl"], "cpus-per-task is '0', expected 1 to the processors of a"),
        (
            ["--site", "archer2", "--account", "a", "--cpus", "8", "--directive", "cpus-per-task=129", "--", "hdrl"],
            "cpus-per-task is '129', expected 1 to 128 on archer2",
        ),
        (["--directive", "time=soon", "--", "hdrl"], "time is 'soon'"),
        (["--directive", "array=x", "--", "hdrl"], "array is 'x': expected numbers"),
        (["--", "hdrl", "a\nb"], "a word with a line break"),
    ],
)
def test_mistakes_are_one_line(words: list[str], problem: str):
    result = slurm(*words)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert problem in result.output


@pytest.mark.parametrize("module", ["a; rm -rf ~", "$(id)", "`id`", "a b", "a\nid", "-h", "a'b", "", "é"])
def test_a_module_is_one_word(module: str):
    done = CliRunner().invoke(cli, ["slurm", "--module", module, "--", "hdrl-launch", "classic", "options.json"])
    assert done.exit_code != 0
    assert "no name of a module" in done.stderr


def test_modules_of_usual_names_are_loaded():
    done = CliRunner().invoke(
        cli, ["slurm", "--module", "python/3.11.6-gcc+x", "--", "hdrl-launch", "classic", "options.json"]
    )
    assert "module load python/3.11.6-gcc+x\n" in done.output
