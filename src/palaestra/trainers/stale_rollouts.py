"""Corrects on-policy updates for rollouts that an older policy has collected (`threaded: true`).

The clipped ratio must limit the change of the policy in one update. If the ratio were taken to the policy that
collected the rollout, most of the clip range would be used up before the update begins. So the ratio is taken to the
policy at the update's start, and each decision is weighted by the ratio of its probability under that policy to its
probability under the policy that collected it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.timestep import Action
from palaestra.data.rollout import Minibatch, Rollout
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import log_prob_and_entropy
from palaestra.models.trunk import Inputs

MOST_WEIGHT = 1.0
"""Largest importance weight of a decision: Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, section 4.1."""
WEIGHT = "Policy/Importance Weight"


@torch.no_grad()
def corrected(rows: Minibatch, output: Tensor, network: ActorCritic) -> tuple[Minibatch, Tensor]:
    """Returns the rows with the log-probabilities of the policy that starts the update and weighted advantages, and the
    weights, (N,).

    Hilton et al. 2021, https://arxiv.org/abs/2110.00641, eq. 4: the decoupled objective, whose proximal policy is the
    current network. `output` (N, outputs) is the actor's output for each row.
    """
    sample = Action(rows.continuous, rows.discrete)
    log_prob, _ = log_prob_and_entropy(output, network.log_std, rows.mask, sample, network.spec.action)
    weight = importance_weights(log_prob, rows.log_prob)
    return replace(rows, log_prob=log_prob, advantage=rows.advantage * weight), weight


def importance_weights(log_prob: Tensor, collected: Tensor) -> Tensor:
    """Returns ratios of the probabilities of whole actions, (N,), at most MOST_WEIGHT. Both arguments are (N, A):
    log-probabilities now, and when the rollout was collected."""
    return (log_prob - collected).sum(1).exp().clamp(max=MOST_WEIGHT)


def every_output(network: ActorCritic, inputs: Inputs, size: int) -> Tensor:
    """Returns the output (N, outputs) of an actor without memory for inputs (N, ...), `size` rows at a time."""
    every = torch.arange(len(inputs[0]), device=inputs[0].device)
    return actor_outputs(network, inputs, ((part, None) for part in every.split(size)))


@torch.no_grad()
def actor_outputs(network: ActorCritic, inputs: Inputs, parts: Iterable[tuple[Tensor, Sequences | None]]) -> Tensor:
    """Returns the actor's output (N, outputs) for inputs (N, ...), evaluated part by part: rows and their sequences."""
    whole: Tensor | None = None
    for rows, sequences in parts:
        output = network.outputs(tuple(x.index_select(0, rows) for x in inputs), sequences)
        whole = output.new_zeros((len(inputs[0]), output.shape[1])) if whole is None else whole
        whole[rows] = output
    assert whole is not None
    return whole


@torch.no_grad()
def log_ratio(rollout: Rollout, output: Tensor, network: ActorCritic) -> Tensor:
    """Returns the change of each action component's log-probability since it was drawn, (T, S, A), from the actor's
    current `output` for the completed decisions, (N, outputs)."""
    sample = rollout.sample.each(rollout.completed)
    mask = None if rollout.action_mask is None else rollout.completed(rollout.action_mask)
    log_prob, _ = log_prob_and_entropy(output, network.log_std, mask, sample, network.spec.action)
    return rollout.spread(log_prob - rollout.completed(rollout.log_prob))
