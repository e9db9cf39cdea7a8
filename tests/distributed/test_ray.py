"""The same results on Ray; a killed worker's task is done again."""

from pathlib import Path

import pytest

from hdrl.distributed import WorkerDied, run_tasks
from hdrl.errors import HdrlError

pytest.importorskip("ray", reason="ray is not installed (extra ray)")

# Ray leaves sockets and log files to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TASKS = list(range(6))


@pytest.fixture(scope="module")
def cluster():
    """Start one Ray for all tests here: each start takes seconds."""
    import os

    import ray

    from hdrl.distributed.ray_cluster import _connected

    folder = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))
        with _connected(ray, None, 2):
            yield ray


@pytest.fixture
def workers(cluster):
    import workers

    return workers


def test_the_same_results_as_here(workers):
    told = {}
    on_ray = run_tasks(workers.double, TASKS, on="ray", n_workers=2, on_result=told.__setitem__)
    assert on_ray == run_tasks(workers.double, TASKS, n_workers=1)
    assert told == {t: 2 * t for t in TASKS}


def test_a_killed_worker_s_task_is_done_again(workers, tmp_path: Path):
    function = workers.DiesOnce(tmp_path)
    assert run_tasks(function, TASKS, on="ray", n_workers=2) == [10 * t for t in TASKS]
    assert (tmp_path / "died").read_text() == "x"


def test_a_task_that_always_kills_is_given_up(workers, tmp_path: Path):
    function = workers.DiesOnce(tmp_path, every_time=True)
    with pytest.raises(WorkerDied, match="point 2: its worker died 3 times"):
        run_tasks(function, TASKS, on="ray", n_workers=2, describe=lambda t: f"point {t}")
    assert (tmp_path / "died").read_text() == "xxx"


def test_mistakes_keep_their_line(workers):
    with pytest.raises(HdrlError, match=r"^jobs\.swf: is empty$"):
        run_tasks(workers.bad, TASKS, on="ray", n_workers=2)


def test_ray_is_left_running_for_who_started_it(workers, cluster):
    run_tasks(workers.double, TASKS, on="ray")
    assert cluster.is_initialized()
