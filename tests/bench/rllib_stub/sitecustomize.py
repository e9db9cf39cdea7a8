"""Stand in for RLlib in examples/rllib_job_pick.py: its batch is stepped once, its network is not trained.

The network has the names and shapes of the one that RLlib 2.60 makes of the configuration of the example.
"""

import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace

MAKERS = {}


def network():
    from torch import nn

    def mlp(*sizes, is_head):
        layers = [part for pair in pairwise(sizes) for part in (nn.Linear(*pair), nn.Tanh())]
        return tree(net=tree(mlp=nn.Sequential(*layers[: -1 if is_head else None])))

    def tree(**parts):
        return nn.ModuleDict(parts)

    encoders = {f"{name}_encoder": mlp(256, 256, 256, is_head=False) for name in ("actor", "critic")}
    heads = {name: mlp(256, 64, 64, n, is_head=True) for name, n in (("pi", 32), ("vf", 1))}
    return tree(encoder=tree(**encoders), **heads)


class PPOConfig:
    def environment(self, name, env_config):
        self.name, self.env_config = name, env_config
        return self

    def env_runners(self, num_envs_per_env_runner, **settings):
        self.n_envs = num_envs_per_env_runner
        return self

    def training(self, **settings):
        return self

    rl_module = training

    def build_algo(self):
        batch = MAKERS[self.name]({**self.env_config, "num_envs": self.n_envs})

        def train():
            observations, _ = batch.reset(seed=0)
            _, rewards, *_ = batch.step(observations["action_mask"].argmax(axis=1))
            return {"env_runners": {"episode_return_mean": float(rewards.mean())}}

        return SimpleNamespace(train=train, get_module=network, stop=batch.close)


def register(name, **members):
    for position, dot in enumerate(name + "."):
        if dot == ".":
            module = sys.modules.setdefault(name[:position], ModuleType(name[:position]))
            module.__path__ = []
    vars(module).update(members)


register("ray.rllib.algorithms.ppo", PPOConfig=PPOConfig)
register("ray.rllib.core.rl_module.rl_module", RLModuleSpec=SimpleNamespace)
register("ray.rllib.examples.rl_modules.classes.action_masking_rlm", ActionMaskingTorchRLModule=object)
register("ray.tune.registry", register_env=MAKERS.__setitem__)
