import os
import re
import subprocess
import sys

import pytest
from snapshots import FOLDER, SNAPSHOTS, arguments

THEIRS = [
    "--env", "--resume", "--force", "--run-id", "--initialize-from", "--seed", "--inference", "--base-port",
    "--num-envs", "--num-areas", "--debug", "--env-args", "--max-lifetime-restarts", "--restarts-rate-limit-n",
    "--restarts-rate-limit-period-s", "--torch", "--tensorflow", "--deterministic", "--results-dir", "--timeout-wait",
    "--width", "--height", "--quality-level", "--time-scale", "--target-frame-rate", "--capture-frame-rate",
    "--no-graphics", "--no-graphics-monitor", "--torch-device", "--load", "--train",
]  # fmt: skip
"""Flags of mlagents-learn 1.1.0."""


@pytest.mark.parametrize("file", SNAPSHOTS)
def test_what_others_rely_on_is_as_it_was(file: str):
    hint = "a change that is meant is written down with: python tests/architecture/snapshots.py"
    assert SNAPSHOTS[file]() == (FOLDER / file).read_text(encoding="utf-8"), hint


def test_learn_has_every_flag_of_mlagents_learn():
    ours = {flag for action in arguments("learn") for flag in action.option_strings}
    assert [flag for flag in THEIRS if flag not in ours] == []


def test_help_of_learn_names_every_flag_but_those_without_effect_and_help_all_explains_them():
    visible = [flag for flag in THEIRS if flag not in ("--load", "--train", "--torch", "--tensorflow")]
    named = re.findall(r"--[a-z][a-z-]*", help_of("learn"))
    explained = help_of("learn", last="--help-all")
    assert [flag for flag in visible if flag not in named] == []
    assert [flag for flag in visible if not re.search(rf"^  {flag}\b", explained, re.MULTILINE)] == []


def test_help_shows_every_command_and_no_color_where_none_is_wanted():
    shown = help_of()
    for command in ("learn", "evaluate", "plot", "record", "export", "envs", "config", "schema"):
        assert re.search(rf"^  {command} ", shown, re.MULTILINE)
    assert "\x1b" not in shown


def help_of(*command: str, last: str = "--help") -> str:
    code = "import sys; from palaestra.cli.main import main; sys.exit(main())"
    surroundings = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    words = [sys.executable, "-c", code, *command, last]
    return subprocess.run(words, env=surroundings, capture_output=True, text=True, check=True).stdout
