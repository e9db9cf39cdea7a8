"""Priorities and policies of one's own: as functions, and by path wherever the name of a policy does."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hdrl
from hdrl.base.errors import DecisionError, OptionsError, ReadError, UnknownName
from hdrl.launcher.launch import launch
from hdrl.settings.batch.policies import (
    AgentError,
    OwnPriority,
    is_clairvoyant,
    is_policy_file,
    load_policy,
    normalise_policy_name,
    simulate,
)
from hdrl.settings.batch.workload.model import Workload
from hdrl.testing import check_policy, run_policy, trace_differences

from .worlds import WORLDS, random_world

SAF = "def priority(job, now_s):\n    return job.requested_time_s * job.cores\n"
SAF_AT_ONCE = "def priorities(jobs, now_s):\n    return jobs['requested_time_s'] * jobs['cores']\n"
# As in the kernel: the time waited, and requested times of at least a second.
LXF = """
def priority(job, now_s):
    asked_s = max(job.requested_time_s, 1.0)
    return -(max(0.0, now_s - job.submit_s) + asked_s) / asked_s
"""
SUFFIXES = ("", "+easy", "+easy_sjbf-low_power", "+easy_priority-high_mem", "+conservative", "-random")
IN_PYTHON = {"n_decisions", "overutilization"}
"""What differs in Python: nobody is told there why nothing starts, and it is asked at every message."""


def written(folder: Path, text: str) -> str:
    path = folder / "my.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(("text", "name"), [(SAF, "saf"), (SAF_AT_ONCE, "saf"), (LXF, "lxf")])
def test_a_priority_in_a_file_is_as_good_as_a_built_in_one(tmp_path, suffix, text, name):
    path = written(tmp_path, text)
    for kind in ("even", "uneven with memory", "overrun"):
        world = random_world(5, **WORLDS[kind])
        built_in, mine = (run_policy(f"{policy}{suffix}", world, seed=3) for policy in (name, path))
        assert set(trace_differences(built_in, mine)) <= IN_PYTHON


def test_a_priority_on_the_exact_engine(tmp_path):
    world = random_world(1, max_jobs=8)
    path = written(tmp_path, SAF)
    exact = simulate(world.platform, world.workload, f"{path}+easy", simulator="exact")
    embedded = simulate(world.platform, world.workload, "saf+easy")
    np.testing.assert_allclose(exact.records["start_s"], embedded.records["start_s"], atol=1e-6)


def test_a_policy_in_a_file(tmp_path):
    path = written(
        tmp_path,
        "from hdrl.settings.batch.policies import Easy\n\npolicy = Easy(lambda job, now_s: job.requested_time_s)\n",
    )
    world = random_world(2, **WORLDS["memory"])
    assert set(trace_differences(run_policy(path, world), run_policy("sjf+easy", world))) <= IN_PYTHON


def test_own_priorities_are_sound():
    check_policy(OwnPriority(lambda job, now_s: -job.cores - now_s, "conservative"))
    check_policy(OwnPriority(priorities=lambda jobs, now_s: -jobs["memory_mib"], backfilling="easy"))


def test_what_is_a_file():
    for name in ("my.py", "a.b/my.py+easy", "my.py-low_power"):
        assert is_policy_file(name)
        assert normalise_policy_name(name) == name
    for name in ("fcfs+easy", "my.pyx", "my.pt", "first-low_power"):
        assert not is_policy_file(name)


@pytest.mark.parametrize(
    ("text", "suffix", "message"),
    [
        ("x = 1\n", "", "defines no policy, expected a function policy(view) or priority(job, now_s)"),
        (SAF + "def policy(view):\n    return []\n", "", "defines a policy and a priority"),
        ("def policy(view):\n    return []\n", "+easy", "'+easy' goes with a priority(job, now_s)"),
        ("def priority(job, now_s)\n", "", "my.py:1: "),
        ("import nowhere_at_all\n", "", "my.py:1: ModuleNotFoundError"),
        ("def priority(job, now_s):\n    return 1 / 0\n", "+easy", "my.py:2: ZeroDivisionError: division by zero"),
        ("def priority(job, now_s):\n    return job.colour\n", "", "attribute 'colour'; known: bandwidth_gbps, cores"),
        ("def priority(job, now_s):\n    return job.core\n", "", "did you mean 'cores'?"),
    ],
)
def test_mistakes_in_files_are_one_line(tmp_path, text, suffix, message):
    with pytest.raises(AgentError) as caught:
        run_policy(written(tmp_path, text) + suffix, random_world(0))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def priority(job, now_s):\n    return float('nan')\n", r"my\.py: t=.* the priority of job 'w0!\d+' is nan"),
        (
            "def priority(job, now_s):\n    return 'high'\n",
            r"the priority of job 'w0!\d+' is 'high', expected a number",
        ),
        ("def priority(job, now_s):\n    pass\n", r"the priority of job 'w0!\d+' is None, expected a number"),
        ("def priorities(jobs, now_s):\n    return jobs['cores'][:0]\n", r"priorities of shape \(0,\) for \d+ waiting"),
        ("def priorities(jobs, now_s):\n    return None\n", r"my\.py: "),
    ],
)
def test_priorities_that_are_none(tmp_path, text, message):
    with pytest.raises(DecisionError, match=message) as caught:
        run_policy(written(tmp_path, text), random_world(0))
    assert str(caught.value).count("my.py") == 1


def test_names_that_do_not_exist(tmp_path):
    path = written(tmp_path, SAF)
    with pytest.raises(UnknownName, match="no backfilling 'esay'; did you mean 'easy'"):
        load_policy(f"{path}+esay")
    with pytest.raises(UnknownName, match="no core selection 'low_pwer'; did you mean 'low_power'"):
        load_policy(f"{path}+easy-low_pwer")
    with pytest.raises(ReadError, match="no such file"):
        load_policy(str(tmp_path / "none.py"))
    with pytest.raises(DecisionError, match="neither"):
        OwnPriority()


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, SAF)
    example = Path(__file__).parents[4] / "examples" / "demo.json"
    common = [str(example), "--set", "nb_jobs=40", "--quiet", "--out"]
    done = CliRunner().invoke(launch, ["my.py+conservative-low_power", *common, "mine"])
    assert (done.exit_code, done.output) == (0, "mine\n")
    changed = [*common, "saf", "--set", "pybatsim.agent.policy_pair=saf+conservative-low_power"]
    assert CliRunner().invoke(launch, changed).exit_code == 0
    assert Path("mine/out_jobs.csv").read_bytes() == Path("saf/out_jobs.csv").read_bytes()
    assert '"name": "my.py+conservative-low_power"' in Path("mine/provenance.json").read_text()
    wrong = CliRunner().invoke(launch, ["my.py+esay", *common, "none"])
    assert wrong.exit_code == 2
    assert "no backfilling 'esay'; did you mean 'easy'?" in wrong.output
    named = CliRunner().invoke(launch, [*common, "none", "--set", "pybatsim.agent.policy_pair=my.py+easy"])
    assert named.exit_code == 2
    assert "a Python file goes into pybatsim.agent.file" in named.output
    assert not Path("none").exists()


PYTHON_BLOCKS = re.findall(
    r"```python\n(.*?)```", (Path(__file__).parents[4] / "docs" / "policies.md").read_text(), re.S
)


@pytest.mark.parametrize("text", PYTHON_BLOCKS)
def test_the_files_of_the_documentation(tmp_path, text):
    world = random_world(4, max_jobs=10)
    calls = [world.platform, world.workload, written(tmp_path, text)]
    assert (simulate(*calls, energy=False).records["start_s"] >= 0).all()


# ------------------------------------------------------------------ who knows too much


def estimated(model: str) -> Workload:
    workload = random_world(0).workload
    return Workload(
        **{name: getattr(workload, name) for name in workload.__dataclass_fields__} | {"origin": {"estimates": model}}
    )


SEEING = ("fcfs+easy", "sjf", "f4", "low_mem+conservative-random")
BLIND = ("fcfs", "smallest-low_power", "random-random", "void")


@pytest.mark.parametrize("policy", [*SEEING, *BLIND])
def test_exact_estimates_make_clairvoyant(policy):
    assert not is_clairvoyant(policy)
    assert not is_clairvoyant(policy, estimated("tsafrir"))
    assert is_clairvoyant(policy, estimated("exact")) == (policy in SEEING)


def test_policies_in_python_say_it_themselves(tmp_path):
    def seer(view):
        return []

    assert not is_clairvoyant(seer)
    assert is_clairvoyant(seer, estimated("exact"))
    seer.clairvoyant = True
    assert is_clairvoyant(seer)
    assert not is_clairvoyant(written(tmp_path, SAF))
    assert is_clairvoyant(written(tmp_path, SAF + "priority.clairvoyant = True\n") + "+easy")
    assert is_clairvoyant(written(tmp_path, "clairvoyant = True\ndef policy(view):\n    return []\n"))
    assert is_clairvoyant(OwnPriority(lambda job, now_s: 0.0, clairvoyant=True))


def test_wrong_arguments_are_named_before_a_simulation():
    learning = hdrl.read_platform("learning")
    workload = hdrl.read_workload("learning", learning, custom=True)
    with pytest.raises(AgentError, match=r"test_own.py:\d+: by_cores\(job, now_s\) takes .*OwnPriority"):
        hdrl.simulate(learning, workload, by_cores)
    assert hdrl.simulate(learning, workload, OwnPriority(by_cores)).records["start_s"].min() >= 0
    for arguments, message in (
        (("learning", workload, "sjf"), "platform is 'learning', expected what hdrl.read_platform returns"),
        ((learning, "learning", "sjf"), "workload is 'learning', expected what hdrl.read_workload returns"),
        ((learning, workload, 5), r"policy is 5, expected a name, a function policy\(view\)"),
    ):
        with pytest.raises(OptionsError, match=message):
            hdrl.simulate(*arguments)


def by_cores(job, now_s):
    return job.cores
