"""Every encoder, kind of observation, kind of action, with memory and without: trained, resumed, exported, and the same
in onnxruntime.

The fast suite takes each of these at least once; with `-m slow` come all that are left.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from any_env import Anything
from small_runs import differences, settings, state

import palaestra
from palaestra.core.specs import ActionSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.models.actor_critic import ActorCritic
from palaestra.models.distributions import branch_log_probs, for_environment
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.storage.networks import load_networks

SMALLEST = {"simple": 20, "nature_cnn": 36, "resnet": 15, "match3": 5, "fully_connected": 4}
ACTIONS = {"continuous": ActionSpec(2), "discrete": ActionSpec(branches=(3, 2)), "hybrid": ActionSpec(1, (4,))}
MEMORIES = {"no memory": None, "memory": {"sequence_length": 4, "memory_size": 8}}
VECTOR = ObsSpec("vector", (5,))
GOAL = ObsSpec("goal", (3,), goal=True)
TILES = ObsSpec("tiles", (4, 3))
FOES = ObsSpec("foes", (2, 5))


def images(encoder: str) -> dict[str, tuple[ObsSpec, ...]]:
    side = SMALLEST[encoder]
    image = ObsSpec("image", (3, side, side + 4))
    other = ObsSpec("other", (1, side + 1, side))
    return {
        "image": (image,),
        "images, vector": (image, VECTOR, other),
        "image, goal": (image, GOAL),
        "image, entities": (image, TILES),
    }


BLIND = {
    "vector": (VECTOR,),
    "vector, goal": (VECTOR, GOAL),
    "entities": (TILES,),
    "vector, goal, two kinds of entities": (VECTOR, TILES, GOAL, FOES),
}
SEEN = {("simple", name): obs for name, obs in BLIND.items()} | {
    (e, name): obs for e in SMALLEST for name, obs in images(e).items()
}
CELLS = [(*seen, action, memory) for seen, action, memory in itertools.product(SEEN, ACTIONS, MEMORIES)]


def few(cells: list[tuple[str, ...]], pairs: Callable[[tuple[str, ...]], set[object]]) -> set[tuple[str, ...]]:
    """Returns cells in which everything that `pairs` names of any cell occurs."""
    missing = set().union(*map(pairs, cells))
    chosen = set[tuple[str, ...]]()
    while missing:
        best = max(cells, key=lambda cell: len(pairs(cell) & missing))
        missing -= pairs(best)
        chosen.add(best)
    return chosen


FEW = few(CELLS, lambda cell: set(enumerate(cell)))
"""Every encoder, observation and action, memory and none: test_cells.py has all kinds of these with every trainer."""
PARAMETERS = [
    pytest.param(*cell, id=", ".join(cell), marks=[] if cell in FEW else [pytest.mark.slow]) for cell in CELLS
]


def tree(encoder: str, memory: str, max_steps: int) -> dict[str, Any]:
    network = {
        "hidden_units": 16,
        "num_layers": 1,
        "normalize": True,
        "vis_encode_type": encoder,
        "memory": MEMORIES[memory],
    }
    hyper = {"batch_size": 32, "buffer_size": 96, "num_epoch": 2}
    return settings("Any", max_steps, network_settings=network, hyperparameters=hyper, summary_freq=96)


@pytest.mark.few(5)
@pytest.mark.parametrize(("encoder", "seen", "action", "memory"), PARAMETERS)
def test_a_cell_learns_goes_on_and_leaves_a_model_that_answers_alike(
    encoder: str, seen: str, action: str, memory: str, tmp_path: Path
):
    def train(name: str, until: int | None = None, **more: Any) -> palaestra.Result:
        steady = (list(SEEN).index((encoder, seen)) + list(ACTIONS).index(action)) % 2 == 0
        env = Anything(SEEN[encoder, seen], ACTIONS[action], steady=steady)
        stop: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
        given = {"callbacks": stop, "results_dir": str(tmp_path), "run_id": name, "seed": 3, "quiet": True, **more}
        return palaestra.train(tree(encoder, memory, 4 * 96), env=env, **given)

    whole = train("whole")
    assert not train("parts", until=2 * 96).finished
    resumed = train("parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    network, spec = load_networks(whole.folder)["Any"]
    assert isinstance(network, ActorCritic)
    answers_alike(network, Anything(spec.obs, spec.action, areas=5), whole.models["Any"])


@torch.no_grad()
def answers_alike(network: ActorCritic, env: Anything, path: Path) -> None:
    """200 decisions of 5 agents, each going on from its own memory; entities come and go, none to all of them."""
    policy = palaestra.load_policy(path)
    step = env.reset(1)["Any"]
    mine = torch.zeros(env.num_areas, network.memory_size)
    theirs = None
    counts = set()
    for _ in range(200 if network.memory_size else 20):
        output, mine = network.decide(network.prepare(step.obs), mine)
        answer = policy.act(
            [x.numpy() for x in step.obs],
            None if step.action_mask is None else step.action_mask.numpy(),
            deterministic=True,
            memory=theirs,
        )
        theirs = answer.memory
        if env.spec.action.continuous:
            expected = for_environment(Action(output[:, : env.spec.action.continuous], output.new_empty(0))).continuous
            np.testing.assert_allclose(answer.continuous, expected.numpy(), rtol=0, atol=1e-4)
        for branch, log_probs in enumerate(branch_log_probs(output, step.action_mask, env.spec.action)):
            taken = torch.from_numpy(answer.discrete[:, branch : branch + 1])
            assert (log_probs.exp().amax(1, keepdim=True) - log_probs.exp().gather(1, taken)).abs().max() < 1e-4
        if network.memory is not None:
            np.testing.assert_allclose(theirs, network.memory.own(0, mine).numpy(), rtol=0, atol=1e-4)
        counts |= {
            int(n) for i, obs in enumerate(env.spec.obs) if obs.name == "tiles" for n in step.obs[i].any(2).sum(1)
        }
        step = env.step(
            {
                "Any": Action(
                    torch.zeros(env.num_areas, env.spec.action.continuous),
                    torch.zeros(env.num_areas, len(env.spec.action.branches)),
                )
            }
        )["Any"]
    assert not counts or counts == {0, 1, 2, 3, 4}
