"""The Adam optimizer, the norm of gradients, and schedules of the learning rate and of coefficients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor


class Adam:
    """torch's fused Adam, called as a function. Kingma and Ba 2014, https://arxiv.org/abs/1412.6980, algorithm 1.

    torch.optim.Adam does the same, but making one imports torch's compiler (which takes one second of a core and 70
    MB), and its `step` spends more time on bookkeeping than the update of a small network takes.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float, beta2: float = 0.999) -> None:
        """`beta2`: decay of the running mean of squares."""
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.beta2 = beta2
        self._exp_avg = [torch.zeros_like(p) for p in self.parameters]  # running mean of the gradient
        self._exp_avg_sq = [torch.zeros_like(p) for p in self.parameters]  # and of its square
        self._steps = [torch.zeros((), device=p.device) for p in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Moves every parameter by its gradient; parameters without a gradient, such as frozen layers, stay."""
        columns = zip(self.parameters, self._exp_avg, self._exp_avg_sq, self._steps, strict=True)
        moving = [(part[0], part[0].grad, *part[1:]) for part in columns if part[0].grad is not None]
        parameters, gradients, first, second, steps = (list(column) for column in zip(*moving, strict=True))
        # what torch.optim calls, without its bookkeeping, which takes as long as a small step
        torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            lr=self.learning_rate,
            beta1=0.9,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns running means and the count of steps."""
        return {"exp_avg": self._exp_avg, "exp_avg_sq": self._exp_avg_sq, "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state. Raises ValueError if the parameters have other shapes."""
        for name, mine in self.state_dict().items():
            for own, saved in zip(mine, state[name], strict=True):
                if own.shape != saved.shape:
                    raise ValueError(
                        f"the optimizer was saved for a parameter of shape {tuple(saved.shape)}, here it is "
                        f"{tuple(own.shape)}"
                    )
                own.copy_(saved)


def gradient_norm(parameters: Iterable[Tensor]) -> Tensor:
    """Returns the Euclidean norm of all gradients together, (). Parameters without a gradient are left out."""
    norms = [torch.linalg.vector_norm(p.grad) for p in parameters if p.grad is not None]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


def scheduled(
    schedule: Literal["constant", "linear", "cosine"], first: float, last: float, step: int, max_steps: int
) -> float:
    """Returns `first` for a constant schedule; else a value that falls from `first` at step 0: linearly to `last` at
    `max_steps`, or along a cosine to half of `first` at `max_steps` (Loshchilov and Hutter 2016,
    https://arxiv.org/abs/1608.03983, eq. 5)."""
    if schedule == "constant":
        return first
    if schedule == "cosine":
        return first * (0.75 + 0.25 * math.cos(math.pi * min(step / max_steps, 1)))
    return (first - last) * (1 - min(step, max_steps) / max_steps) + last
