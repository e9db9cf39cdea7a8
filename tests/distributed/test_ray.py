"""The same results on Ray; a killed worker's task is done again."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import HdrlError
from hdrl.distributed import WorkerDied, run_tasks

# Not imported here: what Ray reads from the environment at its import is part of what is tested.
if importlib.util.find_spec("ray") is None:
    pytest.skip("ray is not installed (extra ray)", allow_module_level=True)

# Ray leaves sockets and log files to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TASKS = list(range(6))


@pytest.fixture(scope="module")
def cluster():
    """Start one Ray for all tests here: each start takes seconds."""
    from hdrl.distributed.ray_cluster import connected

    is_fresh = "ray" not in sys.modules

    folder = str(Path(__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")])))
        with connected(None, 2) as ray:
            address = ray.get_runtime_context().gcs_address
            # Whoever imported Ray before us decided where it listens.
            assert address.startswith("127.0.0.1:") or not is_fresh, "others can reach it"
            yield ray


@pytest.fixture
def workers(cluster):
    import workers

    return workers


def test_the_same_results_as_here(workers):
    report = {}
    on_ray = run_tasks(workers.double, TASKS, on="ray", n_workers=2, on_result=report.__setitem__)
    assert on_ray == run_tasks(workers.double, TASKS, n_workers=1)
    assert report == {t: 2 * t for t in TASKS}


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


def test_a_cluster_is_reached_by_its_address_from_elsewhere(cluster):
    address = cluster.get_runtime_context().gcs_address
    code = (
        "from hdrl.distributed import run_tasks\n"
        "from workers import double\n"
        f"print(run_tasks(double, [1, 2, 3], on='ray:{address}'))\n"
    )
    # A cluster that is started by default asks for a token.
    surroundings = os.environ | {"RAY_AUTH_MODE": "token"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=surroundings, timeout=120)
    assert done.stdout == "[2, 4, 6]\n", done.stderr


def test_nobody_there_is_told_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code = f"from hdrl.distributed import run_tasks; run_tasks(str, [1], on='ray:{address}')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    last = done.stderr.splitlines()[-1]
    assert f"RayError: ray:{address}: nothing answers there" in last


@pytest.mark.parametrize("kind", ["together", "by configuration"])
def test_workers_that_learn_together_leave_the_bytes_of_their_twin(kind: str, cluster, tmp_path: Path):
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    import teams

    prints = []
    for on in ("local", "ray"):
        options = {"on": on, "workers": 1}
        team = (
            teams.team("d3qn", "async", **options) if kind == "together" else teams.tour(reliance="carried", **options)
        )
        team.run(2)
        prints.append(teams.fingerprint(team, tmp_path / on))
        team.close()
    assert prints[0] == prints[1]


def test_rows_that_live_elsewhere_are_those_of_one_batch(cluster):
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    import rowworkers

    from hdrl.distributed.training.shared_rows import SharedRows

    here = rowworkers.OwnSeeds(4)
    there = SharedRows(rowworkers.OwnSeeds(2), rowworkers.OwnSeeds, 2, "ray")
    actions = np.linspace(-1, 1, 4)[:, None]
    report = [(envs.reset(seed=1)[0].tolist(), envs.step(actions)[1].tolist()) for envs in (here, there)]
    there.close()
    assert report[0] == report[1]


def test_a_pool_passes_on_what_it_does_not_look_into_and_tells_of_deaths(cluster, workers):
    from hdrl.distributed.training.pool import RayPool, RoleDied

    pool = RayPool(cluster)
    member = pool.start_role(workers.Adder)
    parts = [pool.call(member, "add", [1, 2]), pool.keep(4, None)]
    assert pool.content(pool.call(member, "add", parts)) == 7
    with pytest.raises(HdrlError, match=r"^no more$"):
        pool.result_of(pool.call(member, "fail"))
    cluster.kill(member)
    with pytest.raises(RoleDied):
        _call_until_dead(pool, member)


def _call_until_dead(pool, member):
    """Call a member that is being killed: Ray does so in its own time, and calls may be answered until it has."""
    for _ in range(600):
        pool.result_of(pool.call(member, "add", [1]))
        time.sleep(0.1)


def test_the_environment_is_left_as_it_was(cluster):
    from hdrl.distributed.ray_cluster import _surroundings

    before = dict(os.environ)
    with _surroundings(is_local=True):
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
        assert dict(os.environ)["RAY_worker_niceness"] == "0"
        os.environ["RAY_AUTH_MODE"] = "token"
    assert dict(os.environ) == before
