"""Trains the agents of an environment, from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import iscoroutinefunction, isgeneratorfunction, signature
from pathlib import Path
from typing import Any, cast

from palaestra.api.python_calls import python_call
from palaestra.api.run_names import named
from palaestra.api.training_options import (
    Environment,
    Track,
    Trainer,
    check_config,
    given_env,
    overrides_of,
    settings_of,
)
from palaestra.core.errors import CallError
from palaestra.runtime.control.os_signals import Terminated, pass_on
from palaestra.runtime.environments.custom_envs import FirstMade
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.run.learning import learn
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.run_settings import Config, TrainingRequest
from palaestra.runtime.settings.sourced_settings import Setting

NO_SETTINGS = ("config", "env", "callbacks", "settings", "quiet", "trust", "others")
"""Arguments of `train` that do not set a value in the settings."""


@python_call
def train(
    config: Config = None,
    *,
    env: Environment | None = None,
    max_steps: float | None = None,
    trainer: Trainer | None = None,
    learning_rate: float | None = None,
    batch_size: float | None = None,
    buffer_size: float | None = None,
    hidden_units: int | None = None,
    num_layers: int | None = None,
    summary_freq: float | None = None,
    stop_at: float | None = None,
    stop_without_progress: float | None = None,
    keep_best: bool | float | Mapping[str, Any] | None = None,
    seed: int | None = None,
    num_areas: int | None = None,
    num_envs: int | None = None,
    device: str | None = None,
    run_id: str | None = None,
    results_dir: str | Path | None = None,
    resume: bool | None = None,
    force: bool | None = None,
    initialize_from: str | Path | Result | None = None,
    callbacks: Callable[[Summary], object] | Sequence[Callable[[Summary], object]] | None = None,
    track: Track | None = None,
    settings: Mapping[str, Any] | None = None,
    quiet: bool = False,
    trust: bool = False,
    **others: Any,
) -> Result:
    """Trains the agents of an environment, and saves the policy and its learning curves in a run's folder.

    >>> import gymnasium, palaestra
    >>> result = palaestra.train(env="gymnasium:CartPole-v1", max_steps=100_000)
    >>> result = palaestra.train(env=lambda: gymnasium.make("Pendulum-v1"), trainer="sac", run_id="pendulum")
    >>> result = palaestra.train(env="3DBall", stop_at=95, settings={"hyperparameters.beta": 0.01, "threaded": True})
    >>> result = palaestra.train(run_id="pendulum", resume=True, max_steps=60_000)
    >>> result = palaestra.train("configs/ppo/3DBall.yaml", env="3DBall", callbacks=[palaestra.stop_at_reward(90)])

    Settings that are not given come from `config`, or else from the file that is shipped for the environment. Without
    such a file, settings are chosen that fit its observations and actions.

    config: a settings file in ML-Agents' format, or a dictionary of the same shape. With `resume`, the run's own file.
    env: where agents learn. A name: a built-in such as "3DBall", "gymnasium:ID", "pettingzoo:MODULE",
        "python:MODULE:FUNCTION", the file of a Unity build; None: the Unity Editor. A function or class that makes a
        Gymnasium environment is called once for each of `num_areas` copies. An environment object is one copy; a list,
        or a vector environment, has one copy for each element. Close the environments that you made yourself.
    max_steps: decisions of all copies together until training ends.
    trainer: "ppo", "sac", "poca" (groups of agents), "bc" (imitation), or your own: its class, or "module:Class".
    learning_rate: step size of the optimizer.
    batch_size: decisions in one gradient step.
    buffer_size: decisions of all copies before each update (ppo, poca), or kept in the replay (sac).
    hidden_units, num_layers: size of the network.
    summary_freq: decisions between two summaries, which are printed, drawn, and given to callbacks; without a settings
        file of your own, a run that is too short for three summaries has five.
    stop_at: mean reward of 100 episodes at which training ends.
    stop_without_progress: end after this many decisions without a better reward.
    keep_best: keep the best policy too: True, or the decisions between two evaluations.
    seed: seed of all random numbers; with the same seed a run gives the same results.
    num_areas: copies of the environment that are simulated in this process.
    num_envs: processes that share the copies. `env` is then a name, or a function or class, also one that the script or
        the notebook defines.
    device: "cpu", "cuda", "cuda:1" ...; None: the GPU if there is one.
    run_id: name of the run, and of its folder in `results_dir`; None: the environment's name and the time, so that a
        notebook's cell can run twice.
    results_dir: folder of all runs ("results").
    resume: continue the run `run_id` exactly where it was saved; without `run_id`, the newest run of this environment
        that has an automatic name.
    force: start again although a run of that name exists; its files are replaced.
    initialize_from: start from the networks of another run: its name, its folder or its `Result`.
    callbacks: functions that are given each `Summary` (behavior, step, reward, values); one that returns True ends the
        run, saved.
    track: send metrics to one more place: "wandb", "wandb:project=walkers", or {"wandb": {"project": "walkers"}}.
    settings: any other settings, nested or with dots: {"time_horizon": 128, "hyperparameters.beta": 0.01}. Keys of a
        behavior apply to every behavior.
    quiet: print nothing.
    trust: let a resumed run run the code that its settings name, even if its folder was not written by you.
    others: further keys of `env_settings`, `engine_settings`, `torch_settings` and `checkpoint_settings`, such as
        time_scale=1.

    Returns the `Result`: folder, models, rewards. Raises PalaestraError. Ctrl-C, the stop button of a notebook and
    SIGTERM save the run; Ctrl-C then raises KeyboardInterrupt, SIGTERM ends the program.
    """
    options = {key: value for key, value in {**locals(), **others}.items() if key not in NO_SETTINGS}
    overrides = overrides_of(train, options)
    check_config(train, config)
    request = TrainingRequest(
        config, overrides, settings_of(settings), env, callbacks_of(callbacks), quiet=quiet, trust=trust
    )
    return trained(prepared(request))


def callbacks_of(given: object) -> Sequence[Callable[[Summary], object]]:
    """Returns the callbacks: a function, or several. Raises CallError for functions that cannot take a Summary."""
    several: list[Any] = [] if given is None else [given]
    if not callable(given) and not isinstance(given, str | Mapping) and isinstance(given, Iterable):
        several = [*cast(Iterable[Any], given)]
    for one in several:
        if not callable(one):
            raise CallError(
                f"callbacks: {one!r:.80} cannot be called; expected functions that take a Summary, such as "
                "[palaestra.stop_at_reward(95)]"
            )
        if isinstance(one, type) or any(
            is_async(call) for is_async in (iscoroutinefunction, isgeneratorfunction) for call in (one, one.__call__)
        ):
            raise CallError(
                f"callbacks: {one!r:.80} is a class, generator or coroutine, which does not run when it is called; "
                "expected an ordinary function"
            )
        try:
            signature(one).bind(None)
        except TypeError as error:
            name = getattr(one, "__name__", type(one).__name__)
            raise CallError(
                f"callbacks: {name}{signature(one)} is called with one argument, the Summary: {error}"
            ) from None
        except ValueError:  # functions written in C may have no signature
            continue
    return several


def prepared(request: TrainingRequest, ending: str = "") -> TrainingRequest:
    """Returns the request with the facts about a program's environment, and with a run id. `ending`: what follows the
    run id in the names of folders. Raises EnvError or RunError."""
    overrides = {**request.overrides}
    sets = [setting for setting in request.sets if isinstance(setting, Setting)]
    found = given_env(request.env, request.config, overrides, sets)
    notes = [*request.notes]
    if request.config is None and found.shipped_for is not None and found.form == "one":
        notes.append(
            "env is a single environment, so agents learn in one copy; a function, such as env=lambda: "
            f'gymnasium.make("{found.label}"), gives as many copies as the settings say'
        )
    overrides = named(request.config, overrides, sets, found.label, ending)
    return replace(request, overrides=overrides, env=found.env, shipped_for=found.shipped_for, notes=notes)


def trained(request: TrainingRequest) -> Result:
    """Trains. When a signal ended the run (which is saved), the signal then has its usual effect on the program."""
    try:
        result = learn(request)
    except Terminated as before_the_run:
        pass_on(before_the_run.number)
        raise
    if result.signal is not None:
        pass_on(result.signal)
    env = request.env
    return replace(result, env=env.make if isinstance(env, FirstMade) else env)
