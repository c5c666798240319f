"""Made `data/tags.json`, the TensorBoard tags of ML-Agents 1.1.0: `PALAESTRA_ORIGINAL=DIR python
tests/golden/make_tags.py`.

DIR is a virtual environment in which it is installed. Each kind of run is trained by it in a game in Python, and its
event files are read.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.append(str(Path(__file__).parents[1] / "unit"))
import sdk_games
from demo_files import episodes, write
from unity_play import free_port

from palaestra.runtime.logging.history import read_history, tags
from palaestra.sdk.__main__ import pack

FILE = Path(__file__).parent / "data" / "tags.json"
NETWORK = {"hidden_units": 8, "num_layers": 1}
SMALL = {"batch_size": 32, "buffer_size": 128}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ppo": ("hybrid", "ppo", SMALL | {"num_epoch": 1}),
    "sac": ("hybrid", "sac", {"batch_size": 16, "buffer_size": 500, "buffer_init_steps": 50, "steps_per_update": 40}),
    "poca": ("group", "poca", SMALL | {"num_epoch": 1}),
    "self-play": ("duel", "ppo", SMALL | {"num_epoch": 1}),
}
"""Game, trainer and hyperparameters of each kind. All but self-play learn from every reward signal and from a
demonstration.
"""


def settings(kind: str, folder: Path) -> dict[str, Any]:
    """Settings that both toolkits read, of a run that writes every tag of its kind in moments."""
    game, trainer, hyperparameters = KINDS[kind]
    (key, spec), *_ = sdk_games.GAMES[game].make_areas().behaviors.items()
    signals: dict[str, Any] = {"extrinsic": {"gamma": 0.9, "strength": 1.0}}
    block = {
        "trainer_type": trainer,
        "hyperparameters": hyperparameters,
        "network_settings": NETWORK,
        "reward_signals": signals,
        "max_steps": 600,
        "time_horizon": 16,
        "summary_freq": 200,
    }
    if kind == "self-play":
        block["self_play"] = {"save_steps": 100, "team_change": 400, "swap_steps": 100, "window": 3}
    else:
        demo = str(write(folder / "a.demo", episodes(20, 20, spec=spec), spec, key))
        learned = {"gamma": 0.9, "strength": 0.1, "network_settings": NETWORK}
        signals |= {"curiosity": learned, "rnd": learned, "gail": {**learned, "demo_path": demo, "use_vail": True}}
        block["behavioral_cloning"] = {"demo_path": demo, "steps": 10_000}
    name = key.partition("?")[0]
    lesson = {
        "name": "a",
        "completion_criteria": {"measure": "progress", "behavior": name, "threshold": 0.9},
        "value": 1.0,
    }
    return {
        "behaviors": {name: block},
        "environment_parameters": {"size": {"curriculum": [lesson, {"name": "b", "value": 2.0}]}},
    }


def original_tags(kind: str, original: str, folder: Path) -> list[str]:
    """The tags of scalars in the event files of a run by ML-Agents."""
    file = folder / "settings.yaml"
    game = pack(Path(sdk_games.__file__), folder / "Game.x86_64")
    file.write_text(yaml.safe_dump(settings(kind, folder)), encoding="utf-8")
    command = [f"{original}/bin/mlagents-learn", str(file), f"--env={game}", f"--results-dir={folder}", "--run-id=run"]
    command += [f"--base-port={free_port()}", "--env-args", "--kind", KINDS[kind][0]]
    subprocess.run(command, check=True, timeout=240, cwd=folder)
    return tags([read_history(folder / "run")])


def main() -> None:
    """Writes the file."""
    found = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            found[kind] = original_tags(kind, os.environ["PALAESTRA_ORIGINAL"], Path(folder))
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
