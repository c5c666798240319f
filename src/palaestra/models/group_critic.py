"""A critic that sees all agents of a group at once. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.groups import Groups
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.attention import FORBIDDEN, HEADS, linear


class GroupCritic(nn.Module):
    """What a group can still earn, from each agent's place: its value, and its baseline, which knows what mates see and do as well.

    Three parts add up. One layer says what the agent's own view is worth, as PPO's does: the value. Attention over all agents' views
    says what mates' views change about that, and attention over its own view and what mates see and do, what their actions change;
    what the agent itself does it is not told. The body learns from the first part alone: while rewards are rare, the gradient of
    the other two, through their normalized layers, was measured to leave nothing of a view in it. How far to follow those is for
    who asks to measure.

    Only views ask; the order of agents and places where nobody is mean nothing. Keys and values of an agent are worked out once, not
    once for each mate that looks at it; how many there are is said as 1 - 1 / agents, without the original's running maximum.
    """

    def __init__(self, inputs: int, signals: int, action: ActionSpec) -> None:
        """`inputs`: numbers of a view's features, any number; `signals`: K."""
        super().__init__()
        self.action, self.size = action, math.ceil(inputs / (2 * HEADS))
        self.seen, self.done = linear(inputs, inputs), linear(action.continuous + action.choices, inputs)
        self.query = linear(inputs, HEADS * self.size, 0.125)
        self.key_value = linear(inputs, 2 * HEADS * self.size, 0.125)
        self.out, self.body = linear(HEADS * self.size, inputs, 0.125), linear(inputs, inputs)
        self.crowd = nn.Parameter(torch.zeros(inputs))
        self.own_head, self.context_head, self.change_head = (nn.Linear(inputs, signals) for _ in range(3))
        for head in (self.own_head, self.context_head, self.change_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Values: what agents' own views say, (N, K), of their features (N, inputs)."""
        return self.own_head(features)

    def context_and_change(self, features: Tensor, action: Action, groups: Groups, views: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Of R decisions, what mates' views change about the value of who makes them, and then their actions, each (R, K).

        `features` (N, inputs) of the views, `action` (N, ...) as the environment got it; `views` (R,): which decide, `places` (R,): where
        they stand, in M * P counting.
        """
        seen = self.seen(features.detach())
        view, deed = self._embedded(seen), self._embedded(seen + self.done(self.encoded(action)))
        (asks,), (key, worth), (keys, worths) = (
            self._heads(x, groups) for x in (self.query(view), self.key_value(view), self.key_value(deed))
        )
        diagonal = torch.eye(groups.members.shape[1], dtype=torch.bool, device=view.device)
        of_views = asks @ key.transpose(2, 3)
        of_deeds = torch.where(diagonal, of_views, asks @ keys.transpose(2, 3))
        weight = self._softmax(of_deeds, groups)
        own = weight.diagonal(dim1=2, dim2=3).unsqueeze(3)
        attended = (self._softmax(of_views, groups) @ worth, weight.masked_fill(diagonal, 0.0) @ worths + own * worth)
        itself, agents = view.index_select(0, views), groups.here.sum(1).index_select(0, places // groups.here.shape[1])
        chosen = (one.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, places) for one in attended)
        context, change = (self._seen_with(one, itself, agents) for one in chosen)
        return self.context_head(context), self.change_head(change)

    def encoded(self, action: Action) -> Tensor:
        """Numbers and choices side by side, (N, continuous + choices), each choice as one of its branch's."""
        chosen = [functional.one_hot(action.discrete[:, i], size) for i, size in enumerate(self.action.branches)]
        return torch.cat([action.continuous, *(one.to(action.continuous.dtype) for one in chosen)], 1)

    @staticmethod
    def _embedded(x: Tensor) -> Tensor:
        return functional.layer_norm(functional.silu(x), x.shape[1:])

    def _heads(self, x: Tensor, groups: Groups) -> tuple[Tensor, ...]:
        """Rows (N, parts * HEADS * size) of the views as (M, HEADS, P, size) each."""
        return groups.of(x).unflatten(2, (-1, HEADS, self.size)).permute(2, 0, 3, 1, 4).unbind(0)

    def _softmax(self, score: Tensor, groups: Groups) -> Tensor:
        """Weights (M, HEADS, P asking, P asked), 0 of those that are not there."""
        absent = ~groups.here[:, None, None, :] * FORBIDDEN
        return torch.softmax(score / math.sqrt(self.size) + absent, 3)

    def _seen_with(self, attended: Tensor, itself: Tensor, agents: Tensor) -> Tensor:
        """What was attended to and who asked, (X, ...), and how many agents there are (X,), as features (X, inputs)."""
        features = functional.layer_norm(self.out(attended) + itself, itself.shape[1:])
        mates = 1 - 1 / agents.clamp(min=1).to(features.dtype)
        return functional.silu(torch.addcmul(self.body(features), mates.unsqueeze(1), self.crowd))
