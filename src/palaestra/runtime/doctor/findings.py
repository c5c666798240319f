"""Findings about an environment: problems, and advice on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from palaestra.core.display import listed
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec
from palaestra.models.critic_only.sight import narrowed, shown_to_actor
from palaestra.models.settings import RESIDUAL
from palaestra.rewards.amp import OBSERVATIONS
from palaestra.rewards.chosen_numbers import choose_numbers
from palaestra.rewards.settings import AMPSettings
from palaestra.runtime.doctor.meters import FAR, BehaviorReport, ObservationReport
from palaestra.runtime.settings import BehaviorSettings, RunSettings
from palaestra.runtime.settings.loading import UNITY_NAME
from palaestra.trainers.symmetry.mirror import Mirror

ENOUGH = 10
"""Decisions that must have been seen before a constant value is reported."""
SHOWN = 8
"""Largest number of elements whose indices are listed."""


FAILED = "failed; see above"
"""A finding about a stage whose own line in the report says why it failed."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem or suspicion, with advice."""

    level: str  # error: training would fail; warning: it would learn badly; note: good to know
    what: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts about the examination on which the advice depends."""

    settings: RunSettings
    listed: bool  # the settings come from the user's file
    is_unity: bool
    ticks: int
    complete: bool  # it was not interrupted


def of_behavior(report: BehaviorReport, around: Circumstances) -> Iterator[Finding]:
    """Yields all findings about one behavior."""
    yield from _of_episodes(report, around)
    yield from _of_rewards(report, around)
    for seen in report.observations:
        if seen.rows >= ENOUGH:
            yield from _of_observation(report.name, seen, around)


def _of_episodes(report: BehaviorReport, around: Circumstances) -> Iterator[Finding]:
    if around.complete and not report.terminated + report.truncated:
        advice = "set the agents' Max Step, or call EndEpisode" if around.is_unity else "terminate or truncate episodes"
        what = f"behavior '{report.name}': no episode ended in {around.ticks} ticks"
        yield Finding(
            "warning", what, f"{advice}; if episodes are simply long, examine more ticks: --ticks {10 * around.ticks}"
        )


def _of_rewards(report: BehaviorReport, around: Circumstances) -> Iterator[Finding]:
    reward = report.reward
    if reward is not None and not reward.nonzero and report.group_reward is None and report.decisions >= ENOUGH:
        how = "call AddReward or SetReward" if around.is_unity else "return a reward other than zero from step()"
        yield Finding(
            "warning",
            f"behavior '{report.name}': its reward was always zero",
            f"{how} when the agent does well; if random actions rarely get that far, examine more ticks (--ticks)",
        )


def _of_observation(behavior: str, seen: ObservationReport, around: Circumstances) -> Iterator[Finding]:
    where = f"behavior '{behavior}', observation '{seen.name}'"
    if seen.one_color:
        yield Finding("warning", f"{where}: the image had one color all the time", _of_dark_image(around))
    elif len(seen.constant) == seen.elements:
        level = "note" if seen.goal else "warning"
        what = "the goal signal never changed" if seen.goal else "none of its elements ever changed"
        yield Finding(
            level,
            f"{where}: {what}",
            "a constant observation has no information for agents: check that it is written in every step",
        )
    elif seen.constant and seen.kind != "image":
        what = (
            f"{where}: {len(seen.constant)} of {seen.elements} elements never changed: {listed(seen.constant, SHOWN)}"
        )
        yield Finding(
            "note", what, "leave out elements that are always the same; if they only change rarely, nothing is wrong"
        )
    if seen.far and seen.kind != "image" and not normalizes(around, behavior):
        yield Finding(
            "warning",
            f"{where}: {seen.far} of {seen.elements} elements go far outside -1..1 (beyond {FAR:g}; {seen.low:.4g} to "
            f"{seen.high:.4g})",
            "set normalize: true in the behavior's network_settings, or divide by the greatest value in the "
            "environment",
        )


def _of_dark_image(around: Circumstances) -> str:
    if not around.is_unity:
        return "check that reset() and step() compute it each time, within the range of its space"
    if around.settings.engine_settings.no_graphics:
        return (
            "with --no-graphics cameras draw nothing: leave out that flag, or run under xvfb-run if there is no display"
        )
    return "check that its camera is enabled, sees an object, and renders to the texture that the sensor reads"


def normalizes(around: Circumstances, behavior: str) -> bool:
    """Whether the user's settings already normalize the observations of a behavior."""
    settings = around.settings.behaviors.get(behavior) or around.settings.default_settings
    network = None if settings is None else settings.network_settings
    return around.listed and network is not None and (network.normalize or network.body == RESIDUAL)


def of_settings(settings: RunSettings, behaviors: Mapping[str, BehaviorSpec], *, is_unity: bool) -> Iterator[Finding]:
    """Compares the behaviors of the environment with those of a settings file."""
    both = f"(the settings list {', '.join(map(repr, settings.behaviors)) or 'none'})"
    meant = list[str]()
    where = UNITY_NAME if is_unity else ""
    for name in behaviors:
        if name not in settings.behaviors and settings.default_settings is None:
            meant += [other for other in settings.behaviors if nearest(name, [other])][:1]
            what = f"behavior '{name}' has no settings{nearest(name, settings.behaviors) or f' {both}'}"
            yield Finding("error", what, f"list it under behaviors by this exact name{where}, or add default_settings")
        elif name not in settings.behaviors:
            yield Finding("note", f"behavior '{name}' is not listed {both}", "it is trained with default_settings")
        if (own := settings.behaviors.get(name, settings.default_settings)) is not None:
            yield from _of_names(name, behaviors[name], own)
    for name in settings.behaviors:
        if name not in behaviors and name not in meant:
            there = nearest(name, behaviors) or f" (the environment has {', '.join(map(repr, behaviors))})"
            what = f"the settings list '{name}', which did not appear{there}"
            advice = f"it must be the environment's own name{where}; ignore this if the behavior appears later"
            yield Finding("warning", what, advice)


def _of_names(behavior: str, spec: BehaviorSpec, settings: BehaviorSettings) -> Iterator[Finding]:
    """Looks up the observations that settings name, and reports which ones are for the critic alone."""
    names = [obs.name for obs in spec.obs]
    where = f"behavior '{behavior}'"
    try:
        shown = shown_to_actor(spec, settings.network_settings)
        if settings.mirror is not None:
            Mirror(settings.mirror, spec, torch.device("cpu"))
        for signal in settings.reward_signals.values():
            if isinstance(signal, AMPSettings):
                choose_numbers(signal.observations, narrowed(spec, shown), OBSERVATIONS)
    except ConfigError as error:
        yield Finding("error", f"{where}: {error}", "name what the environment has")
        return
    if settings.network_settings.critic_only is not None:
        hidden = ", ".join(name for i, name in enumerate(names) if i not in shown)
        yield Finding(
            "note",
            f"{where}: the critic alone sees {hidden}; the policy sees {', '.join(names[i] for i in shown)}",
            "model files play where the critic's observations are missing, too",
        )
