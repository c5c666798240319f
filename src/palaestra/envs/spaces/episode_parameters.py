"""Values of environment parameters for the next episode of each copy of a Gymnasium or PettingZoo environment; they are
set right before it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from palaestra.core.errors import STOPS, EnvError, PalaestraError, exception_summary
from palaestra.core.plugins import nearest
from palaestra.envs.spaces.env_members import member, number_like
from palaestra.envs.spaces.parameter_targets import METHOD, Attribute, Target, Wanted, find_targets

HOW = "; parameters are named under environment_parameters, or in env_settings.env_options.parameters"


class EpisodeParameters:
    """Parameters of copies of an environment, one for each area."""

    def __init__(self, envs: Sequence[Any], wanted: Wanted, title: str) -> None:
        """`title` begins messages. A wanted parameter that no member takes is refused when it is set."""
        self._envs = envs
        self._title = title
        self.targets = find_targets(envs[0], wanted, title)
        self._values: list[dict[str, float]] = [{} for _ in envs]
        self._unchecked = {name for name, targets in self.targets.of.items() if isinstance(targets[-1], Attribute)}

    def set(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area, (areas,), from its next episode on. Raises EnvError for parameters that the
        environment does not take."""
        for name, column in values.items():
            check_taken(name, self.targets.of, self.targets.refused, self._title, HOW)
            # a float32 as the shortest decimal that stands for it: 9.8, not 9.800000190734863
            for own, value in zip(self._values, column.detach().cpu().numpy().astype(np.float32), strict=True):
                own[name] = float(str(value))

    def begin(self, area: int) -> dict[str, Any]:
        """Sets the values of an area's next episode. Returns keywords for `reset`. Raises EnvError."""
        own = self._values[area]
        if not own:
            return {}
        by_target: dict[Target, dict[str, float]] = {}
        for name, value in own.items():
            for target in self.targets.of[name]:
                by_target.setdefault(target, {})[name] = value
        options: dict[str, float] = {}
        for target, values in by_target.items():
            try:
                options.update(target.begin(self._envs[area], values))
            except (PalaestraError, *STOPS):
                raise
            except BaseException as error:  # whatever a user's environment does
                given = ", ".join(f"{name}={value:g}" for name, value in values.items())
                raise EnvError(
                    f"{self._title}, area {area}: setting {given} by the {target} raised {exception_summary(error)}; "
                    "--debug shows the whole traceback"
                ) from error
        return {"options": options} if options else {}

    def began(self, area: int) -> None:
        """Checks once that `reset` did not change the set attributes. Raises EnvError if `reset` sets them itself."""
        for name in self._unchecked & self._values[area].keys():
            self._unchecked.discard(name)
            target = self.targets.of[name][-1]
            assert isinstance(target, Attribute)
            found = member(self._envs[area], target.path)
            if found != number_like(found, self._values[area][name]):
                raise EnvError(
                    f"{self._title}: `reset` gives the {target} a value of its own, {found}, so that the parameter "
                    f"'{name}' has no effect: let `reset(self, *, seed=None, options=None)` use options['{name}'] "
                    f"where it is given, or give the class a method {METHOD}(self, values)"
                )


def check_taken(name: str, taken: Iterable[str], refused: Mapping[str, str], title: str, how: str = "") -> None:
    """Raises EnvError for a parameter that an environment does not take; `how` ends the sentence."""
    known = [*taken]
    if name in known:
        return
    if name in refused:
        raise EnvError(refused[name])
    has = ", ".join(known) or "none"
    raise EnvError(f"{title} has no parameter '{name}'{nearest(name, known)} (it has: {has}){how}")
