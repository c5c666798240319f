"""How much arithmetic a network is, by which its share of the machine is chosen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palaestra.models.actor_critic import ActorCritic


@torch.no_grad()
def multiplications(network: ActorCritic) -> int:
    """Multiplications in one pass of one row through actor and critic; of attention, only its layers."""
    stacked = [] if network.apart else list(network.body.weights)
    recurrent = [] if network.memory is None else [weight for weight in network.memory.parameters() if weight.dim() == 2]
    total = sum(weight.numel() for weight in (*stacked, *recurrent))

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        weight = layer.weight
        assert isinstance(weight, Tensor)
        total += out.numel() * weight[0].numel()

    hooks = [layer.register_forward_hook(count) for layer in network.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    device = network.log_std.device
    # ones: an entity of zeros would count as none
    inputs = network.prepare(tuple(torch.ones((1, *obs.shape), device=device) for obs in network.spec.obs))
    memory = torch.zeros((1, network.memory_size), device=device)
    network.decide(inputs, memory)
    network.value_with(inputs, memory)
    for hook in hooks:
        hook.remove()
    return total
