"""Trainers by the name in `trainer_type`: entry points, ours as anyone's, and classes as `package.module:Class`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palaestra.core.errors import PluginError
from palaestra.core.own_code import find_own
from palaestra.core.settings import Settings

if TYPE_CHECKING:
    import torch

    from palaestra.core.specs import BehaviorSpec
    from palaestra.trainers.base import Trainer
    from palaestra.trainers.behavior import BehaviorSettings

GUIDE = "docs/guides/own-trainer.md says what each of them is"
OF_A_CLASS = ("Settings", "make_network", "update", "state_dict", "load_state_dict")
OF_AN_INSTANCE = ("network", "policy", "rollout_size", "keeps")


def trainer_class(name: str) -> type[Trainer]:
    """The class that a `trainer_type` names. Raises PluginError where there is none, or where it is no trainer."""
    title = f"trainer '{name}'"
    found = find_own("trainers", title, name)
    if not isinstance(found, type):
        raise PluginError(f"{title} is {found!r}; expected a class")
    _must_have(found, OF_A_CLASS, title)
    settings = found.Settings  # type: ignore[attr-defined]
    if not (isinstance(settings, type) and issubclass(settings, Settings)):
        raise PluginError(f"{title}: its Settings is {settings!r}; expected a class that inherits from palaestra.core.settings.Settings")
    return found


def make_trainer(spec: BehaviorSpec, settings: BehaviorSettings, device: torch.device, seed: int) -> Trainer:
    """The trainer of a behavior. Raises PluginError where it lacks a member, ConfigError where it refuses spec or settings."""
    trainer = trainer_class(settings.trainer_type)(spec, settings, device, seed)
    check_members(trainer, f"trainer '{settings.trainer_type}'")
    return trainer


def check_members(trainer: Trainer, title: str) -> None:
    """Raises PluginError, which `title` begins, for what a trainer lacks."""
    _must_have(trainer, OF_A_CLASS + OF_AN_INSTANCE, title)
    size: object = trainer.rollout_size
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise PluginError(f"{title}: rollout_size is {size!r}; expected a whole number of at least 1")


def _must_have(found: Any, members: tuple[str, ...], title: str) -> None:
    if missing := [name for name in members if not hasattr(found, name)]:
        raise PluginError(f"{title} lacks {', '.join(missing)}; {GUIDE}")
