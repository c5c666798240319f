"""The replay against a list of what happened: agents that come, go, end, break off, take turns, in more slots than
before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from rollouts import rollouts_of
from tiny_envs import Stream
from torch import Tensor

from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, Decision, FinalObs, TimeStep
from palaestra.data.n_step import Ahead
from palaestra.data.replay import Replay, decoded, empty_table, encoded, picked
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.data.steady_buffer import PLAIN

SPEC = BehaviorSpec((ObsSpec("vector", (2,)), ObsSpec("image", (1, 2, 2))), ActionSpec(continuous=1, branches=(3,)))


@dataclass
class Happened:
    """One decision, as a list would have it."""

    view: tuple[float, float]
    mask: list[bool]
    slot: int
    episode: int
    reward: float = 0.0
    terminated: bool = False
    ended: bool = False
    after: tuple[float, float] | None = None
    """None: nothing follows that counts."""


class World:
    """Numbers its decisions: number n is the action n. Views are numbered too, or, where `few`, are one of three."""

    def __init__(self, seed: int, slots: int, *, steady: bool, few: bool = False, memory: int = 0) -> None:
        uneven = {} if steady else {"losses": 0.05, "grows_at": 30}
        self.stream = Stream(seed, slots, steady=steady, masked=True, **uneven)
        self.rng = np.random.default_rng(seed)
        self.few = few
        self.memory = memory
        self.views = 0
        self.episodes = 0
        self.history: list[Happened] = []
        self.open: dict[int, int] = {}  # the decision that each slot waits for
        self.episode = np.zeros(0, int)
        self.age = np.zeros(0, int)

    def new_view(self) -> tuple[float, float]:
        self.views += 1
        number = float(self.rng.integers(3)) if self.few else float(self.views)
        return number, float(self.rng.integers(2) if not self.few else number > 1)

    def table(self) -> TimeStep:
        step = self.stream.next()
        slots = len(step.acting)
        more = slots - len(self.episode)
        self.episode = np.append(self.episode, [-1] * more)
        self.age = np.append(self.age, [0] * more)
        self.now = [self.new_view() for _ in range(slots)]
        finals = {slot: self.new_view() for slot in step.final_obs.slots.tolist()}
        assert step.action_mask is not None
        self.masks = step.action_mask[:, :3]
        self.settle(step, finals)
        final_obs = FinalObs(step.final_obs.slots, columns(list(finals.values())))
        return replace(step, obs=columns(self.now), final_obs=final_obs, action_mask=self.masks)

    def settle(self, step: TimeStep, finals: dict[int, tuple[float, float]]) -> None:
        ended = step.terminated | step.truncated
        lost = torch.zeros_like(ended) if step.lost is None else step.lost
        for slot in range(len(ended)):
            if lost[slot]:
                self.open.pop(slot, None)
            elif slot in self.open and (step.acting[slot] or ended[slot]):
                done = self.history[self.open.pop(slot)]
                done.reward = float(step.reward[slot])
                done.terminated = bool(step.terminated[slot])
                done.ended = bool(ended[slot])
                done.after = finals[slot] if ended[slot] else self.now[slot]
            if ended[slot] or lost[slot]:
                self.episode[slot] = -1
            if step.acting[slot] and self.episode[slot] < 0:
                self.episodes += 1
                self.episode[slot] = self.episodes
                self.age[slot] = 0

    def decide(self, step: TimeStep) -> Decision:
        slots = len(step.acting)
        numbers = torch.zeros(slots)
        memory = torch.zeros(slots, self.memory)
        for slot in step.acting.nonzero()[:, 0].tolist():
            numbers[slot] = len(self.history)
            memory[slot] = self.age[slot]
            self.open[slot] = len(self.history)
            self.history.append(Happened(self.now[slot], self.masks[slot].tolist(), slot, int(self.episode[slot])))
            self.age[slot] += 1
        sample = Action(numbers.unsqueeze(1), (numbers.long() % 3).unsqueeze(1))
        return Decision(sample, sample, torch.zeros(slots, 2), memory)

    def rollouts(self, lengths: list[int], needs: RolloutNeeds = PLAIN) -> Iterator[Rollout]:
        """Those of as many ticks that have a decision."""
        taken = rollouts_of(self.table, lengths, self.decide, needs, steady=self.stream.steady)
        return (rollout for rollout in taken if len(rollout.reward))


def columns(views: list[tuple[float, float]]) -> tuple[Tensor, Tensor]:
    table = torch.tensor(views).reshape(-1, 2)
    image = torch.stack([(table[:, 0] % 256) / 255, table[:, 1], table[:, 1], table[:, 0] % 2], 1)
    return table, image.view(-1, 1, 2, 2)


def pour(replay: Replay, rollout: Rollout) -> list[int]:
    """Pours it, and gives the numbers of its decisions in their order."""
    replay.add(rollout, rollout.sample, rollout.reward)
    time, slots = rollout.shape
    lengths = [time] * slots if rollout.lengths is None else rollout.lengths.tolist()
    return [int(rollout.sample.continuous[t, s]) for t in range(time) for s in range(slots) if t < lengths[s]]


def check_rows(
    world: World, views: list[Any], masks: Any, after: list[Any], batch: Any, needs: RolloutNeeds
) -> list[int]:
    numbers = batch.action.continuous[:, 0].long().tolist()
    for row, number in enumerate(numbers):
        happened = world.history[number]
        assert views[row] == happened.view
        assert masks[row] == happened.mask
        assert batch.action.discrete[row, 0] == number % 3
        assert batch.reward[row] == np.float32(happened.reward)
        assert bool(batch.terminated[row]) == happened.terminated
        assert bool(batch.ended[row]) == happened.ended
        if not happened.terminated or needs.terminal_obs:
            assert after[row] == happened.after
    return numbers


def as_tuples(table: Tensor) -> list[tuple[float, float]]:
    return [tuple(row) for row in table.tolist()]  # type: ignore[misc]


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("terminal_obs", [False, True])
def test_what_is_drawn_is_what_happened(steady: bool, few: bool, terminal_obs: bool):
    needs = RolloutNeeds(terminal_obs=terminal_obs)
    generator = torch.Generator().manual_seed(3)
    for seed, size in ((1, 37), (2, 100)):
        world = World(seed, 5, steady=steady, few=few)
        replay = Replay(SPEC, size, torch.device("cpu"))
        poured = []
        sizes = np.random.default_rng(seed).choice([1, 1, 1, 2, 3, 6, 40], 30).tolist()
        for rollout in world.rollouts(sizes, needs):
            poured += pour(replay, rollout)
            assert len(replay) == min(len(poured), size)
            if len(poured):
                batch = replay.draw(64, generator)
                table = as_tuples(batch.obs[0])
                masks = batch.masks
                assert masks is not None
                assert torch.equal(batch.obs[1], columns(table)[1])
                drawn = check_rows(world, table[:64], masks[:64].tolist(), table[64:], batch, needs)
                assert set(drawn) <= set(poured[-size:])
        assert len(poured) > 5 * size


@pytest.mark.parametrize("steady", [True, False])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("size", [50, 90])
def test_sequences_are_one_agents_decisions_in_one_episode(steady: bool, few: bool, size: int):
    needs = RolloutNeeds()
    generator = torch.Generator().manual_seed(3)
    stretch = 4
    world = World(5, 5, steady=steady, few=few, memory=2)
    replay = Replay(SPEC, size, torch.device("cpu"), memory=2, stretch=stretch)
    poured = []
    longest = 0
    for rollout in world.rollouts([1, 1, 1, 10, 1, 1] * 8, needs):
        poured += pour(replay, rollout)
        batch = replay.draw(32, generator)
        table = as_tuples(batch.obs[0])
        sequences = batch.sequences
        masks = batch.masks
        now = batch.now
        after = batch.after
        assert sequences is not None
        assert masks is not None
        assert isinstance(now, Tensor)
        assert isinstance(after, Tensor)
        numbers = check_rows(
            world,
            [table[i] for i in now.tolist()],
            masks[now].tolist(),
            [table[i] for i in after.tolist()],
            batch,
            needs,
        )
        count = len(sequences.recurrent_state)
        column = (sequences.place % count)[now]
        for c in range(count):
            rows = (column == c).nonzero().squeeze(1).tolist()
            mine = [world.history[numbers[row]] for row in rows]
            assert len({(h.slot, h.episode) for h in mine}) == 1
            of_it = [n for n in poured if world.history[n].episode == mine[0].episode]
            assert numbers[rows[0]] in poured[-size:]
            begin = of_it.index(numbers[rows[0]])
            assert begin % stretch == 0
            assert [numbers[row] for row in rows] == of_it[begin : begin + stretch]
            assert sequences.recurrent_state[c].tolist() == [float(begin)] * 2
            longest = max(longest, len(rows))
    assert longest == stretch


@pytest.mark.parametrize("steady", [True, False])
def test_no_row_of_views_is_lost_or_has_two_uses(steady: bool):
    world = World(9, 5, steady=steady)
    replay = Replay(SPEC, 40, torch.device("cpu"))
    for rollout in world.rollouts([1, 1, 3] * 20, RolloutNeeds(terminal_obs=True)):
        pour(replay, rollout)
        arrays = {name: array.numpy() for name, array in replay.state_dict()["index"]["arrays"].items()}
        counts = replay.state_dict()["index"]["counts"]
        here = np.arange(counts["oldest"], counts["end"]) % 40
        owned = arrays["after"][here][arrays["owns_after"][here]]
        rows = np.concatenate([arrays["obs"][here], owned, arrays["waiting"][arrays["waiting"] >= 0], arrays["free"]])
        assert sorted(rows) == list(range(replay.rows))


@pytest.mark.parametrize("stretch", [0, 4])
def test_a_replay_that_was_saved_goes_on_the_same(stretch: int):
    world = World(7, 5, steady=False, memory=2)
    replay = Replay(SPEC, 60, torch.device("cpu"), memory=2, stretch=stretch)
    other = Replay(SPEC, 60, torch.device("cpu"), memory=2, stretch=stretch)
    rollouts = world.rollouts([1, 1, 8] * 20)
    for i, rollout in enumerate(rollouts):
        pour(replay, rollout)
        if i == 20:
            assert other.load_state_dict(replay.state_dict())
        if i > 20:
            pour(other, rollout)
            drawn = [one.draw(16, torch.Generator().manual_seed(i)) for one in (replay, other)]
            assert all(torch.equal(a, b) for a, b in zip(drawn[0].obs, drawn[1].obs, strict=True))
            assert torch.equal(drawn[0].action.continuous, drawn[1].action.continuous)


@pytest.mark.parametrize("size", [2000, 60])
def test_rewards_are_summed_in_one_episode_also_where_the_next_begins_with_the_view_that_a_lost_one_waited_with(
    size: int,
):
    world = World(3, 4, steady=False)
    world.new_view = lambda: (0.0, 0.0)
    replay = Replay(SPEC, size, torch.device("cpu"))  # the smaller one is written over several times
    poured: list[int] = []
    for rollout in world.rollouts([1, 4, 2] * 40):
        poured += pour(replay, replace(rollout, action_mask=None, last_mask=None))
    of_episode: dict[int, list[int]] = {}
    for number in sorted(poured):
        of_episode.setdefault(world.history[number].episode, []).append(number)
    drawn = replay.draw(1000, torch.Generator().manual_seed(0), Ahead(4, 0.5))
    assert drawn.steps is not None
    for number, steps, reward in zip(
        drawn.action.continuous[:, 0].long().tolist(), drawn.steps.tolist(), drawn.reward.tolist(), strict=True
    ):
        mates = of_episode[world.history[number].episode]
        summed = mates[mates.index(number) :][:4]
        assert len(summed) == steps
        assert reward == pytest.approx(
            sum(0.5**i * world.history[each].reward for i, each in enumerate(summed)), abs=1e-5
        )


def test_each_decision_is_drawn_as_often_as_any_other():
    world = World(1, 5, steady=True)
    replay = Replay(SPEC, 50, torch.device("cpu"))
    poured = [number for rollout in world.rollouts([1] * 30) for number in pour(replay, rollout)]
    drawn = replay.draw(50_000, torch.Generator().manual_seed(0)).action.continuous[:, 0].long()
    counts = torch.bincount(drawn, minlength=len(poured))[-50:]
    assert counts.sum() == 50_000
    assert 850 < counts.min() < counts.max() < 1150


def test_views_are_stored_once_and_images_as_bytes():
    world = World(1, 5, steady=True)
    replay = Replay(SPEC, 2000, torch.device("cpu"))
    ends = 0
    for rollout in world.rollouts([1] * 300):
        pour(replay, rollout)
        ends += len(rollout.final_rows)
    saved = replay.state_dict()
    assert [table.dtype for table in (*saved["obs"], saved["masks"])] == [torch.float32, torch.uint8, torch.bool]
    assert len(saved["obs"][0]) == 300 * 5 + 5 + ends


def test_more_agents_than_fit_are_refused():
    rollout = next(iter(World(1, 400, steady=True).rollouts([1])))
    done = Action(torch.zeros(1, 400, 1), torch.zeros(1, 400, 1)), torch.zeros(1, 400)
    with pytest.raises(
        ConfigError, match=r"buffer_size is 50, but 400 agents may exist at once; expected at least 400$"
    ):
        Replay(SPEC, 50, torch.device("cpu")).add(rollout, *done)
    Replay(SPEC, 400, torch.device("cpu")).add(rollout, *done)


def test_a_replay_too_short_for_a_sequence_of_every_agent_is_refused():
    world = World(1, 10, steady=True)
    replay = Replay(SPEC, 50, torch.device("cpu"), stretch=8)
    with pytest.raises(
        ConfigError, match="10 agents may exist at once, each with sequences of 8 decisions; expected at least 80"
    ):
        pour(replay, next(iter(world.rollouts([1]))))


def test_another_size_starts_empty():
    world = World(1, 5, steady=True)
    replay, other = (Replay(SPEC, size, torch.device("cpu")) for size in (50, 51))
    pour(replay, next(iter(world.rollouts([1]))))
    assert not other.load_state_dict(replay.state_dict())
    assert len(other) == 0


def test_bytes_are_known_before_anything_is_there():
    replay = Replay(SPEC, 8192, torch.device("cpu"))
    assert replay.bytes_needed == 9216 * (2 * 4 + 4 + 3 + 4) + 8192 * (4 + 4 + 4 + 2 + 26)


def stretched(rollout: Rollout, factor: float) -> Rollout:
    """The same with images that go from -factor to factor."""

    def wider(obs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return obs[0], factor * (2 * obs[1] - 1)

    return replace(
        rollout, obs=wider(rollout.obs), last_obs=wider(rollout.last_obs), final_obs=wider(rollout.final_obs)
    )


@pytest.mark.parametrize("steady", [True, False])
def test_images_with_numbers_beyond_0_and_1_are_kept_as_they_are_and_those_before_them_as_they_were(steady: bool):
    world = World(4, 5, steady=steady)
    replay = Replay(SPEC, 200, torch.device("cpu"))
    narrow = replay.bytes_needed
    factor = 3.0
    poured = []
    before = 0
    for i, rollout in enumerate(world.rollouts([4] * 8)):
        if i < 4:
            poured += pour(replay, rollout)
            before = len(poured)
            assert replay.as_bytes == [False, True]
            continue
        poured += pour(replay, stretched(rollout, factor))
        assert replay.as_bytes == [False, False]
        batch = replay.draw(200, torch.Generator().manual_seed(i))
        numbers = batch.action.continuous[:, 0].long()
        now = batch.obs[1][:200]
        seen = columns([world.history[number].view for number in numbers.tolist()])[1]
        wide = torch.tensor([number in poured[before:] for number in numbers.tolist()])
        assert wide.any()
        assert not wide.all()
        assert torch.equal(now[~wide], seen[~wide])
        assert torch.equal(now[wide], factor * (2 * seen[wide] - 1))
    assert replay.bytes_needed == narrow + replay.rows * 4 * 3
    other = Replay(SPEC, 200, torch.device("cpu"))
    assert other.load_state_dict(replay.state_dict())
    assert other.as_bytes == [False, False]


def test_numbers_beyond_an_images_by_a_rounding_error_are_its_ends():
    assert decoded(encoded(torch.tensor([-1e-4, 0.0, 1.0, 1.0005]), True)).tolist() == [0.0, 0.0, 1.0, 1.0]


def test_grids_of_many_channels_lie_pixel_by_pixel_and_come_back_as_they_were():
    for channels, layout in ((3, torch.contiguous_format), (5, torch.channels_last)):
        table = empty_table((6, channels, 2, 4), torch.uint8, torch.device("cpu"))
        grids = torch.arange(6 * channels * 8, dtype=torch.uint8).view(6, channels, 2, 4)
        table.copy_(grids)
        rows = torch.tensor([4, 0, 4])
        found = decoded(picked(table, rows))
        assert found.is_contiguous(memory_format=layout)
        torch.testing.assert_close(found, grids[rows] / 255)
