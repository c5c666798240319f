import math
from contextlib import nullcontext
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from palaestra.models.residual import by_rows
from palaestra.models.residual.residual_body import EPSILON, MOMENTUM, ResidualBody, StackedBatchNorm


def made(networks: int = 2, inputs: int = 5, hidden: int = 6, blocks: int = 2) -> ResidualBody:
    torch.manual_seed(0)
    body = ResidualBody(networks, inputs, hidden, blocks)
    with torch.no_grad():
        for norm in body.norms:
            assert isinstance(norm, StackedBatchNorm)
            norm.affine.add_(0.3 * torch.randn_like(norm.affine))
            norm.mean.normal_()
            norm.var.uniform_(0.5, 2)
        body.scale.uniform_(0.5, 2)
    return body


def plainly(body: ResidualBody, index: int, x: torch.Tensor, learns: bool) -> torch.Tensor:
    """One network by torch's own modules, rows before features."""

    def norm(i: int, x: torch.Tensor) -> torch.Tensor:
        ours = body.norms[i]
        assert isinstance(ours, StackedBatchNorm)
        layer = nn.BatchNorm1d(x.shape[1])
        layer.load_state_dict(
            {
                "weight": ours.affine[0, index],
                "bias": ours.affine[1, index],
                "running_mean": ours.mean.view(body.networks, -1)[index],
                "running_var": ours.var.view(body.networks, -1)[index],
                "num_batches_tracked": torch.tensor(0),
            }
        )
        return layer.train(learns)(x)

    x = norm(0, x) @ body.weights[0][index].t()
    for i in range(1, len(body.weights), 2):
        inner = x
        for j in (i, i + 1):
            inner = norm(j, inner @ body.weights[j][index].t()).relu()
        x = x + inner
    return nn.functional.rms_norm(x, x.shape[1:], body.scale[index].flatten(), EPSILON)


@pytest.mark.parametrize("learns", [False, True])
def test_stacked_blocks_compute_what_torchs_modules_do(learns: bool):
    body = made()
    x = torch.randn(2, 7, 5)
    expected = [plainly(body, i, x[i], learns) for i in range(2)]
    if learns:
        with body.learning():
            found = body(x)
    else:
        found = body(x)
        assert_close(body.one(1, x[1]), found[1])
        mean, ((weight, bias), *_) = body.folded(1)
        assert_close((x[1] - mean) @ weight.t() + bias, plain_entry(body, x[1]))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, atol=1e-5, rtol=1e-5)


def plain_entry(body: ResidualBody, x: torch.Tensor) -> torch.Tensor:
    norm = body.norms[0]
    assert isinstance(norm, StackedBatchNorm)
    mean, var = norm.mean.view(2, -1)[1], norm.var.view(2, -1)[1]
    scaled = (x - mean) / (var + EPSILON).sqrt() * norm.affine[0, 1] + norm.affine[1, 1]
    return scaled @ body.weights[0][1].t()


def test_a_folded_body_sees_small_differences_about_a_large_number():
    body = made(networks=1)
    norm = body.norms[0]
    assert isinstance(norm, StackedBatchNorm)
    norm.mean.fill_(1000)
    norm.var.fill_(1e-4)
    x = 1000 + torch.tensor([[-1.0, 0, 1, 2, 3]]) / 128  # numbers that float32 has
    mean, ((weight, bias), *_) = body.folded(0)
    scaled = (x.double() - 1000) / math.sqrt(1e-4 + EPSILON) * norm.affine[0, 0] + norm.affine[1, 0]
    expected = scaled @ body.weights[0][0].double().t()
    assert_close(((x - mean) @ weight.t() + bias).double(), expected, atol=1e-5, rtol=1e-5)


def test_only_the_block_learns_statistics():
    body = ResidualBody(1, 1, 4, 1).train()  # as a module of a network that trains might be
    norm = body.norms[0]
    assert isinstance(norm, StackedBatchNorm)
    rows = torch.tensor([[[1.0], [3.0]]])
    body(rows)
    assert norm.mean.item() == 0
    with body.learning():
        body(rows)
    # mean 2, and an unbiased variance of 2
    assert norm.mean.item() == pytest.approx(2 * MOMENTUM)
    assert norm.var.item() == pytest.approx(1 + MOMENTUM * (2 - 1))
    body(rows)
    assert norm.mean.item() == pytest.approx(2 * MOMENTUM)


def test_bounds_make_rows_of_length_1_and_norms_as_long_as_ones():
    body = made(networks=2, inputs=3, hidden=4, blocks=1)
    with torch.no_grad():
        body.weights[0][0, 0] = torch.tensor([3.0, 0.0, 4.0])
    body.bound()
    assert_close(body.weights[0][0, 0], torch.tensor([0.6, 0.0, 0.8]))
    for weight in body.weights:
        assert_close(weight.square().sum(2), torch.ones(weight.shape[:2]))
    for norm in body.norms:
        assert isinstance(norm, StackedBatchNorm)
        assert_close(norm.affine.square().sum((0, 2)), torch.full((2,), float(norm.affine.shape[2])))
    assert_close(body.scale.square().sum(1), torch.full((2, 1), 4.0))


def test_weights_start_orthogonal():
    weight = ResidualBody(1, 8, 4, 1).weights[0][0]
    assert_close(weight @ weight.t(), torch.eye(4), atol=1e-5, rtol=0)
    features = ResidualBody(1, 8, 4, 1)(torch.randn(1, 3, 8))
    assert_close(features.square().sum(2).sqrt(), torch.full((1, 3), math.sqrt(4)), atol=1e-3, rtol=0)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize(("rows", "at"), [(7, slice(None)), (40, slice(20)), (40, slice(20, None))])
def test_the_form_by_rows_has_autograds_gradient(learns: bool, rows: int, at: slice, monkeypatch: pytest.MonkeyPatch):
    bodies = made(), made()
    x, weight, head, bias = (
        torch.randn(2, rows, 5),
        torch.randn(2, rows, 3)[:, at],
        torch.randn(2, 6, 3),
        torch.zeros(2, 1, 3),
    )
    given = []
    for body in bodies:
        leaves = [part.clone().requires_grad_() for part in (x, head, bias)]
        with body.learning() if learns else nullcontext():
            features = body(leaves[0], at)
        by_rows.heads(leaves[2], features, leaves[1]).mul(weight).sum().backward()
        given.append([features, *(leaf.grad for leaf in (*leaves, *body.parameters())), *body.buffers()])
        monkeypatch.setattr(by_rows, "fits", lambda x: False)
    for one, other in zip(*given, strict=True):
        assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_without_gradients_of_weights_that_of_the_input_is_there():
    body = made().requires_grad_(False)
    x = torch.randn(2, 40, 5, requires_grad=True)
    body(x).sum().backward()
    whole = made()
    other = x.detach().requires_grad_()
    whole(other).sum().backward()
    assert_close(x.grad, other.grad)
    assert body.weights[0].grad is None


def test_no_rows_give_no_features_and_gradients_of_0():
    body = made().double()  # as on a GPU: a tick on which none of a network's agents acts
    x = torch.zeros(2, 0, 5, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        assert body(x).shape == (2, 0, 6)
    body(x).sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in body.parameters())
    assert not by_rows.fits(x.float())  # whose gradient would end the process


def test_a_body_is_copied_after_its_weights_have_moved():
    body = made()
    x = torch.rand(2, 7, 5)
    with torch.no_grad():
        body(x)
        body.weights[0].mul_(2)
    copied = deepcopy(body)
    with torch.no_grad():
        assert_close(copied(x), body(x))
        copied.weights[1].mul_(-1)
        assert not torch.equal(copied(x), body(x))
