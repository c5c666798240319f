import json
from typing import Any
from uuid import UUID

import pytest
from small_runs import settings
from unity_games import make_build

import palaestra
from palaestra.core.errors import PalaestraError
from palaestra.envs.base import hashed
from palaestra.envs.unity.analytics import ANALYTICS
from palaestra.runtime.logging.tracker import Summary
from palaestra.wire.messages import Any_, message_class
from palaestra.wire.side_channels import IncomingMessage, unpack
from palaestra.wire.unity_channels import ENGINE, PARAMETERS

pytestmark = pytest.mark.usefixtures("patient_games")

GREETING = UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7")
OWN = f"""
from uuid import UUID

from palaestra.wire.side_channels import OutgoingMessage, SideChannel


class Greeting(SideChannel):
    def __init__(self):
        super().__init__(UUID("{GREETING}"))

    def on_connect(self, copy):
        message = OutgoingMessage()
        message.write_string("hello %d" % copy)
        self.send(message, copy)
"""


def test_a_run_and_its_games_hear_all_that_they_have_to_say_to_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greeting_channel_module.py").write_text(OWN)
    build = make_build(tmp_path, "Ball", agents=4, stats=True, copies=2, notes=tmp_path / "notes")
    config = {**settings("Ball", 400, summary_freq=100), "environment_parameters": {"size": 2.5}}
    summaries: list[Summary] = []
    options: dict[str, Any] = {
        "num_envs": 2,
        "seed": 3,
        "side_channels": ["greeting_channel_module:Greeting"],
        "time_scale": 3.0,
    }
    palaestra.train(config, env=str(build), run_id="run", quiet=True, callbacks=[summaries.append], **options)
    assert len(summaries) >= 3
    assert all(0 <= summary.values["Ball/Age"] <= 9 for summary in summaries)
    logged = [json.loads(line) for line in (tmp_path / "results" / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["Ball/Age"] for line in logged] == [pytest.approx(summary.values["Ball/Age"]) for summary in summaries]
    heard = [
        unpack(bytes.fromhex(json.loads(note.read_text())["side_channel"]))
        for note in (tmp_path / "notes").glob("*.end.json")
    ]
    assert len(heard) == 2
    told = []
    greetings = []
    for messages in heard:
        assert [payload[4:8] for id, payload in messages if id == ENGINE][2] == b"\0\0\x40\x40"
        (size,) = [IncomingMessage(payload) for id, payload in messages if id == PARAMETERS]
        assert (size.read_string(), size.read_int32(), size.read_float32()) == ("size", 0, 2.5)
        told += [Any_.FromString(payload) for id, payload in messages if id == ANALYTICS]
        greetings += [IncomingMessage(payload).read_string() for id, payload in messages if id == GREETING]
    assert sorted(greetings) == ["hello 0", "hello 1"]
    run, ball = told
    assert message_class("communicator_objects.TrainingEnvironmentInitialized").FromString(run.value).num_envs == 2
    assert message_class("communicator_objects.TrainingBehaviorInitialized").FromString(
        ball.value
    ).behavior_name == hashed("Ball")


def test_a_users_channel_that_is_not_there_ends_the_run_before_any_game_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = make_build(tmp_path, "Ball", notes=tmp_path / "notes")
    with pytest.raises(PalaestraError, match="side channel 'no_such_channels_module:X': there is no module"):
        palaestra.train(
            settings("Ball"), env=str(build), run_id="run", quiet=True, side_channels=["no_such_channels_module:X"]
        )
    assert not (tmp_path / "notes").exists()


def test_each_copy_draws_with_a_seed_of_its_own_and_is_told_again_only_when_its_lesson_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    build = make_build(tmp_path, "Ball", agents=4, copies=2, notes=tmp_path / "notes")
    uniform = {"sampler_type": "uniform", "sampler_parameters": {"min_value": 0.5, "max_value": 10}}
    ranges = {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[0, 1], [2, 3]], "seed": 6863}}
    met = {"behavior": "Ball", "measure": "progress", "threshold": 0.4, "require_reset": True}
    lessons = [{"name": "first", "value": ranges, "completion_criteria": met}, {"name": "second", "value": 4.0}]
    config = {
        **settings("Ball", 600, summary_freq=100),
        "environment_parameters": {"mass": uniform, "size": {"curriculum": lessons}},
    }
    palaestra.train(config, env=str(build), run_id="run", quiet=True, num_envs=2, seed=3)
    seeds = []
    for note in sorted((tmp_path / "notes").glob("*.end.json")):
        message = unpack(bytes.fromhex(json.loads(note.read_text())["side_channel"]))
        mass, first, second = [IncomingMessage(payload) for id, payload in message if id == PARAMETERS]
        assert [mass.read_string(), mass.read_int32()] == ["mass", 1]
        seeds.append(mass.read_int32())
        assert [mass.read_int32(), mass.read_float32(), mass.read_float32()] == [0, 0.5, 10.0]
        assert [first.read_string(), first.read_int32()] == ["size", 1]
        seeds.append(first.read_int32())
        assert [first.read_int32(), first.read_float32_list()] == [2, [0.0, 1.0, 2.0, 3.0]]
        assert [second.read_string(), second.read_int32(), second.read_float32()] == ["size", 0, 4.0]
    assert len(set(seeds)) == 4
    assert 6863 in seeds
