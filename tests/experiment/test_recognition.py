"""Jobs that a model was trained on are known again: in further logs, with other dates, in other files, generated."""

from pathlib import Path

import numpy as np
import pytest

from hdrl.base.errors import OptionsError
from hdrl.experiment.compare.cases import Case, test_cases
from hdrl.experiment.compare.knowledge import JudgingWindows
from hdrl.experiment.plan import plan_of
from hdrl.experiment.recognition import DIGITS, KNOWN_SHARE, LENGTH, SIZE, is_sketch, runs_of, sketch_of
from hdrl.experiment.recognition import known_share as share_of_runs
from hdrl.experiment.run.inputs import make_sweep, parse_options
from hdrl.experiment.train.resuming import check_same_training
from hdrl.experiment.train.world import TrainingWorld
from hdrl.setting import Load, find_setting
from hdrl.settings.batch.platform import read_platform
from hdrl.settings.batch.workload import lublin_log, read_swf, write_swf

PROCS = 16
KTH = next((parent / "shared" for parent in Path(__file__).parents if (parent / "shared").is_dir()), Path()) / (
    "traces/swf/KTH-SP2-1996-2.1-cln.swf.gz"
)
ELSEWHERE = "with other dates or in another file"
OLDER = ("workload", "workload_sha256", "n_jobs", "first_job", "last_job", "platform")
SPEC = find_setting("batch").environments["job_pick"]


def known_share(sketch: str, marks: np.ndarray) -> float:
    return share_of_runs(sketch, runs_of(marks))


def drawn(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(10**6, size=n)


def test_a_sketch_knows_its_items_and_no_others():
    marks = drawn(20_000)
    sketch = sketch_of(marks[:10_000])
    assert len(sketch) == SIZE * DIGITS
    assert is_sketch(sketch)
    assert known_share(sketch, marks[2000:6000]) == 1.0
    assert known_share(sketch, marks[10_000:]) == 0.0
    assert 0.3 < known_share(sketch, marks[5000:15_000]) < 0.7, "half of them"
    assert known_share(sketch_of(marks[:100]), marks[50:150]) == pytest.approx(43 / 93), "few are all kept"


@pytest.mark.skipif(not KTH.is_file(), reason="the traces are not here")
def test_the_halves_of_a_log_are_told_from_each_other():
    rows = read_swf(KTH).rows
    rows = rows[np.argsort(rows["submit_s"], kind="stable")]
    marks = rows["processors"].astype(np.int64) * 2**32 + np.rint(rows["run_s"]).astype(np.int64)
    half = len(marks) // 2
    sketch = sketch_of(marks[:half])
    shares = [known_share(sketch, marks[at : at + 256]) for at in range(0, len(marks) - 255, 256)]
    assert min(shares[: half // 256]) > KNOWN_SHARE
    assert max(shares[half // 256 + 1 :]) < KNOWN_SHARE


def test_what_is_alike_in_all_logs_says_nothing():
    same = np.ones(100, dtype=np.int64)
    assert sketch_of(same) == ""
    assert known_share(sketch_of(drawn(100)), same) == 0.0
    assert sketch_of(drawn(LENGTH - 1)) == ""


@pytest.mark.parametrize("text", ["x" * DIGITS, "0" * (DIGITS - 1)])
def test_what_is_no_sketch(text: str):
    assert not is_sketch(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for number, name in enumerate(("first", "second", "other")):
        log = lublin_log(300, PROCS, seed=number, load=0.8)
        log.header["MaxProcs"] = str(PROCS)
        write_swf(log, folder / f"{name}.swf")
        log.rows["submit_s"] = np.round(log.rows["submit_s"] * 0.75)
        write_swf(log, folder / f"{name}-busier.swf")
    return folder


def world(folder: Path, **learning) -> TrainingWorld:
    data = {
        "platform_file_path": f"homogeneous:{PROCS}",
        "workload_file_path": "first.swf",
        "pybatsim": {"agent": {"type": "LEARNING", "run": "train"}},
        "workload": {"bandwidth": "none"},
        "learning": {
            "environment": "job_pick",
            "episodes": {"n_jobs": 20, "train": [0.0, 0.5], "validation": [0.5, 0.6], "test": [0.6, 1.0]},
            **learning,
        },
    }
    return TrainingWorld(plan_of(parse_options(data, folder=folder)))


def windows(folder: Path, *logs: str, **changes) -> JudgingWindows:
    data = {
        "platform": f"homogeneous:{PROCS}",
        "candidates": ["fcfs"],
        "workloads": list(logs),
        "workload": {"bandwidth": "none"},
        "windows": {"length": 50},
    }
    sweep = make_sweep({**data, **changes}, folder=folder)
    setting, machine = find_setting("batch"), read_platform(f"homogeneous:{PROCS}")
    loads = setting.inputs.loads(sweep, machine)

    def generate(case: Case) -> Load:
        return case.items(setting, machine, loads, sweep)

    return JudgingWindows(test_cases(sweep, loads, setting=setting), loads, machine, generate)


@pytest.mark.parametrize("environment", ["job_pick", "job_index"])
def test_further_logs_are_known_again(folder: Path, environment: str):
    chosen = {"environment": environment, "arguments": {"more_logs": ["second.swf"]}}
    if environment == "job_index":
        chosen["algorithm"] = "cma_es"
    record = world(folder, **chosen).trained_on()
    (further,) = record["further"]
    assert (record["workload"], further["workload"], further["last_job"]) == ("first", "second", 149)
    told = windows(folder, "second.swf").words(record, SPEC)
    assert told == "jobs of 3 of the 6 windows that judge it (second)"
    assert windows(folder, "other.swf").words(record, SPEC) == ""
    both = windows(folder, "first.swf", "second.swf").words(record, SPEC)
    assert both == "jobs of 6 of the 12 windows that judge it (first, second)"


def test_the_same_jobs_with_other_dates_are_known_again(folder: Path):
    record = world(folder).trained_on()
    told = windows(folder, "first-busier.swf").words(record, SPEC)
    assert told == f"jobs of at least 3 of the 6 windows that judge it (first-busier), {ELSEWHERE}"
    assert windows(folder, "first-busier.swf", range=[0.5, 1.0]).words(record, SPEC) == ""
    assert windows(folder, "other-busier.swf").words(record, SPEC) == ""
    older = {key: value for key, value in record.items() if key != "sketch"}
    assert windows(folder, "first-busier.swf").words(older, SPEC) == "", "older models hold no sketch"


def test_other_memory_and_other_windows_of_the_same_log(folder: Path):
    record = world(folder).trained_on()
    (folder / "cut.swf").write_text("".join((folder / "first.swf").read_text().splitlines(keepends=True)[:-100]))
    for judged in (windows(folder, "cut.swf"), windows(folder, "first.swf", workload={}, seed=5)):
        assert "jobs of at least 3 of the " in judged.words(record, SPEC)


def test_generated_jobs_are_known_again(folder: Path):
    judged = windows(folder, loads=[0.8, 0.9], windows={"length": 60, "count": 2, "warm_up": 10})
    setting, machine = find_setting("batch"), read_platform(f"homogeneous:{PROCS}")
    sweep = make_sweep(
        {"platform": machine.name, "candidates": ["fcfs"], "loads": [0.8], "windows": {"length": 60}}, folder=folder
    )
    case = judged.cases[1]
    load = setting.inputs.generate(sweep, machine, case.n_simulated, offered_load=case.load, seed=case.seed)
    sha256, marks = load.sha256(), SPEC.item_fingerprints(machine, load)
    whole = {"workload": "mine", "workload_sha256": sha256, "n_jobs": 70, "first_job": 0, "last_job": 69}
    # Bandwidths are not the same: only the jobs' sizes and times are.
    assert judged.words({**whole, "sketch": sketch_of(marks)}, SPEC) == (
        f"jobs of at least 1 of the 4 windows that judge it (lublin@0.8), {ELSEWHERE}"
    )
    same = windows(folder, loads=[0.8], windows={"length": 60, "count": 2, "warm_up": 10}, workload={})
    assert same.words(whole, None) == "jobs of 1 of the 2 windows that judge it (lublin@0.8)"
    assert same.words({**whole, "workload_sha256": "0" * 64}, SPEC) == ""


def test_jobs_of_gpu_clusters_are_known_again_at_another_load():
    setting = find_setting("gpu")
    data = {"setting": "gpu", "platform": "gavel", "candidates": ["fifo"], "workloads": ["poisson"], "nb_jobs": 100}
    sweep = setting.inputs.Sweep.model_validate(data)
    machine = setting.inputs.machine(sweep)
    (load,) = setting.inputs.loads(sweep, machine)
    spec = setting.environments["gpu_cluster"]
    sketch = sketch_of(spec.item_fingerprints(machine, load))
    assert known_share(sketch, spec.item_fingerprints(machine, load.scaled(machine, 0.9))) == 1.0
    other = setting.inputs.generate(sweep, machine, 100, offered_load=0.9, seed=7)
    assert known_share(sketch, spec.item_fingerprints(machine, other)) == 0.0


def test_a_training_of_an_older_version_goes_on(folder: Path, tmp_path: Path):
    now = world(folder, arguments={"more_logs": ["second.swf"]}).trained_on()
    options = parse_options({"platform_file_path": "gaia", "workload_file_path": "first.swf"}, folder=folder)
    before = {"options": options.portable(), "trained_on": {key: now[key] for key in OLDER}}
    check_same_training(options, now, before, tmp_path)
    for damage in ({"workload_sha256": "0" * 64}, {"last_job": 3}, {"sketch": "0" * DIGITS}):
        changed = {**before, "trained_on": {**before["trained_on"], **damage}}
        with pytest.raises(OptionsError, match="the jobs of first have changed since the training began"):
            check_same_training(options, now, changed, tmp_path)
    with pytest.raises(OptionsError, match="have changed"):
        check_same_training(options, now, {"options": options.portable()}, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"order": "f2"}, "learned with f2 (order) of dates from the beginning of its log"),
        ({"reward": "relative"}, "learned with f4 (reference) of dates from the beginning of its log"),
        ({"reward": "relative", "reference": "f4_relative"}, None),
        ({"reference": "f1"}, None),
        ({"order": "sjf"}, None),
    ],
)
def test_models_that_learned_with_other_dates_than_those_of_windows_are_told(arguments: dict, text: str | None):
    told = SPEC.cautions({"scales": "fixed", **arguments})
    assert (len(told), text is None or text in told[0][1]) == (int(text is not None), True)


def test_places_in_the_same_log_tell_exactly_and_its_name_tells_probably(folder: Path):
    judged = windows(folder, "first.swf", windows={"length": 50, "starts": [100]})
    sha256 = judged.workloads[0].sha256()

    def words(**record) -> str:
        known = {"workload": "first", "workload_sha256": sha256, "first_job": 0, "last_job": 99, **record}
        return judged.words(known, SPEC)

    assert words() == ""
    assert words(last_job=100) == "jobs of 1 of the 1 windows that judge it (first)"
    assert words(first_job=149, last_job=300).startswith("jobs of 1")
    assert words(first_job=150, last_job=300) == ""
    assert words(last_job=100, workload_sha256="b").startswith("first, made otherwise: probably jobs of 1 of")
    assert words(last_job=100, workload_sha256="b", workload="other") == ""
    assert words(last_job=100, workload_sha256="b", seed=7) != ""  # a log has no seed that could differ
    assert judged.words({}, SPEC).startswith("jobs that its file does not name")
    assert judged.words({"further": [{}]}, SPEC).startswith("jobs that its file does not name")


def test_generated_jobs_of_another_seed_are_other_jobs(tmp_path: Path):
    """GPU loads have the name of their generator; models note its seed."""
    pytest.importorskip("torch", reason="needs torch (the extra learn)")
    data = {"setting": "gpu", "platform": "sia", "nb_jobs": 200, "load": {"offered": 1.0, "seed": 7}}
    learning = {"environment": "gpu_cluster", "algorithm": "ppo", "episodes": {"n_jobs": 20}}
    options = parse_options({**data, "workload": "poisson", "learning": learning}, folder=tmp_path)
    record = TrainingWorld(plan_of(options)).trained_on()
    assert record["seed"] == 7
    record.pop("sketch", None)

    def words(judged: int, **changes: object) -> str:
        load = {"offered": 0.9, "seed": judged}
        sweep = make_sweep(
            {**data, "load": load, "workloads": ["poisson"], "candidates": ["srtf"], "windows": {"length": 50}},
            where="test",
            folder=tmp_path,
        )
        plan = plan_of(sweep)
        cases = test_cases(plan.request, plan.loads, setting=plan.setting)
        return JudgingWindows(cases, plan.loads, plan.machine, lambda _: plan.loads[0]).words(
            {**record, **changes}, None
        )

    assert "poisson, made otherwise" in words(7)
    assert words(8) == ""
    assert "poisson, made otherwise" in words(8, seed=None)  # older models do not say
