"""Trains small networks that imitate trained ones, from Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.api.given_runs import GameOptions, Run, game_flags, word_of
from palaestra.api.python_calls import python_call
from palaestra.api.training_options import Environment, settings_of
from palaestra.runtime.distill.distillation import Distillation
from palaestra.runtime.distill.distillation import distill as distilled
from palaestra.runtime.distill.student_settings import StudentRequest
from palaestra.runtime.run.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack


@python_call
def distill(
    run: Run,
    *,
    hidden_units: int = 32,
    num_layers: int = 1,
    memory_size: int | None = None,
    vis_encode_type: str | None = None,
    max_steps: float = 200_000,
    run_id: str | None = None,
    env: Environment | None = None,
    num_areas: int | None = None,
    seed: int = 0,
    episodes: int = 100,
    deterministic: bool = False,
    settings: Mapping[str, Any] | None = None,
    results_dir: str | Path = "results",
    force: bool = False,
    trust: bool = False,
    quiet: bool = False,
    **game: Unpack[GameOptions],
) -> Distillation:
    """Trains a small network that imitates a trained one, and compares both.

    >>> import palaestra
    >>> found = palaestra.distill("pole", hidden_units=8, max_steps=20_000, episodes=20, run_id="small-pole")
    >>> found.students[0].size < found.teachers[0].size
    True
    >>> found.result.run_id
    'small-pole'

    run: the teacher: a run id, RUN@STEP, RUN@best, a run's folder, the `Result` of a training, or a model file.
    hidden_units, num_layers: size of the small network.
    memory_size: numbers it remembers, 0 for none; None: twice its width if the teacher has a memory.
    vis_encode_type: encoder of images; None: "simple", or "match3" for small images.
    max_steps: decisions to learn from: the student plays, and learns the actions that the teacher would have taken.
    run_id: name of the student's run; None: the teacher's run id with the size of the student's network.
    env: the environment, as for `palaestra.train`; None: the teacher's.
    num_areas: copies of the environment; None: as many as the teacher's run has.
    seed: seed of the student's training, and of the episodes of the comparison.
    episodes: episodes that the teacher and the student each play for the comparison.
    deterministic: both take the most likely action in these episodes, instead of sampling.
    settings: any other settings, as for `palaestra.train`: {"hyperparameters.learning_rate": 0.0004}.
    results_dir, trust: as for `evaluate`.
    force: replace a run of that name.
    quiet: show no progress.
    Further keywords are for Unity games, as for `evaluate`.

    Returns the `Distillation`: the student's run, and rewards, microseconds and bytes of both. Raises PalaestraError.
    """
    request = StudentRequest(
        word_of(run),
        Path(results_dir),
        hidden_units,
        num_layers,
        memory_size,
        vis_encode_type,
        int(max_steps),
        run_id,
        run.env if env is None and isinstance(run, Result) else env,
        num_areas,
        seed,
        episodes,
        deterministic,
        force,
        trust,
        quiet,
        settings_of(settings),
        game_flags(distill, game),
    )
    return distilled(request)
