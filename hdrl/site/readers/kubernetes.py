"""Dumps of Kubernetes (``kubectl get nodes,pods,workloads,podgroups -A -o json``), also of Volcano and Kueue."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hdrl.base.errors import ReadError
from hdrl.base.files import read_json
from hdrl.base.textnumbers import float_of
from hdrl.site.readers.rows import Attempt, Attempts
from hdrl.site.records import AttemptState, Dump
from hdrl.site.values import Clock

NODES = "nodes, which make the machine"
BY_OTHERS = "objects that another object covers: pods of workloads, groups, jobs of pods"
OTHER_KINDS = "objects of kinds that are no jobs"
MAX_PODS = 10**6

_GROUP_KEYS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
)
_KUEUE, _VOLCANO_JOB = "kueue.x-k8s.io/queue-name", "volcano.sh/job-name"
_SCALES = {
    **{"": 1.0, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15},
    **{"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?(?:[eE]\d{1,2})?)(m|[kKMGTP]i?)?")
_SPAN = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,12}(?:\.\d+)?)s)?")


def is_kubernetes(first_line: str) -> bool:
    """Tell whether a file begins as JSON."""
    return first_line.startswith("{")


def read_kubernetes(path: Path, clock: Clock) -> Dump:
    """Read a dump of Kubernetes: Kueue's workloads, Volcano's jobs and groups, pods, nodes.

    Parameters
    ----------
    path
        The file: a list of objects, or one object.

    Raises
    ------
    ReadError
        If it holds no objects of Kubernetes.
    """
    data = read_json(path)
    if isinstance(data, dict) and isinstance(data.get("jobs"), list):
        raise ReadError(path, "is what 'sacct --json' prints, expected that of 'sacct -P'")
    items = data.get("items", [data]) if isinstance(data, dict) else None
    if not isinstance(items, list) or not all(
        isinstance(one, dict) and isinstance(one.get("kind"), str) for one in items
    ):
        raise ReadError(path, "holds no objects with a kind, expected what 'kubectl get ... -o json' prints")
    return _Objects(items, clock).dump()


class _Objects:
    """The objects of one dump."""

    def __init__(self, items: list[dict[str, Any]], clock: Clock) -> None:
        self._found = Attempts("kubernetes")
        self._items = items
        self._clock = clock
        self._groups: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._nodes: list[tuple[str, int, int, int, str]] = []
        kinds = {one["kind"] for one in items}
        self._has_workloads = "Workload" in kinds
        self._volcano_jobs = {_key(one) for one in items if _is_volcano_job(one)}
        self._pod_groups = {
            f"{_space(one)}/{group}" for one in items if one["kind"] == "Pod" and (group := _group(one)) is not None
        }
        self._queues = {_key(one): _at(one, "spec", "queue") for one in items if one["kind"] == "PodGroup"}

    def dump(self) -> Dump:
        readers = {"Pod": self._pod, "Workload": self._workload, "PodGroup": self._pod_group, "Node": self._node}
        for item in self._items:
            with self._found.row() as attempt:
                reader = self._volcano_job if _is_volcano_job(item) else readers.get(item["kind"])
                if reader is None:
                    attempt.skip(BY_OTHERS if item["kind"] == "Job" else OTHER_KINDS)
                else:
                    reader(item, attempt)
        return self._found.dump(nodes=self._nodes)

    def _node(self, item: dict[str, Any], attempt: Attempt) -> None:
        attempt.skip(NODES)
        has = _at(item, "status", "allocatable") or _at(item, "status", "capacity") or {}
        cores, memory_mib = int(_quantity(has.get("cpu", "1"))), int(_quantity(has.get("memory", "0")) / 2**20)
        labels = _at(item, "metadata", "labels") or {}
        model = str(labels.get("nvidia.com/gpu.product", "gpu"))
        if not 1 <= cores <= 2**20 or memory_mib >= 2**40:
            raise ValueError(f"{cores} cores, {memory_mib} MiB")
        self._nodes.append((str(item["metadata"]["name"]), cores, memory_mib, int(_gpus(has)), model))

    def _start(self, item: dict[str, Any], attempt: Attempt) -> None:
        """Fill in what all objects say alike."""
        name = str(item["metadata"]["name"])
        attempt["job"] = self._number(f"{item['kind']} {_key(item)}")
        attempt["submit_s"] = attempt["eligible_s"] = self._clock.second(str(item["metadata"]["creationTimestamp"]))
        attempt.name("user", _space(item))
        attempt.name("name", name)

    def _number(self, key: str) -> int:
        return self._groups.setdefault(key, len(self._groups) + 1)

    def _add_requests(self, attempt: Attempt, cpu: float, memory: float, gpus: float, n_pods: int) -> None:
        if not 0 <= n_pods <= MAX_PODS:
            raise ValueError(f"{n_pods} pods")
        attempt["cores"] = attempt["requested_cores"] = max(math.ceil(round(cpu * n_pods, 6)), 1)
        attempt["gpus"] = math.ceil(gpus * n_pods)
        attempt["nodes"] = max(n_pods, 1)
        attempt["memory_kb"] = memory * n_pods / 1024 / attempt["cores"] if memory else np.nan

    def _pod(self, item: dict[str, Any], attempt: Attempt) -> None:
        labels = {**(_at(item, "metadata", "annotations") or {}), **(_at(item, "metadata", "labels") or {})}
        owner = str(labels.get(_VOLCANO_JOB, ""))
        if (self._has_workloads and _KUEUE in labels) or f"{_space(item)}/{owner}" in self._volcano_jobs:
            attempt.skip(BY_OTHERS)
            return
        self._start(item, attempt)
        group = _group(item)
        if group is not None:
            key = f"{_space(item)}/{group}"
            attempt["job"] = self._number(f"group {key}")
            attempt["component"] = self._sizes[key] = self._sizes.get(key, -1) + 1
            attempt.name("name", group)
            attempt.name("partition", str(self._queues.get(key) or ""))
        cpu, memory, gpus = _requests(item["spec"])
        self._add_requests(attempt, cpu, memory, gpus, 1)
        attempt.name("node_list", str(item["spec"].get("nodeName") or ""))
        status = item.get("status") or {}
        phase = str(status.get("phase", "Pending"))
        ended = [
            one["state"]["terminated"]
            for one in _list(status.get("containerStatuses"))
            if _at(one, "state", "terminated")
        ]
        started_s = [self._clock.second(str(one.get("startedAt") or "")) for one in ended]
        attempt["start_s"] = self._clock.second(str(status.get("startTime") or ""))
        if started_s and np.any(np.isfinite(started_s)):
            attempt["start_s"] = float(np.nanmin(started_s))
        ends_s = [self._clock.second(str(one.get("finishedAt") or "")) for one in ended]
        # Some containers of a pod that runs may have ended.
        has_ended = phase in ("Succeeded", "Failed") and bool(np.any(np.isfinite(ends_s)))
        attempt["end_s"] = float(np.nanmax(ends_s)) if has_ended else np.nan
        attempt["limit_s"] = _number(item["spec"].get("activeDeadlineSeconds"))
        attempt["state"] = {
            "Succeeded": AttemptState.DONE,
            "Failed": AttemptState.FAILED,
            "Running": AttemptState.RUNNING,
        }.get(phase, AttemptState.PENDING)

    def _workload(self, item: dict[str, Any], attempt: Attempt) -> None:
        """Read a Workload of Kueue: admission is its start."""
        self._start(item, attempt)
        self._add_pod_requests(attempt, item["spec"].get("podSets"), "count")
        attempt.name("partition", str(item["spec"].get("queueName") or ""))
        attempt["limit_s"] = _number(item["spec"].get("maximumExecutionTimeSeconds"))
        dates = self._conditions(item)
        attempt["start_s"] = dates.get("Admitted", dates.get("QuotaReserved", np.nan))
        attempt["end_s"] = dates.get("Finished", np.nan)
        attempt["state"] = (
            AttemptState.DONE
            if "Finished" in dates
            else AttemptState.RUNNING
            if "Admitted" in dates
            else AttemptState.PENDING
        )
        if "Finished" in dates and np.isnan(attempt["start_s"]):
            attempt["state"] = AttemptState.CANCELLED

    def _add_pod_requests(self, attempt: Attempt, groups: Any, how_many: str) -> None:
        """Fill in what groups of equal pods ask for together; ``how_many`` is the key of a group's number of pods."""
        cpu = memory = gpus = 0.0
        n_pods = 0
        for group in _list(groups):
            count = int(group.get(how_many, 1))
            one = _requests(group["template"]["spec"])
            if not 0 <= count <= MAX_PODS:
                raise ValueError(f"{count} pods")
            cpu, memory, gpus = cpu + count * one[0], memory + count * one[1], gpus + count * one[2]
            n_pods += count
        self._add_requests(attempt, cpu, memory, gpus, 1)
        attempt["nodes"] = max(n_pods, 1)

    def _conditions(self, item: dict[str, Any]) -> dict[str, float]:
        found = {}
        for one in _list(_at(item, "status", "conditions")):
            if str(one.get("status")) == "True":
                found[str(one.get("type"))] = self._clock.second(str(one.get("lastTransitionTime") or ""))
        return found

    def _volcano_job(self, item: dict[str, Any], attempt: Attempt) -> None:
        self._start(item, attempt)
        self._add_pod_requests(attempt, item["spec"].get("tasks"), "replicas")
        attempt.name("partition", str(item["spec"].get("queue") or ""))
        phase = str(_at(item, "status", "state", "phase") or "Pending")
        changed_s = self._clock.second(str(_at(item, "status", "state", "lastTransitionTime") or ""))
        run_s = _span_s(str(_at(item, "status", "runningDuration") or ""))
        states = {
            "Completed": AttemptState.DONE,
            "Failed": AttemptState.FAILED,
            "Aborted": AttemptState.CANCELLED,
            "Running": AttemptState.RUNNING,
        }
        state = attempt["state"] = states.get(
            phase, AttemptState.CANCELLED if phase == "Terminated" else AttemptState.PENDING
        )
        if state == AttemptState.RUNNING:
            attempt["start_s"] = changed_s
        elif not np.isnan(run_s):
            attempt["end_s"], attempt["run_s"], attempt["start_s"] = changed_s, run_s, changed_s - run_s

    def _pod_group(self, item: dict[str, Any], attempt: Attempt) -> None:
        owners = _list(_at(item, "metadata", "ownerReferences"))
        if _key(item) in self._pod_groups or any(
            f"{_space(item)}/{one.get('name')}" in self._volcano_jobs for one in owners
        ):
            attempt.skip(BY_OTHERS)
            return
        self._start(item, attempt)
        has = item["spec"].get("minResources") or {}
        self._add_requests(attempt, _quantity(has.get("cpu", "0")), _quantity(has.get("memory", "0")), _gpus(has), 1)
        attempt["nodes"] = max(int(item["spec"].get("minMember", 1)), 1)
        attempt.name("partition", str(item["spec"].get("queue") or ""))
        attempt["start_s"] = self._conditions(item).get("Scheduled", np.nan)
        phase = str(_at(item, "status", "phase") or "Pending")
        states = {
            "Running": AttemptState.RUNNING,
            "Completed": AttemptState.DONE,
            "Finished": AttemptState.DONE,
            "Failed": AttemptState.FAILED,
        }
        attempt["state"] = states.get(phase, AttemptState.PENDING)


def _at(item: Any, *keys: str) -> Any:
    """Return the value at a position within objects, ``None`` if there is nothing."""
    for key in keys:
        if not isinstance(item, Mapping):
            return None
        item = item.get(key)
    return item


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _space(item: Mapping[str, Any]) -> str:
    return str(_at(item, "metadata", "namespace") or "default")


def _key(item: Mapping[str, Any]) -> str:
    return f"{_space(item)}/{_at(item, 'metadata', 'name')}"


def _is_volcano_job(item: Mapping[str, Any]) -> bool:
    return item["kind"] == "Job" and str(item.get("apiVersion", "")).startswith("batch.volcano.sh")


def _group(item: Mapping[str, Any]) -> str | None:
    for part in ("annotations", "labels"):
        words = _at(item, "metadata", part)
        for key in _GROUP_KEYS:
            if isinstance(words, Mapping) and words.get(key):
                return str(words[key])
    return None


def _quantity(text: Any) -> float:
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"no quantity: {text!r}")
    return float_of(found[1]) * _SCALES[found[2] or ""]


def _number(value: Any) -> float:
    return np.nan if value is None else float_of(str(value))


def _gpus(amounts: Mapping[str, Any]) -> float:
    return sum(_quantity(amount) for key, amount in amounts.items() if key.endswith("/gpu"))


def _containers(containers: Any) -> Iterator[Mapping[str, Any]]:
    for container in _list(containers):
        # What has limits and no requests requests its limits.
        yield {**(_at(container, "resources", "limits") or {}), **(_at(container, "resources", "requests") or {})}


def _requests(spec: Mapping[str, Any]) -> tuple[float, float, float]:
    """Return the cores, bytes of memory and GPUs of a pod: its containers together, or the largest initial one."""
    cpu = memory = gpus = 0.0
    for amounts in _containers(spec.get("containers")):
        cpu += _quantity(amounts.get("cpu", "0"))
        memory += _quantity(amounts.get("memory", "0"))
        gpus += _gpus(amounts)
    for amounts in _containers(spec.get("initContainers")):  # one after the other, before the others
        cpu = max(cpu, _quantity(amounts.get("cpu", "0")))
        memory, gpus = max(memory, _quantity(amounts.get("memory", "0"))), max(gpus, _gpus(amounts))
    return cpu, memory, gpus


def _span_s(text: str) -> float:
    """Return a duration such as ``1h2m3.5s`` in seconds, NaN if there is none."""
    found = _SPAN.fullmatch(text)
    if found is None or not text:
        return np.nan
    hours, minutes, seconds = (float(one or 0) for one in found.groups())
    return hours * 3600 + minutes * 60 + seconds
