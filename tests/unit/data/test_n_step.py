"""N-step transitions against a loop over each slot's decisions, and the replay that keeps them."""

from collections.abc import Iterator

import pytest
import torch
from rollouts import answers, rollouts_of
from tiny_envs import Stream, plainly
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.data.n_step import NStep, NStepReplay, n_step
from palaestra.data.rollout import Rollout, RolloutNeeds

GAMMA = 0.9
SPEC = BehaviorSpec((ObsSpec("place", (2,)), ObsSpec("time", (1,))), ActionSpec(branches=(3, 2)))


def rollouts(seed: int, steady: bool, masked: bool, needs: RolloutNeeds) -> Iterator[Rollout]:
    """Three in a row of one stream: slots wait, end, are cut and stay empty. The next overwrites the last."""
    stream = Stream(seed, steady=steady, masked=masked)
    return rollouts_of(stream.next, [20] * 3, answers(seed), needs, steady=steady)


def slowly(rollout: Rollout, steps: int) -> list[tuple[list[float], float, float, list[float] | None]]:
    """Of each decision: what was seen, the sum, the discount, and what was seen `steps` later; None where nothing can
    be.
    """
    found = []
    for rows, last in plainly(rollout).values():
        for t, row in enumerate(rows):
            total = 0.0
            end = t
            for k in range(steps):
                end = t + k
                total += GAMMA**k * rows[end]["reward"]
                if rows[end]["terminated"] or rows[end]["truncated"] or end == len(rows) - 1:
                    break
            then = (
                rows[end]["final"] if rows[end]["truncated"] else rows[end + 1]["obs"] if end + 1 < len(rows) else last
            )
            dead = rows[end]["terminated"]
            found.append(
                (
                    [*row["obs"][0], *row["obs"][1]],
                    total,
                    0.0 if dead else GAMMA ** (end - t + 1),
                    None if dead else [*then[0], *then[1]],
                )
            )
    return found


@pytest.mark.parametrize("needs", [RolloutNeeds(), RolloutNeeds(terminal_obs=True)])
@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("steps", [1, 3, 50])
def test_every_decision_gets_the_rewards_and_the_view_that_a_loop_finds(steps: int, steady: bool, needs: RolloutNeeds):
    for rollout in rollouts(steps, steady, masked=False, needs=needs):
        found = n_step(rollout, rollout.reward, gamma=GAMMA, steps=steps)
        seen, then = (torch.cat(views, 1) for views in (found.obs, found.next_obs))
        mine = {tuple(seen[i].tolist()): i for i in range(len(seen))}
        expected = slowly(rollout, steps)
        assert len(mine) == len(expected) > 40
        for obs, total, discount, view in expected:
            i = mine[tuple(obs)]
            assert found.reward[i].item() == pytest.approx(total, rel=1e-5)
            assert found.discount[i].item() == pytest.approx(discount, rel=1e-5)
            assert view is None or then[i].tolist() == view


@pytest.mark.parametrize("steady", [True, False])
def test_the_mask_is_that_of_the_view_it_bootstraps_from(steady: bool):
    for rollout in rollouts(7, steady, masked=True, needs=RolloutNeeds()):
        assert rollout.action_mask is not None
        assert rollout.last_mask is not None
        views = {tuple(obs.tolist()): i for i, obs in enumerate(rollout.obs[0].flatten(0, 1))}
        lasts = {tuple(obs.tolist()): i for i, obs in enumerate(rollout.last_obs[0])}
        finals = {
            tuple(obs.tolist()): int(row) for obs, row in zip(rollout.final_obs[0], rollout.final_rows, strict=True)
        }
        masks = rollout.action_mask.flatten(0, 1)
        found = n_step(rollout, rollout.reward, gamma=GAMMA, steps=2)
        assert found.next_mask is not None
        for then, mask, discount in zip(found.next_obs[0], found.next_mask, found.discount, strict=True):
            view = tuple(then.tolist())
            if discount == 0:
                continue
            expected = (
                masks[finals[view]]
                if view in finals
                else rollout.last_mask[lasts[view]]
                if view in lasts
                else masks[views[view]]
            )
            assert torch.equal(mask, expected)


def numbered(first: int, count: int, mask: Tensor | None = None) -> NStep:
    """Transitions that can be told apart: every number of each is its own."""
    x = torch.arange(first, first + count)
    place = x.float().unsqueeze(1).expand(-1, 2)
    time = x.float().unsqueeze(1)
    return NStep((place, time), torch.stack([x % 3, x % 2], 1), x.float(), x / 1000, (place + 0.5, time + 0.5), mask)


def test_the_replay_serves_the_newest_rows_whole():
    replay = NStepReplay(SPEC, 50, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    first = 0
    for count in (7, 30, 1, 40, 120, 3):
        replay.add(numbered(first, count))
        first += count
        batch = replay.draw(500, generator)
        x = batch.reward.long()
        expected = numbered(0, first)
        assert set(x.tolist()) == set(range(max(0, first - 50), first))
        got = [*batch.obs, *batch.next_obs, batch.choices, batch.discount]
        wanted = [*expected.obs, *expected.next_obs, expected.choices, expected.discount]
        for mine, theirs in zip(got, wanted, strict=True):
            assert torch.equal(mine, theirs[x])
        assert batch.next_mask is not None
        assert batch.next_mask.all()


def test_a_replay_that_was_saved_goes_on():
    one = NStepReplay(SPEC, 50, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    one.add(numbered(0, 70, torch.rand(70, 5, generator=generator) < 0.5))
    other = NStepReplay(SPEC, 50, torch.device("cpu"))
    other.load_state_dict(one.state_dict())
    for replay in (one, other):
        replay.add(numbered(70, 5))
    mine, theirs = (replay.draw(200, torch.Generator().manual_seed(1)) for replay in (one, other))
    assert torch.equal(mine.reward, theirs.reward)
    assert mine.next_mask is not None
    assert theirs.next_mask is not None
    assert torch.equal(mine.next_mask, theirs.next_mask)


def test_a_replay_of_another_size_is_refused():
    one = NStepReplay(SPEC, 50, torch.device("cpu"))
    one.add(numbered(0, 70))
    with pytest.raises(ValueError, match="another size than 60: set buffer_size to the old value"):
        NStepReplay(SPEC, 60, torch.device("cpu")).load_state_dict(one.state_dict())
