import ast
import dataclasses
import importlib.util
import re
import shlex
import sys
import textwrap
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from source import PACKAGE, ROOT, documents, tracked

from palaestra.cli.commands import make_parser
from palaestra.data.replay import ReplayBatch
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.data.rollout_values import RolloutValues
from palaestra.trainers.ppo import Coefficients, Losses
from palaestra.trainers.sac_gradient import DrawnActions

if sys.version_info >= (3, 11):
    import tomllib

PAGES = [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in documents()]
GROUPS = {f"palaestra.{kind}" for kind in ("bodies", "brains", "encoders", "envs", "rewards", "trackers", "trainers")}
"""Groups of entry points; some are no package."""
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_commands_in_documents_are_real():
    found = [
        line
        for path in documents()
        for language, block in fences(path)
        for line in block.splitlines()
        if language not in {"text", "console"}  # what a command prints
        and re.match(r"palaestra (?!--version)", line)
    ]
    saved = {
        name
        for path in documents()
        for name in re.findall(r"[Ss]ave this as `([\w.-]+)`", path.read_text(encoding="utf-8"))
    }
    assert len(found) > 300
    for line in found:
        words = shlex.split(line)[1:]
        options = make_parser(words[0]).parse_args(words)
        config = getattr(options, "config", None)
        of_a_run = config is not None and config.parts[0] == "results"
        assert config is None or of_a_run or (ROOT / config).is_file() or config.name in {"CONFIG", *saved}, line


def test_make_targets_in_documents_are_real():
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    texts = [path.read_text(encoding="utf-8") for path in documents()]
    blocks = [block for path in documents() for language, block in fences(path) if language in ("", "bash")]
    named = {word for text in texts for word in re.findall(r"`make ([a-z-]+)(?:`| [A-Z])", text)}
    named |= {word for block in blocks for word in re.findall(r"^make ([a-z-]+)", block, re.MULTILINE)}
    assert {"learn", "test"} <= named <= rules


@pytest.mark.parametrize("path", PAGES)
def test_links_lead_somewhere(path: Path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        assert page.exists(), f"{target} in {path.name}"
        assert not anchor or anchor in anchors(page), f"{target} in {path.name}"


@pytest.mark.parametrize("path", PAGES)
def test_python_in_documents_imports_what_there_is(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT)
    blocks = [ast.parse(textwrap.dedent(block)) for language, block in fences(path) if language == "python"]
    saved = re.findall(r"[Ss]ave this as `(\w+)\.py`", path.read_text(encoding="utf-8"))  # modules of the page itself
    imports = [
        [
            node
            for node in block.body
            if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", None) not in saved
        ]
        for block in blocks
    ]
    assert all(imports[:1])  # later ones may go on with what stands before
    for found in imports:
        exec(compile(ast.Module(found, []), path.name, "exec"), {})


def test_the_tree_in_architecture_names_every_folder():
    tree = next(block for _, block in fences(ROOT / "ARCHITECTURE.md") if block.startswith("src/palaestra/"))
    assert named_in(tree) == {
        path.parent.relative_to(PACKAGE).as_posix() + "/" for path in PACKAGE.rglob("*/__init__.py")
    }


def test_architecture_is_short():
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line]) <= 166


@pytest.mark.parametrize("path", PAGES)
def test_modules_named_in_documents_exist(path: Path):
    text = path.read_text(encoding="utf-8")
    files = {name for name in re.findall(r"[\w/.]*\w+/[\w/]+\.py\b", text) if not name.startswith((".venv", "my_"))}
    assert {
        name for name in files if not any((folder / name).is_file() for folder in (PACKAGE, ROOT, path.parent))
    } == set()
    dotted = set(re.findall(r"\bpalaestra(?:\.\w+)+(?!\.?\w)", text)) - GROUPS
    assert {name for name in dotted if not name.endswith(".json") and not is_there(name)} == set()


def test_what_architecture_finds_is_where_it_says():
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Where to find")[2]
    found = re.findall(r"`(\w+)` in `([\w/]+\.py)`(?: \(`(\w+)`\))?", table)
    assert len(found) >= 8
    for name, file, method in found:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        (thing,) = [
            node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        assert not method or method in {node.name for node in ast.walk(thing) if isinstance(node, ast.FunctionDef)}, (
            name,
            method,
        )


def test_the_guide_to_trainers_names_every_column_of_a_rollout():
    text = (ROOT / "docs" / "guides" / "extend" / "own-trainer.md").read_text(encoding="utf-8")
    table = text.partition("## The rollout")[2].partition("\n\n|")[2].partition("\n\n")[0]
    named = [
        name
        for row in table.splitlines()
        if not row.startswith("|--")
        for name in re.findall(r"`(\w+)`", row.lstrip("|").split("|")[0])
    ]
    assert sorted(named) == sorted(field.name for field in dataclasses.fields(Rollout))


@pytest.mark.parametrize("kind", [Coefficients, RolloutValues, Minibatch, Losses, DrawnActions, ReplayBatch])
def test_the_guide_to_trainers_names_every_field_of_what_methods_are_given(kind: type):
    text = (ROOT / "docs" / "guides" / "extend" / "methods-to-override.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{kind.__name__}` \| `{kind.__module__}` \| (.*) \|$", text, re.MULTILINE)
    assert row
    fields = {field.name for field in dataclasses.fields(kind)}
    assert set(re.findall(r"`(\w+)(?:\(\))?`", row[1])) - {"batch"} == fields


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_the_table_of_libraries_has_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    table = (ROOT / "docs" / "decisions" / "libraries.md").read_text(encoding="utf-8")
    listed = {name for row in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in re.split(r", | \(.*", row)}
    assert {re.split(r"[\[>=<]", each)[0] for each in wanted} <= listed


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8")))
    assert linked == {path.name for path in folder.glob("*.md")} - {"README.md"}


def test_no_file_knows_the_machine_it_was_made_on():
    place = re.compile(rb"(?<![\w./-])/(?:work|root|home|Users|tmp)/[\w.-]+/[\w.-]+")
    found = {path.relative_to(ROOT).as_posix(): place.search(path.read_bytes()) for path in tracked()}
    assert {name: match[0] for name, match in found.items() if match} == {}


def fences(path: Path) -> list[tuple[str, str]]:
    """Language and text of each code block."""
    return [(match[1], match[2]) for match in FENCE.finditer(path.read_text(encoding="utf-8"))]


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named_in(tree: str) -> set[str]:
    """Paths of the folders that an indented tree names, from its root."""
    found = set()
    folders = dict[int, str]()
    for line in tree.splitlines()[1:]:
        indent = len(line) - len(line.lstrip())
        for word in line.split():
            if not word.endswith("/"):
                break
            folders[indent] = folders.get(indent - 2, "") + word
            found.add(folders[indent])
    return found


def is_there(name: str) -> bool:
    """Whether a dotted name leads to a module of ours or to something in one."""
    parts = name.split(".")
    for i in range(len(parts), 0, -1):
        with suppress(ModuleNotFoundError):
            thing: Any = import_module(".".join(parts[:i]))
            for part in parts[i:]:
                thing = getattr(thing, part, None) or getattr(thing, "__annotations__", {}).get(part)
            return thing is not None
    return False


def made_by(name: str) -> ModuleType:
    """Returns a script of the documentation as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tree_reader_follows_indents():
    assert named_in("src/\n  a/  x\n    b/ c/  see d\n      e/\n  f/ word g/\n") == {
        "a/",
        "a/b/",
        "a/c/",
        "a/c/e/",
        "f/",
    }
