"""``hdrl tune``: its budget, what it recommends, its folder, and the commands of docs/tune.md."""

import contextlib
import dataclasses
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="agents that learn need torch")
pytest.importorskip("scipy", reason="needs scipy (the extra report)")
pytest.importorskip("matplotlib", reason="needs matplotlib (the extra report)")

import hdrl.experiment.tune
from hdrl.base.errors import OptionsError
from hdrl.base.files import read_json
from hdrl.batch import read_swf, write_swf
from hdrl.experiment import Progress
from hdrl.experiment.compare.comparison import Comparison, read_comparison
from hdrl.experiment.compare.summary import deciding_rows
from hdrl.experiment.tune import EVOLVED, SHIPPED, TuneProgress, TuneRequest, beats, budget_of, recommend, tune
from hdrl.launcher.main import cli
from hdrl.report.page import build_report

PAGE = (Path(__file__).parents[2] / "docs" / "tune.md").read_text(encoding="utf-8")
NEEDED = 6827
"""Jobs whose last 30 % are eight windows of 256."""

SMALL = ("--minutes", "0.01", "--seeds", "2", "-j", "1")
OF_THE_MACHINE = ("timing.json", "resume.json", "manifest.json", "insights.log")


@pytest.fixture(autouse=True, scope="module")
def few_windows_choose() -> Iterator[None]:
    """Choose the best of 102 classic policies by four windows: most of a small tuning is that choice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hdrl.experiment.tune.MOST_CHOOSING", 1024)
        yield


def run(*words: object):
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="hdrl")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "jobs.swf"
    words = ("--platform", "homogeneous:64", "--jobs", NEEDED, "--load", 0.8, "--seed", 3, "--out", path)
    assert run("workload", "generate", "lublin", *words).exit_code == 0
    return path


@pytest.fixture(scope="module")
def tuned(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tuned") / "out"
    done = run("tune", log, *SMALL, "--out", folder)
    assert done.exit_code == 0, done.output
    assert "recommended: " in done.output
    return folder


def tables_of(folder: Path) -> dict[str, Comparison]:
    found = [read_comparison(one) for one in sorted((folder / "judged").iterdir())]
    return {one.baseline: one for one in found}


def test_the_recommendation_is_what_its_tables_say(tuned: Path):
    said, tables = read_json(tuned / "recommendation.json"), tables_of(tuned)
    ranked = [*said["best_classics"], SHIPPED, EVOLVED]
    assert list(tables) == ranked[:-1]
    assert said["recommended"] == recommend(ranked, tables)
    main = tables[ranked[0]]
    assert {row.candidate for row in deciding_rows(main.rows, main.metric)} == {
        *ranked[1:],
        "untrained",
        "trainings",
    }
    for fact in said["policies"]:
        for baseline, ratios in fact["ratios_to"].items():
            assert set(ratios) == {"mean_bounded_slowdown", "p99_wait_s", "max_wait_s"}
            rows = deciding_rows(tables[baseline].rows, "p99_wait_s")
            assert ratios["p99_wait_s"]["ratio"] == next(r.ratio for r in rows if r.candidate == fact["policy"])


def test_the_folder_is_read_by_other_commands(tuned: Path):
    said = read_json(tuned / "recommendation.json")
    assert f": {said['recommended']}</h1>" in (tuned / "report.html").read_text(encoding="utf-8")
    assert "evolved" in build_report([tuned / "judged" / "classic"])
    again = run("compare", "--resume", "--out", tuned / "judged" / "classic")
    assert again.exit_code == 0, again.output
    programs = Path(sys.executable).parent
    command = [str(programs / said["command"][0]), *said["command"][1:], "--out", "ran", "--quiet"]
    done = subprocess.run(command, cwd=tuned, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_that_judges_was_seen_before(tuned: Path):
    for folder in (tuned / "models").iterdir():
        parts = read_json(folder / "options.resolved.json")["learning"]["episodes"]
        assert parts["train"] == [0.0, 0.6]
        assert parts["test"] == [0.6, 0.7]
    choice = read_json(tuned / "choice" / "sweep.json")
    assert choice["range"] == [0.6, 0.7]
    assert choice["baseline"] == "best:0.45:0.6"  # the last 1,024 jobs
    for table in tables_of(tuned).values():
        assert read_json(table.folder / "sweep.json")["range"] == [0.7, 1.0]
        assert not [one for one in table.cautions if one.kind in ("trained-on", "chosen-by")]
        few = [one.text for one in table.cautions if one.kind == "few-trainings"]
        assert few
        assert not [text for text in few if text.startswith("untrained ")]


def bytes_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in OF_THE_MACHINE)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if "ran" not in path.parts}


def test_an_interrupted_tuning_goes_on_and_leaves_the_same_bytes(log: Path, tuned: Path, tmp_path: Path):
    n_told = 0

    def count(*_: object) -> None:
        nonlocal n_told
        n_told += 1

    @contextlib.contextmanager
    def after_two():
        yield lambda: n_told >= 2

    request = TuneRequest(str(log), "homogeneous:64", minutes=0.01, n_seeds=2)
    stopping = TuneProgress(training=Progress(training=count, stoppable=after_two))
    assert tune(request, out=tmp_path / "out", n_workers=1, progress=stopping) is None
    assert not (tmp_path / "out" / "judged").exists()
    done = run("tune", log, *SMALL, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert bytes_of(tmp_path / "out") == bytes_of(tuned)


def test_what_evolved_runs_by_the_command_that_is_written(log: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hdrl.experiment.tune, "recommend", lambda ranked, tables: EVOLVED)
    before = (tuned / "recommendation.json").read_bytes()
    found = tune(TuneRequest(str(log), "homogeneous:64", minutes=0.01, n_seeds=2), out=tuned, n_workers=1)
    assert found is not None
    assert found.recommended == EVOLVED
    programs = Path(sys.executable).parent
    command = [str(programs / found.command[0]), *found.command[1:], "--out", "ran_evolved", "--quiet"]
    done = subprocess.run(command, cwd=tuned, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert read_json(tuned / "ran_evolved" / "metrics.json")["n_jobs"] == NEEDED
    monkeypatch.undo()
    tune(TuneRequest(str(log), "homogeneous:64", minutes=0.01, n_seeds=2), out=tuned, n_workers=1)
    assert (tuned / "recommendation.json").read_bytes() == before


def changed(table: Comparison, name: str, metric: str, ratio: float, p: float) -> Comparison:
    """Return a table in which a candidate has another ratio, with a narrow interval."""
    rows = [
        dataclasses.replace(
            row,
            ratio=ratio,
            ratio_low=ratio - 0.01,
            ratio_high=ratio + 0.01,
            p_holm=p,
            is_contested=False,
            n_unfinished=0,
        )
        if (row.candidate, row.metric) == (name, metric)
        else row
        for row in table.rows
    ]
    return dataclasses.replace(table, rows=tuple(rows))


def test_a_better_mean_wins_unless_its_tail_is_worse_or_nothing_is_shown(tuned: Path):
    (classic, table), *_ = tables_of(tuned).items()
    even = table
    for metric in (table.metric, *table.tails):
        even = changed(even, EVOLVED, metric, 1.0, 1.0)
    better = changed(even, EVOLVED, table.metric, 0.8, 0.001)
    assert not beats(even, EVOLVED)
    assert beats(better, EVOLVED)
    assert recommend([classic, EVOLVED], {classic: better}) == EVOLVED
    assert recommend([classic, EVOLVED], {classic: even}) == classic
    for tail in table.tails:
        assert not beats(changed(better, EVOLVED, tail, 1.3, 0.001), EVOLVED)
        assert beats(changed(better, EVOLVED, tail, 1.3, 0.5), EVOLVED)
    assert not beats(changed(even, EVOLVED, table.metric, 0.8, 0.2), EVOLVED)
    assert not beats(changed(even, EVOLVED, table.metric, 1.2, 0.001), EVOLVED)


def test_who_beats_a_classic_must_beat_the_shipped_weights_that_do_so_too(tuned: Path):
    tables = tables_of(tuned)
    classic = next(iter(tables))
    won = changed(
        changed(tables[classic], EVOLVED, "mean_bounded_slowdown", 0.7, 0.001),
        SHIPPED,
        tables[classic].metric,
        0.8,
        0.001,
    )
    for name in (EVOLVED, SHIPPED):
        for tail in won.tails:
            won = changed(won, name, tail, 1.0, 1.0)
    even = changed(tables[SHIPPED], EVOLVED, tables[SHIPPED].metric, 0.9, 0.5)
    ranked = [classic, SHIPPED, EVOLVED]
    assert recommend(ranked, {classic: won, SHIPPED: even}) == SHIPPED
    ahead = changed(even, EVOLVED, even.metric, 0.9, 0.001)
    for tail in ahead.tails:
        ahead = changed(ahead, EVOLVED, tail, 1.0, 1.0)
    assert recommend(ranked, {classic: won, SHIPPED: ahead}) == EVOLVED


def test_the_budget_follows_from_minutes_and_jobs():
    def budget(n_jobs: int, minutes: float = 2.0, n_seeds: int | None = None):
        return budget_of(TuneRequest("log.swf", "homogeneous:64", minutes, n_seeds), n_jobs)

    assert budget(10_000) == budget(10_000)
    lengths = [budget(n_jobs).length for n_jobs in (NEEDED, 20_000, 40_000, 70_000, 500_000)]
    assert lengths == [256, 256, 512, 1024, 1024]
    for n_jobs in (NEEDED, 10_000, 40_000, 200_000, 1_000_000):
        generations = [budget(n_jobs, minutes, 5).n_generations for minutes in (0.01, 1, 2, 5, 1000)]
        assert generations == sorted(generations)
        assert (generations[0], generations[-1]) == (5, 100)
        one = budget(n_jobs)
        assert one.n_windows * one.length <= n_jobs - math.floor(0.7 * n_jobs)
        assert one.estimated_s <= 180
        assert 0 <= one.choosing[0] < one.choosing[1] == 0.6
    with pytest.raises(OptionsError, match=rf"has {NEEDED - 4:,} jobs, expected at least {NEEDED:,}"):
        budget(NEEDED - 4)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "taken"], "taken: is not empty"),
        (["--platform", "homogenous:64"], "homogenous:64"),
        (["--minutes", "0"], "--minutes"),
        (["--seeds", "1"], "--seeds"),
    ],
)
def test_mistakes_are_one_line(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    check_mistake(run("tune", log, *words), said)
    assert {path.name for path in tmp_path.iterdir()} == {"taken"}
    assert {path.name for path in (tmp_path / "taken").iterdir()} == {"notes.txt"}


def check_mistake(done, said: str) -> None:
    assert done.exit_code == 2, done.output
    lines = done.output.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_another_tuning_keeps_its_folder(log: Path, tuned: Path):
    check_mistake(run("tune", log, "--minutes", "0.01", "--seeds", "3", "--out", tuned), "holds another tuning")


def test_the_log_must_be_long_enough_and_have_a_machine(log: Path, tmp_path: Path):
    whole = read_swf(log)
    short = tmp_path / "short.swf"
    write_swf(dataclasses.replace(whole, rows=whole.rows[:1000]), short)
    check_mistake(run("tune", short, "--out", tmp_path / "out"), f"has 1,000 jobs, expected at least {NEEDED:,}")
    nameless = tmp_path / "nameless.swf"
    write_swf(dataclasses.replace(whole, header={}), nameless)
    check_mistake(run("tune", nameless, "--out", tmp_path / "out"), "MaxProcs")
    check_mistake(run("tune", tmp_path, "--out", tmp_path / "out"), "options.json")
    check_mistake(run("tune", tmp_path / "none.swf", "--out", tmp_path / "out"), "none.swf")
    assert not (tmp_path / "out").exists()


def test_the_folder_of_a_site_names_log_and_machine(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[TuneRequest] = []

    def remember(request: TuneRequest, **_: object) -> None:
        asked.append(request)
        raise OptionsError("enough")

    monkeypatch.setattr(hdrl.experiment.tune, "tune", remember)
    site = tmp_path / "site"
    site.mkdir()
    (site / "jobs.swf").write_bytes(log.read_bytes())
    (site / "platform.json").write_text("{}")
    names = {"workload_file_path": "jobs.swf", "platform_file_path": "platform.json"}
    (site / "options.json").write_text(json.dumps(names))
    check_mistake(run("tune", site), "enough")
    check_mistake(run("tune", site, "-p", "homogeneous:8"), "enough")
    check_mistake(run("tune", log), "enough")
    assert [one.log for one in asked] == [str(site / "jobs.swf")] * 2 + [str(log)]
    assert [one.platform for one in asked] == [str(site / "platform.json"), "homogeneous:8", "homogeneous:64"]


def test_the_rules_of_a_site_choose_and_judge(tmp_path: Path):
    cluster, site, out = tmp_path / "cluster", tmp_path / "site", tmp_path / "out"
    assert run("site", "example", cluster, "-n", 7000).exit_code == 0
    imported = run(
        *("site", "import", cluster / "sacct.txt", "--conf", cluster / "slurm.conf"), "--replay", "none", "-o", site
    )
    assert imported.exit_code == 0, imported.output
    done = run("tune", site, *SMALL, "--out", out)
    assert done.exit_code == 0, done.output
    for folder in ("choice", "judged/classic"):
        assert read_json(out / folder / "provenance.json")["identity"]["platform"]["n_partitions"] == 2
    assert "site_rules" not in read_json(out / "run.json")
    assert read_json(out / "models" / "1" / "provenance.json")["platform"]["n_partitions"] == 2


def test_the_commands_of_the_page_work(tmp_path: Path):
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    commands = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 3
    programs = Path(sys.executable).parent
    for command in commands:
        name, *words = shlex.split(command)
        small = SMALL if words[0] == "tune" else ()
        done = subprocess.run(
            [str(programs / name), *words, *small], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stderr}"
