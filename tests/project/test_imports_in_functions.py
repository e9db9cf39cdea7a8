"""Imports stand at the top of a file, except of what is heavy, or what a command needs only when it runs."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = (
    *("torch", "tensorboardX", "ray", "polars", "gymnasium", "matplotlib", "zmq", "numba", "llvmlite"),
    *("scipy", "rich", "fcntl"),
    *("hdrl.learn", "hdrl.distributed", "hdrl.envs", "hdrl.launcher.bars"),
    # Agents of some kinds load torch, or the policies of batch jobs.
    *("hdrl.agents.classic", "hdrl.agents.ddpg", "hdrl.compat.hdeeprm.bases", "hdrl.compat.hdeeprm.adapter"),
)
"""What takes long to load, what loads it, and a module that some systems lack."""

OF_COMMANDS = (
    *("hdrl.experiment", "hdrl.report", "hdrl.settings", "hdrl.figures", "hdrl.metrics", "hdrl.batsim", "hdrl.batch"),
    *(
        "hdrl.compiled",
        "hdrl.deploy",
        "hdrl.site",
        "hdrl.slurm",
        "hdrl.bench",
        "hdrl.launcher",
        "hdrl.adaptation",
        "hdrl.agents",
        "hdrl.options",
        "hdrl.setting",
    ),
)
"""What a command loads when it runs: its help and the completion of its words do without."""


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        *((f"hdrl/{name}", HEAVY) for name in ("base", "trace", "metrics", "options", "figures", "envs", "learn")),
        *((f"hdrl/{name}", HEAVY) for name in ("experiment", "site")),
        ("launcher", (*HEAVY, *OF_COMMANDS)),
    ],
)
def test_only_what_is_heavy_is_imported_within_functions(folder: str, allowed: tuple[str, ...]):
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        tree = ast.parse(path.read_text())
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        for one in {inner for function in functions for inner in ast.walk(function)}:
            names = [one.module or ""] if isinstance(one, ast.ImportFrom) else []
            if names == ["hdrl.agents"]:
                names = [f"hdrl.agents.{alias.name}" for alias in one.names]
            names += [alias.name for alias in one.names] if isinstance(one, ast.Import) else []
            found += [
                f"{path.relative_to(ROOT)}:{one.lineno}: {name}"
                for name in names
                if not any(name == known or name.startswith(f"{known}.") for known in allowed)
            ]
    assert found == []
