"""The areas of a game as one: what their agents say goes into one message, and each gets back what is for its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import EnvError
from palaestra.core.specs import describe
from palaestra.envs.unity.decode import Infos
from palaestra.sdk.exchange import Said, Told


class Area(Protocol):
    """What speaks for the agents of one area: an Academy."""

    def reset(self) -> None:
        """All episodes begin anew."""
        ...

    def advance(self) -> dict[str, Said]:
        """Goes on until somebody asks or ended."""
        ...

    def answer(self, told: dict[str, Told]) -> None:
        """Tells those that asked what to do."""
        ...


class Crowd:
    """Agents and groups of area a, of A, get the numbers a, A + a, 2A + a ...: unique, and those of the game where it has one area."""

    def __init__(self, areas: Sequence[Area]) -> None:
        self._areas = areas
        self._said: list[dict[str, Said]] = []

    def reset(self) -> None:
        """All episodes of all areas begin anew."""
        for area in self._areas:
            area.reset()

    def advance(self) -> dict[str, Said]:
        """What all said. Raises EnvError where areas have different behaviors of one name."""
        self._said = [area.advance() for area in self._areas]
        if len(self._areas) == 1:
            return self._said[0]
        keys = dict.fromkeys(key for said in self._said for key in said)
        return {key: self._merged([(at, said[key]) for at, said in enumerate(self._said) if key in said]) for key in keys}

    def answer(self, told: Mapping[str, Told]) -> None:
        """Splits it as it was put together."""
        at = dict.fromkeys(told, 0)
        for area, said in zip(self._areas, self._said, strict=True):
            own = {}
            for key, one in said.items():
                begin, at[key] = at[key], at[key] + int((~one.infos.done).sum())
                own[key] = Told(told[key].continuous[begin : at[key]], told[key].discrete[begin : at[key]])
            area.answer(own)

    def _merged(self, said: Sequence[tuple[int, Said]]) -> Said:
        first, infos, areas = said[0][1], [one.infos for _, one in said], len(self._areas)
        if other := next((one for _, one in said if one.spec != first.spec), None):
            raise EnvError(
                f"behavior '{first.key}' differs between areas; agents that share a behavior name share a policy, so they must see and do "
                f"the same:\n  one area      {describe(first.spec)}\n  another area  {describe(other.spec)}"
            )
        return Said(
            key=first.key,
            spec=first.spec,
            compressed=first.compressed,
            infos=Infos(
                id=np.concatenate([one.infos.id * areas + at for at, one in said]),
                reward=np.concatenate([one.reward for one in infos]),
                done=np.concatenate([one.done for one in infos]),
                cut=np.concatenate([one.cut for one in infos]),
                group=np.concatenate([np.where(one.infos.group > 0, one.infos.group * areas + at, 0) for at, one in said]),
                group_reward=np.concatenate([one.group_reward for one in infos]),
                mask=(),
                obs=(),
            ),
            obs=tuple(np.concatenate(columns) for columns in zip(*(one.obs for _, one in said), strict=True)),
            mask=_masks([one for _, one in said]),
        )


def _masks(said: Sequence[Said]) -> NDArray[np.bool_] | None:
    if all(one.mask is None for one in said):
        return None
    return np.concatenate(
        [np.ones((len(one.infos.id), one.spec.action.choices), np.bool_) if one.mask is None else one.mask for one in said]
    )
