"""PPO end to end on JobPick with the per-job kernel: environment steps per second, beside sb3-contrib's MaskablePPO."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from common.measure import time_in_turn
from common.report import Report, arguments, finish

N_ENVS = 64
N_STEPS = 128
N_ROUNDS = 3
BATCH = N_ENVS * N_STEPS
SETTINGS = {"gamma": 1.0, "gae_lambda": 0.97, "n_epochs": 4}
MINIBATCH = 1024
LEARNING_RATE = 3e-4
RATIO_AT_LEAST = 3.0
STEPS_AT_LEAST = 40_000


def environments(*, copy: bool = False, **arguments: Any) -> Any:
    """Return the batch: windows of 256 jobs of the Lublin-Feitelson model, 128 rows of 8 columns."""
    from hdrl.batch import JobPickVectorEnv

    return JobPickVectorEnv.of(N_ENVS, n_procs=256, commitment="block", backfilling="none", copy=copy, **arguments)


def hdrl_trainer(**settings: Any) -> Any:
    """Return our PPO with the kernel network."""
    from hdrl.agents import make_agent
    from hdrl.learn import Trainer

    envs = environments()
    agent = make_agent(
        "ppo",
        envs.single_observation_space,
        envs.single_action_space,
        network="kernel",
        n_steps=N_STEPS,
        minibatch_size=MINIBATCH,
        lr=LEARNING_RATE,
        is_scaled=False,  # nor does MaskablePPO scale rewards
        **{**SETTINGS, **settings},
    )
    return Trainer(agent, envs, seed=0, n_threads=1)  # as hdrl-launch trains


def sb3_model() -> Any:
    """Return MaskablePPO with the same network, settings and environment."""
    from sb3_contrib import MaskablePPO

    from hdrl.envs.sb3 import as_vec_env

    return MaskablePPO(
        _kernel_policy(),
        as_vec_env(environments(autoreset_mode="SameStep", copy=True)),
        n_steps=N_STEPS,
        batch_size=MINIBATCH,
        learning_rate=LEARNING_RATE,
        seed=0,
        device="cpu",
        **SETTINGS,
    )


def _kernel_policy() -> Any:
    """Return a policy of Stable-Baselines3 with the layers of `hdrl.learn.networks.kernel`."""
    from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
    from torch import Tensor, nn

    from hdrl.learn.networks.kernel import CRITIC_LAYERS, ROW_LAYERS

    def layers(*sizes: int) -> nn.Sequential:
        parts = [part for pair in itertools.pairwise(sizes) for part in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*parts[:-1])

    class Extractor(nn.Module):
        """From flat observations to the logits and to what the value is computed of."""

        def __init__(self, n_rows: int, n_features: int) -> None:
            super().__init__()
            self.latent_dim_pi, self.latent_dim_vf = n_rows, CRITIC_LAYERS[-2]
            self.shape = (n_rows, n_features)
            self.actor, self.rows = layers(n_features, *ROW_LAYERS), layers(n_features, *ROW_LAYERS)
            self.head = nn.Sequential(layers(n_rows, *CRITIC_LAYERS[:-1]), nn.ReLU())

        def forward_actor(self, features: Tensor) -> Tensor:
            return self.actor(features.unflatten(-1, self.shape)).squeeze(-1)

        def forward_critic(self, features: Tensor) -> Tensor:
            return self.head(self.rows(features.unflatten(-1, self.shape)).squeeze(-1))

        def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
            return self.forward_actor(features), self.forward_critic(features)

    class Policy(MaskableActorCriticPolicy):
        """The kernel network."""

        def _build_mlp_extractor(self) -> None:
            self.mlp_extractor = Extractor(*self.observation_space.shape)

        def _build(self, lr_schedule: Callable[[float], float]) -> None:
            self.ortho_init = False
            super()._build(lr_schedule)
            self.action_net = nn.Identity()
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    return Policy


def continued(trainer: Any) -> Callable[[], None]:
    """Return a function that trains for one more batch, as hdrl-launch does."""
    import torch

    from hdrl.learn.threads import use_helper_threads

    def run() -> None:
        with use_helper_threads(torch.get_num_threads() - 1):
            trainer.run(trainer.n_iterations + 1)

    return run


def with_processor_time(function: Callable[[], object], spent_s: list[float]) -> Callable[[], None]:
    """Return a function that notes how much processor time each call takes."""

    def run() -> None:
        start_s = time.process_time()
        function()
        spent_s.append(time.process_time() - start_s)

    return run


def phases(report: Report) -> None:
    """Tell where the time of our PPO goes."""
    trainer = hdrl_trainer()
    agent, interaction = trainer.agent, trainer.interaction
    spent = {"choosing actions": 0.0, "stepping": 0.0, "learning": 0.0}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start_s = time.perf_counter()
            result = function(*arguments, **named)
            spent[name] += time.perf_counter() - start_s
            return result

        return call

    run = continued(trainer)
    run()
    agent.act = timed("choosing actions", agent.act)
    interaction.step = timed("stepping", interaction.step)
    agent.learn = timed("learning", agent.learn)
    start_s = time.perf_counter()
    for _ in range(N_ROUNDS):
        run()
    total_s = time.perf_counter() - start_s
    spent["remembering and the rest"] = total_s - sum(spent.values())
    parts = ", ".join(f"{name} {100 * seconds / total_s:.0f} %" for name, seconds in spent.items())
    report.notes.append(f"Where the time of hdrl's PPO goes: {parts}.")


def main() -> None:
    """Measure, print, and keep the numbers if asked to."""
    report_options = arguments(__doc__)
    report = Report(f"PPO on JobPick, {N_ENVS} environments, kernel network: training end to end")
    trainers = {"hdrl": hdrl_trainer(), "one epoch": hdrl_trainer(n_epochs=1)}
    functions = {name: continued(trainer) for name, trainer in trainers.items()}
    try:
        model = sb3_model()
        functions["sb3"] = lambda: model.learn(BATCH, reset_num_timesteps=False)
    except ImportError:
        report.notes.append("MaskablePPO was left out: pip install 'hdrl[sb3]'.")
    # The first batches compile, and queues are short in them.
    for function in functions.values():
        function()
    spent_s: dict[str, list[float]] = {name: [] for name in functions}
    seconds = time_in_turn({name: with_processor_time(one, spent_s[name]) for name, one in functions.items()}, N_ROUNDS)
    rates = {name: [BATCH / second for second in measured] for name, measured in seconds.items()}
    by_processor = {name: [BATCH / second for second in measured] for name, measured in spent_s.items()}
    ratio = ""
    if "sb3" in rates:
        faster = statistics.median(seconds["sb3"]) / statistics.median(seconds["hdrl"])
        ratio = f"{faster:.2f} x MaskablePPO"
        report.add("hdrl's PPO : MaskablePPO, steps per second", [faster], "x", at_least=RATIO_AT_LEAST)
    report.add(
        f"hdrl's PPO, {SETTINGS['n_epochs']} epochs: steps", rates["hdrl"], "/s", at_least=STEPS_AT_LEAST, ratio=ratio
    )
    report.add("... per second of processor time", by_processor["hdrl"], "/s")
    report.add("hdrl's PPO, 1 epoch: steps", rates["one epoch"], "/s")
    report.add("... per second of processor time", by_processor["one epoch"], "/s")
    if "sb3" in rates:
        report.add(f"MaskablePPO, {SETTINGS['n_epochs']} epochs: steps", rates["sb3"], "/s")
        report.add("... per second of processor time", by_processor["sb3"], "/s")
    report.notes.append(
        f"Episodes of 256 jobs; batches of {N_STEPS} steps of each environment, minibatches of {MINIBATCH}; collecting"
        " and updating are both measured, in turn, in one process."
    )
    phases(report)
    finish(report, report_options)


if __name__ == "__main__":
    main()
