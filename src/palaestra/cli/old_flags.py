"""Flags of old versions of mlagents-learn: each works as before, or causes an error with the command that replaces
it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import registry

BASE_PORT = 5005
"""Port to which old versions added --worker-id."""
NO_FOLDER = ("None", "Empty")
"""Values of --docker-target-name in old scripts that mean no folder: its defaults."""
BUILDS = (".x86_64", ".x86", ".exe", ".app")
"""Endings of the names of Unity builds."""

IN_EVERY_BEHAVIOR = {"keep_checkpoints": "keep_checkpoints", "save_freq": "checkpoint_interval"}
"""Setting in every behavior's block that an old flag changes, by the flag's `dest`."""
WITHOUT_EFFECT = {
    "--torch": "PyTorch is the only framework",
    "--tensorflow": "PyTorch is the only framework",
    "--fast": "games run at 20 times their speed unless --time-scale says otherwise",
}


def add_old_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags, which --help does not list."""

    def flag(name: str, **options: object) -> None:
        parser.add_argument(name, help=argparse.SUPPRESS, **options)  # type: ignore[arg-type]

    for name in WITHOUT_EFFECT:
        flag(name, action="append_const", dest="removed", const=name)
    flag("--load", action="store_true", dest="load_model", default=None)
    flag("--train", action="store_true", dest="train_model", default=None)
    flag("--slow", action="store_true")
    flag("--cpu", action="store_true")
    flag("--run-path", dest="run_id", default=argparse.SUPPRESS)
    flag("--lesson", dest="first_lesson", type=int, default=argparse.SUPPRESS)
    flag("--worker-id", type=int)
    flag("--num-runs", type=int)
    for key in IN_EVERY_BEHAVIOR:
        flag(f"--{key.replace('_', '-')}")
    for name in ("--curriculum", "--sampler", "--docker-target-name"):
        flag(name)


def settle(options: argparse.Namespace) -> list[str]:
    """Gives the current flags the values of the old ones, and returns a line for each old flag that should be replaced.

    Raises ConfigError for an old flag that a command has replaced; the message is the command to type instead.
    """
    _refuse(options)
    notes = [f"{flag} has no effect: {why}" for flag, why in WITHOUT_EFFECT.items() if flag in (options.removed or ())]
    if options.slow and options.time_scale is None:
        options.time_scale = 1.0
        notes.append("--slow is --time-scale=1 now")
    if options.cpu and options.device is None:
        options.device = "cpu"
        notes.append("--cpu is --torch-device=cpu now")
    if options.worker_id is not None:
        options.base_port = (options.base_port or BASE_PORT) + options.worker_id
        notes.append(
            f"--worker-id={options.worker_id} is --base-port={options.base_port} now; without both, free ports are "
            "found"
        )
    for key, setting in IN_EVERY_BEHAVIOR.items():
        if (value := getattr(options, key)) is not None:
            notes.append(f"--{key.replace('_', '-')}={value} is --set {setting}={value} now")
    return notes


def _refuse(options: argparse.Namespace) -> None:
    if options.config is not None and options.env_path is None and _is_environment(options.config):
        name = shlex.quote(str(options.config))
        raise ConfigError(
            f"{options.config} is an environment, where a settings file is expected: `palaestra learn --env={name}`"
        )
    files = {name: value for name in ("curriculum", "sampler") if (value := getattr(options, name)) is not None}
    if files:
        old = "TRAINER_FILE" if options.config is None else str(options.config)
        new = "NEW_FILE" if options.config is None else f"{old.removesuffix(Path(old).suffix)}.new.yaml"
        given = " ".join(f"--{name} {shlex.quote(value)}" for name, value in files.items())
        raise ConfigError(
            f"--{next(iter(files))}: curricula and samplers are part of the settings file now; put them there with "
            f"`palaestra upgrade {_shown(old)} {_shown(new)} {given}`, and train with `palaestra learn {_shown(new)}`"
        )
    folder = options.docker_target_name
    if folder is not None and folder not in NO_FOLDER:
        config = "" if options.config is None else f" {_shown(f'/{folder}/{options.config}')}"
        env = "" if options.env_path is None else f" --env={_shown(f'/{folder}/{options.env_path}')}"
        raise ConfigError(
            f"--docker-target-name: paths are used as they are given now; a folder that is mounted there is used with "
            f"`palaestra learn{config}{env} --results-dir={_shown(f'/{folder}/results')}`"
        )
    if options.num_runs is not None and options.num_runs != 1:
        run_id = _shown(options.run_id or "ppo")
        raise ConfigError(
            f"--num-runs: several runs of one setting differ by their seeds now: `--run-id={run_id} "
            f"--seeds={options.num_runs}` trains {run_id}-seed-1 to {run_id}-seed-{options.num_runs}; "
            "--side-by-side=2 trains two at once"
        )


def _is_environment(given: Path) -> bool:
    """Whether the first argument is an environment rather than a settings file, as in ML-Agents before 0.4."""
    if given.is_file():
        return given.suffix in BUILDS
    return (
        (given.suffix in BUILDS and given.is_dir())
        or any(given.with_name(given.name + end).exists() for end in BUILDS)
        or str(given) in registry("envs")
    )


def _shown(word: str) -> str:
    return word if word in ("TRAINER_FILE", "NEW_FILE") else shlex.quote(word)
