import numpy as np
import pytest
from unity_infos import KEY, Brain, agent, brain, floats, infos, reader

from palaestra.core.errors import ProtocolError
from palaestra.core.specs import ActionSpec
from palaestra.wire.readers import AgentInfoReader, split_key

SEES = floats([1.0, 2.0], name="eyes")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("Ball?team=0", ("Ball", 0)),
        ("Ball?team=12", ("Ball", 12)),
        ("Ball", ("Ball", 0)),
        ("My/Ball 2?team=-1", ("My/Ball 2", -1)),
    ],
)
def test_a_key_is_a_name_and_a_team(key: str, expected: tuple[str, int]) -> None:
    assert split_key(key) == expected


@pytest.mark.parametrize(
    "key", ["Ball?team=", "Ball?team=blue", "Ball?side=1", "Ball?team=1.5", "Ball?team=99999999999"]
)
def test_a_team_that_is_no_number_is_an_error(key: str) -> None:
    with pytest.raises(ProtocolError, match=r"expected a name, or a name and a team such as 'Ball.team=0'"):
        split_key(key)


def test_sensors_get_unique_names() -> None:
    names = ["eyes", "", "eyes", "eyes_2", ""]
    seen = reader(agent(0, *(floats([1], name=name) for name in names))).spec.obs
    assert [obs.name for obs in seen] == ["eyes", "obs_1", "eyes_2", "eyes_2_2", "obs_4"]


@pytest.mark.parametrize(
    ("brain", "expected"),
    [
        (brain(2), ActionSpec(2)),
        (brain(0, (3, 2)), ActionSpec(0, (3, 2))),
        (brain(1, (4,)), ActionSpec(1, (4,))),
        (Brain(action_spec={"num_discrete_actions": 9, "discrete_branch_sizes": [2]}), ActionSpec(0, (2,))),
        (Brain(vector_action_space_type_deprecated=1, vector_action_size_deprecated=[6, 7]), ActionSpec(6)),
        (Brain(vector_action_space_type_deprecated=0, vector_action_size_deprecated=[6, 7]), ActionSpec(0, (6, 7))),
    ],
)
def test_actions_are_what_the_brain_parameters_say_in_new_fields_or_old(brain: Brain, expected: ActionSpec) -> None:
    assert AgentInfoReader(KEY, brain, infos(agent(0, SEES)), "").spec.action == expected


@pytest.mark.parametrize(
    ("brain", "says"),
    [
        (Brain(), "behavior 'Ball' has no actions; set the number of continuous actions"),
        (Brain(vector_action_space_type_deprecated=1), "has no actions"),
        (brain(0, (3, 0)), "behavior 'Ball': actions of 0 numbers and branches"),
        (brain(-1), "behavior 'Ball': actions of -1 numbers"),
        (brain(0, (1 << 30,)), "too many"),
    ],
)
def test_impossible_actions_are_refused(brain: Brain, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        AgentInfoReader(KEY, brain, infos(agent(0, SEES)), "")


def test_a_reader_knows_name_and_team() -> None:
    here = AgentInfoReader("Ball?team=3", brain(1), infos(agent(0, SEES)), "")
    assert (here.name, here.team) == ("Ball", 3)


def test_ended_agents_are_seen_like_the_others() -> None:
    here = reader(agent(0, SEES))
    (column,) = here.observations(infos(agent(0, floats([3, 4]), done=True), agent(0, SEES)))
    np.testing.assert_array_equal(column, [[3, 4], [1, 2]])


def test_every_observation_has_a_column() -> None:
    one = agent(0, SEES, floats([7], name="ears"))
    assert [column.tolist() for column in reader(one).observations(infos(one))] == [[[1, 2]], [[7]]]


def test_another_number_of_observations_is_an_error() -> None:
    with pytest.raises(
        ProtocolError, match=r"'Ball': its agents sent 2 observations; expected 1 \(eyes\), as in the first message"
    ):
        reader(agent(0, SEES)).observations(infos(agent(0, SEES, SEES)))


@pytest.mark.parametrize("branches", [(), (3, 2)])
def test_without_masks_in_the_message_there_is_none(branches: tuple[int, ...]) -> None:
    one = agent(0, SEES)
    assert reader(one, branches=branches).masks(infos(one, agent(1, SEES, done=True, action_mask=[True] * 5))) is None


def test_a_mask_says_what_is_allowed() -> None:
    masked = agent(0, SEES, action_mask=[True, False, False, False, True])
    allowed = reader(masked, branches=(3, 2)).masks(
        infos(agent(1, SEES), masked, agent(0, SEES, done=True, action_mask=[True] * 5))
    )
    assert allowed is not None
    assert allowed.tolist() == [[True] * 5, [False, True, True, True, False], [True] * 5]


def test_a_mask_of_a_wrong_length_is_ignored_with_one_warning() -> None:
    wrong = agent(4, SEES, action_mask=[True] * 4)
    right = agent(5, SEES, action_mask=[True, False, False, False, False])
    here = reader(wrong, branches=(3, 2))
    for _ in range(2):
        allowed = here.masks(infos(wrong, right))
        assert allowed is not None
        assert allowed.tolist() == [[True] * 5, [False, True, True, True, True]]
    assert here.masks(infos(wrong)) is None
    assert len(here.warnings) == 1
    assert "behavior 'Ball', agent 4: its mask is for 4 choices, but it has 5" in here.warnings[0]


def test_a_branch_with_nothing_allowed_is_an_error() -> None:
    stuck = agent(6, SEES, action_mask=[False, False, False, True, True])
    with pytest.raises(ProtocolError, match="behavior 'Ball', agent 6: its mask forbids all 2 choices of branch 1"):
        reader(stuck, branches=(3, 2)).masks(infos(agent(0, SEES), stuck))


def test_teams_may_name_the_same_sensors_differently() -> None:
    blue = reader(agent(0, floats([1, 2], name="blue eyes")))
    blue.matches(reader(agent(0, floats([1, 2], name="red eyes"))).spec)


@pytest.mark.parametrize(
    "other",
    [
        reader(agent(0, floats([1, 2, 3], name="eyes"))),
        reader(agent(0, SEES), branches=(3,)),
        reader(agent(0, SEES, SEES)),
        reader(agent(0, floats([1, 2], name="eyes", observation_type=1))),
    ],
)
def test_a_behavior_that_changes_its_spec_is_an_error(other: AgentInfoReader) -> None:
    with pytest.raises(ProtocolError, match="share a policy") as raised:
        other.matches(reader(agent(0, SEES)).spec)
    assert "before  observations: eyes 2; actions: 1 continuous\n  now     observations: eyes" in str(raised.value)
