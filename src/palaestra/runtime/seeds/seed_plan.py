"""The plan of seeds: which seeds are trained, in which runs, and from which state each run starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from palaestra.core.errors import ConfigError
from palaestra.parallel import ranks
from palaestra.runtime.run.run_settings import env_flags_must_fit
from palaestra.runtime.settings import load
from palaestra.runtime.settings.sourced_settings import Setting
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder, check_run_id

MOST_SEEDS = 1000
LARGEST = 2**31 - 1
EXPECTED = "expected a number of seeds, such as 5, seeds, such as 3,7,9, or a range, such as 11-15"
Config = Path | str | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SeedRun:
    """The run of one seed."""

    seed: int
    folder: RunFolder
    resume: bool
    """Whether the run exists already and is continued."""
    config: Config
    """Settings to start with; None if a run is resumed without a settings file: its own settings."""

    def sets(self) -> list[str]:
        """Returns the arguments of `--set` for this run."""
        name = json.dumps(self.folder.run_id)
        resume = json.dumps(self.resume)
        return [
            f"checkpoint_settings.run_id={name}",
            f"checkpoint_settings.resume={resume}",
            f"env_settings.seed={self.seed}",
        ]


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """The runs of all seeds, and how many are trained at once."""

    name: str
    """Run id without the seeds."""
    runs: tuple[SeedRun, ...]
    at_once: int
    named_env: bool
    """Whether the settings name the environment, so that a separate command can open it."""

    @property
    def pattern(self) -> str:
        """The pattern for other commands that matches all these runs."""
        return f"{self.name}-seed-*"


def parse_seeds(given: int | str | Sequence[int]) -> list[int]:
    """Returns the seeds: 1 to N for a number, else the seeds of a list, or of a text such as `3,7,9` or `11-15`."""
    if isinstance(given, Integral):
        given = int(given)
        if not 1 <= given <= MOST_SEEDS:
            raise ConfigError(f"--seeds is {given}; expected 1 to {MOST_SEEDS} seeds")
        return list(range(1, given + 1))
    if not isinstance(given, str):
        seeds = [*given] if isinstance(given, Iterable) else []
        seeds = [int(seed) if isinstance(seed, Integral) else seed for seed in seeds]
    elif given.strip().isdecimal() and len(given) < 10:
        return parse_seeds(int(given))
    else:
        seeds = [seed for part in given.split(",") if part.strip() for seed in _range(part.strip(), given)]
    if (
        not seeds
        or len(seeds) > MOST_SEEDS
        or any(not isinstance(seed, int) or not 0 <= seed <= LARGEST for seed in seeds)
    ):
        raise ConfigError(f"--seeds is '{given}'; {EXPECTED}")
    if repeated := [seed for seed in dict.fromkeys(seeds) if seeds.count(seed) > 1]:
        raise ConfigError(f"--seeds names {repeated[0]} twice; each seed has a run of its own")
    return seeds


def _range(part: str, given: str) -> list[int]:
    match = re.fullmatch(r"(\d{1,10})(?:\s*-\s*(\d{1,10}))?", part)
    if match is None:
        raise ConfigError(f"--seeds is '{given}'; {EXPECTED}")
    first = int(match[1])
    last = int(match[2] or match[1])
    if last < first or last - first >= MOST_SEEDS:
        raise ConfigError(f"--seeds has the range {part}; expected it to rise, and to have at most {MOST_SEEDS} seeds")
    return list(range(first, last + 1))


def plan_seeds(
    seeds: Sequence[int],
    config: Config,
    overrides: Mapping[str, Any],
    sets: Sequence[Setting | str],
    *,
    side_by_side: int = 1,
    own_env: bool = False,
) -> SeedPlan:
    """Returns the runs of the seeds: ID-seed-1 and so on. With `resume`, existing runs continue and the others start.

    Settings are loaded once, so that mistakes are found before the first run. `own_env`: the environment comes from a
    program. Raises ConfigError or RunError.
    """
    if ranks.asked():
        raise ConfigError("--seeds starts processes of its own: leave out torchrun")
    if side_by_side < 1:
        raise ConfigError(f"--side-by-side is {side_by_side}; expected at least 1")
    given = overrides.get("checkpoint_settings", {})
    if overrides.get("env_settings", {}).get("seed") is not None:
        raise ConfigError("--seed is of one run; --seeds names several, such as --seeds 3,7,9")
    if given.get("inference"):
        raise ConfigError("--inference plays one run; leave out --seeds, and name it with --run-id=ID-seed-1")
    sibling = None
    if config is None and given.get("resume"):
        config = sibling = _sibling(Path(given.get("results_dir", "results")), given.get("run_id", "ppo"), seeds)
    loaded = load(Path(config) if isinstance(config, str) else config, overrides, sets, own_code=False)
    settings = loaded.settings
    if not own_env:
        env_flags_must_fit(loaded, overrides)
    chosen = settings.checkpoint_settings
    name = given.get("run_id", "ppo") if sibling else chosen.run_id
    results = Path(given.get("results_dir", "results") if sibling else chosen.results_dir)
    check_run_id(name)
    at_once = min(side_by_side, len(seeds))
    if at_once > 1 and settings.env_settings.env_path is None and not own_env:
        raise ConfigError(
            "--side-by-side: runs at once cannot share the Unity Editor; name an environment with --env, or leave it "
            "out"
        )
    runs = []
    for seed in seeds:
        folder = RunFolder(results, f"{name}-seed-{seed}")
        if not chosen.resume and not given.get("resume"):
            folder.must_be_free(chosen.force)
        resume = bool((chosen.resume or given.get("resume")) and folder.exists)
        runs.append(SeedRun(seed, folder, resume, None if resume and sibling is not None else config))
    return SeedPlan(name, tuple(runs), at_once, settings.env_settings.env_path is not None and not own_env)


def _sibling(results: Path, name: str, seeds: Sequence[int]) -> Path:
    """Returns the settings file of the first existing run, for the other runs. Raises RunError if none does."""
    folders = [RunFolder(results, f"{name}-seed-{seed}") for seed in seeds]
    found = next((folder for folder in folders if folder.exists), None)
    if found is None:
        folders[0].must_exist("resume")
        raise AssertionError("a folder that does not exist must exist")
    return found.path / CONFIGURATION
