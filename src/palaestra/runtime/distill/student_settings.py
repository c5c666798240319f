"""Settings of a run whose small networks imitate models: `trainer_type: bc` with these models as teachers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from palaestra.brains.model import Policy
from palaestra.core.errors import ConfigError
from palaestra.core.files import MODEL_FILES
from palaestra.core.specs import named
from palaestra.models.settings import RESIDUAL
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.play.evaluating import PlayOptions, opened
from palaestra.runtime.play.run_models import Models, env_name
from palaestra.runtime.settings import BehaviorSettings
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.runtime.storage.run_folder import CONFIGURATION

LEARNING = {"batch_size": 256, "buffer_size": 4096, "learning_rate": 1e-3, "num_epoch": 6}
"""Hyperparameters that students learn with."""
SIMPLE_PIXELS = 20
"""Least height and width in pixels of images for the encoder 'simple', the smallest encoder."""
KEPT = ("normalize", "center_images", "goal_conditioning_type", "deterministic")
"""Settings of the teacher's network that a student takes over."""


@dataclass(frozen=True, slots=True)
class StudentRequest:
    """Models to imitate, and the networks that imitate them; the flags of `palaestra distill`."""

    run: str
    results: Path = Path("results")
    hidden_units: int = 32
    num_layers: int = 1
    memory_size: int | None = None  # None: twice the width if the teacher remembers, 0: none
    vis_encode_type: str | None = None
    max_steps: int = 200_000
    run_id: str | None = None
    env: object | None = None  # a name, or one of the user's own
    num_areas: int | None = None
    seed: int | None = None
    episodes: int = 100
    deterministic: bool = False
    force: bool = False
    trust: bool = False
    quiet: bool = False
    sets: Sequence[Setting | str] = ()
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])  # of Unity games

    def __post_init__(self) -> None:
        least = {"hidden_units": 1, "num_layers": 1, "max_steps": 1, "episodes": 1}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise ConfigError(f"--{name.replace('_', '-')} is {getattr(self, name)}; expected at least {number}")
        if (size := self.memory_size) is not None and (size < 0 or size % 2):
            raise ConfigError(f"--memory-size is {size}; expected an even number, or 0 for none")

    def name(self, models: Models) -> str:
        """Returns the run id of the students: the given id, or the teacher's id with the size of the network."""
        own = Path(models.run)
        name = (own.stem if models.run.endswith(MODEL_FILES) else own.name).replace("@", "-").replace(":", "-")
        return self.run_id or f"{name}-{self.hidden_units}x{self.num_layers}"


def student_tree(wanted: StudentRequest, models: Models, policies: Mapping[str, Policy]) -> dict[str, Any]:
    """Returns the settings tree of the students' run. Raises EnvError if the teachers' environment is not known."""
    tree = {} if models.folder is None else _of_run(models)
    blocks: dict[str, Any] = {}
    for name, policy in policies.items():
        known = (
            None if models.settings is None else models.settings.behaviors.get(name, models.settings.default_settings)
        )
        blocks[name] = _block(wanted, policy, known)
    _hide(blocks, wanted, models)
    alone = models.settings is None and len(blocks) == 1  # a file need not have the name of its behavior
    tree |= {"default_settings": next(iter(blocks.values()))} if alone else {"behaviors": blocks}
    if wanted.env is not None:
        name = wanted.env if isinstance(wanted.env, str) else None
        of_games = is_game(name)  # an environment of another kind refuses settings that are not for it
        kept = {
            key: value
            for key, value in tree.get("env_settings", {}).items()
            if (key != "stagger_episodes" if of_games else key == "num_areas")
        }
        tree["env_settings"] = {**kept, "env_path": name, "env_options": {}}
    elif not tree.get("env_settings", {}).get("env_path"):
        env_name(models, None)
    return tree


def _hide(blocks: Mapping[str, Any], wanted: StudentRequest, models: Models) -> None:
    """Removes observations from `critic_only` that an environment other than the teachers' does not have."""
    if wanted.env is None or not any("critic_only" in block["network_settings"] for block in blocks.values()):
        return
    options = PlayOptions(num_areas=1, env=wanted.env, flags=wanted.flags)
    with opened(models, wanted.env, options) as env:
        env.reset(options.seed)
        names = {name: [obs.name for obs in spec.obs] for name, spec in env.behaviors.items()}
    for name, block in blocks.items():
        patterns = block["network_settings"].pop("critic_only", ())
        if there := [one for one in patterns if named(one, names.get(name, ()))]:
            block["network_settings"]["critic_only"] = there


def _of_run(models: Models) -> dict[str, Any]:
    """Returns the environment of a run: its settings, and its parameters as they were in the lessons it has reached."""
    assert models.folder is not None
    text = (models.folder / CONFIGURATION).read_text("utf-8")
    whole: dict[str, Any] = yaml.safe_load(text)
    tree = {key: whole[key] for key in ("env_settings", "engine_settings", "environment_parameters") if whole.get(key)}
    # the lessons are over
    env = {key: value for key, value in tree.get("env_settings", {}).items() if key not in ("seed", "first_lesson")}
    parameters = {
        name: form["curriculum"][min(models.lessons.get(name, 0), len(form["curriculum"]) - 1)]["value"]
        if isinstance(form, dict) and "curriculum" in form
        else form
        for name, form in tree.get("environment_parameters", {}).items()
    }
    return tree | {"env_settings": env} | ({"environment_parameters": parameters} if parameters else {})


def _block(wanted: StudentRequest, policy: Policy, teacher: BehaviorSettings | None) -> dict[str, Any]:
    network: dict[str, Any] = {"normalize": True}
    if teacher is not None:
        network = {key: getattr(teacher.network_settings, key) for key in KEPT}
        network["normalize"] |= teacher.network_settings.body == RESIDUAL  # which normalizes what it gets
        if teacher.network_settings.critic_only:  # what the teacher did not see, a game need not have
            network["critic_only"] = list(teacher.network_settings.critic_only)
    network |= {"hidden_units": wanted.hidden_units, "num_layers": wanted.num_layers}
    images = [shape for shape in policy.obs_shapes if len(shape) == 3]
    if wanted.vis_encode_type is not None or images:
        small = any(min(shape[1:]) < SIMPLE_PIXELS for shape in images)
        network["vis_encode_type"] = wanted.vis_encode_type or ("match3" if small else "simple")
    size = wanted.memory_size
    if policy.memory_size if size is None else size:
        length = 64
        if teacher is not None and teacher.network_settings.memory is not None:
            length = teacher.network_settings.memory.sequence_length
        network["memory"] = {"memory_size": size or 2 * wanted.hidden_units, "sequence_length": length}
    return {
        "trainer_type": "bc",
        "hyperparameters": {"teacher": str(policy.path.absolute()), "teacher_plays": False, **LEARNING},
        "network_settings": network,
        "max_steps": wanted.max_steps,
        "summary_freq": max(1, wanted.max_steps // 10),
        **({} if teacher is None else {"time_horizon": teacher.time_horizon}),
    }
