"""What others rely on, as text. `python tests/architecture/snapshots.py` writes the snapshots anew, after a change that
is meant.
"""

import argparse
import inspect
from importlib.metadata import entry_points
from pathlib import Path

import palaestra
import palaestra.testing
from palaestra.cli.commands import COMMANDS, make_parser
from palaestra.cli.parser import HelpAll
from palaestra.envs.base import Env
from palaestra.trainers.base import Trainer

FOLDER = Path(__file__).parent / "snapshots"


def names() -> str:
    """Public names with their signatures, the two contracts, and our entry points."""
    lines = [f"palaestra.{name}{_signature(getattr(palaestra, name))}" for name in palaestra.__all__]
    lines += [
        f"palaestra.testing.{name}{_signature(getattr(palaestra.testing, name))}" for name in palaestra.testing.__all__
    ]
    for contract in (Env, Trainer):
        lines += [f"{contract.__name__}.{name}: {kind}" for name, kind in contract.__annotations__.items()]
        lines += [
            f"{contract.__name__}.{name}{_signature(method)}"
            for name, method in vars(contract).items()
            if _public(name, method)
        ]
        lines += [
            f"{contract.__name__}.{name}: {inspect.signature(value.fget).return_annotation}"
            for name, value in vars(contract).items()
            if isinstance(value, property) and value.fget is not None
        ]
    for group in (
        "palaestra.brains",
        "palaestra.encoders",
        "palaestra.envs",
        "palaestra.trackers",
        "palaestra.trainers",
    ):
        lines += sorted(f"{group}: {point.name} = {point.value}" for point in entry_points(group=group))
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Every command with its arguments; laid out here, since argparse lays out differently from version to version."""
    lines = []
    for name, sentence in COMMANDS.items():
        lines.append(f"{name}: {sentence}")
        lines += [f"  {line}" for action in arguments(name) for line in _lines(action)]
    return "\n".join(lines) + "\n"


def arguments(command: str) -> list[argparse.Action]:
    """Of a command, without those that show its help."""
    chosen = next(
        action for action in make_parser(command)._actions if isinstance(action, argparse._SubParsersAction)
    ).choices[command]
    return [action for action in chosen._actions if not isinstance(action, (argparse._HelpAction, HelpAll))]


def _lines(action: argparse.Action) -> list[str]:
    hidden = action.help == argparse.SUPPRESS
    word = ", ".join(action.option_strings) or "argument"
    value = (
        ""
        if action.nargs == 0
        else f" {action.metavar or ('|'.join(map(str, action.choices)) if action.choices else action.dest)}"
    )
    return [f"{word}{value}", "    hidden" if hidden else f"    {action.help}"]


def _signature(thing: object) -> str:
    return str(inspect.signature(thing)) if callable(thing) else ""


def _public(name: str, member: object) -> bool:
    return not name.startswith("_") and inspect.isfunction(member)


SNAPSHOTS = {"names.txt": names, "commands.txt": commands}

if __name__ == "__main__":
    for file, make in SNAPSHOTS.items():
        (FOLDER / file).write_text(make(), encoding="utf-8")
        print(f"wrote {FOLDER / file}")
