"""Plays an environment with brains of the user's choice (models, rules or functions), from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.api.given_runs import GameOptions, chosen_options, game_flags
from palaestra.api.python_calls import python_call
from palaestra.api.training_options import Environment
from palaestra.brains.base import Brain
from palaestra.brains.model import Policy
from palaestra.core.errors import CallError
from palaestra.runtime.environments.make import is_game
from palaestra.runtime.play.brain_assignment import given_parts
from palaestra.runtime.play.brain_play import BrainGame, check_time_scale
from palaestra.runtime.play.evaluating import PlayOptions, opened
from palaestra.runtime.play.run_models import Models
from palaestra.runtime.play.shown_evaluation import Evaluation

if TYPE_CHECKING:
    from typing_extensions import Unpack


@python_call
def run(
    env: Environment,
    brains: str | Policy | Brain | Callable[..., Any] | Sequence[Any] | Mapping[str, Any],
    *,
    episodes: int = 100,
    deterministic: bool = False,
    num_areas: int | None = None,
    seed: int = 0,
    results_dir: str | Path = "results",
    env_options: Mapping[str, Any] | None = None,
    environment_parameters: Mapping[str, Any] | None = None,
    quiet: bool = False,
    **game: Unpack[GameOptions],
) -> Evaluation:
    """Plays an environment with brains of your choice (models, rules or functions), and returns the rewards of each.

    >>> import palaestra
    >>> games = palaestra.run("CartPole", "random", episodes=20)
    >>> games = palaestra.run("CartPole", {"CartPole": "model:pole"}, episodes=20, deterministic=True)
    >>> games = palaestra.run("CartPole", lambda obs, mask: obs[0][:, 2:3] > 0, episodes=20)

    env: a name, your own environment, or a function that makes one, as for `palaestra.train`.
    brains: "heuristic" (the environment's own rule), "random", "model:RUN", "model:FILE.onnx",
        "python:MODULE:FUNCTION", a policy, a function of (obs, mask) that returns actions, arrays with a row for each
        agent, or an object with `decide`. For several behaviors or teams, give a dictionary: {"Soccer?team=0":
        "model:first", "Soccer?team=1": "random"}.
    episodes: episodes to play for each behavior and each team.
    deterministic: models take the most likely action instead of sampling.
    num_areas, seed, results_dir, env_options, environment_parameters, quiet: as for `evaluate`.
    Further keywords are for Unity games, as for `evaluate`; time_scale=1 plays any environment in real time.

    Returns the `Evaluation`. Raises PalaestraError.
    """
    time_scale = game.get("time_scale")
    check_time_scale(time_scale)
    if env is None or env == "":
        raise CallError('no environment is given: name one, such as env="3DBall"')
    if brains is None or (isinstance(brains, str | Sequence | Mapping) and not brains):
        raise CallError('no brain is given: name one, such as "heuristic", "random" or "model:RUN"')
    parts = given_parts(brains)
    if any(part.kind == "player" for part in parts):
        raise CallError("a player plays on a page in the browser, which only the command line opens")
    if not (isinstance(env, str) and is_game(env)):
        game.pop("time_scale", None)
    name = env if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    options = chosen_options(env_options, environment_parameters)
    wanted = PlayOptions(episodes, deterministic, num_areas, seed, env, options, game_flags(run, game), quiet)
    with opened(Models({}, None, name), env, wanted) as world:
        played = BrainGame(world, name, parts, wanted, Path(results_dir))
        played.play(time_scale)
        if unused := played.unused():
            raise CallError("; ".join(unused))
        return played.evaluation
