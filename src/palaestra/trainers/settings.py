"""Settings of trainers: the `hyperparameters` of each trainer, and behavioral cloning, which works with all
trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from palaestra.core.settings import Settings, field_error
from palaestra.rewards.settings import DemoPath, MaybeDemoPath, PriorDataSettings

LAST_LEARNING_RATE, LAST_EPSILON, LAST_BETA = 1e-10, 0.1, 1e-5
"""Values at which linear schedules end, as in ML-Agents."""


Schedule = Literal["constant", "linear"]
MOST = 10**15
"""Most decisions: a larger number is taken for a typing error."""
PASSES = 3
"""Passes over demonstrations if a trainer clones as well, unless the settings say otherwise."""
STEPS_BESIDE = 4
"""Gradient steps of cloning for each gradient step of SAC, unless the settings say otherwise: they clone as well as
whole passes, whose cost grows with the demonstrations."""


class OnPolicyFields(BaseModel):
    """Settings that PPO and MA-POCA have in common."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    batch_size: int = Field(default=1024, gt=0, le=MOST)
    """Minibatch size: decisions in one gradient step."""
    buffer_size: int = Field(default=10240, gt=0, le=MOST)
    """Rollout size: decisions collected before each update; more if these are few for each agent and `num_areas` is not
    set."""
    learning_rate: float = Field(default=3e-4, ge=0)
    """Adam's step size."""
    beta: float = Field(default=5e-3, ge=0)
    """Entropy coefficient: weight of the entropy bonus, which rewards random actions; 0: no bonus."""
    epsilon: float = Field(default=0.2, gt=0)
    """Clip range: furthest the policy ratio may move from 1."""
    lambd: float = Field(default=0.95, ge=0, le=1)
    """Lambda of generalized advantage estimation (GAE); with poca, lambda of the lambda-return."""
    num_epoch: int = Field(default=3, gt=0)
    """Passes over each rollout."""
    shared_critic: bool = False
    """The critic uses the actor's encoders and layers instead of its own."""
    learning_rate_schedule: Schedule = "linear"
    """How the step size falls until max_steps; `linear` ends near zero."""
    beta_schedule: Schedule = "linear"
    """How the entropy coefficient falls. Unset: the same as learning_rate_schedule, if that is set."""
    epsilon_schedule: Schedule = "linear"
    """How the clip range falls; `linear` ends at 0.1. Unset: the same as learning_rate_schedule, if that is set."""
    max_grad_norm: float | None = Field(default=None, gt=0)
    """Gradient clipping by the global norm; null: none."""
    value_coef: float = Field(default=0.5, ge=0)
    """Weight of the value loss; with poca the baseline's loss has half of this weight."""
    joint_ratio: bool = False
    """One policy ratio for the whole action. ML-Agents has one for each component of an action instead."""
    initial_deviation: float = Field(default=1.0, gt=0, le=100)
    """Standard deviation of continuous actions at the start, before they are clipped to -3..3 and divided by 3: 3 tries
    the whole range."""

    @model_validator(mode="before")
    @classmethod
    def _follow_learning_rate(cls, data: Any) -> Any:
        """Gives unset schedules the learning rate's schedule, if that is set."""
        schedule = data.get("learning_rate_schedule") if isinstance(data, dict) else None
        if schedule not in get_args(Schedule):
            return data
        return {"beta_schedule": schedule, "epsilon_schedule": schedule, **data}


class PPOSettings(OnPolicyFields, Settings):
    """Proximal policy optimization. Schulman et al. 2017, https://arxiv.org/abs/1707.06347."""

    adds_group_rewards: ClassVar[bool] = True
    """Each agent's reward is its own plus its group's, without any credit to single agents of a group."""

    clip_value: bool = False
    """Value clipping: a value moves from the old one by the clip range at most. In ML-Agents it has no effect."""


class POCASettings(OnPolicyFields, Settings):
    """Multi-agent posthumous credit assignment. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

    individual_values: bool = False
    """Bootstrap each agent's return with the agent's own value, estimated from its observation and the number of agents
    left, instead of the group's value."""


class SACSettings(Settings):
    """Soft actor-critic. Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905."""

    adds_group_rewards: ClassVar[bool] = True
    off_policy: ClassVar[bool] = True
    """Learns from a replay of earlier policies' decisions."""

    batch_size: int = Field(default=128, gt=0, le=MOST)
    """Minibatch size: decisions in one gradient step."""
    buffer_size: int = Field(default=50000, gt=0, le=MOST)
    """Replay size: past decisions kept."""
    learning_rate: float = Field(default=3e-4, ge=0)
    """Adam's step size."""
    buffer_init_steps: int = Field(default=0, ge=0)
    """Decisions collected before the first update."""
    tau: float = Field(default=0.005, ge=0, le=1)
    """Target smoothing (Polyak) coefficient."""
    steps_per_update: float = Field(default=1.0, gt=0, le=MOST)
    """Decisions for each gradient step: the inverse of the update-to-data ratio."""
    save_replay_buffer: bool | None = None
    """Keep the replay in checkpoints; null: where it takes at most 1 GiB. Without it a resumed run first collects new
    decisions."""
    init_entcoef: float = Field(default=1.0, gt=0)
    """Initial entropy coefficient (temperature alpha)."""
    reward_signal_steps_per_update: float = Field(default=1.0, gt=0, le=MOST)
    """Decisions for each gradient step of the reward signals. Unset: steps_per_update."""
    learning_rate_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the step size falls until max_steps; `linear` ends near zero, `cosine` at half of it."""
    critic_bins: int | None = Field(default=None, ge=2, le=1001)
    """Critics predict a distribution over this many values from -5 to 5 instead of one value. Returns must lie in that
    range: reward_signals.extrinsic.normalize scales rewards. null: one value."""
    critic_hidden_units: int | None = Field(default=None, gt=0, le=65536)
    """Width of the critics' hidden layers; null: network_settings.hidden_units."""
    critic_num_layers: int | None = Field(default=None, gt=0, le=1024)
    """Hidden layers of the critics; null: network_settings.num_layers."""
    policy_delay: int = Field(default=1, gt=0, le=MOST)
    """Gradient steps of the critics for each gradient step of the policy and the temperatures."""
    target_deviation: float | None = Field(default=None, gt=0, le=1)
    """Standard deviation of continuous actions, within -1..1, whose entropy is the target of the temperature; null: a
    target entropy of -1 for each number, which is a deviation of 0.09."""
    noise_hold: int = Field(default=1, gt=0, le=10000)
    """Largest number of decisions for which an agent keeps the same noise in its continuous actions; the number is
    drawn each time, mostly 1, seldom many (a zeta law). 1: new noise for each decision."""
    n_step: int = Field(default=1, gt=0, le=1000)
    """Decisions of an episode whose rewards are summed before the target critics value what follows; with 3 to 10, rare
    rewards spread to earlier decisions sooner."""
    backup_entropy: bool = True
    """Count the entropy of later decisions in the critics' targets. It can outweigh rare rewards."""
    prior_data: PriorDataSettings | None = None
    """Recordings or an earlier run's replay; each minibatch has a share of these data (RLPD); null: no such data."""

    @model_validator(mode="after")
    def _rewards_follow(self) -> SACSettings:
        if "reward_signal_steps_per_update" not in self.model_fields_set:
            object.__setattr__(self, "reward_signal_steps_per_update", self.steps_per_update)
        return self


class BCSettings(Settings):
    """Imitation alone: behavioral cloning, from files or from a teacher in the same environment. Nothing is learned
    from rewards."""

    batch_size: int = Field(default=128, gt=0, le=MOST)
    """Minibatch size: decisions in one gradient step."""
    buffer_size: int = Field(default=2048, gt=0, le=MOST)
    """Rollout size: decisions collected before each update."""
    learning_rate: float = Field(default=1e-3, ge=0)
    """Adam's step size."""
    num_epoch: int = Field(default=5, gt=0)
    """Epochs over each rollout of the teacher; with files, as many gradient steps as these epochs would take."""
    learning_rate_schedule: Schedule = "linear"
    """How the step size falls until max_steps; `linear` ends near zero."""
    demo_path: MaybeDemoPath = None
    """Demonstrations to learn from: a file, a folder of them, `minari:ID`, or several of these: a list, or with commas
    between."""
    teacher: str | None = None
    """The teacher, in place of files: `heuristic`, `FILE.onnx`, `model:RUN`, `package.module:Class`, or any other brain
    of `palaestra run`."""
    teacher_behavior: str | None = None
    """The behavior whose agents the teacher plays (ML-Agents' old brain_to_imitate); null: the student's own."""
    teacher_plays: bool = True
    """Whether the teacher acts, if it plays the student's own behavior. If not, the student acts, and learns the
    teacher's actions."""

    @model_validator(mode="before")
    @classmethod
    def _was_named_otherwise(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "brain_to_imitate" not in data:
            return data
        rest = {key: value for key, value in data.items() if key != "brain_to_imitate"}
        if "teacher_behavior" in data:
            sentence = "the old name of teacher_behavior, which is given too: leave out one of them"
            raise field_error(cls, "brain_to_imitate", sentence, data["brain_to_imitate"])
        return {"teacher_behavior": data["brain_to_imitate"], **rest}

    @model_validator(mode="after")
    def _has_one_teacher(self) -> BCSettings:
        if self.teacher_behavior is not None and self.teacher is None:
            object.__setattr__(self, "teacher", "heuristic")
        if (self.demo_path is None) == (self.teacher is None):
            wanted = "either `demo_path`, demonstrations to learn from, or `teacher`, who shows it in the environment"
            got = "neither" if self.teacher is None else "both"
            raise field_error(
                BCSettings, "demo_path" if self.teacher else "teacher", f"expected {wanted}; got {got}", self.teacher
            )
        if self.demo_path is not None and not self.teacher_plays:
            raise field_error(
                BCSettings,
                "teacher_plays",
                "expected true with demo_path: only a teacher can label the student's observations",
                False,
            )
        return self


class BehavioralCloningSettings(Settings):
    """Imitate demonstrations in addition to the trainer's own objective."""

    ignores_unknown: ClassVar[bool] = True

    demo_path: DemoPath
    """A demonstration file, a folder of them, `minari:ID`, or several of these: a list, or with commas between."""
    steps: int = Field(default=0, ge=0)
    """Decisions until the step size of cloning has fallen to zero; 0: it never falls."""
    strength: float = Field(default=1.0, ge=0)
    """Factor on the policy's learning rate."""
    samples_per_update: int | None = Field(default=None, ge=0)
    """Demonstrated decisions used in one update (with sac: with each gradient step); 0 or null: all."""
    num_epoch: int | None = Field(default=None, gt=0)
    """Passes over these decisions; null: 3. With sac, if samples_per_update is unset too: 4 minibatches."""
    batch_size: int | None = Field(default=None, gt=0)
    """Minibatch size; null: the minibatch size of the trainer."""


TRAINERS: dict[str, type[Settings]] = {"ppo": PPOSettings, "sac": SACSettings, "poca": POCASettings, "bc": BCSettings}
"""Hyperparameters class of each trainer, by the trainer's name in the YAML."""


def changed(hyper: Any, values: Mapping[str, float]) -> Any:
    """Returns hyperparameters with constant values in place of schedules."""
    constant = {f"{name}_schedule": "constant" for name in values if hasattr(hyper, f"{name}_schedule")}
    return hyper.model_copy(update={**values, **constant})
