"""Recurrent memory: an LSTM between a body and its heads. Hochreiter and Schmidhuber 1997,
https://doi.org/10.1162/neco.1997.9.8.1735.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palaestra.core.row_index import Sequences

FORGET_BIAS = 2.0
"""Initial bias of the forget gate (Jozefowicz et al. 2015, https://proceedings.mlr.press/v37/jozefowicz15.html, section
2.2). The sum is 2, as in ML-Agents (1 in each of torch's two vectors): with 2 a bit kept for 50 decisions is learned
with every seed, with 1 it is not."""


class LSTMLayer(nn.Module):
    """An LSTM for each of k bodies.

    A row of memory is (k * size,): for each body its hidden state, then its cell state, each of `size` / 2 numbers; the
    actor's come first, in Unity's order.
    """

    def __init__(self, networks: int, inputs: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.outputs = size // 2
        self.lstms = nn.ModuleList(nn.LSTM(inputs, self.outputs) for _ in range(networks))
        for lstm in self.lstms:
            assert isinstance(lstm, nn.LSTM)
            start(lstm)

    def step(self, index: int, features: Tensor, recurrent_state: Tensor) -> tuple[Tensor, Tensor]:
        """Runs one network for one decision: maps features (N, inputs) and state (N, size) to (N, size / 2) and the
        next state."""
        hidden, cell = recurrent_state.chunk(2, 1)
        hidden, cell = torch.lstm_cell(features, (hidden, cell), *weights(self.lstm(index)))
        return hidden, torch.cat([hidden, cell], 1)

    def unroll(self, index: int, features: Tensor, sequences: Sequences) -> Tensor:
        """Runs one network along each sequence: maps features (N, inputs) of its rows to (N, size / 2)."""
        if not len(features):  # torch refuses a sequence without steps
            return self.step(index, features, features.new_zeros(0, self.size))[0]
        count = len(sequences.recurrent_state)
        hidden, cell = self.own(index, sequences.recurrent_state).unsqueeze(0).chunk(2, 2)
        cells = sequences.steps * count
        if cells == len(features):  # nothing is padded: the rows are the grid
            grid = features
        else:
            grid = features.new_zeros(cells, features.shape[1]).index_copy(0, sequences.place, features)
        out, _ = self.lstm(index)(grid.view(sequences.steps, count, -1), (hidden.contiguous(), cell.contiguous()))
        out = out.flatten(0, 1)
        return out if cells == len(features) else out.index_select(0, sequences.place)

    def own(self, index: int, recurrent_state: Tensor) -> Tensor:
        """Returns one network's part of the recurrent state: maps (N, k * size) to (N, size). Index -1: the last's."""
        at = index % len(self.lstms) * self.size
        return recurrent_state[:, at : at + self.size]

    def lstm(self, index: int) -> nn.LSTM:
        """Returns one network's LSTM."""
        lstm = self.lstms[index]
        assert isinstance(lstm, nn.LSTM)
        return lstm


@torch.no_grad()
def start(lstm: nn.LSTM) -> None:
    """Sets Xavier weights for each gate, and zero biases except for the forget gate. Glorot and Bengio 2010, eq. 16."""
    *products, bias, other = weights(lstm)
    for weight in products:
        for gate in weight.chunk(4):
            nn.init.xavier_uniform_(gate)
    bias.zero_()
    other.zero_()
    bias.chunk(4)[1].fill_(FORGET_BIAS)


def weights(lstm: nn.LSTM) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the weights of the input, the weights of the state, and the biases; in each the gates are in the order
    input, forget, cell, output."""
    first, second, third, fourth = lstm.parameters()
    return first, second, third, fourth
