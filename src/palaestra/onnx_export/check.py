"""Comparison of an exported file with its network: onnxruntime against torch, on random observations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from palaestra.core.errors import ExportError
from palaestra.core.onnx_models.onnx_policy import PROBABILITIES
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.models.actor_critic import ACTOR
from palaestra.models.policy import Actor
from palaestra.models.trunk import Trunk

if TYPE_CHECKING:
    import onnxruntime

TOLERANCE = 1e-4
DECISIONS = 20
PART = 250
"""Rows that are checked at a time: a thousand large images would take hundreds of megabytes."""

Answer = dict[str, np.ndarray]


def compare(network: Trunk, spec: BehaviorSpec, path: Path, rows: int = 1000, seed: int = 0) -> float:
    """Returns the largest difference between file and network: of deterministic continuous actions and of choices'
    probabilities.

    Masks are random too, with a choice left in each branch. Raises ExportError if the difference exceeds 1e-4, if
    another choice is the likeliest by more than that, or if a sample lies outside its range or on a forbidden choice.
    With memory, each agent makes `DECISIONS` of the rows' decisions in sequence, and the memories of file and network
    are compared too.
    """
    reference = copy.deepcopy(network).cpu()
    session = _open(path, spec)
    rng = torch.Generator().manual_seed(seed)
    inputs = [f"obs_{i}" for i in range(len(spec.obs))]
    for_unity = inputs[-1] in {one.name for one in session.get_inputs()}
    read = inputs if network.shown is None or not for_unity else [inputs[i] for i in network.shown]
    unread = {name: one.shape for name, one in zip(inputs, spec.obs, strict=True) if for_unity and name not in read}
    spec = spec if network.shown is None else network.spec
    worst = 0.0
    decisions = DECISIONS if reference.memory_size else 1
    agents = -(-rows // decisions)
    for start in range(0, agents, PART):
        count = min(PART, agents - start)
        mine = torch.zeros(count, reference.memory_size)
        theirs = None
        for _ in range(decisions):
            obs, mask = _situations(reference, spec, count, rng)
            feeds = dict(zip(read, obs, strict=False))
            feeds |= {name: torch.randn((count, *shape), generator=rng) for name, shape in unread.items()}
            answer = _run(session, feeds, mask, _zeros(reference, count) if theirs is None else theirs)
            difference, mine = _difference(reference, (obs, mask, mine), answer, path)
            worst = max(worst, difference)
            theirs = answer.get("recurrent_out")
            _check_samples(spec.action, mask, answer, path)
    return worst


def _zeros(network: Trunk, rows: int) -> np.ndarray | None:
    return None if network.memory is None else np.zeros((rows, 1, network.memory.size), np.float32)


def _open(path: Path, spec: BehaviorSpec) -> onnxruntime.InferenceSession:
    import onnx
    import onnxruntime

    model = onnx.load(str(path))
    for i in range(len(spec.action.branches)):
        model.graph.output.append(onnx.helper.make_empty_tensor_value_info(f"{PROBABILITIES}{i}"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _situations(
    network: Trunk, spec: BehaviorSpec, rows: int, rng: torch.Generator
) -> tuple[tuple[Tensor, ...], Tensor | None]:
    """Draws observations as the normalizer has seen them, images within 0..1, any number of entities, a mask."""
    obs = [
        torch.rand((rows, *o.shape), generator=rng) if o.is_visual else torch.randn((rows, *o.shape), generator=rng)
        for o in spec.obs
    ]
    for i in network.entities:
        most = spec.obs[i].shape[0]
        obs[i] *= (torch.randint(most + 1, (rows, 1), generator=rng) > torch.arange(most)).unsqueeze(2)
    if network.normalizer is not None:
        vectors = torch.cat([obs[i] for i in network.vectors], 1) / network.normalizer.scale + network.normalizer.shift
        parts = vectors.split([spec.obs[i].shape[0] for i in network.vectors], 1)
        for i, part in zip(network.vectors, parts, strict=True):
            obs[i] = part
    if not spec.action.branches:
        return tuple(obs), None
    mask = torch.rand((rows, spec.action.choices), generator=rng) < 0.5
    at = 0
    for size in spec.action.branches:
        left = at + torch.randint(size, (rows, 1), generator=rng)
        mask.scatter_(1, left, True)
        at += size
    return tuple(obs), mask


def _run(
    session: onnxruntime.InferenceSession, obs: dict[str, Tensor], mask: Tensor | None, memory: np.ndarray | None
) -> Answer:
    feeds = {name: one.numpy() for name, one in obs.items()}
    if memory is not None:
        feeds["recurrent_in"] = memory
    if mask is not None:
        feeds["action_masks"] = mask.float().numpy()
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, feeds)), strict=True))


@torch.no_grad()
def _difference(
    network: Trunk, situation: tuple[tuple[Tensor, ...], Tensor | None, Tensor], answer: Answer, path: Path
) -> tuple[float, Tensor]:
    """Returns the largest difference, and the memory (N, L) after. `situation`: observations, mask, memory."""
    obs, mask, memory = situation
    spec = network.spec.action
    gaps = [0.0]
    actor: Actor = network  # type: ignore[assignment]
    output, memory = actor.decide(network.prepare(obs), memory)
    sample, branches = actor.draw(output, mask, torch.Generator(), True)
    if network.memory is not None:
        gaps.append(np.abs(network.memory.own(ACTOR, memory).numpy() - answer["recurrent_out"][:, 0]).max().item())
    if spec.continuous:
        expected = actor.for_environment(sample).continuous
        gaps.append(np.abs(expected.numpy() - answer["deterministic_continuous_actions"]).max().item())
    for i, log_probs in enumerate(branches):
        chances = log_probs.exp().numpy()
        gaps.append(np.abs(chances - answer[f"{PROBABILITIES}{i}"]).max().item())
        taken = answer["deterministic_discrete_actions"][:, i : i + 1]
        gaps.append((chances.max(1, keepdims=True) - np.take_along_axis(chances, taken, 1)).max().item())
    worst = float(np.max(gaps))  # unlike `max`, never hides a NaN
    if not worst <= TOLERANCE:
        raise ExportError(
            f"{path} differs from its network by {worst:.2g} (at most {TOLERANCE} is expected); it should not be used"
        )
    return worst, memory


def _check_samples(spec: ActionSpec, mask: Tensor | None, answer: Answer, path: Path) -> None:
    if spec.continuous and not (np.abs(answer["continuous_actions"]) <= 1 + 1e-6).all():
        raise ExportError(f"{path} gives continuous actions beyond -1..1; it should not be used")
    if mask is None:
        return
    firsts = np.cumsum((0, *spec.branches[:-1]))
    if not np.take_along_axis(mask.numpy(), answer["discrete_actions"] + firsts, 1).all():
        raise ExportError(f"{path} takes choices that its action mask forbids; it should not be used")
