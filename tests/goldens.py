"""The bytes that a change of structure must leave as they are: make them before it, check them after it.

    python tests/goldens.py make FOLDER     runs the commands below, with the hdrl of this Python, into a new folder
    python tests/goldens.py check FOLDER    runs them again and names every file that differs; exit code 1 if one does

They are no part of the test suite: bytes of trainings depend on the processor and on the version of torch.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

TIMES = ("timing.json", "manifest.json")
"""Files that hold wall-clock times, or hashes of files that do."""

RUN = [BIN / "hdrl-launch", "--quiet"]
COMPARE = [BIN / "hdrl", "compare", "--quiet", "-j", "2"]
DEMO, TRAIN = ROOT / "examples" / "demo.json", ROOT / "examples" / "train.json"
SHORT = ["--set", "learning.n_envs=4", "--set", "learning.iterations=2", "--set", "learning.validation_every=1"]
SHORT += ["--set", "learning.n_validation_episodes=2", "--set", "learning.episodes.n_jobs=64"]

COMMANDS: dict[str, list[str | Path]] = {
    "run-gaia": [*RUN, DEMO, "--set", "nb_jobs=600"],
    "run-random": [*RUN, DEMO, "--set", "nb_jobs=300", "--set", "pybatsim.agent.policy_pair=random-random"],
    "run-conservative": [*RUN, DEMO, "--set", "nb_jobs=300", "--set", "pybatsim.agent.policy_pair=sjf+conservative"],
    "run-exact": [*RUN, DEMO, "--set", "nb_jobs=60", "--simulator", "exact"],
    "run-compatible": [*RUN, DEMO, "--set", "nb_jobs=300", "--set", "compatibility=hdeeprm-0.3.1"],
    "run-twice": [*RUN, DEMO, "--set", "nb_jobs=100", "-nr", "2"],
    "run-file": [*RUN, ROOT / "examples" / "first_fit.py", DEMO, "--set", "nb_jobs=200"],
    "train-ppo": [*RUN, "ppo", TRAIN, *SHORT],
    "train-dqn": [*RUN, "dqn", TRAIN, *SHORT],
    "train-picks": [
        *RUN,
        "ppo",
        TRAIN,
        *SHORT,
        "--set",
        "learning.environment=job_pick",
        "--set",
        "platform_file_path=homogeneous:2280",
        "--set",
        "workload.memory=none",
    ],
    "train-hdeeprm": [*RUN, ROOT / "examples" / "reinforce.py", TRAIN, *SHORT, "--set", "learning.n_envs=1"],
    "train-hdeeprm-compatible": [
        *RUN,
        ROOT / "examples" / "actor_critic.py",
        TRAIN,
        *SHORT,
        "--set",
        "learning.n_envs=1",
        "--set",
        "compatibility=hdeeprm-0.3.1",
    ],
    "compare-generated": [
        *COMPARE,
        "sjf+easy",
        "f4+easy_sjbf",
        "-p",
        "homogeneous:64",
        "--loads",
        "0.7,0.85",
        "--windows",
        "100:4",
    ],
    "compare-best": [
        *COMPARE,
        "smallest-*",
        "-p",
        "gaia",
        "-w",
        "lublin_gaia_1000",
        "--windows",
        "60:4",
        "--range",
        "0.5:1",
        "--baseline",
        "best",
    ],
    "compare-model": [
        *COMPARE,
        "sjf+easy",
        "{train-ppo}/model.pt",
        "-p",
        "gaia",
        "-w",
        "lublin_gaia_1000",
        "--windows",
        "100:3",
    ],
    "plot": [BIN / "hdrl", "plot", "gantt", "{run-gaia}", "-s", "{out}/gantt.png"],
}


def run(name: str, folder: Path) -> None:
    """Run a command; what it names in braces is the folder of an earlier one."""
    places = {other: folder / other for other in COMMANDS} | {"out": folder / name}
    words = [str(word) for word in COMMANDS[name]]
    for other, place in places.items():
        words = [word.replace("{" + other + "}", str(place)) for word in words]
    if any("{out}" in str(word) for word in COMMANDS[name]):
        places["out"].mkdir()
    else:
        words += ["--out", str(folder / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {' '.join(words)}\n{done.stdout}{done.stderr}")


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder that is the same when a run is repeated."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in TIMES and "tfevents" not in path.name and path.name != "goldens.json"
    }


def main() -> None:
    """Make or check."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("make", "check"):
        sys.exit(__doc__)
    kept, chosen = Path(sys.argv[2]), sys.argv[3:]
    names = [name for name in COMMANDS if not chosen or name in chosen]
    if sys.argv[1] == "make":
        kept.mkdir(parents=True)
        for name in names:
            run(name, kept)
        (kept / "goldens.json").write_text(json.dumps(digests(kept), indent=1) + "\n")
        return
    before = json.loads((kept / "goldens.json").read_text())
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for name in names:
            run(name, folder)
        after = digests(folder)
        wanted = {file: digest for file, digest in before.items() if file.partition("/")[0] in names}
        different = sorted(file for file in {*wanted, *after} if wanted.get(file) != after.get(file))
        print("\n".join(different) or "all bytes are as before")  # noqa: T201
        sys.exit(bool(different))


if __name__ == "__main__":
    main()
