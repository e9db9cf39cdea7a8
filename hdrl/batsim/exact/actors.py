"""Actors: generators that yield calls to the kernel, in rounds as SimGrid schedules them.

In each round all ready actors run until their next call; the calls are then served in the same order. A call that
is answered at once makes its actor ready for the next round. When no actor is ready, time advances.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

from hdrl.batsim.exact.engine import Engine
from hdrl.batsim.exact.flows import Cpu, Flow
from hdrl.batsim.exact.rows import Timer

T = TypeVar("T")
Steps = Generator["Call", Any, T]
"""Type of an actor, or of a part of one: it yields calls and returns a `T`."""


class Call(Protocol):
    """A call to the kernel."""

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Serve the call of an actor."""


class Waited(Protocol):
    """Activity that an actor waits for, and other actors may cancel."""

    flow: Flow

    def end(self) -> None:
        """Resume the actor that waits for it."""


class Actor:
    """A running generator.

    Attributes
    ----------
    dead
        True if it has ended or was killed.
    result, news
        The answer to its last call, or what is thrown into it instead.
    timer, execution
        The sleep or the execution that it is waiting for.
    """

    __slots__ = ("cpu", "dead", "execution", "news", "result", "steps", "timer")

    def __init__(self, steps: Steps[None], cpu: Cpu) -> None:
        self.steps = steps
        self.cpu = cpu
        self.dead = False
        self.result: Any = None
        self.news: Exception | None = None
        self.timer: Timer | None = None
        self.execution: Waited | None = None


class ActorKernel:
    """Runs actors."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.n_running = 0
        """Number of actors that run in this round."""
        self.all_sweeping = False
        """True if every actor of this round is bringing all machines up to date, or only one runs at all."""
        self.n_sweeping = 0
        """Number of actors of the next round whose last call was to bring the next of all machines up to date."""
        self._ready: list[Actor] = []
        self._cancelled: list[Waited] = []

    @property
    def now_s(self) -> float:
        """The date, in seconds."""
        return self.engine.now_s

    def spawn(self, steps: Steps[None], cpu: Cpu) -> Actor:
        """Make an actor; it is ready at once."""
        actor = Actor(steps, cpu)
        self._ready.append(actor)
        return actor

    def wake(self, actor: Actor, result: object = None, news: Exception | None = None) -> None:
        """Answer the call of an actor, with a result or with news to throw into it."""
        if not actor.dead:
            actor.result, actor.news = result, news
            self._ready.append(actor)

    def kill(self, actor: Actor) -> None:
        """End an actor on the spot, and with it what it is waiting for."""
        actor.dead = True
        actor.steps.close()
        if actor.timer is not None:
            self.engine.drop_timer(actor.timer)
        if actor.execution is not None:
            self.engine.stop_flow(actor.execution.flow)

    def cancelled(self, execution: Waited) -> None:
        """Note a cancelled execution: its waiter resumes at the end of the round."""
        self._cancelled.append(execution)

    def run(self) -> None:
        """Run until no actor is ready and nothing takes time any more."""
        while True:
            while self._ready:
                self._round()
            if not self.engine.step():
                return

    def _round(self) -> None:
        running, self._ready = self._ready, []
        n = self.n_running = len(running)
        self.all_sweeping = n == 1 or self.n_sweeping == n
        self.n_sweeping = 0
        calls = []
        for actor in running:
            if actor.dead:
                continue
            news = actor.news
            try:
                call = actor.steps.send(actor.result) if news is None else actor.steps.throw(news)
            except StopIteration:
                actor.dead = True
            else:
                calls.append((actor, call))
        for actor, call in calls:
            if not actor.dead:
                call.serve(self, actor)
        if self._cancelled:
            ended, self._cancelled = self._cancelled, []
            for execution in ended:
                execution.end()


class Do:
    """A call that is answered at once with what a function returns."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Do it."""
        kernel.wake(actor, self._function())


class Spawn:
    """A call that makes an actor and returns it."""

    __slots__ = ("_cpu", "_steps")

    def __init__(self, steps: Steps[None], cpu: Cpu) -> None:
        self._steps = steps
        self._cpu = cpu

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Make the actor, ahead of its creator."""
        kernel.wake(actor, kernel.spawn(self._steps, self._cpu))


class Sleep:
    """A call that takes time."""

    __slots__ = ("_actor", "_duration_s", "_kernel")

    def __init__(self, duration_s: float) -> None:
        self._duration_s = duration_s

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Start the timer."""
        self._kernel, self._actor = kernel, actor
        actor.timer = Timer(actor.cpu.machine, self)
        kernel.engine.start_timer(actor.timer, self._duration_s)

    def end(self) -> None:
        """Wake the sleeper."""
        self._actor.timer = None
        self._kernel.wake(self._actor)


class MachineUpdate:
    """A call that brings one machine up to date; ``of_all`` says that the caller goes through all machines."""

    __slots__ = ("_machine", "_of_all")

    def __init__(self, machine: int, *, of_all: bool) -> None:
        self._machine = machine
        self._of_all = of_all

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Bring it up to date."""
        kernel.engine.meter.update(self._machine, kernel.now_s)
        kernel.n_sweeping += self._of_all
        kernel.wake(actor)
