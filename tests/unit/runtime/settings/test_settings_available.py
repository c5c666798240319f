from __future__ import annotations

import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import BehaviorSettings, RunSettings, load
from palaestra.runtime.settings.loading import NOT_YET, not_available

ASKS = {
    "threaded": True,
}


def test_every_line_of_the_table_can_refuse():
    tree = {"behaviors": {"Ball": ASKS}}
    found = not_available(RunSettings.model_validate(tree))
    assert len(found) == len(NOT_YET)


def test_defaults_written_out_are_not_refused():
    assert not_available(RunSettings(behaviors={"Ball": BehaviorSettings()}, default_settings=BehaviorSettings())) == []


def test_all_refusals_are_in_one_message():
    with pytest.raises(ConfigError) as caught:
        load({"behaviors": {"Ball": {"threaded": True}, "Bat": {"threaded": True}}})
    assert str(caught.value) == (
        "2 settings ask for what is not available yet:\n"
        "  behaviors.Ball.threaded: learning while collecting is not available yet\n"
        "  behaviors.Bat.threaded: learning while collecting is not available yet"
    )


def test_what_default_settings_ask_for_is_refused_once_and_there():
    tree = {"default_settings": {"threaded": True}, "behaviors": {"A": {}, "B": {"max_steps": 3}}}
    with pytest.raises(ConfigError, match=r"^default_settings.threaded: learning while collecting is not available yet$"):
        load(tree)
