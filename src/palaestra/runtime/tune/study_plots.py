"""Pictures of a study, drawn by Optuna."""

from __future__ import annotations

import re
import warnings
from itertools import accumulate
from pathlib import Path
from typing import Any

from palaestra.runtime.plots.chart_style import GRID, load_pyplot
from palaestra.runtime.tune.dimensions import short_names
from palaestra.runtime.tune.objectives import DIRECTIONS, missed, reward_at_end
from palaestra.runtime.tune.study import TuneStudy

FOLDER = "plots"
WORDS = {
    "Optimization History Plot": "Best trial so far",
    "Intermediate Values Plot": "Rewards of the trials",
    "Intermediate Value": "mean reward",
    "Slice Plot": "Each setting alone",
    "Parallel Coordinate Plot": "Settings of the trials",
    "Hyperparameter Importances": "Importance of the settings",
    "Hyperparameter Importance": "importance, of 1",
    "Hyperparameter": "",
    "Pareto-front Plot": "Trials that no other one beats",
    "Best Value": "best so far",
    "Step": "decisions",
    "Trial": "trial",
}
"""Titles and labels that replace the ones in Optuna's pictures."""
AT_END = "reward at the end"
MANY = 2.2
"""Inches of width for each parameter in a row of panels."""


def draw_study(study: TuneStudy) -> list[str]:
    """Draws history, importance, slices and parallel coordinates; with several objectives also their Pareto front.
    Returns the names of the files.

    Pictures for which there are too few trials are left out.
    """
    pyplot = load_pyplot()  # before Optuna imports it
    import optuna.visualization.matplotlib as drawing

    folder = study.folder.path / FOLDER
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.png"):
        old.unlink()
    written: list[str] = []
    objectives = study.plan.search.wanted
    names = _names(study)
    varied = len({tuple(trial.params.values()) for trial in _complete(study)}) > 1
    wide = max(7.0, MANY * len(study.plan.dimensions))
    for number, objective in enumerate(objectives):
        several = len(objectives) > 1
        of = {"target": (lambda trial, at=number: trial.values[at]) if several else None, "target_name": names[number]}
        end = f"-{objective}" if several else ""
        jobs: list[tuple[str, Any, dict[str, Any], float]] = [("history", drawing.plot_optimization_history, of, 7.0)]
        if names[number] not in (objective, AT_END):
            jobs = [("history", _plot_history_to_bar, {"of": study, "number": number}, 7.0)]
        if varied:
            from optuna.importance import PedAnovaImportanceEvaluator as Evaluator  # needs no other library

            jobs += [
                ("importance", drawing.plot_param_importances, {**of, "evaluator": Evaluator()}, 7.0),
                ("slices", drawing.plot_slice, of, wide),
                ("parallel", drawing.plot_parallel_coordinate, of, wide),
            ]
        written += [
            _draw(pyplot, study, folder / f"{name}{end}.png", plot, keywords, width)
            for name, plot, keywords, width in jobs
        ]
    if len(objectives) in (2, 3) and AT_END not in names:
        written.append(
            _draw(pyplot, study, folder / "front.png", drawing.plot_pareto_front, {"target_names": names}, 7.0)
        )
    if study.plan.search.pruning != "none":
        written.append(_draw(pyplot, study, folder / "curves.png", drawing.plot_intermediate_values, {}, 7.0))
    return [f"{FOLDER}/{name}" for name in written if name]


def _names(study: TuneStudy) -> list[str]:
    """Returns the quantity that each objective's pictures show. For trials that missed the bar the quantity is not a
    measured number, and the name says so.

    If all trials missed it, `_renamed` uses the final reward instead.
    """
    short = study.plan.search.bar is not None and any(missed(study.endings(trial)) for trial in _complete(study))
    to_bar = "{0}, raised where " + f"{study.plan.search.bar:g} was missed" if short else "{0}"
    if study.none_reached():
        to_bar = AT_END
    return [objective if objective == "reward" else to_bar.format(objective) for objective in study.plan.search.wanted]


def _complete(study: TuneStudy) -> list[Any]:
    return study.optuna.get_trials(states=(study.states.COMPLETE,))


def _plot_history_to_bar(_: Any, of: TuneStudy, number: int) -> None:
    """Draws an objective to the bar by trial, with crosses at the top for trials that missed it."""
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    trials = [(trial, bool(missed(of.endings(trial)))) for trial in _complete(of)]
    reached = [(trial.number, trial.values[number]) for trial, short in trials if not short]
    objective = of.plan.search.wanted[number]
    _, axes = pyplot.subplots()
    axes.set_title("Optimization History Plot")
    axes.set_xlabel("Trial")
    axes.set_ylabel(f"{objective} to {of.plan.search.bar:g}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.plot(*zip(*reached, strict=True), "o", label=objective)
    axes.plot(
        [at for at, _ in reached],
        list(accumulate((value for _, value in reached), min)),
        color="#d1495b",
        drawstyle="steps-post",
        label="Best Value",
    )
    high = axes.get_ylim()[1]
    short = [trial.number for trial, short in trials if short]
    label = f"{of.plan.search.bar:g} not reached"
    axes.plot(short, [high] * len(short), "x", color="#d1495b", clip_on=False, label=label)
    axes.legend()


def _draw(pyplot: Any, study: TuneStudy, file: Path, plot: Any, keywords: dict[str, Any], width: float) -> str:
    """Draws one picture. Returns its name; '' if Optuna cannot draw it of these trials."""
    from matplotlib import rc_context

    open_before = set(pyplot.get_fignums())
    with warnings.catch_warnings(), rc_context():  # Optuna sets a style for all pictures of the process
        warnings.simplefilter("ignore")  # of Optuna and matplotlib about layout and experimental parts
        try:
            plot(_renamed(study), **keywords)
            figure = pyplot.gcf()
            _dress(figure)
            figure.set_size_inches(width, max(4.5, figure.get_size_inches()[1]))
            figure.savefig(file, dpi=110, bbox_inches="tight")
        except (ValueError, RuntimeError, IndexError, ZeroDivisionError):
            return ""
        finally:
            for number in set(pyplot.get_fignums()) - open_before:
                pyplot.close(number)
    return file.name


def _dress(figure: Any) -> None:
    """Gives Optuna's picture white panels, and titles and labels in our words."""
    for axes in figure.axes:
        axes.set_facecolor("white")
        for line in axes.get_xgridlines() + axes.get_ygridlines():
            line.set_color(GRID)
        for place in ("left", "center"):
            axes.set_title(WORDS.get(axes.get_title(place), axes.get_title(place)), loc=place)
        legend = axes.get_legend()
        for text in [axes.xaxis.label, axes.yaxis.label, *(legend.get_texts() if legend else [])]:
            words = text.get_text()
            text.set_text(WORDS.get(words, re.sub(r"^Trial(?=\d)", "trial ", words)))
    if figure._suptitle is not None:
        figure.suptitle(WORDS.get(figure.get_suptitle(), figure.get_suptitle()))


def _renamed(study: TuneStudy) -> Any:
    """Returns a copy of the study in memory: parameters have short names, which fit on axes, and curves are rewards by
    decisions.

    Where no trial reached the bar, its objectives are replaced by the reward at the end.
    """
    import optuna

    marks, _ = study.plan.search.marks(study.plan.longest)
    sign = 1.0 if DIRECTIONS[study.plan.search.wanted[0]] == "maximize" else -1.0
    names = short_names([each.path for each in study.plan.dimensions])
    replaced = [name == AT_END for name in _names(study)]
    directions = [
        optuna.study.StudyDirection.MAXIMIZE if new else old
        for new, old in zip(replaced, study.optuna.directions, strict=True)
    ]
    copy = optuna.create_study(directions=directions)
    for trial in study.optuna.get_trials():
        for attribute in ("params", "distributions"):
            setattr(trial, attribute, {names.get(key, key): value for key, value in getattr(trial, attribute).items()})
        trial.intermediate_values = {
            marks[number - 1]: sign * value
            for number, value in trial.intermediate_values.items()
            if 0 < number <= len(marks)
        }
        if trial.state == study.states.COMPLETE and any(replaced):
            end = reward_at_end(study.endings(trial))
            trial.values = [end if new else value for new, value in zip(replaced, trial.values, strict=True)]
        if trial.state.is_finished():
            copy.add_trial(trial)
    return copy
