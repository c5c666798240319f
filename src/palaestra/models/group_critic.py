"""A critic that sees all agents of a group at once. Cohen et al. 2022, https://arxiv.org/abs/2111.05992."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from palaestra.core.groups import Groups
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action
from palaestra.models.attention import FORBIDDEN, HEADS, linear


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a group can still earn, as each of its agents has it: two parts, which add up. Each (M, P, K), or (R, K) of some."""

    own: Tensor
    """What the agent's own view says of it."""
    context: Tensor
    """What its mates' views change about that."""

    def at(self, places: Tensor) -> Opinion:
        """Of those who stand in these places (R,), in M * P counting."""
        own, context = (part.flatten(0, 1).index_select(0, places) for part in (self.own, self.context))
        return Opinion(own, context)

    def value(self, trust: Tensor) -> Tensor:
        """With so much of the context, (K,)."""
        return self.own + trust * self.context


class GroupCritic(nn.Module):
    """What a group can still earn, from each agent's place: its value, and its baseline, which knows what mates do but not what it does.

    Three parts add up. One layer says what the agent's own view is worth, as PPO's does. Attention over all agents' views says
    what mates' views change about that, and attention over its own view and what mates see and do, what their actions change.
    The body learns from the first part alone: while rewards are rare, the gradient of the other two, through their
    normalized layers, was measured to leave nothing of a view in it. How far to follow those is for who asks to measure.

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
        """What agents' own views say, (N, K), of their features (N, inputs)."""
        return self.own_head(features)

    def opinion(self, features: Tensor, groups: Groups) -> Opinion:
        """(M, P, K); where nobody is, some number. `features` (N, inputs) of the views."""
        view = self._embedded(self.seen(features.detach()))
        return Opinion(groups.of(self.own_head(features)), self._context(view, self.query(view), self.key_value(view), groups))

    def opinion_and_change(self, features: Tensor, action: Action, groups: Groups, views: Tensor, places: Tensor) -> tuple[Opinion, Tensor]:
        """(M, P, K), and of R decisions what mates' actions change about the opinion of who makes them, (R, K).

        `action` (N, ...) as the environment got it; `views` (R,): which decide, `places` (R,): where they stand, in M * P counting.
        """
        seen = self.seen(features.detach())
        view, deed = self._embedded(seen), self._embedded(seen + self.done(self.encoded(action)))
        query, own, others = self.query(view), self.key_value(view), self.key_value(deed)
        opinion = Opinion(groups.of(self.own_head(features)), self._context(view, query, own, groups))
        asks, (key, worth), (keys, worths) = self._heads(query, groups)[0], self._heads(own, groups), self._heads(others, groups)
        diagonal = torch.eye(groups.members.shape[1], dtype=torch.bool, device=view.device)
        score = torch.where(diagonal, (asks * key).sum(3, keepdim=True), asks @ keys.transpose(2, 3))
        weight = self._softmax(score, groups)
        attended = weight.masked_fill(diagonal, 0.0) @ worths + weight.diagonal(dim1=2, dim2=3).unsqueeze(3) * worth
        attended = attended.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, places)
        agents = groups.here.sum(1).index_select(0, places // groups.here.shape[1])
        change = self.change_head(self._seen_with(attended, view.index_select(0, views), agents))
        return opinion, change

    def encoded(self, action: Action) -> Tensor:
        """Numbers and choices side by side, (N, continuous + choices), each choice as one of its branch's."""
        chosen = [functional.one_hot(action.discrete[:, i], size) for i, size in enumerate(self.action.branches)]
        return torch.cat([action.continuous, *(one.to(action.continuous.dtype) for one in chosen)], 1)

    @staticmethod
    def _embedded(x: Tensor) -> Tensor:
        return functional.layer_norm(functional.silu(x), x.shape[1:])

    def _context(self, view: Tensor, query: Tensor, key_value: Tensor, groups: Groups) -> Tensor:
        """(M, P, K) for each who asks."""
        (asks,), (key, worth) = self._heads(query, groups), self._heads(key_value, groups)
        attended = (self._softmax(asks @ key.transpose(2, 3), groups) @ worth).transpose(1, 2).flatten(2).flatten(0, 1)
        agents = groups.here.sum(1, keepdim=True).expand_as(groups.here).flatten()
        return self.context_head(self._seen_with(attended, groups.of(view).flatten(0, 1), agents)).unflatten(0, groups.here.shape)

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
