"""Agents that continue in other slots, as in Unity games, which give them new ids."""

import torch

from palaestra.core.timestep import FinalObs, TimeStep
from palaestra.runtime.playback.agent_slots import AgentSlots
from palaestra.runtime.playback.tally import Tally


def table(acting: str, over: str = "", team: str = "") -> TimeStep:
    """A table with a letter for each slot: `x` where it acts or ends; teams are digits."""
    slots = len(acting)
    zeros = torch.zeros(slots)
    nobody = torch.zeros(slots, dtype=torch.bool)
    return TimeStep(
        obs=(),
        acting=torch.tensor([letter == "x" for letter in acting]),
        reward=zeros,
        group_reward=zeros,
        terminated=torch.tensor([letter == "x" for letter in over.ljust(slots, "-")]),
        truncated=nobody,
        final_obs=FinalObs(torch.zeros(0, dtype=torch.int64), ()),
        action_mask=None,
        area=torch.zeros(slots, dtype=torch.int64),
        team=torch.tensor([int(digit) for digit in team.ljust(slots, "0")]),
        group=torch.full((slots,), -1),
    )


def test_an_agent_that_ends_continues_in_the_slot_of_the_new_agent_of_its_team():
    agent_slots = AgentSlots()
    assert agent_slots.note({"A": table("xx", team="01")}, first=True) == {}
    assert agent_slots.note({"A": table("--xx", "xx", "0101")}) == {("A", 0): 2, ("A", 1): 3}
    assert agent_slots.present("A", 4).tolist() == [False, False, True, True]
    assert [agent_slots.number("A", slot) for slot in (2, 3)] == [0, 1]
    assert agent_slots.note({"A": table("x--x", "--x-", "0101")}) == {("A", 2): 0}
    assert [agent_slots.number("A", slot) for slot in (0, 3)] == [0, 1]


def test_an_agent_that_acts_again_in_its_slot_stays_there():
    agent_slots = AgentSlots()
    agent_slots.note({"A": table("xx")}, first=True)
    assert agent_slots.note({"A": table("xx", "x-")}) == {}  # it ends and begins on one tick
    assert agent_slots.note({"A": table("-x", "x-")}) == {}
    assert agent_slots.present("A", 2).tolist() == [False, True]
    assert agent_slots.note({"A": table("x-")}) == {}
    assert agent_slots.present("A", 2).tolist() == [True, True]  # the other one does not act on this tick


def test_a_new_agent_continues_the_one_that_went_last():
    agent_slots = AgentSlots()
    agent_slots.note({"A": table("xxx-")}, first=True)
    agent_slots.note({"A": table("-xx-", "x---")})
    assert agent_slots.note({"A": table("--xx", "-x--")}) == {("A", 1): 3}


def test_all_agents_continue_after_a_restart_even_in_fewer_slots():
    agent_slots = AgentSlots()
    agent_slots.note({"A": table("--xx", team="0101")}, first=True)
    assert agent_slots.note({"A": table("xx", team="01")}, first=True) == {("A", 2): 0, ("A", 3): 1}


def test_an_agent_without_a_successor_keeps_its_number_and_a_further_one_gets_another():
    agent_slots = AgentSlots()
    agent_slots.note({"A": table("x-", team="01")}, first=True)
    agent_slots.note({"A": table("-x", "x-", "01")})  # another team
    assert agent_slots.number("A", 1) == 1


def test_ticks_are_counted_for_slots_with_agents_alone():
    agent_slots = AgentSlots()
    tally = Tally()
    for number, step in enumerate((table("x-"), table("xx"), table("-x", "x-"), table("-x"), table("xx"), table("xx"))):
        tally.note({"A": step}, first=number == 0, agent_slots=agent_slots)
        agent_slots.note({"A": step}, first=number == 0)
    assert tally.lengths["A"].tolist() == [1, 4]
    tally.note({"A": table("x")}, first=True, agent_slots=agent_slots)
    assert tally.lengths["A"].tolist() == [0]
