"""EASY in plain Python for a homogeneous machine without memory limits: the yardstick of the compiled one.

All that happens at one date is known before anything is decided.
"""

import heapq
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    submit_s: float
    run_s: float
    requested_s: float
    cores: int


class Easy:
    """A machine under EASY; requested times must not be too short.

    ``priority(job, index)`` sorts the queue, ``order`` the jobs that may overtake its head. On the way it is checked
    that no head of the queue starts later than was promised to it, as long as it stays the head.
    """

    def __init__(self, jobs, n_cores, priority, order=None):
        self.jobs = jobs
        self.free = n_cores
        self.priority = priority
        self.order = order or priority
        self.arrivals = sorted(range(len(jobs)), key=lambda index: (jobs[index].submit_s, str(index)))
        self.queue, self.ends, self.expected, self.starts = [], [], {}, {}
        self.promise = (None, 0.0)

    def run(self):
        """Return the start of each job."""
        while self.arrivals or self.ends:
            dates = [self.jobs[index].submit_s for index in self.arrivals[:1]] + [end_s for end_s, _ in self.ends[:1]]
            self.hear(min(dates))
            self.schedule(min(dates))
        return [self.starts[index] for index in range(len(self.jobs))]

    def hear(self, now_s):
        while self.ends and self.ends[0][0] <= now_s:
            index = heapq.heappop(self.ends)[1]
            self.free += self.jobs[index].cores
            del self.expected[index]
        while self.arrivals and self.jobs[self.arrivals[0]].submit_s <= now_s:
            self.queue.append(self.arrivals.pop(0))
        self.queue.sort(key=lambda index: self.priority(self.jobs[index], index))

    def start(self, index, now_s):
        job = self.jobs[index]
        self.starts[index] = now_s
        self.free -= job.cores
        self.expected[index] = now_s + job.requested_s
        heapq.heappush(self.ends, (now_s + job.run_s, index))
        self.queue.remove(index)

    def schedule(self, now_s):
        if self.queue[:1] == [self.promise[0]]:
            assert now_s <= self.promise[1], "the head of the queue was delayed"
        else:
            self.promise = (None, 0.0)
        while self.queue and self.jobs[self.queue[0]].cores <= self.free:
            self.start(self.queue[0], now_s)
        if self.queue:
            self.backfill(now_s, *self.reserve(now_s))

    def reserve(self, now_s):
        """Return the shadow date of the head and the cores that it leaves then."""
        head = self.queue[0]
        room, shadow_s = self.free, now_s
        for expected_s, index in sorted((max(end_s, now_s), index) for index, end_s in self.expected.items()):
            if room >= self.jobs[head].cores and expected_s > shadow_s:
                break
            room, shadow_s = room + self.jobs[index].cores, expected_s
        kept_s = min(self.promise[1], shadow_s) if self.promise[0] == head else shadow_s
        self.promise = (head, kept_s)
        return shadow_s, room - self.jobs[head].cores

    def backfill(self, now_s, shadow_s, spare):
        for index in sorted(self.queue[1:], key=lambda index: self.order(self.jobs[index], index)):
            job = self.jobs[index]
            if job.cores > self.free:
                continue
            if now_s + job.requested_s <= shadow_s:
                self.start(index, now_s)
            elif job.cores <= spare:
                spare -= job.cores
                self.start(index, now_s)
