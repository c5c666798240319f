"""A critic that sees all agents of a group at once. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.row_index import Groups
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.entity_attention import HEADS, linear
from palaestra.models.groups.group_attention import attend
from palaestra.models.mirrored_init import mirrored_heads
from palaestra.models.products import WideLinear


class GroupCritic(nn.Module):
    """Estimates the value of a group, and for each of its agents a baseline that does not depend on that agent's
    action.

    Three parts add up. A linear layer gives the value of an agent's own observation, as PPO's critic does. Attention
    over all agents' observations adds the context: how the mates' observations change this value. The value of the
    group is the mean of value plus context over its agents. Attention over the agent's own observation and its mates'
    observations and actions adds the difference between the group's value and the agent's baseline. Only the first part
    trains the body: while rewards are rare, the gradient of the other two parts, through their normalized layers, was
    measured to erase the observations from the body's features.

    Queries come from observations alone; the order of agents does not matter, and empty rows are ignored. Keys and
    values are computed once for each agent, not once for each pair. The number of agents is an input, as 1 - 1 /
    agents; the original scales it by a running maximum.

    All parts start at zero. The context's head starts mirrored (`mirrored_heads`), so that the mates' influence is
    learned from the first step on.

    With `individual` values an agent's own value also gets the number of agents, and the value of the group is the mean
    of own values alone; the context's head then starts with weights of 0, with which learning was measured to be
    faster.
    """

    def __init__(self, inputs: int, signals: int, action: ActionSpec, individual: bool = False) -> None:
        """`inputs`: width of the features of an observation; `signals`: K, the number of reward signals."""
        super().__init__()
        self.action = action
        self.size = math.ceil(inputs / (2 * HEADS))
        self.seen = linear(inputs, inputs, layer=WideLinear)
        self.done = linear(action.continuous + action.choices, inputs)
        self.query = linear(inputs, HEADS * self.size, 0.125, WideLinear)
        self.key_value = linear(inputs, 2 * HEADS * self.size, 0.125, WideLinear)
        self.out = linear(HEADS * self.size, inputs, 0.125, WideLinear)
        self.body = linear(inputs, inputs, layer=WideLinear)
        self.crowd = nn.Parameter(torch.zeros(inputs))
        self.own_head, self.context_head, self.difference_head = (nn.Linear(inputs, signals) for _ in range(3))
        self.count_head = nn.Linear(inputs, signals) if individual else None
        for head in (self.own_head, self.context_head, self.difference_head, self.count_head):
            if head is not None:
                nn.init.zeros_(head.weight)
                nn.init.zeros_(head.bias)
        if not individual:
            self.context_head.weight.data.copy_(mirrored_heads(self.body, inputs, [signals])[0].t())

    def forward(self, features: Tensor) -> Tensor:
        """Returns values of agents' own observations, (N, K), from features (N, inputs)."""
        return self.own_head(features)

    def own_value(self, features: Tensor, agents: Tensor) -> Tensor:
        """Returns values (..., K) of own observations, from features (..., inputs) and numbers of `agents` (...,)."""
        own = self.own_head(features)
        if self.count_head is None:
            return own
        return own + _share_of_mates(agents, features).unsqueeze(-1) * self.count_head(features.detach())

    def value(self, features: Tensor, groups: Groups) -> Tensor:
        """Returns values (M, K) of groups at M group steps, from features (N, inputs); 0 where a group is empty."""
        if self.count_head is not None:
            return self._mean(features, groups, None)
        embedded = self._embedded(self.seen(features.detach()))
        key_value = self.key_value(embedded)
        attended, _ = attend(self.query(embedded), key_value, key_value, groups)
        return self._mean(features, groups, self._everywhere(attended, embedded, groups))

    def _everywhere(self, attended: Tensor, embedded: Tensor, groups: Groups) -> Tensor:
        """Returns features (M * P, inputs) of all places, from attention (M * P, width) and embeddings (N, inputs)."""
        agents = groups.present.sum(1, keepdim=True).expand_as(groups.present).flatten()
        return self._attended_features(attended, groups.of(embedded).flatten(0, 1), agents)

    def _mean(self, features: Tensor, groups: Groups, attended: Tensor | None) -> Tensor:
        """Returns means over the agents of groups, (M, K), of own values and of contexts, from features (N, inputs) and
        attention's features (M * P, inputs)."""
        agents = groups.present.sum(1, keepdim=True)
        value = self.own_value(groups.of(features), agents.expand_as(groups.present))
        if attended is not None:
            value = value + self.context_head(attended).view_as(value)
        share = groups.present.to(features.dtype) / agents.clamp(min=1)
        return (share.unsqueeze(1) @ value).squeeze(1)

    def context_and_difference(
        self, features: Tensor, action: Action, groups: Groups, deciding: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns contexts and differences of R decisions, each (R, K): value = own + context, baseline = value +
        difference.

        `features` (N, inputs) of observations; `action` (N, ...) is each agent's action, as the environment received
        it. `deciding` (R,) indexes the observation of each decision; `places` (R,) indexes its place in the flattened
        (M, P) table of `groups`.
        """
        embedded, *attended = self._attended(features, action, groups)
        itself, agents = groups.at(embedded, deciding), groups.agents_at(places)
        context, difference = (self._attended_features(groups.at(one, places), itself, agents) for one in attended)
        return self.context_head(context), self.difference_head(difference)

    def estimates(
        self, features: Tensor, action: Action, groups: Groups, deciding: Tensor, places: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns own values, values and baselines of R decisions, each (R, K), and `value` of the groups, (M, K).

        The arguments are those of `context_and_difference`; each context is computed once and used for both.
        """
        embedded, of_obs, of_actions = self._attended(features, action, groups)
        itself, agents = groups.at(embedded, deciding), groups.agents_at(places)
        attended = self._everywhere(of_obs, embedded, groups)
        own = self.own_value(groups.at(features, deciding), agents)
        value = own + self.context_head(groups.at(attended, places))
        difference = self.difference_head(self._attended_features(groups.at(of_actions, places), itself, agents))
        together = self._mean(features, groups, attended if self.count_head is None else None)
        return own, value, value + difference, together

    def _attended(self, features: Tensor, action: Action, groups: Groups) -> tuple[Tensor, Tensor, Tensor]:
        """Returns embeddings of observations, (N, inputs), and the result of `attend`."""
        seen = self.seen(features.detach())
        embedded = self._embedded(seen)
        with_action = self._embedded(seen + self.done(self.encoded(action)))
        query, of_obs, of_actions = self.query(embedded), self.key_value(embedded), self.key_value(with_action)
        return embedded, *attend(query, of_obs, of_actions, groups)

    def encoded(self, action: Action) -> Tensor:
        """Returns actions as numbers (N, continuous + choices): continuous ones, then each discrete branch one-hot."""
        chosen = [functional.one_hot(action.discrete[:, i], size) for i, size in enumerate(self.action.branches)]
        return torch.cat([action.continuous, *(one.to(action.continuous.dtype) for one in chosen)], 1)

    @staticmethod
    def _embedded(x: Tensor) -> Tensor:
        return functional.layer_norm(functional.silu(x), x.shape[1:])

    def _attended_features(self, attended: Tensor, itself: Tensor, agents: Tensor) -> Tensor:
        """Returns features (..., inputs) from attention, its queries (..., width) and the number of agents (...,)."""
        features = functional.layer_norm(self.out(attended) + itself, itself.shape[-1:])
        return functional.silu(
            torch.addcmul(self.body(features), _share_of_mates(agents, features).unsqueeze(-1), self.crowd)
        )


def _share_of_mates(agents: Tensor, like: Tensor) -> Tensor:
    """Returns 1 - 1 / agents: 0 for an agent alone, near 1 in a large group."""
    return 1 - 1 / agents.clamp(min=1).to(like.dtype)
