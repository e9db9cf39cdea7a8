"""Results in order, wherever they are made; deaths, errors and Ctrl-C."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hdrl.base.errors import HdrlError, OptionsError
from hdrl.distributed import WorkerDied, check_executor, default_workers, processes, run_tasks
from hdrl.distributed.attempts import TaskFailed

TASKS = list(range(8))


@pytest.fixture
def workers():
    import workers

    return workers


@pytest.mark.parametrize("n_workers", [1, 2, 3, None])
def test_results_come_in_the_order_of_the_tasks(workers, n_workers):
    told = {}
    assert run_tasks(workers.double, TASKS, n_workers=n_workers, on_result=told.__setitem__) == [2 * t for t in TASKS]
    assert told == {t: 2 * t for t in TASKS}


def test_results_are_told_as_they_come(workers):
    order = []
    assert run_tasks(workers.slow_first, [0, 1, 2], n_workers=2, on_result=lambda i, _: order.append(i)) == [0, 1, 2]
    assert order[-1] == 0


def test_one_worker_is_this_process_and_more_are_not(workers):
    assert set(run_tasks(workers.my_process, TASKS, n_workers=1)) == {os.getpid()}
    assert set(run_tasks(workers.my_process, [0], n_workers=4)) == {os.getpid()}, "one task needs no other"
    others = set(run_tasks(workers.my_process, TASKS, n_workers=2))
    assert os.getpid() not in others
    assert 1 <= len(others) <= 2


def test_temporary_files_of_stopped_workers_are_removed(workers, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with pytest.raises(HdrlError, match="is empty"):
        run_tasks(workers.leaves_files, [0, 1], n_workers=2)
    assert list(tmp_path.iterdir()) == []


def test_this_process_can_do_something_meanwhile(workers):
    told = []

    def tell(index: int, _: object) -> None:
        told.append(index)

    run_tasks(workers.double, TASKS, n_workers=2, on_result=tell, meanwhile=lambda: told.append(-1))
    assert told[0] == -1
    assert sorted(told) == [-1, *TASKS]


def test_nothing_to_do():
    assert run_tasks(str, []) == []
    assert default_workers() >= 1


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_mistake_of_the_user_keeps_its_line(workers, n_workers):
    with pytest.raises(HdrlError, match=r"^jobs\.swf: is empty$"):
        run_tasks(workers.bad, TASKS, n_workers=n_workers)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_bug_keeps_its_traceback(workers, n_workers):
    with pytest.raises(TaskFailed, match=r"(?s)in buggy.*ZeroDivisionError"):
        run_tasks(workers.buggy, TASKS, n_workers=n_workers)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_task_that_leaves_is_no_success(workers, n_workers, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(TaskFailed, match=r"(?s)in leaves.*SystemExit"):
        run_tasks(workers.leaves, TASKS, n_workers=n_workers)
    assert capfd.readouterr().err == ""


def test_a_task_that_raises_what_ctrl_c_does_is_no_success(workers, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(TaskFailed, match=r"(?s)in gives_up.*KeyboardInterrupt"):
        run_tasks(workers.gives_up, TASKS, n_workers=2)
    assert capfd.readouterr().err == ""


def test_a_dead_worker_s_task_is_done_again(workers, tmp_path: Path):
    function = workers.DiesOnce(tmp_path)
    assert run_tasks(function, TASKS, n_workers=2) == [10 * t for t in TASKS]
    assert (tmp_path / "died").read_text() == "x"


def test_a_task_that_always_kills_is_given_up(workers, tmp_path: Path):
    function, kept = workers.DiesOnce(tmp_path, task=7, every_time=True), {}
    with pytest.raises(WorkerDied, match="point 7: its worker died 3 times, the last one by signal SIGKILL"):
        run_tasks(function, TASKS, n_workers=2, describe=lambda t: f"point {t}", on_result=kept.__setitem__)
    assert (tmp_path / "died").read_text() == "xxx"
    assert kept.items() <= {t: 10 * t for t in TASKS[:7]}.items()
    assert len(kept) >= len(TASKS[:7]) - 1, "only the other worker's task may be unfinished"


@pytest.mark.parametrize("on", ["", "lokal", "ray:", "local:2", "spark"])
def test_unknown_places_are_refused(on: str):
    with pytest.raises(OptionsError, match="no location"):
        run_tasks(str, [1], on=on)


def test_places():
    assert check_executor("local") is None
    assert check_executor("ray") is None
    assert check_executor("ray:ray://head:10001") == "ray://head:10001"
    with pytest.raises(OptionsError, match="n_workers is 0"):
        run_tasks(str, [1], n_workers=0)


ANOTHER_THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
"""With it a process cannot be copied."""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not copied there")
@pytest.mark.parametrize(("before", "is_copied"), [("", True), (ANOTHER_THREAD, False)])
def test_workers_are_copies_of_a_process_without_other_threads(tmp_path: Path, before: str, *, is_copied: bool):
    (tmp_path / "mine.py").write_text("found = []\ndef look(task):\n    return list(found)\n")
    script = tmp_path / "main.py"
    script.write_text(
        "import mine\nfrom hdrl.distributed import run_tasks\n"
        f"if __name__ == '__main__':\n    {before.replace(chr(10), chr(10) + '    ')}\n"
        "    mine.found.append('loaded before')\n"
        "    print(run_tasks(mine.look, [0, 1, 2], n_workers=2))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=60)
    assert (done.stderr, done.stdout) == ("", f"{3 * [['loaded before'] if is_copied else []]}\n")


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("before", ["", ANOTHER_THREAD])
def test_workers_end_when_who_started_them_is_killed(tmp_path: Path, before: str):
    script = tmp_path / "main.py"
    script.write_text(
        "from pathlib import Path\nfrom hdrl.distributed import run_tasks\nfrom workers import Sleeps\n"
        f"if __name__ == '__main__':\n    {before.replace(chr(10), chr(10) + '    ')}\n"
        f"    run_tasks(Sleeps(Path({str(tmp_path)!r}), 600.0), [1, 2, 3], n_workers=3)\n"
    )
    with subprocess.Popen([sys.executable, str(script)]) as process:
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 3)
        process.kill()
    wait_for(lambda: not any(is_running(int(file.stem)) for file in tmp_path.glob("*.pid")))


@pytest.mark.parametrize("before", ["", ANOTHER_THREAD])
def test_ctrl_c_stops_the_workers(tmp_path: Path, before: str):
    script = tmp_path / "main.py"
    script.write_text(
        "from pathlib import Path\n"
        "from hdrl.distributed import run_tasks\n"
        "from workers import Sleeps\n"
        f"if __name__ == '__main__':\n    {before.replace(chr(10), chr(10) + '    ')}\n"
        "    try:\n"
        f"        run_tasks(Sleeps(Path({str(tmp_path)!r})), [0, 1, 2], n_workers=2,\n"
        "                  on_result=lambda i, r: print('told', i, flush=True))\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert output == "told 0\ninterrupted\n"
    assert process.returncode == 0
    for file in tmp_path.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.stem), 0)


def test_ctrl_c_while_workers_start_is_silent(tmp_path: Path):
    (tmp_path / "slowly.py").write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "if '--multiprocessing-fork' in sys.orig_argv:\n"
        "    (Path(__file__).parent / f'{os.getpid()}.pid').touch()\n"
        "    time.sleep(2)\n"
        "def same(task):\n"
        "    return task\n"
    )
    script = tmp_path / "main.py"
    script.write_text(
        "from hdrl.distributed import run_tasks\n"
        "from slowly import same\n"
        f"if __name__ == '__main__':\n    {ANOTHER_THREAD.replace(chr(10), chr(10) + '    ')}\n"
        "    try:\n"
        "        run_tasks(same, [0, 1, 2], n_workers=2)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, str(script)], start_new_session=True, **pipes) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*.pid")) and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (output, errors) == ("interrupted\n", "")


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_no_signal_comes_while_a_worker_is_told_what_to_do(number: str):
    """Half of what it is told would be a traceback of the worker's. Another thread may take the signal, too."""
    is_over = threading.Event()
    threading.Thread(target=is_over.wait).start()
    told: list[int] = []
    before = signal.signal(getattr(signal, number), lambda *_: told.append(1))
    try:
        with processes._without_ctrl_c():
            os.kill(os.getpid(), getattr(signal, number))
            time.sleep(0.01)
            assert told == []
        assert told == [1]
    finally:
        is_over.set()
        signal.signal(getattr(signal, number), before)


def test_ray_says_what_is_missing(workers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(HdrlError, match=r"this needs ray: pip install 'hdrl\[ray\]'"):
        run_tasks(workers.double, TASKS, on="ray")


@pytest.mark.parametrize("function", ["math.sqrt", "own"])
def test_workers_of_a_script_with_threads_do_not_run_it_again(tmp_path: Path, function: str):
    """Other threads make workers new processes; one that needs a function of the script reads the script."""
    lines = [
        "import math, threading",
        "from hdrl.distributed import run_tasks",
        "def own(x):",
        "    return math.sqrt(x)",
    ]
    main = [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        f"print(run_tasks({function}, [1, 4, 9], n_workers=2))",
    ]
    if function == "own":  # as with the pools of the standard library
        main = ['if __name__ == "__main__":', *(f"    {line}" for line in main)]
    (tmp_path / "script.py").write_text("\n".join([*lines, *main]))
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("[1.0, 2.0, 3.0]\n", "")
