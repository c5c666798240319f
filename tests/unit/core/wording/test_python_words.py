import argparse

import pytest

from palaestra.cli.commands import COMMANDS as ALL_COMMANDS
from palaestra.cli.commands import make_parser, subparser
from palaestra.core.wording.python_words import COMMANDS, FUNCTIONS, KEYWORDS, SWITCHES, WHOLE, in_python
from palaestra.core.wording.voice import python_voice, voiced


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        (
            "continue it with --resume, or choose another --run-id",
            "continue it with resume=True, or choose another run_id",
        ),
        (
            "name it with --env, such as --env=3DBall (--num-areas)",
            'name it with env=..., such as env="3DBall" (num_areas)',
        ),
        ("--max-steps: expected a number, got 'abc'", "max_steps: expected a number, got 'abc'"),
        ("--max-steps=1e6 --torch-device=cuda:0: both", 'max_steps=1e6, device="cuda:0": both'),
        ("--set 'behaviors.*.max_steps=1000'", "max_steps=1000"),
        ("--set max_steps=1000", "max_steps=1000"),
        ("--set hyperparameters.beta=0.1", 'settings={"hyperparameters.beta": 0.1}'),
        (
            "say so: --set env_settings.env_options.leave_out=[a, b] (or not); --set changes more",
            'say so: settings={"env_settings.env_options.leave_out": ["a", "b"]} (or not); settings={...} changes more',
        ),
        ("such as --seeds 3,7,9", "such as seeds=[3, 7, 9]"),
        ("test it      palaestra evaluate nb", 'test it      palaestra.evaluate("nb")'),
        (
            "go on        palaestra learn --run-id='a b' --results-dir=/x --resume --set 'behaviors.*.max_steps=2000'",
            'go on        palaestra.train(run_id="a b", results_dir="/x", resume=True, max_steps=2000)',
        ),
        (
            "go on        palaestra learn --run-id=nb --resume --set 'behaviors.*.n=1' --set a.b=true\n  x",
            'go on        palaestra.train(run_id="nb", resume=True, settings={"n": 1, "a.b": True})\n  x',
        ),
        ("more seeds: 'palaestra learn --seeds 5' (or so)", "more seeds: palaestra.train_seeds(seeds=5) (or so)"),
        ("'palaestra export runs/x --step 100' writes it", 'palaestra.export("runs/x", step=100) writes it'),
        ("'palaestra compare a-* b --bar=5' draws them", 'palaestra.compare(["a-*", "b"], bar=5) draws them'),
        ("such as --brain 'Ball=model:x' or --brain=random", 'such as brains={"Ball": "model:x"} or brains="random"'),
        ("--brain 'Ball?team=1=model:x'", 'brains={"Ball?team=1": "model:x"}'),
        ("`palaestra tune` needs Optuna", "`palaestra.tune` needs Optuna"),
        ("('palaestra envs --unity' lists them)", "('palaestra envs --unity' lists them)"),
        ("run 'palaestra doctor Game --ticks 9' first; --env", "run 'palaestra doctor Game --ticks 9' first; env"),
        ("pip install 'palaestra[tune]'", "pip install 'palaestra[tune]'"),
        ("give its file on the command line", "give its file"),
    ],
)
def test_flags_become_keywords_and_commands_become_calls(written: str, spoken: str):
    assert in_python(written) == spoken
    assert in_python(spoken) == spoken  # as when one function of ours calls another


@pytest.mark.parametrize(
    "text",
    [
        "the folder 'runs --resume' is not there",
        "results/a--resume/b: no such file",
        "Broken raised an error in step: ValueError: call me with --resume, not 'palaestra learn' (my env.py, line 3)",
        "the callback look raised Boom: add --resume (cell of the notebook, line 3)",
        'the value "--force" is none',
        "tensorboard --logdir results",
    ],
)
def test_what_a_user_has_written_stays(text: str):
    assert in_python(text) == text


def test_arguments_of_the_caller_stay_where_nothing_marks_them():
    with python_voice(["/my --force dir", "3DBall"]):
        assert voiced("/my --force dir/nb exists: add --force") == "/my --force dir/nb exists: add force=True"
    assert voiced("add --force") == "add --force"


def test_the_table_has_the_flags_of_the_commands():
    kinds: dict[str, set[bool]] = {}
    for name in FUNCTIONS:
        for action in subparser(make_parser(name), name)._actions:
            if action.help != argparse.SUPPRESS:
                for flag in action.option_strings:
                    kinds.setdefault(flag.lstrip("-"), set()).add(action.nargs == 0)
    ours = {flag: kind for flag, kind in kinds.items() if flag in KEYWORDS}
    assert not {flag for flag, kind in ours.items() if (flag in SWITCHES) not in kind}
    shell = {
        "bind",
        "help",
        "help-all",
        "h",
        "version",
        "view",
        "json",
        "no-browser",
        "list",
        "demo-png",
        "dry-run",
        "cpu",
        "one-seed",
        "page",
    }
    assert sorted(kinds.keys() - ours.keys() - shell - WHOLE.keys() - IN_ML_AGENTS) == []
    assert set(COMMANDS) == set(ALL_COMMANDS)


IN_ML_AGENTS = {
    "docker-target-name",
    "fast",
    "slow",
    "num-runs",
    "curriculum",
    "sampler",
    "torch",
    "tensorflow",
    "worker-id",
}
"""Flags of its old versions, which are answered with what replaces them."""
