"""Parameters of a built-in environment: the values that each area's next episodes use."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.plugins import nearest
from palaestra.envs.builtin.base.program import QUEUE


class AreaParameters:
    """Values of each parameter for an area's next `QUEUE` episodes, in the columns `pending` and `episodes`."""

    def __init__(
        self, title: str, ranges: Mapping[str, tuple[float, float, float]], columns: Mapping[str, Tensor], areas: int
    ) -> None:
        """`ranges`: default, minimum and maximum of each; `title`: the environment's name in messages."""
        self._title = title
        self._areas = areas
        self._index = {name: k for k, name in enumerate(ranges)}
        self._bounds = {name: torch.tensor(ends, dtype=torch.float32).tolist() for name, (_, *ends) in ranges.items()}
        self._device = columns["reward"].device
        self._pending = columns.get("pending")
        self._counted = columns.get("episodes")
        self.defaults = {name: default for name, (default, _, _) in ranges.items()}
        if self._pending is not None and ranges:
            self._pending.copy_(torch.tensor(list(self.defaults.values()), device=self._device))

    @property
    def episodes(self) -> Tensor:
        """(areas,) int64: how many episodes each area has begun; always 0 in environments without parameters."""
        if self._counted is None:
            return torch.zeros(self._areas, dtype=torch.int64, device=self._device)
        return self._counted.long()

    def set(self, values: Mapping[str, Tensor]) -> None:
        """Sets one value per area, (areas,), for all next episodes. Raises EnvError for unknown names and bad values.

        Values on an accelerator are not read; they are clipped to their range.
        """
        for name, value in {name: self._checked(name, value, ()) for name, value in values.items()}.items():
            assert self._pending is not None
            self._pending[:, :, self._index[name]] = value[:, None]

    def queue(self, values: Mapping[str, Tensor]) -> None:
        """Sets the values of each area's next episodes, (areas, QUEUE), in order; after the last value they repeat.
        Raises EnvError as `set` does."""
        checked = {name: self._checked(name, value, (QUEUE,)) for name, value in values.items()}
        turns = (self.episodes[:, None] + torch.arange(QUEUE, device=self._device)) % QUEUE
        for name, value in checked.items():
            assert self._pending is not None
            self._pending[:, :, self._index[name]] = torch.zeros_like(value).scatter_(1, turns, value)

    def _checked(self, name: str, value: Tensor, more: tuple[int, ...]) -> Tensor:
        if name not in self._bounds:
            known = ", ".join(self._bounds) or "none"
            raise EnvError(f"{self._title} has no parameter '{name}'{nearest(name, self._bounds)} (there are: {known})")
        if value.shape != (self._areas, *more):
            expected = f"{more[0] if more else 'one'} value{'s' * len(more)} an area, {(self._areas, *more)}"
            raise EnvError(f"{self._title}, parameter '{name}': shape {tuple(value.shape)}, expected {expected}")
        least, most = self._bounds[name]
        if value.device.type != "cpu":  # reading it would wait for the device
            return value.to(torch.float32).clamp(least, most)
        value = value.to(torch.float32)
        wrong = next((end for end in map(float, value.aminmax()) if not least <= end <= most), None)
        if wrong is not None:
            raise EnvError(
                f"{self._title}, parameter '{name}' is {wrong:g}, expected a number within {least:g}..{most:g}"
            )
        return value.to(self._device)
