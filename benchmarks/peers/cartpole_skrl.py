"""skrl's PPO on 8 copies of Gymnasium's vector CartPole-v1. usage: cartpole_skrl.py SEED

It ships no settings for CartPole: these are its defaults with the zoo's horizon, discount, epochs and falling learning
rate.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import gymnasium
import torch
from race import Finished, Race
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import Tensor, nn

COPIES, TICKS, EPOCHS, BUDGET = 8, 32, 20, 150_000


class Watched(gymnasium.vector.VectorWrapper):
    """Reports every episode to the race; skrl's own counters wait for its next report."""

    def __init__(self, env: gymnasium.vector.VectorEnv, race: Race) -> None:
        super().__init__(env)
        self.race = race

    def step(self, actions: Any) -> tuple:
        result = self.env.step(actions)
        infos = result[4]
        if "episode" in infos:
            for length in infos["episode"]["r"][infos["_episode"]]:
                self.race.ended(float(length))
        self.race.took(COPIES)
        self.race.check()
        return result


def net(outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class Actor(CategoricalMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = net(2)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        return self.net(inputs["observations"]), {}


class Critic(DeterministicMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = net(1)

    def compute(self, inputs: dict[str, Tensor], role: str = "") -> tuple[Tensor, dict]:
        return self.net(inputs["observations"]), {}


def config() -> PPO_CFG:
    epochs = EPOCHS * BUDGET // (COPIES * TICKS)  # its scheduler moves once an epoch
    falling = {"lr_lambda": lambda epoch: max(1 - epoch / epochs, 0.0)}
    cfg = PPO_CFG(
        rollouts=TICKS,
        learning_epochs=EPOCHS,
        mini_batches=1,
        discount_factor=0.98,
        gae_lambda=0.8,
        learning_rate=1e-3,
        learning_rate_scheduler=torch.optim.lr_scheduler.LambdaLR,
        learning_rate_scheduler_kwargs=falling,
        value_clip=0.0,
        value_loss_scale=0.5,
    )
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    return cfg


def main(seed: int) -> None:
    torch.set_num_threads(1)
    set_seed(seed)
    race = Race("skrl", seed)
    games = gymnasium.make_vec(
        "CartPole-v1", COPIES, vectorization_mode="sync", vector_kwargs={"autoreset_mode": "SameStep"}
    )
    env = wrap_env(Watched(gymnasium.wrappers.vector.RecordEpisodeStatistics(games), race))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": "cpu"}
    models = {"policy": Actor(**spaces), "value": Critic(**spaces)}
    memory = RandomMemory(memory_size=TICKS, num_envs=COPIES, device="cpu")
    agent = PPO(models=models, memory=memory, cfg=config(), **spaces)
    settings = {"timesteps": BUDGET // COPIES, "headless": True, "disable_progressbar": True}
    trainer = SequentialTrainer(env=env, agents=agent, cfg=settings)
    race.start()
    with contextlib.suppress(Finished):
        trainer.train()
    race.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]))
