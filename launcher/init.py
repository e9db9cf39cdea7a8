"""``hdrl init``: a folder to start an experiment from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hdrl.base.files import atomic_write, write_json

OPTIONS: dict[str, Any] = {
    "seed": 1,
    "platform_file_path": "gaia",
    "workload_file_path": "lublin_gaia_10000",
    "pybatsim": {"env": {"objective": "avg_bounded_slowdown", "observation": "small"}},
    "learning": {
        "algorithm": "ppo",
        "n_envs": 16,
        "iterations": 10,
        "validation_every": 5,
        "n_validation_episodes": 8,
        "episodes": {"n_jobs": 256},
    },
}
"""A training that takes seconds."""

POLICY = '''\
"""A policy of your own: the job with the lowest priority value is served first."""


def priority(job, now_s):
    return job.requested_time_s * job.cores - 100 * (now_s - job.submit_s)
'''

README = """\
# {name}

Check, train, judge on jobs that the training has not seen, and read the report:

```sh
hdrl options check options.json
hdrl-launch options.json --out trained
hdrl compare model=trained/model.pt policy.py+easy -p gaia -w lublin_gaia_10000 --range 0.7:1 --windows 128:23 \\
    --baseline best --set opponents=pairs36 --metrics mean_bounded_slowdown --out judged
hdrl report judged -o judged.html
```

- `options.json`: the machine, the jobs, how to learn. `hdrl options schema` describes every key, `hdrl list` names
  what can be chosen.
- `policy.py`: a policy without learning, to compare with. A class that learns can replace `ppo`.
"""


@click.command()
@click.argument("folder", metavar="NAME", type=click.Path(path_type=Path))
def init(folder: Path) -> None:
    """Create the folder NAME with options, a policy and the first commands."""
    from hdrl.experiment.run.folder import new_folder

    with new_folder(folder) as filled:
        write_json(filled / "options.json", OPTIONS)
        for name, text in (("policy.py", POLICY), ("README.md", README.format(name=folder.resolve().name))):
            with atomic_write(filled / name) as file:
                file.write(text)
    click.echo(f"{folder}: options.json, policy.py, README.md (read it first)")
