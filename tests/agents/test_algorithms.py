"""Every algorithm learns what is easy to learn, does not learn what cannot be learned, and never breaks a mask."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.agents import ALGORITHMS, make_agent  # noqa: E402
from hdrl.base.errors import LearningError, OptionsError, UnknownName  # noqa: E402
from hdrl.learn import Iteration, Trainer, evaluate  # noqa: E402
from hdrl.learn.threads import use_helper_threads  # noqa: E402
from hdrl.testing.toys import BanditEnvs, ConstantEnvs, IdentityEnvs, ShortestRowEnvs, ToyEnvs  # noqa: E402

REPLAY = {"warm_up": 64, "batch_size": 32, "updates_per_iteration": 16}
Q_LEARNING = {**REPLAY, "lr": 1e-2, "epsilon_steps": 500, "target_every": 20}
LEARNERS = {
    "reinforce": {"lr": 3e-2},
    "a2c": {"lr": 2e-2, "n_steps": 8},
    "ppo": {"lr": 1e-2, "n_steps": 16, "minibatch_size": 64},
    "dqn": Q_LEARNING,
    "d3qn": Q_LEARNING,
    "rainbow": {**Q_LEARNING, "epsilon_steps": 0},
    "sac": {**REPLAY, "lr": 1e-2, "tau": 0.05, "target_entropy": 0.2},
}
VARIANTS = {
    "reinforce with a baseline": {"lr": 3e-2, "has_baseline": True},
    "dqn double": {**Q_LEARNING, "is_double": True},
    "dqn dueling": {**Q_LEARNING, "is_dueling": True},
    "dqn prioritised": {**Q_LEARNING, "is_prioritised": True},
    "dqn n-step": {**Q_LEARNING, "n_return_steps": 3},
    "dqn noisy": {**Q_LEARNING, "is_noisy": True, "epsilon_first": 0.0, "epsilon_last": 0.0},
    "dqn distributional": {**Q_LEARNING, "n_atoms": 51},
}
ALL = {**LEARNERS, **VARIANTS}
TASKS = [(name, seed) for name in LEARNERS for seed in (1, 2, 3)] + [(name, 1) for name in VARIANTS]


def train(name: str, envs: ToyEnvs, seed: int, until: int, **settings) -> Trainer:
    width = {"hidden": (16,)} if "network" not in settings else {}
    arguments = {"gamma": 0.5, **width, **ALL.get(name, {}), **settings}
    spaces = (envs.single_observation_space, envs.single_action_space)
    trainer = Trainer(make_agent(name.split()[0], *spaces, seed=seed, **arguments), envs, seed=seed, n_threads=1)
    trainer.run(n_steps=until)
    return trainer


def mean_return(trainer: Trainer, envs: ToyEnvs, n: int = 200) -> float:
    return float(np.mean([episode["return"] for episode in evaluate(trainer.agent, envs, n, seed=99)]))


def learns(until: int, learned: Callable[[Trainer], bool], train: Callable[[int], Trainer]) -> bool:
    """Return True if a training of at most so many steps learns: it stops where it has, which spares most of it."""
    trainer = train(until // 3)
    for n_steps in (2 * until // 3, until):
        if learned(trainer):
            return True
        trainer.run(n_steps=n_steps)
    return learned(trainer)


@pytest.mark.parametrize(("name", "seed"), TASKS)
def test_it_learns_to_say_what_it_sees(name: str, seed: int) -> None:
    mode = AutoresetMode.SAME_STEP if seed == 2 else AutoresetMode.NEXT_STEP
    envs, judged = (IdentityEnvs(16, is_masked=True, autoreset_mode=mode) for _ in range(2))
    # Of 10; guessing earns 4.
    assert learns(1500, lambda one: mean_return(one, judged, 32) >= 9.0, lambda n: train(name, envs, seed, n))


@pytest.mark.parametrize(("name", "seed"), TASKS)
def test_it_learns_the_best_arm_of_each_context(name: str, seed: int) -> None:
    envs = BanditEnvs(16, noise=0.2, autoreset_mode=AutoresetMode.SAME_STEP)
    best = envs.best(np.arange(envs.n_contexts)).tolist()

    def finds(trainer: Trainer) -> bool:
        return trainer.agent.act(torch.eye(envs.n_contexts), None, explore=False).actions.tolist() == best

    assert learns(2000, finds, lambda n: train(name, envs, seed, n))


@pytest.mark.parametrize("name", ["hdeeprm_reinforce", "hdeeprm_actor_critic"])
def test_the_networks_of_hdeeprm_learn_to_say_what_they_see(name: str) -> None:
    envs = IdentityEnvs(16)
    trainer = train(name, envs, 1, 6000, hidden=(32,), lr=1e-2, entropy_coef=0.02)
    assert mean_return(trainer, envs, 32) >= 9.0


@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns_nothing_where_rewards_have_nothing_to_do_with_actions(name: str) -> None:
    trainer = train(name, IdentityEnvs(16, n_actions=8, is_shuffled=True), 1, 1500)
    assert mean_return(trainer, IdentityEnvs(16, n_actions=8), 32) < 5.0  # learning the true task earns 9


@pytest.mark.parametrize("network", ["kernel", "attention"])
@pytest.mark.parametrize("name", ["reinforce", "a2c", "ppo", "d3qn", "rainbow", "sac"])
def test_it_learns_to_pick_the_shortest_job(name: str, network: str) -> None:
    envs, judged = (ShortestRowEnvs(16, n_rows=6, n_jobs=(2, 6), length=10) for _ in range(2))
    sizes = {"attention_heads": 1, "attention_width": 16} | ({} if network == "kernel" else {"hidden": (32,)})
    sizes |= {"lr": 1e-3} if name == "rainbow" else {}  # noise and steps that large would take it off its way
    assert 10 * float(np.mean([1 / n for n in range(2, 7)])) < 8.0  # what guessing earns
    assert learns(
        4000,
        lambda one: mean_return(one, judged, 40) >= 8.0,
        lambda n: train(name, envs, 1, n, network=network, **sizes),
    )


NEXT_STEP, SAME_STEP = AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("a2c", NEXT_STEP),
        ("a2c", SAME_STEP),
        ("ppo", NEXT_STEP),
        ("dqn", NEXT_STEP),
        ("dqn n-step", SAME_STEP),
        ("dqn noisy", SAME_STEP),
        ("dqn distributional", NEXT_STEP),
        ("sac", SAME_STEP),
    ],
)
def test_an_episode_that_is_cut_off_is_worth_what_would_have_followed(name: str, mode: AutoresetMode) -> None:
    def value(*, is_truncated: bool) -> float:
        envs = ConstantEnvs(8, length=2, is_truncated=is_truncated, autoreset_mode=mode)
        fixed = {"sac": {"is_alpha_learned": False, "alpha": 1e-3, "tau": 0.2}, "a2c": {"lr": 2e-2, "n_steps": 2}}
        until = 1600 if is_truncated else 600  # values that are small are soon found
        trainer = train(name, envs, 1, until, gamma=0.75, max_grad_norm=None, is_scaled=False, **fixed.get(name, {}))
        agent, seen = trainer.agent, torch.ones((1, 1))
        if name == "sac":
            return float(agent.critics[0].logits(seen, None).detach().mean())
        if name.startswith("dqn"):
            return float(agent.action_values(agent.network, seen, None).detach().mean())
        return float(agent.values(seen, None))

    assert value(is_truncated=True) == pytest.approx(4.0, abs=0.4)  # 1 / (1 - 0.75)
    # Ending by itself, the first step is worth 1.75 and the second 1; they look the same. Who learns from whole returns
    # finds their mean, 1.375; who learns one step from the next finds v = 1 + 0.75 v / 2, which is 1.6.
    assert 1.375 - 0.3 <= value(is_truncated=False) <= 1.6 + 0.3


class PricedEnvs(IdentityEnvs):
    """What is earned is paid in a smaller unit."""

    unit = 2.0**30

    def rewards_of(self, actions):
        return self.unit * super().rewards_of(actions)


@pytest.mark.parametrize("name", ["a2c", "ppo", "dqn", "d3qn", "rainbow", "dqn n-step", "sac"])
def test_the_unit_of_rewards_does_not_matter(name: str) -> None:
    plain, priced = (train(name, envs(8, length=3), 1, 240).agent for envs in (IdentityEnvs, PricedEnvs))
    for module, other in zip(plain.modules.values(), priced.modules.values(), strict=True):
        for tensor, same in zip(module.parameters(), other.parameters(), strict=True):
            assert torch.equal(tensor, same)
    unscaled = train(name, PricedEnvs(8, length=3), 1, 240, is_scaled=False).agent
    module, other = next(iter(plain.modules.values())), next(iter(unscaled.modules.values()))
    assert not all(torch.equal(*pair) for pair in zip(module.parameters(), other.parameters(), strict=True))


class Watched(IdentityEnvs):
    """Refuses illegal actions, as its base does, and counts the legal ones."""

    n_stepped = 0

    def step(self, actions):
        type(self).n_stepped += 1
        return super().step(actions)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_masks_are_never_broken(name: str) -> None:
    if ALGORITHMS[name].agent_class().takes_box:
        return  # there are no masks where actions are numbers
    if name == "rlscheduler" or name.startswith("advisor"):
        pytest.skip("its network takes other observations; the tests of their environments watch it")
    envs = Watched(4, n_actions=6, is_masked=True, length=7)
    extra = {"warm_up": 20, "batch_size": 8} if name in ("dqn", "d3qn", "rainbow", "sac") else {}
    agent = make_agent(name, envs.single_observation_space, envs.single_action_space, seed=3, **extra)
    Trainer(agent, envs, seed=3).run(n_steps=200)
    evaluate(agent, envs, 8)
    mask = torch.rand((500, 6), generator=torch.Generator().manual_seed(0)) < 0.4
    mask[:, 0] |= ~mask.any(-1)
    observations = torch.rand((500, 6))
    probabilities = agent.probabilities(observations, mask)
    assert (probabilities[~mask] == 0.0).all()
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(500))
    for explore in (True, False):
        actions = agent.act(observations, mask, explore=explore).actions
        assert mask.gather(1, actions.unsqueeze(-1)).all()


def test_the_temperature_of_sac_aims_at_its_share_of_the_legal_entropy() -> None:
    envs = ConstantEnvs(4, length=5)  # nothing to gain, so that entropy alone counts
    trainer = train("sac", envs, 1, 1000, target_entropy=0.5, alpha=1.0)
    p = trainer.agent.probabilities(torch.ones((1, 1)), None)[0]
    assert float(-(p * p.log()).sum()) > 0.45 * math.log(2)
    assert trainer.agent.alpha < 1.0  # more entropy than asked for makes it cheaper


def test_the_share_of_random_actions_of_dqn_falls_as_set() -> None:
    envs = IdentityEnvs(4)
    settings = {"epsilon_first": 0.8, "epsilon_last": 0.2, "epsilon_steps": 100, "warm_up": 10}
    agent = make_agent("dqn", envs.single_observation_space, envs.single_action_space, **settings)
    seen = torch.eye(4)
    for _ in range(50):
        agent.act(seen[:1], None, explore=True)
    assert agent.epsilon == pytest.approx(0.5)
    agent.act(seen, None, explore=False)
    assert agent.epsilon == pytest.approx(0.5)
    agent.n_explored = 10**6
    assert agent.epsilon == pytest.approx(0.2)
    best = int(agent.act(seen[:1], None, explore=False).actions)
    expected = [0.05] * 4
    expected[best] += 0.8
    assert agent.probabilities(seen[:1], None)[0].tolist() == pytest.approx(expected)


def test_double_learning_lets_the_other_network_judge() -> None:
    from hdrl.learn import Transitions

    envs = IdentityEnvs(2)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = make_agent("dqn", *spaces, is_double=True, seed=1)
    seen = torch.eye(4)
    with torch.no_grad():
        for parameter in agent.target.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(4))
    judged = agent.action_values(agent.target, seen, None)
    mask = torch.ones((4, 4), dtype=torch.bool)
    mask[:, int(agent.action_values(agent.network, seen, None)[0].argmax())] = False
    for legal in (None, mask):
        chosen = agent.action_values(agent.network, seen, legal).argmax(-1)
        nothing = torch.zeros(4)
        batch = Transitions(seen, None, chosen, nothing, nothing, seen, legal, nothing + 1, chosen)
        found = agent._next_values(batch)
        torch.testing.assert_close(found, judged[torch.arange(4), chosen])
        assert not torch.allclose(found, judged.amax(-1))


def test_importance_weights_multiply_each_loss_before_the_mean() -> None:
    from hdrl.learn import Transitions

    envs = IdentityEnvs(2)
    spaces = (envs.single_observation_space, envs.single_action_space)
    agent = make_agent("dqn", *spaces, seed=1)
    seen, actions = torch.eye(4), torch.arange(4)
    values = agent.action_values(agent.network, seen, None).detach()[actions, actions]
    errors, weights = torch.tensor([0.1, 0.2, 3.0, 0.0]), torch.tensor([1.0, 0.5, 0.25, 1.0])
    batch = Transitions(seen, None, actions, values + errors, torch.zeros(4), seen, None, weights, actions)
    # Huber: half the square below 1, the error less a half beyond.
    expected = (1.0 * 0.005 + 0.5 * 0.02 + 0.25 * 2.5) / 4
    assert agent.learn(batch)["loss"] == pytest.approx(expected, rel=1e-4)
    assert batch.errors.tolist() == pytest.approx(errors.tolist(), abs=1e-6)


def test_ppo_ends_an_update_when_the_policy_has_moved_too_far() -> None:
    envs = IdentityEnvs(8)
    settings = {"n_epochs": 50, "lr": 3e-2, "n_steps": 16, "minibatch_size": None}
    spaces = (envs.single_observation_space, envs.single_action_space)
    told = []
    for target in (None, 0.01):
        agent = make_agent("ppo", *spaces, seed=1, target_kl=target, **settings)
        Trainer(agent, envs, seed=1).run(1, on_iteration=told.append)
    assert told[0].losses["n_epochs"] == 50
    assert told[1].losses["n_epochs"] < 10
    assert told[1].losses["approx_kl"] < told[0].losses["approx_kl"]


@pytest.mark.parametrize("settings", [{"entropy_coef": 0.01}, {"target_kl": 1e-3, "lr": 0.05}, {"hidden": (16,)}])
def test_actor_and_critic_of_ppo_learn_apart_as_they_do_together(settings: dict) -> None:
    """The same bits, whether their losses are one sum, two in turn, or two at once in threads of their own."""
    network = {} if "hidden" in settings else {"network": "kernel"}
    found = []
    for is_parted, n_helpers in ((False, 0), (True, 0), (True, 1)):
        envs = ShortestRowEnvs(8, length=5, autoreset_mode=AutoresetMode.NEXT_STEP)
        spaces = (envs.single_observation_space, envs.single_action_space)
        agent = make_agent("ppo", *spaces, seed=1, n_steps=16, minibatch_size=32, n_epochs=6, **network, **settings)
        assert agent.network.is_parted
        agent.network.is_parted = is_parted
        told: list[Iteration] = []
        with use_helper_threads(n_helpers):
            Trainer(agent, envs, seed=1, n_threads=1).run(3, on_iteration=told.append)
        found.append(([one.losses for one in told], [one.tolist() for one in agent.network.parameters()]))
    assert ("target_kl" in settings) == any(losses["n_epochs"] < 6 for losses in found[0][0])
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_the_learning_rates_of_ppo_fall_as_set() -> None:
    trainer = train("ppo", IdentityEnvs(4), 1, 16, n_steps=4, lr=0.1, value_lr=0.4, lr_iterations=4, hidden=(8,))
    rates = []
    groups = trainer.agent.optimizers["adam"].param_groups
    trainer.run(6, on_iteration=lambda _: rates.append([group["lr"] for group in groups]))
    assert np.allclose(rates, [[0.075, 0.3], [0.05, 0.2], [0.025, 0.1], [0.0, 0.0], [0.0, 0.0]])
    state = trainer.agent.network.state_dict()
    trainer.run(7)
    assert all(torch.equal(state[name], value) for name, value in trainer.agent.network.state_dict().items())
    plain = make_agent("ppo", trainer.agent.observation_space, trainer.agent.action_space)
    assert "lr_iterations" not in plain.config.as_json(), "model files without it stay as they were"


def test_the_preset_of_rlscheduler_has_its_settings() -> None:
    envs = ShortestRowEnvs(2, n_rows=128, n_features=8, n_jobs=(1, 128))
    agent = make_agent("rlscheduler", envs.single_observation_space, envs.single_action_space)
    config = agent.config
    assert (config.gamma, config.gae_lambda, config.clip, config.target_kl) == (1.0, 0.97, 0.2, 0.01)
    assert (config.lr, config.value_lr, config.n_epochs) == (3e-4, 1e-3, 80)
    rates = [group["lr"] for group in agent.optimizers["adam"].param_groups]
    weights = [sum(p.numel() for p in group["params"]) for group in agent.optimizers["adam"].param_groups]
    assert rates == [3e-4, 1e-3]
    assert weights[0] == 961


def test_every_setting_is_described_and_every_default_is_valid() -> None:
    for name in ALGORITHMS:
        algorithm = ALGORITHMS[name]
        config = algorithm.config()
        assert type(config).of(config.as_json()) == config
        for field, info in type(config).model_fields.items():
            assert info.description, f"{name}.{field}"


def test_wrong_settings_are_told_in_one_line() -> None:
    spaces = (IdentityEnvs(1).single_observation_space, IdentityEnvs(1).single_action_space)
    cases = [
        ({"gama": 0.9}, "ppo: no key 'gama'; did you mean 'gamma'?"),
        ({"gamma": 1.5}, "ppo: gamma is 1.5, expected at most 1"),
        ({"lr": "fast"}, "ppo: lr is 'fast', expected a number"),
        ({"n_steps": 2.5}, "ppo: n_steps is 2.5, expected a whole number"),
        ({"activation": "swish"}, "ppo: activation is 'swish'; known: leaky_relu, relu, tanh"),
        ({"hidden": [0]}, "ppo: hidden[0] is 0, expected at least 1"),
    ]
    for settings, message in cases:
        with pytest.raises(OptionsError) as error:
            make_agent("ppo", *spaces, **settings)
        assert str(error.value) == message
    with pytest.raises(UnknownName, match="no algorithm 'd3nq'; did you mean 'd3qn'"):
        make_agent("d3nq", *spaces)
    with pytest.raises(LearningError, match="actions are Box"):
        make_agent("ppo", spaces[0], spaces[0])
