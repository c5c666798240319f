"""Two processes that train one run reach the bars of one, with the settings that are shipped."""

import subprocess
import sys
from pathlib import Path

import pytest

import palaestra
from palaestra.runtime.play.evaluation import evaluate

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EPISODES, GROUPS = 100, 1000  # a group has three episodes, one of each agent


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "bar"),
    [
        ("ppo/3DBall.yaml", 99.0),
        ("ppo/Hallway.yaml", 0.7),
        ("sac/PushBlock.yaml", 4.5),
        ("poca/DungeonEscape.yaml", 0.95),
    ],
)
def test_two_ranks_reach_the_bar(config: str, bar: float, tmp_path: Path):
    env = Path(config).stem
    given = [
        str(CONFIGS / config),
        f"--env={env}",
        "--seed=1",
        "--processes=2",
        "--run-id=two",
        f"--results-dir={tmp_path}",
    ]
    subprocess.run([sys.executable, "-m", "palaestra", "learn", *given], check=True, stdin=subprocess.DEVNULL)
    game = palaestra.make(f"builtin:{env}", areas=100)
    episodes = 3 * GROUPS if env == "DungeonEscape" else EPISODES
    found = evaluate(game, {env: palaestra.load_policy(tmp_path / "two" / f"{env}.onnx", seed=0)}, episodes)[env]
    reward = float(found.group_returns.mean()) if len(found.group_returns) else found.mean
    print(f"{config} in two processes: {reward:.3f} (bar {bar})")
    assert reward >= bar
