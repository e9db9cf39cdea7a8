"""Several workers learn together: what one would have learned, in an order that can be repeated, whoever dies."""

import contextlib
import copy
import importlib.util
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

pytestmark = pytest.mark.usefixtures("one_thread")

from pydantic import ValidationError  # noqa: E402

from hdrl.base.errors import HdrlError, LearningError, OptionsError  # noqa: E402
from hdrl.distributed.training.apex import epsilon_of  # noqa: E402
from hdrl.distributed.training.clock import VirtualClock  # noqa: E402
from hdrl.distributed.training.pool import LocalPool, RoleDied  # noqa: E402
from hdrl.distributed.training.replay import Chunk, SharedReplay  # noqa: E402
from hdrl.distributed.training.server import ParameterServer, parts_of, weights_of  # noqa: E402
from hdrl.learn import Trainer, Transitions, load_checkpoint  # noqa: E402
from hdrl.learn.memory import Outcome  # noqa: E402
from hdrl.learn.policy import step_clipped  # noqa: E402
from hdrl.options.distributed import DelayOptions, DistributedOptions  # noqa: E402

_spec = importlib.util.spec_from_file_location("teams", Path(__file__).with_name("teams.py"))
teams = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(teams)

PAIRS = [("sync", name) for name in ("a2c", "ppo", "d3qn")] + [
    (scheme, "d3qn") for scheme in teams.SCHEMES if scheme != "sync"
]
PAIRS += [(scheme, "rainbow") for scheme in ("sync", "gorila", "apex")]


def weights(trainer) -> list:
    return [one for module in trainer.agent.modules.values() for one in module.parameters()]


def same(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


# ---------------------------------------------------------------------- what one would have learned


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("name", teams.SETTINGS)
def test_one_synchronous_worker_is_the_plain_training(name: str, servers: int) -> None:
    alone = Trainer(teams.agent(name), teams.make_envs(4), seed=1, n_threads=1)
    alone.run(2)
    team = teams.team(name, "sync", workers=1, servers=servers)
    team.run(2)
    assert same(team, alone)
    assert (team.n_steps, team.n_iterations) == (alone.n_steps, 2)


def transitions(n: int) -> Transitions:
    generator = torch.Generator().manual_seed(3)
    shape = teams.make_envs(1).single_observation_space.shape
    n_actions = int(teams.make_envs(1).single_action_space.n)
    return Transitions(
        observations=torch.rand((n, *shape), generator=generator),
        masks=None,
        actions=torch.randint(n_actions, (n,), generator=generator),
        returns=torch.randn(n, generator=generator),
        discounts=torch.full((n,), 0.9),
        next_observations=torch.rand((n, *shape), generator=generator),
        next_masks=None,
        weights=torch.rand(n, generator=generator),
        slots=torch.arange(n),
    )


def part(batch: Transitions, i: int, n: int) -> Transitions:
    """Return the i-th of n equal parts of a batch."""
    size = len(batch.actions) // n
    cut = slice(i * size, (i + 1) * size)
    fields = {name: getattr(batch, name) for name in batch.__slots__}
    return Transitions(**{k: v[cut] if isinstance(v, torch.Tensor) else v for k, v in fields.items()})


@pytest.mark.parametrize("n", [2, 4])
def test_n_workers_with_a_share_of_the_batch_do_what_one_does_with_all_of_it(n: int) -> None:
    # Steps in proportion to the gradient: those of Adam would show how a gradient of 0 was rounded.
    one, batch = teams.agent("d3qn", lr=1.0), transitions(16)
    servers = [ParameterServer(held, weights_of(one)) for held in parts_of(one, 2, "sgd", "here")]
    gradients = []
    for i in range(n):
        worker = teams.agent("d3qn")
        next(worker.gradients(part(batch, i, n)))
        gradients.append([w.grad for w in weights_of(worker)])
    norms = [server.take(gradients)[0] for server in servers]
    for server in servers:
        server.step(norms, 0.1)
    next(one.gradients(batch))
    step_clipped(torch.optim.SGD(weights_of(one), lr=1.0), 0.1)
    held = {position: w for server in servers for position, w in server.weights()[0].items()}
    for position, expected in enumerate(weights_of(one)):
        torch.testing.assert_close(held[position], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", ["sgd", "adagrad", "rmsprop"])
def test_the_rules_of_servers_are_those_of_torch(rule: str) -> None:
    agent = teams.agent("d3qn")
    (held,) = parts_of(agent, 1, rule, "here")
    server = ParameterServer(held, weights_of(agent))
    next(agent.gradients(transitions(8)))
    server.take([[w.grad for w in weights_of(agent)]])
    server.step([], None)
    rules = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "rmsprop": torch.optim.RMSprop}
    step_clipped(rules[rule](weights_of(agent), lr=agent.config.lr), None)
    for position, expected in enumerate(weights_of(agent)):
        torch.testing.assert_close(server.weights()[0][position], expected)


# ---------------------------------------------------------------------- virtual time


def time_of(scheme: str, **options) -> tuple[float, float]:
    """Return virtual seconds per update, and how many gradients were dropped, in the last of two iterations."""
    report = []
    teams.team("a2c", scheme, **options).run(6, on_iteration=report.append)
    last, before = report[-1].losses, report[1].losses
    seconds = last["virtual_time_s"] - before["virtual_time_s"]
    return seconds / 4.0, sum(one.losses["n_dropped_gradients"] for one in report)


def test_a_backup_worker_makes_up_for_a_straggler() -> None:
    slow = {"stragglers": 1, "slowdown": 10.0, "spread": 0.1}
    good, _ = time_of("sync", workers=4, delays={"spread": 0.1})
    waiting, _ = time_of("sync", workers=4, delays=slow)
    helped, dropped = time_of("sync_backup", workers=4, backup=1, delays=slow)
    assert helped <= 1.05 * good
    assert waiting > 8.0 * good
    assert dropped == 0  # all six rounds end before the slow one's first gradient comes


def test_late_gradients_are_dropped() -> None:
    _, dropped = time_of("sync_backup", workers=2, backup=1, delays={"stragglers": 1, "slowdown": 2.5})
    assert dropped == 2  # those that come at 2.5 and 5 s, while the updates are at 1, 2, ... s


def test_staleness_follows_from_delays() -> None:
    report = []
    team = teams.team("a2c", "async", workers=2, push_every=1, fetch_every=1, delays={"stragglers": 1, "slowdown": 3.0})
    team.run(4, on_iteration=report.append)
    # Worker 0 sends at 1, 2, 3, ... s, worker 1 at 3 s, before that of worker 0 since it began before it.
    assert [(one.losses["mean_staleness"], one.losses["virtual_time_s"]) for one in report] == [
        (0.0, 2.0),
        (1.5, 3.0),
        (0.0, 5.0),
        (2.0, 6.0),
    ]


def test_gradients_that_are_too_old_are_not_used() -> None:
    report = []
    options = {"workers": 4, "max_staleness": 2}
    teams.team("a2c", "gorila", **options).run(3, on_iteration=report.append)
    assert sum(one.losses["n_dropped_gradients"] for one in report) > 0
    assert max(one.losses["max_staleness"] for one in report) <= 2


def test_everybody_s_delays_are_a_stream_of_their_own() -> None:
    def dates(n: int) -> list[float]:
        clock = VirtualClock(DelayOptions(spread=0.5), n, 7)
        for number in range(n):
            clock.begin("worker", number, None)
        found = {}
        for _ in range(n):
            _, number = clock.next()
            found[number] = clock.now_s
        return [found[number] for number in range(2)]

    assert dates(2) == dates(5)
    assert len(set(dates(2))) == 2


@pytest.mark.parametrize("scheme", ["sync", "sync_backup", "async", "gorila", "apex"])
def test_virtual_time_holds_for_many_workers(scheme: str) -> None:
    report = []
    team = teams.large_team(scheme, 64, spread=0.2, stragglers=1, slowdown=10.0)
    team.run(3, on_iteration=report.append)
    logs = [one.losses for one in report]
    n_updates = sum(one["n_server_updates"] for one in logs)
    n_dropped = sum(one["n_dropped_gradients"] for one in logs)
    s_per_update = logs[-1]["virtual_time_s"] / n_updates
    if scheme == "sync":
        assert (n_updates, n_dropped) == (6, 0)
        assert 7.0 < s_per_update < 14.0  # the straggler
    elif scheme == "sync_backup":
        assert n_updates == 6
        assert 1.0 < s_per_update < 2.2  # the slowest of 64 good ones
    elif scheme == "apex":
        seconds = [one["virtual_time_s"] for one in logs]
        assert seconds[2] - seconds[1] == pytest.approx(2 * 0.25)  # the learner waits for nobody once it has begun
        assert max(one["max_actor_lag"] for one in logs) > 4  # weights that the straggler acted by
    else:
        assert n_updates + n_dropped == 6 * 64
        assert s_per_update < 1.2 / 63
        assert 50.0 < logs[-1]["mean_staleness"] < 70.0  # the others send one gradient each meanwhile
        assert max(one["max_staleness"] for one in logs) <= (100 if scheme == "gorila" else math.inf)


@pytest.mark.parametrize(("scheme", "name"), PAIRS)
def test_a_worker_that_dies_is_replaced(scheme: str, name: str) -> None:
    report = []
    team = teams.team(name, scheme, delays={"deaths": [[1.5, 1]]})
    team.run(4, on_iteration=report.append)
    assert len(report) == 4
    whole = teams.team(name, scheme)
    whole.run(4)
    assert not same(team, whole)  # what it remembered is lost


# ---------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize(("scheme", "name"), PAIRS)
def test_going_on_after_an_interruption_gives_the_same_bytes(scheme: str, name: str, tmp_path: Path) -> None:
    options = {"delays": {"spread": 0.5, "deaths": [[3.0, 0]]}, "envs": teams.make_same_step}
    whole = teams.team(name, scheme, **options)
    whole.run(4)
    half = teams.team(name, scheme, **options)
    half.run(2)
    teams.fingerprint(half, tmp_path / "half.pt")
    rest = teams.team(name, scheme, **options)
    rest.load_state_dict(load_checkpoint(tmp_path / "half.pt").training_state())
    rest.run(4)
    assert teams.fingerprint(rest, tmp_path / "a.pt") == teams.fingerprint(whole, tmp_path / "b.pt")


class Mortal(LocalPool):
    """A pool of which one dies at its n-th call, as its process would."""

    def __init__(self, n: int) -> None:
        self.n_left = n

    def call(self, member, method, *arguments, **named):
        self.n_left -= 1
        if self.n_left == 0:
            raise RoleDied("killed")
        return super().call(member, method, *arguments, **named)

    def content(self, handle):
        return copy.deepcopy(handle.content)  # it came from another process


@pytest.mark.parametrize("scheme", ["sync", "async", "apex"])
def test_after_a_real_death_the_iterations_since_the_last_save_are_done_again(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hdrl.distributed.training import trainer

    whole = teams.team("d3qn", scheme)
    whole.run(1)
    whole.state_dict()
    whole.run(4)
    pools = [Mortal(70), LocalPool()]
    monkeypatch.setattr(trainer, "open_pool", lambda *_: contextlib.nullcontext(pools.pop(0)))
    numbers = []
    team = teams.team("d3qn", scheme)
    team.run(1)
    team.state_dict()
    team.run(4, on_iteration=lambda iteration: numbers.append(iteration.number))
    assert pools == []
    assert numbers == [2, 3, 4]
    assert same(team, whole)
    assert team.n_steps == whole.n_steps


def test_a_role_that_dies_again_and_again_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    from hdrl.distributed.training import trainer

    monkeypatch.setattr(trainer, "open_pool", lambda *_: contextlib.nullcontext(Mortal(3)))
    team = teams.team("a2c", "sync")
    with pytest.raises(LearningError, match=r"^workers or servers died 3 times \(killed\)"):
        team.run(1)
    with pytest.raises(LearningError, match="an iteration was interrupted"):
        team.state_dict()


# ---------------------------------------------------------------------- Ape-X


def test_epsilons_of_apex_are_those_of_the_paper() -> None:
    assert [epsilon_of(i, 8) for i in range(8)] == pytest.approx([0.4 ** (1 + i) for i in range(8)])
    assert epsilon_of(0, 1) == 0.4


@pytest.mark.parametrize(("name", "epsilons"), [("d3qn", [0.4, 0.4**8]), ("rainbow", [0.0, 0.0])])
def test_noisy_actors_have_no_epsilon_of_their_own(name: str, epsilons: list, monkeypatch: pytest.MonkeyPatch) -> None:
    from hdrl.distributed.training import apex

    seen = []
    real = apex.all_weights

    def noted(agent):
        seen.append(agent.epsilon)
        return real(agent)

    monkeypatch.setattr(apex, "all_weights", noted)
    team = teams.team(name, "apex")
    team.run(1)
    team.close()
    assert all(epsilon in seen for epsilon in epsilons)
    assert (0.4 in seen) == (name == "d3qn")


def outcome(reward: float, n: int = 2) -> Outcome:
    no = torch.zeros(n, dtype=torch.bool)
    return Outcome(torch.full((n,), reward), no, no, ~no, None)


def test_the_shared_replay_keeps_actors_apart_and_takes_their_priorities() -> None:
    replay = SharedReplay(
        2, 2, capacity=32, batch_size=4, gamma=0.5, generator=torch.Generator(), alpha=1.0, smallest_error=0.0
    )

    def chunk(number: int, values: list[float], errors: list[float]) -> Chunk:
        choices = tuple((torch.full((2, 1), v), None, torch.zeros(2, dtype=torch.int64)) for v in values)
        return Chunk(number, choices, tuple(outcome(v) for v in values), torch.tensor(errors))

    # The newest step of each environment waits for what follows it: 2 of 3 steps are complete.
    assert replay.add(chunk(0, [1.0, 2.0, 3.0], [0.1, 0.2, 0.3, 0.4])).tolist() == [0, 8, 1, 9]
    assert replay.add(chunk(1, [7.0, 8.0], [5.0, 6.0])).tolist() == [16, 24]
    assert replay.add(chunk(0, [4.0], [0.5, 0.6])).tolist() == [2, 10]
    assert replay.tree.priorities[[0, 1, 2, 8, 9, 10, 16, 24]].tolist() == pytest.approx(
        [0.1, 0.3, 0.5, 0.2, 0.4, 0.6, 5.0, 6.0]
    )
    drawn = replay.transitions(torch.tensor([2, 16]).numpy(), torch.ones(2))
    assert drawn.returns.tolist() == [3.0, 7.0]
    assert drawn.next_observations.flatten().tolist() == [4.0, 8.0]

    replay.cut(0)  # the next steps of its environments are those of another actor
    assert replay.add(chunk(0, [5.0, 6.0], [0.7, 0.8])).tolist() == [4, 12]
    assert replay.tree.priorities[[2, 3]].tolist() == pytest.approx([0.5, 0.0])


def test_a_replay_that_is_full_at_once_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"capacity is 128, expected at least 168 for 4 env.* that send 20 steps"):
        teams.team("d3qn", "apex", push_every=20)


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheme": "synk"}, "sync"),
        ({"scheme": "sync", "backup": 1}, "only scheme sync_backup has backups, expected 0"),
        ({"scheme": "sync_backup"}, "expected at least 1 with scheme sync_backup"),
        ({"scheme": "gorila", "push_every": 2}, "push_every is for the schemes async and apex, not gorila"),
        ({"scheme": "async", "push_every": 2, "fetch_every": 3}, "expected a multiple of push_every, 2"),
        ({"scheme": "apex", "servers": 2}, "expected neither servers nor rule"),
        ({"scheme": "sync", "delays": {"deaths": [[1, 2]]}}, "names worker 2 at 1 s, expected 0 to 1"),
        ({"scheme": "sync", "delays": {"deaths": [[1, 0, 2]]}}, r"deaths\.0\n.*at most 2 items"),
        ({"scheme": "sync", "delays": {"stragglers": 3}}, "stragglers is 3, but there are 2 workers"),
    ],
)
def test_options_that_do_not_fit_together(options: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DistributedOptions.model_validate(options)


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"learning\.n_envs is 4, expected a multiple .*workers, 3: 6, for instance"):
        teams.team("a2c", "sync", workers=3)
    with pytest.raises(OptionsError, match=r"servers is 99, but the networks have \d+ tensors"):
        teams.team("a2c", "sync", servers=99)
    with pytest.raises(OptionsError, match="PPO makes several steps with each batch, expected 'sync'"):
        teams.team("ppo", "async")
    with pytest.raises(OptionsError, match="'apex', which needs a replay, expected dqn, d3qn or rainbow, not A2C"):
        teams.team("a2c", "apex")
    with pytest.raises(OptionsError, match=r"expected 'virtual', or --on ray"):
        teams.team("a2c", "sync", order="arrival")
    with pytest.raises(HdrlError, match="no location 'moon'"):
        teams.team("a2c", "sync", on="moon")
