import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("nicegui")

from palaestra.core.timestep import Action
from palaestra.runtime.playback.playing import Playback
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.watch.agents_table import action_text, agent_rows


def test_a_row_of_each_agent_has_its_team_ticks_rewards_and_last_action(tmp_path: Path):
    playback = Playback(PlaybackSource(tmp_path, env="Tennis", areas=2).open, paused=True)
    end = time.monotonic() + 30
    while playback.state.opening:
        assert time.monotonic() < end
        time.sleep(0.01)
    game = playback.game
    assert game is not None
    before = agent_rows(game)
    playback.advance()
    while playback.state.ticks < 1:
        assert time.monotonic() < end
        time.sleep(0.01)
    rows = agent_rows(game)
    playback.close(10.0)
    assert [row["agent"] for row in rows] == [f"Tennis, agent {slot}" for slot in range(4)]
    assert sorted(row["team"] for row in rows) == [0, 0, 1, 1]
    assert [row["action"] for row in before] == [""] * 4
    assert [row["ticks"] for row in before] == [0] * 4
    assert [row["ticks"] for row in rows] == [1] * 4
    assert [row["action"] for row in rows] == [action_text(game.actions["Tennis"], slot) for slot in range(4)]
    assert [row["last"] for row in rows] == [f"{float(reward):.3f}" for reward in game.steps["Tennis"].reward]


def test_an_action_is_told_in_a_few_numbers():
    hybrid = Action(torch.tensor([[0.25, -1.0]]), torch.tensor([[3]]))
    assert action_text(hybrid, 0) == "+0.25  -1.00  3"
    assert action_text(hybrid, 1) == ""  # an agent that came since has taken none
    assert (
        action_text(Action(torch.zeros(1, 8), torch.zeros(1, 0, dtype=torch.int64)), 0)
        == "  ".join(["+0.00"] * 6) + " ..."
    )
