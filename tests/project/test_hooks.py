"""The hooks before a commit check what `make lint` checks, by the same tools."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_hooks_run_the_checks_of_make_lint():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (lint,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = [hook["entry"] for hook in repository["hooks"]]
    assert entries[-1] == "make lint"
    for entry in entries[:-1]:
        # Hooks are given file names; --force-exclude keeps to the exclusions of the configuration then.
        command = entry.removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        assert re.sub(r" --quiet", "", command) in re.sub(r" --quiet", "", lint), entry
