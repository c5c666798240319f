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
    """What a group can still earn, and what it could without knowing what one of its agents does: its baseline.

    Both attend over what the critic's body makes of each agent's view: the value over all agents' views, the baseline over
    the agent's own view and what its mates see and do. Only views ask; the order of agents and places where nobody is
    mean nothing. Keys and values of an agent are worked out once, not once for each mate that looks at it; how many
    there are is said as 1 - 1 / agents, without the original's running maximum.

    A baseline is the value and what mates' actions change about it: what is wrong about the value is in the return
    too, and cancels out of the advantage, where two opinions of their own would add their errors to it as noise.
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
        self.value_head, self.change_head = nn.Linear(inputs, signals), nn.Linear(inputs, signals)
        for head in (self.value_head, self.change_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Values of agents on their own, (N, K), of their features (N, inputs)."""
        own = torch.arange(len(features), device=features.device).unsqueeze(1)
        return self.value(features, Groups(own, torch.ones_like(own, dtype=torch.bool)))

    def value(self, features: Tensor, groups: Groups) -> Tensor:
        """Of each moment, (M, K). `features` (N, inputs) of the views; a moment at which nobody is gets some number."""
        view = self._embedded(self.seen(features))
        return self._value(view, self.query(view), self.key_value(view), groups)

    def value_and_baseline(self, features: Tensor, action: Action, groups: Groups, views: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Of each moment the value, (M, K), and of R decisions the baseline, (R, K).

        `action` (N, ...) as the environment got it; `views` (R,): which decide, `places` (R,): where they stand, in M * P counting.
        """
        seen = self.seen(features)
        view, deed = self._embedded(seen), self._embedded(seen + self.done(self.encoded(action)))
        query, own, others = self.query(view), self.key_value(view), self.key_value(deed)
        value = self._value(view, query, own, groups)
        asks, (key, worth), (keys, worths) = self._heads(query, groups)[0], self._heads(own, groups), self._heads(others, groups)
        diagonal = torch.eye(groups.members.shape[1], dtype=torch.bool, device=view.device)
        score = torch.where(diagonal, (asks * key).sum(3, keepdim=True), asks @ keys.transpose(2, 3))
        weight = self._softmax(score, groups)
        attended = weight.masked_fill(diagonal, 0.0) @ worths + weight.diagonal(dim1=2, dim2=3).unsqueeze(3) * worth
        attended = attended.transpose(1, 2).flatten(2).flatten(0, 1).index_select(0, places)
        moments = places // groups.here.shape[1]
        change = self.change_head(self._judged(attended, view.index_select(0, views), groups.here.sum(1).index_select(0, moments)))
        return value, value.detach().index_select(0, moments) + change

    def encoded(self, action: Action) -> Tensor:
        """Numbers and choices side by side, (N, continuous + choices), each choice as one of its branch's."""
        chosen = [functional.one_hot(action.discrete[:, i], size) for i, size in enumerate(self.action.branches)]
        return torch.cat([action.continuous, *(one.to(action.continuous.dtype) for one in chosen)], 1)

    @staticmethod
    def _embedded(x: Tensor) -> Tensor:
        return functional.layer_norm(functional.silu(x), x.shape[1:])

    def _value(self, view: Tensor, query: Tensor, key_value: Tensor, groups: Groups) -> Tensor:
        (asks,), (key, worth) = self._heads(query, groups), self._heads(key_value, groups)
        share = groups.here.to(view.dtype)
        agents = share.sum(1)
        share = (share / agents.clamp(min=1).unsqueeze(1)).unsqueeze(1)  # (M, 1, P)
        weight = share.unsqueeze(1) @ self._softmax(asks @ key.transpose(2, 3), groups)  # of all who ask
        attended = (weight @ worth).flatten(1)
        return self.value_head(self._judged(attended, (share @ groups.of(view)).squeeze(1), agents))

    def _heads(self, x: Tensor, groups: Groups) -> tuple[Tensor, ...]:
        """Rows (N, parts * HEADS * size) of the views as (M, HEADS, P, size) each."""
        return groups.of(x).unflatten(2, (-1, HEADS, self.size)).permute(2, 0, 3, 1, 4).unbind(0)

    def _softmax(self, score: Tensor, groups: Groups) -> Tensor:
        """Weights (M, HEADS, P asking, P asked), 0 of those that are not there."""
        absent = ~groups.here[:, None, None, :] * FORBIDDEN
        return torch.softmax(score / math.sqrt(self.size) + absent, 3)

    def _judged(self, attended: Tensor, itself: Tensor, agents: Tensor) -> Tensor:
        """What was attended to and who asked, (X, ...), and how many agents there are (X,), as features (X, inputs)."""
        features = functional.layer_norm(self.out(attended) + itself, itself.shape[1:])
        mates = 1 - 1 / agents.clamp(min=1).to(features.dtype)
        return functional.silu(torch.addcmul(self.body(features), mates.unsqueeze(1), self.crowd))
