"""skrl's PPO on HalfCheetah-v5, in Gymnasium's vector environments. usage: cheetah_skrl.py MINIBATCH serial|parallel"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import gymnasium
import torch
from cheetah import CLIP, COPIES, EPOCHS, GAME, GAMMA, LAMBDA, NORM, RATE, ROLLOUT, TICKS, UNITS, Enough, Meter
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import Tensor, nn


class Cycles(gymnasium.vector.VectorWrapper):
    def __init__(self, env: gymnasium.vector.VectorEnv, meter: Meter) -> None:
        super().__init__(env)
        self.meter, self.ticks = meter, 0

    def step(self, actions: Any) -> tuple:
        if self.ticks and self.ticks % TICKS == 0:  # the update of the last rollout is over
            self.meter.check()
        self.ticks += 1
        return self.env.step(actions)


def net(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(17, UNITS), nn.Tanh(), nn.Linear(UNITS, UNITS), nn.Tanh(), nn.Linear(UNITS, outputs))


class Actor(GaussianMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        GaussianMixin.__init__(self, clip_actions=True)
        self.net, self.log_std = net(6), nn.Parameter(torch.zeros(6))

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        return self.net(inputs["observations"]), {"log_std": self.log_std}


class Critic(DeterministicMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = net(1)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        return self.net(inputs["observations"]), {}


def config(minibatch: int, observation_space: gymnasium.Space) -> PPO_CFG:
    cfg = PPO_CFG(
        rollouts=TICKS,
        learning_epochs=EPOCHS,
        mini_batches=ROLLOUT // minibatch,
        discount_factor=GAMMA,
        gae_lambda=LAMBDA,
        learning_rate=RATE,
        ratio_clip=CLIP,
        value_clip=0.0,
        value_loss_scale=0.5,
        grad_norm_clip=NORM,
        observation_preprocessor=RunningStandardScaler,
        observation_preprocessor_kwargs={"size": observation_space, "device": "cpu"},
        value_preprocessor=RunningStandardScaler,
        value_preprocessor_kwargs={"size": 1, "device": "cpu"},
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return cfg


def main(minibatch: int, way: str) -> None:
    torch.set_num_threads(1)
    set_seed(0)
    mode = "async" if way == "parallel" else "sync"
    games = gymnasium.make_vec(GAME, COPIES, vectorization_mode=mode, vector_kwargs={"autoreset_mode": "SameStep"})
    env = wrap_env(Cycles(games, Meter("skrl", minibatch, way)))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": "cpu"}
    models = {"policy": Actor(**spaces), "value": Critic(**spaces)}
    memory = RandomMemory(memory_size=TICKS, num_envs=COPIES, device="cpu")
    agent = PPO(models=models, memory=memory, cfg=config(minibatch, env.observation_space), **spaces)
    trainer = SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": 10**8, "headless": True, "disable_progressbar": True}
    )
    with contextlib.suppress(Enough):
        trainer.train()
    games.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
