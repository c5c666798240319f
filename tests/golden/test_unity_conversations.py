"""Recorded conversations of Unity's own package, played once more against our environment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from conversations import FOLDER, NAMES, read, requests
from unity_client import Client
from unity_games import replay
from unity_play import in_thread, opened

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, TimeStep

RESET = 1
SPECS = {
    "Ball": BehaviorSpec((ObsSpec("VectorSensor_size8", (8,)),), ActionSpec(2)),
    "Coop": BehaviorSpec((ObsSpec("VectorSensor_size2", (2,)),), ActionSpec(0, (3,))),
    "Duel": BehaviorSpec((ObsSpec("VectorSensor_size5", (5,)),), ActionSpec(0, (3,))),
    "Grid": BehaviorSpec((ObsSpec("goal", (2,), goal=True), ObsSpec("VectorSensor_size8", (8,))), ActionSpec(0, (5,))),
    "Hybrid": BehaviorSpec(
        (
            ObsSpec("buffer", (4, 3)),
            ObsSpec("StackingSensor_size2_rays", (40,)),
            ObsSpec("StackingSensor_size3_VectorSensor_size3", (9,)),
        ),
        ActionSpec(2, (3, 2)),
    ),
    "Spawn": BehaviorSpec((ObsSpec("VectorSensor_size1", (1,)),), ActionSpec(1)),
}


@dataclass
class Table:
    """What a behavior's table must show, out of the messages alone: newcomers take the lowest free rows, by team and
    then by id.
    """

    rows: list[tuple[str, int] | None] = field(default_factory=list)  # key and id of who sits there

    def row(self, agent: tuple[str, int]) -> int:
        if agent not in self.rows:
            if None not in self.rows:
                self.rows += [None] * max(1, len(self.rows))
            self.rows[self.rows.index(None)] = agent
        return self.rows.index(agent)

    def seat(self, said: Mapping[str, Any]) -> dict[str, list[tuple[int, Any]]]:
        """By key, the infos with their rows."""
        for key, infos in sorted(said.items(), key=lambda item: item[0]):  # the message itself has no order
            for id in sorted({one.id for one in infos.value}):
                self.row((key, id))
        return {key: [(self.row((key, one.id)), one) for one in infos.value] for key, infos in said.items()}

    def leave(self, said: Mapping[str, Any]) -> None:
        for key, infos in said.items():
            asking = {one.id for one in infos.value if not one.done}
            for one in infos.value:
                if one.done and one.id not in asking:
                    self.rows[self.row((key, one.id))] = None


def views(one: Any) -> list[torch.Tensor]:
    """Vectors as they were sent; images are looked at elsewhere."""
    return [torch.tensor(list(obs.float_data.data)).reshape(*obs.shape) for obs in one.observations]


def check(step: TimeStep, seated: Mapping[str, list[tuple[int, Any]]]) -> None:
    everyone = [(key, row, one) for key, some in seated.items() for row, one in some]
    asking = {row: (key, one) for key, row, one in everyone if not one.done}
    ended = {row: one for _, row, one in everyone if one.done}
    assert set(step.acting.nonzero().flatten().tolist()) == set(asking)
    assert step.terminated.nonzero().flatten().tolist() == sorted(
        row for row, one in ended.items() if not one.max_step_reached
    )
    assert step.truncated.nonzero().flatten().tolist() == sorted(
        row for row, one in ended.items() if one.max_step_reached
    )
    assert step.final_obs.slots.tolist() == sorted(ended)
    assert step.lost is None or not step.lost.any()
    for i, row in enumerate(sorted(ended)):
        assert all(torch.equal(obs[i], view) for obs, view in zip(step.final_obs.obs, views(ended[row]), strict=True))
    for row, (key, one) in asking.items():
        assert all(torch.equal(obs[row], view) for obs, view in zip(step.obs, views(one), strict=True))
        assert step.team[row] == int(key.partition("=")[2])
        if step.action_mask is not None:
            wanted = [not forbidden for forbidden in one.action_mask] or [True] * step.action_mask.shape[1]
            assert step.action_mask[row].tolist() == wanted
    for row, one in {**{row: one for row, (_, one) in asking.items()}, **ended}.items():
        assert (step.reward[row], step.group_reward[row]) == (np.float32(one.reward), np.float32(one.group_reward))
    mates = {row: one.group_id for row, (_, one) in asking.items()}
    for row, group in mates.items():
        assert (step.group[row] == -1) == (group == 0)
        assert all((step.group[row] == step.group[other]) == (group == mates[other]) for other in mates if group)


def recorded(spec: ActionSpec, slots: int, answer: Any, seated: Mapping[str, list[tuple[int, Any]]]) -> Action:
    """The actions of a recorded answer, in the rows of those who asked."""
    continuous = torch.zeros(slots, spec.continuous)
    discrete = torch.zeros(slots, len(spec.branches), dtype=torch.int64)
    for key, some in seated.items():
        asking = [row for row, one in some if not one.done]
        for row, action in zip(asking, answer.unity_input.rl_input.agent_actions[key].value, strict=True):
            continuous[row] = torch.tensor(list(action.continuous_actions))
            discrete[row] = torch.tensor(list(action.discrete_actions), dtype=torch.int64)
    return Action(continuous, discrete)


def meaning(answer: Any, first: bool) -> tuple[Any, ...]:
    """Of a trainer's answer; that to the first reset carries settings of either trainer's own."""
    given = answer.unity_input
    actions = {
        key: [
            (list(one.continuous_actions), list(one.discrete_actions), list(one.vector_actions_deprecated))
            for one in some.value
        ]
        for key, some in given.rl_input.agent_actions.items()
        if some.value
    }
    init = given.rl_initialization_input
    side_channel = b"" if first else given.rl_input.side_channel
    return (
        answer.header.status,
        given.rl_input.command,
        actions,
        init.communication_version,
        init.num_areas,
        init.capabilities,
        side_channel,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_game_gets_the_answers_it_got(name: str) -> None:
    messages = [message for _, message in read(FOLDER / f"{name}.txt")]
    # the first two requests introduce the game and ask for a command
    told = messages[4::2]
    answers = messages[5::2]
    table = Table()
    behavior = name.capitalize()
    with opened() as env, in_thread(lambda: replay(requests(name), Client(env.options.editor_port))) as replies:
        steps = env.reset(7)
        for message, answer in zip(told, answers, strict=True):
            said = message.unity_output.rl_output.agentInfos
            seated = table.seat(said)
            assert steps.keys() == {behavior}
            assert len(steps[behavior].acting) == len(table.rows)
            check(steps[behavior], seated)
            table.leave(said)
            if answer.header.status != 200:
                break
            if answer.unity_input.rl_input.command == RESET:
                table = Table()
                steps = env.reset(7)
                continue
            steps = env.step({behavior: recorded(env.behaviors[behavior].action, len(table.rows), answer, seated)})
        assert env.behaviors[behavior] == SPECS[behavior]
        env.close()
    assert len(replies.result) == len(messages) // 2
    for i, (ours, theirs) in enumerate(zip(replies.result, messages[1::2], strict=True)):
        assert meaning(ours, i < 2) == meaning(theirs, i < 2), f"answer {i + 1}"
