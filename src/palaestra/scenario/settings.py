"""Settings of what happens around learning: environment parameters, their curricula, and self-play."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from palaestra.core.settings import Settings, field_error


class ConstantSettings(Settings):
    """One number."""

    value: float = 0.0
    """The number."""
    seed: int = -1
    """Kept for files of ML-Agents: a constant draws nothing."""


class UniformSettings(Settings):
    """Any number of a range, all equally likely."""

    min_value: float = 0.0
    """Lower end."""
    max_value: float = 1.0
    """Upper end."""
    seed: int = -1
    """Of the random numbers; -1: derived from the run's seed."""

    @model_validator(mode="after")
    def _is_a_range(self) -> UniformSettings:
        if self.min_value > self.max_value:
            sentence = f"expected at most max_value ({self.max_value}), got {self.min_value}"
            raise field_error(UniformSettings, "min_value", sentence, self.min_value)
        return self


class GaussianSettings(Settings):
    """A normal distribution."""

    mean: float = 1.0
    """Its mean."""
    st_dev: float = Field(default=1.0, ge=0)
    """Its standard deviation."""
    seed: int = -1
    """Of the random numbers; -1: derived from the run's seed."""


class MultiRangeUniformSettings(Settings):
    """Any number of one of several ranges, longer ranges being likelier."""

    intervals: tuple[tuple[float, float], ...] = ((0.0, 1.0),)
    """Lower and upper end of each range."""
    seed: int = -1
    """Of the random numbers; -1: derived from the run's seed."""

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
    """A number, or a distribution to draw it from anew in each episode."""

    sampler_type: Literal["constant", "uniform", "gaussian", "multirangeuniform"]
    """The distribution."""
    sampler_parameters: ConstantSettings | UniformSettings | GaussianSettings | MultiRangeUniformSettings
    """What it needs, which depends on sampler_type."""

    @field_validator("sampler_parameters", mode="before")
    @classmethod
    def _of_its_type(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Settings):
            return value
        if "sampler_type" not in info.data:  # which is an error of its own
            return ConstantSettings()
        return SAMPLERS[info.data["sampler_type"]].model_validate({} if value is None else value)


ELO = "Elo"
"""The measure that is the rating of a behavior which plays against itself."""


class CompletionCriteriaSettings(Settings):
    """When a lesson has been learned."""

    ignores_unknown: ClassVar[bool] = True

    behavior: str | None = None
    """The behavior that is measured. Unset: the one that learns, where only one does."""
    measure: str = Field(default="reward", min_length=1)
    """What is measured: reward (mean episode reward), progress (share of max_steps that has passed), Elo, or any metric by its tag."""
    min_lesson_length: int = Field(default=0, ge=0)
    """Episodes of the lesson that must have ended before it can."""
    signal_smoothing: bool = True
    """Average the measure (progress aside) with its last value, which counts a quarter."""
    threshold: float = 0.0
    """What the measure must exceed."""
    below: bool = False
    """The measure must fall below the threshold instead, as a loss does."""
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
    """Picks the form: a number, a sampler or a curriculum."""
    if isinstance(value, Settings) or (isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)):
        return value
    if not isinstance(value, dict):
        sentence = f"expected a number, a sampler (sampler_type, sampler_parameters) or a curriculum (a list of lessons), got {value!r}"
        raise ValueError(sentence)
    return (CurriculumSettings if "curriculum" in value else SamplerSettings).model_validate(value)


def _value(value: Any) -> Any:
    """Picks the form of a lesson's."""
    if isinstance(value, dict) and "curriculum" in value:
        raise ValueError("expected a number or a sampler (sampler_type, sampler_parameters), got a curriculum: lessons have no lessons")
    return _parameter(value)


class LessonSettings(Settings):
    """One stage of a curriculum."""

    value: Annotated[float | SamplerSettings, BeforeValidator(_value)]
    """What the parameter is while the lesson lasts."""
    name: str
    """What it is called in logs."""
    completion_criteria: CompletionCriteriaSettings | None = None
    """When the next lesson begins; the last has none."""


class CurriculumSettings(Settings):
    """A parameter that changes as the agents learn."""

    curriculum: tuple[LessonSettings, ...]
    """The lessons, in their order."""

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
    """The number that a parameter always is; None: it varies."""
    if isinstance(parameter, CurriculumSettings):
        return constant(parameter.curriculum[0].value) if len(parameter.curriculum) == 1 else None
    if isinstance(parameter, SamplerSettings):
        return parameter.sampler_parameters.value if isinstance(parameter.sampler_parameters, ConstantSettings) else None
    return float(parameter)


class SelfPlaySettings(Settings):
    """A learning team against frozen copies of itself."""

    ignores_unknown: ClassVar[bool] = True

    save_steps: int = Field(default=20000, gt=0)
    """Decisions between copies admitted to the pool of opponents."""
    team_change: int = Field(default=100000, gt=0)
    """Decisions after which another team learns. Unset: 5 times save_steps."""
    swap_steps: int = Field(default=2000, gt=0)
    """Decisions between changes of the opponent."""
    window: int = Field(default=10, gt=0)
    """Copies kept in the pool."""
    play_against_latest_model_ratio: float = 0.5
    """Chance that the opponent is the latest policy rather than one of the pool."""
    initial_elo: float = 1200.0
    """Rating to start from."""
    elo_k: float = Field(default=1.0, gt=0)
    """How much a single game may change a rating: Elo's K. 1, as in ML-Agents, moves slowly; chess uses 10 to 40."""
    opponents: tuple[str, ...] = ()
    """Opponents that never learn: heuristic, FILE.onnx, model:RUN or package.module:Class."""
    play_against_opponents_ratio: float = Field(default=1.0, ge=0, le=1)
    """Chance that the opponent is one of `opponents`, where there are any, rather than a copy of the policy."""

    @model_validator(mode="after")
    def _teams_change_rarely(self) -> SelfPlaySettings:
        if "team_change" not in self.model_fields_set:
            object.__setattr__(self, "team_change", 5 * self.save_steps)
        return self
