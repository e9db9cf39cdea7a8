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

EXAMPLES = Path(__file__).parents[1] / "examples"
BIN = Path(sys.executable).parent
PROGRAMS = {
    "hdrl": f"{BIN}/hdrl",
    "launch": f"{BIN}/hdrl-launch --quiet",
    "compare": f"{BIN}/hdrl compare --quiet -j 2",
}

NOT_COMPARED = ("timing.json", "manifest.json", "goldens.json", "resume.json", "sweep.json")
"""Files that hold wall-clock times, hashes of such files, or places."""

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


def run(name: str, out: Path) -> None:
    """Run a command."""
    places = {"out": out, "examples": EXAMPLES, "demo": EXAMPLES / "demo.json", "train": EXAMPLES / "train.json"}
    words = COMMANDS[name].format(**PROGRAMS, **places).split()
    if name == "plot":
        (out / name).mkdir()
    else:
        words += ["--out", str(out / name)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {' '.join(words)}\n{done.stdout}{done.stderr}")


def digests(folder: Path) -> dict[str, str]:
    """Return the hash of every file below a folder that is the same when a run is repeated."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in NOT_COMPARED and "tfevents" not in path.name
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
