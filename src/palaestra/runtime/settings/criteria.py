"""Finds completion criteria of lessons that can never be met, before a run begins."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from palaestra.core.metrics import ELO as ELO_TAG
from palaestra.core.metrics import EXTRINSIC, GROUP_REWARD, LENGTH, REWARD
from palaestra.core.plugins import nearest
from palaestra.rewards.settings import REWARDS
from palaestra.runtime.settings.tree import RunSettings
from palaestra.runtime.settings.yaml_file import Key
from palaestra.scenario.curriculum import MEASURES
from palaestra.scenario.settings import ELO, CompletionCriteriaSettings, CurriculumSettings
from palaestra.trainers.behavior_settings import BehaviorSettings

_ALWAYS = {REWARD, LENGTH, GROUP_REWARD, EXTRINSIC, "Policy/Learning Rate"}
_LEARNING = {"Policy/Entropy", "Policy/Gradient Norm", "Policy/Actions At Bounds"}
_LEARNING |= {"Losses/Policy Loss", "Losses/Value Loss"}
_ON_POLICY = {*_LEARNING, "Policy/Epsilon", "Policy/Beta", "Policy/KL Divergence", "Policy/Clip Fraction"}
_OF_TRAINERS = {
    "ppo": _ON_POLICY,
    "poca": {*_ON_POLICY, "Losses/Baseline Loss"},
    "sac": {
        *_LEARNING,
        "Losses/Q1 Loss",
        "Losses/Q2 Loss",
        "Policy/Continuous Entropy Coeff",
        "Policy/Discrete Entropy Coeff",
    },
    "bc": {"Losses/Cloning Loss", "Imitation/Teacher Reward"},
}
"""Metrics that each built-in trainer writes besides those of its reward signals."""
_OF_SELF_PLAY = {
    ELO_TAG,
    *(f"Self-play/{what}" for what in ("Opponent ELO Mean", "Opponent ELO Deviation", "Skill", "Skill Deviation")),
    *(f"Self-play/{what}" for what in ("Snapshots Beaten", "Snapshots Judged", "Worst Win Rate", "Worst Snapshot")),
    *(f"Self-play/{what}" for what in ("Exploiters Admitted", "Exploiter Win Rate")),
    *(f"Self-play/{what}" for what in ("Learning Team", "Snapshots", "Swaps", "Team Changes", "Ghost Steps")),
}
_ESTIMATES = {
    "ppo": ("Value Estimate", "Explained Variance"),
    "poca": ("Value Estimate", "Baseline Estimate", "Explained Variance"),
    "sac": ("Value", "Explained Variance"),
    "bc": (),
}
_OF_SIGNALS = {
    "curiosity": {"Losses/Curiosity Forward Loss", "Losses/Curiosity Inverse Loss"},
    "rnd": {"Losses/RND Loss"},
    "gail": {
        "Losses/GAIL Loss",
        "Losses/GAIL KL Loss",
        "Policy/GAIL Policy Estimate",
        "Policy/GAIL Expert Estimate",
        "Policy/GAIL Grad Mag Loss",
        "Policy/GAIL Beta",
    },
    "amp": {
        "Losses/AMP Loss",
        "Policy/AMP Policy Estimate",
        "Policy/AMP Clip Estimate",
        "Policy/AMP Grad Penalty",
    },
}


def criteria(settings: RunSettings) -> Iterator[tuple[Key, CompletionCriteriaSettings]]:
    """Yields the path and the completion criterion of each lesson."""
    for name, form in (settings.environment_parameters or {}).items():
        for number, lesson in enumerate(form.curriculum[:-1] if isinstance(form, CurriculumSettings) else ()):
            if lesson.completion_criteria is not None:
                at = ("environment_parameters", name, "curriculum", number, "completion_criteria")
                yield at, lesson.completion_criteria


def missing_lessons(settings: RunSettings) -> Iterator[tuple[Key, str]]:
    """Yields the path of `first_lesson`, and why it cannot be followed, if no curriculum has that lesson."""
    first = settings.env_settings.first_lesson
    forms = (settings.environment_parameters or {}).items()
    lessons = {name: len(form.curriculum) for name, form in forms if isinstance(form, CurriculumSettings)}
    if first and first >= max(lessons.values(), default=0):
        listed = ", ".join(f"'{name}' has 0 to {count - 1}" for name, count in lessons.items())
        there = listed or "the settings have no curriculum"
        yield ("env_settings", "first_lesson"), f"there is no lesson {first}: {there}"


def never_met(settings: RunSettings) -> Iterator[tuple[Key, str]]:
    """Yields the path of each criterion that the settings alone make impossible, and an error message."""
    for at, criterion in criteria(settings):
        name = _name(criterion, settings.behaviors)
        block = settings.behaviors.get(name) or settings.default_settings
        if block is None and criterion.behavior is None:
            continue  # the behaviors that learn are not known yet
        if block is None:
            there = ", ".join(map(repr, settings.behaviors))
            yield (
                (*at, "behavior"),
                f"the settings have no behavior '{name}'{nearest(name, settings.behaviors)} (there are: {there})",
            )
            continue
        if criterion.measure == "progress" and criterion.threshold == (0 if criterion.below else 1):
            sentence = (
                f"progress is never {'less' if criterion.below else 'more'} than {criterion.threshold:g}: the "
                "lesson would never end"
            )
            yield (*at, "threshold"), sentence
        if criterion.measure == ELO and block.self_play is None:
            yield (*at, "measure"), f"'{name}' has no rating: its settings have no self_play"
        if criterion.min_lesson_length > block.max_steps:
            sentence = (
                f"'{name}' cannot have {criterion.min_lesson_length:,} episodes within its max_steps of "
                f"{block.max_steps:,}"
            )
            yield (*at, "min_lesson_length"), sentence


def never_measured(settings: RunSettings, behaviors: Collection[str]) -> Iterator[tuple[Key, str]]:
    """Yields path and reason of criteria that these behaviors can never meet, unless the game sends its own metrics."""
    for at, criterion in criteria(settings):
        name = _name(criterion, behaviors)
        if criterion.behavior is None and len(behaviors) != 1:
            continue  # `ambiguous` reports it
        if name not in behaviors:
            there = ", ".join(f"'{each}'" for each in behaviors)
            yield (
                (*at, "behavior"),
                f"the environment has no behavior '{name}' that learns{nearest(name, behaviors)} (there are: {there})",
            )
        elif criterion.measure not in MEASURES:
            block = settings.behaviors.get(name) or settings.default_settings
            known = None if block is None else metrics_of(block, settings)
            if known is not None and criterion.measure not in known:
                hint = nearest(criterion.measure, [*MEASURES, *known])
                sentence = (
                    f"'{name}' writes no metric '{criterion.measure}'{hint} (expected {', '.join(MEASURES)} or "
                    "one of its tags)"
                )
                yield (*at, "measure"), sentence


def ambiguous(settings: RunSettings, behaviors: Collection[str]) -> Iterator[tuple[Key, str]]:
    """Yields the path of each criterion that names no behavior although several learn, and an error message."""
    for at, criterion in criteria(settings) if len(behaviors) > 1 else ():
        if criterion.behavior is None:
            names = ", ".join(map(repr, behaviors))
            yield (*at, "behavior"), f"several behaviors learn ({names}): name the one to measure"


def _name(criterion: CompletionCriteriaSettings, behaviors: Collection[str]) -> str:
    """Returns the behavior that a criterion measures; '' if it names none and there are several."""
    if criterion.behavior is not None:
        return criterion.behavior
    return next(iter(behaviors)) if len(behaviors) == 1 else ""


def metrics_of(block: BehaviorSettings, settings: RunSettings) -> set[str] | None:
    """Returns the tags that a behavior may write; None if its trainer or a reward signal is user-defined."""
    from palaestra.rewards.signals import title  # imports torch, which commands that only read settings do not need

    if block.trainer_type not in _OF_TRAINERS or not block.reward_signals.keys() <= REWARDS.keys():
        return None
    known = _ALWAYS | _OF_TRAINERS[block.trainer_type]
    parameters = settings.environment_parameters or {}
    known |= {
        f"Environment/Lesson Number/{name}" for name, form in parameters.items() if isinstance(form, CurriculumSettings)
    }
    known |= {"Losses/Pretraining Loss"} if block.behavioral_cloning is not None else set()
    known |= _OF_SELF_PLAY if block.self_play is not None else set()
    for signal in block.reward_signals:
        known |= _OF_SIGNALS.get(signal, set())
        known |= {f"Policy/{title(signal)} {what}" for what in ("Reward", *_ESTIMATES[block.trainer_type])}
    return known
