"""Messages of a run at its start and at its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from palaestra.core.errors import EnvError, PalaestraError
from palaestra.core.plugins import nearest
from palaestra.envs.base import Env
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.environments.make import EDITOR, is_game
from palaestra.runtime.logging.bottleneck import ENVIRONMENT, EXCHANGE, INFERENCE, RANKS, TRAINER, EnvKind, bottleneck
from palaestra.runtime.logging.console import ProgressRow
from palaestra.runtime.logging.statistics import LastReward
from palaestra.runtime.logging.symptoms import Symptoms
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.parts.part import RunPart
from palaestra.runtime.run.rate_jumps import low_rate, raised, rate_jumps, sentence
from palaestra.runtime.run.training_run import Run
from palaestra.runtime.settings import load
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder


class Report(RunPart):
    """Tells how a run goes: its start and end, its progress line, signs that a behavior does not learn, and what holds
    it up.
    """

    name = "symptoms"

    def __init__(self, run: Run) -> None:
        self._run = run
        self._symptoms = Symptoms()
        self._told_bottleneck = False

    def joined(self, learner: Learner) -> None:
        """Writes the settings of a new behavior to TensorBoard, as text."""
        if learner.starts_trained:
            self._symptoms.started_trained(learner.name)
        if self._run.begun:
            self._outline(learner)

    def started(self) -> None:
        """Writes the settings of the first behaviors."""
        for learner in self._run.learners.values():
            self._outline(learner)

    def _outline(self, learner: Learner) -> None:
        saved = self._run.saved.checkpoint
        if not learner.inference and (saved is None or learner.name not in saved.state):
            self._run.statistics.text(learner.name, "Hyperparameters", outline(learner.settings.model_dump()))

    def summarized(self, learner: Learner, summary: Summary) -> None:
        """Warns of signs of trouble."""
        for symptom in self._symptoms.note(summary, learner.settings, learner.spec.action):
            self._run.console.warning(symptom)

    def round_ended(self) -> None:
        """Prints what holds a long run up, once."""
        run = self._run
        uses = run.meetings.times
        if not self._told_bottleneck and not run.inference and uses and uses[0].total > KNOWN:
            self._told_bottleneck = True
            run.console.info(f"So far, {bottleneck(uses, run.setup())}")

    def paused(self) -> None:
        """Updates the progress line."""
        run = self._run
        if not run.console.due():
            return
        rows = [
            ProgressRow(
                name, learner.step, None if run.inference else learner.settings.max_steps, run.statistics.reward(name)
            )
            for name, learner in run.learners.items()
        ]
        spent = run.clock.spent()
        session = run.clock.session
        shares = {name: seconds / session for name, seconds in spent.items()}
        run.console.progress(rows, shares, [remark for part in run.parts for remark in part.remarks()])

    def state_dict(self) -> Mapping[str, Any]:
        """Returns what the signs of trouble depend on."""
        return self._symptoms.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], *, restored: bool) -> None:
        """Restores `state_dict`."""
        self._symptoms.load_state_dict(state)


def announce(run: Run, warnings: Sequence[str]) -> None:
    """Prints where the run starts."""
    for warning in warnings:
        run.console.warning(warning)
    checkpoint = run.saved.checkpoint
    name = run.folder.run_id
    place = run.folder.path
    if run.inference:
        step = 0 if checkpoint is None else checkpoint.step
        run.console.info(f"Playing '{name}' as it was at step {step:,}; nothing in {place} is changed. Ctrl-C ends it")
    elif checkpoint is None:
        run.console.info(f"Starting '{name}' from step 0; its files are in {place}")
    elif run.finished:
        run.console.info(
            f"The run '{name}' is finished: it has reached its max_steps of {limit(run):,} (it is at step "
            f"{farthest(run):,}). To train it further, raise them: {go_on(run)}"
        )
    else:
        run.console.info(f"Resuming '{name}' from step {checkpoint.step:,}; its files are in {place}")
    for note in run.env.traits.notes:
        run.console.info(note)


def unused_blocks(run: Run, when: str) -> Iterator[tuple[str, str]]:
    """Returns each name under `behaviors` that the environment does not have, with a sentence about it. `when`: for
    example 'so far'.
    """
    there = run.env.behaviors
    others = [name for name in there if name not in run.settings.behaviors]
    for name in run.settings.behaviors:
        if name in there or not there:
            continue
        near = [other for other in others if nearest(other, [name])]
        trains = f", and '{near[0]}' trains with default_settings" if near and run.settings.default_settings else ""
        hint = (
            f"; is it meant for '{near[0]}'? Then write '{near[0]}' in the settings"
            if near
            else "; check its name in the settings"
        )
        must = "it must be the Behavior Name in the agents' Behavior Parameters in Unity, or the environment's own name"
        known = ", ".join(map(repr, there))
        yield (
            name,
            f"no behavior '{name}' has appeared {when}, so its settings are not used{trains}{hint}: {must} (there "
            f"are: {known})",
        )


def conclude(run: Run, finals: Mapping[str, Path]) -> None:
    """Prints how the run went, where its files are, and what can be done with them."""
    for student, absent in () if run.inference else run.absent_teachers():
        run.console.warning(
            f"'{student}' has learned nothing in this session: its teacher's behavior, '{absent}', never came"
        )
    for _, text in unused_blocks(run, "in this session"):
        run.console.warning(text)
    total = max(run.clock.session, 1e-9)
    lines = [
        f"{(run.step - run.first_step):,} decisions in {total:.1f} s: {(run.step - run.first_step) / total:,.0f} a "
        f"second ({shares(run.clock.spent(), total)})",
        *([] if run.inference else where_time_went(run)),
        *rewards(run),
    ]
    if not run.inference:
        lines += [f"model        {path}" for path in finals.values()]
        lines += [line for part in run.parts for line in part.report()]
        lines += [f"curves       {path}" for path in curves(run)]
        lines.append(f"TensorBoard  tensorboard --logdir {shlex.quote(str(run.folder.results))}")
        if finals and run.settings.env_settings.env_path:
            lines.append(f"test it      palaestra evaluate {shlex.quote(str(run.folder.path))}")
            lines += [f"watch it     {command}" for command in watching(run)]
        lines += [f"go on        {go_on(run)}", *of_more_steps(run)]
    run.console.info("\n  ".join(lines))


def shares(spent: Mapping[str, float], total: float) -> str:
    """Returns parts of the time as text; small ones beyond the first three are left out."""
    parts = {name: 100 * seconds / max(total, 1e-9) for name, seconds in spent.items()}
    return ", ".join(f"{name} {share:.0f} %" for i, (name, share) in enumerate(parts.items()) if i < 3 or share >= 0.5)


SHORTEST, KNOWN = 1.0, 60.0
"""Seconds of a session from which a run says at its end what held it up, and from which it says so before."""


def where_time_went(run: Run) -> list[str]:
    """Returns lines about ranks, copies, trainers beside the run, and the bottleneck; none after a short session."""
    uses = run.meetings.times
    if not uses or uses[0].total < SHORTEST:
        return []
    lines = [f"rank {rank:<7} {shares(use.parts, use.total)}" for rank, use in enumerate(uses)] if len(uses) > 1 else []
    busy = [seconds / use.total for use in uses for seconds in use.copies.values()]
    if busy:
        mean, least, most = (f"{100 * share:.0f} %" for share in (sum(busy) / len(busy), min(busy), max(busy)))
        what = "runners" if run.setup().runners else "copies"
        lines.append(f"environment  {len(busy)} {what}, busy {mean} of the time (from {least} to {most})")
    for name, seconds in uses[0].trainers.items():
        share = f"{100 * seconds / uses[0].total:.0f} %"
        lines.append(
            f"trainer      busy {share} of the time, beside the run; '{name}' learns from rollouts one update old"
        )
    return [*lines, f"speed        {bottleneck(uses, run.setup())}"]


def kind_of(name: str) -> EnvKind:
    """Returns the kind of the environment that a name means, for advice about speed."""
    if is_game(name):
        return "editor" if name == EDITOR else "game"
    kind, colon, _ = name.partition(":")
    return "python" if colon and kind != "builtin" else "builtin"


def add_times(run: Run) -> dict[str, str]:
    """Adds what was measured elsewhere to the timers, under the original's names where it has them. Returns more for
    their metadata.
    """
    own, *others = run.meetings.times
    add = run.timers.add
    add(("collect", "env_step"), own.parts[ENVIRONMENT])
    add(("collect", "TorchPolicy.evaluate"), own.parts[INFERENCE])
    for name, seconds in own.copies.items():
        add(("collect", "env_step", "workers", name), seconds, parallel=True)
    for part, place in ((TRAINER, ("update",)), (EXCHANGE, ("update",)), (RANKS, ())):
        if part in own.parts:
            add((*place, part), own.parts[part])
    for name, seconds in own.trainers.items():
        add(("trainer_threads", name), seconds, parallel=True)
    for rank, use in enumerate(others, 1):
        place = ("ranks", f"rank {rank}")
        add(place, use.total, parallel=True)
        for part, seconds in use.parts.items():
            add((*place, part), seconds)
        for name, seconds in use.copies.items():
            add((*place, ENVIRONMENT, "workers", name), seconds, parallel=True)
    return {"bottleneck": bottleneck(run.meetings.times, run.setup())}


def watching(run: Run) -> list[str]:
    """Returns how the agents can be watched; empty if nothing can draw them."""
    name = run.settings.env_settings.env_path
    no_graphics = run.settings.engine_settings.no_graphics
    record = f"palaestra record {shlex.quote(str(run.folder.path))}"
    command = watch_command(
        name or "", run.collector.env, record, play_command(run.folder), no_graphics=bool(no_graphics)
    )
    return [] if command is None else [command]


def rewards(run: Run) -> list[str]:
    """Returns a line for each behavior: the mean reward of its last summary and the number of episodes."""
    return [
        f"{name}: {last_reward(run.statistics.last_reward(name), learner.next_summary)}"
        for name, learner in run.learners.items()
    ]


def last_reward(last: LastReward | None, next_summary: int) -> str:
    """Returns the mean reward of the newest summary that has an episode, as text; `next_summary` is the step of the
    next one.
    """
    if last is None:
        return "no episode ended"
    group = "" if last.group is None else f", mean group reward {last.group:.3f}"
    count = "1 episode" if last.episodes == 1 else f"{last.episodes:,} episodes"
    if last.step is None:
        which = f"so far (the first summary is due at step {next_summary:,})"
    else:
        which = f"of the summary at step {last.step:,}"
    return f"mean reward {last.mean:.3f}{group} over the {count} {which}"


def curves(run: Run) -> list[Path]:
    """Draws the learning curves if there is a summary. A failure is a warning only."""
    if not (run.folder.path / METRICS).exists():
        return []
    from palaestra.runtime.logging.curves import save_curves  # matplotlib takes half a second to import

    try:
        return [save_curves(run.folder.path)]
    except Exception as problem:  # whatever matplotlib makes of numbers near the largest that there are
        run.console.warning(f"the learning curves could not be drawn: {problem}")
        return []


def raised_rates(run: Run) -> list[str]:
    """Returns warnings about learning rates that rise because the run has more steps now. Call it before the settings
    are written again.
    """
    try:
        before = load(run.folder.path / CONFIGURATION, own_code=False).settings
    except PalaestraError:
        return []
    command = resume_command(run.folder)
    behaviors = len(run.learners)
    return [sentence(jump, command, behaviors) for jump in raised(before, run.learners)]


def of_more_steps(run: Run) -> list[str]:
    """Returns, for a finished run, a warning that more steps raise its learning rate, and how to keep it low."""
    jumps = rate_jumps(run.learners, dict.fromkeys(run.learners, more_steps(run))) if run.finished else []
    if not jumps:
        return []
    whose = [f"of {jump.behavior} " if len(run.learners) > 1 else "" for jump in jumps]
    rates = ", ".join(f"{of}from {jump.old:.1e} to {jump.new:.1e}" for of, jump in zip(whose, jumps, strict=True))
    why = f"             this lifts the learning rate {rates}, and the reward may fall at first; to keep the rate low:"
    return [why, f"             {go_on(run)}{low_rate(jumps, len(run.learners))}"]


def go_on(run: Run) -> str:
    """Returns the command that continues the run, with more steps if it is finished."""
    further = f" --set 'behaviors.*.max_steps={more_steps(run)}'" if run.finished else ""
    return resume_command(run.folder) + further


def more_steps(run: Run) -> int:
    """Returns the max_steps that doubles a finished run."""
    return 2 * max(limit(run), farthest(run))


def farthest(run: Run) -> int:
    """Returns the largest step of all behaviors."""
    return max(learner.step for learner in run.learners.values())


def resume_command(folder: RunFolder) -> str:
    """Returns the command that resumes a run."""
    return f"{_learn(folder)} --resume"


def play_command(folder: RunFolder) -> str:
    """Returns the command that plays a run."""
    return f"{_learn(folder)} --inference"


def _learn(folder: RunFolder) -> str:
    elsewhere = "" if folder.results == Path("results") else f" --results-dir={shlex.quote(str(folder.results))}"
    return f"palaestra learn --run-id={shlex.quote(folder.run_id)}{elsewhere}"


def limit(run: Run) -> int:
    """Returns the largest max_steps of its behaviors."""
    return max(learner.settings.max_steps for learner in run.learners.values())


def outline(tree: Mapping[str, Any], depth: int = 1) -> str:
    """Returns settings as an indented list."""
    lines = []
    for key, value in tree.items():
        nested = isinstance(value, Mapping)
        lines.append("\t" * depth + f"{key}:" + ("" if nested else f"\t{value}"))
        if nested:
            lines.append(outline(value, depth + 1))
    return "\n".join(lines)


PYGAME = {"classic_control": "classic-control", "toy_text": "toy-text", "box2d": "box2d"}
"""Groups of Gymnasium's own environments that draw with pygame, and the extra that installs it."""


def watch_command(name: str, env: Env, record: str, play: str, *, no_graphics: bool = False) -> str | None:
    """Returns the command that shows an environment's agents, after what must be installed first; None if nothing draws
    them.

    `record` and `play` are the commands that record the run and that play it.
    A Unity build draws in its own window, so the command turns `no_graphics` off.
    A Python game in a process of its own draws nothing.
    """
    if is_game(name):
        window = " --set engine_settings.no_graphics=false" if no_graphics else ""
        return None if name.endswith(".py") else f"{play} --time-scale=1{window}"
    if name.startswith(("pettingzoo:", "envpool:")):
        return record  # drawn only if it is made for that: the command makes another
    if name.startswith("gymnasium:"):
        return _gymnasium(name.removeprefix("gymnasium:"), record)
    try:
        env.render(0)
    except (EnvError, NotImplementedError):
        return None
    return record


def _gymnasium(id: str, record: str) -> str | None:
    """Judges by what the environment declares: trying would take another copy of it."""
    from palaestra.envs.gymnasium import drawn_by

    place = drawn_by(id)
    if place is None:
        return None
    group = place.removeprefix("gymnasium.envs.").partition(".")[0] if place.startswith("gymnasium.envs.") else ""
    missing = group in PYGAME and find_spec("pygame") is None
    return f'pip install "gymnasium[{PYGAME[group]}]", then {record}' if missing else record
