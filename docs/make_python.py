"""Writes docs/reference/python.md: every public name with its signature, docstring and members."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import palaestra

PAGE = Path(__file__).parent / "reference" / "python.md"
HEAD = """# The Python API

Written by `docs/make_python.py` from the docstrings; a [guide](../guides/extend/python.md) shows how the functions work
together. Every function raises `palaestra.PalaestraError`: what was expected, what came, and what to do.

Examples use the runs `pole` and `pole-2`, which two calls make; other names stand for runs and files of yours:
```python
import palaestra
palaestra.train(env="CartPole", max_steps=20_000, summary_freq=4000, run_id="pole")
palaestra.train(env="CartPole", max_steps=20_000, summary_freq=4000, run_id="pole-2", seed=2)
```
"""
TYPES = """## Types in signatures

Functions take and return these beside the classes below. Only annotations of your own need to import them.

| type | what it stands for | import from |
|---|---|---|
| `Config` | a settings file, a dictionary of settings, or None |
| `Environment` | the name of an environment, a game's file, an environment, its class, or a function that makes one |
| `Run` | a run id, a run's folder, or the `Result` of a training |
| `Runs` | such a run, `SeedResults`, or several of them |
| `Trainer` | "ppo", "sac", "poca" or "bc", a `module:Class`, or a class |
| `Track` | a tracker such as "wandb", several, or a dictionary from trackers to their options |
| `Kept` | "newest", "all" or "none" |
| `DemoSource` | a recording: `behavior`, `team`, `spec`, `records`, `warnings`; iterating reads its records |
| `Estimate` | `value`, and `low` and `high`, the ends of its interval |
| `TaskScores` | `runs` with the `score` of each, their `score`, an `Estimate`; with a bar `to_bar`, `seconds_to_bar` |
| `RunGroup` | `name`, and `runs`, their ids |
| `Measure` | the arguments of `compare`: `metric`, `bar`, `at` and so on |
| `ModelCosts` | `name`, `behavior`, `file`, `played`, `interval`, `microseconds`, `size` in bytes |
| `Pulled` | `folder`, `repo`, `commit`, `files`, `size`, `left_out`, `is_run` |
| `Pushed` | `url`, `commit`, `created`, `changed`, `files`, `removed`, `left_out`, `notes` |
| `Callable[..., Any]` of `run` | {FUNCTION} |
| `Figure` | a figure of matplotlib |
"""
FUNCTION = (
    "a function of (obs, mask), or of obs alone: `obs` is a list of arrays, each (N, *shape), `mask` (N, choices), "
    "True: allowed, or None. It returns the actions, (N, numbers) or (N, branches), or a pair of both"
)
IMPORTS = {
    "Config": "palaestra.runtime.run.run_settings",
    "Environment": "palaestra.api.training_options",
    "Run": "palaestra.api.given_runs",
    "Runs": "palaestra.api.given_runs",
    "Trainer": "palaestra.api.training_options",
    "Track": "palaestra.api.training_options",
    "Kept": "palaestra.runtime.sharing.pushed_files",
    "DemoSource": "palaestra.demos",
    "ModelCosts": "palaestra.runtime.distill.distillation",
    "Estimate": "palaestra.runtime.comparison.intervals",
    "TaskScores": "palaestra.runtime.comparison.scores",
    "RunGroup": "palaestra.runtime.comparison.selection",
    "Measure": "palaestra.runtime.comparison.scores",
    "Pulled": "palaestra.runtime.sharing.pulling",
    "Pushed": "palaestra.runtime.sharing.pushing",
    "Callable[..., Any]": "collections.abc",
    "Figure": "matplotlib.figure",
}
"""Module of each of these types."""


def page() -> str:
    """Returns the whole page."""
    names = [name for name in palaestra.__all__ if name != "__version__"]
    functions = [name for name in names if inspect.isfunction(getattr(palaestra, name))]
    types = [name for name in names if name not in functions]
    links = [
        f"- {what}: {', '.join(f'[`{name}`](#{kind}{name.lower()})' for name in some)}"
        for what, kind, some in (("Functions", "", functions), ("What they take and return", "class-", types))
    ]
    parts = [HEAD, "\n".join(links)]
    parts += [f"## {name}\n\n{_function(name)}" for name in functions]
    parts.append(re.sub(r"^\| `(.+?)`.*\|$", _with_import, TYPES, flags=re.M).replace("{FUNCTION}", FUNCTION))
    parts += [f"## class {name}\n\n{_type(getattr(palaestra, name))}" for name in types]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _with_import(row: re.Match[str]) -> str:
    return f"{row[0]} `{IMPORTS[row[1]]}` |"


def _function(name: str) -> str:
    function = getattr(palaestra, name)
    parameters = [_parameter(one) for one in inspect.signature(function).parameters.values()]
    stars = next(
        (i for i, one in enumerate(inspect.signature(function).parameters.values()) if one.kind is one.KEYWORD_ONLY),
        None,
    )
    if stars is not None:
        parameters.insert(stars, "*")
    returns = _plain(str(inspect.signature(function).return_annotation))
    inner = "".join(f"    {one},\n" for one in parameters)
    return f"```text\n{name}(\n{inner}) -> {returns}\n```\n\n{_prose(inspect.getdoc(function) or '')}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_KEYWORD: "**", one.VAR_POSITIONAL: "*"}.get(one.kind, "")
    default = (
        "" if one.default is one.empty else f" = {str(one.default) if callable(one.default) else repr(one.default)}"
    )
    return f"{stars}{one.name}: {_plain(str(one.annotation))}{default}"


def _type(kind: type) -> str:
    lines = [_prose(inspect.getdoc(kind) or "")]
    rows = [f"| `{name}` | {text} |" for name, text in _members(kind)]
    return "\n\n".join([*lines, "\n".join(["| member | what it is |", "|---|---|", *rows])] if rows else lines)


def _members(kind: type) -> list[tuple[str, str]]:
    """Returns the public members of a class, with those of classes of ours above it first."""
    ours = [one for one in reversed(kind.__mro__) if one.__module__.startswith("palaestra")]
    found = {name.partition("(")[0].partition(":")[0]: (name, text) for one in ours for name, text in _own(one)}
    return list(found.values())


def _own(kind: type) -> list[tuple[str, str]]:
    found = []
    source = inspect.getsource(kind)
    for name, annotation in inspect.get_annotations(kind).items():
        said = re.search(rf'^    {name}: [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
        beside = re.search(rf"^    {name}: [^\n]*?#\s*([^\n]*)", source, re.MULTILINE)
        text = said[1] if said else beside[1] if beside else ""
        found.append((f"{name}: {_plain(str(annotation))}", _line(text)))
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            returns = _plain(str(inspect.signature(member.fget).return_annotation))  # type: ignore[arg-type]
            found.append((f"{name}: {returns}", _line(inspect.getdoc(member) or "")))
        elif inspect.isfunction(member):
            signature = _plain(str(inspect.signature(member))).replace("(self, ", "(").replace("(self)", "()")
            found.append((f"{name}{signature}", _line(inspect.getdoc(member) or "")))
    return [(name.replace("|", "\\|"), text) for name, text in found if not name.startswith("_")]


def _prose(text: str) -> str:
    """Returns a docstring as Markdown: examples as code, arguments as a list."""
    text = re.sub(
        r"((?:^>>> .*\n(?:(?!>>>|\n).*\n)*)+)",
        lambda found: f"```python\n{_code(found[1])}```\n",
        f"{text}\n",
        flags=re.M,
    )
    text = re.sub(r"^([a-z_]+(?:, [a-z_]+)*): ", r"- `\1`: ", text, flags=re.M)
    return text.strip()


def _code(text: str) -> str:
    lines = [line.partition("  # doctest")[0] for line in text.splitlines()]
    return "".join(f"{line[4:] if line.startswith(('>>> ', '... ')) else f'# {line}'}\n" for line in lines)


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _plain(text: str) -> str:
    text = re.sub(r"(Literal\[[^\]]*\])|'", lambda found: found[1] or "", text)  # names of types have no quotes
    return re.sub(r"\b(?:palaestra|collections|pathlib|typing)(?:\.\w+)*\.(?=[A-Z])", "", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
