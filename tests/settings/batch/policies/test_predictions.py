"""Predicted run times in the order of jobs, the index and the gate: the kernel against plain Python; and no leaks."""

import re
from dataclasses import replace

import numpy as np
import pytest

import hdrl
import hdrl.batch
from hdrl.base.errors import DecisionError, HdrlError, UnknownName
from hdrl.settings.batch.policies import is_clairvoyant
from hdrl.settings.batch.policies.indexed import IndexKind, first_weights
from hdrl.settings.batch.policies.pairs import GATE_BY_HAND, read_pair, with_true_times
from hdrl.settings.batch.predict.evaluation import evaluate_predictors
from hdrl.settings.batch.predict.network import shipped_network, write_network
from hdrl.settings.batch.predict.predictors import PREDICTORS
from hdrl.settings.batch.workload.history import past_of
from hdrl.settings.batch.workload.swf import SWF_DTYPE, SwfLog
from hdrl.settings.batch.workload.swf_jobs import workload_from_swf
from hdrl.testing import JobSpec, Node, Processor, small_platform, small_workload

from .predicting import PredictedEasy
from .worlds import WORLDS, random_world

REQUESTS_S = (30.0, 100.0, 1000.0)


def log(seed, n_jobs=60, n_users=4, wait_s=5.0):
    """Return a log of users who repeat themselves, with dates at which jobs are said to have ended."""
    draw = np.random.default_rng(seed)
    rows = np.full(n_jobs, -1.0, dtype=SWF_DTYPE)
    rows["job_number"] = np.arange(1, n_jobs + 1)
    rows["submit_s"] = np.cumsum(draw.integers(0, 20, n_jobs))
    rows["wait_s"] = wait_s
    user = draw.integers(0, n_users, n_jobs)
    rows["user"] = user
    rows["requested_s"] = np.array(REQUESTS_S)[(user + draw.integers(0, 2, n_jobs)) % 3]
    # A different fraction of a second for each job keeps ends apart.
    rows["run_s"] = np.ceil(rows["requested_s"] * draw.choice((0.05, 0.3, 0.9), n_jobs)) + np.arange(n_jobs) / 1024
    rows["requested_processors"] = draw.integers(1, 7, n_jobs)
    rows["status"] = 1
    return SwfLog("log", rows)


def machine(n_cores=8):
    return small_platform(Node((Processor(n_cores),)))


def schedule(platform, workload, policy):
    records = hdrl.simulate(platform, workload, policy, energy=False).records
    return records["start_s"].tolist(), records["cores"].tolist() if "cores" in records.dtype.names else None


@pytest.mark.parametrize("predictor", ["last2", "user_mean", "geo", "harm"])
@pytest.mark.parametrize(("key", "order"), [("fcfs", "fcfs"), ("sjf", "sjf"), ("saf", "priority")])
def test_the_order_goes_by_predictions_as_in_plain_python(predictor, key, order):
    for seed in (0, 1):
        platform = machine()
        workload = workload_from_swf(log(seed), platform, bandwidth="none")
        name = {"fcfs": "easy", "sjf": "easy_sjbf", "priority": "easy_priority"}[order]
        oracle = PredictedEasy(workload, 8, predictor, key=key, order=order)
        assert schedule(platform, workload, f"{key}+{name}@{predictor}") == schedule(platform, workload, oracle)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("seed", "form"), [(0, "linear"), (1, "linear"), (0, "network"), (1, "guarded"), (1, "pausing")]
)
def test_the_index_and_the_gate_are_those_of_plain_python(world, seed, form):
    draw = np.random.default_rng(seed)
    made = random_world(seed, max_jobs=40, **WORLDS[world])
    platform, workload = made.platform, made.workload
    jobs = workload.jobs.copy()
    jobs["user"] = draw.integers(0, 3, len(jobs))
    jobs["requested_time_s"] = draw.choice((5.0, 20.0, 60.0), len(jobs))
    workload = replace(workload, jobs=jobs)
    offsets = draw.normal(0, 0.7, IndexKind(form).n_weights)
    offsets[14] = 4.0  # so that jobs are held now and then
    weights = first_weights(form) + offsets
    kind = {"order": "priority", "weights": weights, "gate": True, "guarded": form in ("guarded", "pausing")}
    oracle = PredictedEasy(workload, platform.n_cores, "geo", **kind)
    assert schedule(platform, workload, IndexKind(form).policy(offsets)) == schedule(platform, workload, oracle)


def test_the_gate_by_hand_is_that_of_plain_python_and_holds_jobs():
    platform = machine(12)
    differs = 0
    for seed in range(4):
        workload = workload_from_swf(log(seed), platform, bandwidth="none")
        oracle = PredictedEasy(workload, 12, "geo", key="saf", weights=np.array(GATE_BY_HAND), gate=True)
        gated = schedule(platform, workload, "saf+easy@geo~gate")
        assert gated == schedule(platform, workload, oracle)
        differs += gated != schedule(platform, workload, "saf+easy@geo")
    assert differs > 0


def test_a_window_knows_what_had_ended_before_it():
    platform = machine()
    whole = workload_from_swf(log(7, n_jobs=90), platform, bandwidth="none")
    window = whole.window(50, 40)
    rows = log(7, n_jobs=90).rows
    ends = rows["submit_s"] + rows["wait_s"] + rows["run_s"]
    known = [i for i in np.argsort(ends, kind="stable") if ends[i] < rows["submit_s"][50]]
    names = ("user", "requested_processors", "requested_s", "run_s")
    past = [tuple(float(rows[name][i]) for name in names) for i in known]
    assert 0 < len(past) < 50
    assert schedule(platform, window, "sjf+easy@geo") == schedule(
        platform, window, PredictedEasy(window, 8, "geo", key="sjf", past=past)
    )
    assert schedule(platform, window, "sjf+easy@geo") != schedule(
        platform, replace(window, history=None), "sjf+easy@geo"
    )


@pytest.mark.parametrize("predictor", ["geo", "geo_name", "network.json"])
def test_no_prediction_knows_a_job_that_has_not_ended(predictor, tmp_path, monkeypatch):
    """Longer run times of what has not ended change nothing before the first of them would have ended."""
    write_network(tmp_path / "network.json", replace(shipped_network(), by_name=True))
    monkeypatch.chdir(tmp_path)
    platform = machine()
    policy = f"sjf+easy_sjbf@{predictor}"
    before = log(3, n_jobs=80)
    before.rows["executable"] = np.arange(80) % 5
    rows = before.rows.copy()
    ends = rows["submit_s"] + rows["wait_s"] + rows["run_s"]
    changed = np.flatnonzero(ends >= rows["submit_s"][40])
    changed = changed[changed < 40]
    rows["run_s"][changed] += 500.0
    left = workload_from_swf(before, platform, bandwidth="none").window(40, 40)
    right = workload_from_swf(SwfLog("log", rows), platform, bandwidth="none").window(40, 40)
    assert len(changed) > 0
    ended = [past_of(load.jobs, load.history, load.positions).ended_groups for load in (left, right)]
    assert np.array_equal(*ended)
    assert schedule(platform, left, policy) == schedule(platform, right, policy)
    # And of those that run within the window: what starts before the first changed end is the same.
    times = hdrl.simulate(platform, left, policy, energy=False).records
    last = int(np.argmax(times["start_s"]))
    longer = before.rows.copy()
    longer["run_s"][40 + last] += 300.0
    other = workload_from_swf(SwfLog("log", longer), platform, bandwidth="none").window(40, 40)
    again = hdrl.simulate(platform, other, policy, energy=False).records
    assert np.array_equal(times["start_s"], again["start_s"])


def test_names_of_jobs_tell_what_requests_hide():
    """One user, one request, two programs: only their names tell which is short."""
    rows = log(7, n_jobs=90).rows.copy()
    rows["user"], rows["requested_s"], rows["executable"] = 1, 3600, np.arange(90) % 2
    rows["run_s"] = np.where(rows["executable"] == 0, 60, 3000)
    rows["submit_s"] *= 60  # so that programs of both kinds end before others are submitted
    platform = machine()
    found = {one.predictor: one.r2_log for one in evaluate_predictors(_workload(rows, platform), (0.3, 1.0))}
    assert found["geo"] < 0.1 < 0.9 < found["geo_name"]
    nameless = rows.copy()
    nameless["executable"] = -1
    named, by_name, by_request = (
        schedule(platform, _workload(some, platform), f"sjf+easy@{predictor}")
        for some, predictor in ((rows, "geo_name"), (nameless, "geo_name"), (nameless, "geo"))
    )
    assert named != by_name == by_request
    assert "geo_name" not in {one.predictor for one in evaluate_predictors(_workload(nameless, platform))}


def _workload(rows, platform):
    return workload_from_swf(SwfLog("log", rows), platform, bandwidth="none")


def test_easy_plus_plus_corrects_what_was_outlived():
    """The head waits for a job that was predicted to end after 20 s; it runs on, and the plan with it."""
    platform = machine(4)
    jobs = [
        JobSpec(0.0, 4, gflop=10.0, requested_time_s=1000.0),
        JobSpec(1.0, 4, gflop=30.0, requested_time_s=1000.0),
        JobSpec(50.0, 3, gflop=200.0, requested_time_s=1000.0),  # predicted: the mean of 10 and 30
        JobSpec(60.0, 4, gflop=5.0, requested_time_s=100.0),
        # Fits beside, for less than what the corrected end leaves: 50 + 20 + 60 = 130.
        JobSpec(75.0, 1, gflop=50.0, requested_time_s=52.0),
    ]
    workload = small_workload(*jobs)
    table = workload.jobs.copy()
    table["user"] = (1, 1, 1, 2, 3)
    workload = replace(workload, jobs=table)
    start_s = hdrl.simulate(platform, workload, "fcfs+easy@last2/all", energy=False).records["start_s"]
    by_request = hdrl.simulate(platform, workload, "fcfs+easy@last2", energy=False).records["start_s"]
    assert start_s[4] == pytest.approx(75.0, abs=1e-3)
    assert by_request[4] == pytest.approx(75.0, abs=1e-3)
    table["requested_time_s"][4] = 60.0  # 135 > 130: it would delay the head as planned
    late = replace(workload, jobs=table)
    assert hdrl.simulate(platform, late, "fcfs+easy@last2/all", energy=False).records["start_s"][4] > 76.0
    assert hdrl.simulate(platform, late, "fcfs+easy@last2", energy=False).records["start_s"][4] < 76.0


def test_requested_times_are_a_predictor_and_change_nothing():
    world = random_world(5)
    platform, workload = world.platform, world.workload
    for name in ("sjf+easy", "wfp3+easy_sjbf", "sjf", "saf+conservative"):
        assert schedule(platform, workload, name) == schedule(platform, workload, f"{name}@requested")


def test_predictions_order_jobs_without_easy_too():
    platform = machine()
    workload = workload_from_swf(log(2), platform, bandwidth="none")
    for name in ("sjf", "sjf+conservative"):
        assert schedule(platform, workload, f"{name}@geo") != schedule(platform, workload, name)


def test_names_are_read_and_mistakes_are_one_line():
    assert read_pair("sjf+easy@geo-low_power").name == "sjf+easy@geo-low_power"
    assert is_clairvoyant("sjf+easy@clairvoyant")
    assert not is_clairvoyant("sjf+easy@geo")
    for name, message in (
        ("sjf+easy@goe", "geo"),
        ("sjf+easy@geo/some", "all"),
        ("saf+easy@geo~gait", "gate"),
        ("saf@geo~gate", "without EASY"),
        ("saf+conservative@geo/all", "without EASY"),
    ):
        with pytest.raises(HdrlError, match=message) as told:
            read_pair(name)
        assert isinstance(told.value, (UnknownName, DecisionError))
        assert "\n" not in str(told.value)


def test_every_predictor_is_a_policy():
    platform = machine()
    workload = workload_from_swf(log(1, n_jobs=30), platform, bandwidth="none")
    for name in PREDICTORS:
        assert hdrl.simulate(platform, workload, f"saf+easy@{name}", energy=False).records["start_s"].min() >= 0
    exact = hdrl.simulate(platform, workload, "sjf+easy@clairvoyant", energy=False).records["start_s"]
    known = workload_from_swf(log(1, n_jobs=30), platform, bandwidth="none", estimates="exact")
    assert exact.tolist() != hdrl.simulate(platform, known, "sjf", energy=False).records["start_s"].tolist()


def test_a_gate_holds_nothing_on_an_empty_machine():
    """All jobs start at last, whatever the weights."""
    platform = machine()
    workload = workload_from_swf(log(4, n_jobs=30), platform, bandwidth="none")
    offsets = np.zeros(24)
    offsets[14], offsets[23] = 40.0, 40.0  # the largest reserve, for ever
    trace = hdrl.simulate(platform, workload, IndexKind().policy(offsets), energy=False)
    assert (trace.records["start_s"] >= 0).all()


def test_a_guarded_gate_is_open_while_all_jobs_find_room():
    platform = machine(12)
    offsets = np.zeros(24)
    offsets[14] = 40.0  # whoever may be held is

    def last_starts_s(cores, form, *, gate=True):
        jobs = [JobSpec(10.0 * i, n, 1000, requested_time_s=1000) for i, n in enumerate(cores)]
        policy = IndexKind(form, gate=gate).policy(offsets)
        return hdrl.simulate(platform, small_workload(*jobs), policy, energy=False).records["start_s"][-1]

    finds_room, finds_none = (6, 4), (6, 8, 3)  # the last one could start in either case
    assert last_starts_s(finds_room, "additive") > 900
    assert last_starts_s(finds_room, "guarded") < 20
    assert last_starts_s(finds_none, "guarded") > 900
    assert last_starts_s(finds_none, "guarded", gate=False) < 30


@pytest.mark.parametrize(("form", "waits_days"), [("additive", 78), ("guarded", 61)])
def test_a_guard_lets_nobody_wait_for_ever(form, waits_days):
    """There is always a small job that waits, so that the wide one is never first of the queue by its size."""
    day_s = 86400.0
    jobs = [JobSpec(0.45 * i * day_s, 1, day_s, requested_time_s=day_s) for i in range(155)]
    workload = small_workload(*jobs, JobSpec(70.0, 2, 3 * day_s, requested_time_s=3 * day_s))
    offsets = np.zeros(24)
    offsets[13] = -20.0  # waiting counts for nothing
    trace = hdrl.simulate(machine(2), workload, IndexKind(form, gate=False).policy(offsets), energy=False)
    starts_s = trace.records["start_s"][workload.jobs["cores"] == 2]
    assert starts_s / day_s == pytest.approx(waits_days, abs=2)


@pytest.mark.parametrize(
    ("form", "gap_days", "waits_days"),
    [("guarded", 0.49, 61), ("pausing", 0.49, 61), ("guarded", 0.45, 61), ("pausing", 0.45, 78)],
)
def test_a_pausing_guard_waits_until_the_overload_is_over(form, gap_days, waits_days):
    """After 60 days, one day of work waits, or nine: three days are the limit."""
    day_s = 86400.0
    jobs = [JobSpec(gap_days * i * day_s, 1, day_s, requested_time_s=day_s) for i in range(155)]
    workload = small_workload(*jobs, JobSpec(70.0, 2, day_s, requested_time_s=day_s))
    offsets = np.zeros(24)
    offsets[13] = -20.0  # waiting counts for nothing
    trace = hdrl.simulate(machine(2), workload, IndexKind(form, gate=False).policy(offsets), energy=False)
    starts_s = trace.records["start_s"][workload.jobs["cores"] == 2]
    assert starts_s / day_s == pytest.approx(waits_days, abs=2)


def test_the_exact_engine_plays_it_alike():
    platform = machine()
    workload = workload_from_swf(log(6, n_jobs=30), platform, bandwidth="none")
    policy = IndexKind().policy(np.zeros(24))
    played = hdrl.simulate(platform, workload, policy, simulator="exact").records["start_s"]
    here = hdrl.simulate(platform, workload, policy).records["start_s"]
    assert played == pytest.approx(here, abs=1e-4)


OWN = """
class Predictor:
    def __init__(self):
        self.runs_s = {}

    def predict(self, job):
        last = self.runs_s.get(job.user, [])[-2:]
        return sum(last) / 2 if len(last) == 2 else job.requested_time_s

    def ended(self, job, run_s):
        self.runs_s.setdefault(job.user, []).append(run_s)
"""


@pytest.mark.parametrize("suffix", ["", "/all~gate-high_gflops"])
def test_a_predictor_in_python_predicts_as_the_same_one_in_the_kernel(tmp_path, suffix):
    platform = machine()
    whole = workload_from_swf(log(7, n_jobs=90), platform, bandwidth="none")
    (tmp_path / "my.py").write_text(OWN)
    for workload in (whole, whole.window(50, 40)):
        name = f"{tmp_path}/my.py@sjf+easy_sjbf{suffix}"
        same = schedule(platform, workload, f"sjf+easy_sjbf@last2{suffix}")
        assert schedule(platform, workload, name) == same != schedule(platform, workload, "sjf+easy_sjbf")
    assert not is_clairvoyant(name)


@pytest.mark.parametrize(
    ("text", "suffix", "told"),
    [
        ("x = 1", "@sjf+easy", "no class Predictor, which '@sjf+easy' asks for"),
        ("class Predictor: pass", "@sjf+easy", "Predictor has no predict"),
        (OWN.replace("self, job, run_s", "self, job"), "@sjf+easy", "expected ended(self, job, run_s)"),
        (OWN, "@sjf+easy@geo", "names a predictor, too"),
        (OWN, "@sfj+easy", "no policy 'sfj+easy'"),
        (
            OWN.replace("sum(last) / 2 if len(last) == 2 else job.requested_time_s", "None"),
            "@sjf+easy",
            "is None, expected a number of seconds",
        ),
        (OWN.replace("return sum", "return 1 / 0 or sum"), "@sjf+easy", "division by zero"),
    ],
)
def test_mistakes_of_predictors_in_python_are_one_line(tmp_path, text, suffix, told):
    (tmp_path / "my.py").write_text(text)
    workload = workload_from_swf(log(1, n_jobs=30), machine(), bandwidth="none")
    with pytest.raises(HdrlError, match=re.escape(told)) as found:
        hdrl.simulate(machine(), workload, f"{tmp_path}/my.py{suffix}", energy=False)
    assert "\n" not in str(found.value)


def test_other_simulators_refuse_predictors_in_python(tmp_path):
    (tmp_path / "my.py").write_text(OWN)
    world = small_workload(JobSpec(0.0, 1, gflop=5.0, requested_time_s=5.0))
    with pytest.raises(DecisionError, match="'embedded' alone"):
        hdrl.batch.simulate(machine(), world, f"{tmp_path}/my.py@sjf+easy", simulator="exact")


@pytest.mark.parametrize(
    ("policy", "twin"),
    [
        ("sjf+easy", "sjf+easy@clairvoyant/all"),
        ("sjf+easy@geo", "sjf+easy@clairvoyant/all"),
        ("saf+easy@geo/all~gate-low_power", "saf+easy@clairvoyant/all~gate-low_power"),
        ("fcfs+easy~off600", "fcfs+easy@clairvoyant/all~off600"),
        ("fcfs+conservative", "fcfs+conservative@clairvoyant"),
        ("es-generalist", "es-generalist@clairvoyant"),
        ("sjf+easy@clairvoyant", None),
    ],
)
def test_policies_have_a_twin_that_knows_run_times(policy: str, twin: str | None) -> None:
    assert with_true_times(policy) == twin
    if twin is not None:
        assert read_pair(twin).is_clairvoyant
        assert not read_pair(policy).is_clairvoyant
