"""Settings without a settings file: a shipped file that is made for the environment, or settings that fit its spaces.

The fitted values are those with which PPO is usually run: Schulman et al. 2017, https://arxiv.org/abs/1707.06347 (Atari and MuJoCo), and
Andrychowicz et al. 2021, https://arxiv.org/abs/2006.05990 (normalized observations, rewards and advantages).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from palaestra.core.specs import BehaviorSpec
from palaestra.runtime.settings.examples import made_for

LARGE = 64
"""Numbers of all vector observations from which a layer gets more units."""
HORIZONS = ((64, 128), (1024, 32))
"""Most areas, and the decisions of each agent in a rollout then; more areas have LEAST_HORIZON."""
LEAST_HORIZON = 16
SUMMARIES = 50


def preset_for(env_path: str | None) -> Path | None:
    """Returns the shipped settings file for an environment as `--env` names it; None if there is none."""
    if env_path is None:
        return None
    kind, colon, name = env_path.partition(":")
    if not colon:
        return made_for(env_path)
    return made_for(name.rpartition(":")[2].replace("/", "-")) if kind in ("builtin", "gymnasium") else None


def fitted(behaviors: Mapping[str, BehaviorSpec], areas: int) -> tuple[dict[str, Any], list[str]]:
    """Returns a tree of settings that fit the observations and actions, and a sentence about each behavior."""
    blocks, told = dict[str, Any](), list[str]()
    for name, spec in behaviors.items():
        kind, blocks[name] = _block(spec, areas)
        block, values = blocks[name], blocks[name]["hyperparameters"]
        told.append(
            f"{name}: no settings are given and none are shipped for it; it trains with PPO and settings for {kind}: rollouts of "
            f"{values['buffer_size']:,} decisions, minibatches of {values['batch_size']:,}, {values['num_epoch']} passes, learning rate "
            f"{values['learning_rate']:g}, {block['max_steps']:,} decisions"
        )
    return {"behaviors": blocks}, told


def _block(spec: BehaviorSpec, areas: int) -> tuple[str, dict[str, Any]]:
    """Returns what kind of behavior it is, in words, and its settings."""
    horizon = next((horizon for most, horizon in HORIZONS if areas <= most), LEAST_HORIZON)
    rollout = max(2048, horizon * areas)
    sees = any(obs.is_visual for obs in spec.obs)
    numbers = sum(obs.shape[0] for obs in spec.obs if obs.is_vector)
    # images: few passes, as for Atari; continuous control: many small steps; choices: fewer, and more entropy
    kind, minibatches, passes, rate, entropy, steps = (
        ("images", 8, 4, 2.5e-4, 0.01, 10_000_000)
        if sees
        else ("continuous actions", 32, 10, 3e-4, 1e-4, 1_000_000)
        if spec.action.continuous
        else ("discrete actions", 8, 6, 7e-4, 5e-3, 1_000_000)
    )
    network: dict[str, Any] = {"normalize": numbers > 0, "hidden_units": 64 if numbers < LARGE and not sees else 256, "num_layers": 2}
    if sees:
        network |= {"vis_encode_type": "nature_cnn", "num_layers": 1}
    hyper = {
        "batch_size": max(64, rollout // minibatches),
        "buffer_size": rollout,
        "learning_rate": rate,
        "learning_rate_schedule": "linear",
        "beta": entropy,
        "epsilon": 0.1 if sees else 0.2,
        "epsilon_schedule": "constant",
        "lambd": 0.95,
        "num_epoch": passes,
        "max_grad_norm": 0.5,
        "joint_ratio": True,
    }
    return kind, {
        "trainer_type": "ppo",
        "hyperparameters": hyper,
        "network_settings": network,
        "reward_signals": {"extrinsic": {"gamma": 0.99, "strength": 1.0, "normalize": True}},
        "max_steps": steps,
        "time_horizon": horizon,
        "summary_freq": steps // SUMMARIES,
    }
