"""Writes the pages of `docs/reference/errors`: `python docs/make_errors.py`.

Topics, causes and cures are in `src/palaestra/core/wording/errors.yaml`; the messages are read from the source. Beside
that file it writes `site_menu.yaml`, from which `palaestra help errors TOPIC` names the pages of the site.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from textwrap import wrap
from typing import Any

import yaml

from palaestra.core.wording.error_topics import Topic, catalogue, topic_at, topics

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "palaestra"
DOCS = ROOT / "docs"
FOLDER = DOCS / "reference" / "errors"
NAV = DOCS / "site" / "nav.yaml"
MENU = PACKAGE / "core" / "wording" / "site_menu.yaml"

OTHERS = """
    ValueError TypeError KeyError OSError RuntimeError NotImplementedError AssertionError AttributeError IndexError
    FileNotFoundError SystemExit KeyboardInterrupt Terminated Refused LeftOut NoValue Mismatch IrregularRecord
    TookTooLong ArgumentTypeError UnpicklingError _Signal _CannotOverride Error ResetNeeded InvalidAction
    ClosedEnvironmentError from_exception_data _mismatch with_traceback
"""
"""Exceptions that are not Palaestra's: what handles them writes the message, or another library does."""
MOST = 4
"""Messages that one expression may have."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Site:
    """A place in the source that makes an error."""

    module: str  # without `palaestra.`
    function: str
    line: int
    classes: tuple[str, ...]  # of the error and those above it; empty where a function makes it
    messages: tuple[str, ...]  # with `...` for what differs

    @property
    def name(self) -> str:
        """Returns its name in errors.yaml."""
        return f"{self.module}:{self.function}"


@cache
def trees() -> dict[str, ast.Module]:
    """Returns every module of the package by its name in errors.yaml."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts).removesuffix("__init__").rstrip(".")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


@cache
def error_classes() -> dict[str, tuple[str, ...]]:
    """Returns the exceptions of the package: each with those above it."""
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    def line(name: str) -> tuple[str, ...]:
        return (name, *(above for base in bases.get(name, ()) for above in line(base)))

    return {name: line(name) for name in bases if "PalaestraError" in line(name)}


@cache
def constants() -> dict[str, dict[str, str]]:
    """Returns the texts that each module keeps under a name, or takes from another one."""
    own = {name: dict(_constants(tree)) for name, tree in trees().items()}
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                there = own.get(node.module.removeprefix("palaestra").lstrip("."), {})
                own[name] |= {each.asname or each.name: there[each.name] for each in node.names if each.name in there}
    return own


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    known: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and (text := _joined(node.value, known)) is not None:
            known |= {each.id: text for each in node.targets if isinstance(each, ast.Name)}
    yield from known.items()


def _joined(node: ast.AST, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [_joined(part.value if isinstance(part, ast.FormattedValue) else part, known) for part in node.values]
        return "".join("..." if part is None else part for part in parts)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    left, right = _joined(node.left, known), _joined(node.right, known)
    return None if left is None or right is None else left + right


@cache
def sites() -> tuple[Site, ...]:
    """Returns every place that makes an error of the package."""
    return tuple(site for module, tree in trees().items() for site in _sites(module, tree))


def _sites(module: str, tree: ast.Module) -> Iterator[Site]:
    imported = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    validates = "pydantic" in imported or module in ("rewards.chosen_numbers", "trainers.symmetry.mirror_settings")
    for function, node in _nodes(tree, None):
        name = "" if function is None else function.name
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        made = _last_name(call.func)
        if made in error_classes():
            classes = error_classes()[made]
        elif isinstance(node, ast.Raise) and (made not in OTHERS.split() or (made == "ValueError" and validates)):
            classes = ()
        else:
            continue
        if isinstance(node, ast.Call) or made not in error_classes():
            yield Site(module, name, call.lineno, classes, tuple(_messages(call, Words(module, function))))


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _nodes(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.AST]]:
    """Yields raise statements and calls, each with the function that it is in."""
    if isinstance(node, ast.Raise | ast.Call):
        yield function, node
    inner = node if isinstance(node, Function) else function
    for child in ast.iter_child_nodes(node):
        yield from _nodes(child, inner)


def _messages(call: ast.Call, words: Words) -> Iterator[str]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        found = [text for text in words.texts(argument) if is_sentence(text)]
        if found:
            yield from found
            return


def is_sentence(text: str) -> bool:
    """Whether a text is more than a name or a placeholder."""
    return " " in text.strip() and len(re.findall(r"[^\W\d_]{2,}", text.replace("...", " "))) >= 2


@dataclass(frozen=True)
class Words:
    """The texts that expressions of a function may give."""

    module: str
    function: Function | None

    def texts(self, node: ast.AST) -> list[str]:
        """Returns an expression's texts, with `...` for what is not known before it runs."""
        texts = (
            re.sub(r"\{\w+(:\w+)?\}|\{\}(?!\w| will)", "...", text).replace("{{}}", "{}") for text in self._texts(node)
        )
        return [re.sub(r"(\.\.\.){2,}|\.{4,}", "...", text).removeprefix("...: ") for text in texts]

    def _texts(self, node: ast.AST) -> list[str]:
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else ["..."]
        if isinstance(node, ast.JoinedStr):
            parts = [self._texts(part) for part in node.values]
            few = parts if prod(map(len, parts)) <= MOST else [part if len(part) == 1 else ["..."] for part in parts]
            return ["".join(chosen) for chosen in product(*few)]
        if isinstance(node, ast.FormattedValue):
            found = self._texts(node.value) if isinstance(node.value, ast.Name | ast.Call) else []
            return found if len(found) == 1 or (found and all(map(is_sentence, found))) else ["..."]
        if isinstance(node, ast.IfExp):
            return [*self._texts(node.body), *self._texts(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [text for part in node.values for text in self._texts(part)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return [a + b for a in self._texts(node.left) for b in self._texts(node.right)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return [re.sub(r"(?<!\{)\{[^{}]*\}", "...", text) for text in self._texts(node.func.value)]
        if isinstance(node, ast.Name):
            return self._named(node.id)
        return ["..."]

    def _named(self, name: str) -> list[str]:
        if name in constants()[self.module]:
            return [constants()[self.module][name]]
        within = Words(self.module, None)
        given = [] if self.function is None else [*_assigned(name, self.function)]
        return [text for value in given for text in within._texts(value)] or ["..."]


def _assigned(name: str, function: Function) -> Iterator[ast.AST]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if name in [each.id for each in targets if isinstance(each, ast.Name)]:
                yield node.value


@cache
def messages() -> dict[str, tuple[str, ...]]:
    """Returns the messages of each topic, in alphabetical order."""
    found: dict[str, set[str]] = {name: set() for name in topics()}
    for site in sites():
        for text in site.messages:
            found[topic_of_site(site, text)].add(text)
    for topic, places in catalogue()["words"].items():
        found[topic] |= {text for place in places for text in _words_at(*place.partition(":")[::2])}
    return {topic: tuple(sorted(texts, key=_order)) for topic, texts in found.items()}


def topic_of_site(site: Site, text: str) -> str:
    """Returns the topic of a message of a site; for an error that tells of another, that of its own words."""
    known = catalogue()
    by_text = (topic for pattern, topic in known["messages"].items() if re.search(pattern, text))
    by_class = (known["classes"][name] for name in site.classes if name in known["classes"])
    return next(by_text, None) or next(by_class, None) or topic_at(site.name, text).rpartition(" ")[2]


def _words_at(module: str, name: str) -> Iterator[str]:
    """Yields the sentences in a function, class or constant of a module, or in all of it."""
    tree = trees()[module]
    named = [node for node in ast.walk(tree) if name and name in _names_of(node)]
    for node in named or [tree]:
        function = node if isinstance(node, Function) else None
        inside = {id(part) for each in ast.walk(node) if isinstance(each, ast.JoinedStr) for part in each.values}
        notes = {id(each.value) for each in ast.walk(node) if isinstance(each, ast.Expr)}
        for each in ast.walk(node):
            if isinstance(each, ast.Constant | ast.JoinedStr) and id(each) not in inside | notes:
                texts = Words(module, function).texts(each)
                yield from (text for text in texts if is_sentence(text))


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return [node.name] if isinstance(node, Function | ast.ClassDef) else []


def _order(text: str) -> tuple[str, str]:
    return re.sub(r"^[^\w]+", "", text).lower(), text


HEAD = """\
# Error messages

Each error of a command ends with a line that names its topic. This part of the reference explains every topic: what it
means, its usual causes, and what to do. It is for everybody who has just got an error.

*Made by `docs/make_errors.py`; edit the words in `src/palaestra/core/wording/errors.yaml`.*

## How to read an error

```text
palaestra: error: the run 'first' exists already (results/first): continue it with --resume, start it again with \
--force, or choose another --run-id
  why and what to do: palaestra help errors run-exists
```

The first line says what was expected, what came, and what to do. Where a file is at fault it begins with the file and
the line in it. The second line names the topic, `run-exists`. This command explains it in the terminal, without a
network:

```bash
palaestra help errors run-exists
```

Without a topic it lists all of them:

```bash
palaestra help errors
```

- Errors go to standard error, so that the output of a command can be used in a script. The exit status is 2 for a
  command line that cannot be understood, 1 for any other error, and 128 plus the number of a signal.
- With `--debug` a command also prints the traceback: for a report, or where code of your own failed.
- In Python every error of Palaestra is a `palaestra.PalaestraError`. Its attribute `topic` is the name of the topic. In
  a notebook the line stands under the error.
- A traceback without `palaestra: error:` is a mistake in Palaestra. Please report it, with the command and the versions
  that `palaestra --version` prints.
- To find a message here, search these pages for some of its words. What differs from case to case, such as names and
  numbers, is written as `...`.

## All topics
"""


def index() -> str:
    """Returns the page with the table of topics."""
    parts = [HEAD]
    for page, part in catalogue()["pages"].items():
        rows = [
            f"| [`{one.name}`]({page}.md#{one.name}) | {_cell(one.title)} |"
            for one in topics().values()
            if one.page == page
        ]
        parts.append("\n".join(["", f"### {part['title']}", "", "| topic | meaning |", "|---|---|", *rows, ""]))
    return "".join(parts)


def page_of(name: str) -> str:
    """Returns the page of several topics."""
    part = catalogue()["pages"][name]
    mine = [one for one in topics().values() if one.page == name]
    head = [f"# Errors: {_lower(part['title'])}", "", f"{part['about']} [All topics](README.md)"]
    return "\n\n".join(["\n".join(head), *(section(one) for one in mine)]) + "\n"


def section(topic: Topic) -> str:
    """Returns the part of a page about a topic."""
    lines = [f"## {topic.name}", "", *_wrapped(f"**{_upper(topic.title)}.** {topic.means}"), ""]
    lines += ["Usual causes, and what to do:", ""]
    for cause in topic.causes:
        says = f"{_code(cause['says'])}: " if "says" in cause else ""
        lines += _wrapped(f"- {says}{cause['why']} {cause['do']}", "  ")
    if topic.commands:
        lines += ["", "```bash", *topic.commands, "```"]
    if topic.see:
        lines += ["", f"More: {', '.join(map(_link, topic.see))}."]
    told = [f"- {' '.join(text.split())}" for text in messages()[topic.name]]
    return "\n".join([*lines, "", "Messages of this topic:", "", "```text", *told, "```"])


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Returns the lines of a paragraph, whose flags are marked as code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<![\w-])(--[a-z][\w-]*(=[\w./:=-]*\w)?)", r"`\1`", part) for part in parts[::2]]
    marked = "`".join(parts)
    return wrap(marked, 118, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _link(page: str) -> str:
    path = Path(page)
    name = path.parent.name if path.name == "README.md" else path.stem
    return f"[{name.replace('-', ' ')}](../../{page})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text if text[1:2].isupper() or text.startswith(("Unity", "Gymnasium")) else text[:1].lower() + text[1:]


def pages() -> dict[Path, str]:
    """Returns every page by its file."""
    return {FOLDER / "README.md": index()} | {FOLDER / f"{name}.md": page_of(name) for name in catalogue()["pages"]}


def site_menu(made: Mapping[Path, str]) -> dict[str, str]:
    """Returns where the menu of the site has each page that a topic names: `Guides > Training > ...`.

    `made`: the pages of errors.
    """
    places = dict(_places(yaml.safe_load(NAV.read_text(encoding="utf-8"))["en"], ""))
    named = {path.relative_to(DOCS).as_posix() for path in made} | {
        page for one in topics().values() for page in one.see
    }
    return {
        page: places[page] + _title(made.get(DOCS / page) or (DOCS / page).read_text("utf-8")) for page in sorted(named)
    }


def _places(menu: list[Any], above: str) -> Iterator[tuple[str, str]]:
    """Yields each page of a menu, and the groups that it is in."""
    for entry in menu:
        if isinstance(entry, str):
            yield entry, above
        else:
            ((title, inner),) = entry.items()
            yield from _places(inner, f"{above}{title} > ")


def _title(text: str) -> str:
    return re.findall(r"^# (.+)$", text, re.MULTILINE)[0].replace("`", "")


def menu_text(made: Mapping[Path, str]) -> str:
    """Returns the text of `site_menu.yaml`."""
    head = "# Made by docs/make_errors.py: where the site's menu has the pages that topics of errors name.\n"
    return head + yaml.safe_dump(site_menu(made), sort_keys=True, width=200)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, text in (PAGES := pages()).items():
        file.write_text(text, encoding="utf-8")
    MENU.write_text(menu_text(PAGES), encoding="utf-8")
