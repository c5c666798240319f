"""Messages are written in the command line's words; every flag and command in them has a form for Python."""

import ast
import re
from collections.abc import Iterator

from source import PACKAGE

from palaestra.core.wording.python_words import COMMANDS, FUNCTIONS, in_python

ON_THE_COMMAND_LINE = ("cli", "sdk", "web", "convert", "runtime/doctor", "runtime/upgrade")
"""Folders whose messages only commands and pages show."""
OF_OTHERS = {
    "--head": "Ray",
    "--level": "an example of a game's own argument",
    "--logdir": "TensorBoard",
    "--master-port": "torchrun",
    "--mlagents-port": "games, which trainers start with it",
    "--nproc-per-node": "torchrun",
    "--curriculum": "old ML-Agents' flag in a command that converts its files",
    "--sampler": "old ML-Agents' flag in a command that converts its files",
    "--one-seed": "hidden, for processes of our own",
}
"""Flags of other programs, which stay as they are."""
NO_MESSAGES = ("envs/builtin/creatures/simd_solver.py",)  # C++
SHELL_ONLY = "|".join(sorted(set(COMMANDS) - set(FUNCTIONS)))

SPEAKS = re.compile(r"(?<![\w/.=-])--[a-z]|palaestra [a-z]")


def texts() -> Iterator[tuple[str, str]]:
    """Yields where each text of the source is, with 7 in the place of values; docstrings are none."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        source = path.read_text(encoding="utf-8")
        if place.startswith(ON_THE_COMMAND_LINE) or place in NO_MESSAGES or not SPEAKS.search(source):
            continue
        tree = ast.parse(source)
        seen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                seen |= {id(part) for part in ast.walk(node) if part is not node}
                parts = [part.value if isinstance(part, ast.Constant) else "7" for part in node.values]
                if id(node) not in seen:
                    yield f"{place}:{node.lineno}", "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in seen:
                yield f"{place}:{node.lineno}", node.value


def faults(text: str) -> Iterator[str]:
    """Yields what is not Python's in a message that is to be."""
    spoken = in_python(text)
    shell = re.sub(rf"palaestra (?:{SHELL_ONLY})\b[^`'\n]*", "", spoken)
    left = set(re.findall(r"(?<![\w/.=-])--[a-z][\w-]*", shell)) - OF_OTHERS.keys()
    if left:
        yield f"no keyword is known for {', '.join(left)}: {spoken}"
    if re.search(rf"(?<![\w-] )palaestra (?:{'|'.join(FUNCTIONS)})\b(?! job)", shell):
        yield f"a command: {spoken}"
    if re.search(r"palaestra\.\w+\([^)]*\"[a-z]+\.?\"[,)]", spoken):
        yield f"a sentence passes for a command; put the command into backticks: {spoken}"


def test_messages_that_name_flags_and_commands_can_speak_python():
    found = [(place, text) for place, text in texts() if SPEAKS.search(text)]
    assert len(found) > 150
    assert not [f"{place}: {fault}" for place, text in found for fault in faults(text)]


def test_a_message_without_a_python_form_is_found():
    assert [*faults("add --shiny")]
    assert [*faults("palaestra tune needs Optuna")]
    assert not [*faults("add --resume")]
