"""Settings of one behavior: its trainer, its network and its reward signals."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
)
from typing_extensions import TypedDict

from palaestra.core.errors import PluginError
from palaestra.core.plugins import class_name, find_class, installed, nearest, registry
from palaestra.core.settings import SKIP_USER_CODE, Settings, field_error
from palaestra.core.wording.other_trainers import nearest_trainer
from palaestra.models.settings import RESIDUAL, NetworkSettings
from palaestra.rewards.settings import REWARDS, ExtrinsicSettings, RewardSettings, UnreadSignalSettings, signal_class
from palaestra.scenario.ending_settings import KeepBestSettings, StopSettings
from palaestra.scenario.settings import SelfPlaySettings
from palaestra.trainers.settings import (
    TRAINERS,
    BCSettings,
    BehavioralCloningSettings,
    POCASettings,
    PPOSettings,
    SACSettings,
)
from palaestra.trainers.symmetry.mirror_settings import MirrorSettings, mirror_tree


class UnreadHyperparameters(Settings):
    """Hyperparameters of a user's own trainer, unchecked: its keys are known only once its module is imported."""

    model_config = ConfigDict(extra="allow")


class OfNoTrainer(dict[str, Any]):
    """Hyperparameters in a settings block that names no trainer."""


class BehaviorSettings(Settings):
    """Settings of one behavior: how the agents that share its policy learn."""

    trainer_type: str = "ppo"
    """The algorithm: ppo, sac, poca, bc, your own class as `package.module:Class`, or the name of a plug-in; required
    in a block with hyperparameters."""
    hyperparameters: PPOSettings | SACSettings | POCASettings | BCSettings | SerializeAsAny[Settings] = PPOSettings()
    """The algorithm's own settings, which depend on trainer_type."""
    checkpoint_interval: int = Field(default=500000, gt=0)
    """Decisions between checkpoints. If saving would take more than a tenth of the time, only one a minute is saved,
    and the others are left out."""
    network_settings: NetworkSettings = NetworkSettings()
    """Architecture of the policy's network and of the critic's network."""
    reward_signals: dict[str, SerializeAsAny[RewardSettings]] = Field(default={"extrinsic": ExtrinsicSettings()})
    """Rewards that agents learn from: extrinsic, curiosity, gail, rnd, amp, your own class as `package.module:Class`,
    or a plug-in's name."""
    init_path: str | None = None
    """A run's folder, a checkpoint or a `checkpoint.pt` of ML-Agents to start from; null: a fresh policy."""
    keep_checkpoints: int = 5
    """Number of checkpoints kept; the oldest is deleted first; 0 or less: all."""
    even_checkpoints: bool = False
    """Spread keep_checkpoints evenly over max_steps, which sets checkpoint_interval."""
    max_steps: int = Field(default=500000, gt=0)
    """Decisions until training ends."""
    time_horizon: int = Field(default=64, gt=0)
    """Longest sequence of decisions of one agent; later rewards are replaced by the critic's value (ppo and poca; sac
    and bc do not use it)."""
    summary_freq: int = Field(default=50000, gt=0)
    """Decisions between summaries."""
    stop_when: StopSettings | None = None
    """Ends training before max_steps; null: never."""
    keep_best: KeepBestSettings | None = None
    """Keeps the best model in addition to the newest ones; null: no."""
    threaded: bool = False
    """Learn in a separate process while the next rollout is collected, by a policy one update older."""
    self_play: SelfPlaySettings | None = None
    """Play against earlier policies; null: no."""
    behavioral_cloning: BehavioralCloningSettings | None = None
    """Imitate demonstrations; null: no."""
    mirror: Annotated[MirrorSettings | None, BeforeValidator(mirror_tree)] = None
    """Learn from the mirror image of each decision as well, with ppo and sac: a mirror, a file with a mirror, or the
    name of a shipped mirror, such as Crawler; null: no mirror."""

    @model_validator(mode="before")
    @classmethod
    def _has_hyperparameters(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = data.get("hyperparameters")
        if isinstance(given, dict) and "trainer_type" not in data:
            misspelt = any(nearest(str(key), ["trainer_type"]) for key in data if key not in cls.model_fields)
            return {**data, "hyperparameters": None if misspelt else OfNoTrainer(given)}
        return {"hyperparameters": {}, **data}

    @field_validator("trainer_type", mode="before")
    @classmethod
    def _class_by_name(cls, value: Any) -> Any:
        return trainer_name(value) if isinstance(value, type) else value

    @field_validator("trainer_type")
    @classmethod
    def _trainer_exists(cls, name: str, info: ValidationInfo) -> str:
        if name in TRAINERS:
            return name
        module, colon, attribute = name.partition(":")
        known = [*TRAINERS, *(plugin for plugin in registry("trainers").names() if plugin not in TRAINERS)]
        if not (module and attribute) and (colon or name not in known):
            raise ValueError(_unknown_trainer(name, known))
        try:
            if not (colon and _imports_nothing(info)):
                trainer_class(name)  # which knows its hyperparameters
        except PluginError as error:
            raise ValueError(str(error)) from error
        return name

    @field_validator("hyperparameters", mode="before")
    @classmethod
    def _of_its_trainer(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Settings):
            return value
        if isinstance(value, OfNoTrainer):
            raise ValueError(f"given without a trainer_type; add one, such as {', '.join(TRAINERS)}")
        if "trainer_type" not in info.data:  # which is an error of its own
            return PPOSettings()
        trainer = info.data["trainer_type"]
        if ":" in trainer and _imports_nothing(info):
            return UnreadHyperparameters.model_construct(**{str(key): each for key, each in (value or {}).items()})
        return hyperparameters_class(trainer).model_validate({} if value is None else value)

    @field_validator("reward_signals", mode="before")
    @classmethod
    def _of_their_kind(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict):
            return value
        if not value:
            raise ValueError("expected at least one reward signal, such as extrinsic")
        given = {str(name): {} if signal is None else signal for name, signal in value.items()}
        # their order is that of the network's values: it must not depend on the file's
        classes: dict[str, type[RewardSettings]] = dict(REWARDS)
        for name in sorted(given.keys() - REWARDS.keys()):
            if ":" in name and _imports_nothing(info):
                classes[name] = UnreadSignalSettings
                if isinstance(given[name], dict):
                    given[name] = UnreadSignalSettings.model_construct(
                        **{str(key): each for key, each in given[name].items()}
                    )
                continue
            try:
                classes[name] = signal_class(name).Settings
            except PluginError as error:
                raise field_error(cls, name, str(error), given[name]) from error
        return _signals_of(tuple(classes.items())).validate_python(given, strict=True)

    @model_validator(mode="after")
    def _fits_together(self) -> BehaviorSettings:
        if self.even_checkpoints:
            if self.keep_checkpoints <= 0:
                sentence = f"expected at least 1 with even_checkpoints, got {self.keep_checkpoints}"
                raise field_error(BehaviorSettings, "keep_checkpoints", sentence, self.keep_checkpoints)
            object.__setattr__(self, "checkpoint_interval", max(1, self.max_steps // self.keep_checkpoints))
        if self.network_settings.critic_only and getattr(self.hyperparameters, "shared_critic", False):
            sentence = (
                "with shared_critic: true the critic reads what the actor's layers made, and can see nothing of its "
                "own; set hyperparameters.shared_critic to false, or leave out critic_only"
            )
            raise field_error(BehaviorSettings, "network_settings", sentence, list(self.network_settings.critic_only))
        for name, signal in self.reward_signals.items():
            if getattr(getattr(signal, "network_settings", None), "critic_only", None):
                sentence = (
                    f"{name} has no critic: give critic_only in the behavior's own network_settings; reward signals "
                    "see what the policy sees"
                )
                raise field_error(BehaviorSettings, "reward_signals", sentence, name)
        memory = self.network_settings.memory
        batch_size = getattr(self.hyperparameters, "batch_size", None)
        if memory and isinstance(batch_size, int) and memory.sequence_length > batch_size:
            sentence = (
                f"batch_size ({batch_size}) must be at least the memory's sequence_length ({memory.sequence_length})"
            )
            raise field_error(BehaviorSettings, "hyperparameters", sentence, batch_size)
        sac = isinstance(self.hyperparameters, SACSettings)
        if self.network_settings.body == RESIDUAL and (memory or not sac):
            because = (
                "has no recurrent memory" if sac else "learns statistics of minibatches, with the trainer sac alone"
            )
            sentence = f"body: residual {because}; leave it out{', or memory' if sac else ''}"
            raise field_error(BehaviorSettings, "network_settings", sentence, RESIDUAL)
        learned = [name for name in self.reward_signals if name != "extrinsic"]
        if isinstance(self.hyperparameters, SACSettings) and self.hyperparameters.n_step > 1 and (memory or learned):
            why = (
                "takes decisions one by one, and network_settings.memory sequences"
                if memory
                else f"sums rewards of the environment, and {learned[0]} is learned"
            )
            sentence = f"n_step: {self.hyperparameters.n_step} {why}: leave out one of them"
            raise field_error(BehaviorSettings, "hyperparameters", sentence, self.hyperparameters.n_step)
        for name, signal in self.reward_signals.items():
            if getattr(getattr(signal, "network_settings", None), "body", None) == RESIDUAL:
                sentence = f"{name}: body: residual is only for a policy's network; leave it out here"
                raise field_error(BehaviorSettings, "reward_signals", sentence, RESIDUAL)
        return self


@cache
def _signals_of(classes: tuple[tuple[str, type[RewardSettings]], ...]) -> TypeAdapter[dict[str, RewardSettings]]:
    """Returns what validates `reward_signals` whose settings have these classes, by name."""
    return TypeAdapter(TypedDict("Signals", dict(classes), total=False))  # type: ignore[misc]


def _imports_nothing(info: ValidationInfo) -> bool:
    return bool(info.context and info.context.get(SKIP_USER_CODE))


def hyperparameters_class(trainer_type: str, own_code: bool = True) -> type[Settings]:
    """Returns the class of a trainer's hyperparameters. Raises PluginError if there is no such trainer.

    `own_code`: whether modules of users are imported; if not, any hyperparameters are accepted for their trainers.
    """
    if ":" in trainer_type and not own_code:
        return UnreadHyperparameters
    return TRAINERS[trainer_type] if trainer_type in TRAINERS else trainer_class(trainer_type).Settings


def trainer_name(kind: type) -> str:
    """Returns the `trainer_type` that names a class. Raises ValueError for a class that cannot be found by its name."""
    name = class_name(kind)
    trainers = registry("trainers")
    return next((known for known in trainers.names() if trainers.place(known) == name), name)


def settings_like(trainer: str) -> str:
    """Returns the name of the built-in trainer whose settings suit a trainer: for a subclass its parent's name, else
    its own."""
    try:
        kind = hyperparameters_class(str(trainer))
    except PluginError:
        return trainer
    return next((ours for ours, settings in TRAINERS.items() if issubclass(kind, settings)), trainer)


GUIDE = "the guide 'Write a trainer'"
OF_A_CLASS = ("Settings", "make_network", "update", "state_dict", "load_state_dict")
OF_AN_INSTANCE = ("network", "policy", "rollout_size", "needs")


def trainer_class(name: str) -> type[Any]:
    """Returns the class that a `trainer_type` names. Raises PluginError if there is no such trainer, or if it inherits
    from another trainer but not from its settings."""
    title = f"trainer '{name}'"
    found = find_class("trainers", title, name, OF_A_CLASS, GUIDE, Settings)
    above = [base for base in found.__mro__[1:] if base.__module__.startswith(f"{__package__}.")]
    if found.__module__.startswith(f"{__package__}.") or not above or issubclass(found.Settings, above[0].Settings):
        return found
    expected = above[0].Settings
    raise PluginError(
        f"{title}: its Settings is {found.Settings!r}; expected a class that inherits from "
        f"{expected.__module__}.{expected.__name__}, the settings of {above[0].__name__}"
    )


def _unknown_trainer(name: str, known: Sequence[str]) -> str:
    """Returns why a name is no trainer's; it may name a plug-in for ML-Agents.

    Their entry points list trainers only when they are called, which needs ML-Agents itself: if none has this name, all
    packages are named.
    """
    other = nearest_trainer(name)
    usual = (
        f"no trainer is named '{name}'{f': {other}' if other else nearest(name, known)} (there are: "
        f"{', '.join(known)}; your own as package.module:Class)"
    )
    points = [point for point in installed("mlagents.trainer_type") if point.module.partition(".")[0] != "mlagents"]
    alike = [point for point in points if point.name.casefold() == name.casefold()]
    packages = ", ".join(dict.fromkeys(point.dist.name if point.dist else point.module for point in alike or points))
    what = (
        "made of ML-Agents' own classes and does not run here; the guide 'Write a trainer' shows how to write it "
        "as one class"
    )
    if alike:
        return (
            f"the trainer '{name}' of the plug-in {packages} is {what} (examples/dqn.py and examples/a2c.py are "
            "complete)"
        )
    return f"{usual}; a trainer of a plug-in for ML-Agents ({packages}) is {what}" if points else usual
