"""EASY with predictions, an index and a gate in plain Python, written down from their definitions."""

import math

import numpy as np

from hdrl.settings.batch.policies.backfilling import Easy
from hdrl.settings.batch.simulation.view import News

DECAYS = (0.999, 0.99, 0.95, 0.85, 0.8)
SHRINKAGES = (1, 3, 3, 1, 1)
SIXTY_DAYS_S = 60 * 86400


class Oracle:
    """All ended jobs, one by one; sums are taken anew for every prediction."""

    def __init__(self):
        self.ended = []  # user, cores, requested, run, name

    def end(self, user, cores, requested_s, run_s, name=None):
        self.ended.append((user, cores, requested_s, run_s, name))

    def _level(self, user, cores, requested_s, level, name=None):
        tests = (
            lambda _: True,
            lambda e: e[2] == requested_s,
            lambda e: e[0] == user,
            lambda e: (e[0], e[2] if name is None else e[4]) == (user, requested_s if name is None else name),
            lambda e: e[:3] == (user, cores, requested_s) and name in (None, e[4]),
        )
        mine = [e for e in self.ended if tests[level](e)]
        return mine, [DECAYS[level] ** age for age in range(len(mine))][::-1]

    def user(self, user):
        mine, weights = self._level(user, 0, 0.0, 2)
        return [e[3] for e in mine], weights

    def shrunk(self, user, cores, requested_s, name=None):
        log_ratio, inverse = -0.9, 0.05
        for level, m in enumerate(SHRINKAGES):
            mine, weights = self._level(user, cores, requested_s, level, name)
            total = sum(weights) + m
            ratios = (w * math.log(max(e[3], 1) / max(e[2], 1)) for w, e in zip(weights, mine, strict=True))
            log_ratio = (sum(ratios) + m * log_ratio) / total
            inverses = (w * 10 / max(e[3], 10) for w, e in zip(weights, mine, strict=True))
            inverse = (sum(inverses) + m * inverse) / total
        inverse = max(inverse, 10 / max(requested_s, 10))
        return min(requested_s, requested_s * math.exp(log_ratio)), 10 / inverse

    def seen(self, user, cores, requested_s, n_here):
        """Return what a network sees."""
        log_ratio, inverse, seen = -0.9, 0.05, []
        for level, m in enumerate(SHRINKAGES):
            mine, weights = self._level(user, cores, requested_s, level)
            n = sum(weights)
            ratios = sum(w * math.log(max(e[3], 1) / max(e[2], 1)) for w, e in zip(weights, mine, strict=True))
            inverses = sum(w * 10 / max(e[3], 10) for w, e in zip(weights, mine, strict=True))
            log_ratio, inverse = (ratios + m * log_ratio) / (n + m), (inverses + m * inverse) / (n + m)
            seen += [log_ratio / 2, math.log(inverse) / 2 + 1, n / (n + 2)]
        runs, weights = self.user(user)
        logs = np.log(np.maximum(runs, 1.0))
        log_request = math.log(max(requested_s, 1))
        deviation = math.sqrt(np.cov(logs, aweights=weights, ddof=0)) if len(runs) > 1 else float(not runs)
        last = logs[-1] - log_request if runs else 0.0
        before = logs[-2] - log_request if len(runs) > 1 else 0.0
        return [*seen, (log_request - 8) / 2, last / 2, before / 2, deviation - 1, math.log(1 + n_here) / 2]

    def learned(self, network, user, cores, requested_s, n_here):
        """Return the length that a network predicts."""
        neurons, position = np.array(self.seen(user, cores, requested_s, n_here)), 0
        for n_out in (32, 32, 2):
            size = (len(neurons) + 1) * n_out
            layer = np.reshape(network[position : position + size], (n_out, -1))
            neurons, position = layer @ [*neurons, 1.0], position + size
            if n_out > 2:
                neurons = np.tanh(neurons)
        return requested_s * math.exp(min(neurons[0], 0.0))

    def predict(self, predictor, user, cores, requested_s):
        """Return the predicted length and the harmonic mean."""
        runs, weights = self.user(user)
        if predictor in ("geo", "harm"):
            length_s, harmonic_s = self.shrunk(user, cores, requested_s)
            return (harmonic_s if predictor == "harm" else length_s), harmonic_s
        length_s = requested_s
        if predictor == "last2" and len(runs) >= 2:
            length_s = min(requested_s, (runs[-1] + runs[-2]) / 2)
        if predictor == "user_mean" and runs:
            length_s = min(requested_s, sum(w * r for w, r in zip(weights, runs, strict=True)) / sum(weights))
        return length_s, max(length_s, 10)

    def last_two(self, user, otherwise_s):
        runs, _ = self.user(user)
        return sum(runs[-2:]) / len(runs[-2:]) if runs else otherwise_s

    def spread(self, user):
        runs, weights = self.user(user)
        if not runs:
            return 1.0
        logs = np.log(np.maximum(runs, 1))
        mean = np.average(logs, weights=weights)
        return math.sqrt(max(0.0, np.average(logs**2, weights=weights) - mean**2))


class PredictedEasy(Easy):
    """EASY that goes by predictions, or by an index with weights, and may hold jobs."""

    def __init__(
        self,
        workload,
        n_cores,
        predictor,
        *,
        key=None,
        order="fcfs",
        weights=None,
        gate=False,
        guarded=False,
        past=(),
    ):
        super().__init__(order=order)
        self.jobs, self.n_cores, self.predictor, self.key = workload.jobs, n_cores, predictor, key
        self.weights, self.has_gate, self.is_guarded = weights, gate, guarded
        self.had_no_room = []  # of each job, as it came
        self.priority = lambda job, now_s: self.order_of(job.job, now_s)
        self.oracle = Oracle()
        for one in past:
            self.oracle.end(*one)
        self.waits, self.here, self.started_s, self.predicted = set(), set(), {}, {}
        self.index, self.reserve = {}, {}

    def facts(self, job):
        row = self.jobs[job]
        return int(row["user"]), int(row["cores"]), float(row["requested_time_s"])

    def __call__(self, view):
        for kind, job in view.news:
            if kind == News.JOB_SUBMITTED:
                self.waits.add(job)
                self.here.add(job)
                taken, wanted = (sum(self.facts(j)[1] for j in some) for some in (self.here - self.waits, self.waits))
                self.had_no_room.append(float(taken + wanted > self.n_cores))
                self.predicted[job] = self.oracle.predict(self.predictor, *self.facts(job))
            elif kind == News.JOB_COMPLETED:
                self.here.discard(job)
                self.oracle.end(*self.facts(job), view.now_s - self.started_s[job])
                for other in self.waits:
                    if self.jobs["user"][other] == self.jobs["user"][job]:
                        self.predicted[other] = self.oracle.predict(self.predictor, *self.facts(other))
        self.now_s = view.now_s
        return super().__call__(view)

    def order_of(self, job, now_s):
        if self.key is None:  # `_decide` orders by the index
            return 0.0
        _, cores, _ = self.facts(job)
        return {"fcfs": self.jobs["submit_s"][job], "sjf": self.predicted[job][0]}.get(
            self.key, self.predicted[job][0] * cores
        )

    def weigh(self, now_s):
        work = sum(self.predicted[j][0] * self.facts(j)[1] for j in self.waits)
        backlog = (math.log(1 + work / self.n_cores) - 8) / 2
        for job in self.waits:
            user, cores, requested_s = self.facts(job)
            length_s, harmonic_s = self.predicted[job]
            waited_s = max(0.0, now_s - self.jobs["submit_s"][job])
            harmonic = (math.log(max(harmonic_s, 10)) - 5) / 2
            length, share = (math.log(max(length_s, 1)) - 6.5) / 2, (math.log(cores / self.n_cores) + 3) / 2
            stretch = math.log(1 + waited_s / max(harmonic_s, 10))
            wait = (math.log(1 + waited_s / 60) - 4) / 2
            n = sum(self.oracle.user(user)[1])
            n_here = sum(self.facts(j)[0] == user for j in self.here)
            n_waiting = sum(self.facts(j)[0] == user for j in self.waits)
            features = [
                (math.log(max(requested_s, 1)) - 8) / 2,
                share,
                length,
                harmonic,
                (math.log(max(self.oracle.last_two(user, length_s), 1)) - 6) / 2,
                stretch,
                wait,
                math.log(1 + waited_s / max(requested_s, 10)),
                n / (n + 2),
                self.oracle.spread(user) - 1,
                math.log(1 + n_here),
                math.log(1 + n_waiting),
                float(cores <= self.n_free),
            ]
            self.index[job] = float(np.dot(features, self.weights[:13]))
            if self.is_guarded:
                self.index[job] = self.guarded(features, waited_s)
            for out, bias, *inner in self.weights[24:].reshape(-1, 15):
                self.index[job] += out * math.tanh(bias + np.dot(features, inner))
            v = self.weights[14:24]
            z = v[0] + v[1] * length + v[2] * harmonic + v[3] * share + v[4] * stretch + v[5] * wait
            z += v[6] * backlog + v[7] * math.log(1 + n_here) + v[8] * (self.oracle.spread(user) - 1)
            rho = 0.6 / (1 + math.exp(-z)) * max(0.0, 1 - waited_s / (86400 * math.exp(v[9])))
            if self.is_guarded:
                ages = 0.99 ** np.arange(len(self.had_no_room))[::-1]
                rho *= min(1.0, 10 * np.dot(ages, self.had_no_room) / ages.sum())
                rho *= waited_s <= SIXTY_DAYS_S
            self.reserve[job] = rho if self.has_gate and rho >= 0.004 else 0.0

    def guarded(self, features, waited_s):
        if waited_s > SIXTY_DAYS_S:
            return -1e10 - waited_s
        worth = np.dot(features, np.where(np.isin(np.arange(13), (5, 6, 7)), 0, self.weights[:13]))
        return math.exp(min(20, max(-20, worth))) - math.exp(self.weights[13]) * waited_s / 3600

    def is_held(self, machine, job):
        rho, cores = self.reserve.get(job, 0.0), self.facts(job)[1]
        return rho > 0 and machine.n_free - cores < rho * self.n_cores and cores <= (1 - rho) * self.n_cores

    def _start(self, machine, job, cores):
        self.waits.discard(job)
        self.started_s[job] = machine.now_s
        super()._start(machine, job, cores)

    def _decide(self, machine, queue, arrivals):
        self.n_free = machine.n_free
        if self.weights is not None:  # with how many cores are free now, which no priority(job, now_s) knows
            self.weigh(machine.now_s)
            if self.key is None:
                queue = sorted(arrivals, key=lambda job: self.index[job])
        queue = list(queue)
        while True:
            opened = [job for job in queue if not self.is_held(machine, job)]
            if not opened:
                return
            cores = machine.choose(opened[0])
            if cores is None:
                break
            self._start(machine, opened[0], cores)
            queue.remove(opened[0])
        self._backfill(machine, opened, arrivals)

    def _backfill(self, machine, queue, arrivals):
        head = queue[0]
        shadow_s, cores_then, memory_then_mib = self._reserve(machine, head)
        for job in self._candidates(machine, queue, arrivals):
            cores = None if self.is_held(machine, job) else machine.choose(job)
            if cores is None:
                continue
            if machine.now_s + machine.duration_s(job, cores) > shadow_s:
                taken = machine.cores_per_node(cores)
                taken_mib = taken * float(machine.jobs["memory_mib"][job])
                left = machine.room(head, cores_then - taken, memory_then_mib - taken_mib)
                if left.sum() < machine.jobs["cores"][head]:
                    continue
                cores_then, memory_then_mib = cores_then - taken, memory_then_mib - taken_mib
            self._start(machine, job, cores)

    def _candidates(self, machine, queue, arrivals):
        others = [job for job in arrivals if job in set(queue[1:])]
        if self.order == "sjf":
            return sorted(others, key=lambda job: self.predicted[job][0])
        return queue[1:] if self.order == "priority" else others

    n_free = 0
