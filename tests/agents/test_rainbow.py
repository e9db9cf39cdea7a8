"""Noisy weights and distributions of returns: what they are made of, and that DQN learns with both."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import load_agent, make_agent  # noqa: E402
from hdrl.base.errors import LearningError, OptionsError  # noqa: E402
from hdrl.learn import NETWORKS, NetworkConfig, Transitions, build_network, checkpoint_of, save_checkpoint  # noqa: E402
from hdrl.learn.atoms import atoms_of, project  # noqa: E402
from hdrl.learn.networks.layers import linear  # noqa: E402
from hdrl.learn.networks.noisy import NoisyLinear, make_noisy, noise_in  # noqa: E402
from hdrl.testing.toys import IdentityEnvs, ShortestRowEnvs  # noqa: E402

ONE_NUMBER_EACH = tuple(f"dissertation_{name}" for name in ("small", "deep", "large", "attention"))
SHAPES = {"sequence": (7,), **dict.fromkeys(ONE_NUMBER_EACH, (64,))}


def rng(seed: int = 0):
    return torch.Generator().manual_seed(seed)


def agent(**settings):
    envs = IdentityEnvs(2)
    return make_agent("dqn", envs.single_observation_space, envs.single_action_space, seed=1, hidden=(8,), **settings)


# ------------------------------------------------------------------ distributions


def looped(chances, returns, discounts, low: float, high: float) -> list[list[float]]:
    """Algorithm 1 of Bellemare et al., in plain Python."""
    n_atoms = len(chances[0])
    gap = (high - low) / (n_atoms - 1)
    rows = []
    for row, earned, discount in zip(chances, returns, discounts, strict=True):
        found = [0.0] * n_atoms
        for j, chance in enumerate(row):
            moved = min(max(earned + discount * (low + j * gap), low), high)
            place = (moved - low) / gap
            below, above = math.floor(place), math.ceil(place)
            if below == above:
                found[below] += chance
            else:
                found[below] += chance * (above - place)
                found[above] += chance * (place - below)
        rows.append(found)
    return rows


@pytest.mark.parametrize(("low", "high", "n_atoms"), [(-10.0, 10.0, 51), (0.0, 1.0, 2), (-3.0, 0.5, 8)])
def test_distributions_are_projected_as_the_plain_loop_does(low: float, high: float, n_atoms: int) -> None:
    chances = torch.softmax(torch.randn((40, n_atoms), generator=rng(1)), -1)
    returns = 3.0 * torch.randn(40, generator=rng(2))
    discounts = torch.rand(40, generator=rng(3))
    returns[0], discounts[0] = 0.0, 1.0  # stays where it is
    returns[1], discounts[1] = high, 0.0  # the end of an episode, on the last atom
    returns[2], discounts[2] = 100.0, 1.0  # wholly beyond it
    found = project(chances, returns, discounts, atoms_of((low, high), n_atoms))
    expected = looped(chances.double().tolist(), returns.tolist(), discounts.tolist(), low, high)
    assert found.numpy() == pytest.approx(np.array(expected), abs=2e-6)
    assert found[0].tolist() == pytest.approx(chances[0].tolist(), abs=2e-6)
    assert found[2, -1] == pytest.approx(1.0, abs=1e-6)
    assert found.sum(-1).tolist() == pytest.approx([1.0] * 40, abs=1e-5)


def test_a_projection_within_the_range_keeps_the_mean() -> None:
    atoms = atoms_of((-2.0, 2.0), 9)
    found = project(torch.full((1, 9), 1 / 9), torch.tensor([0.3]), torch.tensor([0.7]), atoms)
    assert float(found @ atoms) == pytest.approx(0.3, abs=1e-6)
    # By hand: 0.8 lies 3/5 of the way from 0.5 to 1.
    found = project(torch.eye(9)[4:5], torch.tensor([0.8]), torch.tensor([0.9]), atoms)
    assert found[0].tolist() == pytest.approx([0, 0, 0, 0, 0, 0.4, 0.6, 0, 0], abs=1e-6)


def transitions(n: int = 4) -> Transitions:
    seen, actions, nothing = torch.eye(4), torch.arange(n), torch.zeros(n)
    weights = torch.tensor([1.0, 0.5, 0.25, 1.0])
    return Transitions(seen, None, actions, nothing + 0.3, nothing, seen, None, weights, actions)


def test_the_loss_is_the_weighed_divergence_from_the_projected_distribution() -> None:
    mine = agent(n_atoms=5, value_range=(-1.0, 1.0))
    batch = transitions()
    log_chances = torch.log_softmax(mine.network.logits(batch.observations, None), -1).detach()[range(4), range(4)]
    target = torch.tensor([0.0, 0.0, 0.4, 0.6, 0.0])  # all episodes end with 0.3
    divergences = [
        sum(float(t) * (math.log(float(t)) - float(p)) for t, p in zip(target, row, strict=True) if t > 0)
        for row in log_chances
    ]
    told = mine.learn(batch)
    expected = sum(w * d for w, d in zip(batch.weights.tolist(), divergences, strict=True)) / 4
    assert told["loss"] == pytest.approx(expected, rel=1e-5)
    assert batch.errors.tolist() == pytest.approx(divergences, rel=1e-5)
    assert told["edge_share"] == 0.0
    assert told["mean_value"] == pytest.approx(float((log_chances.exp() @ atoms_of((-1, 1), 5)).mean()), abs=1e-6)


@pytest.mark.parametrize("is_double", [False, True])
def test_the_next_distribution_is_that_of_the_best_legal_action(is_double: bool) -> None:  # noqa: FBT001
    mine = agent(n_atoms=3, value_range=(-1.0, 1.0), is_double=is_double, is_dueling=True)
    with torch.no_grad():
        for module, seed in ((mine.target, 4), (mine.network, 5)):
            for parameter in module.parameters():
                parameter.normal_(generator=rng(seed))
    mask = torch.tensor([[True, True, False, False]] * 4)
    batch = transitions()
    batch.next_masks = mask
    chooser = mine.network if is_double else mine.target
    best = mine.action_values(chooser, torch.eye(4), mask).argmax(-1)
    assert (best < 2).all()
    chances = mine._next_chances(batch)
    values = mine.action_values(mine.target, torch.eye(4), mask)
    assert (chances @ mine.atoms).tolist() == pytest.approx(values[range(4), best].tolist(), abs=1e-6)
    # The advantages of legal actions alone add up to nothing.
    advantages, critic = mine.target.both(torch.eye(4), mask)
    outputs = mine._outputs(mine.target, torch.eye(4), mask)
    assert torch.allclose(outputs[:, :2].mean(1), critic, atol=1e-6)
    assert advantages.shape == (4, 4, 3)


@pytest.mark.parametrize("network", ONE_NUMBER_EACH)
def test_networks_without_atoms_say_so(network: str) -> None:
    with pytest.raises(LearningError, match="one number for each action, not 5"):
        build_network(NetworkConfig(network=network), (64,), 6, rng(), n_atoms=5)


@pytest.mark.parametrize("network", [name for name in NETWORKS if name not in ONE_NUMBER_EACH])
def test_every_other_network_gives_as_many_numbers_as_there_are_atoms(network: str) -> None:
    shape = SHAPES.get(network, (6, 3))
    config = NetworkConfig(network=network)
    made = build_network(config, shape, 7, rng(), n_atoms=5)
    seen = torch.rand((4, *shape), generator=rng(1))
    mask = torch.ones((4, 7), dtype=torch.bool)
    mask[:, 2] = False
    for legal in (None, mask):
        logits, values = made.both(seen, legal)
        assert logits.shape == (4, 7, 5)
        assert values.shape == (4, 5)
        assert torch.equal(logits, made.logits(seen, legal))
        assert torch.equal(values, made.values(seen, legal))
    assert (logits[:, 2] < -1e29).all()
    assert (logits[:, [0, 1, 3, 4, 5, 6]] > -1e3).all()


def test_networks_that_know_nothing_of_atoms_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(config, observation_shape, n_actions, generator, *, has_critic):
        return NETWORKS["mlp"](config, observation_shape, n_actions, generator, has_critic=has_critic)

    monkeypatch.setitem(NETWORKS._items, "plain", plain)
    assert agent(network="plain").atoms is None
    with pytest.raises(LearningError, match="'plain' gives one number for each action, not 51 atoms"):
        agent(network="plain", n_atoms=51)


# ------------------------------------------------------------------ noise


def test_noise_has_the_factors_and_the_spread_of_the_paper() -> None:
    plain = linear(9, 4, rng(), gain=1.0)
    layer = NoisyLinear(plain, 0.6)
    assert layer.spread_weight.flatten().tolist() == pytest.approx([0.6 / 3] * 36)
    drawn, generator = [], rng(1)
    for _ in range(4000):
        with noise_in(layer, generator):
            drawn.append(torch.cat([layer.weight - plain.weight, layer.bias.unsqueeze(1)], 1).detach())
    noise = torch.stack(drawn) / 0.2
    assert noise.mean(0).abs().max() < 0.08
    # f(x) = sgn(x) sqrt(|x|) has the variance E|x| = sqrt(2 / pi); a weight's noise is a product of two of them.
    variance = math.sqrt(2 / math.pi)
    assert noise[:, :, :9].var() == pytest.approx(variance**2, rel=0.05)
    assert noise[:, :, 9].var() == pytest.approx(variance, rel=0.05)
    assert torch.linalg.matrix_rank(noise[0, :, :9], rtol=1e-4) == 1, "factorised"
    assert len({tuple(one[0].tolist()) for one in noise}) == 4000


def test_without_a_draw_there_is_no_noise_and_spreads_are_learned_with_it() -> None:
    plain = linear(3, 2, rng(), gain=1.0)
    seen = torch.rand((5, 3), generator=rng(2))
    expected = plain(seen)
    layer = NoisyLinear(plain, 0.5)
    assert torch.equal(layer(seen), expected)
    with noise_in(layer, rng(3)):
        out = layer(seen)
        assert torch.equal(out, layer(seen)), "one draw for all that is computed meanwhile"
    assert not torch.equal(out, expected)
    assert torch.equal(layer(seen), expected)
    out.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in layer.parameters())


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_can_be_noisy(network: str) -> None:
    shape = SHAPES.get(network, (6, 3))
    made = build_network(NetworkConfig(network=network), shape, 6, rng())
    seen, mask = torch.rand((4, *shape), generator=rng(1)), torch.ones((4, 6), dtype=torch.bool)
    before = [one.detach() for one in made.both(seen, mask)]
    make_noisy(made, 0.5)
    assert all(torch.equal(one, same) for one, same in zip(made.both(seen, mask), before, strict=True))
    with noise_in(made, rng(2)):
        noisy = made.both(seen, mask)
    assert not any(torch.equal(one, same) for one, same in zip(noisy, before, strict=True))
    sum(one.sum() for one in noisy).backward()
    layers = [one for one in made.modules() if isinstance(one, NoisyLinear)]
    assert layers
    assert all(parameter.grad is not None for layer in layers for parameter in layer.parameters())


def test_noise_explores_and_is_off_in_play() -> None:
    mine = agent(is_noisy=True, noise=3.0, epsilon_first=0.0, epsilon_last=0.0)
    seen, mask = torch.eye(4), torch.tensor([[True, True, True, False]] * 4)
    state = mine.generator.get_state()
    played = {tuple(mine.act(seen, mask, explore=False).actions.tolist()) for _ in range(20)}
    assert len(played) == 1
    chances = mine.probabilities(seen, mask)
    assert torch.equal(mine.generator.get_state(), state), "neither draws from the agent's random numbers"
    assert torch.equal(chances, mine.probabilities(seen, mask))
    assert torch.allclose(chances.sum(-1), torch.ones(4))
    assert not chances[:, 3].any()
    assert ((chances > 0).sum(-1) > 1).any()
    explored = {tuple(mine.act(seen, mask, explore=True).actions.tolist()) for _ in range(40)}
    assert len(explored) > 5
    assert all(max(actions) < 3 for actions in explored)


# ------------------------------------------------------------------ the agent


def test_the_preset_has_all_parts_of_rainbow(tmp_path) -> None:
    envs = ShortestRowEnvs(2)
    made = make_agent("rainbow", envs.single_observation_space, envs.single_action_space, network="kernel")
    config = made.config
    assert (config.is_double, config.is_dueling, config.is_prioritised, config.is_noisy) == (True,) * 4
    assert (config.n_return_steps, config.n_atoms, config.value_range, config.alpha) == (3, 51, (-10.0, 10.0), 0.5)
    assert made.epsilon == 0.0
    path = tmp_path / "model.pt"
    save_checkpoint(path, checkpoint_of(made, "rainbow"))
    torch.load(path, weights_only=True)
    loaded = load_agent(path)
    assert loaded.config == config
    seen = torch.rand((9, *envs.single_observation_space.shape), generator=rng(1))
    assert torch.equal(loaded.probabilities(seen, None), made.probabilities(seen, None))
    assert torch.equal(loaded.act(seen, None, explore=True).actions, made.act(seen, None, explore=True).actions)


def test_models_without_the_new_parts_stay_as_they_were() -> None:
    told = agent().config.as_json()
    assert not {"is_noisy", "noise", "n_atoms", "value_range"} & told.keys()
    told = agent(is_noisy=True, n_atoms=11, value_range=[0, 4]).config.as_json()
    assert (told["is_noisy"], told["noise"], told["n_atoms"], told["value_range"]) == (True, 0.5, 11, [0, 4])


def test_wrong_settings_are_told_in_one_line() -> None:
    cases = [
        ({"n_atoms": 0}, "dqn: n_atoms is 0, expected at least 1"),
        ({"n_atom": 51}, "dqn: no key 'n_atom'; did you mean 'n_atoms'?"),
        ({"noise": 0.0}, "dqn: noise is 0.0, expected more than 0"),
        ({"value_range": [1.0, -1.0]}, "dqn: value_range is [1.0, -1.0], expected the smaller number first"),
        ({"value_range": [1.0]}, "dqn: value_range"),
        ({"value_range": [0.0, math.inf]}, "dqn: value_range[1] is"),
        ({"is_noisy": "yes"}, "dqn: is_noisy is 'yes', expected true or false"),
        ({"alpha": 0.5}, "dqn: alpha is given, but is_prioritised is false, so it would be ignored; leave alpha"),
        ({"value_range": [0.0, 4.0]}, "dqn: value_range is given, but n_atoms is 1, so"),
        ({"noise": 0.2, "is_noisy": False}, "dqn: noise is given, but is_noisy is false"),
    ]
    for settings, message in cases:
        with pytest.raises(OptionsError) as error:
            agent(**settings)
        assert str(error.value).startswith(message), str(error.value)
        assert "\n" not in str(error.value)
