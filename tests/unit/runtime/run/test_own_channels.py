"""Side channels of a settings file: where their module may lie, and where nothing reads them."""

import sys

from small_runs import settings, write
from unity_games import make_build

import palaestra

CHANNEL = """
from uuid import uuid4
from palaestra.wire.side_channels import SideChannel
print("the channel's module is read")
class Greeter(SideChannel):
    def __init__(self): super().__init__(uuid4())
    def receive(self, message, copy): pass
"""


def test_a_channel_lies_beside_the_settings_and_is_for_games_only(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "beside_settings.py").write_text(CHANNEL)
    monkeypatch.chdir(tmp_path)
    for name in ("Ball", "Basic"):
        tree = {**settings(name, 60), "env_settings": {"side_channels": ["beside_settings:Greeter"]}}
        file = write(str(folder / f"{name}.yaml"), tree)
        env = str(make_build(tmp_path, "Ball")) if name == "Ball" else name
        palaestra.train(file, env=env, results_dir=str(tmp_path / name))
    words = capsys.readouterr().out
    assert words.count("the channel's module is read") == 1
    assert "side_channels are ignored: Basic is not a Unity game" in words
