"""What a trainer cannot do is refused before it begins, all of it in one sentence."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from palaestra.core.errors import ConfigError
from palaestra.core.specs import BehaviorSpec, describe

if TYPE_CHECKING:
    from palaestra.trainers.behavior import BehaviorSettings

SPEEDUPS = ("compile", "bfloat16")
"""Of network_settings, what a trainer itself must heed."""


def refuse(
    trainer: str,
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    *,
    continuous: bool = True,
    memory: bool = False,
    cloning: bool = False,
    signals: Collection[str] = ("extrinsic",),
    speedups: Collection[str] = (),
) -> None:
    """Raises ConfigError for what is asked for beyond this: the behavior's actions, a memory, cloning, reward signals, SPEEDUPS."""
    wrong = []
    if spec.action.continuous and not continuous:
        wrong.append(f"it takes discrete actions alone, and the behavior has {describe(spec).rpartition('actions: ')[2]}")
    if settings.network_settings.memory and not memory:
        wrong.append("it has no memory: leave out network_settings.memory")
    if settings.behavioral_cloning and not cloning:
        wrong.append("it does not imitate: leave out behavioral_cloning")
    for name in SPEEDUPS:
        if getattr(settings.network_settings, name) and name not in speedups:
            wrong.append(f"it does nothing with network_settings.{name}: set it to false")
    if strange := [name for name in settings.reward_signals if name not in signals]:
        wrong.append(f"it does not learn from the reward signals {', '.join(strange)}, only from {', '.join(signals)}")
    if wrong:
        raise ConfigError(f"{trainer} cannot learn this: {'; '.join(wrong)}")
