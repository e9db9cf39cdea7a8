"""The standing benchmark: a whole small cycle, and results that are not true."""

import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

pytest.importorskip("scipy", reason="needs scipy (the extra report)")

from hdrl.base.commitments import commitment_of, revealed_seed
from hdrl.base.errors import OptionsError, ReadError, UnknownName
from hdrl.base.hashing import sha256_of_file
from hdrl.bench import board
from hdrl.bench import check as checking
from hdrl.bench.check import check_result
from hdrl.bench.difficulty import classic_names, measure, read_classics, read_facts, read_shipped, write_measured
from hdrl.bench.divisions import Known, forbidden, strictest
from hdrl.bench.results import read_result
from hdrl.bench.tasks import all_tasks, chosen_tasks, read_task
from hdrl.experiment import run_experiment
from hdrl.experiment.run.inputs import parse_options
from hdrl.experiment.run.manifest import write_manifest
from hdrl.launcher.main import cli
from hdrl.metrics.statistics import ladder
from hdrl.metrics.statistics.student import student_quantile
from tests.bench.processes import running

ROOT = Path(__file__).parents[2]
TASK = "pipelines-overload-130"


def hdrl(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, ["bench", *map(str, arguments)])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "edf"
    assert "division untrained" in hdrl("run", "edf+fusion", "--tasks", TASK, "-o", folder, "-j", 1)
    return folder


@pytest.fixture
def result(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "result"))


def table(folder: Path) -> Path:
    return folder / "tasks" / TASK / "results.csv"


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def edited_points(folder: Path) -> None:
    """Halve the misses of every window of the entry."""
    head, *rows = table(folder).read_text().splitlines()
    position = head.split(",").index("miss_ratio")
    changed = []
    for row in rows:
        cells = row.split(",")
        if cells[0] == "edf+fusion":
            cells[position] = repr(float(cells[position]) / 2)
        changed.append(",".join(cells))
    table(folder).write_text("\n".join([head, *changed]) + "\n")


def test_there_are_tasks_of_all_settings_and_small_ones_need_no_log():
    tasks = all_tasks()
    assert len(tasks) >= 12
    assert {named.task.setting_name for named in tasks.values()} == {"batch", "gpu", "pipelines", "adaptation"}
    assert {named.task.setting_name for named in chosen_tasks("small")} == {"batch", "gpu", "pipelines", "adaptation"}
    for named in chosen_tasks("small"):
        task = named.task
        sweep = named.sweep([task.baseline])
        for metric in (task.objective, task.tail, task.waits, task.yardstick.bound, task.yardstick.per):
            assert metric is None or metric in task.setting.measures.metrics
        assert sweep.metrics == [task.objective, task.tail]


def test_difficulty_was_measured_of_the_tasks_as_they_are():
    facts, classics = read_facts(), read_classics()
    for named in chosen_tasks("small"):
        assert facts[named.name].sha256 == named.task.sha256(), f"hdrl bench measure --tasks {named.name}"
        again = f"a classic policy came or went: hdrl bench measure --tasks {named.name}"
        assert [one.policy for one in classics[named.name]] == classic_names(named.task), again
        assert facts[named.name].gap > 1, "no classic policy beats its yardstick"


def test_what_is_kept_is_what_is_measured(tmp_path: Path):
    fact, classics = measure(read_task(TASK), tmp_path / "points", n_workers=1)
    write_measured(tmp_path, [(fact, classics)])
    ours, kept = read_facts(tmp_path)[TASK], read_facts()[TASK]
    assert (ours.best, ours.gap, ours.share_waiting, ours.agreement) == (
        kept.best,
        kept.gap,
        kept.share_waiting,
        kept.agreement,
    )
    for one, other in zip(read_classics(tmp_path)[TASK], read_classics()[TASK], strict=True):
        assert one.policy == other.policy
        assert one.objective.tolist() == other.objective.tolist()


@pytest.mark.usefixtures("without_pictures")
def test_a_whole_cycle(made: Path, tmp_path: Path):
    pytest.importorskip("jinja2", reason="pages need the extra report")
    assert "is true; 6 simulations repeated" in hdrl("check", made)
    assert "is true; 48 simulations repeated" in hdrl("check", made, "--windows", "all")
    before = table(made).read_bytes()
    hdrl("run", "edf+fusion", "--tasks", TASK, "-o", made, "-j", 1)
    assert table(made).read_bytes() == before, "what is finished is not made again"
    hdrl("board", made, "-o", tmp_path / "site")
    pages = {path.name for path in (tmp_path / "site").iterdir()}
    assert pages == {"index.html", "result-1.html", *(f"{name}.html" for name in all_tasks())}
    page = (tmp_path / "site" / f"{TASK}.html").read_text()
    assert read_result(made).card.command in page
    assert "edf+fusion" in page
    assert "Traceback" not in hdrl("board", made, "-o", tmp_path / "site", code=2)


def test_the_command_of_a_card_makes_the_same_points(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = shutil.copytree(made, tmp_path / "copy")
    monkeypatch.chdir(copy)
    words = read_result(copy).card.command.split()
    assert words[:3] == ["hdrl", "bench", "run"]
    hdrl(*words[2:-1], tmp_path / "again")
    assert table(tmp_path / "again").read_bytes() == table(made).read_bytes()


def test_edited_points_are_found_by_their_hash(result: Path):
    edited_points(result)
    output = hdrl("check", result, code=1)
    assert f"hash: tasks/{TASK}/results.csv: was changed" in output
    assert "is not true" in output


def test_edited_points_are_found_by_playing_them_again_even_if_their_hashes_are_right(result: Path):
    edited_points(result)
    write_manifest(result)
    checked = check_result(result, n_windows=None)
    assert {one.kind for one in checked.findings} == {"replay"}
    assert "miss_ratio is" in checked.findings[0].text
    assert "replay" in hdrl("check", result, "--windows", "all", code=1)


def test_windows_that_are_left_out_are_found(result: Path):
    lines = table(result).read_text().splitlines()
    table(result).write_text("\n".join(lines[:-1]) + "\n")
    write_manifest(result)
    assert "has 47 points, expected the 48" in hdrl("check", result, code=1)


def test_another_sweep_is_found(result: Path):
    edit(result / "tasks" / TASK / "sweep.json", '"seed": 20261', '"seed": 7')
    write_manifest(result)
    assert "sweep.json has seed 7, the task says 20261" in hdrl("check", result, code=1)


def test_added_and_missing_files_are_found(result: Path):
    (result / "more.txt").write_text("")
    table(result).unlink()
    output = hdrl("check", result, code=1)
    assert "more.txt: is not a file of the result" in output
    assert "is missing" in output


def test_a_result_of_an_older_task_is_stale(result: Path):
    card = json.loads((result / "card.json").read_text())
    card["tasks"][TASK] = "0" * 64
    (result / "card.json").write_text(json.dumps(card))
    write_manifest(result)
    output = hdrl("check", result, code=1)
    assert f"stale: {TASK}: the task is another one now" in output


def test_too_long_a_training_is_named(result: Path):
    edit(result / "card.json", '"core_minutes": 0.0', '"core_minutes": 5000.0')
    write_manifest(result)
    assert "budget" in hdrl("check", result, code=1)


def test_a_clairvoyant_policy_enters_one_division_only(tmp_path: Path):
    task = "adaptation-signals"
    output = hdrl("run", "oracle", "--tasks", task, "--division", "untrained", "-o", tmp_path / "no", code=2)
    assert "sees how long jobs take, which division untrained forbids" in output
    assert not (tmp_path / "no").exists()
    folder = tmp_path / "oracle"
    output = hdrl("run", "oracle", "--tasks", task, "-o", folder, "-j", 1)
    assert f"division: clairvoyant, because of task {task}: it sees how long jobs take" in output
    assert "oracle: 1 task, division clairvoyant" in output
    assert "is true" in hdrl("check", folder)
    edit(folder / "card.json", '"division": "clairvoyant"', '"division": "untrained"')
    write_manifest(folder)
    output = hdrl("check", folder, code=1)
    assert f"knowledge: {task}: oracle sees how long jobs take" in output


def test_what_each_division_forbids():
    judged, log, truth = Known("judged", "knows"), Known("log", "knows"), Known("truth", "sees")
    assert [forbidden([judged], one) != "" for one in ("untrained", "trained", "clairvoyant")] == [True, True, True]
    assert [forbidden([log], one) != "" for one in ("untrained", "trained", "clairvoyant")] == [True, False, False]
    assert [forbidden([truth], one) != "" for one in ("untrained", "trained", "clairvoyant")] == [True, True, False]
    assert [strictest(one) for one in ([], [log], [truth], [log, truth])] == [
        "untrained",
        "trained",
        "clairvoyant",
        "clairvoyant",
    ]


def python_entry(folder: Path, body: str = "pass") -> Path:
    path = folder / "mine.py"
    path.write_text(
        f"import os, socket, pathlib\n{body}\ndef priorities(jobs, now_s):\n    return jobs['requested_time_s']\n"
    )
    return path


def told_hashes(folder: Path) -> tuple[str, str]:
    """Return the hash of the file that was judged, and of the one that is there."""
    told = json.loads((folder / "tasks" / "batch-gaia" / "provenance.json").read_text())
    (before,) = told["identity"]["candidates"]["mine.py+easy"]["sha256"]
    return before, sha256_of_file(folder / "entry" / "mine.py")


HARM = """
import contextlib, subprocess
if pathlib.Path({flag!r}).exists():
    with contextlib.suppress(OSError):
        pathlib.Path({mark!r}).write_text(str(os.getpid()))
    with contextlib.suppress(OSError):
        os.remove({kept!r})
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", {port}), 1).close()
    subprocess.Popen(["sleep", {seconds!r}], start_new_session=True)
"""


def test_python_of_strangers_can_do_no_harm_to_who_checks_it(tmp_path: Path):
    flag, mark, kept = (tmp_path / name for name in ("flag", "mark", "kept"))
    seconds = f"98{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = HARM.format(flag=str(flag), mark=str(mark), kept=str(kept), port=port, seconds=seconds)
        folder = tmp_path / "result"
        hdrl(*("run", f"{python_entry(tmp_path, body)}+easy", "--tasks", "batch-gaia", "-o", folder, "-j", 1))
        flag.touch()
        kept.touch()
        checked = check_result(folder)
        assert checked.is_true, checked.findings
        assert checked.n_replayed == 6
        assert any("Python file" in note for note in checked.notes)
        server.settimeout(0.1)
        if not any("network" in note for note in checked.notes):
            with pytest.raises(TimeoutError):
                server.accept()
            assert not running("sleep", seconds), "processes that it has left end with it"
        if not any("change files" in note for note in checked.notes):
            assert kept.exists()
            assert not mark.exists()
    assert not mark.exists() or mark.read_text() != str(os.getpid())
    flag.unlink()
    edit(
        folder / "entry" / "mine.py",
        "import contextlib",
        f"pathlib.Path({str(mark)!r}).write_text('trusted')\nimport contextlib",
    )
    edit(folder / "tasks" / "batch-gaia" / "provenance.json", *told_hashes(folder))
    write_manifest(folder)
    check_result(folder, trust=True)
    assert mark.read_text() == "trusted"


def test_a_python_file_that_changes_its_mind_is_found(tmp_path: Path):
    file = python_entry(tmp_path)
    folder = tmp_path / "result"
    hdrl("run", f"{file}+easy", "--tasks", "batch-gaia", "-o", folder, "-j", 1)
    edit(folder / "entry" / "mine.py", "jobs['requested_time_s']", "-jobs['requested_time_s']")
    assert "hash: entry/mine.py: was changed" in hdrl("check", folder, code=1)
    write_manifest(folder)
    assert "points: batch-gaia: another entry was judged" in hdrl("check", folder, code=1)
    edit(folder / "tasks" / "batch-gaia" / "provenance.json", *told_hashes(folder))
    write_manifest(folder)
    assert "replay: batch-gaia" in hdrl("check", folder, code=1)


def test_mistakes_are_one_line(tmp_path: Path):
    for arguments, words in (
        (["show", "batch-lublim-95"], "batch-lublin-95"),
        (["run", "edf", "--tasks", "smal", "-o", tmp_path / "x"], "small"),
        (["run", "edff", "--tasks", TASK, "-o", tmp_path / "x"], "edf"),
        (["run", "heuristics", "--tasks", TASK, "-o", tmp_path / "x"], "expected one"),
        (["check", tmp_path], "holds no finished result"),
        (["check", tmp_path, "--windows", "few"], "expected a number"),
        (["run", "edf", "--tasks", f"{TASK},{TASK}", "-o", tmp_path / "x"], "twice"),
    ):
        output = hdrl(*arguments, code=2)
        assert words in output
        assert len(output.strip().splitlines()) == 1, output
    assert not (tmp_path / "x").exists()
    with pytest.raises(UnknownName):
        read_task("nothing")
    with pytest.raises(ReadError):
        read_result(tmp_path)
    with pytest.raises(OptionsError):
        chosen_tasks("batch-gaia,batch-gaia")


@pytest.mark.usefixtures("without_pictures")
def test_a_withdrawn_result_stays_visible(result: Path, tmp_path: Path):
    pytest.importorskip("jinja2", reason="pages need the extra report")
    (result / "withdrawn.txt").write_text("The seed was chosen by the result.\n")
    hdrl("board", result, "-o", tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert "withdrawn: The seed was chosen by the result." in page
    assert check_result(result).is_true, "the sentence is not a part of the result"


@pytest.mark.usefixtures("without_pictures")
def test_an_untrue_result_is_on_the_board_with_its_reason(result: Path, tmp_path: Path):
    pytest.importorskip("jinja2", reason="pages need the extra report")
    edited_points(result)
    hdrl("board", result, "-o", tmp_path / "site")
    assert "hash: tasks/" in (tmp_path / "site" / "index.html").read_text()


def test_each_check_draws_other_windows(result: Path, monkeypatch: pytest.MonkeyPatch):
    drawn: list[list[int]] = []
    original = checking.replay

    def spy(one, named, windows, **kw):
        drawn.append(list(windows))
        return original(one, named, windows, **kw)

    monkeypatch.setattr(checking, "replay", spy)
    for _ in range(4):
        check_result(result, n_windows=2)
    assert all(len(set(windows)) == 2 for windows in drawn)
    assert len({tuple(windows) for windows in drawn}) > 1, "an author could edit the windows that are not drawn"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two models that were hardly trained: on jobs before those that judge, and on those."""
    pytest.importorskip("torch", reason="torch is not installed (extra learn)")
    folder = tmp_path_factory.mktemp("models")
    options = json.loads((Path(__file__).parents[2] / "examples" / "evolve.json").read_text())
    options["learning"] |= {"iterations": 1, "n_envs": 4, "arguments": {"n_windows": 2}, "tensorboard": False}
    for name, part in (("early", [0.0, 0.05]), ("late", [0.75, 0.8])):
        options["learning"]["episodes"] = {"n_jobs": 40, "train": part, "validation": [0.05, 0.07], "test": [0.98, 1.0]}
        run_experiment(parse_options(options, folder=folder), out=folder / name)
    return folder


def test_a_model_that_knows_the_log_enters_the_division_of_those(models: Path, tmp_path: Path):
    file, folder = models / "early" / "model.pt", tmp_path / "result"
    arguments = ["run", f"mine={file}", "--tasks", "batch-gaia", "-j", 1, "--core-minutes", 2, "--how", "a test"]
    output = hdrl(*arguments, "--division", "untrained", "-o", folder, code=2)
    assert "of the same log, which division untrained forbids" in output
    assert "division trained" in hdrl(*arguments, "-o", folder)
    assert "is true" in hdrl("check", folder)
    hdrl("keep", folder, "-o", tmp_path / "kept")
    assert [(one.policy, one.how) for one in read_shipped(tmp_path / "kept")] == [("mine", "a test")]
    edit(folder / "card.json", '"division": "trained"', '"division": "untrained"')
    write_manifest(folder)
    assert "knowledge: batch-gaia: mine was trained on lublin_gaia_10000" in hdrl("check", folder, code=1)


@pytest.mark.parametrize(
    ("share", "said"), [(0.6, "of the same log, which division untrained forbids"), (0.8, "which no division allows")]
)
def test_a_shipped_policy_was_trained_on_logs_too(tmp_path: Path, monkeypatch, share: float, said: str):
    monkeypatch.setattr("hdrl.settings.batch.policies.pairs.logs_known_to", lambda name: {"lublin_gaia_10000": share})
    words = ("es-generalist", "--tasks", "batch-gaia", "--division", "untrained", "-o", tmp_path / "no")
    output = hdrl("run", *words, code=2)
    assert f"was trained on jobs of the first {share:.0%} of lublin_gaia_10000" in output
    assert said in output


def test_a_model_that_knows_the_judged_jobs_enters_none(models: Path, tmp_path: Path):
    late = models / "late" / "model.pt"
    for division in ("untrained", "trained", "clairvoyant"):
        output = hdrl("run", late, "--tasks", "batch-gaia", "--division", division, "-o", tmp_path / "no", code=2)
        assert "windows that judge it" in output
        assert "which no division allows" in output
    # The points of an honest model do not help it.
    folder = tmp_path / "result"
    hdrl("run", models / "early" / "model.pt", "--tasks", "batch-gaia", "-o", folder, "-j", 1)
    shutil.copyfile(late, folder / "entry" / "model.pt")
    provenance = folder / "tasks" / "batch-gaia" / "provenance.json"
    edit(provenance, sha256_of_file(models / "early" / "model.pt"), sha256_of_file(late))
    write_manifest(folder)
    assert "knowledge: batch-gaia: model.pt was trained on" in hdrl("check", folder, code=1)


# Rounds with hidden windows, and the Ladder


@pytest.fixture
def rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "rounds"
    monkeypatch.setenv("HDRL_ROUNDS", str(folder))
    hdrl("round", "new", "first", "--tasks", TASK, "--public", "the first commit of 2027", "-o", folder)
    return folder


PUBLIC = "5117330b3b2c1a2776d70d7b577871127f3f7544"


@pytest.mark.usefixtures("without_pictures")
def test_a_round_from_its_secret_to_the_board(
    made: Path, rounds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, secret = rounds / "first.json", rounds / "first.secret"
    assert secret.stat().st_mode & 0o077 == 0
    assert secret.read_text().strip() not in path.read_text()
    assert "is not revealed yet" in hdrl("run", "edf+fusion", "--tasks", "@first", "-o", tmp_path / "early", code=2)
    assert "1 entry" in hdrl("round", "commit", path, made)
    assert f"{TASK}@first" in hdrl("round", "reveal", path, "--secret", secret, "--public", PUBLIC)
    assert "is revealed" in hdrl("round", "commit", path, made, code=2)
    assert "is revealed already" in hdrl("round", "reveal", path, "--secret", secret, "--public", PUBLIC, code=2)
    judged, late = tmp_path / "judged", tmp_path / "late"
    hdrl("run", "edf+fusion", "--tasks", "@first", "-o", judged, "-j", 1)
    hdrl("run", "llf", "--tasks", f"{TASK}@first", "-o", late, "-j", 1)
    assert "is true" in hdrl("check", judged, "--windows", 1)
    assert read_task(f"{TASK}@first").task.sweep["seed"] != read_task(TASK).task.sweep["seed"]
    assert table(made).read_text() != (judged / "tasks" / f"{TASK}@first" / "results.csv").read_text()
    hdrl("board", made, judged, late, "-o", tmp_path / "site")
    page = (tmp_path / "site" / f"{TASK}@first.html").read_text()
    assert "edf+fusion" in page
    assert "llf" not in page
    assert "was not committed before round first was revealed" in (tmp_path / "site" / "index.html").read_text()
    monkeypatch.delenv("HDRL_ROUNDS")
    assert "no round (in the folders of HDRL_ROUNDS) 'first'; known: none" in hdrl("check", judged, code=1)


def test_seeds_follow_from_the_secret_and_the_public_value_alone():
    assert commitment_of("a") != commitment_of("b")
    seeds = {revealed_seed(*words) for words in (("a", "1", "t"), ("b", "1", "t"), ("a", "2", "t"), ("a", "1", "u"))}
    assert len(seeds) == 4
    assert revealed_seed("a", "1", "t") == 6753552
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_mistakes_in_rounds_are_one_line(rounds: Path, tmp_path: Path):
    path = rounds / "first.json"
    other = tmp_path / "other.secret"
    other.write_text("ab" * 32)
    for words, said in (
        (
            ("round", "reveal", path, "--secret", other, "--public", PUBLIC),
            "holds a secret that does not match the commitment",
        ),
        (("round", "reveal", path, "--secret", rounds / "first.secret", "--public", "soon"), "public"),
        (("round", "new", "first", "--tasks", TASK, "--public", "x", "-o", rounds), "exists already"),
        (
            ("round", "new", "logs", "--tasks", "batch-gaia", "--public", "x", "-o", rounds),
            "no seed changes the windows",
        ),
        (("round", "new", "a@b", "--tasks", TASK, "--public", "x", "-o", rounds), "is not a name of a round"),
        (("show", f"{TASK}@secnd"), "no round (in the folders of HDRL_ROUNDS) 'secnd'; known: first"),
    ):
        output = hdrl(*words, code=2)
        assert said in output
        assert output.count("\n") == 1
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"secret": "ab" * 32, "public": PUBLIC}))
    assert "has a secret that does not match its commitment" in hdrl("show", f"{TASK}@first", code=2)


def test_the_ladder_by_hand():
    windows = np.array([0.1, -0.1] * 8)
    attempts = np.array([np.zeros(16), windows, np.full(16, -0.01), windows - 0.05, windows - 1, np.full(16, -0.02)])
    rungs = ladder(attempts)
    # The first; the same on average; a little better everywhere; worse than the step; much better; worse than that.
    assert [rung.is_published for rung in rungs] == [True, False, True, False, True, False]
    n = 16
    sd = 0.1 * math.sqrt(n / (n - 1))
    step = student_quantile(1 - 6 * 0.05 / math.pi**2, n - 1) * sd / math.sqrt(n)
    assert rungs[1].step == pytest.approx(step)
    assert [rung.change for rung in rungs[1:5]] == pytest.approx([0, -0.01, -0.04, -0.99])


def test_the_ladder_publishes_no_lucky_attempt():
    rng = np.random.default_rng(3)
    published = lucky = 0
    for _ in range(100):
        attempts = rng.normal(0, 0.2, (200, 24))
        attempts[0] = rng.normal(0, 0.2, 24)
        published += sum(rung.is_published for rung in ladder(attempts)) > 1
        lucky += attempts.mean(axis=1).min() < attempts[0].mean() - 0.05
    assert published <= 5
    assert lucky > 80  # the best of them looks 5 % better nearly always


def judged(*folders: Path):
    return board._judged(board._read(folders)[0])


def test_a_second_attempt_that_is_no_better_does_not_replace_the_first(made: Path, tmp_path: Path):
    better = tmp_path / "better"
    hdrl("run", "edf+fusion=rm+fusion", "--tasks", TASK, "-o", better, "-j", 1)
    numbers = judged(better)[0][0].objective[TASK]
    for order, said in (((made, better), "attempt 2 has replaced it"), ((better, made), "(the Ladder)")):
        (player,), (behind,) = judged(*order)
        assert player.name == "edf+fusion"
        assert player.objective[TASK].tolist() == numbers.tolist()
        assert said in behind.reason


def test_the_workflow_checks_what_a_pull_request_changes(made: Path, tmp_path: Path):
    """Each ``run:`` line of the workflow, in a fresh clone; its actions and docker are not tried."""
    pytest.importorskip("jinja2", reason="pages need the extra report")
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs git, and a checkout of hdrl to clone")
    workflow = yaml.safe_load((ROOT / "examples" / "bench-check.yml").read_text())
    steps = {step["name"]: step["run"] for step in workflow["jobs"]["check"]["steps"] if "name" in step}
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("${{" in script for script in steps.values()), "names of others must not become commands"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip "$@"\n')
    (tmp_path / "bin" / "pip").chmod(0o755)
    installed = tmp_path / "installed"
    path = os.pathsep.join(map(str, (tmp_path / "bin", installed / "bin", os.environ["PATH"])))
    environment = {**os.environ, "PATH": path, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    # What hdrl needs is there already: pip takes hdrl alone, from its clone, into a folder.
    environment |= {"PIP_TARGET": str(installed), "PYTHONPATH": str(installed), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environment |= {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}

    def run(script: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.strip()

    folder = tmp_path / "repository"
    shutil.copytree(made, folder / "results" / "old")
    commit = "git add -A; git -c user.name=a -c user.email=a@b commit -qm all; git rev-parse HEAD"
    environment["BASE"] = run(f"git init -q; {commit}")
    run(f"git clone -q --depth 1 file://{ROOT} hdrl; echo hdrl >> .git/info/exclude")
    run(steps["Install"])
    assert (installed / "hdrl" / "bench" / "tasks").is_dir()
    assert run("git -C hdrl status --porcelain --ignored") == ""
    shutil.copytree(made, folder / "results" / "a new; one")
    edit(folder / "results" / "a new; one" / "tasks" / TASK / "results.csv", ",0,", ",1,")
    run(commit)
    run(steps["List"])
    assert (folder / "changed").read_text() == "results/a new; one\0"
    assert "is not true" in run(steps["Check"], code=123)
    shutil.rmtree(folder / "results" / "a new; one")
    shutil.copytree(made, folder / "results" / "a new; one")
    assert "is true" in run(steps["Check"])
    assert "pages; open site/index.html" in run(steps["Board"])
    assert "edf+fusion" in (folder / "site" / "index.html").read_text()
    assert set(steps) == {"Install", "List", "Check", "Board"}


def test_shipped_policies_stand_on_the_board_as_they_are_measured(tmp_path: Path):
    kept = read_shipped()
    named = {"es-generalist", "es-pausing", "es-unguarded", "evolved+fusion"}
    trained = {"ppo", "hdeeprm-reinforce", "hdeeprm-actor-critic", "drl-gpu-sac", "advisor-seed"}
    assert {one.policy for one in kept if not one.how} == named
    assert {one.policy for one in kept if one.how} == trained
    for one in kept:
        assert one.division == "untrained" or one.policy in named
        assert all((ROOT / path).is_file() for path in re.findall(r"examples/\S+", one.how))
    assert all(one.sha256 == read_task(one.task).task.sha256() for one in kept)
    hdrl("run", "evolved+fusion", "--tasks", TASK, "--core-minutes", 8, "-o", tmp_path / "result", "-j", 1)
    assert "1 pairs" in hdrl("keep", tmp_path / "result", "-o", tmp_path / "kept")
    (measured,) = read_shipped(tmp_path / "kept")
    (same,) = [one for one in kept if (one.task, one.policy) == (TASK, "evolved+fusion")]
    assert (measured.division, measured.core_minutes) == (same.division, same.core_minutes) == ("untrained", 8)
    assert measured.objective.tolist() == same.objective.tolist()
    assert measured.tail.tolist() == same.tail.tolist()
    tasks = {TASK: read_task(TASK)}
    players = [*board._classic_players(tasks), *board._shipped_players(tasks)]
    parts = list(board._tables([read_task(TASK)], players, TASK))
    assert any("quality against training" in part.title for part in parts if hasattr(part, "title"))
