"""Soft actor-critic. Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905, with ML-Agents' settings.

Subclasses may override each public method (docs/guides/extend/methods-to-override.md). Shapes: see ARCHITECTURE.md.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import format_bytes, free_memory
from palaestra.data.n_step import Ahead
from palaestra.data.replay import Replay, ReplayBatch
from palaestra.data.rollout import Rollout
from palaestra.data.transitions import TransitionTable
from palaestra.losses.categorical import LIMIT
from palaestra.losses.sac import backup, temperature_loss
from palaestra.models.optimizer import scheduled
from palaestra.models.sac_networks import SoftActorCritic
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.rewards.prior_data import PriorData
from palaestra.rewards.signals import EXTRINSIC, RewardSignals
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.forward import bfloat16_pays
from palaestra.trainers.imitation import Cloning
from palaestra.trainers.sac_gradient import DrawnActions, SoftGradient, temperatures
from palaestra.trainers.settings import LAST_LEARNING_RATE, STEPS_BESIDE, SACSettings
from palaestra.trainers.soft.held_noise import policy_of
from palaestra.trainers.soft.joint_gradient import JointGradient
from palaestra.trainers.soft.sac_closed_form import ClosedFormGradient, has_closed_form
from palaestra.trainers.trainer_setup import (
    Parts,
    check_overrides,
    off_policy_checks,
    replaces,
    seeded_generator,
    seeded_network,
)
from palaestra.trainers.update_metrics import at_bounds

SAVED_AT_MOST = 1 << 30
"""Largest replay, in bytes, that is kept in checkpoints unless the settings say otherwise."""
STEPS_AT_ONCE = 8
"""Gradient steps of one update with `threaded: true`: passing on a rollout for each takes as long as half a step."""
MOST_COLLECTED = 1024
"""Most decisions that wait for the replay; the gradient steps that are due are counted beyond them."""


class SAC:
    """Learns from decisions drawn from a replay, with one gradient step every `steps_per_update` decisions.

    Until `buffer_init_steps` decisions are collected the policy acts without learning: a new policy draws nearly evenly
    from all actions.
    """

    Settings = SACSettings

    def __init__(
        self, spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int, group: RankGroup = ALONE
    ) -> None:
        assert isinstance(settings.hyperparameters, SACSettings)
        if settings.network_settings.compile:
            raise ConfigError("network_settings.compile is not available with the trainer sac; set it to false")
        self.settings = settings
        self.hyper = settings.hyperparameters
        if self.hyper.critic_bins and replaces(self, SAC, "critic_loss"):
            raise ConfigError(
                f"{type(self).__name__}.critic_loss compares values, but with critic_bins the loss is a cross entropy: "
                "leave out one of them"
            )
        self.group = group
        shape = settings.network_settings
        self.network = seeded_network(self.make_network, spec, settings, device, seed)
        if (bins := self.network.critics.bins) != (self.hyper.critic_bins or 1):
            raise ConfigError(
                f"{type(self).__name__}.make_network returned critics of {bins} bins; expected critic_bins: "
                f"{self.hyper.critic_bins or 'null, which is 1'}; pass it on as SoftActorCritic's `bins`, or leave it "
                "out of the settings"
            )
        self.action_rng = seeded_generator(device, seed + 1, group)
        self.replay_rng = seeded_generator("cpu", seed + 2, group)
        self.gradient_rng = seeded_generator(device, seed + 4, group)
        self.policy = policy_of(self.network, self.action_rng, shape.deterministic, self.hyper.noise_hold)
        network, limit = self.network, LIMIT if self.hyper.critic_bins else None
        self.signals = RewardSignals(
            network.spec, settings.reward_signals, device, seed + 3, group, network.shown, limit
        )
        bfloat16 = bfloat16_pays(self.network, device) if shape.bfloat16 is None else shape.bfloat16
        self._gamma = torch.tensor(self.signals.gammas, device=device)
        self._ahead = Ahead(self.hyper.n_step, self.signals.gammas[0])
        self._ignores_ends = torch.tensor(self.signals.ignore_ends, device=device)
        self.gradient = gradient_kind(self, bfloat16)(
            self.network, self.hyper, self.signals, self.gradient_rng, bfloat16=bfloat16, group=group
        )
        self.cloning: Cloning | None = None
        if settings.behavioral_cloning is not None:
            self.cloning = Cloning(self.network, self.gradient.deciding, settings, device, seed + 5, group)
        stretch = shape.memory.sequence_length if shape.memory else 0
        self.replay = Replay(
            spec, group.share(self.hyper.buffer_size), device, memory=self.network.memory_size, stretch=stretch
        )
        self.prior: PriorData | None = None
        if (prior := self.hyper.prior_data) is not None:
            scale = self.signals.scales.get(EXTRINSIC)
            self.prior = PriorData(prior, spec, device, scale, memory=self.replay.memory, stretch=stretch)
        collected = self.hyper.steps_per_update * (STEPS_AT_ONCE if settings.threaded else 1)
        self.rollout_size = max(1, group.share(int(min(collected, MOST_COLLECTED)), rounded_down=True))
        self.needs = self.signals.needs
        self.batch_size = group.share(self.hyper.batch_size)
        """Decisions of this rank in a minibatch."""
        self._first_collect = max(self.hyper.buffer_init_steps, self.hyper.batch_size)
        """Decisions before the first gradient step: a minibatch at least."""
        self._to_collect = self._first_collect
        self.metrics = Metrics()
        """Measurements of the update under way; overridden methods may add theirs, by TensorBoard tag."""
        self._owed = 0.0
        self._signals_owed = 0.0
        self._remarked = False
        self._lacks_replay = False
        self.parts = Parts(  # a subclass may add its own
            network=self.network,
            **self.gradient.parts(),
            signals=self.signals,
            behavioral_cloning=self.cloning,
            action_rng=self.action_rng,
            replay_rng=self.replay_rng,
            gradient_rng=self.gradient_rng,
        )
        check_overrides(self, off_policy_checks())

    @staticmethod
    def make_network(spec: BehaviorSpec, settings: BehaviorSettings) -> SoftActorCritic:
        """Returns actor, critics with a value for each reward signal, and target critics."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, SACSettings)
        shape = settings.network_settings
        sizes = {"hidden_units": hyper.critic_hidden_units, "num_layers": hyper.critic_num_layers}
        critics = shape.model_copy(update={name: size for name, size in sizes.items() if size is not None})
        return SoftActorCritic(
            spec, shape, len(settings.reward_signals), hyper.init_entcoef, critics, hyper.critic_bins or 1
        )

    @property
    def saves_replay(self) -> bool:
        """Whether checkpoints hold the replay."""
        saved = self.hyper.save_replay_buffer
        return self.replay.bytes_needed <= SAVED_AT_MOST if saved is None else saved

    def remarks(self) -> list[str]:
        """Returns the replay's size and whether it is saved, once. Raises ConfigError if there is too little memory."""
        prior = [] if self.prior is None else self.prior.remarks()
        if self._remarked:
            return prior
        check_room(self.replay)
        self._remarked = True
        kept = "is" if self.saves_replay else "is not"
        size = format_bytes(self.replay.bytes_needed)
        beyond = [
            obs.name
            for obs, as_bytes in zip(self.replay.spec.obs, self.replay.as_bytes, strict=True)
            if obs.is_visual and not as_bytes
        ]
        why = f" ({', '.join(beyond)}: images with numbers beyond 0..1, which take four bytes each)" if beyond else ""
        idle = () if self.replay.spec.action.continuous else ("target_deviation", "noise_hold")
        beside = 0 if self.cloning is None else self.cloning.count(STEPS_BESIDE)
        passes = (
            f"Each of its gradient steps has {beside:,} of cloning beside it; without num_epoch and "
            f"samples_per_update: {STEPS_BESIDE}"
        )
        return [
            f"Its replay of {self.replay.size:,} decisions takes up to {size}{why} and {kept} saved in checkpoints "
            "(save_replay_buffer)",
            *([passes] if beside > STEPS_BESIDE else []),
            *(f"{key}: not used: no action is continuous" for key in idle if getattr(self.hyper, key) not in (None, 1)),
            *prior,
        ]

    def warnings(self) -> list[str]:
        """Returns a warning if a run continues without its earlier experience."""
        lacking = self._lacks_replay
        self._lacks_replay = False
        keep = "" if self.saves_replay else ", since its settings keep none there (save_replay_buffer: true does)"
        again = f"{self._to_collect:,} new decisions are collected before it learns again"
        return (
            [f"It continues without its replay buffer: the checkpoint has no fitting one{keep}; {again}"]
            if lacking
            else []
        )

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Adds the rollout to the replay, then takes the gradient steps that are due."""
        metrics = self.metrics = Metrics()
        reward = rollout.reward + rollout.group_reward
        action = self.network.for_environment(rollout.sample)
        needed = self.replay.bytes_needed
        self.replay.add(rollout, action, reward)
        self._remarked &= self.replay.bytes_needed == needed
        vectors = tuple(rollout.completed(rollout.obs[i]) for i in self.network.measured)
        self.network.learn_statistics(vectors, self.group)
        if self.signals.learned:
            self.signals.learn_statistics(tuple(map(rollout.completed, rollout.obs)))
        seen = TransitionTable(rollout, action, reward) if self.signals.learned else None
        self.signals.of_rollout(rollout, reward, seen)
        metrics.add(self.signals.measured())
        metrics.add(at_bounds(rollout, action))
        decisions = reward.numel() if rollout.lengths is None else int(rollout.lengths.sum())
        self._learn(int(self.group.total(decisions)), step)
        self.after_update(rollout, step)
        return metrics

    def schedule(self, step: int) -> float:
        """Returns the learning rate of all networks and temperatures for the update after `step` decisions."""
        hyper = self.hyper
        return scheduled(
            hyper.learning_rate_schedule, hyper.learning_rate, LAST_LEARNING_RATE, step, self.settings.max_steps
        )

    def targets(self, batch: ReplayBatch, reward: Tensor, after: DrawnActions) -> Tensor:
        """Returns the critics' targets for the decisions taken, (N, K): eq. 5. Called without gradients.

        `reward` (N, K) is each signal's reward; `after` has the actions drawn in the next states, valued by the target
        critics.
        """
        gamma = self._gamma if batch.steps is None else self._gamma ** batch.steps.unsqueeze(1)
        return backup(reward, after.value, batch.terminated, gamma, self._ignores_ends)

    def critic_loss(self, taken: Tensor, target: Tensor, batch: ReplayBatch) -> Tensor:
        """Returns the loss of each critic, (2,): half of the mean squared error over N rows and K signals, eq. 5.

        `taken` (2, N, K): both critics' values of the actions taken; `target` (N, K).
        """
        return (taken - target).square().mean((1, 2)).mul(0.5)

    def actor_loss(self, now: DrawnActions, batch: ReplayBatch) -> Tensor:
        """Returns the policy's loss, (): minus the mean value of the actions drawn at the current observations (`now`),
        entropy included, eq. 7.

        Gradients flow through the drawn actions, but not into the critics' weights.
        """
        return -now.value.mean()

    def temperature_loss(self, excess: Tensor, counts: Tensor) -> Tensor:
        """Returns the temperatures' loss, (), eq. 18.

        `excess` (N, up to 1 + B): entropy minus its target, without gradient; `counts` (same shape): 1 for rows that
        count, else 0. It trains `self.network.log_temperature`.
        """
        return temperature_loss(self.network.log_temperature, excess, counts)

    def after_update(self, rollout: Rollout, step: int) -> None:
        """Called at the end of each update. The rollout is overwritten afterwards: see `KeptRollout`."""

    def _draw(self) -> ReplayBatch:
        draw = self.replay.draw if self.prior is None else partial(self.prior.mixed, self.replay)
        return draw(self.batch_size, self.replay_rng, self._ahead)

    def _learn(self, decisions: int, step: int) -> None:
        """Takes the gradient steps that are due after this number of new decisions."""
        metrics = self.metrics
        early = min(decisions, self._to_collect)
        self._to_collect -= early
        self._owed += (decisions - early) / self.hyper.steps_per_update
        self._signals_owed += (decisions - early) / self.hyper.reward_signal_steps_per_update
        steps = int(self._owed)
        signal_steps = int(self._signals_owed)
        self._owed = self._owed - steps
        self._signals_owed = self._signals_owed - signal_steps
        rate = self.schedule(step)
        self.gradient.set_learning_rate(rate)
        for _ in range(steps):
            self.gradient(self._draw(), self, metrics)
            if self.cloning is not None:
                metrics.add(self.cloning.update(step, usual=STEPS_BESIDE))
                self.gradient.bound_policy()
        for _ in range(signal_steps if self.signals.learned else 0):
            metrics.add(self.signals.learn(self.replay.draw(self.batch_size, self.replay_rng).transitions()))
        if steps:
            metrics.add(temperatures(self.network) | {"Policy/Learning Rate": rate})

    def state_dict(self) -> dict[str, Any]:
        """Returns all state for the next decision and update; the replay only if settings save it."""
        return {
            **self.parts.state_dict(),
            "replay": self.replay.state_dict() if self.saves_replay else None,
            "steps_due": [self._to_collect, self._owed, self._signals_owed],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state; without a replay, `buffer_init_steps` new decisions are collected first."""
        self.parts.load_state_dict(state)
        self._to_collect, self._owed, self._signals_owed = state["steps_due"]
        self._lacks_replay = not self.replay.load_state_dict(state["replay"])
        if self._lacks_replay:
            self._to_collect = self._first_collect


def gradient_kind(trainer: SAC, bfloat16: bool) -> type[SoftGradient | JointGradient]:
    """Returns the object that takes a trainer's gradient steps: in closed form if possible, with joint batches if
    settings need them."""
    hyper = trainer.hyper
    if trainer.network.smooth or hyper.critic_bins or hyper.target_deviation or hyper.policy_delay > 1:
        return JointGradient
    own_losses = replaces(trainer, SAC, "critic_loss", "actor_loss", "temperature_loss")
    return ClosedFormGradient if has_closed_form(trainer.network) and not (bfloat16 or own_losses) else SoftGradient


_admitted: WeakSet[Replay] = WeakSet()
"""Replays of this process: their memory is reserved, but only used as they fill."""


def check_room(replay: Replay) -> None:
    """Raises ConfigError if a replay's tables, which fill up later, exceed the free memory."""
    needed = _still_to_take(replay)
    free, promised = _free(replay)
    if needed > free:
        gc.collect()  # replays of a run that is over
        free, promised = _free(replay)
    if needed > free:
        where = "on the GPU" if replay.device.type == "cuda" else "of memory"
        beside = f" beside the {format_bytes(promised)} that replays of other behaviors will take" if promised else ""
        fitting = int(replay.size * free / replay.bytes_needed * 0.8)
        advice = f"a buffer_size of {fitting:,} would fit" if fitting else "make theirs smaller"
        raise ConfigError(
            f"hyperparameters.buffer_size: a replay of {replay.size:,} decisions takes "
            f"{format_bytes(replay.bytes_needed)}, but {format_bytes(free)} {where} are free{beside}; {advice}"
        )
    _admitted.add(replay)


def _free(replay: Replay) -> tuple[int, int]:
    """Returns the bytes of memory that are free and not reserved by another replay, and the bytes that are reserved."""
    free = torch.cuda.mem_get_info(replay.device)[0] if replay.device.type == "cuda" else free_memory()
    promised = sum(
        _still_to_take(other) for other in _admitted if other is not replay and other.device == replay.device
    )
    return max(0, free - promised), promised


def _still_to_take(replay: Replay) -> int:
    """Returns the bytes of its tables that are not yet written to; on a GPU all are taken at once."""
    if replay.device.type == "cuda":
        return 0 if len(replay) else replay.bytes_needed
    return round(replay.bytes_needed * (1 - len(replay) / replay.size))
