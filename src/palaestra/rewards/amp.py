"""Adversarial motion priors (AMP). Peng et al. 2021, https://arxiv.org/abs/2104.02180."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from palaestra.core.errors import ConfigError
from palaestra.core.specs import BehaviorSpec, ObsSpec
from palaestra.core.system_memory import format_bytes, free_memory
from palaestra.data.transitions import Transitions
from palaestra.models.encoders import dense
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.chosen_numbers import choose_numbers
from palaestra.rewards.clips import Clips, load_clips
from palaestra.rewards.settings import AMPSettings
from palaestra.rewards.signal_optimizer import SignalOptimizer, of_signal

OBSERVATIONS = "reward_signals.amp.observations"
VERDICT_GAIN = 0.2
BOUND = 10.0
"""Bound of the scaled numbers, in deviations of the clips."""
KEPT_SHARE = 8
"""One in this many pairs is kept: if all were kept, 100,000 pairs would only cover the last few updates."""


class AMP:
    """Rewards transitions between states that look like transitions in recorded clips: max(0, 1 - (D - 1)^2 / 4), eq.
    7.

    D is trained by least squares to be 1 for pairs of the clips and -1 for the policy's pairs, half of which come from
    earlier policies. The numbers are scaled by mean and deviation of the clips, which stay the same while the
    discriminator learns: kept pairs keep their meaning, and the slope at the clips is measured in their own units.
    """

    Settings = AMPSettings
    ignores_ends = False

    def __init__(
        self, settings: AMPSettings, spec: BehaviorSpec, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        """Raises ConfigError if a chosen observation is missing or no vector, DemoError if clips do not fit."""
        self.clips = clips_of(settings, spec, device)
        chosen = choose_numbers(settings.observations, spec, OBSERVATIONS)
        self._compared = [[one.index, *one.numbers] for one in chosen]
        self._sensors = [
            (one.index, None if len(one.numbers) == one.size else torch.tensor(one.numbers, device=device))
            for one in chosen
        ]
        shape = settings.network_settings
        numbers = self.clips.states.shape[1]
        self.optimizer = SignalOptimizer(
            lambda: PairDiscriminator(numbers, spec, shape), device, settings.learning_rate, seed, group
        )
        self.model = self.optimizer.network
        self.rng = torch.Generator(device).manual_seed(group.own_seed(seed + 1))
        self._penalty = settings.gradient_penalty
        must_have_room(settings, numbers, device)
        self._kept = KeptPairs(group.share(settings.kept_pairs), 2 * numbers, device)

    def reward(self, batch: Transitions) -> Tensor:
        """Returns max(0, 1 - (D - 1)^2 / 4), (N,)."""
        return style_reward(self.model(self._scaled(self._pairs(batch))))

    def learn(self, batch: Transitions) -> dict[str, Tensor]:
        """Takes a gradient step with the discriminator, on these pairs, kept pairs and as many pairs of the clips."""
        ours = self._pairs(batch)
        n = len(ours)
        policy = ours
        if len(self._kept):
            policy = torch.cat([ours[::2], self._kept.draw(n // 2, self.rng)])
        rows = torch.randint(len(self.clips), (n,), generator=self.rng, device=self.rng.device)
        shown = self._scaled(self.clips.take(rows)).requires_grad_()
        loss, penalty, judged = discriminator_loss(self.model, self._scaled(policy), shown)
        self.optimizer.step(loss + 0.5 * self._penalty * penalty, n)
        self._kept.add(ours[::KEPT_SHARE])
        measured = {"Losses/AMP Loss": loss, "Policy/AMP Grad Penalty": penalty} | {
            f"Policy/AMP {whose} Estimate": d.mean() for whose, d in zip(("Policy", "Clip"), judged, strict=True)
        }
        return {tag: value.detach() for tag, value in measured.items()}

    def _pairs(self, batch: Transitions) -> Tensor:
        """Returns the chosen numbers before and after, (N, 2 k); at an end, the later ones come from the final
        observation."""
        return torch.cat(
            [
                obs[i] if numbers is None else obs[i].index_select(1, numbers)
                for obs in (batch.obs, batch.next_obs)
                for i, numbers in self._sensors
            ],
            1,
        )

    def _scaled(self, pairs: Tensor) -> Tensor:
        mean, deviation = (x.repeat(2) for x in (self.clips.mean, self.clips.deviation))
        return ((pairs - mean) / deviation).clamp_(-BOUND, BOUND)

    def learn_statistics(self, obs: tuple[Tensor, ...]) -> None:
        """Does nothing: the scale comes from the clips."""

    def state_dict(self) -> dict[str, Any]:
        """Returns weights, optimizer, the kept pairs with their numbers' names, and the random stream for pairs."""
        kept = {"kept": self._kept.state_dict(), "compared": self._compared}
        return {**self.optimizer.state_dict(), **kept, "sample_rng": self.rng.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. Raises ValueError if the state is of other chosen numbers."""
        if state.get("compared", self._compared) != self._compared:
            raise ValueError("the saved state of amp is of other chosen numbers")
        self.optimizer.load_state_dict(state)
        self._kept.load_state_dict(state["kept"])
        self.rng.set_state(state["sample_rng"].cpu())


class PairDiscriminator(nn.Module):
    """Maps pairs of states to a number: 1 for a clip's pairs, -1 for a policy's."""

    def __init__(self, numbers: int, spec: BehaviorSpec, settings: NetworkSettings) -> None:
        super().__init__()
        states = BehaviorSpec((ObsSpec("states", (2 * numbers,)),), spec.action)
        plain = of_signal(settings).model_copy(update={"normalize": False})
        self.trunk = Trunk(states, plain, 1)
        self.verdict = dense(self.trunk.width, 1, VERDICT_GAIN)

    def forward(self, pairs: Tensor) -> Tensor:
        """Maps (N, 2 k) to (N,)."""
        return self.verdict(self.trunk.features(0, (pairs,))).squeeze(1)


class KeptPairs:
    """The newest pairs that were added, at most `size`."""

    def __init__(self, size: int, numbers: int, device: torch.device) -> None:
        self._table = torch.empty((size, numbers), device=device)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, pairs: Tensor) -> None:
        """Adds pairs (n, numbers); if there is no room, they replace the oldest pairs."""
        size = len(self._table)
        pairs = pairs[:size]
        whole = min(len(pairs), size - self._next)
        self._table[self._next : self._next + whole] = pairs[:whole]
        self._table[: len(pairs) - whole] = pairs[whole:]
        self._next = (self._next + len(pairs)) % size if size else 0
        self._count = min(size, self._count + len(pairs))

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draws pairs (count, numbers) with equal probability, with replacement."""
        rows = torch.randint(self._count, (count,), generator=generator, device=generator.device)
        return self._table.index_select(0, rows)

    def state_dict(self) -> dict[str, Any]:
        """Returns the pairs, without a copy, and the position of the next pair."""
        return {"pairs": self._table[: self._count], "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state; if it has more pairs than fit, only the first ones."""
        saved, size = state["pairs"], len(self._table)
        self._count = min(size, len(saved))
        self._table[: self._count] = saved[: self._count].to(self._table.device)
        self._next = state["next"] if len(saved) == size else self._count % max(size, 1)


def clips_of(settings: AMPSettings, spec: BehaviorSpec, device: torch.device) -> Clips:
    """Returns the clips that settings name, which are read once. Raises ConfigError and DemoError."""
    chosen = choose_numbers(settings.observations, spec, OBSERVATIONS)
    return load_clips(settings.clips, chosen, spec, device, settings.decision_seconds)


def remark_of(settings: AMPSettings, clips: Clips) -> str:
    """Returns the remarks that a run prints at its start: the source of the pairs, and the memory of kept pairs."""
    size = format_bytes(bytes_kept(settings, clips.states.shape[1]))
    return f"{clips.remark}; {settings.kept_pairs:,} pairs of earlier policies are kept, up to {size} in checkpoints"


def bytes_kept(settings: AMPSettings, numbers: int) -> int:
    """Returns the bytes of all kept pairs, each of two states of `numbers` values."""
    return settings.kept_pairs * 2 * numbers * 4


def must_have_room(settings: AMPSettings, numbers: int, device: torch.device) -> None:
    """Raises ConfigError if the kept pairs need more memory than is free."""
    size = bytes_kept(settings, numbers)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else free_memory()
    if size > free:
        raise ConfigError(
            f"reward_signals.amp.kept_pairs: {settings.kept_pairs:,} pairs of {numbers} numbers take "
            f"{format_bytes(size)}, but {format_bytes(free)} of memory are free; keep or compare fewer"
        )


def style_reward(d: Tensor) -> Tensor:
    """Returns max(0, 1 - (D - 1)^2 / 4), (N,), of the discriminator's outputs (N,): eq. 7."""
    return (1 - 0.25 * (d - 1).square()).clamp(min=0)


def discriminator_loss(model: nn.Module, policy: Tensor, clips: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Returns the loss, (), the mean squared slope at the clips' pairs, (), and D of the policy's and of the clips'
    pairs, each (N,): eq. 8.

    The loss is E[(D - 1)^2] over the clips' pairs and E[(D + 1)^2] over the policy's. `clips` (N, 2 k) must require a
    gradient.
    """
    ours, theirs = model(policy), model(clips)
    loss = (ours + 1).square().mean() + (theirs - 1).square().mean()
    (slope,) = torch.autograd.grad(theirs.sum(), clips, create_graph=True)
    return loss, slope.square().sum(1).mean(), (ours, theirs)
