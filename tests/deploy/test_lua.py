"""The Lua for Slurm gives jobs the numbers that the kernel's formulas give, whatever users are called."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from hdrl.base.errors import HdrlError, ReadError
from hdrl.deploy.factor import MOST_WEIGHT, site_factors
from hdrl.deploy.groups import KeyedGroups, keys_of, read_groups
from hdrl.deploy.lua import LuaSite, lua_text, number_lua, quoted_lua
from hdrl.deploy.policy import KEYS, DeployedPolicy, deployed_policy
from hdrl.deploy.ranking import ranked, waiting_rows
from hdrl.settings.batch.policies.indexed import IndexKind
from hdrl.settings.batch.site_rules.kernel.site_factor import FIRST, LARGEST, MIDDLE, MOST

LUAS = [path for name in ("lua5.4", "lua5.1", "lua") if (path := shutil.which(name))][:2]
needs_lua = pytest.mark.skipif(not LUAS, reason="no Lua here; Debian's package lua5.4 has one")

FIRST_S, LAST_S, NOW_S, N_CORES, N_FREE = 1_780_000_000, 1_789_000_000, 1_790_000_000, 2048, 37
ODD = ["o'brien", 'say "hi"', "back\\slash", "DOM\\user name", "$(reboot)", "]]--", "%s%d", "ünï-çødé", "\\n", "-1"]
USERS = [*ODD, *(f"user{number}" for number in range(40))]

DRIVER = """
slurm = {SUCCESS = 0, log_info = function(...) io.stderr:write(string.format(...), "\\n") end}
local now
os.time = function() return now end
dofile(arg[1])
for line in io.lines(arg[2]) do
   local date, minutes, cores, user = line:match("^(%d+)\\t(%d+)\\t(%d+)\\t(.*)$")
   now = tonumber(date)
   local job = {time_limit = tonumber(minutes), min_cpus = tonumber(cores), user_name = user}
   slurm_job_submit(job, {}, 0)
   io.write(tostring(job.site_factor), "\\n")
end
"""


class Job(NamedTuple):
    date_s: int
    minutes: int
    cores: int
    user: str


def drawn_jobs(rng: np.random.Generator, n_jobs: int, users: list[str]) -> list[Job]:
    """Draw jobs, half of which ask for what many ask for."""
    return [
        Job(
            NOW_S - int(rng.integers(0, 500)),
            int(rng.choice([10, 60, 600, 2880]) if rng.random() < 0.5 else rng.integers(1, 20000)),
            int(2 ** rng.integers(0, 9) if rng.random() < 0.5 else rng.integers(1, 2000)),
            users[rng.integers(len(users))],
        )
        for _ in range(n_jobs)
    ]


@cache
def learned() -> KeyedGroups:
    rng, groups = np.random.default_rng(3), KeyedGroups()
    for job in drawn_jobs(rng, 3000, USERS):
        groups.learn(job.user, job.minutes * 60.0, job.cores, float(np.ceil(job.minutes * 60 * rng.beta(0.6, 2.0))))
    return groups


def numbers_of(lua: str, folder: Path, text: str, jobs: list[Job]) -> NDArray[np.int64]:
    (folder / "job_submit.lua").write_text(text)
    (folder / "driver.lua").write_text(DRIVER)
    (folder / "jobs.tsv").write_text("".join("\t".join(map(str, job)) + "\n" for job in jobs))
    words = [lua, folder / "driver.lua", folder / "job_submit.lua", folder / "jobs.tsv"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return np.array([float(line) for line in done.stdout.split()]).astype(np.int64)


def keys_by_kernel(
    policy: DeployedPolicy, groups: KeyedGroups, jobs: list[Job], here: dict[str, tuple[int, int]]
) -> NDArray[np.float64]:
    """Return the index of each job at its submission, beside the jobs that were there before."""
    if not policy.is_index and not policy.changes_with_time:
        columns = [np.array(column) for column in list(zip(*jobs, strict=True))[:3]]
        rows = waiting_rows(columns[0] - float(FIRST_S), columns[1] * 60.0, columns[2])
        positions = np.array(
            [groups.positions(job.user, job.minutes * 60.0, job.cores) for job in jobs], dtype=np.int32
        )
        rule = policy.pair.rule
        return ranked(rows, positions, groups.sums, rule, policy.key, now_s=0.0, n_procs=N_CORES, n_free=0).keys
    keys = np.zeros(len(jobs))
    for position, job in enumerate(jobs):
        positions = np.array([groups.positions(job.user, job.minutes * 60.0, job.cores)], dtype=np.int32)
        n_here, n_waiting = here.get(job.user, (0, 0))
        groups.sums[positions[0, 2]]["n_here"] = n_here + 1
        groups.sums[positions[0, 2]]["n_waiting"] = n_waiting + 1
        date_s = float(job.date_s - FIRST_S)
        rows = waiting_rows(np.array([date_s]), np.array([job.minutes * 60.0]), np.array([job.cores]))
        rule = policy.pair.rule
        found = ranked(rows, positions, groups.sums, rule, policy.key, now_s=date_s, n_procs=N_CORES, n_free=N_FREE)
        keys[position] = found.keys[0] + policy.aging_per_s * (job.date_s - LAST_S)
    return keys


def site(folder: Path) -> LuaSite:
    return LuaSite(N_CORES, 16, FIRST_S, LAST_S, {"": 3600.0, "main": 7200.0}, 365 * 86400.0, folder)


def linear(rng: np.random.Generator) -> DeployedPolicy:
    return DeployedPolicy("mine.pt", IndexKind("linear", gate=False).policy(rng.normal(size=24)))


POLICIES = [
    *(f"{name}+easy_priority@geo" for name in KEYS.values() if name != "fcfs"),
    *("fcfs+easy@geo~gate", "sjf", "sjf@last2", "saf+easy@user_mean", "f2@harm", "es-generalist", "es-unguarded"),
    "a linear index",
]


@needs_lua
@pytest.mark.parametrize("name", POLICIES)
def test_lua_gives_the_order_of_the_kernel(name: str, tmp_path: Path):
    rng = np.random.default_rng(7)
    policy = linear(rng) if name == "a linear index" else deployed_policy(name)
    groups = learned()
    groups.write(tmp_path / "groups.tsv")
    here = {user: (int(rng.integers(0, 90)), int(rng.integers(0, 40))) for user in USERS[::2]}
    lines = "".join(f"{n_here}\t{n_waiting}\t{user}\n" for user, (n_here, n_waiting) in here.items())
    (tmp_path / "now.tsv").write_text(f"{NOW_S - 20}\t{N_FREE}\n{lines}")
    jobs = drawn_jobs(rng, 1000, [*USERS, "stranger"])
    keys = keys_by_kernel(policy, groups, jobs, here)
    expected = site_factors(keys, np.zeros(len(jobs)), 0.0, bound_s=1.0)
    text = lua_text(policy, site(tmp_path))
    assert text.count("\n") <= 120
    for lua in LUAS:
        numbers = numbers_of(lua, tmp_path, text, jobs)
        assert np.max(np.abs(numbers - expected)) <= 1
        order = np.lexsort((np.arange(len(jobs)), -numbers))
        with np.errstate(invalid="ignore"):
            rises = np.diff(keys[order])
        least = np.maximum(1.2e-7 * np.abs(keys[order][1:]), 2e-10)  # as near as two jobs may be to change places
        assert np.all((rises >= -least) | np.isnan(rises))
    # Only waiting tells jobs apart by these three, or, of the last, whether they have one core.
    waits = {"lxf": 1, "wfp3": 1, "unicef": 2}.get(name.partition("+")[0])
    assert len(np.unique(expected)) == waits if waits else len(np.unique(expected)) > 40


@needs_lua
def test_lua_refuses_no_job(tmp_path: Path):
    """Without tables, without limits, with nonsense: a job is let in, with a number where one can be said."""
    text = lua_text(deployed_policy("es-generalist"), site(tmp_path))
    (tmp_path / "job_submit.lua").write_text(text)
    (tmp_path / "odd.lua").write_text(
        "slurm = {SUCCESS = 0, log_info = function() end}\n"
        "dofile(arg[1])\n"
        "local none = 4294967294\n"
        "for _, job in ipairs({{}, {time_limit = none, min_cpus = none}, {time_limit = none + 1, partition = 'main'},\n"
        "    {time_limit = 0, min_cpus = 0, begin_time = none, shared = 0, min_nodes = 4}, {min_cpus = 'x'},\n"
        "    {time_limit = {}, user_name = {}}}) do\n"
        "   assert(slurm_job_submit(job, {}, 0) == slurm.SUCCESS)\n"
        "   print(job.site_factor)\n"
        "end\n"
        "assert(slurm_job_modify({}, {}, {}, 0) == slurm.SUCCESS)\n"
    )
    for lua in LUAS:
        words = [lua, tmp_path / "odd.lua", tmp_path / "job_submit.lua"]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        numbers = done.stdout.split()
        assert len(numbers) == 6
        assert numbers[4:] == ["nil", "nil"]
        assert all(MIDDLE - MOST <= float(one) <= MIDDLE + MOST for one in numbers[:4])


@needs_lua
def test_jobs_without_a_limit_have_that_of_their_first_partition(tmp_path: Path):
    (tmp_path / "job_submit.lua").write_text(lua_text(deployed_policy("sjf"), site(tmp_path)))
    (tmp_path / "limits.lua").write_text(
        "slurm = {SUCCESS = 0, log_info = function() end}\n"
        "dofile(arg[1])\n"
        "for _, job in ipairs({{partition = 'main'}, {partition = 'main,other'}, {time_limit = 120}, {},\n"
        "    {time_limit = 60}, {partition = 'other,main'}}) do\n"
        "   slurm_job_submit(job, {}, 0)\n"
        "   print(job.site_factor)\n"
        "end\n"
    )
    for lua in LUAS:
        words = [lua, tmp_path / "limits.lua", tmp_path / "job_submit.lua"]
        one, two, three, four, five, six = subprocess.run(words, capture_output=True, check=True).stdout.split()
        assert one == two == three != four == five
        assert float(six) < float(one) < float(four)  # a year is later than two hours, and these than one


@needs_lua
def test_texts_are_quoted(tmp_path: Path):
    rng = np.random.default_rng(1)
    texts = [*ODD, "".join(map(chr, rng.integers(1, 0x2FF, 300))), "\n\r\0", "--[[", '"', "\\", "\udcff"]
    (tmp_path / "texts.lua").write_text("".join(f"io.write({quoted_lua(text)})\n" for text in texts))
    for lua in LUAS:
        done = subprocess.run([lua, tmp_path / "texts.lua"], capture_output=True, check=True)
        assert done.stdout == "".join(texts).encode("utf-8", "surrogateescape")


def test_numbers_are_numbers():
    assert [number_lua(one) for one in (1.0, -0.5, float("inf"), 1e300)] == ["1", "-0.5", "math.huge", "1e+300"]
    with pytest.raises(ValueError, match="no number"):
        number_lua(float("nan"))


def test_nothing_passes_a_job_beyond_the_bound():
    keys = np.array([-np.inf, -1e9, 0.0, 1e9, np.inf, np.inf, 5.0, 5.0])
    since_s = np.array([100.0, 100.0, 100.0, 100.0, 100.0, 70.0, 80.0, 1e9])
    numbers = site_factors(keys, since_s, now_s=200.0, bound_s=100.0)
    assert numbers[:5].tolist() == sorted(numbers[:5], reverse=True)
    assert (numbers[0], numbers[4]) == (MIDDLE + MOST, MIDDLE - MOST)
    assert numbers[0] + MOST_WEIGHT <= FIRST < numbers[6] < numbers[5] <= LARGEST
    # A job that waits beyond the bound keeps its number.
    assert site_factors(keys, since_s, now_s=500.0, bound_s=100.0)[5] == numbers[5]


def test_groups_come_back_as_they_were(tmp_path: Path):
    groups = learned()
    groups.write(tmp_path / "groups.tsv")
    again = read_groups(tmp_path / "groups.tsv")
    again.write(tmp_path / "again.tsv")
    assert (tmp_path / "again.tsv").read_text() == (tmp_path / "groups.tsv").read_text()
    assert keys_of("a\tb\n", 60.2, 4)[4] == "4\ta?b?\t60\t4"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "begins with ''"),
        ("hdrl-groups-1\n1\t2\n", ":2: expected 9 numbers"),
        ("hdrl-groups-1\n" + "nan\t" * 9 + "0\n", ":2: expected 9 numbers"),
        ("hdrl-groups-1\n" + "1\t" * 9 + "7\tx\n", ":2: expected 9 numbers"),
        ("hdrl-groups-1\n" + ("1\t" * 9 + "0\n") * 2, ":3: repeats"),
    ],
)
def test_groups_that_are_none(text: str, words: str, tmp_path: Path):
    (tmp_path / "groups.tsv").write_text(text)
    with pytest.raises(ReadError, match=words):
        read_groups(tmp_path / "groups.tsv")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sjf+easy@clairvoyant", "its predictor cannot be written as a table, expected one of geo"),
        ("sjf@learned", "its predictor cannot be written as a table"),
        ("sjf@geo_name", "tables of predictions have no names of jobs"),
        ("sjf+easy@geo/all", "Slurm reserves by requested times"),
        ("fcfs+easy", "there is nothing to deploy"),
        ("random-high_gflops", "cannot be deployed, expected one of fcfs, sjf"),
        ("low_mem+easy", "cannot be deployed"),
        ("f1_relative", "cannot be deployed"),
        ("sjf-low_power", "Slurm chooses nodes itself"),
        ("sjf+easy~off600", "Slurm's power saving"),
        ("sjff", "did you mean 'sjf'"),
    ],
)
def test_what_slurm_cannot_follow(name: str, words: str):
    with pytest.raises(HdrlError) as error:
        deployed_policy(name)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
