"""hdrl compare as it is typed: tables, files, resuming, Ray, and one line for each mistake."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.launcher.main import cli
from hdrl.settings.batch.kernel import warm_up
from hdrl.settings.batch.workload import lublin_log, write_swf

pytest.importorskip("scipy", reason="scipy is not installed (extra report)")

PAGE = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text(encoding="utf-8")
WORLD = ["-p", "homogeneous:16", "-w", "log.swf", "-j", "1", "--set", "resamples=200"]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    warm_up(lambda _: None)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_swf(lublin_log(240, 16, load=0.8), tmp_path / "log.swf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *arguments], prog_name="hdrl")


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert not Path("out").exists()
    return line.removeprefix("hdrl: error: ")


def test_a_table_per_metric_the_warnings_and_the_verdict(folder: Path):
    result = run("f4+easy_sjbf", "fcfs", *WORLD, "--windows", "40", "--out", "out")
    assert result.exit_code == 0, result.stderr
    for title in ("mean_bounded_slowdown, 6 windows, less is better", "utilization (%), 6 windows, more is better"):
        assert title in result.stdout
    assert re.search(r"fcfs\+easy .*1\.00", result.stdout)
    assert "ratio to fcfs+easy" in result.stdout
    assert "warning: the best of 2 candidates" in result.stdout
    assert re.search(
        r"^the best of 2 candidates, f4\+easy_sjbf, has [\d.]+ \[[\d.]+, [\d.]+\] times the mean bounded slowdown",
        result.stdout,
        re.M,
    )
    assert result.stdout.endswith("results in out\n")
    # Said before the first simulation, since it could not have shown anything.
    assert result.stderr.startswith("warning: 6 windows cannot show any difference between 2 candidates")
    assert len(result.stderr.splitlines()) == 1


def test_quiet_says_the_verdict_and_the_warnings(folder: Path):
    result = run("sjf+easy", *WORLD, "--windows", "40", "--out", "out", "--quiet")
    lines = result.stdout.splitlines()
    assert lines[-1].startswith("sjf+easy has ")
    assert all(line.startswith("warning: ") for line in lines[:-1])


def test_json_is_the_file_of_the_folder(folder: Path):
    result = run("sjf+easy", *WORLD, "--windows", "40", "--out", "out", "--json")
    assert (result.stdout, result.stderr) == (Path("out/summary.json").read_text(), "")
    assert json.loads(result.stdout)["verdict"].startswith("sjf+easy has ")
    varied = run(*("sjf+easy", *WORLD, "--windows", "40", "--out", "varied", "--vary", "seed=1,2", "--json"))
    assert json.loads(varied.stdout) == json.loads(Path("varied/robust.json").read_text())


def test_what_can_be_asked_for(folder: Path):
    result = run(
        *("a=first-high_gflops", "random-random", *WORLD, "--windows", "30:2", "--range", "0.5:1", "--warm-up", "10"),
        *("--opponent", "sjf", "--seeds", "2", "--seed", "4", "--metrics", "mean_wait_s,energy_j", "--out", "out"),
        *("--set", "workload.memory=none", "--set", "contention=none"),
    )
    assert result.exit_code == 0, result.stderr
    sweep = json.loads(Path("out/sweep.json").read_text())
    assert sweep["windows"] == {"length": 30, "count": 2, "starts": None, "warm_up": 10}
    assert (sweep["range"], sweep["baseline"], sweep["seeds"], sweep["seed"]) == ([0.5, 1.0], "sjf", 2, 4)
    assert (sweep["workload"]["memory"], sweep["contention"], sweep["metrics"]) == (
        "none", "none", ["mean_wait_s", "energy_j"],
    )  # fmt: skip
    rows = Path("out/results.csv").read_text().splitlines()
    assert len(rows) == 1 + 2 * (1 + 1 + 2)
    assert re.search(r"mean_wait_s \((s|min|h)\)", result.stdout)
    assert re.search(r"energy_j \((kJ|kWh|MWh)\)", result.stdout)
    assert "mean_bounded_slowdown" not in result.stdout


def test_a_key_of_a_block_leaves_the_rest_of_the_block(folder: Path):
    windows = {"length": 20, "count": 2, "warm_up": 3, "follow_up": 5}
    sweep = {"platform": "homogeneous:16", "candidates": ["sjf+easy"], "workloads": ["log.swf"], "windows": windows}
    Path("sweep.json").write_text(json.dumps(sweep))

    def windows_of(*words: str) -> object:
        result = run("sweep.json", "-j", "1", "--set", "resamples=200", *words)
        assert result.exit_code == 0, result.stderr
        return json.loads((Path(words[-1]) / "sweep.json").read_text())["windows"]

    kept = {"length": 30, "count": 2, "starts": None, "warm_up": 3, "follow_up": 5}
    assert windows_of("--set", "windows.length=30", "--out", "one") == kept
    anew = {"length": 30, "count": None, "starts": None, "warm_up": 4}
    assert windows_of("--windows", "30", "--set", "windows.warm_up=4", "--out", "two") == anew


def test_many_rows_are_cut(folder: Path):
    result = run("pairs36", *WORLD, "--windows", "40:2", "--metrics", "mean_wait_s", "--out", "out")
    assert "17 more in summary.csv" in result.stdout
    assert len(result.stdout.splitlines()) < 40
    assert "the best of 36 candidates, " in result.stdout.splitlines()[-2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "nothing to compare: name candidates, or a sweep file"),
        ("fcfs -w log.swf", "--platform is missing"),
        ("fcfs -p gaia", "compare: there is nothing to simulate: give workloads (-w FILE), or loads"),
        (
            "sjf+easy-low_pwer -p homogeneous:16 -w log.swf",
            "no policy 'sjf+easy-low_pwer'; did you mean 'sjf+easy-low_power'?",
        ),
        ("fcsf -p homogeneous:16 -w log.swf", "no policy 'fcsf'; did you mean 'fcfs'?"),
        ("fcfs -p homogeneus:16 -w log.swf", "homogeneus:16: no such file; did you mean 'homogeneous:16'?"),
        ("fcfs -p 16 -w log.swf", "16: no such file; did you mean 'homogeneous:16'?"),
        ("m=. -p homogeneous:16 -w log.swf", "compare: . is a folder without model.pt"),
        ("fcfs -p homogeneous:16 -w log.swf --out log.swf", "log.swf: is a file, expected a folder"),
        ("fcfs -p gaja -w log.swf", "gaja: no such file, and no shipped platform of that name"),
        ("fcfs -p homogeneous:16 -w lag.swf", "lag.swf: no such file"),
        ("fcfs -p homogeneous:16 -w .", ".: is a folder, expected a file or the name of a shipped workload"),
        ("=fcfs -p homogeneous:16 -w log.swf", "compare: '=fcfs': expected NAME=CANDIDATE, or a candidate alone"),
        ("fcfs -p homogeneous:16 -w log.swf --metrics ''", "compare: no metric ''"),
        ("fcfs -p homogeneous:16 -w log.swf --windows ''", "--windows : expected LENGTH"),
        ("fcfs -p homogeneous:16 --windows 9:2 --loads ''", "--loads : expected numbers"),
        ("fcfs -p homogeneous:16 -w log.swf --range ''", "--range : expected two shares"),
        ("fcfs -p homogeneous:8 -w log.swf", "log: job"),
        ("fcfs -p homogeneous:16 -w log.swf --windows 300", "compare: log has room for 0 windows of 300 jobs"),
        ("fcfs -p homogeneous:16 -w log.swf --windows ten", "--windows ten: expected LENGTH, LENGTH:COUNT or"),
        ("fcfs -p homogeneous:16 -w log.swf --windows 9x2", "--windows 9x2: expected LENGTH, LENGTH:COUNT or"),
        ("fcfs -p homogeneous:16 -w log.swf --starts 1,2", "--starts needs --windows LENGTH"),
        ("fcfs -p homogeneous:16 -w log.swf --range 0.7", "--range 0.7: expected two shares"),
        ("fcfs -p homogeneous:16 -w log.swf --range a:b", "--range a:b: expected two shares with ':' between them"),
        ("fcfs -p homogeneous:16 -w log.swf --baseline best", "compare: baseline 'best' is chosen by the jobs before"),
        (
            "fcfs -p homogeneous:16 -w log.swf --baseline pairs36",
            "compare: baseline 'pairs36' stands for 36 candidates",
        ),
        ("fcfs -p homogeneous:16 -w log.swf --metrics slow", "compare: no metric 'slow'"),
        ("fcfs -p homogeneous:16 -w log.swf --set seed", "--set seed: expected KEY=VALUE"),
        ("fcfs -p homogeneous:16 -w log.swf --set candidates=sjf", "compare: candidates is 'sjf', expected a list"),
        ("fcfs -p homogeneous:16 -w log.swf --set sed=1", "compare: the file has no key 'sed'; did you mean 'seed'?"),
        (
            "fcfs -p homogeneous:16 -w log.swf --set seed=1 --set seed.x=2",
            "--set seed.x=2: another --set replaces the whole of seed; keep one of them",
        ),
        ("fcfs -p homogeneous:16 --windows 9:2 --loads 0.7,0.9,0.7", "compare: loads holds 0.7 more than once"),
        ("fcfs -p homogeneous:16 -w log.swf --on mars", "no location 'mars' for workers, expected local, ray or"),
        ("fcfs -p homogeneous:16 -w log.swf -w log.swf", "compare: two workloads are called 'log'"),
        (
            "nobody.py -p homogeneous:16 -w log.swf",
            "nobody.py: no such file, expected a policy (.py or .cpp) or a model",
        ),
        ("fcfs,sjf -p homogeneous:16 -w log.swf", "compare: no policy 'fcfs,sjf'; candidates are separate words"),
        ("a.py:f -p homogeneous:16 -w log.swf", "compare: no policy 'a.py:f'; name the file without a function"),
        ("nobody.json", "nobody.json: no such file"),
        ("nobody.json fcfs", "nobody.json is a sweep file, which stands alone"),
        ("--resume", "--resume takes --out DIR and no candidates or other options"),
        ("--resume --out out", "out: holds no comparison, expected a folder with sweep.json"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(words: str, message: str):
    arguments = shlex.split(words)
    if "--out" not in arguments and "--resume" not in arguments:
        arguments += ["--out", "out"]
    assert refused(*arguments).startswith(message)


@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_a_signal_keeps_what_is_there_and_resume_goes_on(folder: Path, number: signal.Signals, word: str):
    # As slow as it takes to be stopped in the middle, on a busy machine, too, while there is a file that says so.
    Path("is_slow").touch()
    Path("slow.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from hdrl.settings.batch.simulation import Start\n"
        "def policy(view):\n"
        "    time.sleep(0.02 if Path('is_slow').exists() else 0)\n"
        "    if len(view.running) or not len(view.waiting):\n"
        "        return []\n"
        "    job = view.waiting[0]\n"
        "    return [Start(job, view.free_cores[: view.workload.jobs['cores'][job]])]\n"
    )
    words = ["slow.py", "fcfs", *WORLD, "--windows", "20", "--out", "out"]
    command = [sys.executable, "-c", "from hdrl.launcher.main import cli; cli(prog_name='hdrl')", "compare", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        points = Path("out/points.jsonl")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and (not points.exists() or len(points.read_text().splitlines()) < 3):
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 128 + number, stderr
    assert stdout == ""
    assert stderr.splitlines() == [
        "hdrl keeps finished simulations; to continue: hdrl compare --resume --out out --trust",
        f"hdrl: error: {word}",
    ]
    n_kept = len(points.read_text().splitlines()) - 1
    assert 2 <= n_kept < 36
    Path("is_slow").unlink()
    assert "names the Python file slow.py" in run("--resume", "--out", "out", "-j", "1").stderr
    result = run("--resume", "--out", "out", "-j", "1", "--trust")
    assert result.exit_code == 0, result.stderr
    assert f"out: continues, {n_kept} points are there" in result.stderr
    whole = run(*words[:-1], "whole")
    assert whole.exit_code == 0, whole.stderr
    for name in ("results.csv", "summary.csv", "summary.json"):
        assert (folder / "out" / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


def test_clairvoyance_is_told(folder: Path):
    Path("oracle.py").write_text("def policy(view):\n    return []\npolicy.clairvoyant = True\n")
    result = run("oracle.py", "fcfs", *WORLD, "--windows", "40:2", "--out", "out", "--quiet")
    assert "warning: oracle.py sees true run times" in result.stdout
    Path("oracle.py").write_text("clairvoyant = True\ndef policy(view):\n    return []\n")
    result = run("oracle.py", "fcfs", *WORLD, "--windows", "40:2", "--out", "again", "--quiet")
    assert "warning: oracle.py sees true run times" in result.stdout


def test_the_commands_of_the_page_run(folder: Path):
    sweep = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert sweep
    Path("sweep.json").write_text(sweep[1])
    commands = re.findall(r"^(?:\$ )?hdrl (compare .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        result = CliRunner().invoke(cli, [*shlex.split(command), "-j", "1"])
        assert result.exit_code == 0, f"{command}\n{result.output}"


def test_the_page_names_every_option():
    result = run("--help")
    options = set(re.findall(r"--[a-z-]+", result.output)) - {"--help", "--quiet", "--out", "--opponent", "--workload"}
    missing = {"--platform", "--jobs"}  # by their short names
    assert {option for option in options if option not in PAGE} <= missing


def test_help_is_quick(folder: Path):
    code = "import sys; from hdrl.launcher.compare import compare; print('numba' in sys.modules, 'ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout == "False False\n"


def test_a_comparison_in_which_a_candidate_failed_does_not_look_like_a_success(folder: Path):
    (folder / "nan.py").write_text("def priority(job, now_s):\n    return float('nan')\n")
    (folder / "lazy.py").write_text("def policy(view):\n    return []\n")
    command = ["nan.py", "sjf+easy", "lazy.py", *WORLD, "--windows", "40", "--out", "out", "--quiet"]
    for _ in range(2):  # the folder is finished then
        result = run(*command)
        assert result.exit_code == 1, result.output
        assert "has " in result.stdout, "there is a verdict about the others"
        (line,) = (text for text in result.stderr.splitlines() if text.startswith("hdrl: error: "))
        assert "error: nan.py failed in 6 of 6 simulations, and 1 more candidate failed; the first: window 0 of" in line
        assert line.endswith("is nan, expected a number")
    assert json.loads((folder / "out" / "summary.json").read_text())["n_points"] == 24
    (folder / "out" / "results.csv").write_text("nothing\n1\n")
    assert "results.csv: is not a table of results of a comparison" in run(*command).stderr


def test_intervals_are_of_the_confidence_that_was_asked_for(folder: Path):
    result = run("sjf+easy", *WORLD, "--windows", "40", "--set", "confidence=0.9", "--out", "out")
    assert result.exit_code == 0, result.stderr
    assert "[90 %]" in result.stdout
    assert "[95 %]" not in result.stdout
