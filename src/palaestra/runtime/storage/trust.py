"""Asks for permission (--trust) before settings in another user's run folder run code, or connect to other machines.

A run signs its settings with a key of the user, which is never stored in a run's folder. A copied
folder keeps its signature, which cannot be forged without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from palaestra.core.errors import RunError
from palaestra.core.files import read_whole, write_whole
from palaestra.core.plugins import registry
from palaestra.envs.pettingzoo.opening import is_published
from palaestra.rewards.settings import REWARDS, RewardSettings
from palaestra.runtime.environments.make import EDITOR, is_game
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.settings.sourced_settings import Setting, dotted
from palaestra.runtime.settings.tree import blocks_of
from palaestra.runtime.settings.yaml_file import Key
from palaestra.runtime.storage.outward import calls, listens
from palaestra.runtime.storage.user_keys import user_key

CONFIGURATION = "configuration.yaml"
"""Name of the settings file in a run's folder."""
MARKS = (CONFIGURATION, "study.yaml", "run_logs")
"""Files and folders by which the folder of a run or of a search is recognized."""
SHOWN = 3
"""Number of settings that one message names."""

SIGNATURE = Path("run_logs", "signature")
"""Path of the signature in a run's folder."""
KEY = "signing.key"
MOST = 4
"""Signatures that a folder keeps, the newest first: those of earlier settings, and of the best trial of a search."""

Code = tuple[Key, str]
"""Path of a setting, and the code or program that it names."""


def sign(folder: Path, settings: RunSettings) -> None:
    """Marks a run's folder as the user's own. No effect if no key can be stored or the folder cannot be written to."""
    now = _signature(settings)
    if now is not None:
        with suppress(OSError):
            (folder / SIGNATURE).parent.mkdir(exist_ok=True)
            lines = [now, *(line for line in _lines(folder) if line != now)][:MOST]
            write_whole(folder / SIGNATURE, b"".join(line + b"\n" for line in lines))


def is_own(folder: Path, settings: RunSettings) -> bool:
    """Whether this user wrote the folder's settings on this machine, or trusted them before."""
    lines = _lines(folder)
    own = _signature(settings) if lines else None
    return own is not None and any(hmac.compare_digest(line, own) for line in lines)


def _lines(folder: Path) -> list[bytes]:
    try:
        return read_whole(folder / SIGNATURE, 1024).split()[:MOST]
    except OSError:
        return []


def _signature(settings: RunSettings) -> bytes | None:
    """Returns the signature of which code the settings run, and with which arguments; None without a key."""
    key = user_key(KEY)
    if key is None:
        return None
    choices = {path: each.choice for path, each in (settings.search.space if settings.search else {}).items()}
    signed = [learning_code(settings), settings.env_settings.env_options, user_trackers(settings), choices]
    text = json.dumps(signed, sort_keys=True, default=str)
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest().encode()


def must_be_trusted(folder: Path, settings: RunSettings, code: Sequence[Code], trust: bool) -> None:
    """Raises RunError unless `code` is empty, the user wrote the folder, or `trust` is given; the folder then stays
    trusted.

    `settings` are the settings in the folder's configuration.yaml, without changes by flags.
    """
    if not code or is_own(folder, settings):
        return
    if trust:
        sign(folder, settings)
        return
    more = f" and {len(code) - SHOWN} more" if len(code) > SHOWN else ""
    listed = ", ".join(f"{dotted(path)} = {value}" for path, value in code[:SHOWN]) + more
    is_env = all(path[0] == "env_settings" for path, _ in code)
    own_env = " name an environment of your own with --env, or" if is_env else ""
    raise RunError(
        f"the settings in {folder} would run code on this machine, or reach beyond it ({listed}), and you did not "
        f"write that folder on this machine. Read what they name first; then{own_env} add --trust (once: it is "
        "remembered)"
    )


def must_be_trusted_file(
    file: Path,
    given: Mapping[str, Any],
    sets: Sequence[Setting | str] = (),
    *,
    code_in: Callable[[RunSettings], Sequence[Code]],
    trust: bool,
) -> None:
    """Raises RunError as `must_be_trusted` does, if `file` is in a run's folder. Settings from flags (`given`, `sets`)
    are trusted.

    A settings file elsewhere is trusted, since the user chose it.
    """
    if not in_run_folder(file) or not file.is_file():
        return
    loaded = load(file, given, sets, own_code=False)
    typed = loaded.sourced.source if loaded.sourced is not None else None
    code = [(path, value) for path, value in code_in(loaded.settings) if typed is None or not typed(path).words]
    if code:
        must_be_trusted(file.parent, load(file, own_code=False).settings, code, trust)


def must_stay_inside(folder: Path, trust: bool) -> None:
    """Raises RunError, as `must_be_trusted` does, if links in another user's run or study folder lead out of it.

    Writing through such links would change files elsewhere, so call it before writing.
    """
    if links := list(outward_links(folder)):
        file = folder / CONFIGURATION
        settings = load(file, own_code=False).settings if file.is_file() else RunSettings()
        must_be_trusted(folder, settings, links, trust)


def outward_links(folder: Path) -> Iterator[Code]:
    """Yields the links below a folder that lead out of it, with their targets."""
    inside = folder.resolve()
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                yield path.relative_to(folder).parts, f"link to {os.path.realpath(path)}"


def overwrites(settings: RunSettings) -> list[Code]:
    """Returns the settings by which a training writes outside the current folder or into an existing run."""
    place = settings.checkpoint_settings
    results = Path(place.results_dir)
    outside = results.is_absolute() or ".." in results.parts
    found: list[Code] = [(("checkpoint_settings", "results_dir"), place.results_dir)] if outside else []
    if (results / place.run_id).exists():
        found += [
            (("checkpoint_settings", key), f"true, for the run '{place.run_id}'")
            for key in ("force", "resume")
            if getattr(place, key)
        ]
    return found


def in_run_folder(file: Path) -> bool:
    """Whether a settings file was written by a run or a search, judged by its name or its folder."""
    above = file.absolute().parents
    study = above[2:3] if len(above) > 1 and above[1].name == "trials" else ()
    return file.name.lower() == CONFIGURATION or any(
        (folder / mark).exists() for folder in (file.parent, *study) for mark in MARKS
    )


def env_code(settings: RunSettings, env: str | None = None) -> list[Code]:
    """Returns the code and programs that run when the run's environment is opened, and the address that it opens to
    others.

    `env`: an environment that the user named in place of the run's.
    """
    place = settings.env_settings
    name = env or place.env_path
    found: list[Code] = []
    if not env and place.env_path and runs_code(place.env_path):
        found.append((("env_settings", "env_path"), place.env_path))
    if name is None or is_game(name):
        found += [(("env_settings", "side_channels"), channel) for channel in place.side_channels or ()]
        if place.env_args and name not in (None, EDITOR):
            found.append((("env_settings", "env_args"), " ".join(place.env_args)))
        found += listens(settings)
    elif not env and name not in registry("envs"):
        named = {
            key: value for key, value in place.env_options.items() if set("/\\:") & set("".join(_texts({key: value})))
        }
        found += [(("env_settings", "env_options"), f"{key}: {value}") for key, value in named.items()]
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in (*value.keys(), *value.values()):
            yield from _texts(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from _texts(one)


def network_code(settings: RunSettings) -> list[Code]:
    """Returns the code that runs when a run's networks are made."""
    found: list[Code] = []
    for at, block in blocks_of(settings):
        found += [((*at, "trainer_type"), block.trainer_type)] if ":" in block.trainer_type else []
        found += [((*at, "reward_signals", name), name) for name in block.reward_signals if ":" in name]
        modules = {at: [block.network_settings.vis_encode_type, block.network_settings.body]}
        signals = block.reward_signals.items()
        modules |= {(*at, "reward_signals", name): signal_modules(name, signal) for name, signal in signals}
        for above, values in modules.items():
            for key, value in zip(("vis_encode_type", "body"), values, strict=True):
                found += [((*above, "network_settings", key), value)] if value and ":" in value else []
    return found


def agent_code(settings: RunSettings) -> list[Code]:
    """Returns the code that runs in training: networks, teachers, opponents, trackers; and the machines to which it
    connects."""
    found = [*network_code(settings), *calls(settings)]
    found += [(("trackers", name), name) for name in user_trackers(settings)]
    for at, block in blocks_of(settings):
        teacher = getattr(block.hyperparameters, "teacher", None)
        if isinstance(teacher, str) and is_user_brain(teacher):
            found.append(((*at, "hyperparameters", "teacher"), teacher))
        opponents = block.self_play.brains if block.self_play else ()
        found += [((*at, "self_play", "opponents"), opponent) for opponent in opponents if is_user_brain(opponent)]
    return found


def learning_code(settings: RunSettings) -> list[Code]:
    """Returns the code that runs when a run is resumed: the environment's code and the training's code."""
    return [*env_code(settings), *agent_code(settings)]


def runs_code(env: str) -> bool:
    """Whether opening an environment of this name runs a program, or code that is not installed as a plug-in."""
    kind, colon, rest = env.partition(":")
    if colon and kind == "gymnasium":
        return ":" in rest  # gymnasium:module:Id-v0 imports the module
    if colon and kind == "pettingzoo":
        return not is_published(rest)
    return (bool(colon) and kind == "python") or (env != EDITOR and is_game(env))


def is_user_brain(text: str) -> bool:
    """Whether a teacher or opponent of this name is user code rather than a model or an installed plug-in."""
    kind, colon, _ = text.partition(":")
    return bool(colon) and kind not in registry("brains")


def user_trackers(settings: RunSettings) -> dict[str, Any]:
    """Returns the options of each tracker that is given as `module:Class`, and therefore is user code."""
    return {name: options for name, options in settings.trackers.items() if ":" in name}


def signal_modules(name: str, signal: RewardSettings) -> list[str | None]:
    """Returns encoder and body of a reward signal's network; for a user's signal only those given as `module:Class`."""
    network = getattr(signal, "network_settings", None)  # a map where the signal's class was not imported
    found = [
        network.get(key) if isinstance(network, Mapping) else getattr(network, key, None)
        for key in ("vis_encode_type", "body")
    ]
    return found if name in REWARDS else [value if isinstance(value, str) and ":" in value else None for value in found]
