import re

import pytest

from palaestra.cli.commands import make_parser, subparser
from palaestra.core.wording.python_words import in_python
from palaestra.runtime.settings import load
from palaestra.runtime.settings.foreign_names import FOREIGN_NAMES, answer


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("--lr", "--learning-rate"),
        ("total_timesteps", "--max-steps (decisions of all areas together)"),
        ("--Gamma", "--set 'behaviors.*.reward_signals.extrinsic.gamma=0.99'"),
        ("verbose", None),
        ("max_steps", None),
    ],
)
def test_names_of_other_libraries_are_answered_with_ours(name: str, ours: str | None):
    assert answer(name) == ours


def test_a_program_is_answered_with_keywords():
    assert answer("verbose", in_python=True) == "quiet=True"
    assert in_python(answer("gamma") or "") == 'settings={"reward_signals.extrinsic.gamma": 0.99}'


def test_every_answer_exists():
    flags = {flag for action in subparser(make_parser("learn"), "learn")._actions for flag in action.option_strings}
    answers = set(FOREIGN_NAMES.values())
    assert {flag for text in answers for flag in re.findall(r"--[a-z][\w-]*", text)} <= flags
    for text in sorted(answers):
        for path, value in re.findall(r"--set '?([\w.*]+)=([^']+)", text):
            trainer = "sac" if re.search(r"sac|tau|steps_per_update|buffer_init", text) else "ppo"
            load({"default_settings": {"trainer_type": trainer}}, sets=[f"{path}={value}"])
