"""Signs that a behavior does not learn, each reported once a run; see docs/guides/training/it-does-not-learn.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from palaestra.core.display import listed, readable
from palaestra.core.metrics import ELO, GROUP_REWARD, REWARD
from palaestra.core.specs import ActionSpec
from palaestra.rewards.signals import EXTRINSIC
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import BehaviorSettings
from palaestra.trainers.settings import BCSettings, SACSettings
from palaestra.trainers.update_metrics import AT_BOUNDS, explained_tag

GUIDE = "the guide 'It does not learn'"
"""The guide that says what to do about a symptom."""
ENTROPY = "Policy/Entropy"
LEARNING_RATE = "Policy/Learning Rate"
VALUES = explained_tag(EXTRINSIC)
LONG, SHORT = 10, 5
"""Summaries in a row that must show a symptom: LONG for rewards and values, which take time, SHORT for the others."""
LONG_SHARE = 0.3
"""Fraction of max_steps before which rewards and values are not checked."""
CERTAIN = 3.0
"""Standard errors by which the mean reward must have risen to count as risen."""
LIKELY = 2.0
"""Standard errors for this if the mean reward has risen by half since the first summary."""
SMALL = 1.0
"""Standard deviations of an episode's return: a smaller rise, followed by a plateau, is no sign of learning."""
KEPT = 100
"""Most summary periods of a behavior that are remembered; if there are more, older neighbors are merged."""
LITTLE_ENTROPY = 0.02
"""Share of the entropy of a uniform choice below which a policy counts as deterministic."""
LITTLE_NOISE = 0.02
"""Standard deviation below which a Gaussian policy explores nothing; it begins at 1, and actions are clipped at 3."""
LITTLE_SQUASHED = -4.0
"""Entropy per action dimension below which a policy of SAC, which aims at -1, explores nothing."""
LITTLE_EXPLAINED = 0.05
"""Explained variance below which the critic counts as predicting nothing."""
MANY_AT_BOUNDS = 0.5
"""Share of continuous actions at their bounds above which this is reported."""


@dataclass
class _Seen:
    """Record of a behavior's summaries, in plain types, so that `state_dict` is JSON."""

    judged: bool = True  # False: it was trained before, so rewards need not rise
    # by tag: mean, standard deviation, count of episodes and step of the first summary with an episode
    first: dict[str, list[float]] = field(default_factory=dict)
    lowest: dict[str, list[float]] = field(default_factory=dict)  # the same of the summary with the lowest mean
    course: dict[str, list[list[float]]] = field(default_factory=dict)  # the same of all, older ones joined
    span: dict[str, list[float]] = field(default_factory=dict)  # by tag: smallest and largest return, and their count
    rewarded: int = 0  # summaries with episodes
    updated: int = 0  # summaries with an update
    signs: dict[str, list[float]] = field(default_factory=dict)  # by tag: the newest values of metrics
    named: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)  # those that the newest summary shows


class Symptoms:
    """Looks for signs that a behavior of the run does not learn."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def started_trained(self, behavior: str) -> None:
        """Marks a behavior that starts from a trained network, since its rewards need not rise."""
        self._seen.setdefault(behavior, _Seen()).judged = False

    def note(self, summary: Summary, settings: BehaviorSettings, action: ActionSpec) -> list[str]:
        """Adds a summary. Returns a message for each sign of a problem that appears for the first time."""
        seen = self._seen.setdefault(summary.behavior, _Seen())
        if not summary.training or isinstance(settings.hyperparameters, BCSettings):  # a clone learns from no reward
            return []
        _keep(seen, summary)
        found = []
        seen.present = []
        for cause, sentence in _signs(seen, summary, settings, action):
            seen.present.append(cause)
            if cause not in seen.named:
                seen.named.append(cause)
                found.append(f"{summary.behavior}: {sentence} (see {GUIDE})")
        return found

    def unrewarded(
        self, behavior: str, settings: BehaviorSettings, since: Mapping[str, Sequence[float]], env: str | None
    ) -> str | None:
        """Returns a sentence if all episodes have earned the same reward; else None. `since`: by tag, the returns since
        the last summary. `env`: the environment's name; None: it has no name."""
        seen = deepcopy(self._seen.get(behavior, _Seen()))
        if not seen.judged or EXTRINSIC not in settings.reward_signals or settings.self_play is not None:
            return None
        for tag, returns in since.items():
            _widen(seen, tag, np.asarray(returns))
        if not _constant(seen) or _episodes(seen) < LONG:
            return None
        what = f"all {_episodes(seen):,} episodes earned {readable(seen.span[_judge(seen)][0])}"
        if signals := seekers(settings):
            return f"{what}: {signals} led to nothing better yet (see {GUIDE})"
        given = "Is one ever given?" if env is None else f"`palaestra doctor {env}` shows what is given."
        return (
            f"{what}: more steps will not help, unless random actions find a better reward. {given} {GUIDE} "
            "says what to do where rewards are rare"
        )

    def lasting(self, behavior: str, settings: BehaviorSettings) -> tuple[str, bool] | None:
        """Returns a short text about a reward that has not risen up to the newest summary, and whether more steps
        promise little; None without such a sign."""
        seen = self._seen.get(behavior, _Seen())
        signs = {"values", "entropy", "reward"}.intersection(seen.present)
        if not signs or _constant(seen):  # of which `unrewarded` speaks
            return None
        since = _flat_since(seen, LONG_SHARE * settings.max_steps) if "reward" not in signs else None
        what = "did not rise" if since is None else f"has been flat since step {since:,}"
        if "values" in signs:
            what += ", and the critic predicts nothing (observations may lack what rewards depend on)"
        elif "entropy" in signs:
            what += ", and the policy has stopped exploring"
        elif _seems_risen(seen):
            return (
                f"the mean reward did not rise by more than chance: it does not learn, or not yet; see {GUIDE}",
                False,
            )
        return f"the mean reward {what}: more steps alone are unlikely to help; see {GUIDE}", True

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in plain types."""
        return {name: asdict(seen) for name, seen in self._seen.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores `state_dict`; notes in the format of another version are left out."""
        known = set(asdict(_Seen()))
        self._seen = {name: _Seen(**seen) for name, seen in state.items() if set(seen) == known}


def _keep(seen: _Seen, summary: Summary) -> None:
    for tag in (REWARD, GROUP_REWARD):
        returns = summary.histograms.get(tag)
        if returns is not None and len(returns) and np.isfinite(returns).all():
            stretch = [float(returns.mean()), float(returns.std()), len(returns), summary.step]
            seen.first.setdefault(tag, stretch)
            seen.lowest[tag] = min(seen.lowest.get(tag, stretch), stretch)
            seen.course[tag] = _joined([*seen.course.get(tag, []), stretch])
            _widen(seen, tag, returns)
    seen.rewarded += summary.episodes > 0
    seen.updated += LEARNING_RATE in summary.values
    for tag in (ENTROPY, VALUES, AT_BOUNDS):
        if tag in summary.values:
            seen.signs[tag] = [*seen.signs.get(tag, []), summary.values[tag]][-LONG:]


def _signs(seen: _Seen, summary: Summary, settings: BehaviorSettings, action: ActionSpec) -> Iterator[tuple[str, str]]:
    """Returns cause and sentence of each sign that shows."""
    bounds = seen.signs.get(AT_BOUNDS, [])[-SHORT:]
    if len(bounds) == SHORT and min(bounds) > MANY_AT_BOUNDS:
        yield "bounds", _of_bounds(bounds[-1])
    if not _must_rise(seen, summary, settings):
        return
    values = seen.signs.get(VALUES, [])
    blind = len(values) == LONG and max(sum(values) / LONG, values[-1]) < LITTLE_EXPLAINED
    if _risen(seen):
        if blind and (since := _flat_since(seen, LONG_SHARE * settings.max_steps)) is not None:
            yield "values", _of_plateau(values[-1], since, seen)
        return
    entropy = seen.signs.get(ENTROPY, [])[-SHORT:]
    if len(entropy) == SHORT and max(entropy) < _little_entropy(settings, action):
        yield "entropy", _of_entropy(entropy[-1], seen, settings)
    if seen.rewarded < LONG or summary.step < LONG_SHARE * settings.max_steps:
        return
    if _constant(seen):
        yield "reward", _of_constant(seen, settings)
    if _constant(seen) or seen.updated < LONG:
        return
    yield (
        "reward",
        f"{_then_and_now(seen)}, after {summary.step:,} of {settings.max_steps:,} decisions: it does not learn, or "
        "not yet",
    )
    if blind:
        yield "values", _of_values(values[-1], seen)


def _of_bounds(share: float) -> str:
    return (
        f"{share:.0%} of its continuous actions are at -1 or 1, and many have been for {SHORT} summaries. Unless "
        "actions of full size are right, observations may be too large (network_settings.normalize: true), rewards "
        "too large, or the learning_rate too high"
    )


def _of_entropy(entropy: float, seen: _Seen, settings: BehaviorSettings) -> str:
    key = "init_entcoef" if isinstance(settings.hyperparameters, SACSettings) else "beta"
    return (
        f"its policy has stopped exploring (entropy {entropy:.2g}), yet {_then_and_now(seen)}: it became "
        f"deterministic too early. A larger {key} or a smaller learning_rate keeps it exploring"
    )


def _of_constant(seen: _Seen, settings: BehaviorSettings) -> str:
    what = f"every episode has earned the same so far ({readable(seen.first[_judge(seen)][0])})"
    if signals := seekers(settings):
        return f"{what}: {signals} led to nothing better yet"
    return (
        f"{what}, so there is nothing to learn from: rewards may be so rare that random actions do not find them, or "
        "are never given"
    )


def seekers(settings: BehaviorSettings) -> str:
    """Describes the reward signals and recordings that may lead agents to rewards that random actions do not find."""
    recorded = {
        "prior_data": getattr(settings.hyperparameters, "prior_data", None),
        "behavioral_cloning": settings.behavioral_cloning,
    }
    signals = [name for name in settings.reward_signals if name != EXTRINSIC]
    return listed([*signals, *(name for name, given in recorded.items() if given is not None)])


def _of_values(share: float, seen: _Seen) -> str:
    return (
        f"its critic does not predict what agents earn (explained variance {share:.2f}; 1 is perfect), and "
        f"{_then_and_now(seen)}: observations may lack what rewards depend on, or rewards may be too large or too noisy"
    )


def _of_plateau(share: float, since: int, seen: _Seen) -> str:
    now = readable(_pooled(seen.course[_judge(seen)][-SHORT:])[0])
    return (
        f"the mean reward has been flat since step {since:,} ({now}), and its critic predicts nothing (explained "
        f"variance {share:.2f}; 1 is perfect): observations may lack what rewards depend on, or rewards may be mostly "
        "chance"
    )


def _must_rise(seen: _Seen, summary: Summary, settings: BehaviorSettings) -> bool:
    """Whether a mean reward that does not rise shows that nothing is learned. It need not rise in self-play, in later
    lessons, or when the policy learns from other signals only."""
    lessons = any(value for tag, value in summary.values.items() if tag.startswith("Environment/Lesson Number/"))
    return (
        seen.judged
        and EXTRINSIC in settings.reward_signals
        and ELO not in summary.values
        and not lessons
        and bool(seen.first)
    )


def _risen(seen: _Seen) -> bool:
    """Whether the newest episodes earn more than the worst period, by more than chance, or far more than the first.

    The first period alone is misleading: if success ends an episode, the first episodes to end are successful ones.
    """
    return any(
        _rise(seen.lowest[tag], seen.course[tag][-SHORT:], CERTAIN, 1e-6)
        or _rise(seen.first[tag], seen.course[tag][-SHORT:], LIKELY, 0.5)
        for tag in seen.lowest
    )


def _rise(before: list[float], recent: list[list[float]], errors: float, share: float) -> bool:
    """Whether the mean has risen by a number of standard errors, and by this share of its old value."""
    mean, deviation, count = _pooled(recent)
    error = math.sqrt(max(before[1], deviation if before[2] < 2 else 0.0) ** 2 / before[2] + deviation**2 / count)
    return mean - before[0] > max(errors * error, share * abs(before[0]))


def _flat_since(seen: _Seen, least: float) -> int | None:
    """Returns the step since which the mean has changed only by chance and stayed close to its lowest value, for a
    minimum of decisions; None without such a plateau."""
    course = seen.course[_judge(seen)]
    mean, deviation, count = _pooled(course[-LONG:])
    begin = len(course)
    while begin and abs(course[begin - 1][0] - mean) <= CERTAIN * _error(course[begin - 1], (mean, deviation, count)):
        begin -= 1
    plateau = course[begin:]
    if len(plateau) < LONG or plateau[-1][3] - plateau[0][3] < least:
        return None
    halves = _pooled(plateau[: len(plateau) // 2]), _pooled(plateau[len(plateau) // 2 :])
    still = abs(halves[1][0] - halves[0][0]) <= LIKELY * _error(*halves)
    small = mean - seen.lowest[_judge(seen)][0] < SMALL * deviation
    return int(plateau[0][3]) if still and small else None


def _error(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the standard error of the difference of two means."""
    return math.sqrt(one[1] ** 2 / one[2] + other[1] ** 2 / other[2])


def _joined(course: list[list[float]]) -> list[list[float]]:
    """Returns a history of values; in a long one, older neighbors are merged."""
    if len(course) <= KEPT:
        return course
    pairs = [[*_pooled(course[i : i + 2]), course[i][3]] for i in range(0, len(course) - LONG, 2)]
    return [*pairs, *course[-LONG:]]


def _pooled(stretches: list[list[float]]) -> tuple[float, float, float]:
    """Returns mean, standard deviation and count of all episodes together."""
    means, deviations, counts = np.array(stretches).T[:3]
    mean = float(np.average(means, weights=counts))
    variance = float(np.average(deviations**2 + (means - mean) ** 2, weights=counts))
    return mean, math.sqrt(variance), float(counts.sum())


def _widen(seen: _Seen, tag: str, returns: np.ndarray) -> None:
    if len(returns):
        low, high, count = seen.span.get(tag, [math.inf, -math.inf, 0])
        seen.span[tag] = [min(low, float(returns.min())), max(high, float(returns.max())), count + len(returns)]


def _constant(seen: _Seen) -> bool:
    return bool(seen.span) and all(high - low <= 1e-6 * abs(low) for low, high, _ in seen.span.values())


def _episodes(seen: _Seen) -> int:
    return int(seen.span[_judge(seen)][2])


def _judge(seen: _Seen) -> str:
    """Returns the reward to judge by: the group reward where there are groups."""
    return GROUP_REWARD if GROUP_REWARD in seen.span else REWARD


def _seems_risen(seen: _Seen) -> bool:
    tag = _judge(seen)
    return float(f"{_pooled(seen.course[tag][-SHORT:])[0]:.3g}") > float(f"{seen.first[tag][0]:.3g}")


def _then_and_now(seen: _Seen) -> str:
    tag = _judge(seen)
    what = "mean group reward" if tag == GROUP_REWARD else "mean reward"
    first = f"{seen.first[tag][0]:.3g}"
    now = f"{_pooled(seen.course[tag][-SHORT:])[0]:.3g}"
    chance = " by more than chance" if _seems_risen(seen) else ""
    return f"the {what} has not risen{chance} ({first} in the first summary, {now} now)"


def _little_entropy(settings: BehaviorSettings, action: ActionSpec) -> float:
    """Returns the entropy, as the trainer measures it, below which a policy explores nothing."""
    choices = LITTLE_ENTROPY * sum(math.log(branch) for branch in action.branches)
    if not action.continuous:
        return choices
    if isinstance(settings.hyperparameters, SACSettings):
        return choices + LITTLE_SQUASHED * action.continuous
    return choices + 0.5 * math.log(2 * math.pi * math.e * LITTLE_NOISE**2)
