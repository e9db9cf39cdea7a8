"""The daemon and the way back, on a Slurm of three scripts whose queues are solved by hand."""

import json
import random  # noqa: TID251 (what damages files)
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import HdrlError
from hdrl.deploy import daemon as daemon_module
from hdrl.deploy.daemon import Daemon, Look, run
from hdrl.deploy.factor import site_factors
from hdrl.deploy.folder import Deployment, Promise, read_deployment, write_deployment
from hdrl.deploy.groups import KeyedGroups, keys_of, read_groups
from hdrl.deploy.slurm import SlurmError
from hdrl.launcher.main import cli
from hdrl.settings.batch.site_rules.kernel.site_factor import FIRST, MIDDLE
from tests.deploy.fake_slurm import FakeSlurm, job_line
from tests.fuzz.mutations import mutations_of

NOW_S = 1_000_100.0
LEASE = "now+30"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    return FakeSlurm(tmp_path / "fake", monkeypatch)


def deployed(
    folder: Path, policy: str, *, bound_s: float = 86400.0, blocks: dict[str, list[float]] | None = None
) -> Path:
    promise = Promise(policy=policy, baseline="fcfs+easy", verdict="none", blocks=blocks or {}, rings={})
    out = folder / "deploy"
    out.mkdir()
    write_deployment(
        out,
        Deployment(
            made_by="hdrl",
            site="tests",
            policy=policy,
            cores=16,
            cores_per_node=16,
            first_s=0.0,
            last_s=1_000_000.0,
            limits_s={},
            unlimited_s=86400.0,
            bound_s=bound_s,
            interval_s=10.0,
            promise=promise,
        ),
    )
    KeyedGroups().write(out / "groups.tsv")
    return out


def test_an_account_may_stand_for_the_user(tmp_path: Path, slurm: FakeSlurm) -> None:
    folder = deployed(tmp_path, "sjf@user_mean")
    write_deployment(folder, read_deployment(folder).model_copy(update={"users": "account"}))
    slurm.queue(job_line(1, StateCompact="CD", StartTime=1_000_010, EndTime=1_000_070, Account="ours"))
    run(folder, once=True, clock=lambda: NOW_S)
    groups = read_groups(folder / "groups.tsv")
    assert groups.sums[groups.positions("ours", 3600.0, 1)[2]]["run_s"] == 60
    assert groups.sums[groups.positions("ann", 3600.0, 1)[2]]["n_ended"] == 0


def told(slurm: FakeSlurm) -> dict[int, dict[str, str]]:
    """Return what scontrol was told of each job."""
    found = {}
    for line in slurm.take("told"):
        word, *pairs = line.split(" ")
        assert word == "update"
        values = dict(pair.split("=") for pair in pairs)
        found[int(values.pop("jobid"))] = values
    return found


def by_index(keys: dict[int, float]) -> dict[int, int]:
    """Return the numbers that jobs get by their index."""
    numbers = site_factors(np.array(list(keys.values())), np.zeros(len(keys)), now_s=0.0, bound_s=1.0)
    return dict(zip(keys, numbers.tolist(), strict=True))


def log_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "decisions.jsonl").read_text().splitlines()]


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], prog_name="hdrl")


def test_shadow_mode_only_looks(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    folder = deployed(tmp_path, "sjf", bound_s=1e10)
    slurm.queue(job_line(1, TimeLimit="2:00"), job_line(2, TimeLimit="1:00"), job_line(3, StateCompact="R"))
    done = call("deploy", "run", folder, "--once")
    assert done.exit_code == 0, done.output
    assert done.stdout == "shadow: 2 wait, 1 run, 0 cores free, 2 new numbers\n"
    assert [line.split()[0] for line in slurm.take("calls")] == ["scontrol", "squeue", "sinfo"]
    assert slurm.take("told") == []
    assert slurm.take("environment") == ["SLURM_CONF=/etc/slurm/slurm.conf", "SLURM_TIME_FORMAT=%s"]
    (line,) = log_of(folder)
    assert line["factors"] == {str(job): number for job, number in by_index({1: 120.0, 2: 60.0}).items()}
    assert (line["acts"], line["written"]) == (False, 0)
    # What was only noted is in no queue: whoever acts then writes all of it.
    assert len(Daemon(folder, acts=True).look(NOW_S).factors) == 2


def test_numbers_are_written_once(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    slurm.queue(job_line(1, TimeLimit="2:00"), job_line(2, TimeLimit="1:00"))
    daemon = Daemon(folder, acts=True)
    daemon.look(NOW_S)
    first = told(slurm)
    assert int(first[2]["SiteFactor"]) > int(first[1]["SiteFactor"])
    daemon.look(NOW_S + 10)
    assert told(slurm) == {}
    # A newcomer, a new limit, and another process that goes on.
    slurm.queue(job_line(1, TimeLimit="0:30"), job_line(2, TimeLimit="1:00"), job_line(4, TimeLimit="UNLIMITED"))
    Daemon(folder, acts=True).look(NOW_S + 20)
    assert sorted(told(slurm)) == [1, 4]


def test_an_order_that_changes_with_time_is_written_again(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "wfp3")
    # The short one came later: -(w/r)^3 n is -1 and -0.125 at first, and -8 and -3.4 later.
    slurm.queue(job_line(1, TimeLimit="1:00"), job_line(2, TimeLimit="1:00", EligibleTime=1_000_030))
    daemon = Daemon(folder, acts=True)
    daemon.look(1_000_060.0)
    numbers = {job: int(one["SiteFactor"]) for job, one in told(slurm).items()}
    assert numbers == by_index({1: -1.0, 2: -0.125})
    daemon.look(1_000_120.0)
    numbers = {job: int(one["SiteFactor"]) for job, one in told(slurm).items()}
    assert numbers == by_index({1: -8.0, 2: -3.375})


def test_whoever_waited_beyond_the_bound_is_first(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf", bound_s=3600.0)
    slurm.queue(
        job_line(1, TimeLimit="1:00"),
        job_line(2, TimeLimit="7-00:00:00", EligibleTime=996_300),
        job_line(3, TimeLimit="9-00:00:00", EligibleTime=996_200),
    )
    daemon = Daemon(folder, acts=True)
    look = daemon.look(1_000_000.0)
    numbers = {job: int(one["SiteFactor"]) for job, one in told(slurm).items()}
    assert look.beyond == [2, 3]
    assert numbers[3] > numbers[2] > FIRST > numbers[1]
    daemon.look(1_000_500.0)
    assert told(slurm) == {}


def test_the_gate_holds_by_leases(slurm: FakeSlurm, tmp_path: Path):
    """A long job is held while few cores would be left, never one that somebody else holds."""
    folder = deployed(tmp_path, "saf+easy@geo~gate")
    long = {"TimeLimit": "5-00:00:00", "NumCPUs": 4}
    slurm.queue(
        job_line(1, **long),
        job_line(2, **long, Reason="JobHeldUser", EligibleTime="N/A"),
        job_line(3, **long, Reason="BeginTime", EligibleTime=2_000_000),
        job_line(4, **long, Reason="Dependency", EligibleTime="N/A"),
        job_line(5, TimeLimit="1:00"),
        job_line(6, **long, Reason="JobHeldAdmin"),
    )
    slurm.free(8)
    daemon = Daemon(folder, acts=True)
    daemon.look(NOW_S)
    starts = {job: one["StartTime"] for job, one in told(slurm).items() if "StartTime" in one}
    assert starts == {1: LEASE}
    # Slurm now says that it begins later; it still waits since it could start, and the lease goes on.
    slurm.queue(job_line(1, **long, Reason="BeginTime", EligibleTime=int(NOW_S + 30)))
    daemon = Daemon(folder, acts=True)
    daemon.look(NOW_S + 10)
    assert told(slurm) == {1: {"StartTime": LEASE}}
    assert daemon.state.since_s == {1: 1_000_000.0}
    slurm.free(16)
    daemon.look(NOW_S + 20)
    assert told(slurm) == {1: {"StartTime": "now"}}
    daemon.look(NOW_S + 30)
    assert told(slurm) == {}


def test_nothing_is_held_beyond_the_bound(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "saf+easy@geo~gate", bound_s=60.0)
    slurm.queue(job_line(1, TimeLimit="5-00:00:00", NumCPUs=4))
    slurm.free(8)
    assert Daemon(folder, acts=True).look(NOW_S).held == []


def test_the_way_back(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "saf+easy@geo~gate")
    slurm.queue(job_line(1, TimeLimit="5-00:00:00", NumCPUs=4), job_line(2), job_line(3, StateCompact="R"))
    slurm.free(8)
    Daemon(folder, acts=True).look(NOW_S)
    slurm.take("told")
    slurm.write("said", "Invalid job id specified for job 2\n")
    done = call("deploy", "undo", folder)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("1 waiting jobs given back")
    assert told(slurm) == {1: {"SiteFactor": "0", "StartTime": "now"}, 2: {"SiteFactor": "0"}}
    done = call("deploy", "run", folder, "--act", "--once")
    assert done.exit_code == 2
    assert "undone: exists, so the daemon writes nothing to Slurm" in done.stderr
    assert told(slurm) == {}
    assert call("deploy", "run", folder, "--once").exit_code == 0


def test_what_is_said_of_arrays_is_no_error(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    slurm.queue(job_line(1), job_line(2))
    said = "1_0-1: Job is no longer pending execution\n1_2-9: No error\nInvalid job id specified for job 2\n"
    slurm.write("said", said)
    daemon = Daemon(folder, acts=True)
    assert daemon.look(NOW_S).problems == ["Invalid job id specified for job 2"]
    assert list(daemon.state.written) == [1]


def test_a_daemon_that_acts_stops_when_it_is_undone(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    slurm.queue(job_line(1))
    daemon = Daemon(folder, acts=True)
    daemon.look(NOW_S)
    slurm.take("told")
    call("deploy", "undo", folder)
    slurm.take("told")
    slurm.queue(job_line(1), job_line(2))
    with pytest.raises(HdrlError, match="undone"):
        daemon.look(NOW_S + 10)
    assert told(slurm) == {}


def test_it_learns_from_jobs_that_end(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf@geo")
    ended = {"TimeLimit": "1:00:00", "StartTime": 1_000_000, "EndTime": 1_000_036}
    slurm.queue(
        job_line(1, **ended, StateCompact="CD"),
        job_line(2, **ended, StateCompact="CA", UserName="bob"),
        job_line(3, StateCompact="CA", EndTime=1_000_050),  # cancelled before it began
    )
    daemon = Daemon(folder)
    daemon.look(NOW_S)
    daemon.look(NOW_S + 10)
    groups = read_groups(folder / "groups.tsv")
    assert groups.all_jobs["n_ended"] == 2
    assert groups.all_jobs["log_ratio"] / groups.all_jobs["n"] == pytest.approx(np.log(0.01))
    assert (folder / "groups.tsv").read_text().startswith("hdrl-groups-1\t2\n")
    by_hand = KeyedGroups()
    by_hand.learn("ann", 3600.0, 1, 36.0)
    by_hand.learn("bob", 3600.0, 1, 36.0)
    by_hand.write(tmp_path / "by_hand.tsv")
    assert (folder / "groups.tsv").read_text() == (tmp_path / "by_hand.tsv").read_text()


def test_the_lua_is_told_who_is_here(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "es-generalist")
    slurm.free(5)
    slurm.queue(job_line(1), job_line(2, StateCompact="R"), job_line(3, UserName="DOM\\o'b x", StateCompact="CG"))
    Daemon(folder).look(NOW_S)
    assert (folder / "now.tsv").read_text() == "1000100\t5\n1\t0\tDOM\\o'b x\n2\t1\tann\n"


def test_an_alarm_rings(slurm: FakeSlurm, tmp_path: Path):
    """Jobs end that ran far longer than predicted, in a site where they did not."""
    rng = np.random.default_rng(1)
    folder = deployed(tmp_path, "sjf", blocks={"predictions": sorted(rng.normal(-3.0, 0.2, 200).tolist())})
    daemon = Daemon(folder)
    alarms: list[str] = []
    for first in range(0, 400, 50):
        jobs = range(first, first + 50)
        slurm.queue(*(job_line(job) for job in jobs))
        daemon.look(NOW_S + first)
        slurm.queue(*(job_line(job, StateCompact="CD", StartTime=1_000_000, EndTime=1_003_600) for job in jobs))
        alarms += daemon.look(NOW_S + first + 10).alarms
    assert alarms[0] == "predictions above what simulation promised"
    assert read_deployment(folder).promise.blocks.keys() == {"predictions"}


def test_slurm_that_does_not_answer(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    slurm.queue(job_line(1))
    pauses: list[float] = []

    class Enough(Exception):
        pass

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        slurm.write("code", "1" if len(pauses) < 9 else "0")
        if len(pauses) == 10:
            raise Enough

    said: list[str] = []
    with pytest.raises(Enough):
        run(folder, acts=True, print_line=said.append, clock=lambda: NOW_S, sleep=sleep)
    assert pauses == [10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0, 600.0, 10.0]
    assert said[1] == "squeue: ended with code 1: no message; Slurm keeps the present order"
    assert sum("error" in line for line in log_of(folder)) == 8


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("config", "PriorityType = priority/basic\n", "expected priority/multifactor"),
        (
            "config",
            "PriorityType = priority/multifactor\nPriorityWeightTRES = CPU=60000000,Mem=50000000\n",
            "sum to 110,000,000,",
        ),
        ("code", "3", "squeue: ended with code 3"),
        ("sinfo", "slurm_load_partitions: Unable to contact slurm controller\n", "sinfo: no cores in"),
        ("said", "slurm_update error: Access/permission denied\n", "scontrol: slurm_update error: Access"),
        ("said", "Access/permission denied for job 1\n", "scontrol: Access/permission denied for job 1"),
        ("said", "Invalid user id for job 1\n", "scontrol: Invalid user id for job 1"),
        ("said", "slurm_update error: Unable to contact slurm controller (connect failure)\n", "Unable to contact"),
    ],
)
def test_a_slurm_that_is_refused(name: str, text: str, words: str, slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    slurm.queue(job_line(1))
    slurm.write(name, text)
    done = call("deploy", "run", folder, "--act", "--once")
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_slurm_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call("deploy", "run", deployed(tmp_path, "sjf"), "--once")
    assert done.exit_code == 2
    assert "scontrol: cannot be run (No such file or directory); is Slurm's client installed?" in done.stderr


def test_a_slow_slurm_gets_less(slurm: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(daemon_module, "CHUNK", 2)
    monkeypatch.setattr(daemon_module, "MOST_MS", 0.0)
    folder = deployed(tmp_path, "sjf")
    slurm.queue(*(job_line(job) for job in range(1, 8)))
    daemon = Daemon(folder, acts=True)
    for n_told in (2, 2, 2, 1, 0):
        look = daemon.look(NOW_S)
        assert len(told(slurm)) == look.n_written == n_told
    assert [line["problems"] != [] for line in log_of(folder)] == [True, True, True, False, False]


def test_one_daemon_a_folder(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")

    class Enough(Exception):
        pass

    def second(pause_s: float) -> None:
        del pause_s
        done = call("deploy", "run", folder, "--once")
        assert "another daemon works in this folder" in done.stderr
        raise Enough

    with pytest.raises(Enough):
        run(folder, sleep=second)


def test_whatever_squeue_prints_is_data(slurm: FakeSlurm, tmp_path: Path):
    """Damaged lines are counted, odd names are names, and only numbers ever come back to Slurm."""
    rng = np.random.default_rng(5)
    folder = deployed(tmp_path, "es-generalist")
    names = [
        "a b",
        "$(touch pwned)",
        "`x`",
        "'; scancel -u root #",
        "ü" * 60,
        "-1",
        "\udcff\udc80",
        "\x1b[31m",
        "=1+1",
        "",
    ]
    lines = [job_line(number, UserName=name) for number, name in enumerate(names, start=1)]
    for _ in range(300):
        line = bytearray(job_line(int(rng.integers(100, 10**9)), Reason="(odd|one, two)"))
        for _ in range(int(rng.integers(1, 6))):
            line[int(rng.integers(len(line)))] = int(rng.choice([0, 9, 13, 32, 45, 58, 65, 124, 255]))
        lines.append(bytes(line[: int(rng.integers(20, len(line)))]))
    slurm.queue(*lines, b"slurm_load_jobs error: Unable to contact", b"\xff" * 4000)
    daemon = Daemon(folder, acts=True)
    look = daemon.look(NOW_S)
    assert set(range(1, len(names) + 1)) <= look.factors.keys()
    assert daemon.slurm.n_odd >= 2
    assert any("lines cannot be read" in problem for problem in look.problems)
    assert all(np.isfinite(one) and 0 < one < 2**31 for one in look.factors.values())
    words = {word.partition("=")[0] for line in slurm.take("told") for word in line.split(" ")}
    assert words <= {"update", "jobid", "SiteFactor", "StartTime"}
    Daemon(folder, acts=True).look(NOW_S + 10)
    read_groups(folder / "groups.tsv")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("state.json", "{}", "is not what the daemon wrote"),
        ("state.json", '{"acts": 1, "since_s": {"x": 1}}', "is not what the daemon wrote"),
        ("deployment.json", "{}", "expected"),
        ("groups.tsv", "x", "begins with 'x', expected hdrl-groups-1"),
    ],
)
def test_damaged_folders(name: str, text: str, words: str, slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "sjf")
    (folder / name).write_text(text)
    done = call("deploy", "run", folder, "--once")
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert slurm.take("calls") == []


def test_numbers_of_a_look_stay_in_the_middle(slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "es-generalist")
    slurm.queue(*(job_line(job, NumCPUs=job) for job in range(1, 17)))
    look = Daemon(folder).look(NOW_S)
    assert isinstance(look, Look)
    assert all(abs(number - MIDDLE) <= 900_000_000 for number in look.factors.values())
    assert keys_of("ann", 3600.0, 4)[2] == "2\tann"
    with pytest.raises(SlurmError, match="shadow"):
        Daemon(folder).slurm.update([])


@pytest.mark.parametrize("name", ["deployment.json", "groups.tsv", "state.json"])
def test_damaged_files_end_with_one_line(name: str, slurm: FakeSlurm, tmp_path: Path):
    folder = deployed(tmp_path, "es-generalist", blocks={"results": [0.0, 1.0]})
    slurm.queue(job_line(1), job_line(2, StateCompact="CD", StartTime=1_000_000, EndTime=1_000_036))
    assert call("deploy", "run", folder, "--once").exit_code == 0
    good = {path.name: path.read_bytes() for path in folder.iterdir()}
    draw = random.Random(f"damaged {name}")
    codes = set()
    for _ in range(40):
        for other, content in good.items():
            (folder / other).write_bytes(content)
        (folder / name).write_bytes(draw.choice(mutations_of(name))(good[name], draw))
        done = call("deploy", "run", folder, "--once")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert done.exit_code in (0, 2)
        assert done.stderr.count("\n") == (1 if done.exit_code else 0)
        codes.add(done.exit_code)
    assert 2 in codes
