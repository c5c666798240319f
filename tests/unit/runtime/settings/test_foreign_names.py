import re

import pytest

from palaestra.cli.commands import make_parser, subparser
from palaestra.core.errors import ConfigError
from palaestra.core.wording.most_changed import MOST_CHANGED
from palaestra.core.wording.other_trainers import NEAREST
from palaestra.core.wording.python_words import in_python
from palaestra.runtime.settings import load
from palaestra.runtime.settings.foreign_names import (
    FLAGS,
    IN_PYTHON,
    SENTENCES,
    SETTINGS,
    answer,
    counterpart,
)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("--lr", "--learning-rate"),
        ("total_timesteps", "--max-steps"),
        ("--Gamma", "--set reward_signals.extrinsic.gamma=0.99"),
        ("n_envs", "--num-areas, and --num-envs the processes that share them"),
        ("policy_frequency", "--set hyperparameters.policy_delay=2"),
        ("callback", None),
        ("max_steps", None),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(name: str, ours: str | None):
    assert answer(name) == ours


def test_a_program_is_answered_with_keywords():
    assert answer("verbose", in_python=True) == "quiet=True"
    assert in_python(answer("gamma") or "") == 'settings={"reward_signals.extrinsic.gamma": 0.99}'
    for name, _ in MOST_CHANGED.items():
        assert in_python(f"--{name.replace('_', '-')}") == name


def test_every_answer_exists():
    commands = ("learn", "tune", "evaluate", "record")
    flags = {flag for name in commands for flag in subparser(make_parser(name), name)._option_string_actions}
    answers = {answer(name) or "" for row in (*SETTINGS, *FLAGS) for name in row[1].split()}
    assert {flag for text in answers for flag in re.findall(r"--[a-z][\w-]*", text)} <= flags
    for setting, _, _ in SETTINGS:
        of_sac = r"sac|tau|steps_per_update|buffer_init|init_entcoef|policy_delay|critic_bins"
        trainer = "sac" if re.search(of_sac, setting) else "ppo"
        load({"default_settings": {"trainer_type": trainer}}, sets=[f"behaviors.*.{setting}"])


def test_no_name_has_two_answers():
    rows = [row[1] for row in (*SETTINGS, *FLAGS, *SENTENCES)]
    for table in (rows, [row[1] for row in NEAREST], [row[1] for row in IN_PYTHON]):
        names = [name for row in table for name in row.split()]
        assert len(names) == len(set(names))
    assert all(answer(name) for row in rows for name in row.split())
    assert counterpart("nothing_of_this_name") is None


@pytest.mark.parametrize(
    ("trainer", "key", "message"),
    [
        (
            "sac",
            "num_epoch",
            "unknown key: it belongs to ppo, poca and bc, and the trainer_type is sac, which has none",
        ),
        ("sac", "num_epochs", "unknown key; 'num_epoch' belongs to ppo, poca and bc, and the trainer_type is sac"),
        ("sac", "clip_range", "unknown key; 'epsilon' belongs to ppo and poca, and the trainer_type is sac"),
        ("ppo", "tau", "unknown key: it belongs to sac, and the trainer_type is ppo, which has none"),
        ("ppo", "clip_range", "unknown key; it is 'behaviors.A.hyperparameters.epsilon' here"),
        ("ppo", "lr", "unknown key; it is 'behaviors.A.hyperparameters.learning_rate' here"),
        ("ppo", "gamma", "did you mean 'behaviors.A.reward_signals.extrinsic.gamma'?"),
        ("ppo", "learnin_rate", "unknown key; did you mean 'learning_rate'?"),
    ],
)
def test_a_key_of_another_trainer_or_library_is_told_what_it_is(trainer: str, key: str, message: str):
    with pytest.raises(ConfigError) as error:
        load({"behaviors": {"A": {"trainer_type": trainer, "hyperparameters": {key: 3}}}})
    assert message in str(error.value)
