"""Self-play teaches: with the settings that are shipped, the last snapshot beats the first, and ratings agree with who
beats whom.

A league of twelve snapshots of each run, a hundred games of every pair on each side.
"""

from pathlib import Path

import pytest

import palaestra
from palaestra.runtime.self_play.league_run import run_league

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", ["ppo/Tennis.yaml", "ppo/RingOut.yaml", "poca/SoccerTwos.yaml", "poca/StrikersVsGoalie.yaml"]
)
def test_the_last_snapshot_beats_the_first(config: str, tmp_path: Path):
    env = Path(config).stem
    result = palaestra.train(
        CONFIGS / config, env=f"builtin:{env}", seed=1, run_id=env, results_dir=str(tmp_path), quiet=True
    )
    league = run_league(result.folder, palaestra.make(f"builtin:{env}", areas=256), most=12, games=100)
    names = list(dict.fromkeys(entry.behavior for entry in league.entries))
    for name in names:
        mine = [i for i, entry in enumerate(league.entries) if entry.behavior == name]
        theirs = mine if len(names) == 1 else [i for i in range(len(league.entries)) if i not in mine]
        beats = league.decided[mine[-1], theirs[0]]
        agrees = league.agreement(name)
        print(f"{name}: the last wins {beats:.3f} of decided games against the first, rank correlation {agrees:.2f}")
        assert beats >= 0.9
        assert agrees >= 0.9
