import re

import pytest

from palaestra.cli.commands import make_parser, subparser
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
        ("--Gamma", "--set 'behaviors.*.reward_signals.extrinsic.gamma=0.99'"),
        ("n_envs", "--num-areas, and --num-envs the processes that share them"),
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
    answers = {answer(name) or "" for row in (*SETTINGS, *FLAGS) for name in row[-2].split()}
    assert {flag for text in answers for flag in re.findall(r"--[a-z][\w-]*", text)} <= flags
    for path, example, _, _ in SETTINGS:
        trainer = "sac" if re.search(r"sac|tau|steps_per_update|buffer_init|init_entcoef", path) else "ppo"
        load({"default_settings": {"trainer_type": trainer}}, sets=[f"behaviors.*.{path}={example}"])


def test_no_name_has_two_answers():
    rows = [*(row[2] for row in SETTINGS), *(row[1] for row in FLAGS), *(row[1] for row in SENTENCES)]
    for table in (rows, [row[0] for row in NEAREST], [row[1] for row in IN_PYTHON]):
        names = [name for row in table for name in row.split()]
        assert len(names) == len(set(names))
    assert all(answer(name) for row in rows for name in row.split())
    assert counterpart("nothing_of_this_name") is None
