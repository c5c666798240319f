"""Plays an environment with brains of the user's choice, for `palaestra.run` and the command `run`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from numbers import Real
from pathlib import Path

from palaestra.core.errors import ConfigError
from palaestra.core.plugins import nearest
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluating import PlayOptions, counts
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.shown_evaluation import EvaluatedSide, Evaluation
from palaestra.runtime.presentation.episode_progress import EpisodeProgress


def check_time_scale(scale: float | None) -> None:
    """Raises ConfigError for a time scale that no environment can keep."""
    if scale is not None and not (isinstance(scale, Real) and 0 < scale <= 100):
        shown = f"{scale:g}" if isinstance(scale, Real) else repr(scale)
        raise ConfigError(f"--time-scale is {shown}; expected more than 0, and 100 at most")


class BrainGame:
    """An environment and its brains. `evaluation` has the finished episodes, also after an interruption."""

    def __init__(
        self,
        env: EnvWrapper,
        name: str,
        parts: Sequence[BrainSpec],
        wanted: PlayOptions,
        results_dir: Path = Path("results"),
    ) -> None:
        """`name`: the environment's name; `results_dir`: folder of the runs for `model:RUN`."""
        self.env = env
        self.name = name
        self.wanted = wanted
        self.plays = BrainAssignment(
            parts, env, seed=wanted.seed, deterministic=wanted.deterministic, results=results_dir
        )
        self.players = Players(env, self.plays.brain, lambda agents: wanted.episodes)
        self._start = time.perf_counter()

    def play(self, time_scale: float | None = None) -> None:
        """Plays all episodes; `time_scale`: simulated seconds per second. Raises PalaestraError."""
        pace = self._pace(time_scale)
        with EpisodeProgress(quiet=self.wanted.quiet) as progress:

            def each_tick() -> None:
                if not self.players.decisions:
                    self._refuse_strangers()
                pace()
                progress.show(*counts(self.players, self.wanted.episodes))

            play(self.env, self.players, self.wanted.seed, each_tick)

    @property
    def evaluation(self) -> Evaluation:
        """Episodes of each behavior and team so far, with the brains that played them."""
        found = results(self.players)
        rows = [
            EvaluatedSide(self.name, side, episodes, part.brain if (part := self.plays.part(name, team)) else "", team)
            for (side, episodes), (name, team) in zip(found.items(), self.players.teams, strict=True)
        ]
        return Evaluation(tuple(rows), self.players.decisions, time.perf_counter() - self._start)

    def unused(self) -> list[str]:
        """Returns a line for each brain that was not used."""
        lines = []
        for part in self.plays.idle():
            teams = self.plays.teams(part.behavior or "") if part.team is not None else []
            there = f"'{part.behavior}' has {_listed(teams)}" if teams else self._behaviors()
            lines.append(f"--brain {part.typed} was not used: {there}")
        return lines

    def _pace(self, scale: float | None) -> Callable[[], object]:
        if scale is None or is_game(self.name):
            return lambda: None
        seconds = self.env.tick_seconds
        if seconds is None:
            raise ConfigError(
                f"--time-scale: how long a tick of {self.name} lasts is not known (its environment has no "
                "'tick_seconds'); without the flag it is played as fast as possible"
            )
        clock = PlaybackClock()
        return lambda: clock.wait(seconds / scale)

    def _refuse_strangers(self) -> None:
        """Raises ConfigError for a name that is not a behavior, if no more can appear, as they can in a game."""
        strangers = self.plays.strangers()
        if strangers and not is_game(self.name) and not self.name.startswith("python:"):
            raise ConfigError(f"--brain {strangers[0].whom}: {self._behaviors()}")

    def _behaviors(self) -> str:
        stranger = next(iter(self.plays.strangers()), None)
        hint = nearest(stranger.behavior, self.env.behaviors) if stranger is not None and stranger.behavior else ""
        return f"the environment has the behaviors {', '.join(self.env.behaviors) or 'none'}{hint}"


def _listed(teams: Sequence[int]) -> str:
    return f"the teams {', '.join(map(str, teams))}" if len(teams) > 1 else f"team {teams[0]} only"


class PlaybackClock:
    """Delays ticks so that they come at their real times. If ticks are late, the lost time is not made up, so that
    playback never rushes."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._next = 0.0

    def wait(self, seconds: float) -> None:
        """Waits until the next tick is due; `seconds` is the length of that tick."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
            now = self._next
        self._next = now + seconds
