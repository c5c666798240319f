"""What `--help` shows: what a command is for first, every text wrapped once, flags of Unity games by name."""

import argparse
import re
from itertools import pairwise
from textwrap import dedent

import pytest

from palaestra.cli.commands import COMMANDS, GROUPS, complain, make_parser, parse, subparser
from palaestra.cli.game_flags import FLAGS
from palaestra.cli.help_text import fitted
from palaestra.cli.learn import FIRST
from palaestra.core.wording.error_topics import POINTER, topics


def help_of(*words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit):
        parse(make_parser(words[0] if words[0] in COMMANDS else None), list(words))
    return capsys.readouterr().out


def test_learn_begins_with_what_most_runs_need(monkeypatch, capsys):
    shown = help_of("learn", "--help", monkeypatch=monkeypatch, capsys=capsys)
    assert shown.startswith("Usage: palaestra learn [CONFIG] [flags]\n")
    flags = re.findall(r"^  (--[a-z-]+|CONFIG)", shown, re.MULTILINE)
    first = [f"--{key.replace('_', '-')}" for key in FIRST]
    assert flags[:9] == ["CONFIG", "--env", "--run-id", *first, "--seed", "--resume", "--force", "--view"]
    assert shown.index("Unity games:") > shown.index("--ray-working-dir")


def test_flags_of_unity_games_are_named_and_explained_on_demand(monkeypatch, capsys, terminal):
    shown = help_of("evaluate", "--help", monkeypatch=monkeypatch, capsys=capsys)
    everything = help_of("evaluate", "--help-all", monkeypatch=monkeypatch, capsys=capsys)
    explained = terminal("help unity")
    for key, _, what in FLAGS:
        flag, words = f"--{key.replace('_', '-')}", what.split(" (")[0]
        assert re.search(rf"{flag}\b", shown)
        assert words not in " ".join(shown.split())
        for whole in (everything, explained):
            assert f"{flag}" in whole
            assert words in " ".join(whole.split())
    assert "`palaestra help unity` explains them" in shown
    assert "also explain" not in help_of("plot", "--help", monkeypatch=monkeypatch, capsys=capsys)


def test_help_is_a_command_for_every_other_and_names_the_nearest(terminal):
    assert "plot        draw learning curves" in terminal("help")
    for name in COMMANDS:
        assert terminal("help", name).startswith(f"Usage: palaestra {name} ")
    assert "there is no command 'lern'; did you mean 'learn'?" in terminal.fails("help lern")


def test_commands_are_listed_by_what_one_does(terminal):
    shown = terminal("help")
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert shown.index("\n  plot ") < shown.index("\n  league ")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", COMMANDS)
def test_paragraphs_are_wrapped_once_at_the_terminals_width(command, columns, monkeypatch, capsys):
    shown = help_of(command, "--help", monkeypatch=monkeypatch, capsys=capsys, columns=columns)
    head = shown.partition("\n\n")[2].partition(":\n")[0]
    for paragraph in head.split("\n\n")[:-1]:
        lines = paragraph.splitlines()
        for line, following in pairwise(lines):
            if not following.startswith(" "):
                assert len(line) + 1 + len(following.split()[0]) > columns - 2, paragraph
    groups = subparser(make_parser(command), command)._action_groups
    assert [
        group.title for group in groups if not re.fullmatch(r"[A-Z][^A-Z]*|.*(GPU|Unity).*", str(group.title))
    ] == []


def test_no_usage_is_a_wall_of_flags():
    for name in COMMANDS:
        usage = subparser(make_parser(name), name).format_help().splitlines()[0]
        assert len(usage) < 80, usage


def test_a_text_keeps_its_list_its_commands_and_its_comments():
    text = dedent("""
        A paragraph that is
        wrapped in the source.

        Names:
          one    what it means, in words that go on
          for a second line
          two    the other
        # a comment on what follows
        palaestra learn file.yaml --env=Game --run-id=first
        palaestra view
    """)
    assert fitted(text, 34).splitlines() == [
        "A paragraph that is wrapped in the",
        "source.",
        "",
        "Names:",
        "  one    what it means, in words",
        "         that go on for a second",
        "         line",
        "  two    the other",
        "# a comment on what follows",
        "palaestra learn file.yaml \\",
        "    --env=Game --run-id=first",
        "palaestra view",
    ]


def test_no_flag_lacks_a_sentence():
    for name in COMMANDS:
        for action in subparser(make_parser(name), name)._actions:
            assert action.help == argparse.SUPPRESS or action.help, (name, action)


def test_errors_are_explained_by_topic(terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    listed = terminal("help errors")
    assert max(map(len, listed.splitlines())) <= 80
    assert {line.split()[0] for line in listed.splitlines() if line.startswith("  ")} == {*topics()}
    text = terminal("help errors run-exists")
    assert text.startswith("run-exists: a run of that name exists already\n")
    assert max(map(len, text.splitlines())) <= 80
    message = terminal.fails("help errors run-exist")
    assert "there is no topic 'run-exist'; did you mean 'run-exists'?" in message
    assert "got 'learn' and 'tune'" in terminal.fails("help learn tune")


def test_an_error_ends_with_where_it_is_explained(terminal):
    assert terminal.fails("help lern").splitlines()[-1] == f"{POINTER}command-line"
    assert complain("a message") == 1


def test_what_another_process_has_pointed_to_is_not_repeated(capsys: pytest.CaptureFixture[str]):
    complain(f"rank 1 failed\n{POINTER}memory", topic="ranks")
    assert capsys.readouterr().err.count(POINTER) == 1
