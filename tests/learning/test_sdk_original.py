"""ML-Agents' own trainer trains games in Python of every kind, and has nothing to complain of.

PALAESTRA_ORIGINAL is the folder of the virtual environment in which it is installed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sdk_games
import yaml
from unity_play import free_port

from palaestra.sdk.__main__ import pack

PEER = os.environ.get("PALAESTRA_ORIGINAL")
STEPS = 3000
KINDS: dict[str, dict[str, Any]] = {
    "continuous": {},
    "discrete": {},
    "hybrid": {},
    "visual": {"network_settings": {"hidden_units": 16, "num_layers": 1, "vis_encode_type": "simple"}},
    "stacked": {},
    "variable": {},
    "goal": {"network_settings": {"hidden_units": 16, "num_layers": 1, "goal_conditioning_type": "hyper"}},
    "duel": {"self_play": {"save_steps": 500, "team_change": 1000, "swap_steps": 500, "window": 5}},
    "group": {"trainer_type": "poca"},
}


def settings(kind: str) -> dict[str, Any]:
    return {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 32, "buffer_size": 256, "learning_rate": 0.001, "num_epoch": 1},
        "network_settings": {"hidden_units": 16, "num_layers": 1},
        "reward_signals": {"extrinsic": {"gamma": 0.9, "strength": 1.0}},
        "max_steps": STEPS,
        "time_horizon": 32,
        "summary_freq": 1000,
    } | KINDS[kind]


def trained(folder: Path, kind: str, game: Path, *more: str) -> str:
    """What the original prints while it trains that kind of game."""
    file = folder / "settings.yaml"
    (name,) = {key.partition("?")[0] for key in sdk_games.GAMES[kind].make_areas().behaviors}
    file.write_text(yaml.safe_dump({"behaviors": {name: settings(kind)}}))
    command = [f"{PEER}/bin/mlagents-learn", str(file), f"--env={game}", f"--results-dir={folder}", "--run-id=run"]
    command += [f"--base-port={free_port()}", "--seed=3", *more]
    result = subprocess.run(
        [*command, "--env-args", "--kind", kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    logs = "".join(log.read_text() for log in folder.rglob("Player-*.log"))
    assert result.returncode == 0, result.stdout + result.stderr + logs
    assert "Traceback" not in logs
    assert "error:" not in logs.replace("http2_error:", "")  # the trainer's way to close its connection
    return result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    PEER is None or sys.platform != "linux", reason="PALAESTRA_ORIGINAL does not say where ML-Agents is installed"
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_original_trains_a_game_of_every_kind(tmp_path: Path, kind: str):
    printed = trained(tmp_path, kind, pack(Path(sdk_games.__file__), tmp_path / "Game.x86_64"))
    assert f"Connected new brain: {next(iter(sdk_games.GAMES[kind].make_areas().observation_queue.queues))}" in printed
    assert re.search(r"Step: \d+\. Time Elapsed: [\d.]+ s\. Mean Reward", printed), printed
    assert not [line for line in printed.splitlines() if "WARNING" in line or "Traceback" in line], printed


@pytest.mark.slow
@pytest.mark.skipif(
    PEER is None or sys.platform != "linux", reason="PALAESTRA_ORIGINAL does not say where ML-Agents is installed"
)
def test_the_original_trains_several_areas_in_several_copies(tmp_path: Path):
    printed = trained(
        tmp_path, "hybrid", pack(Path(sdk_games.__file__), tmp_path / "Game.x86_64"), "--num-envs=2", "--num-areas=3"
    )
    assert re.search(r"Step: \d+\. Time Elapsed: [\d.]+ s\. Mean Reward", printed), printed
    assert "3 areas, seed 4" in (tmp_path / "run" / "run_logs" / "Player-1.log").read_text()
