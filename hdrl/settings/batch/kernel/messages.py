"""The server's mailbox of *server messages*, the *events* of a message to the scheduler, the *ops* of its answer."""

from __future__ import annotations

from hdrl.compiled.jit import jit


@jit
def send(state, kind, a, b, transfer_s):
    """Queue a message to the server."""
    s = state.scalars[0]
    # The server message in transfer stays at the head until it is delivered; `box_len` counts those behind it.
    message = state.box[(s.box_head + s.transferring + s.box_len) % len(state.box)]
    message.kind = kind
    message.a = a
    message.b = b
    message.transfer_s = transfer_s
    s.box_len += 1


@jit
def add_event(state, kind, subject):
    """Append an event to the next message to the scheduler, dated now."""
    s = state.scalars[0]
    event = state.events[s.n_events]
    event.kind = kind
    event.subject = subject
    event.time_s = s.now
    s.n_events += 1


@jit
def begin_answer(state):
    """Begin an empty answer, dated with the message."""
    s = state.scalars[0]
    s.n_ops = 0
    s.n_pool = 0
    s.reply_now_s = s.message_s


@jit
def add_op(state, kind, subject, first, n, value):
    """Append a request to the answer, dated with the message."""
    s = state.scalars[0]
    op = state.ops[s.n_ops]
    op.kind = kind
    op.time_s = s.message_s
    op.subject = subject
    op.first = first
    op.n = n
    op.value = value
    s.n_ops += 1
