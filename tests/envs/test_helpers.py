"""Threads that help to step a batch: when they work, sleep and end."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from hdrl.envs.helpers import Helpers

LONG_S = 20.0


class Owner:
    """Counts how often it is served, and shows a thread at work when it is told to wait."""

    def __init__(self) -> None:
        self.served = threading.Semaphore(0)
        self.threads: dict[str, int] = {}

    def serve(self, number: int) -> None:
        self.threads[threading.current_thread().name] = number
        self.served.release()


def helper_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("hdrl-env")]


def wait_until_asleep(helpers: Helpers) -> None:
    until_s = time.monotonic() + LONG_S
    while not all(calls.is_asleep for calls in helpers._calls):
        assert time.monotonic() < until_s


def wait_until_gone() -> None:
    for thread in helper_threads():
        thread.join(LONG_S)
        assert not thread.is_alive()


def test_all_are_woken_as_often_as_they_are_called() -> None:
    owner = Owner()
    helpers = Helpers(2, owner.serve)
    for _ in range(50):
        before = {thread.name for thread in helper_threads()}
        wait_until_asleep(helpers)
        helpers.call()
        for _ in range(2):
            assert owner.served.acquire(timeout=LONG_S)
    assert owner.threads.keys() == before
    assert sorted(owner.threads.values()) == [1, 2]
    helpers.close()
    wait_until_gone()


def test_closing_twice_is_as_good_as_once() -> None:
    owner = Owner()
    helpers = Helpers(1, owner.serve)
    helpers.close()
    helpers.close()
    wait_until_gone()


def test_threads_that_sleep_keep_nobody_alive_and_end_with_who_called_them() -> None:
    owner = Owner()
    helpers = Helpers(3, owner.serve)
    helpers.call()
    for _ in range(3):
        assert owner.served.acquire(timeout=LONG_S)
    wait_until_asleep(helpers)
    forgotten = weakref.ref(owner)
    del owner
    gc.collect()
    assert forgotten() is None
    del helpers
    gc.collect()
    wait_until_gone()
