"""Attention over entities: observations of variable length.

Each entity is embedded together with the agent's other observations, then every entity attends to all entities. Vaswani
et al. 2017, https://arxiv.org/abs/1706.03762, section 3.2, over entities as in Baker et al. 2019,
https://arxiv.org/abs/1909.07528, appendix B.6, in the form that ML-Agents uses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

EMBEDDING, HEADS = 128, 4
NOTHING = 1e-10
"""Sum of squares below which an entity is padding. ML-Agents' bound, 0.01, also removes small entities."""
FORBIDDEN = -1e6
"""Score of padding: its weight is exactly 0, and if all entities are padding, there is no 0 / 0."""


class EntityAttention(nn.Module):
    """All entities an agent sees, of one or several kinds, as one encoding of fixed length.

    Each kind of entity is embedded by a layer of its own; then every entity attends to all, and the mean over entities
    is taken. The order of entities has no effect.
    """

    outputs = EMBEDDING

    def __init__(self, itself: int, sizes: Sequence[int]) -> None:
        """`itself`: width of the other observations' encoding, 0 without any; `sizes`: an entity's numbers, by kind."""
        super().__init__()
        self.itself = embedding(itself) if itself else None
        known = EMBEDDING if itself else 0
        self.embeddings = nn.ModuleList(embedding(known + size) for size in sizes)
        self.queries_keys_values = linear(EMBEDDING, 3 * EMBEDDING, 0.125)
        self.out = linear(EMBEDDING, EMBEDDING, 0.125)

    def forward(self, encoding: Tensor, entities: Sequence[Tensor]) -> Tensor:
        """Maps the other observations' encoding (N, itself) and each kind's entities (N, most, size) to (N, 128)."""
        absent = torch.cat([is_nothing(kind) for kind in entities], 1)
        embedded = functional.layer_norm(self._embedded(encoding, entities), (EMBEDDING,))
        query, key, value = heads(self.queries_keys_values(embedded))
        bias = absent[:, None, None, :] * FORBIDDEN
        attended = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, scale=1 / math.sqrt(EMBEDDING)
        )
        attended = attended.transpose(1, 2).flatten(2)
        rows = functional.layer_norm(self.out(attended) + embedded, (EMBEDDING,))
        present = (~absent).to(rows.dtype)
        # a product with the rows sums those that are present
        total = torch.bmm(present.unsqueeze(1), rows).squeeze(1)
        return total / (present.sum(1, keepdim=True) + 1e-7)

    def _embedded(self, encoding: Tensor, entities: Sequence[Tensor]) -> Tensor:
        """Returns embeddings (N, entities of all kinds, 128)."""
        if self.itself is None:
            return torch.cat(
                [functional.silu(layer(kind)) for layer, kind in zip(self.embeddings, entities, strict=True)], 1
            )
        itself = functional.silu(self.itself(encoding))
        parts = []
        for layer, kind in zip(self.embeddings, entities, strict=True):
            assert isinstance(layer, nn.Linear)
            # the layer of [itself, entity], with itself's part worked out once instead of for each entity
            about_itself = functional.linear(itself, layer.weight[:, :EMBEDDING], layer.bias).unsqueeze(1)
            parts.append(functional.silu(about_itself + functional.linear(kind, layer.weight[:, EMBEDDING:])))
        return torch.cat(parts, 1)


def is_nothing(entities: Tensor) -> Tensor:
    """Returns which rows are padding, (N, most) bool, from (N, most, size)."""
    return entities.square().sum(2) < NOTHING


def seen(entities: Tensor) -> Tensor:
    """Returns entities (N, most, size) without the columns that are padding in all rows; keeps at least one column.

    Only on the CPU: on an accelerator this would wait for the device.
    """
    if entities.device.type != "cpu" or not len(entities):
        return entities
    places = (~is_nothing(entities)).any(0).nonzero().squeeze(1)
    return (
        entities
        if len(places) == entities.shape[1]
        else entities.index_select(1, places if len(places) else places.new_zeros(1))
    )


def heads(x: Tensor) -> tuple[Tensor, ...]:
    """Splits queries, keys and values side by side, (N, M, 3 * 128), into each of them, (N, heads, M, 128 / heads)."""
    return x.view(*x.shape[:2], 3, HEADS, EMBEDDING // HEADS).permute(2, 0, 3, 1, 4).unbind(0)


def embedding(inputs: int) -> nn.Linear:
    """Returns the embedding layer, whose weights have a variance of 0.125 / 128 for any number of inputs, as in
    ML-Agents.

    The size of the weights does not matter to the layer norm that follows, but the smaller they are, the sooner steps
    of Adam turn them.
    """
    return linear(inputs, EMBEDDING, 0.125 * inputs / EMBEDDING)


def linear(inputs: int, outputs: int, variance: float = 1.0, layer: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """Returns a layer with normal weights of variance `variance / inputs`, and zero bias."""
    made = layer(inputs, outputs)
    nn.init.normal_(made.weight, std=math.sqrt(variance / inputs))
    nn.init.zeros_(made.bias)
    return made
