"""Settings without a settings file: a file that is shipped for the environment, or settings that fit its spaces.

The fitted values are usual ones for PPO: Schulman et al. 2017, https://arxiv.org/abs/1707.06347 (Atari
and MuJoCo), and Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990 (normalized observations, rewards and
advantages).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from palaestra.core.specs import BehaviorSpec
from palaestra.envs.pettingzoo.opening import is_published
from palaestra.runtime.settings import load
from palaestra.runtime.settings.examples import made_for
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.trainers.behavior_settings import BehaviorSettings, settings_like

LARGE = 64
"""Number of values in all vector observations from which a layer gets more units."""
HORIZONS = ((64, 128), (1024, 32))
"""Pairs of a largest number of areas and each agent's decisions in a rollout; with more areas: LEAST_HORIZON."""
LEAST_HORIZON = 16
LEAST_ROLLOUT = 2048
SUMMARIES = 50
LEAST_SUMMARY = 1000
"""Fewest decisions between two summaries."""
FEW, SHORT_SUMMARIES = 3, 5
"""Number of summaries below which a curve has too few points, and the number that a short run gets instead."""
ENCODERS = {"nature_cnn": 36, "simple": 20, "match3": 5, "fully_connected": 1}
"""Visual encoders, and the least number of pixels on each side that each accepts."""
IMAGES, BOARDS, CONTINUOUS, DISCRETE = "images", "boards", "continuous actions", "discrete actions"
SELF_PLAY = {
    "save_steps": 10_000,
    "team_change": 20_000,
    "swap_steps": 2000,
    "window": 100,
    "play_against_latest_model_ratio": 0.5,
}
"""Self-play settings: short turns of learning, and opponents from the whole run, so that the policy still beats the
mistakes of beginners."""
SAC_VALUES = {
    "batch_size": 256,
    "buffer_size": 200_000,
    "buffer_init_steps": 5000,
    "steps_per_update": 2,
    "learning_rate_schedule": "constant",
}
WORDS = {
    "buffer_size": "buffer_size {:,}",
    "batch_size": "batch_size {:,}",
    "num_epoch": "num_epoch {}",
    "learning_rate": "learning_rate {:g}",
}
"""Settings that are reported to the user."""


def preset_for(env_path: str | None, trainer: str | None = None) -> Path | None:
    """Returns the shipped settings file for an environment as `--env` names it; None if there is none.

    `trainer`: the required trainer.
    """
    if env_path is None:
        return None
    kind, colon, name = env_path.partition(":")
    if not colon:
        return made_for(env_path, trainer)
    if kind == "pettingzoo":
        return made_for(re.split(r"[./]", re.sub(r"_v\d+$", "", name))[-1], trainer) if is_published(name) else None
    if kind not in ("builtin", "gymnasium", "envpool"):
        return None
    return made_for(name.rpartition(":")[2].replace("/", "-"), trainer)


def fitted(
    behaviors: Mapping[str, BehaviorSpec], areas: int, trainer: str = "ppo", opponents: Collection[str] = ()
) -> dict[str, Any]:
    """Returns a tree of settings that fit the observations and actions of each behavior. Trainers of your own keep
    their defaults; subclasses of PPO, SAC and POCA get fitted settings too.

    `opponents`: behaviors that play against one another, and therefore learn by self-play.
    """
    blocks = {name: _block(spec, areas, trainer) for name, spec in behaviors.items()}
    own = {name: {"self_play": SELF_PLAY} if name in opponents else {} for name in blocks}
    return {"behaviors": {name: {**block, **own[name]} for name, block in blocks.items()}}


def with_summaries(tree: Mapping[str, Any], lengths: Mapping[str, int]) -> dict[str, Any]:
    """Returns a fitted tree with summaries for other run lengths; `lengths`: the `max_steps` of each behavior."""
    pace = {name: min(steps, max(LEAST_SUMMARY, steps // SUMMARIES)) for name, steps in lengths.items()}
    behaviors = {name: {**block, "summary_freq": pace[name]} for name, block in tree["behaviors"].items()}
    return {**tree, "behaviors": behaviors}


def with_pace(shipped: Path, overrides: Mapping[str, Any], sets: Sequence[Setting | str]) -> Mapping[str, Any]:
    """Returns the overrides of a shipped file, with more summaries if the run is so short that it would have hardly
    one. Raises ConfigError."""
    given = overrides.get("behaviors", {}).get("*", {})
    asked = f"{given} {sets}"
    if "max_steps" not in asked or "summary_freq" in asked:
        return overrides
    blocks = load(shipped, overrides, sets).settings.behaviors.values()
    if all(block.max_steps >= FEW * block.summary_freq for block in blocks):
        return overrides
    pace = max(1, min(block.max_steps for block in blocks) // SHORT_SUMMARIES)
    return {**overrides, "behaviors": {**overrides.get("behaviors", {}), "*": {**given, "summary_freq": pace}}}


def describe_fit(name: str, spec: BehaviorSpec, settings: BehaviorSettings) -> str:
    """Returns a line about the settings that a behavior got, and why."""
    hyper = settings.hyperparameters
    known = [(words, getattr(hyper, key, None)) for key, words in WORDS.items()]
    values = [words.format(value) for words, value in known if value is not None]
    opponents = ", self-play because the players are opponents (teams)" if settings.self_play is not None else ""
    return (
        f"{name}: no settings are given and none are shipped for it: {settings.trainer_type} with settings for "
        f"{_kind(spec)}, {', '.join(values)}, {settings.max_steps:,} decisions{opponents} (--set changes them)"
    )


def _kind(spec: BehaviorSpec) -> str:
    if any(obs.is_visual for obs in spec.obs):
        return BOARDS if _side(spec) < ENCODERS["simple"] else IMAGES
    return CONTINUOUS if spec.action.continuous else DISCRETE


def _block(spec: BehaviorSpec, areas: int, trainer: str) -> dict[str, Any]:
    kind = _kind(spec)
    horizon = next((horizon for most, horizon in HORIZONS if areas <= most), LEAST_HORIZON)
    numbers = sum(obs.shape[0] for obs in spec.obs if obs.is_vector)
    network: dict[str, Any] = {
        "normalize": numbers > 0,
        "hidden_units": 64 if numbers < LARGE else 256,
        "num_layers": 2,
    }
    if kind == BOARDS:
        network = {"normalize": numbers > 0, "hidden_units": 256, "num_layers": 2, "vis_encode_type": _encoder(spec)}
    if kind == IMAGES:
        network = {"normalize": numbers > 0, "hidden_units": 512, "num_layers": 1, "vis_encode_type": _encoder(spec)}
    steps = 10_000_000 if kind == IMAGES else 1_000_000
    block: dict[str, Any] = {
        "trainer_type": trainer,
        "network_settings": network,
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0, "normalize": True}},
        "max_steps": steps,
        "time_horizon": horizon,
        "summary_freq": steps // SUMMARIES,
    }
    like = settings_like(trainer)
    if like in ("ppo", "poca"):
        components = spec.action.continuous + len(spec.action.branches)
        block["hyperparameters"] = _on_policy(kind, max(LEAST_ROLLOUT, horizon * areas), joint_ratio=components > 1)
    elif like == "sac":
        block["network_settings"] |= {"hidden_units": 512 if kind == IMAGES else 256}
        block["hyperparameters"] = SAC_VALUES
    return block


def _encoder(spec: BehaviorSpec) -> str:
    """Returns the first encoder that accepts the smallest image; images of few cells are boards."""
    return next(name for name, smallest in ENCODERS.items() if _side(spec) >= smallest)


def _side(spec: BehaviorSpec) -> int:
    return min(min(obs.shape[1:]) for obs in spec.obs if obs.is_visual)


def _on_policy(kind: str, rollout: int, *, joint_ratio: bool) -> dict[str, Any]:
    # images: few passes, as for Atari; continuous control: many small steps; choices: fewer, and more entropy
    minibatches, passes, rate, entropy = {
        IMAGES: (8, 4, 2.5e-4, 0.01),
        BOARDS: (8, 3, 1e-3, 0.01),
        CONTINUOUS: (32, 10, 3e-4, 1e-4),
        DISCRETE: (8, 6, 7e-4, 5e-3),
    }[kind]
    return {
        "batch_size": max(64, rollout // minibatches),
        "buffer_size": rollout,
        "learning_rate": rate,
        "learning_rate_schedule": "linear",
        "beta": entropy,
        "epsilon": 0.1 if kind == IMAGES else 0.2,
        "epsilon_schedule": "constant",
        "lambd": 0.95,
        "num_epoch": passes,
        "max_grad_norm": 0.5,
        # the same for a single component, whose gradient then has a closed form, in half the time
        "joint_ratio": joint_ratio,
    }
