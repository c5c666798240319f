import sys
from pathlib import Path

import pytest

from palaestra.core.errors import EnvError
from palaestra.runtime.environments.unity_games import user_channels
from palaestra.runtime.run.run_settings import with_channels
from palaestra.runtime.settings import load
from palaestra.wire.side_channels import SideChannels, pack

GOOD = """
from uuid import UUID

from palaestra.wire.side_channels import SideChannel


class Scores(SideChannel):
    def __init__(self):
        super().__init__(UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7"))
        self.heard = []

    def receive(self, message, copy):
        self.heard.append((copy, message.read_string()))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def test_a_class_of_the_current_folder_becomes_a_channel(folder: Path):
    (folder / "scores_channel_module.py").write_text(GOOD)
    (channel,) = user_channels(["scores_channel_module:Scores"])
    SideChannels([channel], 2, pytest.fail).incoming(1, pack([(channel.channel_id, b"\2\0\0\0hi")]))
    assert vars(channel)["heard"] == [(1, "hi")]
    assert user_channels([]) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Scores", "'Scores' is incomplete; expected module:Class, such as my_channels:Scores"),
        ("nowhere_at_all:Scores", "side channel 'nowhere_at_all:Scores': there is no module 'nowhere_at_all'"),
        ("odd_channels_module:scored", "has no 'scored'; did you mean 'Scored'"),
        ("odd_channels_module:NUMBER", "'NUMBER' is an instance of int; expected a subclass of SideChannel"),
        ("odd_channels_module:Scored", "is an instance of Scored; expected a subclass of"),
        ("odd_channels_module:Needy", r"could not be made \(its class is called without arguments\): TypeError"),
        ("odd_channels_module:Broken", "could not be made \\(its class is called without arguments\\): KeyError: 'x'"),
    ],
)
def test_a_name_that_gives_no_channel_is_an_error_that_says_why(folder: Path, name: str, says: str):
    (folder / "odd_channels_module.py").write_text(
        "NUMBER = 5\nclass Scored:\n    pass\nclass Needy:\n    def __init__(self, number):\n        pass\n\n"
        "class Broken:\n    def __init__(self):\n        {}['x']\n"
    )
    with pytest.raises(EnvError, match=says):
        user_channels([name])


def test_a_channel_beside_the_settings_file_is_named_with_its_folder_so_that_a_resumed_run_finds_it(folder: Path):
    (folder / "configs").mkdir()
    (folder / "configs" / "channel_beside_settings.py").write_text(GOOD)
    file = Path("configs/game.yaml")
    channels = "[channel_beside_settings:Scores, elsewhere:Scores]"
    file.write_text(f"default_settings: {{trainer_type: ppo}}\nenv_settings: {{side_channels: {channels}}}\n")
    env = with_channels(load(file)).settings.env_settings
    assert env.side_channels == ("configs/channel_beside_settings:Scores", "elsewhere:Scores")
    (channel,) = user_channels(env.side_channels[:1])
    assert type(channel).__name__ == "Scores"
