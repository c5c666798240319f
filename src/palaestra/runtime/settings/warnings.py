"""Warns about settings that are allowed but probably a mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from palaestra.models.settings import NetworkSettings
from palaestra.rewards.settings import AMPSettings, CuriositySettings, ExtrinsicSettings, GAILSettings, RNDSettings
from palaestra.runtime.settings.look_alikes import odd_character
from palaestra.runtime.settings.tree import RunSettings, blocks_of
from palaestra.runtime.settings.yaml_file import Key
from palaestra.scenario.settings import CurriculumSettings
from palaestra.trainers.behavior_settings import BehaviorSettings
from palaestra.trainers.settings import BCSettings, POCASettings, PPOSettings, SACSettings

FOR_TUNE = "only `palaestra tune` reads it: nothing is searched here"
NOT_OF_SIGNALS = {
    "memory": "a reward signal sees each decision on its own",
    "deterministic": "a reward signal does not act",
    "bfloat16": "a reward signal works in float32",
    "compile": "a reward signal's network is not compiled",
}
"""Keys of network_settings that have no effect in a reward signal, and why."""
FEW_UPDATES = 3
"""Number of updates below which a new run warns."""


def remarks(settings: RunSettings) -> Iterator[tuple[Key, str]]:
    """Yields the path and the text of each warning."""
    for at, behavior in blocks_of(settings):
        if odd := odd_character(str(at[-1])):
            yield at, f"the behavior's name has {odd}"
        yield from _of_behavior(behavior, at)
    for name, parameter in (settings.environment_parameters or {}).items():
        if isinstance(parameter, CurriculumSettings) and parameter.curriculum[-1].completion_criteria:
            at = ("environment_parameters", name, "curriculum", len(parameter.curriculum) - 1, "completion_criteria")
            yield at, "not used: no lesson follows the last one"
    if settings.checkpoint_settings.load_model:
        yield ("checkpoint_settings", "load_model"), "deprecated and without effect: resume (--resume) continues a run"
    if settings.checkpoint_settings.train_model:
        yield ("checkpoint_settings", "train_model"), "deprecated and without effect: training is the default"
    if settings.search is not None:
        yield ("search",), FOR_TUNE


def _of_behavior(behavior: BehaviorSettings, at: Key) -> Iterator[tuple[Key, str]]:
    yield from _of_signals(behavior, at)
    yield from _of_cloning(behavior, at)
    hyper = behavior.hyperparameters
    if (
        isinstance(hyper, PPOSettings | POCASettings | SACSettings | BCSettings)
        and hyper.batch_size > hyper.buffer_size
    ):
        what = f"{hyper.batch_size} is more than buffer_size ({hyper.buffer_size})"
        used = (
            "minibatches draw the same decisions several times"
            if isinstance(hyper, SACSettings)
            else f"each minibatch is a whole rollout, of about {hyper.buffer_size} decisions"
        )
        yield (*at, "hyperparameters", "batch_size"), f"{what}: {used}"
    extrinsic = behavior.reward_signals.get("extrinsic")
    if isinstance(hyper, SACSettings) and hyper.critic_bins and extrinsic and not extrinsic.normalize:
        yield (
            (*at, "hyperparameters", "critic_bins"),
            "values beyond -5..5 count as these; reward_signals.extrinsic.normalize: true makes rewards fit",
        )
    if (play := behavior.self_play) and not play.prioritized:
        for key in sorted(play.priority.model_fields_set & {"weights", "power", "floor"}):
            yield (*at, "self_play", "priority", key), "not used: opponents: prioritized draws copies by it"
    if play and (play.prioritized or play.exploiter):
        brains = bool(play.brains) and play.play_against_opponents_ratio == 1
        what = "prioritized" if play.prioritized else "exploiter"
        if brains or play.play_against_latest_model_ratio >= 1:
            key = f"play_against_{'opponents' if brains else 'latest_model'}_ratio"
            yield (*at, "self_play", key), f"snapshots are never drawn, so {what} has no effect; give less than 1"
    if behavior.self_play and not 0 <= (ratio := behavior.self_play.play_against_latest_model_ratio) <= 1:
        yield (*at, "self_play", "play_against_latest_model_ratio"), f"expected a share within 0..1, got {ratio}"


def _of_signals(behavior: BehaviorSettings, at: Key) -> Iterator[tuple[Key, str]]:
    for name, signal in behavior.reward_signals.items():
        path = (*at, "reward_signals", name)
        if isinstance(signal, ExtrinsicSettings):
            yield from _of_extrinsic(signal, path, rewarded=not isinstance(behavior.hyperparameters, BCSettings))
            continue
        if not isinstance(signal, CuriositySettings | GAILSettings | RNDSettings | AMPSettings):
            continue
        if isinstance(signal, AMPSettings):
            if signal.network_settings.normalize:
                yield (
                    (*path, "network_settings", "normalize"),
                    "not used: amp scales by the clips' mean and deviation",
                )
        elif signal.encoding_size is not None:
            yield (*path, "encoding_size"), "deprecated: use network_settings.hidden_units"
        for key, sentence in NOT_OF_SIGNALS.items():
            if getattr(signal.network_settings, key):
                yield (*path, "network_settings", key), f"not used: {sentence}"


def _of_extrinsic(signal: ExtrinsicSettings, at: Key, *, rewarded: bool) -> Iterator[tuple[Key, str]]:
    """Checks the extrinsic signal. `rewarded`: its trainer learns from rewards."""
    if signal.network_settings != NetworkSettings():
        yield (*at, "network_settings"), "not used: the environment's reward has no network"
    for key in () if rewarded else ("strength", "normalize"):
        if getattr(signal, key) != ExtrinsicSettings.model_fields[key].default:
            yield (*at, key), "has no effect: bc does not learn from rewards"


def _of_cloning(behavior: BehaviorSettings, at: Key) -> Iterator[tuple[Key, str]]:
    hyper = behavior.hyperparameters
    if isinstance(hyper, BCSettings) and not hyper.teacher_plays and hyper.teacher_behavior not in (None, at[-1]):
        yield (*at, "hyperparameters", "teacher_plays"), "not used: the teacher acts for another behavior"


def of_length(behavior: BehaviorSettings, step: int, held: int, share: Callable[[int], int]) -> Iterator[str]:
    """Yields a sentence if a session that begins after `step` decisions is too short for its settings.

    `held`: decisions that a restored rollout already has. `share`: the part of the decisions that one process collects.
    """
    hyper, most, play = behavior.hyperparameters, behavior.max_steps, behavior.self_play
    if step >= most:
        return
    end = "the run ends before the first update; a larger --max-steps or a smaller"
    if play is not None and play.team_change > most:
        yield f"team_change {play.team_change:,} is more than max_steps ({most:,}): the learning team never changes"
    if isinstance(hyper, SACSettings):
        key = "buffer_init_steps" if hyper.buffer_init_steps >= hyper.batch_size else "batch_size"
        if not step and (first := getattr(hyper, key)) >= most:
            yield f"{key} {first:,} is not less than max_steps ({most:,}): {end} {key} lets it learn"
    elif isinstance(hyper, PPOSettings | POCASettings):
        updates = (share(most - step) + held) // share(hyper.buffer_size)
        size = f"buffer_size {hyper.buffer_size:,}"
        if step and not updates:
            left = f"the {most - step:,} decisions until max_steps ({most:,})"
            yield f"{size} is more than {left}: this session makes no update; a larger --max-steps does"
        elif not updates:
            yield f"{size} is more than max_steps ({most:,}): {end} buffer_size lets it learn"
        elif not step and updates < FEW_UPDATES:
            count = f"{updates} update{'s' * (updates > 1)}"
            yield f"max_steps ({most:,}) is enough for {count} of {size}: a smaller one learns more often"
