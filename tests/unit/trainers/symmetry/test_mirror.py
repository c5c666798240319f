import pytest
import torch

from palaestra.core.errors import ConfigError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.runtime.settings.yaml_file import parse
from palaestra.trainers.symmetry.mirror import Mirror
from palaestra.trainers.symmetry.mirror_settings import MirrorSettings, mirror_tree

SPEC = BehaviorSpec(
    (ObsSpec("own", (4,)), ObsSpec("rays", (12,)), ObsSpec("camera", (3, 2, 2)), ObsSpec("things", (2, 2))),
    ActionSpec(3, (3, 2, 2)),
)
SETTINGS = {
    "observations": {
        "own": [0, "-1", 3, 2],
        "rays": {"frames": 2, "size": 2, "swap": [[1, 2]]},
        "cam*": {"flip": "columns"},
        "things": {"negate": [0]},
    },
    "actions": {
        "continuous": {"swap": [[0, 1]], "negate": ["0-1"]},
        "discrete": {0: {"swap": [[1, 2]]}, 2: [1, 0]},
    },
}


def made(changes=None, actions=None) -> Mirror:
    tree = {
        "observations": {**SETTINGS["observations"], **(changes or {})},
        "actions": {**SETTINGS["actions"], **(actions or {})},
    }
    return Mirror(MirrorSettings.model_validate(tree), SPEC, torch.device("cpu"))


def test_a_mirror_worked_by_hand_undoes_itself():
    mirror = made()
    image = torch.arange(12.0).view(1, 3, 2, 2)
    obs = (torch.tensor([[1.0, 2, 3, 4]]), torch.arange(12.0)[None], image, torch.tensor([[[1.0, 2], [0, 0]]]))
    seen = mirror.obs(obs)
    assert seen[0].tolist() == [[1, -2, 4, 3]]
    assert seen[1].tolist() == [[0, 1, 4, 5, 2, 3, 6, 7, 10, 11, 8, 9]]
    assert seen[2][0, 0].tolist() == [[1, 0], [3, 2]]
    assert seen[3].tolist() == [[[-1, 2], [0, 0]]]
    action = Action(torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[1, 0, 1]]))
    other = mirror.action(action)
    torch.testing.assert_close(other.continuous, torch.tensor([[-0.2, -0.1, 0.3]]))
    assert other.discrete.tolist() == [[2, 0, 0]]
    mask = torch.tensor([[True, False, True, True, False, True, True]])
    assert mirror.mask(mask).tolist() == [[True, True, False, True, False, True, True]]
    for again, before in zip(mirror.obs(seen), obs, strict=True):
        assert torch.equal(again, before)
    assert torch.equal(mirror.action(other).continuous, action.continuous)
    assert torch.equal(mirror.action(other).discrete, action.discrete)
    assert torch.equal(mirror.mask(mirror.mask(mask)), mask)


@pytest.mark.parametrize(
    ("changes", "actions", "message"),
    [
        ({"own": [1, 2, 0, 3]}, {}, "own: mirroring twice does not restore the original: place 0 gets number 1"),
        ({"own": {"swap": [[0, 1]], "negate": [0]}}, {}, "0 and 1 exchange places, and only one of them is negated"),
        ({"own": {"negate": [7]}}, {}, "own: place 7 is not there; expected 0 to 3"),
        ({"own": [0, 1]}, {}, "expected each of 0 to 3 once"),
        ({"rays": {"frames": 5}}, {}, "frames is 5, and its 12 numbers cannot be divided into so many equal frames"),
        ({"camera": {"negate": [0]}}, {}, "flip is for images, the other keys for numbers"),
        ({"camera": {"flip": "rows", "swap": [[0, 1]]}}, {}, "flip is for images, the other keys for numbers"),
        ({"own": {"flip": "rows"}}, {}, "flip is for images, and these are 4 numbers"),
        ({}, {"continuous": {"flip": "rows"}}, "continuous: flip is for images, and these are 3 numbers"),
        ({"own": {"order": [0, 1, 2, 3], "size": 2}}, {}, "give order alone, or swap, size and negate"),
        ({"camra": {"flip": "rows"}}, {}, "no observation is named 'camra'; did you mean 'camera'?"),
        ({}, {"discrete": {5: {"swap": [[0, 1]]}}}, "discrete.5: the behavior has 3 branches"),
        ({}, {"discrete": {0: [1, 2, 0]}}, "discrete.0: mirroring twice does not restore the original"),
        ({}, {"discrete": {1: {"negate": [0]}}}, "choices have no sign"),
    ],
)
def test_what_is_no_mirror_of_the_behavior_is_refused(changes, actions, message):
    with pytest.raises(ConfigError) as error:
        made(changes, actions)
    assert message in str(error.value)


def test_an_observation_that_is_not_named_is_refused():
    with pytest.raises(ConfigError, match=r"'own' .* is missing"):
        Mirror(MirrorSettings.model_validate({"observations": {"rays": "same"}}), SPEC, torch.device("cpu"))


def test_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1")
    for name, message in (("gone.yaml", "there is no file"), ("list.yaml", "is no mirror")):
        with pytest.raises(ValueError, match=message):
            mirror_tree(str(tmp_path / name))


@pytest.mark.parametrize("kind", ["a file", "its keys"])
def test_the_number_0_has_a_sign_with_and_without_quotes(tmp_path, kind):
    text = 'observations: {own: [-0, "-1", 2]}\nactions: {continuous: [0, -1]}\n'
    if kind == "a file":
        (tmp_path / "one.yaml").write_text(text)
        tree = mirror_tree(tmp_path / "one.yaml")
    else:
        tree = parse(text).tree
    spec = BehaviorSpec((ObsSpec("own", (3,)),), ActionSpec(2))
    mirror = Mirror(MirrorSettings.model_validate(tree), spec, torch.device("cpu"))
    assert mirror.obs((torch.ones(1, 3),))[0].tolist() == [[-1, -1, 1]]
    assert mirror.action(Action(torch.ones(1, 2), torch.zeros(1, 0))).continuous.tolist() == [[1, -1]]
