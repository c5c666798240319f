"""Checks of a run before it begins: settings that could never have an effect raise an error, others cause a warning."""

from __future__ import annotations

from collections.abc import Iterator

from palaestra.core.plugins import nearest, registry
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import Loaded
from palaestra.runtime.settings.criteria import ambiguous, never_measured

MOST_NAMED = 5
"""Largest number of unused blocks that a warning names."""


def check(run: Run, loaded: Loaded) -> None:
    """Raises ConfigError for settings that can never take effect; warns about settings that may have no effect."""
    _check_lessons(run, loaded)
    _check_teachers(run, loaded)
    for name, text in unused_blocks(run, "in this environment" if _shows_all(run) else "so far"):
        where = loaded.sourced.source(("behaviors", name)).where if loaded.sourced else ""
        run.console.warning(f"{where}: {text}" if where else text)
    run.unused = {name for name, _ in unused_blocks(run, "", only_near=True)}


def _check_lessons(run: Run, loaded: Loaded) -> None:
    """Raises ConfigError for lessons that could never end; warns if a game may still report their metric."""
    if unclear := list(ambiguous(run.settings, run.learners)):
        raise loaded.refusal(unclear, "lessons do not name the behavior that they wait for")
    problems = list(never_measured(run.settings, run.learners))
    if problems and _shows_all(run) and not run.env.traits.measures:
        raise loaded.refusal(problems, "lessons would never end")
    for at, sentence in problems:
        if at[-1] == "measure" and "did you mean" not in sentence:
            continue  # a statistic of the game's own, it seems; Lessons warns where none comes
        run.console.warning(
            f"parameter '{at[1]}', lesson {int(at[3]) + 1}: {sentence}; unless that changes, the lesson never ends"
        )


def _check_teachers(run: Run, loaded: Loaded) -> None:
    if run.inference or not _shows_all(run):
        return
    problems = []
    there = run.env.behaviors
    for student, absent in run.teachers.absent(run.learners):
        block = ("behaviors", student) if student in run.settings.behaviors else ("default_settings",)
        sentence = (
            f"the environment has no behavior '{absent}'{nearest(absent, there)} (there are: "
            f"{', '.join(map(repr, there))})"
        )
        problems.append(((*block, "hyperparameters", "teacher_behavior"), sentence))
    if problems:
        raise loaded.refusal(problems, "teachers would never appear")


def _shows_all(run: Run) -> bool:
    name = run.settings.env_settings.env_path or ""
    is_installed = name.startswith(("builtin:", "gymnasium:", "envpool:", "pettingzoo:")) or name in registry("envs")
    return is_installed and not is_game(name)


def unused_blocks(run: Run, when: str, *, only_near: bool = False) -> Iterator[tuple[str, str]]:
    """Yields names under `behaviors` that the environment lacks, with a sentence: one for each name that resembles an
    existing behavior, and one for all other names together (not with `only_near`). `when`: words for the sentence, such
    as 'so far'."""
    there = run.env.behaviors
    others = [name for name in there if name not in run.settings.behaviors]
    absent = [name for name in run.settings.behaviors if name not in there] if there else []
    known = ", ".join(map(repr, there))
    in_unity = run.kind in ("game", "editor")
    own = "the Behavior Name in the agents' Behavior Parameters" if in_unity else "the environment's own name"
    left = list[str]()
    for name in absent:
        near = next((other for other in others if nearest(other, [name])), None)
        if near is None:
            left.append(name)
            continue
        meant = f"'{near}'{', which trains with default_settings' if run.settings.default_settings else ''}"
        hint = f"if they are meant for {meant}: the name in the settings must be {own}"
        yield name, f"no behavior '{name}' has appeared {when}, so its settings are not used; {hint}"
    if only_near:
        return
    if len(left) == 1:
        yield (
            left[0],
            f"no behavior '{left[0]}' has appeared {when}, so its settings are not used; check its name in the "
            f"settings: it must be {own} (there are: {known})",
        )
    elif left:
        named = ", ".join(map(repr, left[:MOST_NAMED])) + (" ..." if len(left) > MOST_NAMED else "")
        yield (
            left[0],
            f"{len(left)} behaviors of the settings have not appeared {when}, so their settings are not used: {named} "
            f"(there are: {known})",
        )
