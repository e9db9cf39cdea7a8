"""The GPUs of a site and the jobs that took some, in files that the setting of GPU clusters reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hdrl.base.csvfiles import atomic_table
from hdrl.base.files import write_json
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.settings.batch.site_rules.hostlist import node_names
from hdrl.site.found import SiteImport
from hdrl.site.joining import JoinedJobs

FOLDER = "gpu"

_ANY = "gpu"
"""Model of GPUs whose model is unknown."""


def has_gpus(conf: SiteConf, jobs: JoinedJobs) -> bool:
    """Tell whether the site has GPUs that jobs took."""
    return any(one.gpus for one in conf.nodes) and bool(np.any(jobs.records["gpus"] > 0))


_KNOWN = {"user": "user", "group": "group", "job_name": "executable"}
"""Columns that Alibaba's lists do not have, which predictions use, and the fields of the log that hold them."""

_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def _texts(found: SiteImport, field: str) -> list[str]:
    """Return a name of each job that took GPUs, empty if it is unknown."""
    log = found.log
    texts = log.names[field]
    if field == "executable" and (found.is_anonymous or found.similar):
        texts = [one.translate(_LETTERS) for one in texts]  # readers cut names at their first number
    numbers = log.log.rows[field][found.jobs.records["gpus"] > 0]
    return [texts[number] if number >= 0 else "" for number in numbers.astype(np.int64).tolist()]


def write_gpu_files(folder: Path, found: SiteImport) -> None:
    """Write nodes and jobs as Alibaba's gpu-v2023 has them, and options that name both."""
    place = folder / FOLDER
    place.mkdir()
    models = {name: model for name, _, _, _, model in found.dump.nodes}
    with atomic_table(place / "nodes.csv", ["sn", "cpu_milli", "memory_mib", "gpu", "model"]) as write_row:
        for one in found.conf.nodes:
            for name in node_names(one.names):
                model = models.get(name, _ANY) if one.gpus else ""
                write_row([name, one.cores * 1000, one.memory_mib or 2**20, one.gpus, model])
    columns = (
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos", "pod_phase"),
        *("creation_time", "deletion_time", "scheduled_time", *_KNOWN),
    )
    records = found.jobs.records[found.jobs.records["gpus"] > 0]
    names = [_texts(found, field) for field in _KNOWN.values()]
    first_s = float(np.floor(records["eligible_s"].min()))
    memory = np.where(records["memory_kb"] > 0, records["memory_kb"] * records["cores"] / 1024, 0.0)
    with atomic_table(place / "jobs.csv", columns) as write_row:
        for number, row in enumerate(records):
            start_s = row["start_s"] - first_s
            dates = [row["eligible_s"] - first_s, start_s + row["run_s"], start_s]
            sizes = [int(row["cores"]) * 1000, int(memory[number]), int(row["gpus"]), 1000]
            known = [texts[number] for texts in names]
            rounded = [round(float(date), 3) for date in dates]
            write_row([f"job{number + 1}", *sizes, "", "", "Succeeded", *rounded, *known])
    options = {
        "setting": "gpu",
        "platform": "nodes.csv",
        "workload": "jobs.csv",
        "load": {"unrunnable": "leave out"},
        "agent": {"type": "CLASSIC", "policy": "fifo"},
    }
    write_json(place / "options.json", options)
