import copy
import dataclasses
from pathlib import Path

import pytest
import torch
from demo_files import episodes, write
from rollouts import experience
from tiny_envs import decide, spec_of, table
from torch import Tensor
from torch.testing import assert_close

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import TimeStep
from palaestra.data.rollout import Rollout
from palaestra.data.slotted_buffer import SlottedBuffer
from palaestra.data.steady_buffer import SteadyBuffer
from palaestra.rewards.prior_data import PriorData
from palaestra.rewards.reward_scaling import EpisodeSums, ReturnScale
from palaestra.rewards.settings import ExtrinsicSettings, PriorDataSettings
from palaestra.rewards.signals import RewardSignals

REWARD = torch.tensor([[1.0, 4.0], [2.0, 0.0]])
ENDED = torch.tensor([[False, True], [False, False]])


def slotted_rollout(seed: int, ticks: int = 20) -> Rollout:
    """One whose episodes count as those of any rollout before."""
    return dataclasses.replace(experience(seed, ticks=ticks), anew=None)


def test_rewards_are_divided_by_the_standard_deviation_of_discounted_returns():
    scale = ReturnScale(gamma=0.5)
    # returns so far: 1 and 2 + ½ * 1 = 2.5 in one slot; 4, which ends, and 0 in the other
    deviation = torch.tensor([1.0, 2.5, 4.0, 0.0]).std(correction=0)
    assert_close(scale(REWARD, ENDED), REWARD / deviation)


@pytest.mark.parametrize(("strength", "largest"), [(1.0, 5.0), (4.0, 5.0), (0.5, 2.5)])
def test_the_largest_return_fits_below_the_limit_with_its_strength(strength: float, largest: float):
    settings = {"extrinsic": ExtrinsicSettings(strength=strength, normalize=True)}
    signals = RewardSignals(spec_of((1,), continuous=1), settings, torch.device("cpu"), 0, limit=5.0)
    reward = torch.zeros(1000, 1)
    reward[0] = 100.0
    assert_close(
        signals.scales["extrinsic"](reward, torch.ones(1000, 1, dtype=torch.bool)).max() * strength,
        torch.tensor(largest),
    )


def test_the_largest_return_so_far_counts_whatever_its_sign_and_goes_on_from_its_state():
    scale = ReturnScale(0.5, limit=0.1)
    ended = torch.tensor([[False], [True]])
    scale(torch.tensor([[-2.0], [-8.0]]), ended)  # returns -2 and -8 + ½ * -2
    scale(torch.tensor([[1.0], [3.0]]), ended)
    again = ReturnScale(0.5, limit=0.1)
    again.load_state_dict(scale.state_dict())
    for each in (scale, again):
        assert each.deviation == pytest.approx(9 / 0.1)


def test_returns_of_prior_data_fit_below_the_limit(tmp_path: Path):
    spec = BehaviorSpec((ObsSpec("view", (3,)),), ActionSpec(1, (2,)))
    demo = write(tmp_path / "earlier.demo", episodes(3, 1, spec=spec), spec)  # 0.75 for each decision
    settings = PriorDataSettings(demo_path=str(demo), run="run")
    scale, free = ReturnScale(0.5, limit=0.5), ReturnScale(0.5)
    for each in (scale, free):
        prior = PriorData(settings, spec, torch.device("cpu"), each, memory=0, stretch=0)
        each(torch.zeros(4, 2), torch.zeros(4, 2, dtype=torch.bool))
    assert (scale.deviation, free.deviation) == (1.3125 / 0.5, 1.0)  # 0.75 + 0.5 * (0.75 + 0.5 * 0.75)
    again = ReturnScale(0.5, limit=0.5)
    again.load_state_dict(scale.state_dict())
    replay = prior._replays[0].state_dict()
    replay["decisions"]["reward"] *= -2
    prior = PriorData(settings, spec, torch.device("cpu"), again, memory=0, stretch=0)
    prior.take([replay], "run")
    assert again.deviation == 2 * scale.deviation


def test_returns_that_are_all_alike_are_divided_by_their_size():
    scale = ReturnScale(0.9)
    over = torch.ones(4, 2, dtype=torch.bool)
    assert_close(scale(torch.full((4, 2), -3.0), over), torch.full((4, 2), -1.0))
    assert_close(ReturnScale(0.9)(torch.zeros(4, 2), over), torch.zeros(4, 2))
    # half of all returns are -3 then, half 5: mean 1, deviation 4
    assert_close(scale(torch.full((4, 2), 5.0), over), torch.full((4, 2), 1.25))


def test_open_returns_go_on_in_the_next_rollout():
    scale = ReturnScale(gamma=0.5)
    scale(REWARD, ENDED)
    # the first slot goes on from 2.5, the second from 0
    deviation = torch.tensor([1.0, 2.5, 4.0, 0.0, 1.0 + 1.25, 3.0]).std(correction=0)
    reward = torch.tensor([[1.0, 3.0]])
    assert_close(scale(reward, torch.zeros(1, 2, dtype=torch.bool)), reward / deviation)


def test_rows_that_no_decision_settled_are_not_counted():
    scale = ReturnScale(0.9)
    alike = ReturnScale(0.9)
    reward = torch.randn(6, 3)
    ended = torch.rand(6, 3) < 0.3
    lengths = torch.tensor([6, 2, 0])
    filled = reward.clone()
    counted = torch.arange(6).unsqueeze(1) < lengths
    filled[~counted] = 1e6  # what an earlier rollout left there
    first = scale(filled, ended, lengths)
    second = alike(reward, ended, lengths)
    assert_close(first[counted], second[counted])
    assert scale.state_dict()["count"] == 8
    assert torch.equal(scale.state_dict()["open_returns"], alike.state_dict()["open_returns"])


def test_scaling_a_slotted_rollout_agrees_with_counting_each_slot():
    scale = ReturnScale(0.9)
    returns = []
    running = [0.0] * 4
    for seed in (1, 2):
        rollout = slotted_rollout(seed)
        ended = rollout.terminated | rollout.truncated
        out = scale(rollout.reward, ended, rollout.lengths)
        assert rollout.lengths is not None
        for slot, length in enumerate(rollout.lengths.tolist()):
            for t in range(length):
                running[slot] = rollout.reward[t, slot].item() + 0.9 * running[slot]
                returns.append(running[slot])
                running[slot] = 0.0 if ended[t, slot] else running[slot]
        deviation = torch.tensor(returns, dtype=torch.float64).std(correction=0).item()
        assert_close(out[0], rollout.reward[0] / deviation)


def test_open_returns_of_slots_that_begin_anew_do_not_go_on():
    scale = ReturnScale(gamma=0.5)
    scale(REWARD, torch.zeros(2, 2, dtype=torch.bool))
    # of the open returns 2.5 and 2 only the second goes on: 1 and 3 + 1/2 * 2
    deviation = torch.tensor([1.0, 2.5, 4.0, 2.0, 1.0, 4.0]).std(correction=0)
    reward = torch.tensor([[1.0, 3.0]])
    anew = torch.tensor([True, False])
    assert_close(scale(reward, torch.zeros(1, 2, dtype=torch.bool), anew=anew), reward / deviation)


def test_open_returns_stay_when_slots_grow():
    scale = ReturnScale(gamma=0.5)
    scale(REWARD, ENDED)
    scale(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool))
    assert scale.state_dict()["open_returns"].tolist() == [1.25, 0.0, 0.0]


def test_rewards_that_are_all_0_stay_0():
    assert ReturnScale(0.99)(torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool)).tolist() == [[0.0, 0.0]] * 3


def test_a_scale_goes_on_from_its_state():
    old = ReturnScale(0.9)
    new = ReturnScale(0.9)
    old(REWARD, ENDED)
    new.load_state_dict(copy.deepcopy(old.state_dict()))
    results: list[Tensor] = [scale(REWARD + 1, ENDED) for scale in (old, new)]
    assert torch.equal(*results)


def test_a_scale_that_settings_have_added_since_begins_anew():
    spec = BehaviorSpec((ObsSpec("a", (2,)),), ActionSpec(1))
    without, scaled = (
        RewardSignals(spec, {"extrinsic": ExtrinsicSettings(normalize=on)}, torch.device("cpu"), 0)
        for on in (False, True)
    )
    scaled.load_state_dict(without.state_dict())
    assert scaled.scales["extrinsic"].deviation == 1


def test_sums_are_those_of_whole_episodes_over_several_rollouts():
    sums = EpisodeSums()
    total = 0.0
    episodes = 0
    running = [0.0] * 4
    for seed in range(5):
        rollout = slotted_rollout(seed)
        assert rollout.lengths is not None
        counted = torch.arange(len(rollout.reward)).unsqueeze(1) < rollout.lengths
        sums.add(rollout.reward * counted, rollout)
        for slot, length in enumerate(rollout.lengths.tolist()):
            for t in range(length):
                running[slot] += rollout.reward[t, slot].item()
                if rollout.terminated[t, slot] or rollout.truncated[t, slot]:
                    total = total + running[slot]
                    episodes = episodes + 1
                    running[slot] = 0.0
        if seed == 2:
            state = copy.deepcopy(sums.state_dict())
            sums = EpisodeSums()
            sums.load_state_dict(state)
    mean = sums.take()
    assert mean is not None
    assert mean == pytest.approx(total / episodes, rel=1e-4)
    assert sums.take() is None


def test_what_a_lost_episode_earned_in_an_earlier_rollout_is_no_part_of_the_next_episode():
    sums = EpisodeSums()
    step = table(torch.zeros(2, 1))
    generator = torch.Generator()
    buffer = SlottedBuffer(step, decide(step, generator), 4)

    def tick(step: TimeStep) -> None:
        buffer.open(step, decide(step, generator))
        buffer.complete(step)

    def take() -> Rollout:
        rollout = buffer.take(step)
        sums.add(rollout.reward, rollout)
        return rollout

    tick(table(torch.zeros(2, 1), reward=[100.0, 10.0]))
    take()
    lost = dataclasses.replace(table(torch.zeros(2, 1), reward=[0.0, 20.0]), lost=torch.tensor([True, False]))
    tick(lost)
    state = buffer.state_dict()
    buffer = SlottedBuffer(step, decide(step, generator), 4)
    buffer.load_state_dict(state)
    tick(table(torch.zeros(2, 1), reward=[1.0, 30.0], terminated=[0, 1]))
    rollout = take()
    assert rollout.anew is not None
    assert rollout.anew.tolist() == [True, False]
    assert sums.take() == pytest.approx((1.0 + 10.0 + 20.0 + 30.0) / 2)
    tick(table(torch.zeros(2, 1), reward=[5.0, 7.0]))
    rollout = take()  # nothing was lost since
    assert rollout.anew is not None
    assert not rollout.anew.any()


@pytest.mark.parametrize("kind", [SteadyBuffer, SlottedBuffer])
def test_nothing_goes_on_in_the_first_rollout_of_a_buffer(kind: type[SteadyBuffer | SlottedBuffer]):
    sums = EpisodeSums()
    step = table(torch.zeros(1, 1))
    for reward in (100.0, 1.0):  # an environment that was reset has a new buffer
        buffer = kind(step, decide(step, torch.Generator()), 4)
        buffer.open(step, decide(step, torch.Generator()))
        buffer.complete(table(torch.zeros(1, 1), reward=[reward], terminated=[0] if reward == 1.0 else []))
        rollout = buffer.take(step)
        sums.add(rollout.reward, rollout)
    assert sums.take() == 1.0
    buffer.open(step, decide(step, torch.Generator()))
    buffer.complete(step)
    again = buffer.take(step).anew
    assert again is None or not again.any()
