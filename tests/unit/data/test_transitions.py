import pytest
import torch
from rollouts import experience
from tiny_envs import plainly

from palaestra.data.rollout import RolloutNeeds
from palaestra.data.transitions import TransitionTable

ENDS = RolloutNeeds(terminal_obs=True)


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_each_decision_comes_with_what_was_seen_next_and_at_an_end_with_the_last_view(steady: bool, seed: int):
    rollout = experience(seed, steady, 25, ENDS)
    assert rollout.terminated.any()
    table = TransitionTable(rollout, rollout.sample, rollout.reward)
    everything = table.take(torch.arange(len(table)))
    finals = dict(zip(rollout.final_rows.tolist(), rollout.final_obs[0].tolist(), strict=True))
    slots = rollout.shape[1]
    expected = {}
    for slot, (rows, last) in plainly(rollout).items():
        for t, row in enumerate(rows):
            after = rows[t + 1]["obs"][0] if t + 1 < len(rows) else last[0]
            ended = row["terminated"] or row["truncated"]
            expected[t * slots + slot] = (
                row["obs"][0],
                finals[t * slots + slot] if ended else after,
                row["reward"],
                ended,
            )
    assert table.rows.tolist() == sorted(expected)
    for i, place in enumerate(sorted(expected)):
        obs, after, reward, ended = expected[place]
        assert everything.obs[0][i].tolist() == obs
        assert everything.next_obs[0][i].tolist() == after
        assert everything.reward[i].item() == reward
        assert bool(everything.ended[i]) == ended


def test_parts_are_all_rows_in_order():
    rollout = experience(1)
    table = TransitionTable(rollout, rollout.sample, rollout.reward)
    parts = list(table.parts(7))
    assert sum(len(part) for part in parts) == len(table)
    assert torch.equal(torch.cat([part.reward for part in parts]), table.take(torch.arange(len(table))).reward)


def test_last_views_of_terminated_episodes_are_kept_only_where_asked_for():
    kept = experience(3, needs=ENDS)
    plain = experience(3)
    assert len(kept.final_rows) > len(plain.final_rows)
    assert plain.truncated.flatten()[plain.final_rows].all()
