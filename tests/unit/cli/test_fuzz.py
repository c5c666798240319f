"""Settings files and command lines that are changed at random end in one of our errors, or in none, and quickly."""

import argparse
import contextlib
import io
import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from palaestra.cli.commands import COMMANDS, make_parser, parse
from palaestra.cli.learn import overrides
from palaestra.core.errors import PalaestraError
from palaestra.runtime.run.run_settings import TrainingRequest, settled_settings
from palaestra.runtime.settings import load, to_yaml

ROOT = Path(__file__).parents[3]
CONFIGS = [path.read_text("utf-8") for path in sorted((ROOT / "configs").rglob("*.yaml"))]
SECONDS = 1.0
"""What one file or command line may take of a processor."""
# fmt: off
NASTY = [
    *"'\"{}[]&*!|>%@`#:,?~=-\t\n\0😀", "\x1b[31m", "\ud800", "\u202e", "--", "---", "...", "<<", "null", "true",
    ".inf", "-.inf", ".nan", "0x", "0b1", "1_0", "1:2:3", "1e400", "-0", "!!binary", "!!python/object:os.system",
    "!!set", "!!int", "!mine", "&a", "*a", "2001-01-01", "9223372036854775808", "1e19", "1e308", "5e-324", "-1", "0",
    "0.5", "9" * 5000, "[" * 3000, "{a: " * 300, "x" * 20_000, "\t", "\n", "\n  ", "\r\n", "<<: *a", "&a [*a, *a]",
    "1" + ":59" * 999, " ", "",
]
WORDS = [
    "behaviors", "default_settings", "trainer_type", "hyperparameters", "network_settings", "reward_signals", "gail",
    "curiosity", "poca", "environment_parameters", "curriculum", "sampler_type", "self_play", "memory", "env_settings",
    "run", "checkpoints", "a.b", "..", "*",
]
# fmt: on


def mutated(text: str, rng: random.Random) -> str:
    """A file after one to four random changes."""
    for _ in range(rng.randint(1, 4)):
        lines = text.split("\n")
        at = rng.randrange(len(text) + 1)
        here = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind == 0:
            text = text[:at] + rng.choice(NASTY) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 30) :]
        elif kind == 2:
            lines[here] = lines[here].partition(":")[0] + ": " + rng.choice(NASTY + WORDS)
        elif kind == 3:
            lines[here] = " " * rng.randrange(8) + rng.choice(NASTY + WORDS) + ":" + lines[here].partition(":")[2]
        elif kind == 4:
            lines.insert(here, rng.choice(lines))
        elif kind == 5:
            lines[here] = " " * rng.randrange(8) + lines[here].lstrip()
        elif kind == 6:
            del lines[here]
        else:
            lines = lines[:here] + rng.choice(CONFIGS).split("\n")[here:]
        text = "\n".join(lines) if kind >= 2 else text
    return text


def word(rng: random.Random, flags: list[str]) -> str:
    value = rng.choice([*NASTY, *WORDS, "3", "1e5", "x.yaml", ".", "/dev/null", "first"])
    flag = rng.choice(flags)
    flag = flag[: rng.randint(1, len(flag))] if rng.random() < 0.2 else flag
    path = ".".join(rng.choice([*WORDS, "Ball", "max_steps", "0", ""]) for _ in range(rng.randint(1, 5)))
    return rng.choice([value, flag, f"{flag}={value}", f"--set={path}={value}", f"--set={value}", "--env-args", "--"])


def outcome(call: Callable[[], object], seconds: float) -> str:
    """What is wrong with how a call ended, or nothing. Slow is what is slow again: garbage of other tests may be
    collected in one call.
    """
    problem = once(call, seconds)
    return once(call, seconds) if problem.startswith("took") else problem


def once(call: Callable[[], object], seconds: float) -> str:
    """What is wrong with how one call ended, or nothing."""
    begin = time.process_time()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call()
    except (PalaestraError, SystemExit) as error:
        if any(ord(char) < 32 and char != "\n" for char in str(error)):
            return f"control characters in {error!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    took = time.process_time() - begin
    return f"took {took:.1f} s" if took > seconds else ""


def check_files(number: int, seed: int, place: Path, seconds: float) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    problems = []
    file = place / "x.yaml"
    for _ in range(number):
        text = mutated(rng.choice(CONFIGS), rng)
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        if problem := outcome(lambda: to_yaml(load(file).settings), seconds):
            problems.append((problem, text))
    return problems


def check_command_lines(number: int, seed: int, seconds: float) -> list[tuple[str, list[str]]]:
    rng = random.Random(seed)
    problems = []
    parsers = {name: make_parser(name) for name in COMMANDS}
    known = {name: flags_of(parser, name) for name, parser in parsers.items()}
    for _ in range(number):
        name = rng.choice([*COMMANDS, *["learn"] * 10])
        file = ["x.yaml"] if rng.random() < 0.7 else []
        words = [name, *file, *(word(rng, known[name]) for _ in range(rng.randint(0, 5)))]
        if problem := outcome(lambda name=name, words=words: follow(parsers[name], name, words), seconds):
            problems.append((problem, words))
    return problems


def flags_of(parser: argparse.ArgumentParser, name: str) -> list[str]:
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return list(commands.choices[name]._option_string_actions)


def follow(parser, name: str, words: list[str]) -> None:
    """What a command does with its words before it begins."""
    parser.refuse_unusable(words)
    options = parse(parser, words)
    if name == "learn":
        settled_settings(TrainingRequest(options.config, overrides(options), options.sets))
    elif name == "config" and options.config is not None:
        load(options.config, sets=options.sets)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text((ROOT / "configs/ppo/3DBall.yaml").read_text())
    return tmp_path


SEED = int(os.environ.get("PALAESTRA_FUZZ_SEED", "2"))
OFTEN = pytest.mark.parametrize(
    ("number", "seed", "seconds"),
    [(500, 1, math.inf), pytest.param(20_000, SEED, SECONDS, marks=pytest.mark.slow)],
)


@OFTEN
def test_mutated_files_end_in_an_error_of_ours_or_none(place: Path, number, seed, seconds):
    assert check_files(number, seed, place, seconds) == []


@OFTEN
@pytest.mark.usefixtures("place")
def test_mutated_command_lines_end_in_an_error_of_ours_or_none(number, seed, seconds):
    assert check_command_lines(number, seed, seconds) == []
