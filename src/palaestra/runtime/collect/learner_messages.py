"""Messages about a learning behavior: its trainer's messages, and warnings about its rollouts."""

from __future__ import annotations

from collections.abc import Callable

from palaestra.core.errors import ConfigError
from palaestra.data.rollout import Rollout
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.collector import FEW, BehaviorCollector
from palaestra.runtime.collect.trainer_process import Messages, TrainerProcess
from palaestra.runtime.settings import BehaviorSettings
from palaestra.runtime.settings.warnings import of_length
from palaestra.trainers.base import Remarks, Trainer, Warns
from palaestra.trainers.settings import POCASettings, PPOSettings

ENOUGH = 128
"""Decisions of each agent, or `time_horizon` if it is less, that a rollout waits for if `buffer_size` has few for
each."""

Send = Callable[[str], object]


class LearnerMessages:
    """Shows the user messages about the learning of one behavior."""

    def __init__(
        self,
        settings: BehaviorSettings,
        trainer: Trainer | TrainerProcess,
        collector: BehaviorCollector,
        group: RankGroup,
        *,
        inference: bool,
    ) -> None:
        self._settings = settings
        self._trainer = trainer
        self._collector = collector
        self._group = group
        self._inference = inference
        self._watches_groups = getattr(settings.hyperparameters, "adds_group_rewards", False)
        self._watches_length = isinstance(settings.hyperparameters, PPOSettings | POCASettings)

    def send(self, info: Send, warning: Send) -> None:
        """Sends the trainer's messages and warnings. Raises ConfigError if something it needs is missing."""
        name = self._collector.name
        try:
            remarks = self._trainer.remarks() if isinstance(self._trainer, Remarks) and not self._inference else []
        except ConfigError as error:
            raise ConfigError(f"behavior '{name}': {error}") from error
        self.send_found(Messages(remarks, []), info, warning)
        self.send_warnings(warning)

    def send_found(self, found: Messages, info: Send, warning: Send) -> None:
        """Sends messages about the demonstrations and clips from which the behavior learns."""
        for send, texts in ((info, found.remarks), (warning, found.warnings)):
            for text in texts:
                send(f"{self._collector.name}: {text}")

    def begin(self, step: int, warning: Send) -> None:
        """Warns at the start of a session (after `step` decisions) if too few decisions remain for its settings."""
        held = 0 if self._collector.buffer is None else self._collector.buffer.decisions
        for text in () if self._inference else of_length(self._settings, step, held, self._group.share):
            warning(f"{self._collector.name}: {text}")

    def send_warnings(self, warning: Send, rollout: Rollout | None = None) -> None:
        """Sends the trainer's warnings since the last call, and those about a `rollout` used for learning."""
        found = [] if rollout is None else [*self._about_groups(rollout), *self._about_length(rollout)]
        found += self._trainer.warnings() if isinstance(self._trainer, Warns) and not self._inference else []
        for text in found:
            warning(f"{self._collector.name}: {text}")

    def _about_groups(self, rollout: Rollout) -> list[str]:
        if not self._watches_groups or not bool(rollout.group_reward.any()):
            return []
        self._watches_groups = False
        kind = self._settings.trainer_type
        return [
            f"Group rewards arrive, but trainer_type is {kind}: {kind} adds them to each agent's own rewards and "
            "does not learn which agent of a group earned them; trainer_type: poca does"
        ]

    def _about_length(self, rollout: Rollout) -> list[str]:
        """Says at the first rollout if `buffer_size` holds few decisions of each agent, and what follows from it."""
        hyper = self._settings.hyperparameters
        if not (self._watches_length and isinstance(hyper, PPOSettings | POCASettings)):
            return []
        self._watches_length = False
        horizon = self._settings.time_horizon
        time, _ = rollout.shape
        agents = int(self._group.total(self._collector.agents))
        held = min(horizon, ENOUGH)
        few = (
            f"buffer_size {hyper.buffer_size:,} holds {hyper.buffer_size // agents:,} decisions of each of "
            f"{agents:,} agents"
        )
        if self._collector.rollout_size != self._trainer.rollout_size:
            return [
                f"{few}: a rollout waits for {time} of each ({agents * time:,} in all), as ML-Agents does up to "
                "time_horizon"
            ]
        if time >= min(horizon, FEW):
            return []
        return [
            f"{few}, and rewards that come later are only estimated. Without num_areas a rollout would wait for "
            f"{held} of each, as ML-Agents does up to time_horizon: buffer_size {agents * held:,}"
        ]
