"""Evaluates brains over a number of episodes; which episodes count does not depend on their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Brain
from palaestra.brains.checked import CheckedBrain
from palaestra.brains.model import Policy
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import PolicyError
from palaestra.envs.base import Env
from palaestra.runtime.play.assigned_brains import BrainOf
from palaestra.runtime.play.brain_assignment import side_name
from palaestra.runtime.play.players import Players, TeamEpisodes


@dataclass(frozen=True, slots=True)
class SideEpisodes:
    """Episodes of one behavior, or of one team of it."""

    returns: NDArray[np.float64]  # (E,)
    lengths: NDArray[np.int64]  # (E,) decisions
    finals: NDArray[np.float64]  # (E,) what the last decision earned: between teams its sign says who won
    group_returns: NDArray[np.float64]  # (G,) what each group earned as one, over an episode of all its members
    # (E,) whether the episode reached its aim, 1 or 0; NaN where the environment did not say
    successes: NDArray[np.float64]

    @property
    def grouped(self) -> bool:
        """Whether groups of agents played; a group counts as one, even if it received no group reward."""
        return bool(len(self.group_returns))

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The rewards that count: of each group if there are groups, else of each episode."""
        return self.group_returns if self.grouped else self.returns

    @property
    def mean(self) -> float:
        """Mean of `rewards`; NaN if no episode has ended."""
        return float(self.rewards.mean()) if len(self.rewards) else float("nan")

    @property
    def std(self) -> float:
        """Standard deviation of `rewards`; NaN if no episode has ended."""
        return float(self.rewards.std()) if len(self.rewards) else float("nan")

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(self.rewards.std(ddof=1) / np.sqrt(len(self.rewards))) if len(self.rewards) > 1 else 0.0

    @property
    def success_rate(self) -> float | None:
        """Share of episodes that succeeded; None if the environment never reports success (`is_success` in infos)."""
        known = self.successes[~np.isnan(self.successes)]
        return float(known.mean()) if len(known) else None

    @property
    def outcomes(self) -> tuple[int, int, int]:
        """Episodes won, drawn and lost, as self-play counts them: by the sign of the last reward."""
        return int((self.finals > 0).sum()), int((self.finals == 0).sum()), int((self.finals < 0).sum())


def as_json(result: SideEpisodes) -> dict[str, Any]:
    """Returns an evaluation as values for JSON."""
    returns = result.rewards
    numbers: dict[str, Any] = {"episodes": len(result.returns)}
    if len(returns):
        numbers |= {"mean": result.mean, "error": result.error, "std": result.std}
        numbers |= {"min": float(returns.min()), "max": float(returns.max()), "length": float(result.lengths.mean())}
    if len(result.group_returns):
        numbers |= {"group_mean": float(result.group_returns.mean()), "groups": len(result.group_returns)}
        numbers["agent_mean"] = float(result.returns.mean())
    if result.success_rate is not None:
        numbers["success_rate"] = result.success_rate
    return numbers


def cells(result: SideEpisodes) -> list[str]:
    """Returns an evaluation as texts for tables: the mean reward with its error, minimum, maximum, and decisions."""
    returns = result.rewards
    if not len(returns):
        return ["-"] * 4
    mean = f"{result.mean:.3f} ± {result.error:.3f}"
    return [mean, f"{returns.min():.3f}", f"{returns.max():.3f}", f"{result.lengths.mean():.1f}"]


def play(env: Env, players: Players, seed: int, each_tick: Callable[[], None] = lambda: None) -> None:
    """Plays until all episodes have ended. After an interruption, `players` has the finished episodes."""
    steps = env.reset(seed)
    players.note(steps)
    while not players.done:
        each_tick()
        steps = env.step(players.act(steps))
        players.note(steps)


def results(players: Players) -> dict[str, SideEpisodes]:
    """Returns results by behavior; by `behavior?team=N` if a behavior has several teams."""
    teams = players.teams
    several = {name for name, team in teams if sum(other == name for other, _ in teams) > 1}
    return {
        side_name(name, team if name in several else None): _result(episodes)
        for (name, team), episodes in teams.items()
    }


def _result(episodes: TeamEpisodes) -> SideEpisodes:
    return SideEpisodes(
        np.array(episodes.returns),
        np.array(episodes.lengths, np.int64),
        np.array(episodes.finals),
        np.array(episodes.group_returns),
        np.array(episodes.successes),
    )


def model_brains(env: Env, policies: Mapping[str, Policy], *, deterministic: bool) -> BrainOf:
    """Returns brains that play each behavior with a loaded policy."""

    def brain_of(behavior: str, team: int) -> Brain:
        if behavior not in policies:
            models = ", ".join(policies) or "none"
            raise PolicyError(
                f"the environment has the behavior '{behavior}', for which there is no model (models: {models}). "
                f"A model file has the name of its behavior ({behavior}.onnx); "
                "'palaestra run' plays each behavior with a brain of your choice, such as --brain "
                f"'{behavior}=model:FILE.onnx' or =random"
            )
        spec = env.behaviors[behavior]
        policy = policies[behavior]
        return CheckedBrain(
            ModelBrain(policy, behavior, spec, deterministic=deterministic), policy.path.name, behavior, spec
        )

    return brain_of


def evaluate(
    env: Env,
    policies: Mapping[str, Policy],
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, SideEpisodes]:
    """Plays `episodes` of each behavior (or of each of its teams); a behavior that appears late counts only if others
    are still playing.

    Raises PolicyError if a behavior has no model, or one that was made for other agents.
    """
    players = Players(env, model_brains(env, policies, deterministic=deterministic), lambda agents: episodes)

    def report() -> None:
        if progress is not None:
            progress(min((len(episodes.returns) for episodes in players.teams.values()), default=0))

    play(env, players, seed, report)
    return results(players)
