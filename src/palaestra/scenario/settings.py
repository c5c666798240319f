"""Settings of environment parameters, curricula and self-play."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from palaestra.core.plugins import nearest
from palaestra.core.settings import Settings, field_error


class ConstantSettings(Settings):
    """Constant value."""

    value: float = 0.0
    """The value."""
    seed: int = -1
    """Accepted for ML-Agents' files, but without effect: a constant needs no random numbers."""


class UniformSettings(Settings):
    """Uniform distribution over a range."""

    min_value: float = 0.0
    """Lower end."""
    max_value: float = 1.0
    """Upper end."""
    seed: int = -1
    """Seed of the random numbers; -1: derived from the run's seed."""

    @model_validator(mode="after")
    def _is_a_range(self) -> UniformSettings:
        if self.min_value > self.max_value:
            sentence = f"expected at most max_value ({self.max_value}), got {self.min_value}"
            raise field_error(UniformSettings, "min_value", sentence, self.min_value)
        return self


class GaussianSettings(Settings):
    """Normal distribution."""

    mean: float = 1.0
    """Mean."""
    st_dev: float = Field(default=1.0, ge=0)
    """Standard deviation."""
    seed: int = -1
    """Seed of the random numbers; -1: derived from the run's seed."""


class MultiRangeUniformSettings(Settings):
    """Uniform distribution over several ranges, longer ranges being likelier."""

    intervals: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """Lower and upper end of each range."""
    seed: int = -1
    """Seed of the random numbers; -1: derived from the run's seed."""

    @field_validator("intervals")
    @classmethod
    def _are_ranges(cls, intervals: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        if not intervals:
            raise ValueError("expected at least one interval [low, high]")
        for low, high in intervals:
            if low > high:
                raise ValueError(f"expected intervals [low, high] with low <= high, got [{low}, {high}]")
        return intervals


SAMPLERS: dict[str, type[Settings]] = {
    "constant": ConstantSettings,
    "uniform": UniformSettings,
    "gaussian": GaussianSettings,
    "multirangeuniform": MultiRangeUniformSettings,
}


class SamplerSettings(Settings):
    """A number, or a distribution that is sampled anew in each episode."""

    sampler_type: Literal["constant", "uniform", "gaussian", "multirangeuniform"]
    """The distribution."""
    sampler_parameters: ConstantSettings | UniformSettings | GaussianSettings | MultiRangeUniformSettings
    """Parameters of the distribution, which depend on sampler_type."""

    @field_validator("sampler_parameters", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Settings):
            return value
        if "sampler_type" not in info.data:  # which is an error of its own
            return ConstantSettings()
        return SAMPLERS[info.data["sampler_type"]].model_validate({} if value is None else value)


ELO = "Elo"
"""Name of the measure that is the rating of a behavior in self-play."""


class CompletionCriteriaSettings(Settings):
    """Criterion that ends a lesson."""

    ignores_unknown: ClassVar[bool] = True

    behavior: str | None = None
    """Behavior to measure. Unset: the one that learns, if there is only one."""
    measure: str = Field(default="reward", min_length=1)
    """Measure: reward (mean episode reward), progress (share of max_steps done), Elo, or any metric by its tag."""
    min_lesson_length: int = Field(default=0, ge=0)
    """Smallest number of episodes of the lesson before it can end."""
    signal_smoothing: bool = True
    """Average the measure (progress aside) with its last value, which counts a quarter."""
    threshold: float = 0.0
    """Value that the measure must exceed."""
    below: bool = False
    """End the lesson when the measure falls below the threshold, not when it exceeds the threshold; for a loss."""
    require_reset: bool = False
    """Reset the environment when the lesson changes."""

    @field_validator("measure")
    @classmethod
    def _in_its_spelling(cls, measure: str) -> str:
        return {"reward": "reward", "progress": "progress", "elo": ELO}.get(measure.lower(), measure)

    @model_validator(mode="after")
    def _progress_is_a_share(self) -> CompletionCriteriaSettings:
        if self.measure == "progress" and not 0 <= self.threshold <= 1:
            sentence = f"expected a number within 0..1 for the measure 'progress', got {self.threshold}"
            raise field_error(CompletionCriteriaSettings, "threshold", sentence, self.threshold)
        return self


def _parameter(value: Any) -> Any:
    if isinstance(value, Settings) or (
        isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    ):
        return value
    if not isinstance(value, dict):
        sentence = (
            "expected a number, a sampler (sampler_type, sampler_parameters) or a curriculum (a list of "
            f"lessons), got {value!r}"
        )
        raise ValueError(sentence)
    if "curriculum" in value:
        return CurriculumSettings.model_validate(value)
    sampler = SamplerSettings.model_validate(value)
    # ML-Agents writes a plain number as a constant sampler
    return getattr(sampler.sampler_parameters, "value", sampler)


def _value(value: Any) -> Any:
    if isinstance(value, dict) and "curriculum" in value:
        raise ValueError(
            "expected a number or a sampler (sampler_type, sampler_parameters), got a curriculum: lessons have no "
            "lessons"
        )
    return _parameter(value)


class LessonSettings(Settings):
    """One stage of a curriculum."""

    value: Annotated[float | SamplerSettings, BeforeValidator(_value)]
    """Value of the parameter during the lesson."""
    name: str
    """Name of the lesson in logs."""
    completion_criteria: CompletionCriteriaSettings | None = None
    """Criterion that ends the lesson; the last has none."""


class CurriculumSettings(Settings):
    """Parameter that changes as the agents learn."""

    curriculum: tuple[LessonSettings, ...]
    """Lessons in order."""

    @field_validator("curriculum")
    @classmethod
    def _lessons_end(cls, lessons: tuple[LessonSettings, ...]) -> tuple[LessonSettings, ...]:
        if not lessons:
            raise ValueError("expected at least one lesson")
        endless = [lesson.name for lesson in lessons[:-1] if lesson.completion_criteria is None]
        if endless:
            raise ValueError(f"lesson '{endless[0]}' needs completion_criteria, or the next one never begins")
        return lessons


Parameter = Annotated[float | SamplerSettings | CurriculumSettings, BeforeValidator(_parameter)]
"""The three forms of an environment parameter."""


def constant(parameter: float | SamplerSettings | CurriculumSettings) -> float | None:
    """Returns the number of a constant parameter; None: it varies."""
    if isinstance(parameter, CurriculumSettings):
        return constant(parameter.curriculum[0].value) if len(parameter.curriculum) == 1 else None
    return None if isinstance(parameter, SamplerSettings) else float(parameter)


class PrioritySettings(Settings):
    """How often each copy is drawn with `opponents: prioritized`. x is the learning policy's win rate against it."""

    weights: Literal["hard", "even"] = "hard"
    """Weight of a copy: hard, `(1 - x) ** power`, favors copies that win; even, `x * (1 - x)`, favors equals."""
    power: float = Field(default=2.0, gt=0)
    """Exponent of `hard`; usually 1 to 3."""
    decay: float = Field(default=0.99, gt=0, le=1)
    """Factor by which a game counts less after each later one against the same copy; usually 0.98 to 0.999."""
    floor: float = Field(default=0.1, ge=0, le=1)
    """Share of the draws in which all copies are equally likely, so that each is judged again; usually 0.05 to 0.3."""
    prior: float = Field(default=0.5, ge=0, le=1)
    """Win rate that is assumed before the first game, and counts as two games; a low one draws new copies often."""


class ExploiterSettings(Settings):
    """A second learner of the behavior, which plays only against the newest policy. Copies of the second learner join
    the pool."""

    share: float = Field(default=0.25, gt=0, lt=1)
    """Share of the episodes that it plays; the policy does not learn from them; usually 0.1 to 0.4. Exploiters of
    several behaviors together play 0.9 at most."""
    win_rate: float = Field(default=0.7, gt=0, le=1)
    """Win rate against the newest policy at which a copy of the exploiter joins the pool and the exploiter starts
    again, after save_steps at the earliest; usually 0.6 to 0.8."""
    max_steps: int = Field(default=200000, gt=0)
    """Decisions of the exploiter after which its copy joins at any win rate; usually 2 to 10 times save_steps."""


UNIFORM, PRIORITIZED = "uniform", "prioritized"
"""Words in `opponents` for how copies are drawn; all other words name brains."""


class SelfPlaySettings(Settings):
    """Training against frozen copies of the learning policy."""

    ignores_unknown: ClassVar[bool] = True

    save_steps: int = Field(default=20000, gt=0)
    """Decisions between copies that join the pool of opponents."""
    team_change: int = Field(default=100000, gt=0)
    """Decisions after which another team learns. Unset: 5 times save_steps."""
    swap_steps: int = Field(default=2000, gt=0)
    """Decisions between changes of opponents."""
    window: int = Field(default=10, gt=0)
    """Number of copies in the pool."""
    play_against_latest_model_ratio: float = 0.5
    """Probability that the opponent is the latest policy rather than one of the pool."""
    initial_elo: float = 1200.0
    """Initial rating."""
    elo_k: float = Field(default=1.0, gt=0)
    """Largest change of a rating by one game: Elo's K. 1, as in ML-Agents, moves slowly; chess uses 10 to 40."""
    opponents: str | tuple[str, ...] = ()
    """How copies are drawn from the pool, `uniform` or `prioritized` by win rates, and opponents that never learn:
    random, heuristic, FILE.onnx, model:RUN or package.module:Class. A word, or a list such as `[prioritized, random]`,
    for which play_against_opponents_ratio must be less than 1."""
    play_against_opponents_ratio: float = Field(default=1.0, ge=0, le=1)
    """Probability that the opponent is a brain of `opponents`, if there are any, rather than a copy of the policy."""

    priority: PrioritySettings = PrioritySettings()
    """Weights of the copies with `opponents: prioritized`."""
    exploiter: ExploiterSettings | None = None
    """Let a second learner look for weaknesses of the newest policy; null: no."""
    drop: Literal["oldest", "easiest"] = "oldest"
    """Copy that leaves a full pool: the oldest, or the one that the learning policies beat most often."""

    @field_validator("opponents", mode="before")
    @classmethod
    def _are_drawn_in_one_way(cls, value: Any) -> Any:
        texts = value if isinstance(value, list | tuple) else (value,)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"expected {UNIFORM}, {PRIORITIZED}, names of brains, or a list of these, got {[*texts]}")
        if {UNIFORM, PRIORITIZED} <= {*texts}:
            raise ValueError(f"expected one of {UNIFORM} and {PRIORITIZED} in addition to names of brains, got both")
        for text in texts:
            near = "" if text in (UNIFORM, PRIORITIZED) or ":" in text else nearest(text, (UNIFORM, PRIORITIZED))
            if near:
                raise ValueError(f"expected {UNIFORM}, {PRIORITIZED} or the name of a brain, got {text!r}{near}")
        return value

    @property
    def brains(self) -> tuple[str, ...]:
        """The opponents that never learn."""
        texts = (self.opponents,) if isinstance(self.opponents, str) else self.opponents
        return tuple(text for text in texts if text not in (UNIFORM, PRIORITIZED))

    @property
    def prioritized(self) -> bool:
        """Whether copies are drawn by win rates."""
        return PRIORITIZED in ((self.opponents,) if isinstance(self.opponents, str) else self.opponents)

    @model_validator(mode="after")
    def _teams_change_rarely(self) -> SelfPlaySettings:
        if "team_change" not in self.model_fields_set:
            object.__setattr__(self, "team_change", 5 * self.save_steps)
        return self
