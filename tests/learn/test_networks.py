"""Networks: sizes, what they look at and what they do not, and where their first weights come from."""

import pytest

torch = pytest.importorskip("torch", reason="needs torch (the extra learn)")

from hdrl.base.errors import LearningError, UnknownName  # noqa: E402
from hdrl.learn import NETWORKS, NetworkConfig, build_network  # noqa: E402
from hdrl.learn.masking import ILLEGAL, entropy_of, mask_logits, random_legal, sample  # noqa: E402

TABLE = (6, 3)
N_ROWS = 6
SHAPES = {
    "sequence": (7,),
    **dict.fromkeys((f"dissertation_{name}" for name in ("small", "deep", "large", "attention")), (64,)),
}
"""Observations of networks that do not take tables."""


def make(network: str, shape=TABLE, n_actions: int = N_ROWS, seed: int = 0, *, has_critic: bool = True, **settings):
    generator = torch.Generator().manual_seed(seed)
    return build_network(NetworkConfig(network=network, **settings), shape, n_actions, generator, has_critic=has_critic)


def n_weights(parameters) -> int:
    return sum(parameter.numel() for parameter in parameters)


def some(n: int = 4, shape=TABLE, seed: int = 1):
    return torch.rand((n, *shape), generator=torch.Generator().manual_seed(seed))


def sharp(network):
    """Give the last layer of the actor weights of ordinary size: its first logits are all but equal."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "actor" in name and "weight" in name:
                parameter.mul_(100.0 if parameter.abs().max() < 0.05 else 1.0)
    return network


def test_the_kernel_network_has_the_sizes_of_rlscheduler() -> None:
    network = make("kernel", (128, 8), 128)
    assert n_weights(network.actor_parameters()) == 961
    rows = 961
    head = 128 * 64 + 64 + 64 * 32 + 32 + 32 * 8 + 8 + 8 + 1
    assert n_weights(network.critic_parameters()) == rows + head


def test_the_networks_of_hdeeprm_have_its_sizes() -> None:
    h, n, a = 16, 36, 37
    network = make("hdeeprm_reinforce", (n,), a, hidden=(h,), has_critic=False)
    assert n_weights(network.parameters()) == n * h + h + 3 * (h * h + h) + h * a + a
    network = make("hdeeprm_actor_critic", (n,), a, hidden=(h,))
    branch = 3 * (h * h + h)
    assert n_weights(network.parameters()) == n * h + h + 2 * branch + h * a + a + h + 1
    assert n_weights(network.critic_parameters()) == branch + h + 1


def test_shared_layers_belong_to_the_actor() -> None:
    apart = make("mlp", (5,), 3, hidden=(7,), heads=(4,))
    shared = make("mlp", (5,), 3, hidden=(7,), heads=(4,), is_shared=True)
    trunk = 5 * 7 + 7
    head = 7 * 4 + 4
    assert n_weights(apart.critic_parameters()) == trunk + head + 5
    assert n_weights(shared.critic_parameters()) == head + 5
    assert n_weights(shared.parameters()) == n_weights(apart.parameters()) - trunk


@pytest.mark.parametrize("name", list(NETWORKS))
def test_shapes_masks_and_both_at_once(name: str) -> None:
    shape = SHAPES.get(name, TABLE)
    network = sharp(make(name, shape))
    observations = some(shape=shape)
    mask = torch.rand((4, N_ROWS), generator=torch.Generator().manual_seed(2)) < 0.5
    mask[:, 2] = True
    logits, values = network.both(observations, mask)
    assert logits.shape == (4, N_ROWS)
    assert values.shape == (4,)
    torch.testing.assert_close(logits, network.logits(observations, mask))
    torch.testing.assert_close(values, network.values(observations, mask))
    assert (logits[~mask] == ILLEGAL).all()
    assert (logits[mask].abs() < 1e3).all()
    (logits[mask].sum() + values.sum()).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
    unmasked, _ = network.both(observations, None)
    assert (unmasked.abs() < 1e3).all()


@pytest.mark.parametrize("name", list(NETWORKS))
def test_first_weights_depend_on_the_generator_alone(name: str) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    mine, same, other = (make(name, SHAPES.get(name, TABLE), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    weights = [torch.cat([p.flatten() for p in one.parameters()]) for one in (mine, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_first_weights_do_not_depend_on_the_number_of_threads() -> None:
    before = torch.get_num_threads()
    made = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            made.append(build_network(NetworkConfig(), (21,), 7, torch.Generator().manual_seed(1)))
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*(network.parameters() for network in made), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["kernel", "attention"])
def test_rows_that_hold_no_job_do_not_matter(name: str) -> None:
    network = sharp(make(name))
    observations, mask = some(), torch.ones((4, N_ROWS), dtype=torch.bool)
    mask[:, 4:] = False
    found = network.both(observations, mask)
    changed = observations.clone()
    changed[:, 4:] = 0.123
    for mine, theirs in zip(found, network.both(changed, mask), strict=True):
        torch.testing.assert_close(mine, theirs)
    changed[:, 0] = 0.9
    assert not torch.allclose(found[1], network.values(changed, mask))
    all_rows = make(name, visible_rows="all")
    assert not torch.allclose(all_rows.values(observations, mask), all_rows.values(changed, mask))


@pytest.mark.parametrize("name", ["kernel", "attention"])
def test_logits_follow_their_rows(name: str) -> None:
    network = sharp(make(name))
    observations = some()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    torch.testing.assert_close(
        network.logits(observations, None)[:, order], network.logits(observations[:, order], None)
    )


def test_attention_runs_over_the_jobs_of_one_observation_alone() -> None:
    network = sharp(make("attention"))
    observations = some(2)
    found = network.logits(observations, None)
    changed = observations.clone()
    changed[1] += 1.0
    torch.testing.assert_close(network.logits(changed, None)[0], found[0])  # another observation does not matter
    changed = observations.clone()
    changed[0, 5] += 1.0
    assert not torch.allclose(network.logits(changed, None)[0, :5], found[0, :5])  # another job does


@pytest.mark.parametrize("name", ["kernel", "attention"])
def test_actions_beyond_the_rows_have_logits_of_their_own(name: str) -> None:
    network = sharp(make(name, n_actions=N_ROWS + 2))
    mask = torch.ones((4, N_ROWS + 2), dtype=torch.bool)
    mask[0, :N_ROWS] = False
    mask[1, N_ROWS] = False
    logits, values = network.both(some(), mask)
    assert logits.shape == (4, N_ROWS + 2)
    assert torch.isfinite(values).all()
    assert (logits[~mask] == ILLEGAL).all()
    assert (logits[mask].abs() < 1e3).all()


def test_what_does_not_fit_is_told_in_one_line() -> None:
    with pytest.raises(LearningError, match=r"network 'kernel' needs observations of shape \(rows, features\)"):
        make("kernel", (8,), 8)
    with pytest.raises(LearningError, match=r"found shape .* and 9 actions"):
        make("attention", (10, 3), 9)
    with pytest.raises(LearningError, match=r"attention_width is 30, expected a multiple of attention_heads \(4\)"):
        make("attention", attention_width=30)
    with pytest.raises(UnknownName, match="no network 'kernal'; did you mean 'kernel'"):
        make("kernal")


def test_illegal_actions_have_probability_zero_and_no_gradient() -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0, 50.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False, False]])
    log_probs = torch.log_softmax(mask_logits(logits, mask), -1)
    assert log_probs.exp()[0, 2:].tolist() == [0.0, 0.0]
    assert log_probs.exp().sum().item() == pytest.approx(1.0)
    entropy = entropy_of(log_probs)
    p = torch.softmax(torch.tensor([1.0, 2.0]), -1)
    assert entropy.item() == pytest.approx(-(p * p.log()).sum().item())
    entropy.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[0, 2:].tolist() == [0.0, 0.0]


def test_samples_follow_the_probabilities_and_never_the_illegal() -> None:
    generator = torch.Generator().manual_seed(0)
    probabilities = torch.tensor([0.5, 0.3, 0.0, 0.2])
    logits = mask_logits(probabilities.clamp(min=1e-9).log(), torch.tensor([True, True, False, True]))
    draws = sample(logits.expand(50_000, 4), generator)
    shares = torch.bincount(draws, minlength=4) / 50_000
    assert shares[2] == 0.0
    assert shares.tolist() == pytest.approx(probabilities.tolist(), abs=0.01)
    legal = torch.tensor([[False, True, False, True]]).expand(20_000, 4)
    shares = torch.bincount(random_legal(legal, generator), minlength=4) / 20_000
    assert shares.tolist() == pytest.approx([0.0, 0.5, 0.0, 0.5], abs=0.015)


@pytest.mark.parametrize(
    ("critic", "sizes"),
    [
        ("small", (64, 32, 16, 8, 10, 1)),
        ("deep", (64, 32, 32, 32, 32, 10, 1)),
        ("large", (128, 128, 128, 128, 10, 1)),
        ("attention", (64, 32, 16, 8, 10, 1)),
    ],
)
def test_the_networks_of_the_dissertation_have_its_sizes(critic: str, sizes: tuple[int, ...]) -> None:
    n_nodes, n_rows = 144, 128
    shape = (10 * n_rows + n_nodes,)
    network = make(f"dissertation_{critic}", shape, n_rows)
    layers = list(zip((*shape, *sizes[:-1]), sizes, strict=True))
    assert sum(one.numel() for one in network.critic_parameters()) == sum(n * m + m for n, m in layers)
    # Attention: queries, keys and values by a layer of its own, then by that of the heads, and one that merges them.
    layers = 3 * [(20, 32)] + 4 * [(32, 32)] + [(32, 16)] if critic == "attention" else [(20, 64), (64, 32), (32, 16)]
    actor = sum(n * m + m for n, m in ((n_nodes, 10), *layers, (16, 10), (10, 1)))
    assert sum(one.numel() for one in network.actor_parameters()) == actor
    seen = torch.randn((3, *shape), generator=torch.Generator().manual_seed(1))
    mask = torch.ones((3, n_rows), dtype=torch.bool)
    mask[:, 5] = False
    before = network.logits(seen, mask)
    assert torch.equal(before[:, 5], torch.full((3,), ILLEGAL))
    swapped = seen.clone()
    swapped[:, :10], swapped[:, 10:20] = seen[:, 10:20], seen[:, :10]
    torch.testing.assert_close(network.logits(swapped, mask)[:, :2], before[:, :2].flip(1))
    other = seen.clone()
    other[:, -1] += 1.0
    assert not torch.allclose(network.logits(other, mask)[:, 0], before[:, 0])
    assert network.values(seen, mask).shape == (3,)
    # Attention looks at the other rows of the same observation, but not at those without a job, nor at other batches'.
    beside, absent = seen.clone(), seen.clone()
    beside[0, 30:40] += 1.0
    absent[0, 50:60] += 1.0
    is_same = torch.isclose(network.logits(beside, mask)[:, 0], before[:, 0], atol=1e-7)
    assert is_same.tolist() == [critic != "attention", True, True]
    torch.testing.assert_close(network.logits(absent, mask), before)


def test_the_networks_of_the_dissertation_refuse_tables() -> None:
    with pytest.raises(LearningError, match="needs observations of ten numbers for each of 128 actions"):
        make("dissertation_small", (128, 10), 128)
