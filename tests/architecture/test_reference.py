"""The pages of `docs/reference` that scripts write: up to date, complete, and true."""

import ast
import inspect
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from source import ROOT
from test_documents import anchors, fences
from test_documents import made_by as made_anew

import palaestra
from palaestra.cli.commands import COMMANDS, GROUPS, make_parser
from palaestra.core.errors import PalaestraError
from palaestra.models.settings import MemorySettings, NetworkSettings
from palaestra.rewards.settings import REWARDS
from palaestra.runtime.settings import RunSettings, json_schema
from palaestra.trainers.settings import TRAINERS

REFERENCE = ROOT / "docs" / "reference"
made_by = cache(made_anew)
SCRIPTS = ("make_settings", "make_commands", "make_python")
WITH_RANGES = {
    "ppo": [TRAINERS["ppo"], TRAINERS["poca"]],
    "sac": [TRAINERS["sac"]],
    "bc": [TRAINERS["bc"]],
    "network_settings": [NetworkSettings],
    "memory": [MemorySettings],
    "reward_signals": list(REWARDS.values()),
}
"""Sections of which every key has a usual range."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_pages_are_as_their_script_writes_them(name: str):
    script = made_by(name)
    made = script.pages()
    anew = f"write them anew with: python docs/{name}.py"
    assert set(script.FOLDER.glob("*.md")) == set(made), anew
    assert [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text] == [], anew


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_heading_of_a_page_occurs_twice(name: str):
    for path, text in made_by(name).pages().items():
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        assert sorted(headings) == sorted(set(headings)), path.name


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_page_has_html_by_mistake(name: str):
    for path, text in made_by(name).pages().items():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
        assert re.findall(r"<(?!https?://)[^>\n]*>", prose) == [], path.name


def test_every_key_of_the_schema_has_a_heading():
    schema: dict[str, Any] = json_schema()
    groups = [schema, *schema["$defs"].values()]
    keys = {key for group in groups for key in group.get("properties", {})}
    headings = {anchor.rpartition("-")[2] for page in (REFERENCE / "settings").glob("*.md") for anchor in anchors(page)}
    assert len(keys) > 100
    assert keys - headings - {"extrinsic", "curiosity", "gail", "rnd", "amp", "curriculum"} == set()


def test_every_key_that_learning_depends_on_has_a_usual_range():
    notes = made_by("make_settings").NOTES["notes"]
    lacking = {
        f"{section}.{key}"
        for section, classes in WITH_RANGES.items()
        for each in classes
        for key in each.model_fields
        if "typical" not in notes[section].get(key, {})
    }
    assert lacking == set()


def test_notes_are_about_keys_that_exist():
    script = made_by("make_settings")
    known = {section.key: {name for name, _ in section.fields()} for section in script.SECTIONS}
    for named in (script.NOTES["notes"], script.NOTES["ml_agents"]):
        assert {f"{section}.{key}" for section, keys in named.items() for key in set(keys) - known[section]} == set()
    assert {section.page for section in script.SECTIONS} == set(script.NOTES["pages"])


def test_examples_of_settings_can_be_read():
    for page in made_by("make_settings").NOTES["pages"].values():
        RunSettings.model_validate(yaml.safe_load(page["example"]))


def test_every_command_has_examples_that_the_parser_takes():
    notes = made_by("make_commands").NOTES
    assert set(notes) == {*COMMANDS, "common", "unity"}
    assert [name for names in GROUPS.values() for name in names] == list(COMMANDS)
    for name in COMMANDS:
        commands = [line for each in notes[name]["examples"] for line in each["run"].splitlines()]
        assert commands
        for line in commands:
            words = shlex.split(line)[1:]
            assert words[0] == name
            make_parser(name).parse_args(words)


def test_every_public_name_of_python_is_on_a_page():
    assert made_by("make_python").unlisted() == set()


@pytest.mark.parametrize("path", sorted((REFERENCE / "python").glob("*.md")), ids=lambda path: path.stem)
def test_calls_in_examples_have_arguments_that_the_functions_take(path: Path):
    calls = [
        (getattr(palaestra, node.func.attr), node)
        for language, block in fences(path)
        if language == "python"
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "palaestra"
    ]
    for function, node in calls:
        keywords = [keyword.arg for keyword in node.keywords]
        inspect.signature(function).bind(*node.args, **{key: None for key in keywords if key})
        assert not inspect.isclass(function) or issubclass(function, PalaestraError)
