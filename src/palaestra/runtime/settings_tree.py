"""The tree of all settings of a run, in the key order in which ML-Agents writes it."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny, TypeAdapter, ValidationInfo, field_validator, model_validator
from typing_extensions import TypedDict

from palaestra.core.registry import Registry, nearest
from palaestra.core.settings import Settings, field_error
from palaestra.models.settings import NetworkSettings
from palaestra.rewards.settings import REWARDS, ExtrinsicSettings, RewardSettings
from palaestra.scenario.settings import Parameter, SelfPlaySettings
from palaestra.trainers.settings import TRAINERS, BehavioralCloningSettings, POCASettings, PPOSettings, SACSettings

Signals = TypeAdapter(TypedDict("Signals", REWARDS, total=False))  # type: ignore[misc]


class BehaviorSettings(Settings):
    """How the agents that share a policy learn."""

    trainer_type: str = "ppo"
    """The algorithm: ppo, or the name of a plug-in."""
    hyperparameters: PPOSettings | SACSettings | POCASettings | SerializeAsAny[Settings] = PPOSettings()
    """The algorithm's own settings, which depend on trainer_type."""
    checkpoint_interval: int = Field(default=500000, gt=0)
    """Decisions between checkpoints."""
    network_settings: NetworkSettings = NetworkSettings()
    """The policy's network, and the critic's."""
    reward_signals: dict[str, RewardSettings] = Field(default={"extrinsic": ExtrinsicSettings()})
    """What the agents are rewarded for."""
    init_path: str | None = None
    """A checkpoint to start from; null: a fresh policy."""
    keep_checkpoints: int = 5
    """Checkpoints kept, the oldest going first; 0 or less: all."""
    even_checkpoints: bool = False
    """Spread keep_checkpoints evenly over max_steps, which sets checkpoint_interval."""
    max_steps: int = Field(default=500000, gt=0)
    """Decisions until training ends."""
    time_horizon: int = Field(default=64, gt=0)
    """Decisions after which a stream of experience is cut and bootstrapped, for GAE."""
    summary_freq: int = Field(default=50000, gt=0)
    """Decisions between summaries."""
    threaded: bool = False
    """Learn while collecting."""
    self_play: SelfPlaySettings | None = None
    """Play against earlier policies; null: no."""
    behavioral_cloning: BehavioralCloningSettings | None = None
    """Imitate demonstrations; null: no."""

    @model_validator(mode="before")
    @classmethod
    def _has_hyperparameters(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        if isinstance(data.get("hyperparameters"), dict) and "trainer_type" not in data:
            sentence = f"given without a trainer_type; add one, such as {', '.join(TRAINERS)}"
            raise field_error(cls, "hyperparameters", sentence, data["hyperparameters"])
        return {"hyperparameters": {}, **data}

    @field_validator("trainer_type")
    @classmethod
    def _trainer_exists(cls, name: str) -> str:
        known = [*TRAINERS, *(name for name in Registry("trainers").names() if name not in TRAINERS)]
        if name not in known:
            raise ValueError(f"no trainer is named '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
        return name

    @field_validator("hyperparameters", mode="before")
    @classmethod
    def _of_its_trainer(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Settings):
            return value
        if "trainer_type" not in info.data:  # which is an error of its own
            return PPOSettings()
        return hyperparameters_class(info.data["trainer_type"]).model_validate({} if value is None else value)

    @field_validator("reward_signals", mode="before")
    @classmethod
    def _of_their_kind(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if not value:
            raise ValueError("expected at least one reward signal, such as extrinsic")
        for name in value:
            if name not in REWARDS:
                sentence = f"no such reward signal{nearest(name, REWARDS)} (there are: {', '.join(REWARDS)})"
                raise field_error(cls, name, sentence, value[name])
        return Signals.validate_python({name: {} if signal is None else signal for name, signal in value.items()}, strict=True)

    @model_validator(mode="after")
    def _fits_together(self) -> BehaviorSettings:
        if self.even_checkpoints:
            if self.keep_checkpoints <= 0:
                sentence = f"expected at least 1 with even_checkpoints, got {self.keep_checkpoints}"
                raise field_error(BehaviorSettings, "keep_checkpoints", sentence, self.keep_checkpoints)
            object.__setattr__(self, "checkpoint_interval", max(1, self.max_steps // self.keep_checkpoints))
        memory, batch_size = self.network_settings.memory, getattr(self.hyperparameters, "batch_size", None)
        if memory and batch_size is not None and memory.sequence_length > batch_size:
            sentence = f"batch_size ({batch_size}) must be at least the memory's sequence_length ({memory.sequence_length})"
            raise field_error(BehaviorSettings, "hyperparameters", sentence, batch_size)
        return self


class EnvSettings(Settings):
    """Which environment, and how many of it."""

    env_path: str | None = None
    """A build, a built-in's name, `gymnasium:ID` or `python:module:factory`; null: none is named."""
    env_args: tuple[str, ...] | None = None
    """Command line arguments passed on to a Unity build."""
    base_port: int = Field(default=5005, ge=0, le=65535)
    """First network port, for Unity environments."""
    num_envs: int = Field(default=1, gt=0)
    """Copies of the environment, each in its own process."""
    num_areas: int | None = Field(default=None, gt=0)
    """Areas within each copy; null: the environment's own number."""
    timeout_wait: int = Field(default=60, gt=0)
    """Seconds to wait for a Unity environment."""
    seed: int = Field(default=-1, ge=-1)
    """Of all random numbers of the run; -1: drawn at the start."""
    max_lifetime_restarts: int = Field(default=10, ge=-1)
    """Restarts of a crashed copy in all; -1: no limit."""
    restarts_rate_limit_n: int = Field(default=1, ge=-1)
    """Restarts of a crashed copy within a period; -1: no limit."""
    restarts_rate_limit_period_s: int = Field(default=60, gt=0)
    """The period, in seconds."""
    env_options: dict[str, Any] = Field(default={})
    """Keyword options of a built-in, Gymnasium or Python environment."""

    @model_validator(mode="after")
    def _copies_need_an_environment(self) -> EnvSettings:
        if self.num_envs > 1 and self.env_path is None:
            raise field_error(EnvSettings, "num_envs", f"expected 1 without env_path, got {self.num_envs}", self.num_envs)
        return self


class EngineSettings(Settings):
    """Unity's engine; read by Unity environments alone."""

    width: int = Field(default=84, gt=0)
    """Window width in pixels."""
    height: int = Field(default=84, gt=0)
    """Window height in pixels."""
    quality_level: int = Field(default=5, ge=0)
    """Unity's graphics quality level."""
    time_scale: float = Field(default=20.0, gt=0)
    """Simulated seconds a second."""
    target_frame_rate: int = Field(default=-1, ge=-1)
    """Frames a second to aim at; -1: as many as possible."""
    capture_frame_rate: int = Field(default=60, ge=0)
    """Frames a simulated second."""
    no_graphics: bool = False
    """Run without a window."""
    no_graphics_monitor: bool = False
    """Run without a window, except for the first copy."""


class CheckpointSettings(Settings):
    """The run: its name, folder, and what it starts from."""

    run_id: str = Field(default="ppo", min_length=1)
    """Its name, and its folder's."""
    initialize_from: str | None = None
    """A run whose policies this one starts from, at step 0."""
    load_model: bool = False
    """Deprecated, and without effect: use resume."""
    resume: bool = False
    """Go on with a run."""
    force: bool = False
    """Begin anew although the run exists."""
    train_model: bool = False
    """Deprecated, and without effect: training is the default."""
    inference: bool = False
    """Act without learning."""
    results_dir: str = Field(default="results", min_length=1)
    """Folder of all runs."""


class TorchSettings(Settings):
    """Where and how PyTorch computes."""

    ignores_unknown: ClassVar[bool] = True

    device: str | None = None
    """cpu, cuda, cuda:0 ...; null: cuda where there is one."""
    threads: int | None = Field(default=None, gt=0)
    """CPU threads; null: chosen by the amount of work."""


class RunSettings(Settings):
    """All settings of a run."""

    default_settings: BehaviorSettings | None = None
    """What every behavior starts from, and all there is for those not listed."""
    behaviors: dict[str, BehaviorSettings] = Field(default={})
    """One block a behavior, by its name in the environment."""
    env_settings: EnvSettings = EnvSettings()
    """Which environment, and how many of it."""
    engine_settings: EngineSettings = EngineSettings()
    """Unity's engine."""
    environment_parameters: dict[str, Parameter] | None = None
    """Numbers that shape the environment: fixed, drawn, or changing as the agents learn."""
    checkpoint_settings: CheckpointSettings = CheckpointSettings()
    """The run: its name, folder, and what it starts from."""
    torch_settings: TorchSettings = TorchSettings()
    """Where and how PyTorch computes."""
    debug: bool = False
    """Log in detail."""

    @field_validator("behaviors", mode="before")
    @classmethod
    def _blocks(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: {} if block is None else block for name, block in value.items()}


def hyperparameters_class(trainer_type: str) -> type[Settings]:
    """The class of a trainer's hyperparameters. A plug-in's trainer names it as its attribute `Settings`."""
    if trainer_type in TRAINERS:
        return TRAINERS[trainer_type]
    return getattr(Registry("trainers").get(trainer_type), "Settings", Settings)
