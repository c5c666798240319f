"""Products of large matrices: what they give, and in which order they add up."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from palaestra.models import products

ROWS, INPUTS, OUTPUTS = 600, 336, 128


def layers(networks: int) -> tuple[Tensor, Tensor, Tensor]:
    """Biases, rows and weights of a few networks."""
    generator = torch.Generator().manual_seed(0)
    shapes = (networks, 1, OUTPUTS), (networks, ROWS, INPUTS), (networks, INPUTS, OUTPUTS)
    bias, x, weight = (torch.randn(shape, generator=generator).requires_grad_() for shape in shapes)
    return bias, x, weight


def gradients(out: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(out.cos().sum(), of)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of products that oneDNN makes, on whatever processor."""
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("PyTorch is built without oneDNN")
    shapes: list[tuple[int, ...]] = []
    plain = products.in_blocks

    def noted(x: Tensor, y: Tensor, bias: Tensor | None, out: Tensor) -> None:
        shapes.append((*x.shape, y.shape[1]))
        plain(x, y, bias, out)

    monkeypatch.setattr(products, "in_blocks", noted)
    monkeypatch.setattr(products, "pays", lambda: True)
    return shapes


def test_terms_are_cut_as_mkl_cuts_them():
    assert products.blocks_of(192) == [slice(0, 192)]
    assert products.blocks_of(336) == [slice(168), slice(168, 336)]
    assert products.blocks_of(512) == [slice(0, 192), slice(192, 384), slice(384, 512)]
    assert products.blocks_of(339) is None


def test_a_layer_of_many_rows_and_its_gradient_are_autograds(taken: list[tuple[int, ...]]):
    bias, x, weight = (column[0] for column in layers(1))
    out = products.linear(x, weight.t(), bias[0])
    expected = functional.linear(x, weight.t(), bias[0])
    assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert_close(gradients(out, x, weight, bias), gradients(expected, x, weight, bias), rtol=1e-4, atol=1e-4)
    assert taken == [(600, 336, 128), (600, 128, 336), (336, 600, 128)]  # forward, its rows, its weights


def test_stacked_layers_and_their_gradients_are_autograds(taken: list[tuple[int, ...]]):
    bias, x, weight = layers(2)
    out = products.stacked_linear(bias, x.detach(), weight)
    expected = torch.baddbmm(bias, x.detach(), weight)
    assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert_close(gradients(out, bias, weight), gradients(expected, bias, weight), rtol=1e-4, atol=1e-4)
    assert len(taken) == 4  # observations need no gradient


def test_the_gradient_of_a_gradient_is_autograds(taken: list[tuple[int, ...]]):
    """As discriminators need it, whose slope is part of their loss."""

    def slope(out: Tensor, x: Tensor) -> Tensor:
        return torch.autograd.grad(out.sin().sum(), x, create_graph=True)[0].square().mean()

    bias, x, weight = (column[0] for column in layers(1))
    ours, theirs = (layer(x, weight.t(), bias[0]) for layer in (products.linear, functional.linear))
    of = bias, x, weight
    assert_close(gradients(slope(ours, x), *of), gradients(slope(theirs, x), *of), rtol=1e-4, atol=1e-4)
    assert taken[0] == (600, 336, 128)


def test_what_onednn_may_not_do_is_left_to_pytorch(taken: list[tuple[int, ...]]):
    bias, x, weight = (column.detach() for column in layers(1))
    products.stacked_linear(bias.double(), x.double(), weight.double())
    products.linear(x[0, :, :90], weight[0, :90].t(), bias[0, 0])  # few columns
    products.linear(x[0, :500], weight[0].t(), bias[0, 0])  # few rows
    products.stacked(x[:, :, :200].transpose(1, 2), x)  # 600 terms: they may
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(x[0], weight[0].t(), bias[0, 0]).dtype == torch.bfloat16
    assert taken == [(200, 600, 336)]


def test_where_products_in_blocks_pay_they_have_the_digits_of_pytorchs_own():
    """The whole promise: which of both makes a product does not show in a run."""
    if not products.pays():
        pytest.skip("they do not pay on this processor")
    generator = torch.Generator().manual_seed(1)
    for rows, terms, outputs in ((2046, 512, 512), (512, 2046, 336), (777, 230, 97), (128, 4099, 130), (600, 192, 256)):
        x, y = torch.randn(rows, terms, generator=generator), torch.randn(outputs, terms, generator=generator).t()
        bias, out = torch.randn(outputs, generator=generator), torch.empty(rows, outputs)
        products.in_blocks(x, y, bias, out)
        assert torch.equal(out, torch.addmm(bias, x, y)), (rows, terms, outputs)


def test_only_long_sums_on_an_accelerator_are_made_one_network_after_another():
    assert not products.one_by_one(torch.zeros(2), products.MANY_TERMS)
    assert products.one_by_one(torch.zeros(2, device="meta"), products.MANY_TERMS)
    assert not products.one_by_one(torch.zeros(2, device="meta"), products.MANY_TERMS - 1)
