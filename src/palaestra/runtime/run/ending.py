"""The end of a run: it is saved, and says how it went, where its files are, and what can be done with them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.logging.bottleneck import bottleneck
from palaestra.runtime.logging.statistics import LastReward
from palaestra.runtime.logging.trackers import METRICS
from palaestra.runtime.parts.part import endings_of, part_of
from palaestra.runtime.run.checks import unused_blocks
from palaestra.runtime.run.commands import continue_command, more_steps, play_command, watch_command
from palaestra.runtime.run.features.progress import ProgressReport
from palaestra.runtime.run.features.saving import Saving
from palaestra.runtime.run.rate_jumps import low_rate, rate_jumps
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.training_run import Run, setup_of

STUCK = 3
"""Exit status of a run that ended because it made no progress."""
SHORTEST = 1.0
"""Seconds of a session from which a run says at its end what held it up."""


def exit_status(result: Result) -> int:
    """Returns the exit status of `palaestra learn`."""
    if result.unwritten:
        return 1
    return STUCK if "no progress" in result.endings.values() else 0


def finish(run: Run) -> Result:
    """Saves, writes the final models, and says where everything is; a run that was finished before stays as it is."""
    run.console.close()  # its live line shows what is over
    endings = {} if run.inference else endings_of(run.parts)
    if run.stopped and not run.inference:
        why = "; ".join(f"'{name}': {course.reason}" for name, course in endings.items())
        stopped = "Training was stopped; saving what it has learned"
        run.console.info(f"Training ends early ({why})" if endings else stopped)
    finals = dict[str, Path]()
    lacking: tuple[str, ...] | None = None
    if not run.inference:
        finals = run.group.from_first(run.models.finals(run.learners)) or part_of(run.parts, Saving).conclude()
        lacking = run.group.first(lambda: tuple(name for name in run.learners if name not in finals))
    with warning_of_failure("the report", run.console.warning):
        _report(run, finals)
    last = {name: run.statistics.last_reward(name) for name in run.learners}
    reason = "; ".join(f"{name}: {course.ending}, {course.reason}" for name, course in endings.items())
    part_of(run.parts, ProgressReport).end("finished" if run.finished or endings else "stopped", reason)
    return Result(
        run.folder.path,
        steps={name: learner.step for name, learner in run.learners.items()},
        rewards={name: None if one is None else one.judged[0] for name, one in last.items()},
        episodes={name: 0 if one is None else one.judged[1] for name, one in last.items()},
        models=finals,
        finished=run.finished,
        endings={name: course.ending for name, course in endings.items()},
        unwritten=lacking or (),
    )


def _report(run: Run, finals: Mapping[str, Path]) -> None:
    for student, absent in () if run.inference else run.teachers.absent(run.learners):
        run.console.warning(
            f"'{student}' has learned nothing in this session: its teacher's behavior, '{absent}', never came"
        )
    for _, text in unused_blocks(run, "in this session"):
        run.console.warning(text)
    total = max(run.clock.session, 1e-9)
    decisions = run.step - run.first_step
    lines = [
        f"{decisions:,} decisions in {total:.1f} s: {decisions / total:,.0f} a second "
        f"({_shares(run.clock.spent(), total)})",
        *([] if run.inference else _where_time_went(run)),
        *(
            f"{name}: {last_reward(run.statistics.last_reward(name), learner.next_summary)}"
            for name, learner in run.learners.items()
        ),
    ]
    if not run.inference:
        lines += [f"model        {path}" for path in finals.values()]
        lines += [line for part in run.parts for line in part.report()]
        lines += [f"curves       {path}" for path in curves(run)]
        lines.append(f"TensorBoard  tensorboard --logdir {shlex.quote(str(run.folder.results))}")
        if finals and run.settings.env_settings.env_path:
            place = shlex.quote(str(run.folder.path))
            lines.append(f"test it      palaestra evaluate {place}")
            watch = watch_command(
                run.settings.env_settings.env_path,
                run.collector.env,
                f"palaestra record {place}",
                play_command(run.folder),
                no_graphics=bool(run.settings.engine_settings.no_graphics),
            )
            lines += [] if watch is None else [f"watch it     {watch}"]
        lines += [f"go on        {continue_command(run)}", *about_more_steps(run)]
    run.console.info("\n  ".join(lines))


def _shares(spent: Mapping[str, float], total: float) -> str:
    """Returns parts of the time as text; small ones beyond the first three are left out."""
    parts = {name: 100 * seconds / max(total, 1e-9) for name, seconds in spent.items()}
    return ", ".join(f"{name} {share:.0f} %" for i, (name, share) in enumerate(parts.items()) if i < 3 or share >= 0.5)


def _where_time_went(run: Run) -> list[str]:
    uses = run.meetings.times
    if not uses or uses[0].total < SHORTEST:
        return []
    lines = []
    if len(uses) > 1:
        lines = [f"rank {rank:<7} {_shares(use.parts, use.total)}" for rank, use in enumerate(uses)]
    busy = [100 * seconds / use.total for use in uses for seconds in use.copies.values()]
    if busy:
        what = "runners" if setup_of(run).runners else "copies"
        lines.append(
            f"environment  {len(busy)} {what}, busy {sum(busy) / len(busy):.0f} % of the time (from {min(busy):.0f} % "
            f"to {max(busy):.0f} %)"
        )
    for name, seconds in uses[0].trainers.items():
        lines.append(
            f"trainer      busy {100 * seconds / uses[0].total:.0f} % of the time, beside the run; '{name}' learns "
            "from rollouts one update old"
        )
    return [*lines, f"speed        {bottleneck(uses, setup_of(run))}"]


def last_reward(last: LastReward | None, next_summary: int) -> str:
    """Returns the mean reward of the newest summary with an episode, as text; `next_summary` is a step."""
    if last is None:
        return "no episode ended"
    group = "" if last.group is None else f", mean group reward {last.group:.3f}"
    count = "1 episode" if last.episodes == 1 else f"{last.episodes:,} episodes"
    which = f"so far (the first summary is due at step {next_summary:,})"
    if last.step is not None:
        which = f"of the summary at step {last.step:,}"
    return f"mean reward {last.mean:.3f}{group} over the {count} {which}"


def curves(run: Run) -> list[Path]:
    """Draws the learning curves if there is a summary. A failure is a warning only."""
    if not (run.folder.path / METRICS).exists():
        return []
    from palaestra.runtime.plots.curves import save_curves  # matplotlib takes half a second to import

    try:
        return [save_curves(run.folder.path)]
    except Exception as problem:  # whatever matplotlib makes of numbers near the largest that there are
        run.console.warning(f"the learning curves could not be drawn: {problem}")
        return []


def about_more_steps(run: Run) -> list[str]:
    """Returns, for a finished run, a warning that more steps raise its learning rate, and how to keep it low."""
    jumps = rate_jumps(run.learners, dict.fromkeys(run.learners, more_steps(run))) if run.finished else []
    if not jumps:
        return []
    whose = [f"of {jump.behavior} " if len(run.learners) > 1 else "" for jump in jumps]
    rates = ", ".join(f"{of}from {jump.old:.1e} to {jump.new:.1e}" for of, jump in zip(whose, jumps, strict=True))
    why = f"             this raises the learning rate {rates}, and the reward may fall at first; to keep the rate low:"
    return [why, f"             {continue_command(run)}{low_rate(jumps, len(run.learners))}"]
