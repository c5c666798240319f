from typing import Any

import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings.sourced_settings import SourcedSettings, dotted
from palaestra.runtime.settings.yaml_file import parse

FILE = """\
behaviors:
  Ball: {max_steps: 1}
  Cart.Pole-v1.5: {max_steps: 1}
environment_parameters:
  a.b: 1
  c: {curriculum: [{value: 1}, {value: 2}]}
"""


def changed(*sets: str, text: str = FILE) -> dict[str, Any]:
    sourced = SourcedSettings(parse(text), None)
    for each in sets:
        sourced.apply_set(each)
    return sourced.tree


def test_a_value_is_read_as_yaml():
    sets = ("max_steps=5e5", "init_path=a=b", "self_play=")
    tree = changed(*(f"behaviors.Ball.{each}" for each in sets), "debug=true")
    assert tree["behaviors"]["Ball"] == {"max_steps": 500000.0, "init_path": "a=b", "self_play": None}
    assert tree["debug"] is True


def test_maps_on_the_way_are_made():
    assert changed("behaviors.Ball.network_settings.memory.memory_size=4")["behaviors"]["Ball"]["network_settings"] == {
        "memory": {"memory_size": 4}
    }


def test_names_may_hold_dots():
    parameters = ("environment_parameters.a.b=3", "environment_parameters.d.e=4")
    tree = changed("behaviors.Cart.Pole-v1.5.max_steps=2", *parameters)
    assert tree["behaviors"]["Cart.Pole-v1.5"]["max_steps"] == 2
    assert tree["environment_parameters"]["a.b"] == 3
    assert tree["environment_parameters"]["d.e"] == 4


def test_classes_of_modules_are_one_key():
    tree = changed("behaviors.Ball.reward_signals.a.b:Bonus.strength=2", "trackers.a.b:Log.file=x")
    assert tree["behaviors"]["Ball"]["reward_signals"] == {"a.b:Bonus": {"strength": 2}}
    assert tree["trackers"]["a.b:Log"] == {"file": "x"}


def test_a_star_is_every_behavior_and_the_default():
    tree = changed("behaviors.*.max_steps=9", text=FILE + "default_settings: {max_steps: 2}\n")
    assert [block["max_steps"] for block in (*tree["behaviors"].values(), tree["default_settings"])] == [9, 9, 9]


def test_the_values_of_a_star_are_not_shared():
    tree = changed("behaviors.*.network_settings={num_layers: 1}", "behaviors.Ball.network_settings.num_layers=2")
    assert tree["behaviors"]["Cart.Pole-v1.5"]["network_settings"] == {"num_layers": 1}


def test_an_item_of_a_list_goes_by_its_position():
    parameters = changed("environment_parameters.c.curriculum.1.value=7")["environment_parameters"]
    assert parameters["c"]["curriculum"][1]["value"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("debug", "expected PATH=VALUE"),
        ("=3", "expected PATH=VALUE"),
        ("a..b=3", "expected PATH=VALUE"),
        ("debug=[}", "the value is not YAML"),
        (
            "behaviors.Bal.max_steps=3",
            "no behavior is named 'Bal'; did you mean 'Ball'? (there are: Ball, Cart.Pole-v1.5)",
        ),
        ("behaviors.Ball.max_steps.x=3", "behaviors.Ball.max_steps is 1, not a map with a key 'x'"),
        (
            "environment_parameters.c.curriculum.2.value=7",
            "environment_parameters.c.curriculum is a list; expected a position within 0..1, got '2'",
        ),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(text, message):
    with pytest.raises(ConfigError) as caught:
        changed(text)
    assert str(caught.value).startswith(f"--set {text}: {message}")


def test_an_unlisted_behavior_may_be_set_where_default_settings_cover_it():
    tree = changed("behaviors.New.One.network_settings.num_layers=1", text="default_settings: {}\n")
    assert tree["behaviors"] == {"New.One": {"network_settings": {"num_layers": 1}}}


def test_the_source_of_a_value_is_the_last_that_gave_it():
    text = "default_settings:\n  time_horizon: 3\nbehaviors:\n  Ball:\n    max_steps: 1\n"
    sourced = SourcedSettings(parse(text), None)
    every = {"*": {"network_settings": {"deterministic": True}}}
    sourced.apply_flags({"env_settings": {"env_path": "x"}, "behaviors": every})
    sourced.apply_set("behaviors.Ball.max_steps=2")
    assert sourced.source(("env_settings", "env_path")).where == "--env"
    assert sourced.source(("behaviors", "Ball", "network_settings", "deterministic")).where == "--deterministic"
    assert sourced.source(("behaviors", "Ball", "max_steps")).where == "--set behaviors.Ball.max_steps=2"
    assert sourced.source(("behaviors", "Ball", "time_horizon")).line == 2
    assert sourced.source(("behaviors", "Ball", "summary_freq")).line == 4


def test_a_path_is_written_with_dots_and_positions():
    assert dotted(("a", "b", 0, "c")) == "a.b[0].c"
