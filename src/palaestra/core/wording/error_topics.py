"""Topics of errors: the meaning, usual causes and cures of each topic, and which error belongs to which topic.

`errors.yaml` has their words, and the places in the source where errors are made. `docs/make_errors.py` writes
`site_menu.yaml` and the site's pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

POINTER = "  why and what to do: palaestra help errors "
"""Begin of the line under an error that names its topic."""
CALLER, CAUSE = "caller", "cause"
"""Words in errors.yaml for a place whose callers have the topic, and for an error that another error reports as its
cause."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One kind of error."""

    name: str
    page: str  # in docs/reference/errors, without .md
    title: str
    means: str
    causes: list[dict[str, str]]  # `says`: a part of the message, if one; `why`; `do`
    commands: list[str] = field(default_factory=list)
    see: list[str] = field(default_factory=list)  # pages of docs/

    def text(self, width: int) -> str:
        """Returns cause and cure as text for a terminal."""
        lines = [f"{self.name}: {self.title}", "", fill(self.means, width), "", "Usual causes, and what to do:"]
        for cause in self.causes:
            says = [f'  "{cause["says"]}"'] if "says" in cause else []
            why, do = (_indented(*words, width) for words in (("    ", cause["why"]), ("    -> ", cause["do"])))
            lines += ["", *says, why, do]
        lines += ["", "Commands:", *(f"  {command}" for command in self.commands)] if self.commands else []
        menu = catalogue("site_menu.yaml")
        pages = [f"{menu[f'reference/errors/{self.page}.md']} > {self.name}", *(menu[page] for page in self.see)]
        lines += ["", "On the documentation site:", *(_indented("  - ", page, width) for page in pages)]
        return "\n".join(lines)


def _indented(begin: str, text: str, width: int) -> str:
    rest = " " * len(begin)
    return fill(text, width, initial_indent=begin, subsequent_indent=rest, break_on_hyphens=False)


def pointed(message: str, topic: str) -> str:
    """Returns a message with the line that names its topic, unless another process has added it already."""
    return f"{message}\n{POINTER}{topic}" if topic and POINTER not in message else message


@cache
def catalogue(file: str = "errors.yaml") -> dict[str, Any]:
    """Returns what is in errors.yaml, or in site_menu.yaml."""
    import yaml  # most commands end without an error

    text = Path(__file__).with_name(file).read_text("utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def topics() -> dict[str, Topic]:
    """Returns all topics by name, page by page."""
    pages = catalogue()["pages"].items()
    return {name: Topic(name, page, **words) for page, part in pages for name, words in part["topics"].items()}


def topic_of(error: BaseException, classes: list[str], places: str) -> str:
    """Returns the name of an error's topic; '' if the error has no topic. `places`: where the error was made, innermost
    first."""
    message = str(error)
    known = catalogue()
    decided = [topic for pattern, topic in known["messages"].items() if re.search(pattern, message)]
    decided += [known["classes"][name] for name in classes if name in known["classes"]]
    for place in [] if decided else places.split():
        word = topic_at(place, message).partition(" ")[0]
        told = getattr(error.__cause__ or error.__context__, "topic", "") if word == CAUSE else ""
        decided += [told or word] if told or word not in ("", CALLER, CAUSE) else []
    return decided[0] if decided else ""


def topic_at(place: str, message: str) -> str:
    """Returns the topic of errors that are made at a place, such as `demos.reader:read_demo`; see errors.yaml."""
    rules = catalogue()["sites"]
    name = place if place in rules else place.partition(":")[0]
    while name and name not in rules:
        name = name.rpartition(".")[0]
    rule = rules.get(name, "")
    if isinstance(rule, str):
        return rule
    return next((topic for pattern, topic in rule.items() if re.search(pattern, message)), "")
