"""Flags of other libraries are answered with ours, numbers in one sentence."""

from pathlib import Path

import pytest

from palaestra.cli.commands import make_parser, subparser
from palaestra.runtime.settings.foreign_names import counterpart

GIVEN = {
    "--lr=1e-3": "--lr=1e-3 is --learning-rate=1e-3 here",
    "--lr 1e-3": "--lr=1e-3 is --learning-rate=1e-3 here",
    "--algo=sac": "--algo=sac is --trainer=sac here",
    "--algo DQN": "--algo is --trainer here, and there is no trainer 'DQN': examples/dqn.py",
    "--total-timesteps=1e5": "--total-timesteps=1e5 is --max-steps=1e5 here",
    "--total_timesteps=1e5": "--total_timesteps=1e5 is --max-steps=1e5 here",
    "--train.learning-rate=0.1": "--train.learning-rate=0.1 is --learning-rate=0.1 here",
    "--n-envs=4": "--n-envs=4 is --num-areas=4 here, and --num-envs the processes that share them",
    "--n-steps=128": "--n-steps is --buffer-size here, which counts the decisions of all areas together",
    "--gamma=0.9": "--gamma=0.9 is --set reward_signals.extrinsic.gamma=0.9 here",
    "--ent-coef": "--ent-coef is --set hyperparameters.beta=0.01 here",
    "--epochs=4": "--epochs=4 is --set hyperparameters.num_epoch=4 here",
    "--gae-lambda=1": "hyperparameters.lambd=1 here",
    "--clip-range=0.1": "hyperparameters.epsilon=0.1 here",
    "--net-arch": "--net-arch is --hidden-units here, and --num-layers the number of layers",
    "--num-workers=3": "--num-workers=3 is --num-envs=3 here",
    "--gpu=0": "--gpu is --torch-device here, which is cpu, cuda or cuda:0",
    "--gpu 0": "--gpu is --torch-device here",
    "--render": "--render: a run draws nothing itself: `palaestra view` shows it",
    "--tensorboard-log=x": "--tensorboard-log=x is --results-dir=x here",
    "--wandb": "--wandb is --track here, such as --track=wandb:project=walkers",
    "--env-id=CartPole-v1": "--env-id=CartPole-v1 is --env=CartPole-v1 here",
    "--save-path=x": "--save-path=x is --results-dir=x here",
    "--policy=MlpPolicy": "--policy: the network is chosen to fit the observations",
    "--capture-video": "`palaestra record RUN` makes a GIF",
    "--max-stepz=3": "unknown flag '--max-stepz'; did you mean '--max-steps'?",
    "--xq": "unknown flag '--xq' (see:",
    "--seed=abc": "learn: error: --seed: expected a whole number, got 'abc', such as --seed=4 (see:",
    "--num-envs=1.5": "--num-envs: expected a whole number, got '1.5'",
    "--rank-timeout=nan": "--rank-timeout: expected a number, got 'nan'",
}


@pytest.mark.parametrize(("line", "message"), GIVEN.items(), ids=list(GIVEN))
def test_learn_answers_flags_of_other_libraries(line: str, message: str, terminal):
    assert message in terminal.fails("learn", *line.split(), status=2)


WRONG = {
    "learn --max-steps": "--max-steps: expected a value, such as --max-steps=1e5, got none (see:",
    "learn --resume=yes": "--resume: expected no value, got 'yes'; write --resume alone",
    "learn --n=3": "'--n=3' may mean one of --num-areas, --num-envs, --no-graphics, --no-graphics-monitor; write out",
    "record first --fps": "--fps: expected a value, such as --fps=30, got none",
    "plot a --x=foo": "--x: expected step or time, got 'foo'",
    "doctor --ticks=5 --seconds=4": "--seconds and --ticks exclude each other; leave out one",
    "doctor --time-scales": "--time-scales: expected a value, such as --time-scales 1, got none",
    "push first": "expected also REPO, as in `palaestra push first ",
    "upgrade": "expected also IN, OUT, as in `palaestra upgrade ",
}


@pytest.mark.parametrize(("line", "message"), WRONG.items(), ids=list(WRONG))
def test_mistakes_that_argparse_finds_are_said_in_our_words(line: str, message: str, terminal):
    said = terminal.fails(line, status=2)
    assert f"error: {message}" in said
    assert "argument" not in said


def test_a_command_answers_only_with_flags_that_it_has(terminal):
    assert "--n-eval-episodes=10 is --episodes=10 here" in terminal.fails("evaluate a --n-eval-episodes=10", status=2)
    assert "--n-trials=9 is --trials=9 here" in terminal.fails("tune --n-trials=9", status=2)
    assert "unknown flag '--lr'" in terminal.fails("evaluate a --lr=3", status=2)
    assert "--lr=3 is --learning-rate=3 here" in terminal.fails("--lr=3", status=2)


def test_whole_numbers_may_be_written_with_an_exponent():
    parser = subparser(make_parser("learn"), "learn")
    assert parser.parse_args(["--seed=1e3", "--num-envs", "2"]).seed == 1000


def test_the_guide_says_what_is_answered():
    guide = (Path(__file__).parents[3] / "docs/coming-from/old-habits.md").read_text(encoding="utf-8")
    table = guide.partition("| elsewhere | here |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    assert len(rows) > 20
    for theirs, here in rows:
        for flag in theirs.split(", "):
            found = counterpart(flag.strip("`"))
            assert found is not None, flag
            assert here.startswith(f"`{found.flag or found.path}"), (flag, found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("learn help", "`palaestra help learn` explains the command"),
        ("learn algo=sac", "'algo=sac' is no settings file: --algo=sac is --trainer=sac here"),
        ("learn speed=3", "'speed=3' is no settings file: settings are --set PATH=VALUE"),
        ("learn --env= --run-id=x", "--env is empty: name an environment"),
    ],
)
def test_a_word_in_the_place_of_the_settings_file_or_an_empty_one_is_answered(line: str, message: str, terminal):
    assert message in terminal.fails(line)
