"""Demonstration files of a results folder, and settings of runs that learn from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import ConfigError, DemoError
from palaestra.core.files import file_name
from palaestra.core.plugins import registry
from palaestra.demos import read_demo
from palaestra.demos.summary import summarize
from palaestra.runtime.monitor.bounded_reading import ResultsFiles, signature
from palaestra.runtime.settings.examples import made_for

FOLDER = "demos"
"""Folder of demonstrations that were recorded on the page, in the results folder."""
METHODS = {"bc": "Behavioral cloning alone", "gail": "PPO with GAIL and cloning"}


@dataclass(frozen=True, slots=True)
class DemoFacts:
    """A demonstration file."""

    path: Path
    behavior: str
    episodes: int
    decisions: int
    mean: float | None
    """Mean reward of an episode."""
    problem: str = ""


def demo_path(results: Path, name: str) -> Path:
    """Returns a new file for a name that a person typed, always in the folder of demonstrations."""
    base = file_name(re.sub(r"\.demo$", "", name.strip()) or "demonstration").lstrip(".-") or "demonstration"
    folder = results / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base}.demo"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{base}-{number}.demo"
    return path


def demo_list(results: Path) -> list[DemoFacts]:
    """Returns the demonstrations of the folder and of runs, the newest first, without links that lead elsewhere."""
    inside = ResultsFiles(results)
    found = [*(results / FOLDER).glob("*.demo"), *results.glob("*/demonstrations/*.demo")]
    times = {path: sign[0] for path in found if inside.contains(path) and (sign := signature(path)) is not None}
    return [demo_facts(path) for path in sorted(times, key=lambda path: -times[path])]


def demo_facts(path: Path) -> DemoFacts:
    """Reads a file's facts; a file that cannot be read has its problem as text."""
    try:
        summary = summarize(read_demo(path))
    except (DemoError, OSError) as error:
        return DemoFacts(path, path.stem, 0, 0, None, str(error))
    mean = sum(summary.returns) / len(summary.returns) if summary.returns else None
    return DemoFacts(path, summary.demo.behavior, len(summary.returns), summary.pairs, mean)


def training_settings(facts: list[DemoFacts], env: str, method: str, max_steps: int) -> dict[str, Any]:
    """Returns settings that learn a behavior from files: cloning alone, or PPO with GAIL and a cloning loss at first.

    Raises ConfigError if the files are of several behaviors.
    """
    behaviors = sorted({one.behavior for one in facts})
    if len(behaviors) != 1:
        raise ConfigError(f"choose files of one behavior; these are of {', '.join(behaviors) or 'none'}")
    behavior = behavior_in(env, behaviors[0])
    demo: Any = str(facts[0].path.absolute()) if len(facts) == 1 else str(facts[0].path.parent.absolute())
    if len(facts) > 1 and {one.path for one in facts} != set(facts[0].path.parent.glob("*.demo")):
        raise ConfigError("choose one file, or all files of a folder: a run learns from a file or from a folder")
    network = {"normalize": True, "hidden_units": 256, "num_layers": 2}
    if method == "bc":
        own: dict[str, Any] = {
            "trainer_type": "bc",
            "hyperparameters": {
                "demo_path": demo,
                "batch_size": 128,
                "buffer_size": 2048,
                "learning_rate": 1e-3,
                "num_epoch": 5,
            },
            "network_settings": network,
            "max_steps": max_steps,
            "summary_freq": max(max_steps // 20, 1000),
        }
    else:
        example = made_for(env)
        tree = yaml.safe_load(example.read_text(encoding="utf-8")) if example is not None else {}
        own = dict((tree.get("behaviors") or {}).get(behavior) or {"trainer_type": "ppo", "network_settings": network})
        signals = dict(own.get("reward_signals") or {"extrinsic": {"gamma": 0.99, "strength": 1.0}})
        signals["gail"] = {"strength": 0.1, "gamma": 0.99, "demo_path": demo}
        own |= {
            "reward_signals": signals,
            "behavioral_cloning": {"demo_path": demo, "strength": 0.5, "steps": max_steps // 4},
        }
        own |= {"max_steps": max_steps, "summary_freq": max(max_steps // 20, 1000)}
    return {"env_settings": {"env_path": env}, "behaviors": {behavior: own}}


def behavior_in(env: str, recorded: str) -> str:
    """Returns the name of a built-in environment's only behavior, which may differ from the recorded name."""
    kind = registry("envs").get(env) if env in registry("envs").names() else None
    several = getattr(kind, "behavior_names", ()) or getattr(kind, "roles", ())
    return recorded if several else getattr(kind, "behavior", recorded)
