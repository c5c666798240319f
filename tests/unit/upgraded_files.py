"""Old files as text, and what they come to."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import BehaviorSettings, behavior_settings, load
from palaestra.runtime.upgrade import Upgraded, upgrade


def upgraded(text: str, **files: Path) -> Upgraded:
    """Writes old.yaml in the current folder, upgrades it, and leaves new.yaml beside it."""
    Path("old.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
    done = upgrade(Path("old.yaml"), **files)
    Path("new.yaml").write_text(done.text, encoding="utf-8")
    return done


def loaded(text: str, name: str = "A", **files: Path) -> BehaviorSettings:
    """A behavior's settings as `learn` would load them, without a word."""
    upgraded(text, **files)
    new = load(Path("new.yaml"))
    assert new.warnings == ()
    return behavior_settings(new.settings, name)


def parameters(text: str = "A: {trainer: ppo, batch_size: 3}", **files: Path) -> dict[str, Any]:
    """The environment parameters."""
    upgraded(text, **files)
    return load(Path("new.yaml")).settings.environment_parameters or {}


def refused(text: str, **files: Path) -> str:
    """The error."""
    with pytest.raises(ConfigError) as error:
        upgraded(text, **files)
    return str(error.value)
