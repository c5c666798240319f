"""Makes GIFs and videos of trained agents, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaestra.api.given_runs import Runs, chosen_options, listed, words_of
from palaestra.api.python_calls import python_call
from palaestra.api.training_options import Environment
from palaestra.runtime.recording.filming import Film, record_film
from palaestra.runtime.recording.finished_recording import Recording
from palaestra.runtime.run.result import Result


@python_call
def record(
    runs: Runs,
    out: str | Path | None = None,
    *,
    steps: Sequence[int] = (),
    env: Environment | None = None,
    areas: int | None = None,
    seconds: float = 8.0,
    episodes: int | None = None,
    fps: int | None = None,
    width: int | None = None,
    sampled: bool = False,
    seed: int = 0,
    title: str | None = None,
    titles: bool = True,
    force: bool = False,
    results_dir: str | Path = "results",
    trust: bool = False,
    env_options: Mapping[str, Any] | None = None,
    environment_parameters: Mapping[str, Any] | None = None,
) -> Recording:
    """Records trained agents as a GIF, or as an MP4 or WebM video (extra `video`).

    >>> import palaestra
    >>> recording = palaestra.record("pole", "pole.gif", seconds=1, force=True)
    >>> recording.pictures  # of 50 decisions
    25

    runs: a run id, a run's folder, RUN@STEP, RUN@best, the `Result` of a training, or a model file; several: side by
        side.
    out: the .gif, .mp4 or .webm to write; None: recording.gif in the run's folder.
    steps: the run's models of these steps, side by side.
    env: the environment, as for `evaluate`; None: the one of the training.
    areas: copies that are shown side by side; None: 4, or 1 of each of several models.
    seconds: its length.
    episodes: stop when every agent has played this many episodes.
    fps: pictures per second, one per decision; None: as many as give real time if the environment has one, else 10.
    width: width in pixels; None: 640, or 320 for each model.
    sampled: sample actions as in training, instead of the most likely ones.
    title: title of the recording; None: the run's name.
    titles: draw the title and the reward so far.
    force: overwrite the file that `out` names.
    seed, results_dir, trust, env_options, environment_parameters: as for `evaluate`.

    Returns the `Recording`, which plays in a notebook. Raises PalaestraError. A Unity game
    cannot be recorded: it draws only in its own window.
    """
    options = chosen_options(env_options, environment_parameters)
    film = Film(areas, seconds, episodes, fps, width, sampled, seed, titles, title, force, options)
    own = next((run.env for run in listed(runs) if isinstance(run, Result)), None)
    return record_film(
        words_of(runs),
        None if out is None else Path(out),
        film,
        steps=steps,
        env=own if env is None else env,
        results=Path(results_dir),
        trust=trust,
    )
