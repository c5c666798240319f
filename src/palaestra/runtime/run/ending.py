"""The end of a run: saves the run, and prints its result, its files, and the next commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from palaestra.parallel.closing import warning_of_failure
from palaestra.runtime.control.goals import Course
from palaestra.runtime.parts.part import endings_of, part_of
from palaestra.runtime.run.checks import unused_blocks
from palaestra.runtime.run.features.keep_best import KeepBest
from palaestra.runtime.run.features.progress import ProgressReport
from palaestra.runtime.run.features.saving import Saving
from palaestra.runtime.run.last_words.closing_lines import closing_lines, details
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.training_run import Run

STUCK = 3
"""Exit status of a run that ended because it made no progress."""


def exit_status(result: Result) -> int:
    """Returns the exit status of `palaestra learn`."""
    if result.unwritten:
        return 1
    return STUCK if "no progress" in result.endings.values() else 0


def finish(run: Run) -> Result:
    """Saves, writes the final models, and prints where everything is; a run that was finished before is not changed."""
    run.console.close()  # its live line shows what is over
    endings = {} if run.inference else endings_of(run.parts)
    finals = dict[str, Path]()
    lacking: tuple[str, ...] | None = None
    if not run.inference:
        finals = run.group.from_first(run.models.finals(run.learners)) or part_of(run.parts, Saving).conclude()
        lacking = run.group.first(lambda: tuple(name for name in run.learners if name not in finals))
        if part_of(run.parts, KeepBest).measure_saved():
            part_of(run.parts, Saving).save()
    with warning_of_failure("the report", run.console.warning):
        _report(run, finals, endings)
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
        success_rates={name: one.success for name, one in last.items() if one is not None and one.success is not None},
        unwritten=lacking or (),
    )


def _report(run: Run, finals: Mapping[str, Path], endings: Mapping[str, Course]) -> None:
    for student, absent in () if run.inference else run.teachers.absent(run.learners):
        run.console.warning(
            f"'{student}' has learned nothing in this session: its teacher's behavior, '{absent}', never appeared"
        )
    for name, text in unused_blocks(run, "in this session", only_near=True):
        if name not in run.unused:
            run.console.warning(text)
    if lines := closing_lines(run, finals, endings):
        run.console.info("\n  ".join(lines))
        run.console.detail("\n  ".join(details(run)))
