"""How many decisions of a minibatch are prior data, and of which recordings."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from demo_files import HYBRID, episodes, write

from palaestra.core.errors import DemoError
from palaestra.data.n_step import ONE_STEP
from palaestra.data.replay import Replay
from palaestra.rewards.prior_data import PriorData
from palaestra.rewards.settings import PriorDataSettings

CPU = torch.device("cpu")


def prior_of(tmp_path: Path, share: float, run: int = 0) -> tuple[PriorData, Replay]:
    """Of nine recorded decisions, and a replay whose decisions earn -1; `run`: as often a replay that earns 5."""
    demo = write(tmp_path / "a.demo", episodes(9), HYBRID)
    made = PriorData(PriorDataSettings(demo_path=str(demo), share=share), HYBRID, CPU, memory=0, stretch=0)
    state = made._replays[0].state_dict()
    decisions = state["decisions"]
    for _ in range(run):
        made.take([{**state, "decisions": {**decisions, "reward": torch.full((9,), 5.0)}}], "run")
    own = Replay(HYBRID, 9, CPU)
    assert own.load_state_dict({**state, "decisions": {**decisions, "reward": torch.full((9,), -1.0)}})
    return made, own


@pytest.mark.parametrize(
    ("share", "count", "prior"),
    [(0.5, 4, 2), (0.5, 3, 2), (0.25, 10, 2), (0.01, 64, 1), (0.99, 64, 63), (0.999, 3, 2), (0.01, 256, 3)],
)
def test_a_share_is_rounded_and_at_least_one_decision_is_of_each(tmp_path: Path, share: float, count: int, prior: int):
    data, own = prior_of(tmp_path, share)
    batch = data.mixed(own, count, torch.Generator().manual_seed(0), ONE_STEP)
    assert len(batch.reward) == count
    assert (batch.reward == -1).tolist() == [True] * (count - prior) + [False] * prior
    assert len(batch.obs[0][batch.now]) == len(batch.obs[0][batch.after]) == count
    # the number that is seen says which decision it is, and what it led to is one further
    assert torch.equal(batch.obs[0][batch.after], batch.obs[0][batch.now] + 1)


def test_every_prior_decision_is_drawn_as_often_whatever_it_is_from(tmp_path: Path):
    data, own = prior_of(tmp_path, 0.75, run=2)
    batch = data.mixed(own, 4000, torch.Generator().manual_seed(0), ONE_STEP)
    assert (batch.reward == 5).float().mean().item() == pytest.approx(0.75 * 2 / 3, abs=0.03)
    assert (batch.reward == -1).sum() == 1000


@pytest.mark.parametrize("mask", [False, True])
def test_a_choice_that_a_branch_does_not_have_is_named(tmp_path: Path, mask: bool):
    wrong = [replace(record, discrete=np.array([0, 2])) for record in episodes(3, mask=mask)]
    demo = write(tmp_path / "a.demo", wrong, HYBRID)
    with pytest.raises(DemoError, match=r"a\.demo, episode 0: branch 1 of an action is 2; expected 0 to 1"):
        PriorData(PriorDataSettings(demo_path=str(demo)), HYBRID, CPU, memory=0, stretch=0)
