"""Check a settings file and print it with every default, or print one of the example files that come with Palaestra.

An example is printed as it is, with its comments; --out writes it to a file, ready for `palaestra learn`.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from palaestra.cli.flags import option, repeated, switch
from palaestra.core.errors import ConfigError
from palaestra.core.files import explain, must_be_new, write_whole
from palaestra.rewards.settings import UnreadSignalSettings
from palaestra.runtime.logging.waiting import on_stderr
from palaestra.runtime.settings import load, to_yaml
from palaestra.runtime.settings.examples import example_environment, example_names, find_example
from palaestra.runtime.settings.tree import RunSettings
from palaestra.trainers.behavior_settings import UnreadHyperparameters

EXAMPLES = """\
palaestra config --example
palaestra config --example 3DBall
palaestra config --example poca/PushBlockCollab --out PushBlockCollab.yaml
palaestra config configs/ppo/3DBall.yaml --set behaviors.3DBall.max_steps=1e6
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra config`."""
    file = "YAML file of settings, such as configs/ppo/3DBall.yaml"
    parser.add_argument("config", nargs="?", type=Path, metavar="FILE", help=file)
    example = (
        "an example instead of a file: 3DBall, or with its trainer poca/PushBlockCollab; without NAME, list all of them"
    )
    option(parser, "--example", "NAME", example, nargs="?", const="")
    option(parser, "--out", "FILE", "write there instead of printing", type=Path)
    switch(parser, "--force", "overwrite an existing file")
    sets = "change a setting: max_steps=1e6 of every behavior, behaviors.3DBall.max_steps=1e6 of one"
    repeated(parser, "--set", "PATH=VALUE", sets, dest="sets")
    switch(
        parser, "--trust", "import your own trainers that the file names, to check and complete their hyperparameters"
    )


def main(args: argparse.Namespace) -> None:
    """Prints or writes YAML, and prints warnings on stderr. Raises ConfigError."""
    if args.example == "" and args.config is None:
        print("\n".join(example_names()))
        return
    if (args.config is None) == (args.example is None):
        raise ConfigError(
            "name a settings file or, with --example NAME, one of the examples ('palaestra config --example' lists "
            "them)"
        )
    file = args.config if args.example is None else find_example(args.example)
    loaded = load(file, sets=args.sets, own_code=args.trust)
    for line in (*loaded.notes, *(f"warning: {text}" for text in (*loaded.warnings, *unread(loaded.settings)))):
        on_stderr(line)
    text = loaded.text if args.example and not args.sets else to_yaml(loaded.settings)
    if args.out is None:
        show(text)
        return
    write(text, args.out, force=args.force)
    print(f"Wrote {args.out}")
    if args.example:
        environment = example_environment(file, loaded.settings.env_settings.env_path)
        print(
            "train with   palaestra learn "
            + shlex.quote(str(args.out))
            + (f" --env={environment}" if environment else "")
        )


def unread(settings: RunSettings) -> list[str]:
    """Returns a line for each trainer and reward signal of the user's own whose module was not imported."""
    blocks = [*settings.behaviors.values(), *([settings.default_settings] if settings.default_settings else [])]
    trainers = dict.fromkeys(
        block.trainer_type for block in blocks if isinstance(block.hyperparameters, UnreadHyperparameters)
    )
    signals = dict.fromkeys(
        name for block in blocks for name, of in block.reward_signals.items() if isinstance(of, UnreadSignalSettings)
    )
    found = [*(f"hyperparameters of '{name}'" for name in trainers), *(f"settings of '{name}'" for name in signals)]
    return [f"the {what} are not checked, as that means running its code: --trust does" for what in found]


def show(text: str) -> None:
    """Prints YAML on stdout, in colors on a terminal."""
    from rich.console import Console
    from rich.syntax import Syntax

    console = Console()
    if console.is_terminal:
        console.print(
            Syntax(text, "yaml", theme="ansi_dark", background_color="default").highlight(text), end="", soft_wrap=True
        )
    else:
        sys.stdout.write(text)


def write(text: str, file: Path, *, force: bool = False) -> None:
    """Writes a new file. Raises ConfigError if the file exists already, unless `force` is set."""
    must_be_new(file, force=force)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text.encode())
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {explain(error)}") from error
