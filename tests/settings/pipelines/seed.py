"""rlschedsim's loop, for one CPU and one GPU and chains, written from a reading of it; times in microseconds.

One end at a time, the CPU's first of two at the same date; kernels of a fused group end one after the other; releases
are noticed after an end, or when everything that was released has ended; a decision is due while a kernel waits and
not both devices are busy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hdrl.settings.pipelines.loads.load import PipelineLoad


@dataclass
class Component:
    instance: int
    kernels: list[int]
    device: int = -1
    place: int = 0
    left_us: int = 0


@dataclass
class SeedEngine:
    load: PipelineLoad
    now_us: int = 0
    n_released: int = 0
    frontier: list[Component] = field(default_factory=list)
    running: list[Component | None] = field(default_factory=lambda: [None, None])
    queues: list[list[Component]] = field(default_factory=lambda: [[], []])

    def __post_init__(self) -> None:
        n = self.load.n_items
        self.ends, self.n_decisions = [-1] * n, [0] * n
        self.release()

    def pipeline(self, instance: int):
        return self.load.pipelines[int(self.load.instances["pipeline"][instance])]

    def deadline(self, instance: int) -> int:
        return int(self.load.instances["deadline_us"][instance])

    def worst_tail(self, instance: int, kernel: int) -> int:
        return sum(max(one.times_us) for one in self.pipeline(instance).kernels[kernel:])

    def rank(self, one: Component) -> int:
        behind = self.worst_tail(one.instance, one.kernels[0] + 1)
        return self.deadline(one.instance) - behind

    def total_us(self, one: Component, device: int) -> int:
        options = {group.kernels: group.times_us[device] for group in self.pipeline(one.instance).options}
        return options[tuple(one.kernels)]

    def kernel_us(self, one: Component, device: int) -> int:
        """How long the kernel of a component takes that is at its place: its share of the fused time."""
        alone = [self.pipeline(one.instance).kernels[k].times_us[device] for k in one.kernels]
        share = alone[one.place] * self.total_us(one, device) / sum(alone)
        assert share == int(share)
        return int(share)

    def release(self) -> None:
        table = self.load.instances
        while self.n_released < len(table) and table["release_us"][self.n_released] <= self.now_us:
            self.frontier.append(Component(self.n_released, [0]))
            self.n_released += 1

    def start(self, one: Component, device: int) -> None:
        one.device, one.left_us = device, self.kernel_us(one, device)
        self.running[device] = one

    def advance(self) -> bool:
        """Go on to the next decision; return whether there is one."""
        while min(self.ends) < 0:
            if all(end >= 0 for end in self.ends[: self.n_released]):
                self.now_us = max(self.now_us, int(self.load.instances["release_us"][self.n_released]))
                self.release()
            if None in self.running and self.frontier:
                return True
            self.end_one()
        return False

    def end_one(self) -> None:
        busy = [one for one in self.running if one is not None]
        ending = min(busy, key=lambda one: (one.left_us, one.device))
        elapsed, device = ending.left_us, ending.device
        self.now_us += elapsed
        for one in busy:
            one.left_us -= elapsed
        ending.place += 1
        if ending.place < len(ending.kernels):
            ending.left_us = self.kernel_us(ending, device)
        else:
            self.running[device] = None
            if self.queues[device]:
                self.start(self.queues[device].pop(0), device)
            after = ending.kernels[-1] + 1
            if after == len(self.pipeline(ending.instance).kernels):
                self.ends[ending.instance] = self.now_us
            else:
                self.frontier.append(Component(ending.instance, [after]))
        self.release()

    def act(self, device: int, depth: int) -> None:
        one = min(self.frontier, key=lambda c: (self.rank(c), c.instance))
        self.frontier.remove(one)
        last = min(one.kernels[0] + depth, len(self.pipeline(one.instance).kernels) - 1)
        one.kernels = list(range(one.kernels[0], last + 1))
        self.n_decisions[one.instance] += 1
        if self.running[device] is None:
            self.start(one, device)
        else:
            self.queues[device].append(one)

    def state(self) -> list[int]:
        """The ten numbers, errors included, in microseconds."""
        times = [0, 0]
        for device in range(2):
            one = self.running[device]
            times[device] += self.total_us(one, device) if one is not None else 0
            for queued in self.queues[device]:
                if len(queued.kernels) > 1:
                    times[device] += self.total_us(queued, device)
                else:
                    times[device] += max(self.pipeline(queued.instance).kernels[queued.kernels[0]].times_us)
        n = len(self.load.pipelines)
        tails, dues = [0] * n, [0] * n
        present = [(one, one.kernels[0]) for queue in self.queues for one in queue]
        present += [(one, one.kernels[one.place]) for one in self.running if one is not None]
        present += [(one, one.kernels[0]) for one in sorted(self.frontier, key=lambda c: (self.rank(c), c.instance))]
        for one, kernel in present:
            job = int(self.load.instances["pipeline"][one.instance])
            tails[job] = max(tails[job], self.worst_tail(one.instance, kernel))
            dues[job] = self.deadline(one.instance) - self.now_us
        return times + tails + dues
