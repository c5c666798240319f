"""How much arithmetic a network is, by which its share of the machine is chosen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palaestra.models.actor_critic import ActorCritic
from palaestra.models.memory import Memory
from palaestra.models.mlp import StackedMLP
from palaestra.models.policy import Actor
from palaestra.models.trunk import Trunk


@torch.no_grad()
def multiplications(network: Trunk) -> int:
    """Multiplications in one pass of one row through actor and critics; of attention, only its layers."""
    sized = [module for module in network.modules() if isinstance(module, StackedMLP | Memory)]
    total = sum(weight.numel() for module in sized for weight in module.parameters() if weight.dim() > 1 and weight.shape[-2] > 1)

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        weight = layer.weight
        assert isinstance(weight, Tensor)
        total += out.numel() * weight[0].numel()

    hooks = [layer.register_forward_hook(count) for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    device = next(network.parameters()).device
    # ones: an entity of zeros would count as none
    inputs = network.prepare(tuple(torch.ones((1, *obs.shape), device=device) for obs in network.spec.obs))
    memory = torch.zeros((1, network.memory_size), device=device)
    actor: Actor = network  # type: ignore[assignment]
    actor.decide(inputs, memory)
    if isinstance(network, ActorCritic):
        network.value_with(inputs, memory)
    for hook in hooks:
        hook.remove()
    return total
