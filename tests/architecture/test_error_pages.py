"""Every error has a topic, whose words are true: `errors.yaml` against the source and against its pages."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from source import ROOT

from palaestra.core.wording.error_topics import CALLER, CAUSE, catalogue, topic_at, topics

WORDS = {CALLER, CAUSE}


def make_errors() -> ModuleType:
    """Returns the script that writes the pages."""
    spec = importlib.util.spec_from_file_location("make_errors", ROOT / "docs" / "make_errors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_errors"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


ERRORS = make_errors()


def test_the_pages_of_errors_are_up_to_date():
    pages: dict[Path, str] = ERRORS.pages()
    assert {path: path.read_text(encoding="utf-8") for path in ERRORS.FOLDER.glob("*.md")} == pages, (
        "write them anew with: python docs/make_errors.py"
    )
    assert ERRORS.MENU.read_text(encoding="utf-8") == ERRORS.menu_text(pages), (
        "write it anew with: python docs/make_errors.py"
    )


def test_every_place_that_makes_an_error_has_exactly_one_topic():
    assert len(ERRORS.sites()) > 1400
    wrong = {
        f"{site.name}, line {site.line}": topic
        for site in ERRORS.sites()
        for text in site.messages or ("",)
        if (topic := ERRORS.topic_of_site(site, text)) not in topics()
    }
    assert wrong == {}


def test_a_rule_names_one_topic_perhaps_behind_a_word():
    for name, rule in catalogue()["sites"].items():
        for topic in [rule] if isinstance(rule, str) else rule.values():
            *words, last = topic.split()
            assert len(words) <= 1, name
            assert {*words} <= WORDS, name
            assert last in topics(), name
        assert isinstance(rule, str) or [*rule][-1] == "", name
    assert {*catalogue()["classes"].values(), *catalogue()["messages"].values()} <= {*topics()}


def test_every_rule_decides_something():
    names = {site.name for site in ERRORS.sites()}
    functions = {f"{module}:{name}" for module in ERRORS.trees() for name in functions_of(module)}
    decided = {rule_of(name) for name in names}
    places = functions | {*ERRORS.trees()}
    callers = {name for name, rule in catalogue()["sites"].items() if CALLER in rule and name in places}
    assert {*catalogue()["sites"]} - decided - callers == set()
    assert {*catalogue()["classes"]} - {*ERRORS.error_classes()} == set()
    for places in catalogue()["words"].values():
        assert {place.partition(":")[0] for place in places} <= {*ERRORS.trees()}


def test_every_topic_has_messages_and_each_cause_quotes_one_of_them():
    told: dict[str, tuple[str, ...]] = ERRORS.messages()
    assert 30 <= len(topics()) <= 50
    for name, topic in topics().items():
        assert told[name], name
        assert 2 <= len(topic.causes) <= 7, name
        for cause in topic.causes:
            says = cause.get("says")
            assert says is None or any(says in text for text in told[name]), f"{name}: {says}"


@pytest.mark.parametrize("name", topics())
def test_a_topic_fits_a_terminal_of_80_columns(name: str):
    topic = topics()[name]
    assert re.fullmatch(r"[a-z][a-z-]{1,16}", name)
    long = [line for line in topic.text(78).splitlines() if len(line) > 78]
    assert [line for line in long if not line.startswith(('  "', "  palaestra "))] == []
    assert len(topic.title) <= 60
    assert all((ROOT / "docs" / page).is_file() for page in topic.see)


def functions_of(module: str) -> list[str]:
    return re.findall(r"^ *def (\w+)", source_of(module), re.MULTILINE)


def source_of(module: str) -> str:
    path = ROOT / "src" / "palaestra" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def rule_of(place: str) -> str:
    """Returns the name of the rule that decides about a place."""
    name = place
    while name not in catalogue()["sites"]:
        name = name.partition(":")[0] if ":" in name else name.rpartition(".")[0]
        assert name, place
    assert topic_at(place, "") != ""
    return name
