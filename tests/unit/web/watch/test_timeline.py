"""The chart of an agent's last ticks."""

import numpy as np
import torch

from palaestra.brains.player_keys import action_names
from palaestra.core.specs import ActionSpec
from palaestra.runtime.playback.agent_history import Moment
from palaestra.runtime.playback.inspection import Sayings
from palaestra.web.watch.timeline_card import parts_of, timeline_options

SPEC = ActionSpec(continuous=1, branches=(3,))


def moment(tick: int, reward: float, *, ended: bool = False) -> Moment:
    return Moment(tick, (), None, np.array([0.5 * tick], np.float32), np.array([1]), reward, ended, None)


def test_values_probabilities_and_entropy_stand_where_a_network_says_them():
    moments = [moment(4, 0.0), moment(5, 1.0, ended=True)]
    assert [part.title for part in parts_of(moments, None, SPEC, "A")] == ["reward", "actions"]
    choices = [torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])]
    said = Sayings(torch.zeros(2, 1), torch.ones(1), choices, torch.tensor([1.5, -1.0]), torch.tensor([1.0, 0.0]))
    parts = parts_of(moments, said, SPEC, "A")
    assert [part.title for part in parts] == ["reward", "value", "probabilities", "actions", "entropy"]
    options = timeline_options(moments, parts, at=4)
    shares = [one for one in options["series"] if "areaStyle" in one]
    assert [one["data"][0][1] for one in shares] == [0.2, 0.3, 0.5]
    value = next(one for one in options["series"] if one["name"] == "value")
    assert value["data"] == [[4, 1.5], [5, -1.0]]
    marks = options["series"][0]["markLine"]["data"]
    assert [mark["xAxis"] for mark in marks] == [5, 4]  # the end of an episode, then what is looked at
    assert len(options["grid"]) == len(options["xAxis"]) == 5


def test_actions_have_the_names_of_their_keys():
    assert action_names("GridWorld", ActionSpec(branches=(5,))) == ([], [["none", "up", "down", "left", "right"]])
    assert action_names("3DBall", ActionSpec(continuous=2))[0] == ["tilt left / tilt right", "tilt back / tilt forward"]
    assert action_names("unknown", SPEC) == (["action 0"], [["0", "1", "2"]])
