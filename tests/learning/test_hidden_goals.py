"""A critic that is told what its agent must find: fewer decisions to the same reward."""

import json
from pathlib import Path

import pytest

import palaestra

GAMES = Path(__file__).resolve().parents[2] / "benchmarks" / "games"
BAR = 0.5
MOST = 220_000


def decisions_to_bar(told: bool, seed: int, results: Path) -> int:
    """The step from which two periods of 10,000 decisions earn the bar on average; MOST if none do."""
    run = f"fog-{'told' if told else 'plain'}-{seed}"
    settings = {"behaviors.Fog.network_settings.critic_only": ["truth"]} if told else {}
    palaestra.train(
        GAMES / "fog.yaml",
        env="python:fog:fog",
        seed=seed,
        run_id=run,
        results_dir=str(results),
        quiet=True,
        max_steps=MOST,
        env_options={"state": told},
        settings=settings,
        callbacks=[palaestra.stop_at_reward(0.65)],
    )
    lines = [json.loads(line) for line in (results / run / "metrics.jsonl").read_text().splitlines()]
    tag = "Environment/Cumulative Reward"
    rewards = [(line["step"], line[tag]) for line in lines if line.get("behavior") == "Fog" and tag in line]
    pairs = zip(rewards[1:], rewards, strict=False)
    return next((step for (step, reward), (_, before) in pairs if (reward + before) / 2 >= BAR), MOST)


@pytest.mark.slow
def test_a_boat_finds_its_buoy_after_six_tenths_of_the_decisions_if_the_critic_knows_where_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(str(GAMES))
    seeds = (1, 2, 3, 4, 5)
    told, plain = ([decisions_to_bar(knows, seed, tmp_path) for seed in seeds] for knows in (True, False))
    print(f"told: {told}, plain: {plain}")
    assert sum(told) <= 0.6 * sum(plain)
