"""Messages in Python's words: flags become keywords, commands become calls.

    continue it with --resume, or choose another --run-id    continue it with resume=True, or choose another run_id
    name it with --env, such as --env=3DBall                 name it with env=..., such as env="3DBall"
    'palaestra export first --step=100' writes it            palaestra.export("first", step=100) writes it

Messages give values to flags with `=`, and put commands into quotes or backticks, unless they end the line.
Other text in quotes, paths, and the text of a user's exception are the user's, and are not changed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from palaestra.core.wording.most_changed import MOST_CHANGED

_SAME = """
    actions activation areas at bar base-port batch-size behavior bounds brain buffer-size capture-frame-rate
    checkpoints confidence config demo demo-out deterministic editor-port env env-args env-runners episodes evaluate
    force fps games gpus groups height hidden-units inference initialize-from jobs keep-best keep-checkpoints last
    learning-rate lower max-lifetime-restarts max-steps message method metric models-only no-graphics
    no-graphics-monitor no-titles no-video normalize normalizer num-areas num-envs num-layers objective obs-shape
    out private processes pruner quality-level rank-timeout ray-address ray-working-dir restarts-rate-limit-n
    restarts-rate-limit-period-s results-dir resume revision run-id runner-cpus sampled search seconds seed seeds
    env-options side-by-side smooth snapshots step steps stop-at stop-without-progress storage study summary-freq
    objectives target-frame-rate time-scale timeout-wait title track trainer trials trust vis-encode-type width
    x memory-size policy-inputs
"""
KEYWORDS = {flag: flag.replace("-", "_") for flag in _SAME.split()} | {
    "brain": "brains",
    "commit-message": "message",
    "lesson": "first_lesson",
    "load": "load_model",
    "run-path": "run_id",
    "save-freq": "checkpoint_interval",
    "set": "settings",
    "torch-device": "device",
    "torch-threads": "threads",
    "train": "train_model",
}
"""The keyword for each flag that Python has as a keyword too; flags are without hyphens."""
_SWITCHES = """
    demo deterministic force inference keep-best load lower models-only no-graphics no-graphics-monitor no-titles
    no-play no-video policy-inputs private resume sampled train trust
"""
SWITCHES = frozenset(_SWITCHES.split())
"""Flags without a value."""
WHOLE = {
    "debug": 'settings={"debug": True}',
    "multi-gpu": "gpus=-1",
    "no-titles": "titles=False",
    "no-play": "play=False",
}
"""Flags for which a message in Python has a keyword with its value."""
_BOTH = "compare distill evaluate export plot publish pull push record run tune"
_SHELL_ONLY = "alias config convert demo doctor envs help league schema upgrade view"
FUNCTIONS = {"learn": "train", **{name: name for name in _BOTH.split()}}
"""The Python function for each command that has one; other commands only exist on the command line."""
SEVERAL = ("compare", "evaluate", "plot", "record")
"""Commands that take several runs; the Python function takes a list."""
COMMANDS = (*FUNCTIONS, *_SHELL_ONLY.split())
PHRASES = {
    "a map of keys": "a dictionary",
    "an empty map": "an empty dictionary",
    "not a map with": "not a dictionary with",
    "true or false": "True or False",
    "got true": "got True",
    "got false": "got False",
    "got null": "got None",
    " on the command line": "",
    "for python:module:function": "that you give as env",
    "; --debug shows the whole traceback": "",
    "--groups ppo='ppo-*' sac='sac-*'": 'groups={"ppo": "ppo-*", "sac": "sac-*"}',
}
"""Phrases that only make sense on the command line or in files, and the phrases for Python."""

OF_EVERY_BEHAVIOR = {path: keyword for keyword, (path, _) in MOST_CHANGED.items()} | {"keep_best": "keep_best"}
"""The keyword for each setting of every behavior that has a keyword, by its path in a behavior's block."""
_BEGINS = r"(?<![\w/.=\\-])"
_ENDS = r"""(?=[,;:.!?]*(?:[\s)'"`\]]|$))"""
_VALUE = rf"""'[^'\n]*'|"[^"\n]*"|(?:[\w.*-]+=)?[\[{{][^\]}}\n]*[\]}}]|\.\.\.|[^\s'"`()]+?{_ENDS}"""
_SPACED = rf"""'[^'\n]*'|"[^"\n]*"|[\w.*-]+=(?:{_VALUE})|(?:[A-Z][A-Z_]*|\d[\w.,:+-]*?){_ENDS}"""
_FLAG = rf"{_BEGINS}--(?P<flag>[a-z][a-z0-9-]*)(?:=(?P<value>{_VALUE})|[ ](?P<spaced>{_SPACED})|(?![\w=-]))"
_WORD = rf"""--[\w-]+(?:=(?:{_VALUE})|[ ](?:{_SPACED}))?|'[^'\n]*'|"[^"\n]*"|[^\s'"`(),;]+"""
_VERBS = "|".join(COMMANDS)
_PATTERN = re.compile(
    rf"""
    (?P<theirs>\b(?:[A-Z]\w*|\w+(?:Error|Exception)):\ .*?\ \([^()\n]+,\ line\ \d+\)  # of an exception
      |(?<![\w'])'(?!palaestra\ (?:{_VERBS})\b|--[a-z])(?:[^'\n]|'(?=\w))*'(?!\w)
      |(?<![\w"=])"[^"\n]*")
    |(?<!\w)(?P<quote>['`])palaestra\ (?P<quoted_verb>{_VERBS})(?P<quoted_words>(?:\ [^`\n]*?)?)(?P=quote)(?!\w)
    |{_BEGINS}palaestra\ (?P<verb>{_VERBS})\b(?!\s*=)(?P<words>(?:[ ](?:{_WORD}))*)
    |{_FLAG}
    """,
    re.VERBOSE | re.DOTALL,
)
_PLACE = re.compile(r"""^([ ]*)(settings\["([^"]+)"\]|(\w+)): ([^\s:]+): """, re.MULTILINE)
"""An argument, and after it the path of a setting."""
_NAMED = re.compile(r"\b(?:with|add|give|by|name|set|choose)$")


def in_python(text: str, theirs: Sequence[str] = ()) -> str:
    """Returns a message with keywords and calls in place of flags and commands. `theirs`: texts to keep."""
    parts = [text]
    if kept := [one for one in theirs if one in text]:
        parts = re.split("(" + "|".join(re.escape(one) for one in sorted(kept, key=len, reverse=True)) + ")", text)
    return _once("".join(part if index % 2 else _translated(part) for index, part in enumerate(parts)))


def speaks_of_flags(text: str) -> bool:
    """Whether a text contains anything that `in_python` may change."""
    return "--" in text or "palaestra " in text


def _translated(text: str) -> str:
    for phrase, now in PHRASES.items():
        text = text.replace(phrase, now)
    if not speaks_of_flags(text):
        return text
    parts: list[str] = []
    end = 0
    flag_before = False
    for found in _PATTERN.finditer(text):
        between = text[end : found.start()]
        is_flag = found["flag"] is not None
        parts += [", " if between == " " and is_flag and flag_before else between, _replaced(found)]
        end = found.end()
        flag_before = is_flag
    return "".join([*parts, text[end:]])


def _once(text: str) -> str:
    """Leaves out the path of a setting after the argument that means it."""
    return _PLACE.sub(_without_path, text) if ": " in text else text


def _without_path(found: re.Match[str]) -> str:
    indent, argument, key, keyword, path = found.groups()
    own = next((one for one, word in OF_EVERY_BEHAVIOR.items() if word == keyword), keyword)
    _, meant, below = f".{path}.".partition(f".{(key or own).removeprefix('behaviors.*.')}.")
    return f"{indent}{argument}: {below[:-1]}{below and ': '}" if meant else found.group()


def _replaced(found: re.Match[str]) -> str:
    if found["theirs"] is not None:
        return found.group()
    if found["flag"] is not None:
        return _keyword(found)
    verb = found["quoted_verb"] or found["verb"]
    if verb not in FUNCTIONS:
        return found.group()
    words = found["quoted_words"] if found["quoted_verb"] else found["words"]
    call = _call(verb, words or "")
    return f"`{call}`" if found["quote"] == "`" else call


def _keyword(found: re.Match[str]) -> str:
    flag = found["flag"]
    if flag in WHOLE:
        return WHOLE[flag]
    if flag not in KEYWORDS:
        return found.group()
    value = found["value"] or found["spaced"]
    if flag in SWITCHES and found.string[found.end() :].startswith(": "):
        return KEYWORDS[flag]  # the place of a message
    if flag in SWITCHES:
        return f"{KEYWORDS[flag]}=True" + (f" {found['spaced']}" if found["spaced"] else "")
    if value is not None:
        return ", ".join(f"{name}={shown}" for name, shown in _argument(flag, _bare(value)))
    if flag == "set":
        return "settings={...}"
    before = found.string[: found.start()].rstrip("('`\" ")
    return f"{KEYWORDS[flag]}=..." if _NAMED.search(before) else KEYWORDS[flag]


def _call(verb: str, words: str) -> str:
    """Returns the call for a command and its words."""
    try:
        tokens = shlex.split(words)
    except ValueError:
        tokens = words.split()
    if not tokens:
        return f"palaestra.{FUNCTIONS[verb]}"
    positional: list[str] = []
    keywords: dict[str, str] = {}
    settings: dict[str, str] = {}
    tokens.reverse()
    while tokens:
        token = tokens.pop()
        flag, equals, value = token.removeprefix("--").partition("=")
        if not token.startswith("--"):
            positional.append("..." if token == "..." else json.dumps(token, ensure_ascii=False))
        elif flag in WHOLE:
            name, _, shown = WHOLE[flag].partition("=")
            keywords[name] = shown
        elif flag in SWITCHES:
            keywords[KEYWORDS[flag]] = "True"
        else:
            value = value if equals or not tokens else tokens.pop()
            for name, shown in _argument(flag, value):
                (settings if name == "settings" else keywords)[shown if name == "settings" else name] = shown
    if len(positional) > 1 and verb in SEVERAL:
        positional = [f"[{', '.join(positional)}]"]
    name = "train_seeds" if verb == "learn" and "seeds" in keywords else FUNCTIONS[verb]
    if settings:
        keywords["settings"] = "{" + ", ".join(one[1:-1] for one in settings) + "}"
    return f"palaestra.{name}({', '.join([*positional, *(f'{key}={value}' for key, value in keywords.items())])})"


def _argument(flag: str, value: str) -> Iterator[tuple[str, str]]:
    """Yields keyword and value as they are written in Python."""
    if flag != "set":
        of_one = re.fullmatch(r"(.*?(?:\?team=\d+)?)=(.*)", value) if flag == "brain" else None
        written = f"{{{json.dumps(of_one[1])}: {json.dumps(of_one[2])}}}" if of_one else _literal(value)
        yield KEYWORDS.get(flag, flag.replace("-", "_")), written
        return
    path, equals, value = value.partition("=")
    path = path.removeprefix("behaviors.*.")
    if path in OF_EVERY_BEHAVIOR:
        yield OF_EVERY_BEHAVIOR[path], _literal(value)
    else:
        yield "settings", f"{{{json.dumps(path)}: {_literal(value) if equals else '...'}}}"


def _bare(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _literal(text: str) -> str:
    """Returns a value as it is written in Python: as YAML reads it; placeholders of numbers stay words."""
    if text in ("...", "N", "NUMBER", "COUNT") or re.fullmatch(r"-?\d+(\.\d*)?(e[+-]?\d+)?", text):
        return text
    if re.fullmatch(r"\d+(,\d+)+", text):
        return f"[{text.replace(',', ', ')}]"
    if text in ("true", "false", "null") or text[:1] in ("[", "{"):
        import yaml

        with suppress(yaml.YAMLError):
            return _written(yaml.safe_load(text))
    return json.dumps(text, ensure_ascii=False)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(key)}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
