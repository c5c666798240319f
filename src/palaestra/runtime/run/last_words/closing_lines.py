"""The last lines of a run: its result, its files, and the next steps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from palaestra.core.display import duration, in_notebook
from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.control.goals import Course
from palaestra.runtime.logging.bottleneck import bottleneck
from palaestra.runtime.logging.statistics import LastReward
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.play.best_models import last_lessons
from palaestra.runtime.presentation.labelled_lines import folded, labelled, wrapped
from palaestra.runtime.run.commands import next_commands
from palaestra.runtime.run.last_words.passed_bar import passed_bar
from palaestra.runtime.run.resuming import steps_in
from palaestra.runtime.run.training_run import Run, setup_of
from palaestra.runtime.settings import whose_reward
from palaestra.trainers.settings import SACSettings

MOST_MODELS = 4
"""Most models that are listed; if there are more, their folder is named."""


def closing_lines(run: Run, finals: Mapping[str, Path], endings: Mapping[str, Course]) -> list[str]:
    """Returns the last lines of a run; empty if the run had nothing to do."""
    rewards = {name: _reward(run, learner) for name, learner in run.learners.items()}
    decisions = run.step - run.first_step
    if not decisions and not run.inference and run.finished:
        return []
    happened = f"{_outcome(run, endings)}: {decisions:,} decisions in {duration(run.clock.session)}"
    if run.context.one_of_several and in_notebook():  # which says nothing else of each
        happened = f"Seed {run.settings.env_settings.seed}: {happened[0].lower()}{happened[1:]}"
    if len(rewards) == 1:
        lines = [f"{happened}, {next(iter(rewards.values()))}"]
    else:
        lines = [happened, *(f"{name}: {reward}" for name, reward in rewards.items())]
    files = [] if run.inference else list(_files(run, finals))
    return lines if run.context.one_of_several else lines + files


def _outcome(run: Run, endings: Mapping[str, Course]) -> str:
    if run.inference:
        return "Played"
    where = f" at step {run.step:,}" if run.first_step or not run.finished else ""
    if any(course.ending == "no progress" for course in endings.values()):
        return f"Ended without progress{where}"
    return f"{'Reached its goal' if endings else 'Finished' if run.finished else 'Stopped'}{where}"


def _reward(run: Run, learner: Learner) -> str:
    saved = run.saved.checkpoint
    before = 0 if saved is None else steps_in(saved).get(learner.name, 0)
    had_to_learn = before < min(learner.step, learner.settings.max_steps) and not run.inference
    idle = _idle(learner, learner.step - before) if had_to_learn else ""
    whose = whose_reward(run.settings, learner.name)
    return last_reward(run.statistics.last_reward(learner.name), learner, whose) + idle


def _idle(learner: Learner, decisions: int) -> str:
    """Returns the end of a sentence if no update was made: so much, and the setting that asks for more decisions."""
    hyper = learner.settings.hyperparameters
    fills = isinstance(hyper, SACSettings)  # its first updates only fill the replay
    keys, made = (("buffer_init_steps", "batch_size"), learner.step) if fills else (("buffer_size",), decisions)
    asked = ((key, getattr(hyper, key, 0)) for key in keys)
    made = min(made, int(learner.settings.max_steps))  # later decisions are not learned from
    why = next((f": {key} {size:,} is more than {made:,} decisions" for key, size in asked if size > made), "")
    none = not learner.updates or (fills and why)
    return f"; nothing was learned, since no update was made{why}" if none else ""


def last_reward(last: LastReward | None, learner: Learner, whose: str = "") -> str:
    """Returns the rewards of the newest summary with an episode, as text. `whose`: the player of these rewards, if not
    the policy."""
    if last is None:
        return "no episode ended"
    group = "" if last.group is None else f", group reward {last.group:.3f}"
    rating = "" if learner.rating is None else f", Elo {learner.rating:.0f}"
    success = "" if last.success is None else f", success {100 * last.success:.0f} %"
    count = "episode" if last.episodes == 1 else f"{last.episodes:,} episodes"
    if last.step is None:
        which = f"{'1 ' if last.episodes == 1 else ''}{count} so far; first summary at step {learner.next_summary:,}"
    else:
        newer = learner.next_summary - last.step > learner.settings.summary_freq  # without an episode
        which = f"last {count}{f', until step {last.step:,}' if newer else ''}"
    return f"reward {last.mean:.3f}{group}{rating}{success} ({whose}{', ' * bool(whose)}{which})"


def _files(run: Run, finals: Mapping[str, Path]) -> Iterator[str]:
    """Yields files, notes and commands; in a notebook, where the result shows its files, only the rest."""
    drawn, commands = curves(run), next_commands(run, models=len(finals) == len(run.learners))
    models = [str(path) for path in finals.values()]
    if len(models) > MOST_MODELS:
        models = [f"{run.folder.path / '*.onnx'} ({len(models)} behaviors)"]
    if len(finals) < len(run.learners):
        models.append("not written (see the warning above)")
    if in_notebook():
        models, drawn = [], []
        commands = [] if run.finished else [one for one in commands if "--resume" in one]
    yield from labelled("model", models)
    for part in run.parts:
        for label, text in part.report():
            yield from labelled(label, folded(text) if label == "note" else [text])
    yield from labelled("curves", list(map(str, drawn)))
    for note in _notes(run):
        yield from labelled("note", folded(note))
    yield from labelled("next", wrapped(commands))


def _notes(run: Run) -> Iterator[str]:
    """Yields advice for the next run."""
    learners = list(run.learners.values())
    of_one = len(learners) == 1 and learners[0].settings.stop_when is None and learners[0].settings.self_play is None
    if not of_one or last_lessons(run.settings) or not (run.folder.path / METRICS).exists():
        return
    if whose_reward(run.settings, learners[0].name):
        return
    with warning_of_failure("the look back at the rewards", run.console.warning):
        traits = run.env.traits
        passed = passed_bar(run.folder.path, learners[0].name, traits.benchmark)
        if passed is not None:
            yield passed.sentence(traits.name.rpartition(":")[2] or learners[0].name)


def curves(run: Run) -> list[Path]:
    """Draws the learning curves if there is a summary. A failure causes only a warning."""
    if not (run.folder.path / METRICS).exists():
        return []
    from palaestra.runtime.plots.curves import save_curves  # matplotlib takes half a second to import

    try:
        return [save_curves(run.folder.path)]
    except Exception as problem:  # whatever matplotlib makes of numbers near the largest that there are
        run.console.warning(f"the learning curves could not be drawn: {problem}")
        return []


def details(run: Run) -> list[str]:
    """Returns details for a closer look at a run: the use of its time, and commands to view it."""
    own = (run.meetings.times or run.meetings.newest_times())[0]
    rate = (run.step - run.first_step) / max(own.total, 1e-9)
    lines = [f"{rate:,.0f} decisions a second ({_shares(own.parts, own.total)})"]
    if run.inference:
        return lines
    tensorboard = f"TensorBoard  tensorboard --logdir {shlex.quote(str(run.folder.results))}"
    return [*lines, *_where_time_went(run), tensorboard]


def _shares(spent: Mapping[str, float], total: float) -> str:
    """Returns parts of the time as text; small ones beyond the first three are left out."""
    parts = {name: 100 * seconds / max(total, 1e-9) for name, seconds in spent.items()}
    return ", ".join(f"{name} {share:.0f} %" for i, (name, share) in enumerate(parts.items()) if i < 3 or share >= 0.5)


def _where_time_went(run: Run) -> list[str]:
    uses = run.meetings.times
    if not uses:
        return []
    lines = []
    if len(uses) > 1:
        lines = [f"rank {rank:<7} {_shares(use.parts, use.total)}" for rank, use in enumerate(uses)]
    busy = [100 * seconds / use.total for use in uses for seconds in use.copies.values()]
    if busy:
        what = "runner" if setup_of(run).runners else "copy" if len(busy) == 1 else "copies"
        each = "" if len(busy) == 1 else f" (from {min(busy):.0f} % to {max(busy):.0f} %)"
        lines.append(f"environment  {len(busy)} {what}, busy {sum(busy) / len(busy):.0f} % of the time{each}")
    for name, seconds in uses[0].trainers.items():
        lines.append(
            f"trainer      busy {100 * seconds / uses[0].total:.0f} % of the time, beside the run; '{name}' learns "
            "from rollouts one update old"
        )
    return [*lines, f"speed        {bottleneck(uses, setup_of(run))}"]
