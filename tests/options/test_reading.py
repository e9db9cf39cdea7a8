"""Options files: both documented versions are read, every mistake is one clear line."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdrl.base.errors import HdrlError, OptionsError, ReadError
from hdrl.experiment.run.inputs import parse_options, read_options
from hdrl.options.reading import schema_of
from hdrl.setting import SETTINGS
from hdrl.settings.batch.options import Options
from hdrl.settings.batch.workload import shipped_workloads

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))
OF_BATCH = [path for path in EXAMPLES if json.loads(path.read_text()).get("setting", "batch") == "batch"]
LEAST = {"platform_file_path": "gaia", "workload_file_path": "w.swf"}

VERSION_0_1_0 = {
    "seed": 20091995,
    "nb_resources": 2280,
    "nb_jobs": 1000,
    "workload_file_path": "w.swf",
    "platform_file_path": "gaia.json",
    "pybatsim": {
        "log_level": "DEBUG",
        "env": {"objective": "avg_job_slowdown", "queue_sensitivity": 0.05},
        "agent": {"policy_pair": "first-low_energy", "run": "test", "hidden": 64, "lr": 0.001, "gamma": 0.99},
    },
}
VERSION_0_3_1 = {
    "seed": 2009,
    "nb_resources": 175,
    "nb_jobs": 1000,
    "workload_file_path": "w.swf",
    "platform_file_path": "p.json",
    "pybatsim": {
        "log_level": "DEBUG",
        "env": {
            "objective": "avg_utilization",
            "actions": {"selection": [{"shortest": ["high_mem_bw"]}], "void": False},
            "observation": "normal",
            "queue_sensitivity": 0.05,
        },
        "agent": {"type": "CLASSIC"},
        "seed": 7,
    },
}


def refusal(data: object, *overrides: str) -> str:
    with pytest.raises(OptionsError) as caught:
        parse_options(data, where="options.json", overrides=overrides)
    return str(caught.value)


def test_0_1_0_names_its_policy():
    options = parse_options(VERSION_0_1_0)
    assert options.policy() == "first-low_energy"
    assert options.agent_type == "CLASSIC"
    assert (options.seed, options.nb_jobs) == (20091995, 1000)


def test_0_3_1_has_one_action():
    options = parse_options(VERSION_0_3_1)
    assert options.policy() == "shortest-high_mem_bw"
    assert options.seed == 2009, "the copy that HDeepRM leaves under pybatsim must not count"


def test_defaults_are_filled_in():
    options = parse_options(LEAST)
    assert len(options.pybatsim.env.actions.pairs()) == 36
    assert options.pybatsim.env.actions.pairs()[13] == "shortest-high_gflops", "numbered as in HDeepRM 0.3"
    assert options.pybatsim.env.actions.void
    assert (options.simulator, options.contention, options.energy) == ("embedded", "step", True)
    assert options.compatibility is None
    assert options.workload.run_time == "trace"


@pytest.mark.parametrize("path", OF_BATCH, ids=lambda path: path.name)
def test_examples_are_good(path: Path):
    options = read_options(path)
    assert options.agent_type == "LEARNING" or options.policy()
    workload = options.workload.custom or options.workload_file_path
    assert workload in shipped_workloads() or options.path_of(workload).parent.resolve() == ROOT / "workloads"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_resolved_options_are_options(path: Path):
    options = read_options(path)
    again = parse_options(json.loads(json.dumps(options.portable())))
    assert again.portable() == options.portable()
    assert again.sha256() == options.sha256()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("pybatsim.agent.learning_rte=0.1", "--set: pybatsim.agent has no key 'learning_rte'; did you mean 'lr'?"),
        ("pybatsim.agent.gama=0.1", "--set: pybatsim.agent has no key 'gama'; did you mean 'gamma'?"),
        ("policy_pair=first-random", "--set: the file has no key 'policy_pair'; it belongs to pybatsim.agent"),
        ("pybatsim.agent.seed=1", "--set: pybatsim.agent has no key 'seed'; it belongs at the top"),
        ("pybatsim.env.actions.viod=true", "--set: pybatsim.env.actions has no key 'viod'; did you mean 'void'?"),
        ("seed=-1", "--set: seed is -1, expected at least 0"),
        ("seed=4294967296", "--set: seed is 4294967296, expected at most 4294967295"),
        ("seed=2.5", "--set: seed is 2.5, expected a whole number"),
        ("seed=true", "--set: seed is true, expected a whole number"),
        ("seed=abc", "--set: seed is 'abc', expected a whole number"),
        ("pybatsim.agent.gamma=NaN", "--set: pybatsim.agent.gamma is NaN, expected a finite number"),
        ("pybatsim.agent.gamma=1.5", "--set: pybatsim.agent.gamma is 1.5, expected at most 1"),
        ("pybatsim.env.queue_sensitivity=0", "--set: pybatsim.env.queue_sensitivity is 0, expected more than 0"),
        ("pybatsim.agent.hidden=1e400", "--set: pybatsim.agent.hidden is Infinity, expected a whole number"),
        ("pybatsim.agent.type=CLASSSIC", "--set: pybatsim.agent.type is 'CLASSSIC'; did you mean 'CLASSIC'?"),
        ("pybatsim.env.objective=makspan", "--set: pybatsim.env.objective is 'makspan'; did you mean 'makespan'?"),
        ("compatibility=hdeeprm", "--set: compatibility is 'hdeeprm'; did you mean 'hdeeprm-0.3.1'?"),
        ("energy=1", "--set: energy is 1, expected true or false"),
        ("pybatsim.agent=5", "--set: pybatsim.agent is 5, expected an object"),
        ("pybatsim.env.actions.selection=4", "--set: pybatsim.env.actions.selection is 4, expected a list"),
        (
            'pybatsim.env.actions.selection=[{"smalest": ["random"]}]',
            "--set: pybatsim.env.actions.selection[0] has no selection 'smalest'; did you mean 'smallest'?",
        ),
        (
            'pybatsim.env.actions.selection=[{"first": ["high_gflop"]}]',
            "--set: pybatsim.env.actions.selection[0].first[0] is 'high_gflop'; did you mean 'high_gflops'?",
        ),
        ("seed.x=4", "options.json: seed is an object, expected a whole number"),
        ("workload.oversized.x=4", "--set: workload.oversized is an object; known: error, drop"),
        ("platform_file_path=", "--set: platform_file_path is '', expected text that is not empty"),
        ("nonsense", "--set nonsense: expected KEY=VALUE, for instance pybatsim.agent.policy_pair=first-random"),
        ("a..b=1", "--set a..b=1: expected KEY=VALUE, for instance pybatsim.agent.policy_pair=first-random"),
    ],
)
def test_each_mistake_is_one_line(override: str, message: str):
    found = refusal(LEAST, override)
    assert found.replace("--set:", "options.json:") == message.replace("--set:", "options.json:")
    assert found == message or override.startswith(("seed.x", "workload.oversized.x"))


def test_the_file_is_named_where_the_mistake_is_its_own():
    data = LEAST | {"pybatsim": {"agent": {"learning_rte": 0.1}}}
    assert refusal(data) == "options.json: pybatsim.agent has no key 'learning_rte'; did you mean 'lr'?"


def test_several_mistakes_are_counted():
    assert refusal(LEAST | {"seed": -1, "nb_jobs": 0, "energy": 1}).endswith("(and 2 more problems)")


def test_what_is_missing_is_said():
    assert refusal({"workload_file_path": "w.swf"}).startswith("options.json: platform_file_path is missing, expected")
    assert "workload_file_path is missing or empty" in refusal({"platform_file_path": "gaia"})
    assert parse_options({"platform_file_path": "gaia", "workload": {"custom": "own.json"}}).workload_file_path == ""


@pytest.mark.parametrize("data", [None, 5, [], "text"])
def test_the_file_holds_an_object(data: object):
    assert refusal(data).endswith(", expected an object")


def test_nan_in_a_file_is_refused(tmp_path: Path):
    path = tmp_path / "options.json"
    path.write_text('{"platform_file_path": "gaia", "workload_file_path": "w", "pybatsim": {"agent": {"lr": NaN}}}')
    with pytest.raises(ReadError, match="holds NaN, expected finite numbers"):
        read_options(path)


def test_overrides_are_typed():
    options = parse_options(
        LEAST,
        overrides=[
            "seed=5",
            "pybatsim.agent.gamma=0.9",
            "energy=false",
            "platform_file_path=mc2",
            'pybatsim.env.actions.selection=[{"first": ["random"]}]',
            "workload.walltime=null",
        ],
    )
    assert (options.seed, options.pybatsim.agent.gamma, options.energy) == (5, 0.9, False)
    assert options.platform_file_path == "mc2"
    assert options.policy() == "first-random"


def test_parsing_does_not_change_its_input():
    data = copy.deepcopy(VERSION_0_3_1)
    parse_options(data, overrides=["pybatsim.agent.policy_pair=first-random", "seed=1"])
    assert data == VERSION_0_3_1


def test_several_pairs_need_a_choice():
    several = copy.deepcopy(VERSION_0_3_1)
    several["pybatsim"]["env"]["actions"]["selection"] = [{"first": ["high_mem", "random"]}, {"smallest": ["random"]}]
    options = parse_options(several, where="options.json")
    with pytest.raises(OptionsError, match=r"exactly one policy pair, but .* has 3; .*--set pybatsim.agent.policy_"):
        options.policy()
    compatible = parse_options(several, overrides=["compatibility=hdeeprm-0.3.1"])
    assert compatible.policy() == "first-high_mem", "HDeepRM's classic agent always takes action 0"
    chosen = parse_options(several, overrides=["pybatsim.agent.policy_pair=smallest-random"])
    assert chosen.policy() == "smallest-random"


def test_all_pairs_in_compatibility_mode_mean_the_first():
    assert parse_options(LEAST, overrides=["compatibility=hdeeprm-0.3.1"]).policy() == "random-random"


def test_compatibility_leaves_no_choice_of_workload_models():
    compatible = "compatibility=hdeeprm-0.3.1"
    message = refusal(LEAST, compatible, "workload.memory=none")
    assert message == "options.json: workload.memory cannot be chosen together with compatibility 'hdeeprm-0.3.1'"
    assert parse_options(LEAST, overrides=[compatible, "workload.oversized=drop", "workload.memory=log"])


@pytest.mark.parametrize("compatibility", ["null", "hdeeprm-0.3.1"])
def test_no_pair_is_refused(compatibility: str):
    options = parse_options(
        LEAST, overrides=["pybatsim.env.actions.selection=[]", f"compatibility={compatibility}"], where="options.json"
    )
    with pytest.raises(OptionsError, match="selection has 0"):
        options.policy()


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        ({}, "CLASSIC"),
        ({"type": "LEARNING"}, "LEARNING"),
        ({"hidden": 16}, "LEARNING"),
        ({"hidden": 16, "policy_pair": "first-random"}, "CLASSIC"),
        ({"hidden": 16, "type": "CLASSIC"}, "CLASSIC"),
        ({"run": "train"}, "CLASSIC"),
    ],
)
def test_kind_of_agent(agent: dict[str, object], kind: str):
    assert parse_options(LEAST | {"pybatsim": {"agent": agent}}).agent_type == kind


def test_paths_start_from_the_options_file(tmp_path: Path):
    (tmp_path / "options.json").write_text(json.dumps(LEAST))
    options = read_options(tmp_path / "options.json")
    assert options.path_of("w.swf") == tmp_path / "w.swf"
    assert options.path_of("/elsewhere/w.swf") == Path("/elsewhere/w.swf")


def test_the_hash_tells_options_apart_and_not_places(tmp_path: Path):
    here = parse_options(LEAST)
    assert here.sha256() == parse_options(LEAST, where="other.json", folder=tmp_path).sha256()
    assert here.sha256() != parse_options(LEAST, overrides=["seed=1"]).sha256()
    absolute = parse_options(LEAST, overrides=[f"workload_file_path={tmp_path}/w.swf"])
    assert absolute.portable()["workload_file_path"] == "w.swf"


def test_changed_options_are_checked_and_keep_their_place(tmp_path: Path):
    options = parse_options(LEAST, where="options.json", folder=tmp_path).changed(seed=9, runs=1)
    assert (options.seed, options.folder, options.where) == (9, tmp_path, "options.json")


@pytest.mark.parametrize("kind", ["Options", "Sweep"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_schema_describes_every_key(setting: str, kind: str):
    model = getattr(SETTINGS[setting].inputs, kind)
    schema = schema_of(model)
    assert schema["additionalProperties"] is False
    blocks = [schema, *schema["$defs"].values()]
    lacking = [
        f"{block['title']}.{key}"
        for block in blocks
        for key, value in block.get("properties", {}).items()
        if "description" not in value
    ]
    assert not lacking
    assert set(schema["properties"]) == set(model.model_fields)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def read_or_message(data: object, *overrides: str) -> Options | str:
    try:
        return parse_options(data, where="options.json", overrides=overrides)
    except HdrlError as error:
        return str(error)


def positions(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += positions(inner, (*path, key))
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_options_give_options_or_one_line(data: st.DataObject):
    options = copy.deepcopy(data.draw(st.sampled_from([VERSION_0_1_0, VERSION_0_3_1])))
    path = data.draw(st.sampled_from(positions(options)))
    block = options
    for step in path[:-1]:
        block = block[step]
    if data.draw(st.booleans()):
        block[path[-1]] = data.draw(VALUES)
    elif isinstance(block, dict):
        block[data.draw(st.text(max_size=8))] = block.pop(path[-1])
    parsed = read_or_message(options)
    if isinstance(parsed, str):
        assert parsed.startswith("options.json: ")
        assert len(parsed.splitlines()) == 1
        assert len(parsed) < 500
    else:
        assert parse_options(parsed.portable()).portable() == parsed.portable()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30))
def test_any_override_gives_options_or_one_line(text: str):
    parsed = read_or_message(LEAST, text)
    assert isinstance(parsed, Options) or len(parsed.splitlines()) == 1


def test_learning_has_defaults_and_ranges():
    options = parse_options(LEAST, overrides=["learning.episodes.train=[0, 0.5]", "learning.settings={}"])
    assert options.learning.episodes.train == (0.0, 0.5)
    assert options.learning.episodes.test == (0.7, 1.0)
    assert (options.learning.iterations, options.learning.environment) == (1, "policy_pair")
    assert parse_options(options.portable()).portable() == options.portable()


def test_an_algorithm_means_learning():
    assert parse_options(LEAST, overrides=["learning.algorithm=ppo"]).agent_type == "LEARNING"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning.iteratons=4", "--set: learning has no key 'iteratons'; did you mean 'iterations'?"),
        ("learning.episodes.length=4", "--set: learning.episodes has no key 'length'; did you mean 'n_jobs'?"),
        ("learning.environment=job_pik", "--set: learning.environment is 'job_pik'; did you mean 'job_pick'?"),
        ("learning.n_envs=0", "--set: learning.n_envs is 0, expected at least 1"),
        (
            "learning.episodes.train=[0.7, 0.7]",
            "options.json: learning.episodes.train is [0.7, 0.7], expected two fractions, the first being less",
        ),
        ("learning.episodes.test=[0, 2]", "--set: learning.episodes.test[1] is 2, expected at most 1"),
    ],
)
def test_mistakes_about_learning_are_one_line(override: str, message: str):
    assert refusal(LEAST, override) == message
