"""Writes the pages of `docs/reference/python` from the docstrings: `python docs/make_python.py`.

`python_pages.yaml` says which names stand on which page, and what stands around them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

import palaestra
from palaestra.core import errors
from palaestra.runtime.settings.search_settings import SearchSettings

DOCS = Path(__file__).parent
FOLDER = DOCS / "reference" / "python"
NOTES: dict[str, Any] = yaml.safe_load((DOCS / "python_pages.yaml").read_text(encoding="utf-8"))
MADE = "*This page is written by `docs/make_python.py` from the docstrings.*\n"
LONG = 80
"""Letters of a meaning that is not repeated for the next parameter."""
EXAMPLE = re.compile(r"((?:^>>> .*\n(?:(?!>>>|\n).*\n)*)+)", re.MULTILINE)
PARAMETERS = re.compile(r"((?:[a-z_]+|further keywords)(?:, (?:[a-z_]+|further keywords))*): (.*)")
"""A line of a docstring that explains parameters."""
SET_IN_INIT = re.compile(r'^        self\.([a-z]\w*)(?:: ([^=\n]+?))? = [^\n]*\n        """(.*?)"""', re.M | re.S)
"""An attribute that the constructor sets, and its sentence."""


def pages() -> dict[Path, str]:
    """Returns the text of each page."""
    return {FOLDER / "README.md": _index()} | {FOLDER / f"{page['file']}.md": _page(page) for page in NOTES["pages"]}


def listed(module: str) -> dict[str, str]:
    """Returns the page of each name of a module that a page explains."""
    return {
        name: page["file"]
        for page in NOTES["pages"]
        for section in page["sections"]
        if section.get("module") == module
        for name in section["names"]
    }


def unlisted() -> set[str]:
    """Returns public names that no page has."""
    ours = set(palaestra.__all__) - set(listed("palaestra")) - {"PalaestraError", "__version__"}
    sdk = {name for name in vars(import_module("palaestra.sdk")) if name[0].isupper()}
    return ours | (sdk - set(listed("palaestra.sdk")))


def _index() -> str:
    functions, classes = list[str](), list[str]()
    for name, page in listed("palaestra").items():
        thing = getattr(palaestra, name)
        rows, anchor = (classes, "class-") if inspect.isclass(thing) else (functions, "")
        rows.append(f"| [`{name}`]({page}.md#{anchor}{name.lower()}) | {_first(thing)} |")
    classes.append(f"| [`PalaestraError`](types.md#errors) | {_first(errors.PalaestraError)} |")
    tables = {"functions": _table("function | what it is", functions), "classes": _table("class | what it is", classes)}
    return NOTES["index"].format(**tables, made=MADE).rstrip() + "\n"


def _page(page: Mapping[str, Any]) -> str:
    texts = [inspect.getdoc(thing) or "" for thing in map(_thing, page["sections"]) for thing in thing]
    uses_runs = page["sections"][0].get("module") == "palaestra" and any('"pole' in text for text in texts)
    runs = " Examples use the [example runs](README.md#example-runs)." if uses_runs else ""
    parts = [f"# {page['title']}", f"{page['lead']}{runs}"]
    for section in page["sections"]:
        parts += _section(section)
    return "\n\n".join([*(part.strip() for part in parts if part.strip()), f"Next: {page['next']}", MADE])


def _thing(section: Mapping[str, Any]) -> list[Any]:
    names = section.get("names", ())
    return [getattr(import_module(section["module"]), name) for name in names]


def _section(section: Mapping[str, Any]) -> Iterator[str]:
    """Yields the parts of a section: a heading, a text, code, names of a module, tables."""
    if "heading" in section:
        yield f"## {section['heading']}"
    yield section.get("text", "")
    if "code" in section:
        yield f"```python\n{section['code'].strip()}\n```"
    for name, thing in zip(section.get("names", ()), _thing(section), strict=True):
        yield from _name(section, name, thing)
    if "table" in section:
        yield _table("name | import from | what it is", _imported(NOTES[section["table"]]))
    if "modules" in section:
        rows = (f"| `{name}` | {_names_of(import_module(name))} |" for name in NOTES[section["modules"]])
        yield _table("module | names", rows)
    if "types" in section:
        rows = (f"| `{name}` | {what} | `{module}` |" for name, (module, what) in NOTES["types"].items())
        yield _table("type | what it stands for | import from", rows)
    if "errors" in section:
        yield _table("error | is a | raised for", sorted(_errors(errors.PalaestraError)))


def _name(section: Mapping[str, Any], name: str, thing: Any) -> Iterator[str]:
    module = section["module"]
    ours = inspect.isclass(thing) and module == "palaestra"
    yield f"{'###' if 'short' in section else '##'} {'class ' if ours else ''}{name}"
    if "imports" in section:
        yield f"`from {module} import {name}`"
    if "short" in section:
        yield f"`{name}{_signature(thing)}`"
        yield _prose(inspect.getdoc(thing) or "")
    elif inspect.isclass(thing):
        yield from _class(thing, f"sdk.{name}" if "made" in section else "")
    else:
        yield from _function(f"{module.replace('palaestra.sdk', 'sdk')}.{name}", thing)


def _table(head: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", "|---" * (head.count("|") + 1) + "|", *rows])


def _imported(modules: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for module, names in modules.items():
        for name in names:
            yield f"| `{name}` | `{module}` | {_first(getattr(import_module(module), name))} |"


def _names_of(module: ModuleType) -> str:
    """Returns the classes and functions that a module of the package offers."""
    inside = f"{module.__name__}." if hasattr(module, "__path__") else module.__name__
    things = {name: thing for name, thing in vars(module).items() if not name.startswith("_")}
    own = [name for name, thing in things.items() if getattr(thing, "__module__", "").startswith(inside)]
    same = module.__name__.rpartition(".")[2].replace("_", "")
    own += [name for name in things if name.lower() == same and name not in own]
    own += ["default_registry"] * ("default_registry" in things and "default_registry" not in own)
    return ", ".join(f"`{name}`" for name in own)


def _errors(kind: type) -> Iterator[str]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            bases = " and ".join(f"`{base.__name__}`" for base in below.__bases__)
            yield f"| `{below.__name__}` | {bases} | {_first(below)} |"
            yield from _errors(below)


# Functions


def _function(name: str, function: Any) -> Iterator[str]:
    """Yields a function's sentences, call, example and table of parameters."""
    lead, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
    signature = inspect.signature(function)
    meanings, others = _meanings(rest)
    before, _, after = EXAMPLE.sub("", f"{others}\n").partition("\0")
    yield _prose(lead)
    yield f"**Call:** `{name}({_call(signature)})`, returns {_typed(signature.return_annotation)}"
    yield from _examples(others)
    yield _prose(before)
    if meanings:
        yield _table("parameter | type | default | meaning", _parameters(signature, meanings))
    yield _prose(after)
    told = {each for names in meanings for each in names}
    more = [f"`{one.name}`" for one in signature.parameters.values() if one.name not in told and not _stars(one)]
    if more and meanings:
        yield f"Keywords as for [`train`](train.md#train): {', '.join(more)}."


def _call(signature: inspect.Signature) -> str:
    """Returns a call's arguments in short: those that need no name, then `...` for keywords."""
    plain = [one for one in signature.parameters.values() if one.kind is not one.KEYWORD_ONLY and not _stars(one)]
    shown = [one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in plain]
    return ", ".join([*shown, *(["..."] if len(plain) < len(signature.parameters) else [])])


def _stars(one: inspect.Parameter) -> bool:
    return one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)


def _meanings(text: str) -> tuple[dict[tuple[str, ...], str], str]:
    """Returns what a docstring says of parameters, by their names, and its other text, with a mark in their place."""
    found, others, last = dict[tuple[str, ...], str](), list[str](), ()
    for line in text.splitlines():
        if named := PARAMETERS.match(line):
            last = tuple(named[1].split(", "))
            found[last] = named[2]
            others += ["\0"] * (len(found) == 1)
        elif last and line and (line.startswith("    ") or line[0].islower()):
            found[last] += f" {line.strip()}"
        else:
            last = ()
            others.append(line)
    return found, "\n".join(others)


def _parameters(signature: inspect.Signature, meanings: Mapping[tuple[str, ...], str]) -> Iterator[str]:
    for names, meaning in meanings.items():
        known = [signature.parameters[name] for name in names if name in signature.parameters]
        for i, one in enumerate(known):
            said = meaning if i == 0 or len(meaning) < LONG else "likewise"
            if meaning.startswith("keys of `search`"):
                said = (SearchSettings.model_fields[one.name].description or "").replace("null", "None")
            kind = "" if _stars(one) else _typed(one.annotation)
            usual = "" if _stars(one) or one.default is one.empty else f"`{one.default!r}`"
            stars = "**" if one.kind is one.VAR_KEYWORD else ""
            yield f"| `{stars}{one.name}` | {kind} | {usual} | {_cell(said)} |"


def _typed(annotation: Any) -> str:
    """Returns a type as code; a class that has a section is a link."""
    text = _plain(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))
    return " or ".join(_linked(part) for part in _alternatives(text))


def _alternatives(text: str) -> Iterator[str]:
    """Yields the parts of a union; bars within brackets are part of one of them."""
    start = depth = 0
    for i, char in enumerate(text):
        depth += {"[": 1, "]": -1}.get(char, 0)
        if char == "|" and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    yield text[start:].strip()


def _linked(name: str) -> str:
    if page := listed("palaestra").get(name):
        return f"[`{name}`]({page}.md#class-{name.lower()})"
    return f"[`{name}`](types.md#types)" if name in NOTES["types"] else f"`{name.replace('|', 'or')}`"


# Classes


def _class(kind: type, constructed: str = "") -> Iterator[str]:
    """Yields a class's sentences and a table of its members; `constructed`: its name where programs make one."""
    text = inspect.getdoc(kind) or ""
    yield _prose(EXAMPLE.sub("", f"{text}\n"))
    yield from _examples(text)
    if constructed:
        yield f"**Call:** `{constructed}{_signature(kind)}`".replace(") -> None`", ")`")
    rows = [f"| `{name}` | {said} |" for name, said in _members(kind)]
    if rows:
        yield _table("member | what it is", rows)


def _members(kind: type) -> list[tuple[str, str]]:
    """Returns the public members of a class, with those of classes of ours above it first."""
    ours = [one for one in reversed(kind.__mro__) if one.__module__.startswith("palaestra")]
    found = {name.partition("(")[0].partition(":")[0]: (name, text) for one in ours for name, text in _own(one)}
    return list(found.values())


def _own(kind: type) -> list[tuple[str, str]]:
    found = []
    source = inspect.getsource(kind)
    if issubclass(kind, Enum):
        return [(one.name, "") for one in kind]
    for name, annotation in inspect.get_annotations(kind).items():
        said = re.search(rf'^    {name}: [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
        beside = re.search(rf"^    {name}: [^\n]*?#\s*([^\n]*)", source, re.MULTILINE)
        text = said[1] if said else beside[1] if beside else ""
        found.append((f"{name}: {_either(str(annotation))}", _cell(text)))
    for name, annotation, text in SET_IN_INIT.findall(source):
        found.append((f"{name}: {_either(annotation)}" if annotation else name, _cell(text)))
    for name, member in vars(kind).items():
        if isinstance(member, property) and member.fget is not None:
            returns = _either(str(inspect.signature(member.fget).return_annotation))
            found.append((f"{name}: {returns}", _cell(inspect.getdoc(member) or "")))
        elif inspect.isfunction(member) or isinstance(member, staticmethod | classmethod):
            found.append((f"{name}{_signature(getattr(kind, name))}", _cell(inspect.getdoc(member) or "")))
    return [(name, text) for name, text in found if not name.startswith("_")]


def _signature(function: Any) -> str:
    """Returns a function's arguments and result in words."""
    signature = inspect.signature(function)
    shown, stars = list[str](), False
    for one in signature.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not stars:
            shown.append("*")
        stars = stars or one.kind in (one.KEYWORD_ONLY, one.VAR_POSITIONAL)
        mark = {one.VAR_KEYWORD: "**", one.VAR_POSITIONAL: "*"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {_either(str(one.annotation))}"
        shown.append(f"{mark}{one.name}{kind}{_default(one.default)}")
    returns = signature.return_annotation
    return f"({', '.join(shown)})" + ("" if returns is signature.empty else f" -> {_either(str(returns))}")


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, Enum):
        return f" = {type(value).__name__}.{value.name}"
    return f" = {dict(value)!r}" if isinstance(value, Mapping) else f" = {value!r}"


# Text


def _either(text: str) -> str:
    return _plain(text).replace(" | ", " or ").replace("|", " or ")


def _plain(text: str) -> str:
    text = re.sub(r"(Literal\[[^\]]*\])|'", lambda found: found[1] or "", text)  # names of types have no quotes
    return re.sub(r"\b(?:palaestra|collections|pathlib|typing|numpy|torch)(?:\.\w+)*\.(?=[A-Z])", "", text)


def _first(thing: Any) -> str:
    """Returns the first sentence of a docstring."""
    lead = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return _cell(re.split(r"(?<=[.:])\s(?=[A-Z])", " ".join(lead.split()))[0].rstrip(":"))


def _examples(text: str) -> Iterator[str]:
    for example in EXAMPLE.findall(f"{text}\n"):
        lines = [line.partition("  # doctest")[0] for line in example.splitlines()]
        shown = [line[4:] if line.startswith((">>> ", "... ")) else f"# {line}" for line in lines]
        imports = next((i for i, line in enumerate(shown) if not line.startswith(("import ", "from "))), 0)
        yield "\n".join(["```python", *shown[:imports], *([""] if imports else []), *shown[imports:], "```"])


def _prose(text: str) -> str:
    """Returns paragraphs, each on one line; tables of docstrings stay as they are."""
    paragraphs = [one for one in re.split(r"\n\s*\n", text.strip()) if one.strip()]
    return "\n\n".join(
        f"```text\n{one}\n```" if one.startswith("===") else _escaped(" ".join(one.split())) for one in paragraphs
    )


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "\\|")


def _escaped(line: str) -> str:
    """Returns a line whose asterisks outside code are no emphasis."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else part.replace("*", "\\*") for part in parts)


if __name__ == "__main__":
    from written_pages import write_folder

    write_folder(FOLDER, pages())
