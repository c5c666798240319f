"""Environment parameters of Gymnasium's vector environments: one number for each environment, set together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from torch import Tensor

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.envs.spaces.env_members import member
from palaestra.envs.spaces.episode_parameters import HOW, check_taken
from palaestra.envs.spaces.parameter_targets import METHOD, Attribute, ResetOptions, Wanted, find_targets


class VectorParameters:
    """Passes parameters on as arrays (environments,): to methods whenever a parameter changes, and in the options of
    every `reset`."""

    def __init__(self, envs: VectorEnv, wanted: Wanted, title: str, *, resets: bool) -> None:
        """`resets`: every episode begins by a call of `reset`, whose options may take parameters."""
        self._envs = envs
        self._title = title
        has_method = callable(member(envs, METHOD))
        possible = {name: path for name, path in wanted.items() if path is not None or resets or has_method}
        self.targets = find_targets(envs, possible, title)
        self._values: dict[str, np.ndarray] = {}
        for name, (*_, target) in [*self.targets.of.items()]:
            if isinstance(target, Attribute) or (isinstance(target, ResetOptions) and not resets):
                del self.targets.of[name], self.targets.defaults[name]
        self.targets.refused = {name: _refusal(title, name) for name in wanted if name not in self.targets.of}

    def set(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each environment, from its next episode on. Raises EnvError for parameters that the
        environment does not take."""
        for name, column in values.items():
            check_taken(name, self.targets.of, self.targets.refused, self._title, HOW)
            self._values[name] = column.detach().cpu().numpy().astype(np.float32)
        for target in {self.targets.of[name][-1] for name in values}:
            if isinstance(target, ResetOptions):
                continue
            theirs: Any = {name: column for name, column in self._values.items() if self.targets.of[name][-1] == target}
            try:
                target.begin(self._envs, theirs)
            except (PalaestraError, *STOPS):
                raise
            except BaseException as error:  # whatever a user's environment does
                raise EnvError(
                    f"{self._title}: setting {', '.join(theirs)} by the {target} raised {exception_summary(error)}; "
                    "--debug shows the whole traceback"
                ) from error

    def options(self) -> dict[str, Any]:
        """Returns the options that `reset` needs."""
        return {
            name: column.copy()
            for name, column in self._values.items()
            if isinstance(self.targets.of[name][-1], ResetOptions)
        }


def _refusal(title: str, name: str) -> str:
    return (
        f"{title} takes no parameter '{name}': a vector environment needs a method {METHOD}(values), which gets an "
        f"array with a number for each environment, for its next episode (or, if it restarts by `reset`, options "
        f"that it asks for). Or train in a function that makes a single environment; num_envs runs it in processes"
    )
