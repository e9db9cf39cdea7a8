"""What is installed is what is in the checkout."""

import configparser
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hdrl

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def config() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_every_package_is_listed(config: configparser.ConfigParser):
    listed = set(lines(config["options"]["packages"]))
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "hdrl").rglob("__init__.py")}
    assert found <= listed
    mapped = dict(line.split(" = ") for line in lines(config["options"]["package_dir"]))
    assert listed == found | {name for name in mapped if name != "hdrl"}
    assert all((ROOT / folder).is_dir() for folder in mapped.values())


def test_all_requirements_are_pinned(config: configparser.ConfigParser):
    pins = {line.split("==")[0].lower() for line in lines((ROOT / "constraints.txt").read_text()) if "==" in line}
    wanted = lines(config["options"]["install_requires"])
    wanted += [line for extra in config["options.extras_require"].values() for line in lines(extra)]
    names = {"".join(c if c.isalnum() or c in "-_." else " " for c in line).split()[0].lower() for line in wanted}
    assert not names - pins
    assert "torch" in pins


def test_every_extra_that_is_named_exists(config: configparser.ConfigParser):
    """An error that says "pip install 'hdrl[frames]'" must be right."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "hdrl").rglob("*.py"))
    named = set(re.findall(r"raise MissingExtra\([^)]*\"(\w+)\"\)", sources))
    assert "frames" in named
    assert named <= set(config["options.extras_require"])


def test_python_that_starts_in_a_checkout_finds_all_of_it():
    """The folder of the checkout comes first there, and what is installed is not looked at."""
    program = (
        "import sys; sys.meta_path = [one for one in sys.meta_path if 'Editable' not in str(one)]; sys.path[0] = '';"
        "import hdrl.agents, hdrl.experiments, hdrl.launcher.main as main; print(main.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == ROOT / "launcher" / "main.py"


def test_the_version_is_said_once(config: configparser.ConfigParser):
    assert config["metadata"]["version"] == "attr: hdrl.version.VERSION"
    assert f"## {hdrl.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {hdrl.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def entries() -> set[Path]:
    return {path for folder in (ROOT, ROOT / "build") if folder.is_dir() for path in folder.iterdir()}


def build(kind: str, out: Path) -> Path:
    """Build a wheel or an sdist as pip does, and return its path; the checkout stays as it is."""
    code = f"import sys, build_backend; print(build_backend.build_{kind}(sys.argv[1]))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    before = entries()
    done = subprocess.run([sys.executable, "-c", code, out], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert entries() <= before | {ROOT / "__pycache__"}
    return out / done.stdout.split()[-1]


def test_the_description_on_an_index_needs_no_repository(config: configparser.ConfigParser):
    """No project address is known: what an index page shows has no links to files of the repository."""
    assert config["metadata"]["long_description"] == "file: DESCRIPTION.md"
    text = (ROOT / "DESCRIPTION.md").read_text(encoding="utf-8")
    assert not re.findall(r"\]\((?!https://)|<img|^\[.*\]:", text, re.MULTILINE)
    for command in re.findall(r"^hdrl .*$", text, re.MULTILINE):
        words = [word for word in command.split() if word.startswith("--") or word == "-o"]
        group = command.split()[1:3] if command.split()[1] == "site" else command.split()[1:2]
        said = subprocess.run([sys.executable, "-m", "hdrl", *group, "--help"], capture_output=True, text=True)
        assert not [word for word in words if word not in said.stdout], command


def test_a_wheel_holds_everything(tmp_path: Path):
    wheel = build("wheel", tmp_path)
    held = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "hdrl").rglob("*.py")}
    sources |= {
        f"hdrl/{path.relative_to(ROOT)}"
        for name in ("agents", "experiments", "launcher")
        for path in (ROOT / name).glob("*.py")
    }
    assert sources <= held
    data = {f"hdrl/settings/batch/platform/shipped/{path.name}" for path in (ROOT / "platforms").glob("*.json")}
    data |= {
        f"hdrl/settings/batch/workload/shipped/{path.name}"
        for path in (ROOT / "workloads").iterdir()
        if path.suffix in (".json", ".gz")
    }
    data |= {
        f"hdrl/experiments/{path.relative_to(ROOT / 'experiments')}"
        for path in (ROOT / "experiments").glob("*/*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert len(data) >= 8
    assert data <= held
    assert "hdrl/py.typed" in held
    assert not {name for name in held if name.split("/")[0] not in {"hdrl", f"hdrl-{hdrl.__version__}.dist-info"}}


def test_an_sdist_holds_tests_docs_and_examples(tmp_path: Path):
    held = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\n")
    if not held[:-1]:
        pytest.skip("needs a git checkout, which says what belongs to the project")
    sdist = build("sdist", tmp_path)
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in held if name and not name.startswith(".")} <= packed
