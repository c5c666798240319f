"""Flags of mlagents-learn of all ages: each works, or its answer is the command to type."""

from typing import Any

import pytest

from palaestra.cli.commands import make_parser, parse
from palaestra.cli.learn import overrides
from palaestra.cli.old_flags import settle
from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import RunSettings, load

AGES = {
    "0.2": "--curriculum --docker-target-name --keep-checkpoints --lesson --load --no-graphics --num-runs --run-id "
    "--save-freq --seed --slow --train --worker-id --run-path --fast",
    "0.4": "--env --curriculum --docker-target-name --keep-checkpoints --lesson --load --no-graphics --num-runs "
    "--run-id --save-freq --seed --slow --train --worker-id",
    "0.10": "--env --curriculum --sampler --keep-checkpoints --lesson --load --run-id --num-runs --save-freq --seed "
    "--train --base-port --num-envs --docker-target-name --no-graphics --debug --multi-gpu --env-args",
    "0.16": "--env --curriculum --sampler --keep-checkpoints --lesson --load --resume --force --run-id "
    "--initialize-from --save-freq --seed --train --inference --base-port --num-envs --no-graphics --debug --env-args "
    "--cpu --version --width --height --quality-level --time-scale --target-frame-rate",
    "0.21": "--env --resume --force --run-id --initialize-from --seed --inference --base-port --num-envs --debug "
    "--env-args --width --height --quality-level --time-scale --target-frame-rate --capture-frame-rate --no-graphics "
    "--torch --tensorflow --torch-device",
    "1.1": "--deterministic --num-areas --max-lifetime-restarts --restarts-rate-limit-n "
    "--restarts-rate-limit-period-s --results-dir --timeout-wait --no-graphics-monitor --torch-device --load --train",
}
REWARDED = {"behavior": "A", "measure": "reward", "threshold": 1}
LESSONS = [{"name": f"L{i}", "value": i, "completion_criteria": REWARDED} for i in range(3)]
CURRICULUM = {"behaviors": {"A": {}}, "environment_parameters": {"x": {"curriculum": LESSONS}}}


def settled(line: str, tree: Any = None) -> tuple[RunSettings, list[str]]:
    """Returns the settings after the flags of a line, and the notes about these."""
    options = parse(make_parser("learn"), ["learn", "x.yaml", *line.split()])
    notes = settle(options)
    return load({"behaviors": {"A": {}}} if tree is None else tree, overrides(options)).settings, notes


def refusal(line: str) -> str:
    with pytest.raises(ConfigError) as error:
        settle(parse(make_parser("learn"), ["learn", *line.split()]))
    return str(error.value)


@pytest.mark.parametrize("age", AGES)
def test_no_flag_of_any_age_is_unknown(age: str):
    known = make_parser("learn")._subparsers._group_actions[0].choices["learn"]._option_string_actions  # type: ignore[union-attr,index]
    assert [flag for flag in AGES[age].split() if flag not in known] == []


@pytest.mark.parametrize(
    ("line", "section", "key", "value"),
    [
        ("--slow", "engine_settings", "time_scale", 1.0),
        ("--slow --time-scale=3", "engine_settings", "time_scale", 3.0),
        ("--cpu", "torch_settings", "device", "cpu"),
        ("--worker-id=3", "env_settings", "base_port", 5008),
        ("--worker-id=3 --base-port=6000", "env_settings", "base_port", 6003),
        ("--run-path=first", "checkpoint_settings", "run_id", "first"),
        ("--multi-gpu", "torch_settings", "gpus", -1),
    ],
)
def test_a_flag_with_a_successor_sets_what_its_successor_sets(line: str, section: str, key: str, value: object):
    assert getattr(getattr(settled(line)[0], section), key) == value


def test_what_was_saved_how_often_can_be_given_as_before():
    tree = {"default_settings": {}, "behaviors": {"A": {}, "B": {}}}
    settings, notes = settled("--save-freq=1000 --keep-checkpoints 2", tree)
    for block in (settings.default_settings, *settings.behaviors.values()):
        assert (block.checkpoint_interval, block.keep_checkpoints) == (1000, 2)
    assert notes == [
        "--keep-checkpoints=2 is --set keep_checkpoints=2 now",
        "--save-freq=1000 is --set checkpoint_interval=1000 now",
    ]


def test_a_wrong_value_of_an_old_flag_names_that_flag():
    with pytest.raises(ConfigError, match=r"--save-freq: behaviors\.A.checkpoint_interval: expected a number greater"):
        settled("--save-freq=0")


def test_flags_without_meaning_say_so():
    _, notes = settled("--fast --torch --num-runs=1 --docker-target-name=Empty")
    assert [note.partition(":")[0] for note in notes] == ["--torch has no effect", "--fast has no effect"]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("old.yaml --curriculum walls --sampler draw.yaml", "`palaestra upgrade old.yaml old.new.yaml --curriculum"),
        ("--sampler=draw.yaml", "`palaestra upgrade TRAINER_FILE NEW_FILE --sampler draw.yaml`"),
        ("ball.yaml --env=Ball --docker-target-name=volume", "`palaestra learn /volume/ball.yaml --env=/volume/Ball"),
        ("--num-runs=3 --run-id=first", "`--run-id=first --seeds=3` trains first-seed-1 to first-seed-3"),
        ("3DBall --train", "`palaestra learn --env=3DBall`"),
        ("builds/game.x86_64 --train", "`palaestra learn --env=builds/game.x86_64`"),
        ("builds/game --train", "`palaestra learn --env=builds/game`"),
    ],
)
def test_what_cannot_be_followed_is_answered_with_the_command(line, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds/game.x86_64").touch()
    assert command in refusal(line)


def test_an_abbreviation_prefers_flags_that_still_exist():
    assert parse(make_parser("learn"), ["learn", "--cap=3", "--num-e=2", "--num-a=4"]).capture_frame_rate == 3
    options = parse(make_parser("learn"), ["learn", "--wor=3", "--less=1"])
    assert (options.worker_id, options.first_lesson) == (3, 1)


def test_a_misspelt_flag_is_not_led_to_an_old_one(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(make_parser("learn"), ["learn", "--tensorflw"])
    assert "--tensorflow" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--lesson=3", "--lesson: env_settings.first_lesson: there is no lesson 3: 'x' has 0 to 2"),
        ("--lesson=-1", "--lesson: env_settings.first_lesson: expected a number of at least 0, got -1"),
        ("--lesson=1 --resume", "only a new run can begin with another lesson"),
        ("--lesson=1 --inference", "only a new run can begin with another lesson"),
    ],
)
def test_a_lesson_that_cannot_be_the_first_is_refused(line: str, message: str):
    with pytest.raises(ConfigError, match=message):
        settled(line, CURRICULUM)
    with pytest.raises(ConfigError, match="the settings have no curriculum"):
        settled("--lesson=1")


@pytest.mark.parametrize(
    ("typed", "now"), [("mlagents-learn", "palaestra learn"), ("mlagents.trainers.upgrade_config", "palaestra upgrade")]
)
def test_a_command_of_ml_agents_is_answered_with_ours(typed: str, now: str, terminal):
    assert f"'{typed}' is a command of ML-Agents; use `{now}`" in terminal.fails(typed, "x.yaml", status=2)
