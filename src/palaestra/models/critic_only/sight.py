"""Splits observations between an actor and its critic, if some are for the critic alone.

Prepared observations of actor and critic are one tuple, the actor's first, so that rollouts and replays keep each image
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.core.specs import BehaviorSpec, named
from palaestra.models.settings import NetworkSettings
from palaestra.models.trunk import Inputs, Trunk
from palaestra.parallel.rank_group import RankGroup

KEY = "network_settings.critic_only"


def shown_to_actor(spec: BehaviorSpec, settings: NetworkSettings) -> tuple[int, ...]:
    """Returns the observations that the actor sees. Raises ConfigError if a pattern matches no observation, or if no
    observation is left for the actor."""
    names = [obs.name for obs in spec.obs]
    there = f"(it has: {', '.join(names)})"
    patterns = settings.critic_only or ()
    hidden = [named(pattern, names) for pattern in patterns]
    for pattern, found in zip(patterns, hidden, strict=True):
        if not found:
            raise ConfigError(f"{KEY}: no observation is named '{pattern}'{nearest(pattern, names)} {there}")
    shown = tuple(i for i in range(len(names)) if not any(i in found for found in hidden))
    if not shown:
        raise ConfigError(f"{KEY}: {', '.join(patterns)} would leave the policy no observation at all {there}")
    return shown


def narrowed(spec: BehaviorSpec, shown: Sequence[int]) -> BehaviorSpec:
    """Returns the spec of a policy that sees only these observations."""
    return spec if len(shown) == len(spec.obs) else replace(spec, obs=tuple(spec.obs[i] for i in shown))


def critic_places(spec: BehaviorSpec, shown: Sequence[int]) -> tuple[int, ...]:
    """Returns the position of each of the critic's inputs (vector, images, entities) among the inputs of actor and
    critic.

    Images and entities that both see are stored with the actor's inputs. The critic has vectors of its own, because it
    normalizes all of them.
    """
    every = [i for kind in ("is_visual", "is_entities") for i, obs in enumerate(spec.obs) if getattr(obs, kind)]
    actors = [i for i in every if i in shown]
    beyond = count(len(actors) + 2)
    return (len(actors) + 1, *(actors.index(i) + 1 if i in actors else next(beyond) for i in every))


def prepared(actor: Trunk, critic: Trunk, obs: tuple[Tensor, ...]) -> Inputs:
    """Returns the inputs of actor and critic from all observations of the behavior, or the actor's inputs from its own
    observations."""
    if len(obs) == len(actor.spec.obs):
        return Trunk.prepare(actor, obs)
    shown = actor.shown or ()
    actors = Trunk.prepare(actor, tuple(obs[i] for i in shown))
    places = critic_places(critic.spec, shown)
    return (*actors, *(x for place, x in zip(places, critic.prepare(obs), strict=True) if place >= len(actors)))


def has_critics_inputs(actor: Trunk, inputs: Inputs) -> bool:
    """Whether these inputs are for actor and critic, or for the actor alone (False)."""
    return actor.shown is None or len(inputs) > 1 + len(actor.images) + len(actor.entities)


def learn_both(actor: Trunk, critic: Trunk, vectors: tuple[Tensor, ...], group: RankGroup) -> None:
    """Updates the normalizers of actor and critic with rows of all vectors of the behavior, or of the actor's alone."""
    shown = actor.shown or ()
    whole = len(vectors) == len(critic.vectors)
    mine = [critic.vectors.index(shown[i]) for i in actor.vectors] if whole else range(len(vectors))
    Trunk.learn_statistics(actor, tuple(vectors[i] for i in mine), group)
    if whole:
        critic.learn_statistics(vectors, group)
