"""The rewards of brains over a number of episodes, which print as a table and give their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from palaestra.core.display import duration, escaped
from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.runtime.play.evaluation import SideEpisodes, as_json, cells
from palaestra.runtime.presentation.data_frames import data_frame
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedSide:
    """One row: a behavior, or one team of a behavior, as one run or brain played it."""

    run: str
    behavior: str
    played: SideEpisodes
    brain: str = ""
    team: int = 0


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Evaluation(Shown):
    """Episodes of one or several runs and behaviors.

    `mean`, `returns` and similar attributes describe one behavior of one run. If there are several, choose by run, by
    behavior or by both: `evaluation["first"]["Striker"].mean`. Iterating gives the names to choose from. If agents
    share rewards in groups, `returns` has the rewards of whole groups; `frame` also has the rewards of single agents.
    """

    rows: tuple[EvaluatedSide, ...]  # by run and behavior, or team
    decisions: int = 0
    """Decisions of all agents together."""
    seconds: float = 0.0
    """Seconds that the evaluation took."""

    @property
    def runs(self) -> list[str]:
        """Names of the runs."""
        return list(dict.fromkeys(row.run for row in self.rows))

    @property
    def behaviors(self) -> list[str]:
        """Names of the behaviors. A behavior with several teams has a name `behavior?team=N` for each team."""
        return list(dict.fromkeys(row.behavior for row in self.rows))

    @property
    def returns(self) -> NDArray[np.float64]:
        """Reward of each episode, or of each group of agents that are rewarded together."""
        return _only(self).rewards

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Decisions of each episode."""
        return _only(self).lengths

    @property
    def mean(self) -> float:
        """Mean of `returns`; NaN if no episode has ended."""
        return _only(self).mean

    @property
    def std(self) -> float:
        """Standard deviation of `returns`."""
        return _only(self).std

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return _only(self).error

    @property
    def success_rate(self) -> float | None:
        """Share of episodes that succeeded; None if the environment never reports success (`is_success` in infos)."""
        return _only(self).success_rate

    @property
    def outcomes(self) -> tuple[int, int, int]:
        """Episodes won, drawn and lost by a team, by the sign of the last reward."""
        return _only(self).outcomes

    def __getitem__(self, name: str) -> Evaluation:
        found = tuple(row for row in self.rows if row.run == name) if name in self.runs else ()
        found = found or tuple(row for row in self.rows if name in (row.behavior, row.behavior.partition("?team=")[0]))
        if not found:
            known = [*self.runs, *self.behaviors]
            raise ConfigError(f"no result is named '{name}'{nearest(name, known)} (there are: {', '.join(known)})")
        return Evaluation(found)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs if len(self.runs) > 1 else self.behaviors)

    def __len__(self) -> int:
        return len(self.rows)

    def frame(self) -> pandas.DataFrame:
        """Returns the episodes as a data frame, a row for each episode. Raises PluginError without pandas."""
        parts = [row.played for row in self.rows]
        sizes = [len(part.returns) for part in parts]
        columns: dict[str, Any] = {
            "run": np.repeat(np.array([row.run for row in self.rows], object), sizes),
            "behavior": np.repeat(np.array([row.behavior for row in self.rows], object), sizes),
            "episode": np.concatenate([np.arange(size) for size in sizes] or [np.zeros(0, int)]),
            "reward": np.concatenate([part.returns for part in parts] or [np.zeros(0)]),
            "decisions": np.concatenate([part.lengths for part in parts] or [np.zeros(0, int)]),
        }
        if any(part.success_rate is not None for part in parts):
            columns["success"] = np.concatenate([part.successes for part in parts])
        if any(row.brain for row in self.rows):
            columns["brain"] = np.repeat(np.array([row.brain for row in self.rows], object), sizes)
        return data_frame(columns)

    def plot(self) -> Figure:
        """Draws the rewards of the episodes as boxes: their quartiles, the median and outliers."""
        from palaestra.runtime.plots.chart_style import add_grid, new_figure

        named = _named_returns(self)
        axes = new_figure(1.7 * len(named) + 2.4, 4.5).add_subplot(ylabel="reward of an episode")
        axes.boxplot(list(named.values()), tick_labels=[name.replace("$", r"\$") for name in named])
        add_grid(axes, 9.5)
        return cast("Figure", axes.figure)

    def __str__(self) -> str:
        if len(self.runs) > 1 or any(row.brain for row in self.rows):
            return Shown.__str__(self)
        return "\n".join(escaped(line) for row in self.rows for line in _lines(row.behavior, row.played))

    def _line(self) -> str:
        parts = [f"{name} {_mean(row.played)}" for name, row in zip(_named_returns(self), self.rows, strict=True)]
        return f"{'; '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"

    def _tables(self) -> Sequence[ResultTable]:
        parts = [row.played for row in self.rows]
        brains = any(row.brain for row in self.rows)
        groups = any(part.grouped for part in parts)
        successes = any(part.success_rate is not None for part in parts)
        compete = brains and len({row.team for row in self.rows}) > 1
        runs = [] if brains else ["run"]
        head = [*runs, "behavior"] + ["brain", "episodes"] * brains
        head += ["mean reward ± error" if brains else "reward ± error", "minimum", "maximum", "decisions"]
        head += ["of each agent"] * groups + ["success"] * successes + ["won", "drawn", "lost"] * compete
        rows = []
        for row, played in zip(self.rows, parts, strict=True):
            cell = [*([row.run] if runs else []), row.behavior, *([row.brain] if brains else [])]
            cell += [*([str(len(played.returns))] if brains else []), *cells(played)]
            if groups:
                cell.append(f"{played.returns.mean():.3f}" if played.grouped else "-")
            if successes:
                cell.append("-" if played.success_rate is None else f"{played.success_rate:.1%}")
            if compete:
                cell += [str(count) if len(played.returns) else "-" for count in played.outcomes]
            rows.append(cell)
        rate = self.decisions / max(self.seconds, 1e-9)
        speed = f"{self.decisions:,} decisions in {duration(self.seconds)} ({rate:,.0f} per second)"
        return [ResultTable(head, rows, left=2, notes=[speed] if brains and self.seconds else ())]


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Returns the output of `--json`: numbers by behavior; with several runs, by run and behavior."""
    compete = len({row.team for row in evaluation.rows}) > 1
    found: dict[str, dict[str, Any]] = {run: {} for run in evaluation.runs}
    for row in evaluation.rows:
        of_brain = {"brain": row.brain} if row.brain else {}
        outcomes = zip(("won", "drawn", "lost"), row.played.outcomes, strict=True) if compete else ()
        found[row.run][row.behavior] = as_json(row.played) | of_brain | dict(outcomes)
    return found if len(found) > 1 else next(iter(found.values()), {})


def _only(evaluation: Evaluation) -> SideEpisodes:
    """Returns the episodes of the only row. Raises ConfigError if there are several."""
    if len(evaluation.rows) == 1:
        return evaluation.rows[0].played
    what, several = ("runs", evaluation.runs) if len(evaluation.runs) > 1 else ("behaviors", evaluation.behaviors)
    if not several:
        raise ConfigError("no episode was played")
    raise ConfigError(
        f"these are episodes of several {what} ({', '.join(several)}): choose one first, such as "
        f"evaluation['{several[0]}'].mean"
    )


def _named_returns(evaluation: Evaluation) -> dict[str, NDArray[np.float64]]:
    """Returns the rewards of each row, of groups where there are some, by a name that tells them apart."""
    runs = len(evaluation.runs) > 1
    behaviors = len(evaluation.behaviors) > 1 or not runs
    return {" ".join([row.run] * runs + [row.behavior] * behaviors): row.played.rewards for row in evaluation.rows}


def _mean(played: SideEpisodes) -> str:
    if not len(played.returns):
        return "no episode ended"
    what, many = _words(played)
    return f"mean {what} {played.mean:.3f} ± {played.error:.3f} over {many}"


def _words(played: SideEpisodes) -> tuple[str, str]:
    """Returns the kind of the rewards, and their number."""
    what, many = ("group reward", "groups") if played.grouped else ("reward", "episodes")
    return what, f"{len(played.rewards)} {many}"


def _lines(name: str, played: SideEpisodes) -> Iterator[str]:
    if not len(played.returns):
        yield f"{name}: no episode ended"
        return
    what, many = _words(played)
    yield (
        f"{name}: mean {what} {played.mean:.3f} ± {played.error:.3f} (standard error) over {many} "
        f"(minimum {played.rewards.min():.3f}, maximum {played.rewards.max():.3f}; "
        f"{played.lengths.mean():.1f} decisions each)"
    )
    if played.grouped:
        yield f"{name}: mean reward of an agent {played.returns.mean():.3f} over {len(played.returns)} episodes"
    if played.success_rate is not None:
        yield f"{name}: success in {played.success_rate:.1%} of the episodes"
