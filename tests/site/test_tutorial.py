"""The commands of the tutorial on sites, on a log of 100,000 jobs instead of the 5,000 of the page."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli

PAGE = (Path(__file__).parents[2] / "docs" / "site.md").read_text(encoding="utf-8")
N_JOBS = 100_000


def test_every_step_takes_a_site_of_100_000_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [shlex.split(line) for line in re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)]
    printed = {}
    for program, *words in steps:
        given = [str(N_JOBS) if before == "--jobs" else word for before, word in zip(["", *words], words, strict=False)]
        command = launch if program == "hdrl-launch" else cli
        result = CliRunner().invoke(command, given, prog_name=program)
        assert result.exit_code == 0, (program, given, result.output)
        printed[words[0] if words[0] != "site" else words[1]] = result.output
    n_kept = int(re.findall(r"([\d,]+) jobs kept", printed["import"])[0].replace(",", ""))
    n_left_out = sum(map(int, re.findall(r"([\d,]+) (?:cancelled|pending)", printed["import"].replace(",", ""))))
    assert n_kept + n_left_out == N_JOBS
    assert "The cheapest machine" in printed["what-if"]
    assert {path.name for path in Path().iterdir()} >= {"mysite", "run", "judged", "judged.html", "answer"}
