"""A gradient step with residual bodies, bins and a delayed policy against its formulas, written out row by row and
differentiated by autograd: docs/guides/training/sac.md.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tiny_envs import CPU, spec_of
from torch import Tensor

from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.replay import ReplayBatch
from palaestra.models.residual.residual_body import ResidualBody, StackedBatchNorm
from palaestra.models.sac_networks import SoftCritics
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.sac import SAC
from palaestra.trainers.soft.joint_gradient import JointGradient

EPSILON, MOMENTUM = 1e-5, 0.01
ROWS = 5
ONE = {"extrinsic": {"gamma": 0.9}}
TWO = {"extrinsic": {"gamma": 0.9, "strength": 0.5}, "rnd": {"gamma": 0.7, "strength": 0.1}}
RESIDUAL = {"body": "residual", "num_layers": 1}
CASES: dict[str, tuple[BehaviorSpec, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "numbers": (spec_of((4,), continuous=2), {"critic_bins": 11, "target_deviation": 0.2}, RESIDUAL, ONE),
    "choices": (spec_of((4,), branches=(3, 2)), {"critic_bins": 7, "backup_entropy": False}, RESIDUAL, TWO),
    "hybrid": (spec_of((4,), continuous=1, branches=(3, 2)), {"critic_bins": 2, "policy_delay": 2}, RESIDUAL, TWO),
    "values": (spec_of((4,), continuous=2), {"policy_delay": 2}, RESIDUAL, ONE),
    "layers": (spec_of((4,), continuous=2, branches=(3,)), {"critic_bins": 5, "n_step": 3}, {"num_layers": 1}, ONE),
}


def made(case: str) -> SAC:
    spec, hyper, network, signals = CASES[case]
    tree = {
        "trainer_type": "sac",
        "hyperparameters": {"batch_size": ROWS, "buffer_size": 500, **hyper},
        "network_settings": {"hidden_units": 6, **network},
        "reward_signals": signals,
    }
    sac = SAC(spec, BehaviorSettings.model_validate(tree), CPU, 1)
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():  # at first critics say all the same
        for weights in sac.network.parameters():
            weights.add_(0.3 * torch.randn(weights.shape, generator=chance))
        sac.network.log_temperature.copy_(torch.linspace(-1.5, -0.5, len(sac.network.log_temperature)))
    return sac


def noise(sac: SAC) -> ReplayBatch:
    """A minibatch of it; one choice of the first branch is forbidden in some rows, all but one in others."""
    action = sac.network.spec.action
    torch.manual_seed(3)
    masks = torch.ones(2 * ROWS, action.choices, dtype=torch.bool)
    if action.branches:
        masks[::3, 1] = False
        masks[1::4, 1:3] = False
    done = [torch.zeros(ROWS, dtype=torch.int64), *(torch.randint(n, (ROWS,)) for n in action.branches[1:])]
    batch = ReplayBatch(
        (torch.randn(2 * ROWS, 4),),
        masks if action.branches else None,
        slice(0, ROWS),
        slice(ROWS, 2 * ROWS),
        None,
        Action(torch.rand(ROWS, action.continuous) * 2 - 1, torch.stack(done, 1)[:, : len(action.branches)]),
        torch.randn(ROWS),
        torch.tensor([False, True, False, False, False]),
        torch.tensor([False, True, False, True, False]),
    )
    return replace(batch, steps=torch.tensor([3, 2, 1, 1, 3])) if sac.hyper.n_step > 1 else batch


@dataclass
class Draw:
    numbers: Tensor
    log_density: Tensor  # (N,)
    branches: Sequence[Tensor]


class Formulas:
    """The losses of one gradient step. `kept` has the critics' running statistics once the step has seen its rows."""

    def __init__(self, sac: SAC, batch: ReplayBatch, reward: Tensor, acts: bool) -> None:
        self.sac, self.batch, self.reward, self.acts = sac, batch, reward, acts
        self.action = sac.network.spec.action
        self.chance = torch.Generator()
        self.chance.set_state(sac.gradient_rng.get_state())
        self.heat = sac.network.log_temperature.detach().exp()
        self.bins = torch.linspace(-5, 5, sac.hyper.critic_bins or 1)
        self.first = [sum(self.action.branches[:i]) for i in range(len(self.action.branches))]
        self.kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def body(self, body: Any, k: int, x: Tensor, how: str) -> Tensor:
        """`how`: "learns" by the statistics of the rows, "runs" by those so far, "kept" by those after this step."""
        if not isinstance(body, ResidualBody):
            for weight, bias in body.layers:
                x = silu(x @ weight[k] + bias[k])
            return x

        def norm(i: int, x: Tensor) -> Tensor:
            layer = body.norms[i]
            assert isinstance(layer, StackedBatchNorm)
            running = layer.mean.view(body.networks, -1)[k], layer.var.view(body.networks, -1)[k]
            mean, var = running
            if how == "learns":
                mean = x.mean(0)
                var = (x - mean).square().mean(0)
                unbiased = var * len(x) / (len(x) - 1)
                new = zip(running, (mean.detach(), unbiased.detach()), strict=True)
                moved = tuple((1 - MOMENTUM) * old + MOMENTUM * now for old, now in new)
                self.kept[k, i] = moved[0], moved[1]
            elif how == "kept":
                mean, var = self.kept[k, i]
            return (x - mean) / (var + EPSILON).sqrt() * layer.affine[0, k] + layer.affine[1, k]

        x = norm(0, x) @ body.weights[0][k].T
        for i in range(1, len(body.weights), 2):
            wide = torch.relu(norm(i, x @ body.weights[i][k].T))
            x = x + torch.relu(norm(i + 1, wide @ body.weights[i + 1][k].T))
        return x / (x.square().mean(1, keepdim=True) + EPSILON).sqrt() * body.scale[k].flatten()

    def critics(self, critics: SoftCritics, x: Tensor, numbers: Tensor, how: str) -> Tensor:
        """What both say, (2, N, K, outputs, bins)."""
        said = []
        for k in range(2):
            features = self.body(critics.body, k, torch.cat([x, numbers], 1), how)
            said.append(features @ critics.head_weight[k] + critics.head_bias[k, 0])
        return torch.stack(said).view(2, len(x), self.reward.shape[1], -1, len(self.bins))

    def draw(self, x: Tensor, masks: Tensor | None) -> Draw:
        count = self.action.continuous
        mean, spread, logits = x.split([count, count, self.action.choices], 1)
        log_std = -10 + 6 * (1 + spread.tanh()) if self.sac.network.smooth else spread.clamp(-20, 2)
        drawn = torch.randn(mean.shape, generator=self.chance)
        raw = mean + log_std.exp() * drawn
        density = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw) - (1 - raw.tanh().square()).log()
        if masks is not None:
            logits = logits.masked_fill(~masks, -1e8)
        parts = logits.split(list(self.action.branches), 1) if self.action.branches else ()
        return Draw(raw.tanh(), density.sum(1), [part.log_softmax(1) for part in parts])

    def choices(self, drawn: Draw, heat: Tensor) -> list[tuple[Tensor, Tensor, int]]:
        """Share, entropy bonus and place of each output, the first two (N,)."""
        of_numbers = -heat[0] * drawn.log_density if self.action.continuous else torch.zeros(ROWS)
        if not self.action.branches:
            return [(torch.ones(ROWS), of_numbers, 0)]
        heats = heat[len(heat) - len(self.action.branches) :]
        return [
            (log_probs[:, c].exp() / len(drawn.branches), of_numbers - heats[b] * log_probs[:, c], self.first[b] + c)
            for b, log_probs in enumerate(drawn.branches)
            for c in range(log_probs.shape[1])
        ]

    def loss(self) -> Tensor:
        batch, network = self.batch, self.sac.network
        now, after = (None, None) if batch.masks is None else batch.masks.chunk(2)
        x = torch.cat(network.prepare(batch.obs), 1)
        joint = isinstance(network.body, ResidualBody)
        head = network.action_head
        seen = x if self.acts else x[ROWS:]
        output = self.body(network.body, 0, seen, "learns" if self.acts else "runs") @ head.weight.T + head.bias
        following = self.draw(output[-ROWS:].detach(), after)
        numbers = torch.cat([batch.action.continuous, following.numbers])
        if joint:
            later = self.critics(network.targets, x, numbers, "learns")[:, ROWS:]
            said = self.critics(network.critics, x, numbers, "learns")[:, :ROWS]
        else:
            later = self.critics(network.targets, x[ROWS:], following.numbers, "")
            said = self.critics(network.critics, x[:ROWS], batch.action.continuous, "")
        loss = self.critic_loss(said, later.detach(), following)
        if not self.acts:
            return loss
        drawn = self.draw(output[:ROWS], now)
        held = copy.deepcopy(network.critics).requires_grad_(False)
        valued = self.critics(held, x[:ROWS], drawn.numbers, "kept") if self.action.continuous else said.detach()
        smaller = self.mean(valued).amin(0)
        shares = self.choices(drawn, self.heat)
        value = sum((share * (smaller[:, :, at] + bonus[:, None]).T).T for share, bonus, at in shares)
        assert isinstance(value, Tensor)
        return loss - value.mean() + self.heat_loss(drawn, now)

    def mean(self, said: Tensor) -> Tensor:
        return said[..., 0] if len(self.bins) == 1 else (said.softmax(-1) * self.bins).sum(-1)

    def critic_loss(self, said: Tensor, later: Tensor, following: Draw) -> Tensor:
        hyper, signals = self.sac.hyper, self.sac.signals
        shares = self.choices(following, self.heat * hyper.backup_entropy)
        total = torch.zeros(())
        count = self.reward.numel()
        for n in range(ROWS):
            done = self.batch.action.discrete[n].tolist()
            taken = [first + choice for first, choice in zip(self.first, done, strict=True)] or [0]
            steps = 1 if self.batch.steps is None else int(self.batch.steps[n])
            for k, gamma in enumerate(signals.gammas):
                ends = bool(self.batch.terminated[n]) and not signals.ignore_ends[k]
                discount = 0.0 if ends else gamma**steps
                reward = self.reward[n, k]
                least = self.mean(later[:, n, k]).argmin(0)
                if len(self.bins) == 1:
                    worth = [s[n] * (later[least[at], n, k, at, 0] + bonus[n]) for s, bonus, at in shares]
                    target = reward + discount * torch.stack(worth).sum()
                    error = torch.stack([said[:, n, k, at, 0] for at in taken]).mean(0) - target
                    total = total + 0.5 * error.square().sum() / count
                    continue
                probs = torch.zeros(len(self.bins))
                for share, bonus, at in shares:
                    for chance, atom in zip(later[least[at], n, k, at].softmax(0), self.bins, strict=True):
                        moved = float(reward + discount * (atom + bonus[n]))
                        place = (min(max(moved, -5.0), 5.0) + 5) / (10 / (len(self.bins) - 1))
                        below = min(int(place), len(self.bins) - 2)
                        probs[below] += share[n] * chance * (below + 1 - place)
                        probs[below + 1] += share[n] * chance * (place - below)
                for at in taken:
                    total = total - (probs * said[:, n, k, at].log_softmax(-1)).sum() / (count * len(taken))
        return total

    def heat_loss(self, drawn: Draw, masks: Tensor | None) -> Tensor:
        """Rises with a temperature where there is more entropy than its target."""
        numbers, deviation = self.action.continuous, self.sac.hyper.target_deviation
        of_each = -1.0 if deviation is None else 0.5 * math.log(2 * math.pi * math.e * deviation**2)
        excess = [(-drawn.log_density - numbers * of_each).mean()] if numbers else []
        for first, log_probs in zip(self.first, drawn.branches, strict=True):
            assert masks is not None
            allowed = masks[:, first : first + log_probs.shape[1]].sum(1)
            above = -(log_probs.exp() * log_probs).sum(1) - 0.2 * allowed.log()
            excess.append(above[allowed > 1].mean())
        return (self.sac.network.log_temperature.exp() * torch.stack(excess).detach()).sum()


def silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_the_formulas(case: str):
    sac = made(case)
    gradient = sac.gradient
    assert isinstance(gradient, JointGradient)
    batch = noise(sac)
    reward = sac.signals.of_batch(batch.transitions())
    parameters = {name: p for name, p in sac.network.named_parameters() if p.requires_grad}
    for acts in (True, False)[: sac.hyper.policy_delay]:
        gradient._acts = acts
        loss = Formulas(sac, batch, reward, acts).loss()
        expected = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        gradient.fill(batch, reward, sac, Metrics())
        for (name, parameter), grad in zip(parameters.items(), expected, strict=True):
            actors = parameter is sac.network.log_temperature or any(parameter is one for one in gradient.deciding)
            assert (parameter.grad is None) == (actors and not acts), name
            if parameter.grad is not None:
                grad = torch.zeros_like(parameter) if grad is None else grad
                torch.testing.assert_close(parameter.grad, grad, rtol=2e-3, atol=2e-4, msg=name)
