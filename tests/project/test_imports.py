"""What importing costs, and which way imports run."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "ray", "zmq", "gymnasium", "pandas", "polars", "matplotlib"}


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import hdrl",
        "import hdrl.launcher.main",
        "import hdrl.options, hdrl.metrics, hdrl.experiment; from hdrl.batch import read_platform, read_workload",
        "import hdrl.agents.classic; from hdrl.batch import EmbeddedSimulator, View, simulate",
    ],
)
def test_optional_packages_are_not_loaded(statement: str):
    assert not loaded_by(statement) & HEAVY


def test_the_compiler_is_loaded_for_simulations_only():
    """Numba takes half a second to load; checking options and platforms must not wait for it."""
    assert "numba" not in loaded_by(
        "import hdrl.experiment, hdrl.launcher.launch; from hdrl.batch import read_platform, read_workload"
    )


def test_importing_prints_nothing():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import hdrl.experiment, hdrl.agents.classic, hdrl.launcher.main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def imported_files() -> dict[str, set[str]]:
    """Return what each module imports of ours: anywhere in the file, and for types alone, too."""
    folders = {"hdrl": "hdrl", **{name: f"hdrl.{name}" for name in ("agents", "experiments", "launcher")}}
    names = {
        ".".join([name, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for folder, name in folders.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    imports: dict[str, set[str]] = {}
    for name, path in names.items():
        found = set()
        for one in ast.walk(ast.parse(path.read_text())):
            if isinstance(one, ast.ImportFrom) and one.module:
                wholes = {f"{one.module}.{alias.name}" for alias in one.names}
                found |= {whole if whole in names else one.module for whole in wholes}
            elif isinstance(one, ast.Import):
                found |= {alias.name for alias in one.names}
        imports[name] = found & names.keys()
    return imports


def test_no_file_imports_itself_by_way_of_others():
    imports = imported_files()
    assert "hdrl.learn.agent" in imports["hdrl.agents.dqn"]
    TopologicalSorter(imports).prepare()  # an error names the circle
