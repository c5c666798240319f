"""Records episodes of a run's models as the numbers of the scene, for a page that draws them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.runtime.playback.played_env import PlayedEnv
from palaestra.runtime.playback.sources import PlaybackSource
from palaestra.web.publishing.browser_libraries import compressed
from palaestra.web.scene.packing import NUMBERS, outline, rows

SECONDS = 12.0
"""Length of each recording."""
MOST_TICKS = 400
MOST_NUMBERS = 1_200_000
"""Numbers of one recording; scenes of many solids have fewer areas, and then fewer ticks."""
FULL = 32767


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording of the models of one step."""

    step: int | None
    outline: Mapping[str, Any]
    frames: NDArray[np.float32]
    """Solids at each tick, (ticks, solids, NUMBERS)."""
    rewards: list[float]
    """Mean reward of the finished episodes at each tick; NaN before the first episode has ended."""
    seconds: float
    """Length of a tick in seconds."""


def recorded(source: PlaybackSource, areas: int, seed: int = 0) -> Recorded:
    """Plays a run's models and records the scene. Raises EnvError if the environment does not describe its solids."""
    with _playing(source, areas, seed) as game:
        everything = np.arange(game.env.num_areas)
        drawing = game.env.drawing(everything)
        first = rows(drawing)
        ticks = min(_ticks(game), max(2, MOST_NUMBERS // max(1, first.size)))
        frames, rewards = [first], [float("nan")]
        for _ in range(ticks - 1):
            game.advance()
            now = rows(game.env.drawing(everything))
            frames.append(now if now.shape == first.shape else frames[-1])
            means = [score.mean for score in game.tally.scores.values() if score.mean is not None]
            rewards.append(float(np.mean(means)) if means else float("nan"))
        return Recorded(source.step, outline(drawing), np.stack(frames), rewards, game.seconds)


def areas_for(source: PlaybackSource, wanted: int) -> int:
    """Returns how many areas fit into a recording of full length. Raises EnvError as `recorded` does."""
    with _playing(source, 1, 0) as game:
        each = rows(game.env.drawing(np.arange(1))).size * _ticks(game)
    return max(1, min(wanted, MOST_NUMBERS // max(1, each)))


@contextmanager
def _playing(source: PlaybackSource, areas: int, seed: int) -> Iterator[PlayedEnv]:
    env, brain_of = replace(source, areas=areas).open()
    try:
        models = {} if source.env is None or source.run is None else source.models().files
        if models and not set(models) & set(env.behaviors):
            raise EnvError(
                f"{source.env} has the behaviors {', '.join(env.behaviors)}, for which there is no model (models: "
                f"{', '.join(models)})"
            )
        game = PlayedEnv(env, brain_of, seed)
        if not game.env.traits.draws:
            raise EnvError("a page shows environments that describe their solids; this one does not")
        game.restart(seed)
        yield game
    finally:
        env.close()


def _ticks(game: PlayedEnv) -> int:
    return min(MOST_TICKS, round(SECONDS / game.seconds))


def packed(one: Recorded) -> dict[str, Any]:
    """Returns a recording as JSON with compressed text: the change of each number from tick to tick, in 16-bit steps.

    Colors are indices of a palette; places and sizes are shares of the largest value.
    """
    frames = one.frames
    palette, color = np.unique(frames[..., 10].astype(np.int64), return_inverse=True)
    place = float(np.abs(frames[..., :3]).max(initial=1e-6))
    size = float(np.abs(frames[..., 7:10]).max(initial=1e-6))
    scales = np.array([*[FULL / place] * 3, *[FULL] * 4, *[FULL / size] * 3])
    numbers = np.empty(frames.shape, np.int16)
    numbers[..., :10] = np.rint(np.clip(frames[..., :10] * scales, -FULL, FULL))
    numbers[..., 10] = color.reshape(frames.shape[:2])
    steps = np.diff(numbers, axis=0, prepend=np.zeros_like(numbers[:1]))
    assert frames.shape[2] == NUMBERS
    return {
        "step": one.step,
        "seconds": one.seconds,
        "ticks": len(frames),
        "solids": frames.shape[1],
        "place": place / FULL,
        "size": size / FULL,
        "palette": palette.tolist(),
        "rewards": [None if np.isnan(value) else round(value, 4) for value in one.rewards],
        "outline": one.outline,
        "data": compressed(steps.tobytes()),
    }
