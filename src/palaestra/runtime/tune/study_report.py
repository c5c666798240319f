"""The report of a study: `best.yaml`, tables of the trials, and pictures."""

from __future__ import annotations

import csv
import io
import json
import shlex
from typing import TYPE_CHECKING

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.settings import load
from palaestra.runtime.storage.trust import learning_code, sign
from palaestra.runtime.tune.dimensions import plain, short_names
from palaestra.runtime.tune.objectives import DIRECTIONS, describe_missed, missed, reward_at_end
from palaestra.runtime.tune.study import TuneStudy
from palaestra.runtime.tune.study_plan import code_of, measures
from palaestra.runtime.tune.study_plots import draw_study
from palaestra.runtime.tune.tune_result import TRIALS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from optuna.trial import FrozenTrial

    from palaestra.runtime.tune.objectives import Ending

BEST = "best.yaml"
SHOWN = 10
"""Most trials in the printed table."""


def write_report(study: TuneStudy, show: Callable[[str], object]) -> FrozenTrial:
    """Writes the report and prints a table. Returns the best trial. Raises RunError if no trial was completed."""
    complete = ranked(study)
    try:
        write_whole(study.folder.path / TRIALS, trials_table(study).encode())
        if not complete:
            raise RunError(
                f"no trial of the study was completed: see 'why' in {study.folder.path / TRIALS}, and "
                "trials/*/seed-*.log"
            )
        best = complete[0]
        write_best(study, best)
        pictures = draw_study(study)
    except OSError as error:
        raise RunError(f"cannot write the report of {study.folder.path}: {explain(error)}") from error
    show(f"\n{shown_table(study, complete).text()}")
    show(f"Wrote {study.folder.path / BEST} (trial {best.number}), {TRIALS} and {', '.join(pictures)}")
    if study.none_reached():
        nearest = f"{reward_at_end(study.endings(best)):.4g} at the end"
        show(
            f"No trial reached {study.plan.search.bar:g}: {BEST} is only the nearest to it ({nearest}). Search again, "
            "in another --study, with a larger --max-steps or a lower --bar"
        )
        return best
    env = study.plan.settings.env_settings.env_path
    show(
        f"Train with it: palaestra learn {shlex.quote(str(study.folder.path / BEST))} --run-id={study.folder.name}-best"
        + ("" if env else " --env=...")
    )
    return best


def ranked(study: TuneStudy) -> list[FrozenTrial]:
    """Returns the completed trials, the best first: by the first objective.

    Trials that missed the bar come last, sorted by the number of seeds that reached it, then by the final reward.
    """
    search = study.plan.search
    sign = -1.0 if DIRECTIONS[search.wanted[0]] == "maximize" else 1.0

    def key(trial: FrozenTrial) -> tuple[float, ...]:
        endings = study.endings(trial) if search.wanted[0] != "reward" else []
        if short := missed(endings):
            return len(short) / len(endings), -reward_at_end(short), trial.number
        return 0.0, sign * trial.values[0], trial.number

    return sorted((trial for trial in study.all() if trial.state == study.states.COMPLETE), key=key)


def measured(study: TuneStudy, trial: FrozenTrial) -> list[float | None]:
    """Returns a trial's value of each objective; None if not every seed has reached the bar."""
    return _without_missed(study, trial.values, reached=not missed(study.endings(trial)))


def _without_missed(study: TuneStudy, values: Sequence[float], *, reached: bool) -> list[float | None]:
    pairs = zip(study.plan.search.wanted, values, strict=True)
    return [value if reached or objective == "reward" else None for objective, value in pairs]


def front(study: TuneStudy) -> list[int]:
    """Returns the numbers of the trials on the Pareto front: no other trial is at least as good in all objectives and
    better in one."""
    return sorted(trial.number for trial in study.optuna.best_trials)


def write_best(study: TuneStudy, best: FrozenTrial) -> None:
    """Writes the settings of the best trial; with several objectives, of each trial on the Pareto front."""
    (study.folder.path / BEST).unlink(missing_ok=True)
    chosen = {BEST: best.number}
    if len(study.plan.search.wanted) > 1:
        for old in study.folder.path.glob("best-*.yaml"):
            old.unlink()
        chosen |= {f"best-{number}.yaml": number for number in front(study)}
    trials = {trial.number: trial for trial in study.all()}
    for name, number in chosen.items():
        trial = trials[number]
        search = study.plan.search
        reached = ", ".join("not reached" if value is None else plain(value) for value in measured(study, trial))
        comment = f"Trial {number} of the study {study.folder.name}: {measures(search)}: {reached}."
        if search.bar is not None and missed(endings := study.endings(trial)):
            comment += f"\n{describe_missed(endings, search.bar, search.episodes)}"
            comment += f"; no trial reached {search.bar:g}." if study.none_reached() else "."
        write_whole(study.folder.path / name, study.plan.text_of(study.values(trial), comment).encode())
    settings = load(study.folder.path / BEST, own_code=False).settings
    # the storage, which others may have written, names no other code
    if set(learning_code(settings)) <= set(code_of(study.plan)):
        sign(study.folder.path, settings)


def trials_table(study: TuneStudy) -> str:
    """Returns all trials as CSV."""
    search = study.plan.search
    paths = [each.path for each in study.plan.dimensions]
    best = front(study) if len(search.wanted) > 1 else []
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    to_bar = [] if search.bar is None else ["reached", "reward_at_end"]
    head = ["trial", "state", *search.wanted, *to_bar, *(["front"] if best else []), *paths, "seconds", "seeds", "why"]
    writer.writerow(head)
    for trial in study.all():
        complete = trial.state == study.states.COMPLETE
        values = measured(study, trial) if complete else [None] * len(search.wanted)
        endings = study.endings(trial) if complete and to_bar else []
        reach = (
            [f"{len(endings) - len(missed(endings))} of {len(endings)}", reward_at_end(endings)]
            if endings
            else [None] * len(to_bar)
        )
        seconds = "" if trial.duration is None else round(trial.duration.total_seconds(), 1)
        tried = study.values(trial)
        writer.writerow(
            [
                trial.number,
                trial.state.name.lower(),
                *values,
                *reach,
                *([int(trial.number in best)] if best else []),
                *(tried.get(path) for path in paths),
                seconds,
                json.dumps(_of_seeds(study, trial)) if "seeds" in trial.user_attrs else "",
                trial.user_attrs.get("why", ""),
            ]
        )
    return out.getvalue()


def shown_table(study: TuneStudy, complete: list[FrozenTrial]) -> ResultTable:
    """Returns the best trials as a table, with the numbers of pruned and failed trials below it."""
    search = study.plan.search
    names = short_names([each.path for each in study.plan.dimensions])
    shown = complete[:SHOWN]
    ends = any(missed(study.endings(trial)) for trial in shown) and "reward" not in search.wanted
    head = ["trial", *measures(search).split(", "), *(["at the end"] if ends else []), *names.values()]
    rows = []
    for trial in shown:
        endings = study.endings(trial)
        tried = study.values(trial)
        cells = [_not_reached(endings) if value is None else plain(value) for value in measured(study, trial)]
        cells += [plain(reward_at_end(endings))] if ends else []
        rows.append([str(trial.number), *cells, *(plain(tried.get(path, "own")) for path in names)])
    counts = {name: sum(trial.state.name == name for trial in study.all()) for name in ("PRUNED", "FAIL")}
    more = [f"{len(complete)} completed", f"{counts['PRUNED']} pruned", f"{counts['FAIL']} failed"]
    if len(search.wanted) > 1:
        more.append(f"no other is better in everything than trials {', '.join(map(str, front(study)))}")
    return ResultTable(head, rows, left=0, notes=["; ".join(more)])


def _of_seeds(study: TuneStudy, trial: FrozenTrial) -> list[list[float | None]]:
    """Returns the values of each seed of a completed trial."""
    found = trial.user_attrs["seeds"]
    reached = [each.reached for each in study.endings(trial)] or [True] * len(found)
    return [_without_missed(study, values, reached=one) for values, one in zip(found, reached, strict=True)]


def _not_reached(endings: list[Ending]) -> str:
    """Returns the cell of a trial that missed the bar."""
    reached = len(endings) - len(missed(endings))
    return f"reached by {reached} of {len(endings)}" if reached else "not reached"
