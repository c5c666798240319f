"""The critic of groups: what it depends on, and what it would give one moment, one head and one pair at a time."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from palaestra.core.row_index import Groups
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.entity_attention import HEADS
from palaestra.models.groups.group_critic import GroupCritic

SPEC = ActionSpec(continuous=2, branches=(3, 2))
VIEWS, INPUTS, SIGNALS = 7, 10, 2
GROUPS = [[0, 1, 2], [3], [4, 5, 6]]


def critic(inputs: int = INPUTS) -> GroupCritic:
    torch.manual_seed(0)
    made = GroupCritic(inputs, SIGNALS, SPEC)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def seen(inputs: int = INPUTS) -> tuple[Tensor, Action]:
    generator = torch.Generator().manual_seed(1)
    choices = torch.stack([torch.randint(0, size, (VIEWS,), generator=generator) for size in SPEC.branches], 1)
    return torch.randn(VIEWS, inputs, generator=generator), Action(torch.rand(VIEWS, 2, generator=generator), choices)


def groups_of(members: list[list[int]], most: int | None = None, filler: int = 0) -> Groups:
    most = most or max(map(len, members))
    return Groups(
        torch.tensor([row + [filler] * (most - len(row)) for row in members]),
        torch.tensor([[True] * len(row) + [False] * (most - len(row)) for row in members]),
    )


def asked(
    made: GroupCritic, features: Tensor, action: Action, members: list[list[int]], *more: int
) -> tuple[Tensor, Tensor]:
    """What mates' views and their actions change for all views in their order."""
    groups = groups_of(members, *more)
    most = groups.members.shape[1]
    place = {view: row * most + at for row, views in enumerate(members) for at, view in enumerate(views)}
    return made.context_and_difference(
        features, action, groups, torch.arange(VIEWS), torch.tensor([place[view] for view in range(VIEWS)])
    )


def plainly(
    made: GroupCritic, features: Tensor, action: Action, members: list[int], asks: int
) -> tuple[Tensor, Tensor]:
    """The same for one of the agents of a moment."""

    def embedded(view: int, acts: bool) -> Tensor:
        sums = made.seen(features[view])
        if acts:
            sums = sums + made.done(
                made.encoded(Action(action.continuous[view : view + 1], action.discrete[view : view + 1]))[0]
            )
        return functional.layer_norm(functional.silu(sums), (features.shape[1],))

    def attended(entities: Tensor) -> Tensor:
        keys, values = made.key_value(entities).chunk(2, 1)
        query = made.query(embedded(asks, False))
        heads = []
        for head in range(HEADS):
            part = slice(head * made.size, (head + 1) * made.size)
            weight = torch.softmax(keys[:, part] @ query[part] / math.sqrt(made.size), 0)
            heads.append(weight @ values[:, part])
        together = made.out(torch.cat(heads)) + embedded(asks, False)
        together = functional.layer_norm(together, together.shape)
        return functional.silu(made.body(together) + (1 - 1 / len(members)) * made.crowd)

    context = made.context_head(attended(torch.stack([embedded(view, False) for view in members])))
    return context, made.difference_head(attended(torch.stack([embedded(view, view != asks) for view in members])))


@pytest.mark.parametrize("inputs", [1, 7, 10, 32])
def test_contexts_and_changes_are_those_of_one_moment_at_a_time(inputs: int):
    made, (features, action) = critic(inputs), seen(inputs)
    found = asked(made, features, action, GROUPS)
    expected = {view: plainly(made, features, action, members, view) for members in GROUPS for view in members}
    for part, wanted in zip(found, zip(*(expected[view] for view in range(VIEWS)), strict=True), strict=True):
        assert_close(part, torch.stack(wanted))


def test_the_order_of_agents_and_empty_places_mean_nothing():
    made, (features, action) = critic(), seen()
    found, other = (asked(made, features, action, *more) for more in ((GROUPS,), ([[2, 0, 1], [3], [6, 5, 4]], 5, 3)))
    for one, same in zip(found, other, strict=True):
        assert_close(one, same)


def test_a_baseline_knows_what_mates_do_but_not_what_its_own_agent_does():
    made, (features, action) = critic(), seen()
    context, change = asked(made, features, action, GROUPS)
    other = Action(action.continuous.clone(), action.discrete.clone())
    other.continuous[1] += 1
    other.discrete[1, 0] = (other.discrete[1, 0] + 1) % 3
    other_context, other_change = asked(made, features, other, GROUPS)
    assert_close(other_context, context)
    changed = (other_change - change).abs().sum(1) > 1e-4
    assert changed.tolist() == [True, False, True, False, False, False, False]


def test_a_baseline_knows_what_mates_see():
    made, (features, action) = critic(), seen()
    context, _ = asked(made, features, action, GROUPS)
    features[4] += torch.linspace(-1, 1, INPUTS)
    changed = (asked(made, features, action, GROUPS)[0] - context).abs().sum(1) > 1e-4
    assert changed.tolist() == [False, False, False, False, True, True, True]


def test_the_body_learns_from_agents_own_views_alone():
    made, (features, action) = critic(), seen()
    features.requires_grad_()
    context, change = asked(made, features, action, GROUPS)
    (grad,) = torch.autograd.grad(made(features).sum() + context.sum() + change.sum(), features)
    assert_close(grad, made.own_head.weight.sum(0).expand_as(features))


def test_the_value_of_a_group_is_the_mean_over_its_agents_of_own_value_and_context():
    made, (features, action) = critic(), seen()
    each = made(features) + asked(made, features, action, GROUPS)[0]
    assert_close(made.value(features, groups_of(GROUPS)), torch.stack([each[members].mean(0) for members in GROUPS]))
    assert_close(
        made.value(features, groups_of([[2, 0, 1], [3], [6, 5, 4]], 5, 3)), made.value(features, groups_of(GROUPS))
    )
    nobody = Groups(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(1, 2, dtype=torch.bool))
    assert_close(made.value(features, nobody), torch.zeros(1, SIGNALS))


def test_values_and_baselines_start_at_zero():
    made, (features, action) = GroupCritic(INPUTS, SIGNALS, SPEC), seen()
    for part in (made(features), made.value(features, groups_of(GROUPS)), *asked(made, features, action, GROUPS)):
        assert_close(part, torch.zeros_like(part), atol=1e-5, rtol=0)


@pytest.mark.parametrize("inputs", [7, 32])
def test_what_mates_see_is_learned_from_the_second_step_on(inputs: int):
    torch.manual_seed(0)
    made, (features, action) = GroupCritic(inputs, SIGNALS, SPEC), seen(inputs)
    below = (made.seen, made.query, made.key_value, made.out)
    wanted = torch.randn(7, SIGNALS)
    for layers in (
        (made.body, made.context_head),
        below,
    ):  # mirrored units cancel each other out for what lies below them, until they differ
        made.zero_grad()
        context, _ = asked(made, features, action, GROUPS)
        (context * wanted[: len(context)]).sum().backward()
        for layer in layers:
            assert layer.weight.grad is not None
            assert layer.weight.grad.abs().max() > 1e-5
        for parameter in made.parameters():
            if parameter.grad is not None:
                parameter.data -= 0.1 * parameter.grad
