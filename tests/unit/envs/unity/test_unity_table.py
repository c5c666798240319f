from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import TimeStep
from palaestra.envs.unity.table import FORGET_AFTER, Arrival, BehaviorTable
from palaestra.wire.decode import AgentInfos

SPEC = BehaviorSpec((ObsSpec("a", (2,)), ObsSpec("b", (1,))), ActionSpec(1))
CHOOSER = BehaviorSpec((ObsSpec("a", (2,)), ObsSpec("b", (1,))), ActionSpec(0, (3,)))


@dataclass(frozen=True)
class Info:
    """One agent's info; what it sees is (seen, id) and (-seen)."""

    id: int
    reward: float = 0.0
    seen: float = 0.0
    done: bool = False
    truncated: bool = False
    group: int = 0
    group_reward: float = 0.0


def end(id: int, reward: float = 0.0, truncated: bool = False, **more: Any) -> Info:
    return Info(id, reward, done=True, truncated=truncated, **more)


def arrival(
    *said: Info, copy: int = 0, source: int | None = None, team: int = 0, mask: list[list[bool]] | None = None
) -> Arrival:
    infos = AgentInfos(
        id=np.array([one.id for one in said], np.int64),
        reward=np.array([one.reward for one in said], np.float32),
        done=np.array([one.done for one in said], np.bool_),
        truncated=np.array([one.truncated for one in said], np.bool_),
        group=np.array([one.group for one in said], np.int64),
        group_reward=np.array([one.group_reward for one in said], np.float32),
        mask=(b"",) * len(said),
        obs=(),
    )
    views = (
        np.array([[one.seen, one.id] for one in said], np.float32),
        np.array([[-one.seen] for one in said], np.float32),
    )
    allowed = None if mask is None else np.array(mask)
    return Arrival("A", f"A?team={team}", copy, copy + 1 if source is None else source, team, infos, views, allowed)


@dataclass
class Play:
    """A table over ticks."""

    table: BehaviorTable = field(default_factory=lambda: BehaviorTable(SPEC))
    copies: int = 2
    asked: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    messages: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.messages = np.zeros(self.copies, np.int64)

    def tick(self, *arrivals: Arrival, lost: tuple[int, ...] = ()) -> TimeStep:
        for copy in {arrival.copy for arrival in arrivals}:
            self.messages[copy] += 1
        step, asked = self.table.tick(arrivals, lost, self.messages.copy())
        self.asked = {at: slots.tolist() for at, slots in asked.items() if len(slots)}
        return step


def where(column: Tensor | None) -> list[int]:
    return [] if column is None else column.nonzero().flatten().tolist()


def columns(step: TimeStep) -> list[Tensor]:
    """Every tensor of a table."""
    found: list[Tensor] = []
    for each in fields(step):
        value = getattr(step, each.name)
        found += [value] if isinstance(value, Tensor) else value if each.name == "obs" else []
    return [*found, step.final_obs.slots, *step.final_obs.obs]


def test_agents_keep_their_slots() -> None:
    play = Play()
    play.tick(arrival(Info(7), Info(3)))
    step = play.tick(arrival(Info(3, 1.0, seen=30), Info(7, 2.0, seen=70)))
    assert step.obs[0].tolist() == [[30, 3], [70, 7]]
    assert step.obs[1].tolist() == [[-30], [-70]]
    assert step.reward.tolist() == [1, 2]
    assert step.acting.tolist() == [True, True]
    step = play.tick(arrival(Info(7, 4.0, seen=71)))
    assert (step.acting.tolist(), step.obs[0][1].tolist(), step.reward[1]) == ([False, True], [71, 7], 4)


def test_waiting_slots_come_in_the_order_of_the_message() -> None:
    play = Play()
    play.tick(arrival(Info(9), Info(2), Info(5)))
    assert play.asked == {(0, "A?team=0"): [2, 0, 1]}
    play.tick(arrival(Info(5), end(2), Info(9)), arrival(Info(5), copy=1))
    assert play.asked == {(0, "A?team=0"): [1, 2], (1, "A?team=0"): [3]}


@pytest.mark.parametrize("order", [0, 1], ids=["end first", "asking first"])
def test_an_agent_that_ends_and_requests_a_decision_has_its_last_reward_and_its_new_observation(order: int) -> None:
    play = Play()
    play.tick(arrival(Info(4), Info(6)))
    both = [end(6, 5.0, truncated=True, seen=1, group_reward=2.0), Info(6, 9.0, seen=2)]
    step = play.tick(arrival(*(both if order == 0 else both[::-1]), Info(4, 1.0)))
    assert step.reward.tolist() == [1, 5]
    assert step.group_reward.tolist() == [0, 2]
    assert step.acting.tolist() == [True, True]
    assert (where(step.terminated), where(step.truncated)) == ([], [1])
    assert step.final_obs.slots.tolist() == [1]
    assert [obs.tolist() for obs in step.final_obs.obs] == [[[1, 6]], [[-1]]]
    assert step.obs[0][1].tolist() == [2, 6]
    step = play.tick(arrival(Info(6, 3.0)))
    assert (where(step.acting), step.reward[1]) == ([1], 3)


def test_ends_rise_by_slot_whatever_the_order_of_messages() -> None:
    play = Play()
    play.tick(arrival(Info(0), Info(1)), arrival(Info(0), Info(1), copy=1))
    step = play.tick(arrival(end(1), end(0, truncated=True), copy=1), arrival(end(1, 2.0, seen=5)))
    assert step.final_obs.slots.tolist() == [1, 2, 3]
    assert step.final_obs.obs[0].tolist() == [[5, 1], [0, 0], [0, 1]]
    assert (where(step.terminated), where(step.truncated), where(step.acting)) == ([1, 3], [2], [])


def test_a_slot_is_free_on_the_tick_after_its_end_also_that_of_an_unknown_agent() -> None:
    play = Play()
    play.tick(arrival(Info(1), Info(2)))
    step = play.tick(arrival(end(1), Info(2), Info(3), end(8, 3.0)))
    assert (where(step.terminated), where(step.acting), step.final_obs.slots.tolist()) == ([0, 3], [1, 2], [0, 3])
    step = play.tick(arrival(Info(4, seen=4), Info(2), Info(3)))
    assert (len(step.acting), step.obs[0][0].tolist()) == (4, [4, 4])


def test_tables_double_and_keep_their_rows() -> None:
    play = Play()
    sizes = []
    for agents in (1, 2, 3, 5, 4, 9):
        step = play.tick(arrival(*(Info(i, seen=i) for i in range(agents))))
        sizes.append(len(step.acting))
        assert step.obs[0][:agents, 1].tolist() == list(range(agents))
        assert all(
            len(column) == sizes[-1] for column in columns(step) if column is not step.final_obs.slots and len(column)
        )
    assert sizes == [1, 2, 4, 8, 8, 16]
    assert (step.group == -1).all()


def test_unused_slots_are_of_no_team_that_no_agent_has() -> None:
    play = Play()
    step = play.tick(arrival(Info(1), Info(2), Info(3), team=2))
    assert step.team.tolist() == [2, 2, 2, 2]


def test_copies_and_teams_that_share_an_id_share_no_slot() -> None:
    play = Play()
    step = play.tick(arrival(Info(5, seen=1)), arrival(Info(5, seen=2), team=3), arrival(Info(5, seen=3), copy=1))
    assert step.obs[0][where(step.acting), 0].tolist() == [1, 2, 3]
    assert (step.area[:3].tolist(), step.team[:3].tolist()) == ([0, 0, 1], [0, 3, 0])
    assert play.asked == {(0, "A?team=0"): [0], (0, "A?team=3"): [1], (1, "A?team=0"): [2]}


@pytest.mark.parametrize("order", [0, 1], ids=["end first", "asking first"])
def test_an_agent_that_changes_its_team_ends_in_one_slot_and_begins_in_another(order: int) -> None:
    play = Play()
    play.tick(arrival(Info(5)), arrival(Info(6), team=1))
    news = [arrival(end(5, 4.0)), arrival(Info(5, 9.0), Info(6), team=1)]
    step = play.tick(*(news if order == 0 else news[::-1]))
    assert (where(step.terminated), step.reward[0], where(step.acting)) == ([0], 4, [1, 2])
    assert step.team[2] == 1
    step = play.tick(arrival(Info(5, 1.0), Info(6), team=1))
    assert where(step.acting) == [1, 2]


def test_groups_are_those_of_their_game() -> None:
    play = Play()
    step = play.tick(
        arrival(Info(0, group=1), Info(1, group=1), Info(2, group=2), Info(3)), arrival(Info(0, group=1), copy=1)
    )
    group = step.group[:5].tolist()
    assert group[0] == group[1] >= 0
    assert group[3] == -1
    assert len({group[0], group[2], group[4], -1}) == 4
    step = play.tick(arrival(end(0, group=1), Info(0, group=2), Info(1, group=1), Info(2, group=2), Info(3, group=0)))
    assert step.group[0] == step.group[2] != step.group[1]


def test_agents_of_a_lost_game_are_lost_and_leave() -> None:
    play = Play()
    play.tick(arrival(Info(1), Info(2), source=1), arrival(Info(1), copy=1, source=2))
    step = play.tick(lost=(1, 77))
    assert (where(step.lost), where(step.acting), where(step.terminated | step.truncated)) == ([0, 1], [], [])
    assert play.asked == {}
    step = play.tick(arrival(Info(1, seen=5), source=3), arrival(Info(1), copy=1, source=2))
    assert (where(step.acting), where(step.lost), step.obs[0][0].tolist()) == ([0, 2], [], [5, 1])


def test_another_game_may_send_agents_on_the_tick_its_copy_was_lost() -> None:
    play = Play()
    play.tick(arrival(Info(1), source=1))
    step = play.tick(arrival(Info(1, 5.0), source=2), lost=(1,))
    assert (where(step.lost), where(step.acting)) == ([0], [1])
    step = play.tick(arrival(Info(1), Info(2), source=2))
    assert (where(step.acting), len(step.acting)) == ([0, 1], 2)


@pytest.mark.parametrize(
    ("ticks", "newcomer", "slots", "acting", "lost"),
    [
        (FORGET_AFTER + 2, 1, 2, [0, 1], []),  # there is room: it is the agent of before
        (FORGET_AFTER - 1, 2, 4, [0, 2], []),
        (FORGET_AFTER + 1, 2, 2, [0, 1], [1]),
    ],
)
def test_an_agent_loses_its_slot_where_it_was_silent_for_long_and_the_table_would_grow(
    ticks: int, newcomer: int, slots: int, acting: list[int], lost: list[int]
) -> None:
    play = Play()
    play.tick(arrival(Info(0), Info(1)))
    for _ in range(ticks):
        play.tick(arrival(Info(0)))
    step = play.tick(arrival(Info(0), Info(newcomer, 2.0)))
    assert (len(step.acting), where(step.acting), where(step.lost)) == (slots, acting, lost)
    assert step.reward[acting[-1]] == 2


def test_agents_of_a_slow_game_are_not_silent() -> None:
    play = Play()
    play.tick(arrival(Info(0), Info(1)), arrival(Info(0), Info(1), copy=1))
    for _ in range(FORGET_AFTER + 1):
        play.tick(arrival(Info(0)))
    step = play.tick(arrival(Info(0), Info(2, seen=2)))
    assert (len(step.acting), where(step.acting), where(step.lost)) == (4, [0, 1], [1])
    assert step.obs[0][1].tolist() == [2, 2]
    step = play.tick(arrival(Info(0), Info(2), Info(1)))
    assert (len(step.acting), where(step.acting), where(step.lost)) == (8, [0, 1, 4], [])


def test_a_new_agent_does_not_end_the_episode_of_the_silent_one_whose_slot_it_takes() -> None:
    play = Play()
    play.tick(arrival(Info(0), Info(1)))
    for _ in range(FORGET_AFTER + 1):
        play.tick(arrival(Info(0)))
    step = play.tick(arrival(end(0, 1.0), end(9, 3.0)))
    assert (where(step.lost), where(step.terminated), step.final_obs.slots.tolist()) == ([1], [0], [0])
    assert step.final_obs.obs[0].tolist() == [[0, 0]]


def test_a_team_goes_on_when_one_of_its_agents_loses_its_slot() -> None:
    play = Play()
    play.tick(arrival(Info(0), Info(1)), arrival(Info(2), Info(3), team=1))
    for _ in range(FORGET_AFTER + 1):
        play.tick(arrival(Info(0)), arrival(Info(2), Info(3), team=1))
    step = play.tick(arrival(Info(0)), arrival(Info(2), Info(3), Info(4), team=1))
    assert (where(step.acting), where(step.lost)) == ([0, 1, 2, 3], [1])
    assert play.asked == {(0, "A?team=0"): [0], (0, "A?team=1"): [2, 3, 1]}


def test_masks_are_those_of_acting_slots() -> None:
    play = Play(BehaviorTable(CHOOSER))
    everything = [True] * 3
    some = [False, True, False]
    step = play.tick(arrival(Info(0), Info(1), mask=[everything, some]), arrival(Info(0), copy=1))
    assert step.action_mask is not None
    assert step.action_mask[:3].tolist() == [everything, some, everything]
    step = play.tick(arrival(end(1), Info(1), Info(0), mask=[some, everything, some]))
    assert step.action_mask is not None
    assert step.action_mask[:2].tolist() == [some, everything]
    assert Play().tick(arrival(Info(0))).action_mask is None


def test_a_tick_without_arrivals_has_no_acting_slots() -> None:
    play = Play()
    play.tick(arrival(Info(0, 3.0), Info(1, group=2)))
    step = play.tick()
    assert not any(column.any() for column in (step.acting, step.reward, step.terminated, step.truncated, *step.obs))
    assert (len(step.acting), step.group[1].item() >= 0, play.asked) == (2, True, {})
    play.tick(arrival(Info(0), Info(1), Info(2)))
    assert len(play.tick().acting) == 4


def test_tables_given_earlier_are_never_written_to() -> None:
    random = np.random.default_rng(1)
    play = Play()
    given = []
    for tick in range(60):
        news = []
        for copy in range(2):
            ids = random.permutation(12)[: random.integers(0, 7)]
            said = [
                Info(
                    int(id), float(tick), seen=tick, done=bool(random.random() < 0.3), group=int(random.integers(0, 3))
                )
                for id in ids
            ]
            if said:
                news.append(arrival(*said, copy=copy))
        step = play.tick(*news, lost=(2,) if tick == 40 else ())
        given.append((columns(step), [column.clone() for column in columns(step)]))
    for now, then in given:
        assert all(torch.equal(one, other) for one, other in zip(now, then, strict=True))
