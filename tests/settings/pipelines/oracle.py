"""A second simulator of pipelines, in plain Python and without tables: slow, and written from the description alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hdrl.settings.pipelines.loads.load import WHOLE, PipelineLoad
from hdrl.settings.pipelines.loads.pipeline import NEVER, Group, Pipeline
from hdrl.settings.pipelines.machine import Units
from hdrl.settings.pipelines.simulation.index import checked_weights, start_weights

FAR = 1 << 62


@dataclass
class Run:
    instance: int
    option: int
    unit: int
    worst_us: int
    start_us: int = -1
    end_us: int = -1


@dataclass
class World:
    machine: Units
    load: PipelineLoad
    now_us: int = 0
    released: int = 0
    waiting: bool = False
    done: set[tuple[int, int]] = field(default_factory=set)
    taken: set[tuple[int, int]] = field(default_factory=set)
    queues: list[list[Run]] = field(default_factory=list)
    running: list[Run | None] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    ended: dict[int, int] = field(default_factory=dict)
    n_decisions: int = 0
    weights: tuple[float, ...] = tuple(start_weights())

    def __post_init__(self) -> None:
        self.queues = [[] for _ in range(self.machine.n_units)]
        self.running = [None] * self.machine.n_units
        self.shares = self.load.shares().tolist()
        self.now_us = int(self.load.instances["release_us"][0])
        self.release()

    # ------------------------------------------------------------------ what is there

    def pipeline(self, instance: int) -> Pipeline:
        return self.load.pipelines[int(self.load.instances["pipeline"][instance])]

    def row(self, instance: int) -> dict[str, int]:
        return {name: int(self.load.instances[name][instance]) for name in self.load.instances.dtype.names}

    def kinds(self, pipeline: Pipeline) -> list[int]:
        return [k for k, e in zip(self.machine.kinds, self.machine.ecus, strict=True) if pipeline.ecu in (-1, e)]

    def times(self, pipeline: Pipeline, kernel: int) -> list[int]:
        every = [pipeline.kernels[kernel].times_us[kind] for kind in self.kinds(pipeline)]
        return [one for one in every if one != NEVER]

    def tail(self, pipeline: Pipeline, kernel: int, measure: object) -> int:
        after = [self.tail(pipeline, one, measure) for one in pipeline.successors[kernel]]
        return measure(self.times(pipeline, kernel)) + max(after, default=0)

    def local_deadline(self, instance: int, kernel: int) -> int:
        pipeline = self.pipeline(instance)
        behind = [self.tail(pipeline, one, max) for one in pipeline.successors[kernel]]
        return self.row(instance)["deadline_us"] - max(behind, default=0)

    def ready(self) -> list[tuple[int, int]]:
        found = []
        for instance in range(self.released):
            pipeline = self.pipeline(instance)
            for kernel in range(len(pipeline.kernels)):
                key = instance, kernel
                waits = any((instance, before) not in self.done for before in pipeline.predecessors[kernel])
                if key not in self.taken and not waits:
                    found.append(key)
        return sorted(found, key=lambda one: (self.local_deadline(*one), one))

    def startable(self, instance: int, group: Group) -> bool:
        pipeline, inside = self.pipeline(instance), set(group.kernels)
        return all(
            (instance, k) not in self.taken
            and all(b in inside or (instance, b) in self.done for b in pipeline.predecessors[k])
            for k in group.kernels
        )

    def worst(self, instance: int, group: Group, unit: int) -> int:
        if self.pipeline(instance).ecu not in (-1, self.machine.ecus[unit]):
            return NEVER
        return group.times_us[self.machine.kinds[unit]]

    def choices(self, instance: int, kernel: int) -> list[int]:
        return list(self.pipeline(instance).choices[kernel])

    def backlog(self, unit: int) -> int:
        run = self.running[unit]
        if run is None:
            return 0
        return max(run.start_us + run.worst_us - self.now_us, 0) + sum(one.worst_us for one in self.queues[unit])

    # ------------------------------------------------------------------ what happens

    def release(self) -> None:
        table = self.load.instances
        while self.released < len(table) and table["release_us"][self.released] <= self.now_us:
            self.released += 1

    def start(self, run: Run) -> None:
        group = self.pipeline(run.instance).options[run.option]
        first = int(self.load.first_kernels[run.instance])
        total = sum(self.shares[first + k] for k in group.kernels)
        whole = WHOLE * len(group.kernels)
        run.start_us = self.now_us
        run.end_us = self.now_us + -(-run.worst_us * total // whole)
        self.running[run.unit] = run

    def dispatch(self, instance: int, option: int, unit: int) -> None:
        group = self.pipeline(instance).options[option]
        assert self.startable(instance, group)
        run = Run(instance, option, unit, self.worst(instance, group, unit))
        assert run.worst_us != NEVER
        self.runs.append(run)
        self.n_decisions += 1
        self.taken |= {(instance, k) for k in group.kernels}
        if self.running[unit] is None:
            self.start(run)
        else:
            self.queues[unit].append(run)

    def next_event(self) -> None:
        dates = [run.end_us for run in self.running if run is not None]
        if self.released < self.load.n_items:
            dates.append(int(self.load.instances["release_us"][self.released]))
        self.now_us = min(dates)
        for unit, run in enumerate(self.running):
            if run is None or run.end_us != self.now_us:
                continue
            self.running[unit] = None
            pipeline = self.pipeline(run.instance)
            self.done |= {(run.instance, k) for k in pipeline.options[run.option].kernels}
            if all((run.instance, k) in self.done for k in range(len(pipeline.kernels))):
                self.ended[run.instance] = self.now_us
            if self.queues[unit]:
                self.start(self.queues[unit].pop(0))
        self.release()

    def play(self, policy: str) -> World:
        rule = policy.removesuffix("+fusion")
        is_fusing = policy != rule
        while len(self.ended) < self.load.n_items:
            idle = any(run is None for run in self.running)
            ready = self.ready()
            if not ready or not idle or self.waiting:
                self.waiting = False
                self.next_event()
                continue
            found = self.decide(rule, ready, is_fusing=is_fusing)
            if found is None:
                self.n_decisions += 1
                self.waiting = True
            else:
                self.dispatch(*found)
        return self

    # ------------------------------------------------------------------ policies

    def decide(self, rule: str, ready: list[tuple[int, int]], *, is_fusing: bool) -> tuple[int, int, int] | None:
        """Return instance, option and unit."""
        if rule in ("doomed_last", "index"):
            return self.lowest_row(ready)
        candidates = []
        for one in ready:
            place = self.place(rule, one, ready, is_fusing=is_fusing)
            if place is not None:
                end_us, option, unit = place
                key = end_us if rule == "earliest_finish" else self.key(rule, one)
                candidates.append(((key, self.row(one[0])["deadline_us"], *one), one[0], option, unit))
        return min(candidates)[1:] if candidates else None

    def key(self, rule: str, one: tuple[int, int]) -> int:
        instance, kernel = one
        row, pipeline = self.row(instance), self.pipeline(instance)
        if rule in ("edf", "edf_global"):
            return row["deadline_us"]
        if rule in ("edf_local", "cpu", "gpu"):
            return self.local_deadline(instance, kernel)
        if rule == "rm":
            return row["period_us"]
        if rule == "dm":
            return row["deadline_us"] - row["release_us"]
        if rule == "llf":
            return row["deadline_us"] - self.tail(pipeline, kernel, min)
        assert rule == "heft"
        return -self.tail(pipeline, kernel, lambda times: sum(times) // len(times))

    def place(
        self, rule: str, one: tuple[int, int], ready: list[tuple[int, int]], *, is_fusing: bool
    ) -> tuple[int, int, int] | None:
        found = []
        shortest = is_fusing and rule not in ("edf_global", "edf_local")
        for unit in range(self.machine.n_units):
            kind = self.machine.kinds[unit]
            if rule in ("edf", "rm", "dm", "llf") and self.running[unit] is not None:
                continue
            if (rule == "cpu" and kind != 0) or (rule == "gpu" and kind != 1):
                continue
            option = self.option(rule, one, unit, ready, is_fusing=is_fusing)
            if option is None:
                continue
            group = self.pipeline(one[0]).options[option]
            after = self.after(one[0], group) if shortest else 0
            found.append((self.backlog(unit) + self.worst(one[0], group, unit) + after, unit, option))
        if not found:
            return None
        end_us, unit, option = min(found)
        return end_us, option, unit

    def after(self, instance: int, group: Group) -> int:
        pipeline, inside = self.pipeline(instance), set(group.kernels)
        behind = {v for k in group.kernels for v in pipeline.successors[k]} - inside
        return max((self.tail(pipeline, k, min) for k in behind), default=0)

    def option(
        self, rule: str, one: tuple[int, int], unit: int, ready: list[tuple[int, int]], *, is_fusing: bool
    ) -> int | None:
        instance, kernel = one
        pipeline, kind = self.pipeline(instance), self.machine.kinds[unit]
        threshold = min((self.local_deadline(*other) for other in ready if other != one), default=FAR)
        best, found = 0.0, None
        for option in self.choices(instance, kernel) if is_fusing else self.choices(instance, kernel)[:1]:
            group = pipeline.options[option]
            worst = self.worst(instance, group, unit)
            if worst == NEVER or not self.startable(instance, group):
                continue
            if not is_fusing:
                return option
            if rule == "edf_global":
                alone = [pipeline.kernels[k].times_us[kind] for k in group.kernels]
                value = (NEVER if NEVER in alone else sum(alone)) / worst
            elif rule == "edf_local":
                latest = max(self.local_deadline(instance, k) for k in group.kernels)
                value = float(len(group.kernels)) if len(group.kernels) == 1 or latest < threshold else 0.0
            else:
                value = 1.0 / (worst + self.after(instance, group))
            if value > best:
                best, found = value, option
        return found

    # ------------------------------------------------------------------ the index, as its formula is written down

    def rows(self, one: tuple[int, int]) -> list[tuple[int, int]]:
        """Return what a ready kernel may do: options and units."""
        instance, kernel = one
        pipeline = self.pipeline(instance)
        return [
            (option, unit)
            for option in self.choices(instance, kernel)
            if self.startable(instance, pipeline.options[option])
            for unit in range(self.machine.n_units)
            if self.worst(instance, pipeline.options[option], unit) != NEVER
        ]

    def due(self, instance: int) -> int:
        row = self.row(instance)
        return row["deadline_us"] + row["tolerance_us"] - self.now_us

    def slack(self, one: tuple[int, int], option: int, unit: int) -> int:
        group = self.pipeline(one[0]).options[option]
        return self.due(one[0]) - self.backlog(unit) - self.worst(one[0], group, unit) - self.after(one[0], group)

    def best(self, one: tuple[int, int], unit: int | None = None) -> float:
        """Return the largest slack of a kernel, anywhere or on a unit."""
        return max((self.slack(one, *row) for row in self.rows(one) if unit in (None, row[1])), default=-math.inf)

    def kills(self, one: tuple[int, int], unit: int, t: int, ready: list[tuple[int, int]]) -> int:
        others = [q for q in ready if q[0] != one[0] and self.best(q) >= 0]
        elsewhere = [v for v in range(self.machine.n_units) if v != unit]
        return sum(
            max(self.best(q, unit) - t, max((self.best(q, v) for v in elsewhere), default=-math.inf)) < 0
            for q in others
        )

    def future(self, t: int) -> int:
        found = 0
        for instance in range(self.released, min(self.released + 6, self.load.n_items)):
            row = self.row(instance)
            if row["release_us"] < self.now_us + t:
                least = self.tail(self.pipeline(instance), 0, min)
                found += row["deadline_us"] + row["tolerance_us"] - (self.now_us + t) - least < 0
        return found

    def z(self, one: tuple[int, int], option: int, unit: int, ready: list[tuple[int, int]]) -> float:
        """Return the index of a row."""
        instance = one[0]
        pipeline, kind = self.pipeline(instance), self.machine.kinds[unit]
        group, period = pipeline.options[option], self.row(instance)["period_us"]
        t, b, after = self.worst(instance, group, unit), self.backlog(unit), self.after(instance, group)
        sl, best, due = self.slack(one, option, unit), self.best(one), self.due(instance)
        times = [pipeline.kernels[k].times_us[kind] for k in group.kernels]
        alone = NEVER if NEVER in times else sum(times)
        other = group.times_us[1 - kind]
        left = sum((instance, k) not in self.done for k in range(len(pipeline.kernels)))
        idle, doomed = self.running[unit] is None, best < 0
        x = (
            max(-1.0, min(1.0, sl / period)),
            float(sl < 0),
            float(doomed),
            t / period,
            b / period,
            after / period,
            min(2.0, (best - sl) / period),
            1 - t / alone if alone > 0 else 0.0,
            float(idle),
            (other - t) / (other + t) if other != NEVER else 1.0,
            len(group.kernels) / left,
            math.log(t + 1000) - 10,
            math.log(max(due, 0) + 1000) - 12,
            left / len(pipeline.kernels),
            float(min(3, self.kills(one, unit, t, ready))) if idle else 0.0,
            min(3.0, -best / period) if doomed else 0.0,
            float(self.future(t)) if idle else 0.0,
        )
        return sum(w * value for w, value in zip(checked_weights(self.weights), x, strict=True))

    def lowest_row(self, ready: list[tuple[int, int]]) -> tuple[int, int, int] | None:
        """Return instance, option and unit of the lowest row on an idle unit; kernels whose own is elsewhere wait."""
        table = [
            (round(self.z(one, *row, ready), 5), place, at, one, *row)
            for place, one in enumerate(ready)
            for at, row in enumerate(self.rows(one))
        ]
        held: set[tuple[int, int]] = set()
        while rows := [row for row in table if row[3] not in held]:
            *_, one, option, unit = min(rows)
            if self.running[unit] is None:
                return one[0], option, unit
            held.add(one)
        return None
