"""Activities that several actors wait for: messages that take time, and executions of parallel tasks."""

from __future__ import annotations

from hdrl.batsim.exact.actors import Actor, ActorKernel
from hdrl.batsim.exact.flows import Cpu, Flow, Work
from hdrl.batsim.exact.rows import Timer


class TimedOut(Exception):
    """Thrown into an actor whose wait took too long."""


class Cancelled(Exception):
    """Thrown into an actor whose execution another one cancels."""


class Mailbox:
    """The meeting point of senders and receivers: each message takes one of either.

    Only one of the two lists has members at any time.
    """

    __slots__ = ("_kernel", "_n_bytes", "receivers", "senders")

    def __init__(self, kernel: ActorKernel, n_bytes: float = 1.0) -> None:
        self._kernel = kernel
        self._n_bytes = n_bytes
        self.senders: list[Put] = []
        self.receivers: list[tuple[Cpu, Actor]] = []

    @property
    def empty(self) -> bool:
        """True if no actor waits for the other side."""
        return not self.senders and not self.receivers

    def put(self, source: Cpu, message: object) -> Put:
        """Return the call that sends a message and waits until it has arrived."""
        return Put(self, source, message)

    def get(self, target: Cpu) -> Get:
        """Return the call that waits for a message, and may be used again; it is answered with the message."""
        return Get(self, target)

    def carry(self, put: Put, source: Cpu, target: Cpu) -> None:
        """Let a message begin that has a receiver."""
        engine = self._kernel.engine
        engine.send(engine.network.message(source, target, self._n_bytes), put)


class Put:
    """A call to send, answered when the message has arrived.

    In SimGrid these are two calls, one that begins and one that waits, a round each. The second changes nothing but
    waiters, in the order of the first ones, and nothing arrives before it: so one call does for both.
    """

    __slots__ = ("_kernel", "_mailbox", "_message", "_source", "_waiting")

    def __init__(self, mailbox: Mailbox, source: Cpu, message: object) -> None:
        self._mailbox = mailbox
        self._source = source
        self._message = message

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Begin, and wait."""
        self._kernel = kernel
        mailbox = self._mailbox
        if mailbox.receivers:
            target, receiver = mailbox.receivers.pop(0)
            self._waiting: tuple[Actor, ...] = (receiver, actor)
            mailbox.carry(self, self._source, target)
        else:
            self._waiting = (actor,)
            mailbox.senders.append(self)

    def meet(self, target: Cpu, receiver: Actor) -> None:
        """Begin, for a receiver that has come later."""
        self._waiting += (receiver,)
        self._mailbox.carry(self, self._source, target)

    def end(self) -> None:
        """Wake both sides, in the order in which they began to wait."""
        wake, message = self._kernel.wake, self._message
        for actor in self._waiting:
            wake(actor, message)


class Get:
    """A call to receive, answered with the message when it has arrived; one call as `Put` is."""

    __slots__ = ("_mailbox", "_target")

    def __init__(self, mailbox: Mailbox, target: Cpu) -> None:
        self._mailbox = mailbox
        self._target = target

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:  # noqa: ARG002 - as of all calls
        """Begin, and wait."""
        mailbox = self._mailbox
        if mailbox.senders:
            mailbox.senders.pop(0).meet(self._target, actor)
        else:
            mailbox.receivers.append((self._target, actor))


class Execution:
    """A parallel task that an actor may wait for, with a timeout (negative: none), and that others may cancel."""

    __slots__ = ("_kernel", "_timeout_s", "_timer", "_waiter", "cancelled", "flow", "over")

    def __init__(self, kernel: ActorKernel, work: Work, timeout_s: float = -1.0) -> None:
        self._kernel = kernel
        self._timeout_s = timeout_s
        self.flow = Flow(work, self)
        self.over = False
        self.cancelled = False
        self._waiter: Actor | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Let the work begin."""
        self._kernel.engine.start_flow(self.flow)

    def serve(self, kernel: ActorKernel, actor: Actor) -> None:
        """Serve the call to wait: wake the actor at the end, or throw `TimedOut` or `Cancelled` into it."""
        self._waiter = actor
        actor.execution = self
        if self.over:
            self._resume(Cancelled() if self.cancelled else None)
        elif self._timeout_s >= 0:
            self._timer = Timer(actor.cpu.machine, _Timeout(self))
            kernel.engine.start_timer(self._timer, self._timeout_s)

    def end(self) -> None:
        """End: the timer is not needed any more."""
        self.over = True
        self.flow.owner = None
        if self._timer is not None:
            self._kernel.engine.drop_timer(self._timer)
            self._timer.owner = None
        self._resume(Cancelled() if self.cancelled else None)

    def time_out(self) -> None:
        """Tell the waiter that it took too long; the work goes on."""
        self._resume(TimedOut())

    def cancel(self) -> None:
        """Stop the work; the waiter resumes at the end of the round."""
        if self._kernel.engine.stop_flow(self.flow):
            self.cancelled = self.over = True
            self._kernel.cancelled(self)

    def _resume(self, news: Exception | None) -> None:
        actor, self._waiter = self._waiter, None
        if actor is not None:
            actor.execution = None
            self._kernel.wake(actor, news=news)


class _Timeout:
    """The end of a wait."""

    __slots__ = ("_execution",)

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def end(self) -> None:
        self._execution.time_out()
