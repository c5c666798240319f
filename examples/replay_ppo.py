"""PPO that learns from each rollout twice: when it is new, and once more after the next one.

`palaestra learn examples/replay_ppo.yaml` reaches 500 on CartPole-v1 within 60,000 decisions.
"""

from typing import Any

from palaestra.data.rollout import Rollout
from palaestra.trainers.ppo import PPO, Coefficients
from palaestra.trainers.trainer_setup import KeptRollout


class ReplayPPO(PPO):
    """Keeps the last rollout, and saves it with everything else that the next update depends on."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.kept = KeptRollout(self.action_rng.device)
        self.parts.add(kept=self.kept)

    def learn(self, rollout: Rollout, c: Coefficients, *, again: bool = False) -> None:
        """Takes `num_epoch` passes over this rollout and over the one before."""
        super().learn(rollout, c, again=again)
        if self.kept.rollout is not None:
            super().learn(self.kept.rollout, c, again=True)
        self.kept.keep(rollout)
