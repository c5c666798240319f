"""PPO with a KL penalty in place of the clip: Schulman et al. 2017, https://arxiv.org/abs/1707.06347, eq. 8.

`palaestra learn examples/kl_ppo.yaml` reaches 500 on CartPole-v1 within 60,000 decisions.
"""

from pydantic import Field
from torch import Tensor

from palaestra.data.rollout import Minibatch
from palaestra.trainers.ppo import PPO, Coefficients
from palaestra.trainers.settings import PPOSettings


class KLSettings(PPOSettings):
    """PPO's hyperparameters, and one more."""

    kl_coef: float = Field(default=1.0, ge=0)
    """Weight of the KL divergence from the policy that collected the rollout."""


class KLPenaltyPPO(PPO):
    """Keeps the policy near the one that collected the rollout by a penalty."""

    Settings = KLSettings

    def policy_loss(self, log_ratio: Tensor, batch: Minibatch, c: Coefficients) -> Tensor:
        """Returns the policy's part of the loss, (), from log-ratios (N, A)."""
        assert isinstance(self.hyper, KLSettings)
        log_ratio = log_ratio.sum(1)  # of the whole action
        kl = log_ratio.expm1() - log_ratio  # http://joschu.net/blog/kl-approx.html, the estimator k3
        self.metrics.add({"Losses/KL Penalty": kl.detach().mean()})
        return (self.hyper.kl_coef * kl - log_ratio.exp() * batch.advantage).mean()
