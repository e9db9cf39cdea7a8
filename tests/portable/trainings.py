"""Tiny trainings whose weights are the same on every processor, and what makes one machine compute as another.

    python tests/portable/trainings.py            prints the hash of each model's weights, as JSON
    python tests/portable/trainings.py NAME...    only of these
    python tests/portable/trainings.py --record   writes the hashes of this machine to hashes.json

Whoever adds a network or an algorithm adds a line to `TRAININGS`, then records.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HASHES = Path(__file__).parent / "hashes.json"

_LEARNING = {
    "n_envs": 4,
    "iterations": 2,
    "tensorboard": False,
    "n_validation_episodes": 1,
    "settings": {"n_steps": 16, "n_epochs": 2, "minibatch_size": 32},
}
_PAIR = {
    "seed": 1,
    "platform_file_path": "gaia",
    "workload_file_path": "lublin_gaia_1000",
    "pybatsim": {"env": {"objective": "avg_bounded_slowdown", "observation": "small"}},
    "learning": {**_LEARNING, "episodes": {"n_jobs": 24}},
}
_PICK = {
    "seed": 1,
    "platform_file_path": "homogeneous:2280",
    "workload_file_path": "lublin_gaia_1000",
    "learning": {
        **_LEARNING,
        "environment": "job_pick",
        "arguments": {"max_jobs": 16, "reward": "shaped"},
        "episodes": {"n_jobs": 24},
    },
}
_GPU = {
    "seed": 1,
    "setting": "gpu",
    "platform": "drl-gpu",
    "workload": "poisson",
    "nb_jobs": 20,
    "agent": {"type": "LEARNING"},
    "learning": _LEARNING,
}
_PIPELINES = {
    "seed": 1,
    "setting": "pipelines",
    "platform": "1cpu+1gpu",
    "workload": "generated",
    "load": {"horizon_ms": 500},
    "agent": {"type": "LEARNING"},
    "learning": _LEARNING,
}
_ADAPTATION = {
    "seed": 1,
    "setting": "adaptation",
    "platform": "counted",
    "workload": "signals_small_convnet_early",
    "nb_jobs": 4,
    "agent": {"type": "LEARNING"},
    "learning": {**_LEARNING, "episodes": {"n_jobs": 1}},
}
_DISSERTATION = {
    **_PICK,
    "learning": {
        **_LEARNING,
        "environment": "job_pick",
        "arguments": {"compatibility": "dissertation", "n_nodes": 570},
        "episodes": {"n_jobs": 24, "test": [0.95, 1.0]},  # what is tested changes no weight
    },
}


def _index(options: dict[str, Any], environment: str, n_jobs: int, n_windows: int) -> dict[str, Any]:
    """Return options with a search for weights of an index."""
    learning = {
        **_LEARNING,
        "n_envs": 6,
        "environment": environment,
        "arguments": {"n_windows": n_windows},
        "episodes": {"n_jobs": n_jobs},
        "iterations": 3,
        "settings": {},
    }
    return {**options, "learning": learning}


_JOB_INDEX = _index(_PICK, "job_index", 48, 2)
_GPU_INDEX = _index(_GPU, "gpu_index", 8, 4)
_SETS = {"horizon_ms": 500, "sets": 6, "utilizations": [0.8, 0.9], "model": {"shape": "mixed"}}
_PIPELINES_INDEX = _index({**_PIPELINES, "load": _SETS}, "pipelines_index", 8, 4)
_ADAPTATION_INDEX = _index({**_ADAPTATION, "nb_jobs": 40}, "adaptation_index", 8, 4)
_REPLAY = {
    **dict.fromkeys(("n_steps", "n_epochs", "minibatch_size")),
    **{"warm_up": 32, "batch_size": 16, "updates_per_iteration": 6, "steps_per_update": 2},
}
"""What agents with a replay buffer know, and what only PPO does, taken out."""

_EPISODES = {"n_steps": None, "n_epochs": None, "minibatch_size": None}
"""What only PPO knows, taken out."""


def _with(options: dict[str, Any], algorithm: str, arguments: Any = None, **settings: Any) -> dict[str, Any]:
    """Return options with an algorithm and more settings of it; those that are ``None`` are left out."""
    learning = options["learning"]
    both = {name: value for name, value in {**learning["settings"], **settings}.items() if value is not None}
    known = {**learning.get("arguments", {}), **(arguments or {})}
    return {
        **options,
        "learning": {**learning, "algorithm": algorithm, "settings": both, **({"arguments": known} if known else {})},
    }


TRAININGS: dict[str, dict[str, Any]] = {
    "ppo-policy-pair": _with(_PAIR, "ppo", entropy_coef=0.01),
    "ppo-tanh": _with(_PAIR, "ppo", activation="tanh", is_shared=True, target_kl=0.01),
    "ppo-job-pick-kernel": _with(_PICK, "ppo", network="kernel"),
    "ppo-job-pick-mlp": _with(_PICK, "ppo", network="mlp"),
    "ppo-job-pick-rows": _with(_PICK, "ppo", network="rows", hidden=[16, 8], activation="tanh"),
    "a2c-job-pick": _with(_PICK, "a2c", network="kernel", n_epochs=None, minibatch_size=None, entropy_coef=0.01),
    "reinforce-policy-pair": _with(_PAIR, "reinforce", **_EPISODES, has_baseline=True, network="hdeeprm_actor_critic"),
    "dqn-job-pick": _with(_PICK, "dqn", **_REPLAY, network="kernel"),
    "d3qn-policy-pair": _with(_PAIR, "d3qn", **_REPLAY),
    "rainbow-job-pick": _with(_PICK, "rainbow", **_REPLAY, network="mlp", value_range=[-100, 0]),
    "sac-job-pick": _with(_PICK, "sac", **_REPLAY, network="kernel"),
    "ppo-attention": _with(_PICK, "ppo", network="attention"),
    "ppo-dissertation": _with(_DISSERTATION, "ppo", network="dissertation_small"),
    "ppo-dissertation-attention": _with(_DISSERTATION, "ppo", network="dissertation_attention"),
    "reinforce-sequence": _with(_ADAPTATION, "reinforce", **_EPISODES, network="sequence", has_baseline=True),
    "advisor-sequence": _with(_ADAPTATION, "advisor", **_EPISODES),
    "cma_es-job-index": _with(_JOB_INDEX, "cma_es"),
    "cma_es-gpu-index": _with(_GPU_INDEX, "cma_es"),
    "cma_es-pipelines-index": _with(_PIPELINES_INDEX, "cma_es"),
    "cma_es-adaptation-index": _with(_ADAPTATION_INDEX, "cma_es"),
    "openai_es-job-index": _with(_JOB_INDEX, "openai_es"),
    "ppo-gpu": _with(_GPU, "ppo"),
    "ppo-pipelines": _with(_PIPELINES, "ppo"),
}
"""By name: the options of a training."""


def weights_hash(model: Path) -> str:
    """Return a hash of all tensors of a model's agent, with their names and shapes."""
    import numpy as np
    import torch

    digest = hashlib.sha256()

    def add(name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(value.detach().contiguous().cpu().numpy().tobytes())
        elif isinstance(value, np.ndarray):
            add(name, torch.from_numpy(value))
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, (list, tuple)):
            for i, one in enumerate(value):
                add(f"{name}.{i}", one)

    add("", torch.load(model, weights_only=True))
    return digest.hexdigest()[:16]


def train(name: str, folder: Path) -> Path:
    """Train in a folder, and return where the model is."""
    from hdrl.experiment import run_experiment
    from hdrl.experiment.run.inputs import read_options

    (folder / "options.json").write_text(json.dumps(TRAININGS[name]))
    run_experiment(read_options(folder / "options.json"), out=folder / name)
    return folder / name / "model.pt"


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def hashes(names: list[str]) -> dict[str, str]:
    """Train each, and return the hashes of their weights."""
    with _quietly(), tempfile.TemporaryDirectory(prefix="hdrl-portable-") as folder:
        return {name: weights_hash(train(name, Path(folder))) for name in names}


def main() -> None:
    """Print or record."""
    records = "--record" in sys.argv
    found = hashes([word for word in sys.argv[1:] if not word.startswith("--")] or [*TRAININGS])
    if records:
        HASHES.write_text(json.dumps(found, indent=2) + "\n")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
