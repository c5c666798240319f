"""Products of large matrices in learning, on a CPU by oneDNN if it gives the same digits as PyTorch in less time.

PyTorch multiplies with MKL, which leaves half of the units of AMD's newer processors unused: on a core of Zen 5 MKL
makes 105 billion operations a second, oneDNN up to 240 billion. A sum in float32 depends on the order of its terms. MKL
adds terms in blocks of `BLOCK`; here oneDNN is given the same blocks, one after another. A trial (`pays`) compares both
libraries.

Letters in shapes: In shapes: N rows, I inputs, O outputs, k networks.
"""

from __future__ import annotations

from functools import cache
from time import get_clock_info, perf_counter, thread_time
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCK = 192
"""Terms that MKL adds up before it adds their sum to the sum of earlier terms."""
FEWEST_ROWS, FEWEST_COLUMNS = 512, 96
"""Least rows and columns of a product: smaller ones gain nothing."""
CHUNK = 512
"""Rows that go through all blocks together, so that their sums stay in a core's cache."""
GAIN, SHORT = 1.2, 1e-5
"""How many times as fast oneDNN must be in a trial, and the coarsest clock that can measure a trial, in seconds."""
MANY_TERMS = 4096
"""Terms from which on an accelerator multiplies the networks one after another. CUDA's batched product divides a sum
among few processors: with 262,144 rows the gradient of 128 x 128 weights took 8.5 ms on an H200, 0.8 of the whole
update."""


class WideLinear(nn.Linear):
    """A linear layer of rows (N, I), which may be many."""

    def forward(self, input: Tensor) -> Tensor:
        """Returns features (N, O) of rows (N, I)."""
        return linear(input, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns a linear layer (N, O) of x (N, I), `weight` (O, I) and `bias` (O,), with a gradient."""
    if not (len(x) >= FEWEST_ROWS and _fits(x, weight)):
        return functional.linear(x, weight, bias)
    return stacked_linear(bias.view(1, 1, -1), x.unsqueeze(0), weight.t().unsqueeze(0)).squeeze(0)


def stacked_linear(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """Returns k linear layers (k, N, O) of x (k, N, I), weights (k, I, O) and biases (k, 1, O), with a gradient."""
    if one_by_one(x, x.shape[1]):  # for the gradient's sake, which autograd makes as the product was made
        return torch.stack([torch.addmm(*layer) for layer in zip(bias, x, weight, strict=True)])
    return _StackedLinear.apply(bias, x, weight) if _fits(x, weight) else torch.baddbmm(bias, x, weight)


class _StackedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return stacked(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        product = torch.bmm if torch.is_grad_enabled() else stacked  # a gradient of this gradient may be asked for
        of_x = product(grad, weight.transpose(1, 2)) if ctx.needs_input_grad[1] else None
        return grad.sum(1, keepdim=True), of_x, product(x.transpose(1, 2), grad)


def stacked(x: Tensor, y: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Returns x (k, N, I) times y (k, I, O), plus `bias` (k, 1, O), written to `out` if given. Without a gradient."""
    out = x.new_empty(len(x), x.shape[1], y.shape[2]) if out is None else out
    terms = len(y[0])
    if _fits(x, y) and blocks_of(terms) is not None:
        for i, into in enumerate(out):
            in_blocks(x[i], y[i], None if bias is None else bias[i, 0], into)
    elif one_by_one(x, terms):
        for i, into in enumerate(out):
            torch.mm(x[i], y[i], out=into)
    elif bias is None:
        torch.bmm(x, y, out=out)
    else:
        torch.baddbmm(bias, x, y, out=out)
    return out


def in_blocks(x: Tensor, y: Tensor, bias: Tensor | None, out: Tensor) -> None:
    """Writes x (N, I) times y (I, O), plus `bias` (O,), to `out`: sums of blocks of terms, added one after another."""
    multiply = torch.ops.mkldnn._linear_pointwise
    first, *rest = blocks_of(len(y)) or [slice(None)]
    above, *below = (y[block].contiguous().t() for block in (first, *rest))
    for into, part in zip(out.split(CHUNK), x.split(CHUNK), strict=True):
        total = multiply(part[:, first].contiguous(), above, bias, "none", [], "")
        for block, right in zip(rest, below, strict=True):
            total = multiply.binary(part[:, block].contiguous(), total, right, None, "add")
        into.copy_(total)


def blocks_of(terms: int) -> list[slice] | None:
    """Returns the blocks in which MKL adds up this number of terms; None if it uses no such blocks."""
    if BLOCK < terms < 2 * BLOCK:
        half = terms // 2
        return [slice(half), slice(half, terms)] if terms % 2 == 0 else None
    return [slice(at, min(at + BLOCK, terms)) for at in range(0, terms, BLOCK)]


def one_by_one(x: Tensor, terms: int) -> bool:
    """Whether the networks are multiplied one after another on the device of x, for sums of this many terms."""
    return x.device.type != "cpu" and terms >= MANY_TERMS


def _fits(x: Tensor, y: Tensor) -> bool:
    """Whether x and y are large, of plain float32 on a CPU, and oneDNN pays there."""
    return (
        x.device.type == "cpu"
        and x.dtype == y.dtype == torch.float32
        and min(*x.shape[-2:], *y.shape[-2:]) >= FEWEST_COLUMNS
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and pays()
    )


@cache
def pays() -> bool:
    """Whether products in blocks give the same digits as PyTorch in less time; tried out once in a process.

    If the digits are the same, a run does not depend on which library computes them.
    """
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    clock = thread_time if get_clock_info("thread_time").resolution < SHORT else perf_counter
    chance = torch.Generator().manual_seed(0)
    seconds = [0.0, 0.0]
    for rows, terms, outputs in ((1024, 512, 512), (1024, 336, 256), (256, 1600, 512)):
        x, y, bias = (torch.randn(shape, generator=chance) for shape in ((rows, terms), (terms, outputs), (outputs,)))
        theirs, ours = torch.empty(2, rows, outputs)
        took = []
        for _ in range(4):
            start = clock()
            torch.addmm(bias, x, y, out=theirs)
            between = clock()
            in_blocks(x, y, bias, ours)
            took.append((between - start, clock() - between))
        if not torch.equal(theirs, ours):
            return False
        seconds = [total + min(column) for total, column in zip(seconds, zip(*took, strict=True), strict=True)]
    return seconds[0] > GAIN * seconds[1]
