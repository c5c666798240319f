"""Flags for the settings that are changed most, hints at full paths, and texts that fit 80 columns."""

from pathlib import Path

import pytest

from palaestra.cli.commands import COMMANDS, make_parser, parse
from palaestra.cli.learn import overrides
from palaestra.cli.main import main
from palaestra.core.errors import ConfigError
from palaestra.core.wording.most_changed import MOST_CHANGED
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.settings.fitting import preset_for
from palaestra.trainers.settings import PPOSettings, SACSettings

TWO = {"behaviors": {"A": {"trainer_type": "ppo"}, "B": {"trainer_type": "sac", "max_steps": 7000}}}


def loaded(tree: object, line: str, *sets: str) -> RunSettings:
    options = parse(make_parser("learn"), ["learn", "x.yaml", *line.split()])
    return load(tree, overrides(options), sets).settings  # type: ignore[arg-type]


def test_short_flags_reach_every_behavior_and_the_default_settings():
    line = (
        "--max-steps=1e5 --learning-rate 1e-3 --hidden-units=32 --num-layers 1 --batch-size=64 --buffer-size=640 "
        "--summary-freq=1e3"
    )
    settings = loaded({"default_settings": {"trainer_type": "ppo"}, **TWO}, line)
    for block in (settings.default_settings, *settings.behaviors.values()):
        hyper = block.hyperparameters.model_dump()
        network = block.network_settings
        assert (block.max_steps, block.summary_freq) == (100_000, 1000)
        assert (hyper["learning_rate"], hyper["batch_size"], hyper["buffer_size"]) == (1e-3, 64, 640)
        assert (network.hidden_units, network.num_layers) == (32, 1)


@pytest.mark.parametrize("tree", [{"behaviors": {"A": {"max_steps": 100_000}}}, {"behaviors": {"A": None}}, None])
def test_a_short_flag_for_a_hyperparameter_needs_no_trainer_type(tree: object):
    settings = loaded(tree, "--learning-rate=0.002")
    block = next(iter(settings.behaviors.values()), settings.default_settings)
    assert block.trainer_type == "ppo"
    assert block.hyperparameters.model_dump()["learning_rate"] == 0.002
    settings = loaded(tree, "", "hyperparameters.beta=0.3")
    block = next(iter(settings.behaviors.values()), settings.default_settings)
    assert block.hyperparameters == PPOSettings(beta=0.3)


def test_another_trainer_takes_none_of_the_hyperparameters_of_the_file(tmp_path: Path):
    file = tmp_path / "ball.yaml"
    file.write_text("behaviors:\n  Ball:\n    trainer_type: ppo\n    hyperparameters: {num_epoch: 9, batch_size: 7}\n")
    for line in ("--trainer=sac --batch-size=64", "--batch-size=64 --trainer=sac"):
        options = parse(make_parser("learn"), ["learn", str(file), *line.split()])
        found = load(file, overrides(options))
        ball = found.settings.behaviors["Ball"]
        assert (ball.trainer_type, ball.hyperparameters) == ("sac", SACSettings(batch_size=64))
        assert "ball.yaml:4: behaviors.Ball.hyperparameters: values of ppo are left out" in found.warnings[0]
    same = load(file, overrides(parse(make_parser("learn"), ["learn", str(file), "--trainer=ppo"])))
    assert same.settings.behaviors["Ball"].hyperparameters.model_dump()["num_epoch"] == 9
    assert same.warnings == ()


@pytest.mark.parametrize(
    ("trainer", "file"), [(None, "sac/Pendulum-v1.yaml"), ("sac", "sac/Pendulum-v1.yaml"), ("ppo", None)]
)
def test_a_trainer_chooses_among_the_shipped_files(trainer: str | None, file: str | None):
    found = preset_for("gymnasium:Pendulum-v1", trainer)
    assert (found and "/".join(found.parts[-2:])) == file


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ("dqn", "no trainer is named 'dqn': examples/dqn.py of the repository is a DQN"),
        ("Rainbow", "examples/dqn.py"),
        ("A2C", "examples/a2c.py"),
        ("td3", "sac is nearest"),
        ("TRPO", "ppo is nearest"),
        ("PPO", "did you mean 'ppo'?"),
        ("xyz", "no trainer is named 'xyz' (there are: ppo, sac, poca, bc; your own as package.module:Class)"),
    ],
)
def test_a_trainer_that_is_not_there_is_answered_with_the_nearest(trainer: str, words: str):
    with pytest.raises(ConfigError) as error:
        load({"behaviors": {"A": {"trainer_type": trainer}}})
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("line", "sets", "message"),
    [
        ("--max-steps=many", (), "--max-steps: behaviors.A.max_steps: expected a whole number, got 'many'"),
        ("--hidden-units=-4", (), "--hidden-units: behaviors.A.network_settings.hidden_units: expected a number"),
        ("--max-steps=5", ("behaviors.*.max_steps=6",), "--set behaviors.*.max_steps=6: --max-steps already sets"),
    ],
)
def test_a_short_flag_that_cannot_be_followed_is_named(line: str, sets: tuple[str, ...], message: str):
    with pytest.raises(ConfigError) as error:
        loaded(TWO, line, *sets)
    assert message in str(error.value)


def test_set_of_one_behavior_wins_over_a_short_flag():
    settings = loaded(TWO, "--max-steps=20000", "behaviors.B.max_steps=30000")
    assert [block.max_steps for block in settings.behaviors.values()] == [20_000, 30_000]


@pytest.mark.parametrize(
    ("abbreviated", "key"), [("--max", "max_lifetime_restarts"), ("--time-", "time_scale"), ("--res", None)]
)
def test_abbreviations_of_older_flags_mean_what_they_meant(abbreviated, key, capsys):
    if key is None:  # --resume, --results-dir and others: ambiguous before, too
        with pytest.raises(SystemExit):
            parse(make_parser("learn"), ["learn", "x.yaml", abbreviated])
        assert "may mean" in capsys.readouterr().err
        return
    options = parse(make_parser("learn"), ["learn", "x.yaml", abbreviated, "3"])
    assert getattr(options, key) == 3
    assert all(getattr(options, short) is None for short in MOST_CHANGED)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("learn --max-step=5", "--max-step=5 is --max-steps=5 here"),
        ("learn --hidden 5", "unknown flag '--hidden'; did you mean '--hidden-units'?"),
        ("learn --keep 5", "unknown flag '--keep'; did you mean '--keep-best'?"),
        ("tune --max-st=5", "unknown flag '--max-st'; did you mean '--max-steps'?"),
        ("evaluate first --res x", "did you mean '--results-dir' or '--restarts-rate-limit-n' or"),
        ("--vers", "unknown flag '--vers'; did you mean '--version'?"),
    ],
)
def test_a_prefix_of_a_flag_that_ml_agents_does_not_have_is_refused(line: str, message: str, capsys):
    with pytest.raises(SystemExit):
        parse(make_parser(line.split()[0] if line[0] != "-" else None), line.split())
    assert message in capsys.readouterr().err


def test_prefixes_of_all_flags_of_mlagents_learn_are_accepted():
    words = "--env=x --run=x --init=x --inf --det --resul=x --see=3 --deb --num-a=3 --num-e=3 --torch-d=cpu --base=3"
    more = "--timeo=3 --time-s=3 --restarts-rate-limit-p=3 --wid=3 --heig=3 --qual=3 --targ=3 --capt=3 --no-graphics-m"
    words = [*words.split(), *more.split(), "--resum", "--forc", "--env-a", "y"]
    options = parse(make_parser("learn"), ["learn", *words])
    assert (options.seed, options.num_areas, options.device, options.env_args) == (3, 3, "cpu", ["y"])
    assert options.force
    assert options.resume


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden_units=64", "did you mean 'behaviors.Ball.network_settings.hidden_units'?"),
        ("hiden_units=64", "did you mean 'behaviors.Ball.network_settings.hidden_units'?"),
        ("behaviors.Ball.learning_rate=1e-3", "did you mean 'behaviors.Ball.hyperparameters.learning_rate'?"),
        ("behaviors.Ball.network_settings.batch_size=3", "did you mean 'behaviors.Ball.hyperparameters.batch_size'?"),
        ("num_envs=3", "did you mean 'env_settings.num_envs'?"),
        ("time_scale=3", "did you mean 'engine_settings.time_scale'?"),
        ("behaviors.Ball.max_stepz=3", "did you mean 'max_steps'?"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_its_full_path(text: str, message: str):
    with pytest.raises(ConfigError) as error:
        load({"behaviors": {"Ball": {"trainer_type": "ppo"}}}, sets=[text])
    assert message in str(error.value)


@pytest.mark.parametrize("key", ["trainer_typ", "trainertype", "Trainer_type"])
def test_a_trainer_type_that_is_spelt_wrong_is_named(key: str, tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_text(f"behaviors:\n  Ball:\n    {key}: ppo\n    hyperparameters: {{learning_rate: 1e-3}}\n")
    with pytest.raises(ConfigError, match=rf"x.yaml:3: behaviors.Ball.{key}: unknown key; did you mean 'trainer_type'"):
        load(file)


@pytest.mark.parametrize("command", ["", *COMMANDS])
@pytest.mark.parametrize("columns", [80, 60])
def test_help_fits_the_terminal(command, columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        main([*filter(None, [command]), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line.rstrip()) > 80] == []


def test_keep_best_is_switched_on_and_what_the_file_says_of_it_stays():
    tree = {"behaviors": {"A": {"keep_best": {"episodes": 7}}, "B": {"keep_best": None}, "C": None}}
    kept = {name: block.keep_best for name, block in loaded(tree, "--keep-best").behaviors.items()}
    assert {name: best and best.episodes for name, best in kept.items()} == {"A": 7, "B": 100, "C": 100}
    again = loaded(tree, "--keep-best", "behaviors.*.keep_best.every=500").behaviors["C"].keep_best
    assert again is not None
    assert again.every == 500
