"""skrl's SAC gradient steps on decisions of noise. usage: sac_skrl.py GAME THREADS"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import gymnasium
import torch
from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from torch import Tensor, nn
from updates import GAMMA, SOFT, STORED, TAU, Soft, report


def layers(shape: Soft, extra: int, outputs: int) -> tuple[nn.Module, nn.Module]:
    """Returns encoder and body."""
    encoder, width = nn.Identity(), shape.obs[0]
    if len(shape.obs) == 3:
        first, second = nn.Conv2d(width, 16, 8, 4), nn.Conv2d(16, 32, 4, 2)
        rest = (nn.LeakyReLU(), second, nn.LeakyReLU(), nn.Flatten(), nn.Linear(288, 256), nn.LeakyReLU())
        encoder, width = nn.Sequential(nn.Unflatten(1, shape.obs), first, *rest), 256
    sizes = [width + extra] + [shape.units] * shape.layers
    body = [x for pair in pairwise(sizes) for x in (nn.Linear(*pair), nn.SiLU())]
    return encoder, nn.Sequential(*body, nn.Linear(shape.units, outputs))


class Actor(GaussianMixin, Model):
    def __init__(self, shape: Soft, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self, clip_actions=True)
        self.encoder, self.body = layers(shape, 0, 2 * shape.actions)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        mean, log_std = self.body(self.encoder(inputs["observations"])).chunk(2, 1)
        return mean.tanh(), {"log_std": log_std}


class Critic(DeterministicMixin, Model):
    def __init__(self, shape: Soft, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.encoder, self.body = layers(shape, shape.actions, 1)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        return self.body(torch.cat([self.encoder(inputs["observations"]), inputs["taken_actions"]], 1)), {}


def main(game: str, threads: int) -> None:
    torch.set_num_threads(threads)
    shape = SOFT[game]
    obs = gymnasium.spaces.Box(-1, 1, shape.obs)
    spaces: dict[str, Any] = {"observation_space": obs, "action_space": gymnasium.spaces.Box(-1, 1, (shape.actions,))}
    critics = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")
    models = {name: Critic(shape, **spaces, device="cpu") for name in critics}
    memory = RandomMemory(memory_size=STORED, num_envs=1, device="cpu")
    cfg = SAC_CFG(
        gradient_steps=shape.steps,
        batch_size=shape.batch,
        discount_factor=GAMMA,
        polyak=TAU,
        learning_rate=shape.rate,
        initial_entropy_value=shape.entropy_coef,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    models = {"policy": Actor(shape, **spaces, device="cpu"), **models}
    agent = SAC(models=models, memory=memory, cfg=cfg, **spaces, device="cpu")
    agent.init()
    for column in memory.tensors.values():
        column.copy_(torch.rand(column.shape) < 0.01 if column.shape[-1] > 100 else torch.rand(column.shape))
    memory.tensors["terminated"].zero_()
    memory.filled = True
    agent.enable_training_mode(True)
    report(
        "skrl",
        lambda: agent.update(timestep=0, timesteps=1),
        shape.steps,
        rounds=9,
        game=game,
        threads=threads,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
