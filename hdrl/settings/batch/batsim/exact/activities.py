"""What actors wait for together: messages that take time, and executions of parallel tasks."""

from __future__ import annotations

from typing import Any

from hdrl.settings.batch.batsim.exact.actors import Actor, Do, Kernel, Steps
from hdrl.settings.batch.batsim.exact.engine import Timer
from hdrl.settings.batch.batsim.exact.flows import Cpu, Flow, Work


class TimedOut(Exception):
    """Thrown into an actor whose wait took too long."""


class Cancelled(Exception):
    """Thrown into an actor that waits for an execution that somebody cancels."""


class Wait:
    """A call that waits for a transfer or an execution.

    Parameters
    ----------
    activity
        What to wait for.
    timeout_s
        How long at most, in seconds; a negative value means for ever.
    """

    __slots__ = ("_activity", "_timeout_s")

    def __init__(self, activity: Transfer | Execution, timeout_s: float = -1.0) -> None:
        self._activity = activity
        self._timeout_s = timeout_s

    def serve(self, kernel: Kernel, actor: Actor) -> None:  # noqa: ARG002
        """Wait."""
        self._activity.wait(actor, self._timeout_s)


class Transfer:
    """Some bytes from a sender to a receiver, with a message.

    Parameters
    ----------
    kernel
        The kernel.
    n_bytes
        Its size.
    """

    __slots__ = ("_done", "_kernel", "_n_bytes", "_waiting", "message", "source", "target")

    def __init__(self, kernel: Kernel, n_bytes: float) -> None:
        self._kernel = kernel
        self._n_bytes = n_bytes
        self._waiting: list[Actor] = []
        self._done = False
        self.message: object = None
        self.source: Cpu | None = None
        self.target: Cpu | None = None

    def start_when_complete(self) -> None:
        """Start the transfer if both sides are known."""
        if self.source is None or self.target is None:
            return
        engine = self._kernel.engine
        flow = Flow(engine.network.message(self.source, self.target, self._n_bytes))
        flow.owner = self
        engine.start_flow(flow)

    def wait(self, actor: Actor, timeout_s: float) -> None:  # noqa: ARG002
        """Wake an actor with the message when it has arrived."""
        if self._done:
            self._kernel.wake(actor, self.message)
        else:
            self._waiting.append(actor)

    def end(self) -> None:
        """Wake both sides, in the order in which they began to wait."""
        self._done = True
        for actor in self._waiting:
            self._kernel.wake(actor, self.message)


class Mailbox:
    """Where senders and receivers meet: each transfer takes one of either.

    Parameters
    ----------
    kernel
        The kernel.
    n_bytes
        Size of its messages.
    """

    def __init__(self, kernel: Kernel, n_bytes: float = 1.0) -> None:
        self._kernel = kernel
        self._n_bytes = n_bytes
        self._pending: list[Transfer] = []

    @property
    def empty(self) -> bool:
        """Whether nobody waits for the other side."""
        return not self._pending

    def put(self, source: Cpu, message: object) -> Steps[None]:
        """Send a message and wait until it has arrived."""
        yield Wait((yield Do(lambda: self._meet(source, message, None))))

    def get(self, target: Cpu) -> Steps[Any]:
        """Wait for a message."""
        return (yield Wait((yield Do(lambda: self._meet(None, None, target)))))

    def _meet(self, source: Cpu | None, message: object, target: Cpu | None) -> Transfer:
        pending = self._pending
        if pending and ((pending[0].source is None) if target is None else (pending[0].target is None)):
            transfer = pending.pop(0)
        else:
            transfer = Transfer(self._kernel, self._n_bytes)
            pending.append(transfer)
        if target is None:
            transfer.source, transfer.message = source, message
        else:
            transfer.target = target
        transfer.start_when_complete()
        return transfer


class Execution:
    """A parallel task that somebody may wait for, with a timeout, and somebody else may cancel.

    Parameters
    ----------
    kernel
        The kernel.
    work
        What there is to do.
    """

    __slots__ = ("_kernel", "_timer", "_waiter", "cancelled", "flow", "over")

    def __init__(self, kernel: Kernel, work: Work) -> None:
        self._kernel = kernel
        self.flow = Flow(work)
        self.flow.owner = self
        self.over = False
        self.cancelled = False
        self._waiter: Actor | None = None
        self._timer: Timer | None = None

    def start(self) -> None:
        """Let the work begin."""
        self._kernel.engine.start_flow(self.flow)

    def wait(self, actor: Actor, timeout_s: float) -> None:
        """Wake an actor at the end, or throw `TimedOut` or `Cancelled` into it."""
        self._waiter = actor
        actor.execution = self
        if self.over:
            self._tell(Cancelled() if self.cancelled else None)
        elif timeout_s >= 0:
            self._timer = Timer(actor.cpu.machine, _Timeout(self))
            self._kernel.engine.start_timer(self._timer, timeout_s)

    def end(self) -> None:
        """End: nobody needs the timer any more."""
        self.over = True
        if self._timer is not None:
            self._kernel.engine.drop_timer(self._timer)
            self._timer.owner = None
        self._tell(Cancelled() if self.cancelled else None)

    def time_out(self) -> None:
        """Tell the waiter that it took too long; the work goes on."""
        self._tell(TimedOut())

    def cancel(self) -> None:
        """Stop the work; the waiter is told at the end of the round."""
        if self._kernel.engine.stop_flow(self.flow):
            self.cancelled = self.over = True
            self._kernel.cancelled(self)

    def _tell(self, news: Exception | None) -> None:
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
