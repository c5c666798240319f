"""Plays trained models and policies for a number of episodes, from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from palaestra.api.given_runs import GameOptions, Run, Runs, chosen_options, game_flags, listed, word_of
from palaestra.api.python_calls import python_call
from palaestra.api.training_options import Environment
from palaestra.brains.model import Policy
from palaestra.core.errors import CallError
from palaestra.runtime.play.evaluating import Contestant, PlayOptions, evaluate_all
from palaestra.runtime.play.run_models import Models, find_models
from palaestra.runtime.play.shown_evaluation import Evaluation
from palaestra.runtime.run.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack


@python_call
def evaluate(
    runs: Runs | Policy | Sequence[Run | Policy] | Mapping[str, Policy],
    *,
    env: Environment | None = None,
    episodes: int = 100,
    deterministic: bool = False,
    step: int | Literal["best"] | None = None,
    num_areas: int | None = None,
    seed: int = 0,
    results_dir: str | Path = "results",
    trust: bool = False,
    env_options: Mapping[str, Any] | None = None,
    environment_parameters: Mapping[str, Any] | None = None,
    quiet: bool = False,
    **game: Unpack[GameOptions],
) -> Evaluation:
    """Plays trained models for a number of episodes and returns their rewards.

    >>> import palaestra
    >>> evaluation = palaestra.evaluate("pole", episodes=20)
    >>> evaluation.mean > 0
    True
    >>> policy = palaestra.load_policy("results/pole/CartPole.onnx")
    >>> palaestra.evaluate(policy, env="CartPole", episodes=20, deterministic=True).returns.shape
    (20,)

    runs: a run id, RUN@STEP, RUN@best, a run's folder, the `Result` of a training, a model file (.onnx, .nn),
        "hub:user/repository", a policy (with `env`), policies by behavior in a dictionary, or a list of these.
    env: the environment to play in: a name, your own, or a function that makes one, as for `palaestra.train`; None: the
        one of the training.
    episodes: episodes to play for each behavior; with teams, for each team.
    deterministic: take the most likely action instead of sampling.
    step: play the models of this step, or "best" (the models that `keep_best` kept); None: the newest.
    num_areas: copies that are played at once; None: as many as episodes, 100 at most.
    seed: of the environment and of the actions.
    results_dir: folder of all runs.
    trust: run the environment's code that the run's settings name, even if its folder was not written by you.
    env_options: options of the environment, in addition to the run's own options.
    environment_parameters: values of the environment's parameters, such as {"gravity": 15.0}, in place of the run's
        values, or samplers as in a settings file.
    quiet: show no progress.
    Further keywords are for Unity games: no_graphics, time_scale, width, height, quality_level, target_frame_rate,
        capture_frame_rate, env_args, base_port, editor_port, bind, timeout_wait, max_message_mb, side_channels.

    Returns the `Evaluation`. Raises PalaestraError.
    """
    options = chosen_options(env_options, environment_parameters)
    flags = game_flags(evaluate, game)
    wanted = PlayOptions(episodes, deterministic, num_areas, seed, env, options, flags, quiet)
    given = [runs] if isinstance(runs, Mapping) and runs else listed(() if isinstance(runs, Mapping) else runs)
    contestants = [_contestant(one, wanted, step, Path(results_dir), trust) for one in given]
    if not contestants:
        raise CallError("no run is given: name one, such as palaestra.evaluate('first')")
    contestants = [
        replace(one, name=f"{one.name} ({before + 1})") if (before := names[:at].count(one.name)) else one
        for names in [[one.name for one in contestants]]
        for at, one in enumerate(contestants)
    ]
    return evaluate_all(contestants, wanted)


def _contestant(one: Any, wanted: PlayOptions, step: int | str | None, results: Path, trust: bool) -> Contestant:
    if isinstance(one, Policy | Mapping):
        policies = {one.path.stem: one} if isinstance(one, Policy) else dict(one)
        for name, policy in policies.items():
            if not isinstance(policy, Policy):
                raise CallError(f"runs[{name!r}] is {policy!r:.80}; expected a policy, as palaestra.load_policy gives")
        if wanted.env is None:
            raise CallError('a policy does not know its environment: give env, such as env="gymnasium:CartPole-v1"')
        fresh = {  # the given ones keep their random numbers
            name: Policy(one.path, wanted.seed) if one.path.is_file() else one for name, one in policies.items()
        }
        return Contestant(", ".join(policies), Models({}, None, ", ".join(policies)), fresh)
    word = word_of(one)
    own = one.env if isinstance(one, Result) else None
    name = one.run_id if isinstance(one, Result) else word
    return Contestant(name, find_models(word, results, trust, step), env=own)
