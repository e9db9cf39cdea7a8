"""The bytes of runs, trainings, comparisons and pictures: those that every processor makes, and more.

    python tests/goldens.py record              runs the commands below and writes hashes to goldens.json beside this
    python tests/goldens.py verify [NAME...]    runs them, or some, and names every file that differs from goldens.json
    python tests/goldens.py make FOLDER         runs them into a new folder, before a change of structure
    python tests/goldens.py check FOLDER [NAME...]
                                                runs them again after it and names every file that differs

``verify`` and ``check`` end with exit code 1 if a file differs. What is recorded is the same on every x86-64 processor
with AVX2: pictures, files that hold versions and trainings of HDeepRM's agents are left out, models count by their
tensors. ``check`` compares all.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "portable"))

from trainings import weights_hash

RECORDED = Path(__file__).with_suffix(".json")
EXAMPLES = Path(__file__).parents[1] / "examples"
BIN = Path(sys.executable).parent
PROGRAMS = {
    "hdrl": f"{BIN}/hdrl",
    "launch": f"{BIN}/hdrl-launch --quiet",
    "compare": f"{BIN}/hdrl compare --quiet -j 2",
}

NOT_COMPARED = ("timing.json", "manifest.json", "goldens.json", "resume.json", "sweep.json")
"""Files that hold wall-clock times, hashes of such files, or places."""

NOT_RECORDED = ".png", ".parquet", "provenance.json"
"""How files end that other libraries, or other versions of them, write otherwise."""

TRAIN = "--set learning.n_envs=4 --set learning.iterations=2 --set learning.validation_every=1"
TRAIN += " --set learning.n_validation_episodes=2 --set learning.episodes.n_jobs=64"
ONE = "--set learning.n_envs=1"

COMMANDS = {
    "run-gaia": "{launch} {demo} --set nb_jobs=600",
    "run-random": "{launch} {demo} --set nb_jobs=300 --set pybatsim.agent.policy_pair=random-random",
    "run-conservative": "{launch} {demo} --set nb_jobs=300 --set pybatsim.agent.policy_pair=sjf+conservative",
    "run-exact": "{launch} {demo} --set nb_jobs=60 --simulator exact",
    "run-compatible": "{launch} {demo} --set nb_jobs=300 --set compatibility=hdeeprm-0.3.1",
    "run-twice": "{launch} {demo} --set nb_jobs=100 -nr 2",
    "run-file": "{launch} {examples}/first_fit.py {demo} --set nb_jobs=200",
    "train-ppo": f"{{launch}} ppo {{train}} {TRAIN}",
    "train-dqn": f"{{launch}} dqn {{train}} {TRAIN}",
    "train-picks": f"{{launch}} ppo {{train}} {TRAIN} --set learning.environment=job_pick"
    " --set platform_file_path=homogeneous:2280 --set workload.memory=none",
    "train-hdeeprm": f"{{launch}} {{examples}}/reinforce.py {{train}} {TRAIN} {ONE}",
    "train-hdeeprm-compatible": f"{{launch}} {{examples}}/actor_critic.py {{train}} {TRAIN} {ONE}"
    " --set compatibility=hdeeprm-0.3.1",
    "compare-generated": "{compare} sjf+easy f4+easy_sjbf -p homogeneous:64 --loads 0.7,0.85 --windows 100:4",
    "compare-best": "{compare} smallest-* -p gaia -w lublin_gaia_1000 --windows 60:4 --range 0.5:1 --baseline best",
    "compare-model": "{compare} sjf+easy {out}/train-ppo/model.pt -p gaia -w lublin_gaia_1000 --windows 100:3",
    "plot": "{hdrl} plot gantt {out}/run-gaia -s {out}/plot/gantt.png",
}
"""What is run, each into a folder of its name; ``{out}`` is the folder of all."""

NOT_PORTABLE = "train-hdeeprm", "train-hdeeprm-compatible"
"""Trainings of HDeepRM's agents, whose networks are torch's own: other processors give other bits."""


def run(name: str, out: Path) -> None:
    """Run a command."""
    positions = {"out": out, "examples": EXAMPLES, "demo": EXAMPLES / "demo.json", "train": EXAMPLES / "train.json"}
    words = COMMANDS[name].format(**PROGRAMS, **positions).split()
    if name == "plot":
        (out / name).mkdir()
    else:
        words += ["--out", str(out / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {' '.join(words)}\n{done.stdout}{done.stderr}")


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder that is the same when a run is repeated."""
    return _each(folder, _of_bytes, NOT_COMPARED)


def portable_digests(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder that is the same on every processor."""
    return _each(folder, _of_content, NOT_COMPARED + NOT_RECORDED)


def _each(folder: Path, digest: Callable[[Path], str], left_out: tuple[str, ...]) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(left_out) and "tfevents" not in path.name
    }


def _of_bytes(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _of_content(path: Path) -> str:
    return weights_hash(path) if path.suffix == ".pt" else _of_bytes(path)[:16]


def differing(names: list[str], before: dict[str, str], digests_of: Callable[[Path], dict[str, str]]) -> list[str]:
    """Run commands again, and return the files whose hash is not that of before."""
    with tempfile.TemporaryDirectory() as text:
        for name in names:
            run(name, Path(text))
        after = digests_of(Path(text))
    wanted = {file: digest for file, digest in before.items() if file.partition("/")[0] in names}
    return sorted(file for file in {*wanted, *after} if wanted.get(file) != after.get(file))


def main() -> None:
    """Record, verify, make or check."""
    words = {"record": 0, "verify": 0, "make": 1, "check": 1}
    if len(sys.argv) < 2 or len(sys.argv) - 2 < words.get(sys.argv[1], len(sys.argv)):
        sys.exit(__doc__)
    what, given = sys.argv[1], sys.argv[2:]
    chosen = given[words[what] :]
    left_out = NOT_PORTABLE if what in ("record", "verify") else ()
    names = [name for name in COMMANDS if name not in left_out and (not chosen or name in chosen)]
    if unknown := {*chosen} - {*COMMANDS}:
        sys.exit(f"{min(unknown)}: expected one of {', '.join(COMMANDS)}")
    if what == "record":
        with tempfile.TemporaryDirectory() as text:
            for name in names:
                run(name, Path(text))
            _write(RECORDED, portable_digests(Path(text)))
        return
    if what == "make":
        kept = Path(given[0])
        kept.mkdir(parents=True)
        for name in names:
            run(name, kept)
        _write(kept / "goldens.json", digests(kept))
        return
    if what == "verify":
        different = differing(names, json.loads(RECORDED.read_text()), portable_digests)
    else:
        different = differing(names, json.loads((Path(given[0]) / "goldens.json").read_text()), digests)
    print("\n".join(different) or "all bytes are as before")  # noqa: T201
    sys.exit(bool(different))


def _write(file: Path, found: dict[str, str]) -> None:
    file.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
