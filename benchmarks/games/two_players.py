"""A base for board and card games of two players: all that an environment needs besides the rules.

Slots 2i and 2i + 1 play in area i, as teams 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaestra.core.errors import EnvError
from palaestra.core.timestep import FinalObs, TimeStep


class TwoPlayers:
    """Environment without parameters or pictures; its state is some tensors."""

    device = torch.device("cpu")
    parameters: Mapping[str, float] = {}
    saved: tuple[str, ...]
    """Names of the tensors of its state."""

    def table(
        self, result: Tensor, over: Tensor, obs: Tensor, last: Tensor, mask: Tensor, acting: Tensor | None = None
    ) -> TimeStep:
        """Returns a tick. `result` of the first player and `over` (areas,); `obs` (S, ...), and what was seen `last`
        where a game is over; `acting` (S,): whose turn it is, by default everyone's.
        """
        slots = torch.arange(2 * len(over))
        ended = over.repeat_interleave(2)
        which = ended.nonzero()[:, 0]
        return TimeStep(
            obs=(obs,),
            acting=torch.ones(len(slots), dtype=torch.bool) if acting is None else acting,
            reward=torch.stack([result, -result], 1).flatten(),
            group_reward=torch.zeros(len(slots)),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_obs=FinalObs(which, (last[which],)),
            action_mask=mask,
            area=slots // 2,
            team=slots % 2,
            group=torch.full_like(slots, -1),
        )

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        if values:
            raise EnvError(f"it has no parameters, so not {', '.join(values)}")

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name).clone() for name in self.saved}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name in self.saved:
            setattr(self, name, state[name].clone())

    def render(self, area: int) -> object:
        raise EnvError("it has no picture")

    def close(self) -> None:
        pass
