"""An agent for each configuration: whose weights it begins with, when what counts, and the same bytes again."""

import functools
import importlib.util
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from pydantic import ValidationError  # noqa: E402

from hdrl.base.errors import OptionsError  # noqa: E402
from hdrl.distributed.training import ConfigurationTrainer, configurations  # noqa: E402
from hdrl.learn import load_checkpoint  # noqa: E402
from hdrl.options.distributed import DistributedOptions  # noqa: E402

_spec = importlib.util.spec_from_file_location("teams", Path(__file__).with_name("teams.py"))
teams = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(teams)

N_BATCHES = teams.SETTINGS["d3qn"]["updates_per_iteration"]
POINTS, trainer = teams.POINTS, teams.tour


def equal(one, other) -> bool:
    return all(torch.equal(one[name][key], other[name][key]) for name in one for key in one[name])


class Seen:
    """Notes with which weights, and how explored, agents begin their visits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.visits: list = []
        real = configurations.DistributedTrainer

        def made(agent, make, *rest, **named):
            state = {name: dict(part) for name, part in agent.state_dict()["modules"].items()}
            copied = {name: {key: one.clone() for key, one in part.items()} for name, part in state.items()}
            self.visits.append((make.keywords["share"][0], copied, agent.n_explored))
            return real(agent, make, *rest, **named)

        monkeypatch.setattr(configurations, "DistributedTrainer", made)


def learned(team: ConfigurationTrainer) -> dict:
    return {POINTS.index(one.point): one.modules for one in team.specialists}


@pytest.mark.parametrize(
    ("reliance", "teachers"),
    [("none", [None, None, None, None]), ("carried", [None, 0, 1, 2]), ("nearest", [None, 0, 0, 1])],
)
def test_an_agent_begins_with_the_weights_that_were_asked_for(
    reliance: str, teachers: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    team = trainer(reliance=reliance, visit_iterations=2)
    first = seen.visits.pop(0)[1]  # the trial at the beginning
    for turn, teacher in enumerate(teachers):
        before = learned(team)
        team.run(2 * turn + 2)
        number, begun_with, _ = seen.visits[turn]
        assert number == turn
        assert equal(begun_with, first if teacher is None else before[teacher])
        assert not equal(begun_with, learned(team)[turn])
    before = learned(team)
    team.run(9)  # the first one again
    assert equal(seen.visits[4][1], before[3 if reliance == "carried" else 0])


def test_weights_that_the_agent_is_given_before_the_first_iteration_are_what_all_begin_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Seen(monkeypatch)
    team = trainer()
    with torch.no_grad():
        for one in team.agent.network.parameters():
            one += 1.0
    team.run(2)
    given = seen.visits[1][1]
    assert not equal(given, seen.visits[0][1])
    assert equal(seen.visits[2][1], given)


@pytest.mark.parametrize(("epsilon", "explored"), [("visit", "0"), ("configuration", "own"), ("all", "all")])
def test_random_actions_become_rarer_with_the_steps_that_were_asked_for(
    epsilon: str, explored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen(monkeypatch)
    team = trainer(reliance="carried", epsilon=epsilon, points=POINTS[:2])
    counts: list[dict] = []
    team.run(4, on_iteration=lambda _: counts.append({k: one["n_explored"] for k, one in team._learned.items()}))
    begun_with = [visit[2] for visit in seen.visits[1:]]
    ends = [counts[0][0], counts[1][1], counts[2][0], counts[3][1]]
    assert min(ends) > 0
    assert begun_with == {"0": [0] * 4, "own": [0, 0, ends[0], ends[1]], "all": [0, *ends[:3]]}[explored]


def test_both_allotments_make_as_many_steps_and_their_time_is_that_of_the_virtual_cluster() -> None:
    delays = {"compute_s": 1.0, "network_s": 0.25}
    rows: dict[str, list] = {}
    for allotment in ("simulations", "configurations"):
        team = trainer(delays=delays, allotment=allotment, visit_iterations=2)
        rows[allotment] = []
        team.run(8, on_iteration=lambda one, mine=rows[allotment]: mine.append((one.n_steps, one.losses)))
        assert len(team.specialists) == 4
    split, own = rows["simulations"], rows["configurations"]
    # All together talk to the server for every batch; a worker alone when a visit begins and ends.
    assert [losses["virtual_time_s"] for _, losses in split] == [1.5 * N_BATCHES * n for n in range(1, 9)]
    assert [losses["virtual_time_s"] for _, losses in own] == [
        N_BATCHES * n + (0.5 if n < 5 else 1.0) for n in range(1, 9)
    ]
    assert own[-1][0] == pytest.approx(split[-1][0], rel=0.15)  # but for the steps before learning begins
    assert [losses["n_configurations"] for _, losses in split] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [losses["n_configurations"] for _, losses in own] == [2, 2, 2, 2, 4, 4, 4, 4]


def test_the_configurations_of_a_straggler_come_late() -> None:
    team = trainer(allotment="configurations", visit_iterations=1, delays={"stragglers": 1, "slowdown": 10.0})
    team.run(2)
    # Worker 1 takes ten times as long: meanwhile worker 0 has visited both of its configurations.
    assert sorted(learned(team)) == [0, 1]


@pytest.mark.parametrize("allotment", ["simulations", "configurations"])
def test_going_on_within_a_visit_gives_the_same_bytes(allotment: str, tmp_path: Path) -> None:
    options = {"reliance": "nearest", "allotment": allotment, "visit_iterations": 2}
    make = functools.partial(trainer, **options, delays={"spread": 0.5})
    whole, half, rest = make(), make(), make()
    whole.run(5)
    half.run(3)
    teams.fingerprint(half, tmp_path / "half.pt")
    rest.load_state_dict(load_checkpoint(tmp_path / "half.pt").training_state())
    rest.run(5)
    assert teams.fingerprint(rest, tmp_path / "a.pt") == teams.fingerprint(whole, tmp_path / "b.pt")
    for one in (whole, half, rest):
        one.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"visit_iterations": 2}, "visit_iterations is for one agent for each configuration, expected"),
        ({"epsilon": "all"}, "epsilon is for one agent for each configuration"),
        ({"reliance": "none", "order": "arrival"}, "order arrival is for reliance pooled, not none"),
        ({"reliance": "none", "delays": {"deaths": [[1, 0]]}}, r"delays.deaths is for reliance pooled"),
        (
            {"scheme": "gorila", "reliance": "none", "allotment": "configurations"},
            "scheme is gorila, but with allotment configurations .* each worker learns by itself, expected sync",
        ),
    ],
)
def test_options_that_do_not_fit_together(options: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DistributedOptions.model_validate({"scheme": "sync", **options})


def test_what_cannot_be_trained_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"'none', but there is one configuration to train on, expected at least 2"):
        trainer(points=POINTS[:1])
    with pytest.raises(OptionsError, match=r"are 3 configurations to train on, expected at least 4, or reliance 'pool"):
        trainer(points=POINTS[:3], allotment="configurations", workers=4)
    with pytest.raises(OptionsError, match=r"A2C has no share of random actions, expected 'visit'"):
        trainer("a2c", epsilon="all")
    with pytest.raises(OptionsError, match=r"n_envs is 4, expected a multiple"):
        trainer(workers=3, allotment="configurations")


def test_files_of_trainings_without_it_stay_as_they_were() -> None:
    plain = DistributedOptions(scheme="sync").model_dump(mode="json")
    assert not {"reliance", "visit_iterations", "epsilon"} & set(plain)
    again = DistributedOptions.model_validate({"scheme": "sync", "reliance": "nearest", "epsilon": "all"})
    assert DistributedOptions.model_validate(again.model_dump(mode="json")) == again
