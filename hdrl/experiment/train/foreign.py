"""Models of other libraries: a model file of hdrl with the weights that they saved.

Only tensors are read, and nothing in a file is run: of Stable-Baselines3's archive the member ``policy.pth`` and what
stands readably in ``data``, of other libraries a state dict that ``torch.save`` wrote. Fully connected networks alone
are known, by the names that the libraries give to their layers: over the whole observation, or over each row of a table
alike. Statistics by which observations were normalised are read from arrays that ``numpy.savez`` wrote.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from hdrl.agents import make_agent
from hdrl.base.errors import OptionsError, ReadError, suggest
from hdrl.base.files import check_new, max_unpacked_bytes
from hdrl.base.rowspace import n_per_row_of
from hdrl.experiment.plan import plan_of
from hdrl.experiment.train.learning import require_torch
from hdrl.experiment.train.world import TrainingWorld
from hdrl.options.file import OptionsFile

if TYPE_CHECKING:
    from torch import Tensor

    from hdrl.learn.agent import Agent


@dataclass(frozen=True, slots=True)
class Layout:
    """Names that a library gives to the layers of an algorithm's networks."""

    name: str  # the library and its algorithms, for messages
    algorithm: str  # the algorithm of hdrl whose agent acts alike
    # beginnings of the names of the layers, in their order: of the network that says what to do, of the one that says
    # what is to be expected, and of what both share
    actor: tuple[str, ...]
    critic: tuple[str, ...] = ()
    trunk: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # beginnings or ends of names that playing has no use for
    head: str = ""  # the part of the actor whose hidden layers the library lets other activations follow
    activation: str = "tanh"  # activation after all hidden layers unless another one is chosen


_SPREAD = ("log_std", "actor_logstd")
_CLIPS = ("log_std_clip_param_const",)
LAYOUTS = (
    Layout(
        "PPO, A2C or MaskablePPO of Stable-Baselines3",
        "ppo",
        ("mlp_extractor.policy_net", "action_net"),
        ("mlp_extractor.value_net", "value_net"),
        ignored=_SPREAD,
    ),
    Layout("PPO of Stable-Baselines3 without layers", "ppo", ("action_net",), ("value_net",), (), _SPREAD),
    Layout("DQN of Stable-Baselines3", "dqn", ("q_net.q_net",), ignored=("q_net_target.",), activation="relu"),
    Layout(
        "PPO of RLlib",
        "ppo",
        ("encoder.actor_encoder.net.mlp", "pi.net.mlp"),
        ("encoder.critic_encoder.net.mlp", "vf.net.mlp"),
        ignored=_CLIPS,
        head="pi.net.mlp",
    ),
    Layout(
        "PPO of RLlib with shared layers",
        "ppo",
        ("pi.net.mlp",),
        ("vf.net.mlp",),
        ("encoder.encoder.net.mlp",),
        ignored=_CLIPS,
        head="pi.net.mlp",
    ),
    Layout("PPO of CleanRL", "ppo", ("actor",), ("critic",)),
    Layout("PPO of CleanRL", "ppo", ("actor_mean",), ("critic",), (), _SPREAD),
    Layout("DQN of CleanRL", "dqn", ("network",), activation="relu"),
)
"""All layouts that are known."""


def import_model(
    source: str | Path,
    options: OptionsFile,
    out: str | Path,
    *,
    activation: str | None = None,
    statistics: str | Path | None = None,
    force: bool = False,
) -> str:
    """Write a model file with what another library has learned.

    Parameters
    ----------
    source
        File of the library: ``model.save`` of Stable-Baselines3, else ``torch.save(network.state_dict(), file)``.
    options
        Options that describe the environment that it was trained in, and on which jobs.
    out
        The file to write; its folder must exist.
    activation
        Activation after each hidden layer: ``"relu"``, ``"tanh"`` or ``"leaky_relu"``; ``None``: the file's, or else
        the library's default.
    statistics
        Normalization of the observations in the training: a file of ``numpy.savez`` with ``mean`` and ``var`` of the
        shape of observations, and perhaps ``epsilon`` (1e-8) and ``clip_obs`` (10); ``None``: they were not.

    Returns
    -------
    str
        Recognised model, for instance ``"PPO of CleanRL, 1024-64-64-128, tanh"``; a network over rows begins with their
        number: ``"PPO of CleanRL, 128 rows of 8-32-16-8-1, relu"``.
    """
    require_torch()
    from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint

    source, out = Path(source), Path(out)
    check_new(out, force=force)
    weights, settings = _read(source)
    layout = _layout_of(weights, source)
    networks = _networks(weights, layout, source)
    activation = activation or _saved_activation(settings, source) or _usual_activation(weights, layout, source)
    world = TrainingWorld(plan_of(options))
    normalizer = None if statistics is None else _read_statistics(Path(statistics))
    algorithm, agent, shape = _agent(networks, layout, world, str(source), activation, normalizer)
    notes = {"trained_on": world.trained_on(), "imported_from": layout.name}
    save_checkpoint(out, checkpoint_of(agent, algorithm, environment=world.spec.as_json(), notes=notes))
    normalized = "" if normalizer is None else ", observations normalized"
    return f"{layout.name}, {shape}, {activation}{normalized}"


# ------------------------------------------------------------------ what a file holds


def _read(path: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """Return the tensors of a file by name, and what Stable-Baselines3 says of them."""
    import torch

    from hdrl.learn.checkpoint import FORMAT, read_tensors

    with _archive(path, "expected an archive of Stable-Baselines3, or what torch.save wrote") as archive:
        if {"policy.pth", "data"} <= set(archive.namelist()):
            content = read_tensors(_member(archive, "policy.pth", path), path)
            settings = json.loads(_member(archive, "data", path))
        else:
            content, settings = read_tensors(path.read_bytes(), path), {}
    is_flat = (
        isinstance(content, Mapping) and content and all(isinstance(one, torch.Tensor) for one in content.values())
    )
    if isinstance(content, Mapping) and content.get("format") == FORMAT:
        raise ReadError(path, "is a model file of hdrl already: use it without import")
    if not is_flat:
        raise ReadError(path, "holds no state dict, expected tensors by name: torch.save(network.state_dict(), FILE)")
    return {str(name): tensor for name, tensor in content.items()}, settings if isinstance(settings, dict) else {}


@contextlib.contextmanager
def _archive(path: Path, expected: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, and say in one line that it, or a part of it, cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise ReadError(path, f"no such file, {expected}") from None
    except (
        *(OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError),
        *(ValueError, TypeError, EOFError, RecursionError),
    ) as error:
        why = getattr(error, "strerror", None) or " ".join(str(error).split())[:80]
        raise ReadError(path, f"cannot be read ({why}); {expected}") from None


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    bound = max_unpacked_bytes()
    with archive.open(name) as stream:
        data = stream.read(bound + 1)
    if len(data) > bound:
        raise ReadError(path, f"{name} holds more than {bound // 2**20:,} MiB")
    return data


def _saved_activation(settings: Mapping[str, Any], path: Path) -> str | None:
    """Return the activation set in Stable-Baselines3, which stores values as text beside pickles."""
    chosen = settings.get("policy_kwargs")
    text = chosen.get("activation_fn") if isinstance(chosen, dict) else None
    if not isinstance(text, str):
        policy = settings.get("policy_class")
        # The usual one of a policy of ours is another than that of the library.
        return "relu" if isinstance(policy, dict) and policy.get("__module__") == "hdrl.learn.sb3" else None
    name = text.rstrip("'>").rpartition(".")[2]
    known = {"ReLU": "relu", "Tanh": "tanh", "LeakyReLU": "leaky_relu"}
    if name not in known:
        raise ReadError(path, f"has {name:.40} between its layers; {suggest(name, known)}")
    return known[name]


def _usual_activation(weights: Mapping[str, Tensor], layout: Layout, path: Path) -> str:
    """Return the library's default activation between layers."""
    if layout.head and len(_layers(weights, [layout.head], path)) > 1:
        text = "does not record the activations of its heads (RLlib: relu) and of its encoder (tanh)"
        raise ReadError(path, f"{text}; train with one activation for both, and name it (--activation)")
    return layout.activation


def _layout_of(weights: Mapping[str, Tensor], path: Path) -> Layout:
    """Return the layout by which all tensors have a position."""
    for layout in LAYOUTS:
        needed = (*layout.actor, *layout.trunk)
        if all(any(name.startswith(f"{part}.") for name in weights) for part in needed):
            known = (*needed, *layout.critic)
            left = [
                name
                for name in weights
                if not name.startswith((*(f"{part}." for part in known), *layout.ignored))
                and not name.endswith(layout.ignored)
            ]
            if left:
                raise ReadError(path, f"looks like {layout.name}, but has {left[0]:.60}: only fully connected networks")
            return layout
    libraries = "Stable-Baselines3, RLlib or CleanRL"
    raise ReadError(path, f"begins with {next(iter(weights)):.60}: no fully connected policy of {libraries}")


# ------------------------------------------------------------------ the same networks here


@dataclass(frozen=True, slots=True)
class _Networks:
    """Weights and biases of the layers of networks, in their order; trunk and critic may have none."""

    actor: list[tuple[Tensor, Tensor]]
    critic: list[tuple[Tensor, Tensor]]
    trunk: list[tuple[Tensor, Tensor]]

    @property
    def sizes(self) -> list[int]:
        """Number of inputs, and the widths of all layers up to the actions."""
        whole = self.trunk + self.actor
        return [int(whole[0][0].shape[1]), *_widths(whole)]

    def answer(self, activation: str) -> NDArray[np.float64]:
        """Return the output of the actor for an observation of zeros."""
        import torch

        from hdrl.learn.networks.layers import ACTIVATIONS

        activations: Mapping[Any, Any] = ACTIVATIONS
        after = activations[activation]()
        *hidden, (weight, bias) = self.trunk + self.actor
        values = torch.zeros(self.sizes[0])
        for one in hidden:
            values = after(one[0].float() @ values + one[1].float())
        return np.asarray(weight.float() @ values + bias.float(), dtype=np.float64)

    def settings(self) -> dict[str, Any]:
        """Return the settings of an agent with such networks, over whole observations."""
        own = _widths(self.actor)[:-1]
        if self.trunk:
            return {"network": "mlp", "hidden": _widths(self.trunk), "heads": own, "is_shared": True}
        return {"network": "mlp", "hidden": own}

    def state(self) -> dict[str, Tensor]:
        """Return the weights by the names that they have in `MlpActorCritic`, where activations count as layers."""
        return {
            name: tensor
            for part, layers in (("trunk", self.trunk), ("actor", self.actor), ("critic", self.critic))
            for name, tensor in _named(part, layers)
        }

    def settings_of_rows(self) -> dict[str, Any]:
        """Return the settings of an agent whose network is over rows."""
        # A row with a legal action counts, whichever it is.
        return {"network": "rows", "hidden": _widths(self.trunk + self.actor)[:-1], "visible_rows": "all"}

    def state_of_rows(self) -> dict[str, Tensor]:
        """Return the weights of the actor by the names that they have in `KernelActorCritic`."""
        layers = self.trunk + self.actor
        return dict([*_named("actor_body", layers[:-1]), *_named("actor_head", layers[-1:])])


def _named(part: str, layers: Sequence[tuple[Tensor, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    for position, layer in enumerate(layers):
        for kind, tensor in zip(("weight", "bias"), layer, strict=True):
            yield f"{part}.{2 * position}.{kind}", tensor.float()


def _networks(weights: Mapping[str, Tensor], layout: Layout, path: Path) -> _Networks:
    actor, critic, trunk = (_layers(weights, parts, path) for parts in (layout.actor, layout.critic, layout.trunk))
    if _widths(critic)[:-1] != _widths(actor)[:-1]:
        # A critic here is as wide as its actor, and playing needs none.
        return _Networks(trunk + actor, [], [])
    return _Networks(actor, critic, trunk)


def _layers(weights: Mapping[str, Tensor], parts: Sequence[str], path: Path) -> list[tuple[Tensor, Tensor]]:
    layers: list[tuple[Tensor, Tensor]] = []
    for part in parts:
        names = [name for name in weights if name.startswith(f"{part}.") and name.endswith(".weight")]
        for name in sorted(names, key=_place):
            weight, bias = weights[name], weights.get(f"{name.removesuffix('.weight')}.bias")
            is_layer = weight.ndim == 2 and bias is not None and bias.shape == weight.shape[:1]
            if bias is None or not is_layer or (layers and layers[-1][0].shape[0] != weight.shape[1]):
                raise ReadError(path, f"{name:.60} is no fully connected layer that follows the one before it")
            layers.append((weight, bias))
    return layers


def _place(name: str) -> list[int]:
    return [int(text) for text in name.split(".") if text.isdecimal() and len(text) < 10]


def _widths(layers: Sequence[tuple[Tensor, Tensor]]) -> list[int]:
    return [int(weight.shape[0]) for weight, _ in layers]


def _agent(
    networks: _Networks,
    layout: Layout,
    world: TrainingWorld,
    where: str,
    activation: str,
    normalizer: Mapping[str, NDArray[np.float64]] | None,
) -> tuple[str, Agent, str]:
    """Return an algorithm, its agent, which acts in a world as the networks say, and the widths of its layers."""
    from hdrl.learn.spaces import action_size_of, observation_shape_of

    envs = world.batch("train", 1)
    spaces = envs.single_observation_space, envs.single_action_space
    envs.close()
    is_index = isinstance(spaces[1], Box)
    shape, n_actions = observation_shape_of(spaces[0]), action_size_of(spaces[1])
    n_per_row = 0 if is_index else n_per_row_of(spaces[1])
    found, expected = (networks.sizes[0], networks.sizes[-1]), (math.prod(shape), n_actions)
    # One row is a whole observation, too.
    is_table = len(shape) == 2 and shape[0] > 1 and n_actions == shape[0] * n_per_row
    by_rows = is_table and found == (shape[1], n_per_row) and len(networks.trunk + networks.actor) > 1
    if found != expected and not by_rows:
        rows = f", or {shape[1]} and {n_per_row} for each row" if is_table else ""
        raise OptionsError(
            f"{where}: takes {found[0]} numbers and chooses among {found[1]} actions, but {world.spec.id} gives"
            f" {expected[0]} and has {expected[1]}{rows}: other options than those of its training?"
        )
    if is_index:
        agent = make_agent("cma_es", *spaces)
        agent.load_weights({"weights": networks.answer(activation)})
        return "cma_es", agent, f"{n_actions} weights"
    settings, state = networks.settings(), networks.state()
    sizes = "-".join(map(str, networks.sizes))
    algorithm = layout.algorithm
    if by_rows:
        # Playing needs no critic, and here it would have other layers.
        settings, state, sizes = networks.settings_of_rows(), networks.state_of_rows(), f"{shape[0]} rows of {sizes}"
    if layout.critic and (by_rows or not networks.critic):
        algorithm = "reinforce"
    if normalizer is not None:
        settings["network"] = f"normalized_{settings['network']}"
        state = {f"network.{name}": tensor for name, tensor in state.items()} | _buffers(normalizer, shape)
    agent = make_agent(algorithm, *spaces, **settings, activation=activation)
    agent.load_weights({"modules": dict.fromkeys(agent.modules, state)})
    return algorithm, agent, sizes


# ------------------------------------------------------------------ statistics of observations

_ABSENT = {"epsilon": 1e-8, "clip_obs": 10.0}
"""Defaults of `VecNormalize` and Gymnasium's wrappers."""


def _read_statistics(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the arrays ``mean``, ``var``, ``epsilon`` and ``clip_obs`` of a file."""
    expected = "expected what numpy.savez(FILE, mean=..., var=..., epsilon=..., clip_obs=...) writes"
    found: dict[str, NDArray[np.float64]] = {name: np.array(value) for name, value in _ABSENT.items()}
    with _archive(path, expected) as archive:
        for name in archive.namelist():
            key = name.removesuffix(".npy")
            if key in ("mean", "var", *_ABSENT):
                array = np.load(io.BytesIO(_member(archive, name, path)))
                found[key] = np.asarray(array, dtype=np.float64)
    absent = [name for name in ("mean", "var") if name not in found]
    if absent:
        raise ReadError(path, f"has no {absent[0]}; {expected}")
    bounds = all(np.isfinite(one).all() for one in found.values()) and all(found[name].size == 1 for name in _ABSENT)
    if not bounds or found["mean"].shape != found["var"].shape or found["clip_obs"] <= 0:
        raise ReadError(path, "holds no finite mean and var of one shape, with one epsilon and one clip_obs above 0")
    if (found["var"] + found["epsilon"] <= 0).any():
        raise ReadError(path, "var + epsilon is not above 0 everywhere")
    return found


def _buffers(normalizer: Mapping[str, NDArray[np.float64]], shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Return the statistics by the names that they have in `NormalizedActorCritic`."""
    import torch

    if normalizer["mean"].size != math.prod(shape):
        found = " x ".join(map(str, normalizer["mean"].shape))
        raise OptionsError(f"the statistics are of {found} numbers, but observations are {' x '.join(map(str, shape))}")
    deviation = np.sqrt(normalizer["var"] + normalizer["epsilon"])
    return {
        "mean": torch.from_numpy(normalizer["mean"].reshape(shape).copy()),
        "deviation": torch.from_numpy(deviation.reshape(shape)),
        "bound": torch.tensor(float(normalizer["clip_obs"]), dtype=torch.float64),
    }
