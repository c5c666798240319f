"""Turns the exceptions of an environment into EnvErrors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.base import Env
from palaestra.envs.wrapper import EnvWrapper

Method = TypeVar("Method", bound=Callable[..., Any])


def _blaming(method: Method, called: str | None = None) -> Method:
    """Returns a method of `EnvWrapper` that turns exceptions into EnvErrors; `called`: its name in messages."""

    @wraps(method)
    def call(self: Guarded, *arguments: Any, **options: Any) -> Any:
        try:
            return method(self, *arguments, **options)
        except (PalaestraError, *STOPS):
            raise
        except BaseException as error:  # whatever a user's environment does
            raise EnvError(
                f"{self.title} raised an error in {called or method.__name__}: {exception_summary(error)}; --debug "
                "shows the whole traceback"
            ) from error

    return cast(Method, call)


class Guarded(EnvWrapper):
    """Turns an environment's exceptions into EnvErrors that say where they came from."""

    def __init__(self, env: Env, title: str) -> None:
        super().__init__(env)
        self.title = title

    reset = _blaming(EnvWrapper.reset)
    send = _blaming(EnvWrapper.send, "step")
    receive = _blaming(EnvWrapper.receive, "step")
    step_arrays = _blaming(EnvWrapper.step_arrays, "step")
    set_parameters = _blaming(EnvWrapper.set_parameters)
    draw_parameter = _blaming(EnvWrapper.draw_parameter)
    queue_parameters = _blaming(EnvWrapper.queue_parameters)
    stagger = _blaming(EnvWrapper.stagger)
    take_measurements = _blaming(EnvWrapper.take_measurements)
    busy_seconds = _blaming(EnvWrapper.busy_seconds)
    heuristic = _blaming(EnvWrapper.heuristic)
    training_starts = _blaming(EnvWrapper.training_starts)
    behavior_joins = _blaming(EnvWrapper.behavior_joins)
    drawing = _blaming(EnvWrapper.drawing)
    render = _blaming(EnvWrapper.render)
    state_dict = _blaming(EnvWrapper.state_dict)
    load_state_dict = _blaming(EnvWrapper.load_state_dict)
    close = _blaming(EnvWrapper.close)
