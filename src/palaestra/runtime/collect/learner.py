"""One behavior of a run: its trainer, and when its summaries and checkpoints are due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import torch

from palaestra.core.errors import Diverged
from palaestra.core.specs import BehaviorSpec
from palaestra.data.rollout import Rollout
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import share_weights
from palaestra.runtime.collect.collector import BehaviorCollector
from palaestra.runtime.collect.learner_messages import ENOUGH, LearnerMessages
from palaestra.runtime.collect.trainer_making import trainer_of
from palaestra.runtime.settings import BehaviorSettings
from palaestra.trainers.settings import POCASettings, PPOSettings, changed

MOST_WEIGHT = 1e15
"""Largest weight: larger ones give outputs that float32 cannot hold."""


class Learner:
    """Trains one behavior. Steps are counted in decisions, as in ML-Agents."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
        inference: bool,
        scratch: Path | None = None,
        group: RankGroup = ALONE,
    ) -> None:
        """`scratch`: the folder for demonstrations that are too large for memory; None: the system's temporary one.
        `group`: the ranks that learn together.
        """
        self.name = name
        self.spec = spec
        self.settings = settings
        self.inference = inference
        self._group = group
        self.trainer, self.process, self.found = trainer_of(
            name, spec, settings, device, seed, scratch, group, inference=inference
        )
        self.collector = BehaviorCollector(
            name,
            spec,
            self.trainer.policy,
            None if inference else self.trainer.rollout_size,
            self.trainer.needs,
            longest=max(group.share(settings.max_steps, rounded_down=True), 1),  # a short run learns, too
        )
        self.messages = LearnerMessages(settings, self.trainer, self.collector, group, inference=inference)
        self.next_summary = settings.summary_freq
        self.next_checkpoint = settings.checkpoint_interval
        self.agreed = 0
        """Decisions of all ranks when the ranks last met."""
        self.met = 0
        """Decisions of this rank when the ranks last met."""
        self._aligned = False
        self.starts_trained = False
        """Whether the network's first weights come from another run."""
        self.rating: float | None = None
        """The policy's Elo rating, if it is in self-play."""
        self.changes: dict[str, float] = {}
        """Hyperparameters that were set to a constant value while the run learned; they are part of its state."""
        self.updates = 0
        self.update_began = 0.0
        self.last_update: float | None = None
        """Seconds of the behavior's last update."""
        self.learning_seconds = 0.0
        """Seconds of the behavior's updates, without waiting for other processes."""
        self.exchange_seconds = 0.0
        """Seconds in which updates waited for other ranks and exchanged gradients."""

    @property
    def step(self) -> int:
        """Number of decisions so far."""
        return self._group.known(self.collector.decisions, self.agreed)

    def meet(self, decisions: int) -> None:
        """Records the decisions of all ranks, which meet now."""
        self.agreed = decisions
        self.met = self.collector.decisions

    @property
    def training(self) -> bool:
        """Whether it still learns."""
        return not self.inference and self.step < self.settings.max_steps

    @property
    def left(self) -> int:
        """Decisions that this rank makes until a summary, a checkpoint or the end is due; 0 or less if one of these is
        due."""
        due = min(self.next_summary, self.next_checkpoint)
        due = min(due, self.settings.max_steps) if self.training else due
        return self._group.share(due - self.agreed) - (self.collector.decisions - self.met)

    @property
    def ticks_ahead(self) -> int:
        """Least number of ticks until something is due."""
        return max(-(-self.left // max(self.collector.meter.slots, 1)), 1)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Learns from a rollout. Returns measurements by tag. Raises Diverged if a loss is not finite."""
        self.update_began = perf_counter()
        exchanged = self._group.waited
        waited = self.process.waiting_seconds
        if not self._aligned:  # networks of a user's own may have begun differently
            share_weights(self.trainer.network, self._group)
            self._aligned = True
        measured = self.trainer.update(rollout, self.step).read()
        self.updates += 1
        self.last_update = perf_counter() - self.update_began
        exchanged = self._group.waited - exchanged
        self.exchange_seconds += exchanged
        self.learning_seconds += self.last_update - exchanged - (self.process.waiting_seconds - waited)
        return self._finite(measured)

    def finish(self) -> dict[str, float]:
        """Waits for the last update and lets it take effect. Returns its measurements, if any. Raises Diverged."""
        return self._finite(self.process.finish().read())

    def _finite(self, measured: dict[str, float]) -> dict[str, float]:
        for tag, value in measured.items():
            if tag.startswith("Losses/") and not math.isfinite(value):
                raise _diverged(self, f"{tag} is {value}")
        return measured

    def change(self, changes: Mapping[str, float]) -> None:
        """Gives hyperparameters constant values, from the next update on."""
        self.changes = dict(changes)
        if not self.inference and self.changes:
            cast(Any, self.trainer).hyper = changed(self.settings.hyperparameters, self.changes)

    def must_be_finite(self) -> None:
        """Raises Diverged if a weight is not finite, or is so large that the outputs are not finite. Waits for an
        accelerator."""
        for name, weights in self.process.learned.items():
            lost = ~(weights.abs() < MOST_WEIGHT)
            if lost.any():
                raise _diverged(self, f"weights '{name}' hold {weights[lost][0]:g}")

    def summary_due(self) -> int | None:
        """Returns the step of a due summary: the multiple of summary_freq just reached, as in ML-Agents; else None."""
        return self._passed("next_summary", self.settings.summary_freq)

    def checkpoint_due(self) -> bool:
        """Whether the behavior's model must be written now; true a last time when training ends."""
        interval = self.settings.checkpoint_interval
        new = self.next_checkpoint < self.settings.max_steps + interval
        return self._passed("next_checkpoint", interval) is not None and new

    def _passed(self, counter: str, every: int) -> int | None:
        due = getattr(self, counter)
        if self.step < due:
            return None
        passed = self.step // every * every
        setattr(self, counter, passed + every)
        return passed

    def state_dict(self) -> dict[str, Any]:
        """Returns the content of the behavior's file in a checkpoint."""
        return {
            "trainer": self.trainer.state_dict(),
            "next_summary": self.next_summary,
            "next_checkpoint": self.next_checkpoint,
            "signals": sorted(self.settings.reward_signals),
            "changes": self.changes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state; a summary or checkpoint that is already due under new settings is made at once."""
        self.trainer.load_state_dict(state["trainer"])
        self.change(state["changes"])
        every = self.settings.summary_freq
        interval = self.settings.checkpoint_interval
        self.next_summary = min(state["next_summary"], (self.step // every + 1) * every)
        self.next_checkpoint = min(state["next_checkpoint"], (self.step // interval + 1) * interval)


def patience_of(settings: BehaviorSettings) -> int:
    """Returns the number of decisions of each agent in a rollout, for environments with their own number of areas, as
    in ML-Agents; 0: no such limit."""
    waits = isinstance(settings.hyperparameters, PPOSettings | POCASettings)
    return min(settings.time_horizon, ENOUGH) if waits else 0


def _diverged(learner: Learner, sign: str) -> Diverged:
    kind = learner.settings.trainer_type
    own = f", if it is not a mistake in {kind}" if ":" in kind else ""
    return Diverged(
        f"behavior '{learner.name}': {sign} at step {learner.step:,}: training has diverged{own}. A smaller "
        "learning_rate, or rewards of another size (reward_signals.extrinsic.strength, or normalize: true) may prevent "
        "it"
    )


def must_be_finite(learners: Mapping[str, Learner]) -> None:
    """Raises Diverged if weights are not finite."""
    for learner in learners.values():
        learner.must_be_finite()
