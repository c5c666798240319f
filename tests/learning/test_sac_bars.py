"""Soft actor-critic reaches its bars with the settings that are shipped, judged by 100 episodes that the exported model
plays.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from sign_env import Signs
from test_bars import SEEDS, mean_reward

import palaestra
from palaestra.core.timestep import Action
from palaestra.runtime.play.demo_recording import DemoRecorder

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs" / "sac"
GAMES = ROOT / "benchmarks" / "games"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("config", "env", "bar"),
    [
        ("3DBall.yaml", "builtin:3DBall", 99.0),
        ("PushBlock.yaml", "builtin:PushBlock", 4.5),
        ("Pendulum-v1.yaml", "gymnasium:Pendulum-v1", -170.0),
    ],
)
def test_sac_reaches_the_bar(config: str, env: str, bar: float, seed: int, tmp_path: Path):
    result = palaestra.train(CONFIGS / config, env=env, seed=seed, results_dir=str(tmp_path), quiet=True)
    (model,) = result.models.values()
    reward = mean_reward(env, palaestra.load_policy(model, seed=0))
    print(f"{config} seed {seed}: {reward:.3f} (bar {bar})")
    assert reward >= bar


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_sac_of_2026_flies_a_drone_after_few_decisions(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Classic SAC, with two layers of 256, earns 2.7 to 4 after as many; three seeds of this earned 8.9 in training."""
    monkeypatch.syspath_prepend(str(GAMES))
    env = "python:drone:drone"
    result = palaestra.train(
        GAMES / "drone.yaml", env=env, seed=seed, results_dir=str(tmp_path), quiet=True, max_steps=100_000
    )
    (model,) = result.models.values()
    reward = mean_reward(env, palaestra.load_policy(model, seed=0))
    print(f"drone seed {seed}: {reward:.3f} (bar 7)")
    assert reward >= 7


SIX = range(1, 7)
HYPER = {
    "batch_size": 16,
    "buffer_init_steps": 100,
    "buffer_size": 5000,
    "init_entcoef": 0.01,
    "learning_rate": 3e-4,
    "tau": 0.01,
}
FAST = {**HYPER, "batch_size": 8, "learning_rate": 5e-3}
RECURRENT = {**HYPER, "batch_size": 256, "learning_rate": 1e-3, "buffer_init_steps": 1000, "steps_per_update": 2}
DISCRETE = {"continuous": 0, "branches": 1}
MEMORY = {"memory": {"memory_size": 16, "sequence_length": 16}}


def last_returns(env: Signs, block: dict[str, Any], seed: int, results: Path) -> float:
    """Mean return of the last five episodes of a training of one agent."""
    returns = list[float]()
    total = [0.0]
    step = env.step

    def watched(actions: Any) -> Any:
        steps = step(actions)
        total[0] += float(steps["Signs"].reward)
        if steps["Signs"].terminated:
            returns.append(total[0])
            total[0] = 0.0
        return steps

    env.step = watched  # type: ignore[method-assign]
    block = {"trainer_type": "sac", "summary_freq": 100, **block}
    block["network_settings"] = {"hidden_units": 16, "num_layers": 1, **block.get("network_settings", {})}
    palaestra.train({"behaviors": {"Signs": block}}, env=env, seed=seed, results_dir=str(results), quiet=True)
    return sum(returns[-5:]) / 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", SIX)
@pytest.mark.parametrize("actions", [{}, DISCRETE], ids=("continuous", "discrete"))
@pytest.mark.parametrize(
    "seen", [("entities",), ("entities", "entities"), ("image",)], ids=("one kind", "two kinds", "image")
)
def test_sac_learns_the_sign_of_what_encoders_see(
    seen: tuple[str, ...], actions: dict[str, int], seed: int, tmp_path: Path
):
    assert last_returns(Signs(*seen, **actions), {"hyperparameters": HYPER, "max_steps": 1000}, seed, tmp_path) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", SIX)
def test_sac_learns_a_sign_with_numbers_and_branches(seed: int, tmp_path: Path):
    assert (
        last_returns(
            Signs(continuous=1, branches=1, step=0.8), {"hyperparameters": FAST, "max_steps": 2500}, seed, tmp_path
        )
        > 0.9
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", SIX)
@pytest.mark.parametrize("actions", [{"step": 0.5}, DISCRETE], ids=("continuous", "discrete"))
def test_sac_with_memory_learns_a_sign_that_was_seen_before(actions: dict[str, Any], seed: int, tmp_path: Path):
    block = {"hyperparameters": RECURRENT, "network_settings": MEMORY, "max_steps": 3000}
    assert last_returns(Signs(**actions, shown=2), block, seed, tmp_path) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", SIX)
@pytest.mark.parametrize("strength", [1.0, 0.5])
@pytest.mark.parametrize("actions", [{}, DISCRETE], ids=("continuous", "discrete"))
@pytest.mark.parametrize("seen", ["vector", "image"])
def test_sac_clones_what_gail_rewards(seen: str, actions: dict[str, int], strength: float, seed: int, tmp_path: Path):
    teacher = Signs(seen, **actions)
    recorder = DemoRecorder(teacher, tmp_path / "Signs.demo", 17)
    steps = teacher.reset(5)
    recorder.note(steps)
    while not recorder.done:
        sign = teacher.right()
        number, choice = (
            torch.full((1, size), sign) for size in (teacher.spec.action.continuous, len(teacher.spec.action.branches))
        )
        shown = {"Signs": Action(number, (choice > 0).long())}
        recorder.decided(shown)
        steps = teacher.step(shown)
        recorder.note(steps)
    demo = str(recorder.close()[0])
    block = {
        "hyperparameters": FAST if seen == "vector" else HYPER,
        "reward_signals": {"gail": {"demo_path": demo, "network_settings": {"hidden_units": 32}}},
        "behavioral_cloning": {"demo_path": demo, "steps": 1000, "strength": strength},
        "max_steps": 500,
    }
    assert last_returns(Signs(seen, **actions), block, seed, tmp_path) > 0.85
