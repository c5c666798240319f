"""Compares one game at several time scales: it must behave the same in fast training as in play."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from palaestra.runtime.doctor.examination import Examination
from palaestra.runtime.doctor.findings import Finding
from palaestra.runtime.doctor.meters import BehaviorReport
from palaestra.runtime.settings import RunSettings

ERRORS = 4.0
"""Standard errors by which two means must differ to be reported."""
LEAST = 0.02
"""Relative difference by which two means must also differ to be reported."""
DEVIATIONS = 0.5
"""Largest difference of an observation's means that is not reported, in standard deviations."""
ADVICE = (
    "physics or scripts depend on the frame rate: move game logic into FixedUpdate, avoid Time.unscaledDeltaTime, "
    "keep the default Fixed Timestep and Maximum Allowed Timestep, or train at the lower time scale"
)


@dataclass(frozen=True, slots=True)
class ScaleComparison:
    """Results at each time scale, in the order requested."""

    scales: tuple[float, ...]
    found: tuple[Examination, ...]
    findings: tuple[Finding, ...]
    """Findings about differences between time scales."""

    @property
    def healthy(self) -> bool:
        """Whether training in the environment is possible at all of these time scales."""
        return all(each.healthy for each in self.found)


def compare(
    settings: RunSettings, scales: Sequence[float], examine: Callable[[RunSettings, float], Examination]
) -> ScaleComparison:
    """Examines the game of `settings` at each time scale, with the same seed and random actions, until one fails."""
    found: list[Examination] = []
    for scale in scales:
        engine = settings.engine_settings.model_copy(update={"time_scale": scale})
        found.append(examine(settings.model_copy(update={"engine_settings": engine}), scale))
        if not found[-1].healthy:
            break
    used = tuple(scales[: len(found)])
    return ScaleComparison(used, tuple(found), tuple(differences(used, found)))


def differences(scales: Sequence[float], found: Sequence[Examination]) -> Iterator[Finding]:
    """Yields a finding for each difference between the first time scale and another one."""
    first = found[0]
    for scale, other in zip(scales[1:], found[1:], strict=True):
        both = f"at time scale {scales[0]:g} and {scale:g}"
        for name in first.behaviors:
            if other.healthy and name not in other.behaviors:
                yield Finding(
                    "warning", f"behavior '{name}' appears at time scale {scales[0]:g}, not at {scale:g}", ADVICE
                )
        for name in first.behaviors.keys() & other.behaviors.keys():
            yield from _of_behavior(first.behaviors[name], other.behaviors[name], both)


def _of_behavior(first: BehaviorReport, other: BehaviorReport, both: str) -> Iterator[Finding]:
    where = f"behavior '{first.name}'"
    episodes = [report.terminated + report.truncated for report in (first, other)]
    for what, means, deviations in (
        ("mean length of an episode", (first.mean_length, other.mean_length), (first.length_std, other.length_std)),
        ("mean return of an episode", (first.mean_return, other.mean_return), (first.return_std, other.return_std)),
    ):
        if None not in means and min(episodes) > 1 and _apart(means, deviations, episodes):
            yield Finding("warning", f"{where}: the {what} is {means[0]:.4g} and {means[1]:.4g} {both}", ADVICE)
    ended = [count / max(report.decisions, 1) for count, report in zip(episodes, (first, other), strict=True)]
    if (episodes[0] == 0) != (episodes[1] == 0) and max(episodes) >= 5:
        yield Finding(
            "warning", f"{where}: {ended[0]:.2%} and {ended[1]:.2%} of decisions end an episode {both}", ADVICE
        )
    others = {seen.name: seen for seen in other.observations}
    for seen in first.observations:
        twin = others.get(seen.name)
        spread = max(seen.std, twin.std if twin else 0.0)
        if twin and spread and abs(seen.mean - twin.mean) > DEVIATIONS * spread:
            yield Finding(
                "warning",
                f"{where}, observation '{seen.name}': its mean is {seen.mean:.4g} and {twin.mean:.4g} {both}",
                ADVICE,
            )


def _apart(means: Sequence, deviations: Sequence, counts: Sequence[int]) -> bool:
    error = math.sqrt(sum(deviation**2 / count for deviation, count in zip(deviations, counts, strict=True)))
    gap = abs(means[0] - means[1])
    return gap > ERRORS * error and gap > LEAST * max(abs(means[0]), abs(means[1]))
