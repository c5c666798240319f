"""Values of a finished trial, one for each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from palaestra.runtime.settings.search_settings import Objective, SearchSettings
from palaestra.runtime.tune.trial_curves import (
    Curve,
    cpu_at,
    ended_at_goal,
    final_step,
    final_value,
    mean_until,
    read_curves,
    step_of_bar,
)

DIRECTIONS: dict[Objective, str] = {"reward": "maximize", "decisions": "minimize", "cpu_seconds": "minimize"}


class NoValue(Exception):
    """A training without a value to compare; the text says why."""


def worth(runs: Sequence[Path], search: SearchSettings, lengths: Mapping[str, int]) -> list[list[float]]:
    """Returns the value of each objective for each run (one for each seed). `lengths`: max_steps of each behavior; '*':
    of all other behaviors.

    Raises NoValue if no episode ended.
    """
    return [_worth_of_run(run, search, lengths) for run in runs]


def _worth_of_run(run: Path, search: SearchSettings, lengths: Mapping[str, int]) -> list[float]:
    curves = read_curves(run, search.metric, search.behavior)
    if not curves:
        of = f" of behavior '{search.behavior}'" if search.behavior else ""
        raise NoValue(
            f"no summary has the metric '{search.metric}'{of}: a summary needs an episode that ended, within max_steps"
        )
    found: list[float] = []
    for objective in search.wanted:
        if objective == "reward":
            value = final_value(curves, search.episodes)
            assert value is not None
            found.append(value)
        else:
            assert search.bar is not None
            found.append(max(_to_bar(run, objective, name, curve, search, lengths) for name, curve in curves.items()))
    return found


def _to_bar(
    run: Path, objective: Objective, name: str, curve: Curve, search: SearchSettings, lengths: Mapping[str, int]
) -> float:
    """Returns decisions or CPU seconds of one behavior until the bar.

    A training that never reaches it counts as 1 to 2 times max_steps, more the further from the bar it ended, so that
    the search can rank such trainings.
    """
    assert search.bar is not None
    step = _bar_step(run, name, curve, search)
    if step is not None:
        return float(step) if objective == "decisions" else cpu_at(run, name, step)
    length = lengths.get(name, lengths.get("*", curve[-1].step))
    missing = shortfall(mean_until(curve, len(curve), search.episodes)[0], search.bar)
    whole = float(length) if objective == "decisions" else cpu_at(run, name, None) * max(1.0, length / curve[-1].step)
    return whole * (1.0 + missing)


def _bar_step(run: Path, name: str, curve: Curve, search: SearchSettings) -> int | None:
    """Returns the decisions after which a behavior was at the bar; None if it never was.

    A training that ends at the bar checks its newest episodes, a curve has whole summaries: the bar is reached if
    either mean reaches it.
    """
    assert search.bar is not None
    step = step_of_bar(curve, search.bar, search.episodes)
    if step is None and "reward" not in search.wanted and ended_at_goal(run, name):
        return curve[-1].step
    return step


@dataclass(frozen=True, slots=True)
class Ending:
    """The state of a training when it ended."""

    reached: bool  # whether every behavior had reached the bar
    reward: float  # of the behavior with the lowest
    step: int  # its decisions


def ending(run: Path, search: SearchSettings) -> Ending | None:
    """Returns how a search's training to the bar ended; None without a bar or without a finished episode."""
    curves = read_curves(run, search.metric, search.behavior)
    if search.bar is None or not curves:
        return None
    reached = all(_bar_step(run, name, curve, search) is not None for name, curve in curves.items())
    reward = min(mean_until(curve, len(curve), search.episodes)[0] for curve in curves.values())
    return Ending(reached, reward, max(max(curve[-1].step, final_step(run, name)) for name, curve in curves.items()))


def missed(endings: Sequence[Ending]) -> list[Ending]:
    """Returns the trainings that did not reach the bar."""
    return [each for each in endings if not each.reached]


def reward_at_end(endings: Sequence[Ending]) -> float:
    """Returns the mean of the rewards at the ends of these trainings."""
    return sum(each.reward for each in endings) / len(endings)


def describe_missed(endings: Sequence[Ending], bar: float, episodes: int) -> str:
    """Returns a sentence about a trial in which not every training reached the bar. `episodes`: how many count."""
    short = missed(endings)
    if len(short) < len(endings):
        end = f"{reward_at_end(short):.4g} at the end of the {'other' if len(short) == 1 else 'others'}"
        return f"{bar:g} reached with {len(endings) - len(short)} of {len(endings)} seeds ({end})"
    seeds = f" with any of {len(endings)} seeds" if len(endings) > 1 else ""
    mean = f"{reward_at_end(short):.4g}"
    end = f"the mean of the newest {episodes} episodes was {mean}"
    if reward_at_end(short) >= bar:
        end = f"the mean was {mean}, of fewer than {episodes} episodes"
    steps = max(each.step for each in short)
    return f"{bar:g} not reached{seeds} in {steps:,} decisions ({end})"


def shortfall(value: float, bar: float) -> float:
    """Returns how far a value is below the bar: from 0 (at the bar) to 1 (below it by the bar's own size or more)."""
    missing = max(bar - value, 0.0)
    return missing / max(abs(bar), missing) if missing else 0.0
