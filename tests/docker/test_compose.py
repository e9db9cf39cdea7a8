"""The compose files: parsed, held to rules, and every command line in them run here.

What each container sees under a path is a folder here, what listens on a fixed port listens on a free one, and
``hdrl-batsim`` stands in for the image of Batsim.
"""

import contextlib
import csv
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

import hdrl

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
NAMES = ("demo", "batsim", "experiment", "bench", "test")
COMPOSED = {name: yaml.safe_load((DOCKER / f"compose.{name}.yml").read_text()) for name in NAMES}
SERVICES = [
    pytest.param(composed, service, id=f"{name}-{service}")
    for name, composed in COMPOSED.items()
    for service in composed["services"]
]
ENTRY_POINTS = {
    "hdrl-launch": "from hdrl.launcher.launch import launch; launch(prog_name='hdrl-launch')",
    "hdrl": "from hdrl.launcher.main import cli; cli(prog_name='hdrl')",
    "batsim": "from hdrl.launcher.batsim import main; main(prog_name='batsim')",
}


def defaults(text: str, chosen: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a text with its variables replaced by what was chosen or by their defaults, as compose does."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: chosen.get(found[1], found[2]), text)


def test_all_compose_files_are_looked_at():
    assert {path.name for path in DOCKER.glob("*.yml")} == {f"compose.{name}.yml" for name in NAMES}


@pytest.mark.parametrize(("composed", "service"), SERVICES)
def test_images_have_a_version(composed: dict[str, Any], service: str):
    name, _, tag = defaults(composed["services"][service]["image"]).partition(":")
    if name in ("hdrl", "hdrl-full", "hdrl-test"):
        assert tag == hdrl.__version__
        build = composed["services"][service]["build"]
        assert (DOCKER / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).is_file()
        assert f" AS {build['target']}\n" in (ROOT / build["dockerfile"]).read_text()
    else:
        assert name == "oarteam/batsim"
        assert re.fullmatch(r"4\.\d+\.\d+", tag)  # the versions that speak JSON


@pytest.mark.parametrize(("composed", "service"), SERVICES)
def test_containers_can_do_little(composed: dict[str, Any], service: str):
    given = composed["services"][service]
    user = defaults(given["user"])
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "ipc", "devices", "cap_add"} & given.keys()
    assert given.get("network_mode", "none") == "none"
    assert all(composed["networks"][name]["internal"] for name in given.get("networks", []))
    assert all(port.startswith("127.0.0.1:") for port in given.get("ports", []))
    for volume in given.get("volumes", []):
        if volume["type"] == "bind":
            assert volume.get("read_only") or volume["bind"] == {"create_host_path": False}
        else:
            assert volume["source"] in composed["volumes"]


def test_containers_start_by_health():
    for composed in COMPOSED.values():
        text = json.dumps(composed)
        assert "sleep" not in text
        assert "curl" not in text
        for service in composed["services"].values():
            for name, wanted in service.get("depends_on", {}).items():
                assert wanted == {"condition": "service_healthy"}
                assert "healthcheck" in composed["services"][name]


def test_what_is_mounted_is_there():
    for composed in COMPOSED.values():
        for service in composed["services"].values():
            for volume in service.get("volumes", []):
                if volume["type"] == "bind" and volume.get("read_only") and "bind" not in volume:
                    assert (DOCKER / defaults(volume["source"])).is_dir()


class Here:
    """This machine in place of the containers of a compose file."""

    def __init__(self, name: str, folder: Path, **chosen: str) -> None:
        self.services = COMPOSED[name]["services"]
        self.folder = folder
        self.chosen = chosen
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for path in ("results", "exchange"):
            (folder / path).mkdir()
        for path in ("examples", "workloads"):
            (folder / path).symlink_to(ROOT / path)

    def seen_here(self, service: str, text: str) -> str:
        """Return a text of a container with its paths, hosts and ports replaced by those here."""
        for volume in self.services[service].get("volumes", []):
            source = Path(defaults(volume["source"])).name
            text = re.sub(rf"(?<![\w.]){volume['target']}\b", str(self.folder / source), text)
        text = text.replace("tcp://hdrl:", "tcp://127.0.0.1:").replace(":28000", f":{self.port}")
        return text.replace(":6D60", f":{self.port:04X}")

    def command(self, service: str) -> list[str]:
        given = self.services[service]
        words = [self.seen_here(service, defaults(word, self.chosen)) for word in given["command"]]
        if given["image"].startswith("oarteam/batsim"):
            words = ["batsim", *words]  # the entry point of the image
        if words[0] == "python":
            return [sys.executable, *words[1:]]
        return [sys.executable, "-c", ENTRY_POINTS[words[0]], *words[1:]]

    def is_healthy(self, service: str) -> bool:
        kind, test = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        return subprocess.run(["sh", "-c", self.seen_here(service, test)]).returncode == 0


@contextlib.contextmanager
def started(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a process, and end it whatever happens."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_demo_runs(tmp_path: Path):
    done = subprocess.run(Here("demo", tmp_path).command("demo"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / "results" / "demo" / "metrics.json").read_text())
    assert metrics["n_finished"] == metrics["n_jobs"] > 9_000


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the check of health looks into Linux's /proc")
def test_batsim_runs_when_hdrl_is_healthy(tmp_path: Path):
    """The containers' own order: hdrl, then Batsim as soon as the check of hdrl's health succeeds."""
    here = Here("batsim", tmp_path)
    assert not here.is_healthy("hdrl")
    with started(here.command("hdrl")) as decisions:
        deadline_s = time.monotonic() + 30
        while not here.is_healthy("hdrl"):
            assert decisions.poll() is None, decisions.communicate()[0]
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        batsim = subprocess.run(here.command("batsim"), capture_output=True, text=True, timeout=120)
        said = decisions.communicate(timeout=60)[0]
    assert batsim.returncode == 0, batsim.stderr
    assert decisions.returncode == 0, said
    results = tmp_path / "results" / "batsim"
    metrics = json.loads((results / "metrics.json").read_text())
    assert metrics["n_finished"] == metrics["n_jobs"] == 200
    with (results / "out_jobs.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 200


def test_the_tests_would_run(tmp_path: Path):
    """Its command line, asked for what it would run in one folder instead of running all."""
    (service,) = COMPOSED["test"]["services"]
    command = [*Here("test", tmp_path).command(service), "--collect-only", "tests/docker"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_the_demo_runs" in done.stdout


def test_volumes_that_hide_the_image_are_filled_by_it():
    """A named volume takes over what the image has there, and its permissions; others would be empty and root's."""
    dockerfile = (DOCKER / "Dockerfile").read_text()
    mounted = [
        volume
        for composed in COMPOSED.values()
        for name, service in composed["services"].items()
        if name != "batsim"  # not our image
        for volume in service.get("volumes", [])
    ]
    for volume in mounted:
        if volume["type"] == "volume":
            assert re.search(rf"mkdir -p .*{volume['target']}\b", dockerfile)


def test_experiments_of_ones_own_run(tmp_path: Path):
    """Options and a policy file from a folder of the user; the services that learn differ in their image alone."""
    here = Here("experiment", tmp_path, HDRL_OPTIONS="own.json", HDRL_AGENT="/experiments/own.py", HDRL_NAME="mine")
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "examples").unlink()
    (tmp_path / "examples").symlink_to(own)
    options = {"platform_file_path": "learning", "workload": {"custom": str(ROOT / "workloads" / "learning.json")}}
    (own / "own.json").write_text(json.dumps(options))
    (own / "own.py").write_text((ROOT / "examples" / "first_fit.py").read_text())
    done = subprocess.run(here.command("run"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "results" / "mine" / "provenance.json").read_text())["agent"]["name"] == "own.py"
    services = here.services
    assert here.command("train") == here.command("run")
    for name, target in (("run", "hdrl"), ("train", "full"), ("compare", "full")):
        assert services[name]["build"]["target"] == target
    named = [defaults(word, here.chosen) for word in services["compare"]["command"]]
    assert "mine=/results/mine/model.pt" in named


def test_a_result_of_the_benchmark_is_checked(tmp_path: Path):
    here = Here("bench", tmp_path, HDRL_WINDOWS="1")
    (tmp_path / "results").rmdir()
    hdrl_here = [sys.executable, "-c", ENTRY_POINTS["hdrl"]]
    made = [
        *hdrl_here,
        "bench",
        "run",
        "edf+fusion",
        "--tasks",
        "pipelines-overload-130",
        "-o",
        str(tmp_path / "results"),
    ]
    assert subprocess.run(made, capture_output=True, timeout=300).returncode == 0
    done = subprocess.run(here.command("check"), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "edf+fusion is true; 2 simulations repeated" in done.stdout


def test_the_comparison_takes_as_many_windows_as_fit():
    """A number of windows by default would refuse every workload with room for fewer."""
    command = [defaults(word) for word in COMPOSED["experiment"]["services"]["compare"]["command"]]
    (windows,) = (word.partition("=")[2] for word in command if word.startswith("--windows="))
    assert windows.isdigit()


def test_the_readme_names_every_file():
    readme = (DOCKER / "README.md").read_text()
    assert all(f"compose.{name}.yml" in readme for name in NAMES)
