"""Brain `model`: a policy file of Palaestra or ML-Agents, or any other model with a file of its tensors' names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palaestra.brains.base import Brain, Choice, Role, Seen, widened
from palaestra.brains.model import Policy, load_policy, local_file
from palaestra.brains.observations import VECTORS
from palaestra.core.errors import PolicyError
from palaestra.core.specs import TRUTH, BehaviorSpec

NAMES = (".yaml", ".yml", ".json")


def make(role: Role) -> Brain:
    """Makes the brain for `FILE.onnx`, or for `FILE.onnx,NAMES.yaml` if the file's tensors have other names. Raises
    PolicyError."""
    file, names = split_names(role.argument)
    if not file:
        raise PolicyError(
            f"behavior '{role.behavior}': a model needs a file or a run, such as "
            f"model:results/first/{role.behavior}.onnx"
        )
    if names is None:
        return ModelBrain(load_policy(file, seed=role.seed), role.behavior, role.spec, deterministic=role.deterministic)
    from palaestra.brains.mapped import MappedModel  # imports YAML, which only these need

    return MappedModel(local_file(file), Path(names), role)


def split_names(argument: str) -> tuple[str, str | None]:
    """Splits an argument into the model's file and the file of its tensors' names, if there is one."""
    file, comma, names = argument.rpartition(",")
    return (file, names) if comma and names.endswith(NAMES) else (argument, None)


class ModelBrain:
    """Plays one behavior with a policy, and keeps the memory of a recurrent one."""

    def __init__(self, policy: Policy, behavior: str, spec: BehaviorSpec, *, deterministic: bool) -> None:
        """Raises PolicyError if the policy was made for other observations or actions."""
        self.policy = policy
        self._deterministic = deterministic
        self._inputs = arranged(policy, behavior, spec)
        self._factors = _factors(policy, spec, self._inputs)
        self.memory = np.zeros((0, policy.memory_size), np.float32)
        """Memory of each slot, (S, L)."""

    @property
    def rng(self) -> np.random.Generator:
        """Random generator for choices; the noise of continuous actions comes from inside the file."""
        return self.policy.rng

    def begin(self, slots: NDArray[np.int64]) -> None:
        """Sets the memory of these slots to zero."""
        self.memory = widened(self.memory, slots)
        self.memory[slots] = 0

    def decide(self, seen: Seen) -> Choice:
        """Returns actions; continuous ones are clipped to -1..1, which some files leave to the game."""
        policy = self.policy
        rows = len(seen.slots)
        self.memory = widened(self.memory, seen.slots)
        obs = [
            seen.obs[first] if not others else np.concatenate([seen.obs[i] for i in (first, *others)], 1)
            for first, *others in self._inputs
        ]
        obs = [one if factor == 1 else one * factor for one, factor in zip(obs, self._factors, strict=True)]
        memory = self.memory[seen.slots] if policy.memory_size else None
        action = policy.act(obs, seen.mask, deterministic=self._deterministic, memory=memory, rescale=False)
        if action.memory is not None:
            self.memory[seen.slots] = action.memory
        return Choice(
            np.zeros((rows, 0), np.float32) if action.continuous is None else action.continuous.clip(-1, 1),
            np.zeros((rows, 0), np.int64) if action.discrete is None else action.discrete,
        )


def arranged(policy: Policy, behavior: str, spec: BehaviorSpec) -> list[tuple[int, ...]]:
    """Returns which observations each input takes: one for each input, except that version 2 has one input for all
    vectors. A model gets the observations that its file names, for example not the observations for its critic; a file
    without names gets all, or all but the observation `truth`. Raises PolicyError."""
    names = [obs.name for obs in spec.obs]
    seen = list(range(len(names)))
    if len(policy.observations) < len(names) and {*policy.observations} <= {*names}:
        seen = [names.index(name) for name in policy.observations]
    action = spec.action
    for places in (seen, [i for i in seen if names[i].partition(".")[0] != TRUTH]):
        groups = _groups(policy, spec, places)
        shown = tuple(_joined(spec, group) for group in groups)
        if (shown, action.continuous, action.branches) == (policy.obs_shapes, policy.continuous_size, policy.branches):
            return groups
    shown = tuple(_joined(spec, group) for group in _groups(policy, spec, seen))
    raise PolicyError(
        f"{policy.path} was made for other agents than those of '{behavior}':\n"
        f"  the model:  {_terms(policy.obs_shapes, policy.continuous_size, policy.branches)}\n"
        f"  the agents: {_terms(shown, action.continuous, action.branches)}"
    )


def _groups(policy: Policy, spec: BehaviorSpec, places: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns the observations with these indices, joined for one input."""
    groups: list[tuple[int, ...]] = [(i,) for i in places]
    if VECTORS in policy.obs_names and (vectors := tuple(i for i in places if spec.obs[i].is_vector)):
        groups = [group for group in groups if group[0] not in vectors]
        groups.insert(policy.obs_names.index(VECTORS), vectors)
    return groups


def _factors(policy: Policy, spec: BehaviorSpec, groups: list[tuple[int, ...]]) -> list[np.float32]:
    """Returns the factor for each observation that gives it the scale of the policy's training.

    Another version of Palaestra, or of the environment, may have scaled an image by another number.
    """
    raws = [spec.obs[group[0]].raw if len(group) == 1 else None for group in groups]
    scales = policy.scales if len(policy.scales) == len(groups) else (None,) * len(groups)
    return [
        np.float32(1 if raw is None or scale is None else scale / raw.scale)
        for raw, scale in zip(raws, scales, strict=True)
    ]


def _joined(spec: BehaviorSpec, group: tuple[int, ...]) -> tuple[int, ...]:
    first, *others = group
    return (sum(spec.obs[i].shape[0] for i in group),) if others else spec.obs[first].shape


def _terms(obs: tuple[tuple[int, ...], ...], continuous: int, branches: tuple[int, ...]) -> str:
    """Returns observations and actions as text, such as 'sees 105 and 3; does 2 continuous, discrete 3 x 3'."""
    seen = " and ".join("x".join(map(str, shape)) for shape in obs) or "nothing"
    done = [f"{continuous} continuous"] if continuous else []
    done += [f"discrete {' x '.join(map(str, branches))}"] if branches else []
    return f"sees {seen}; does {', '.join(done) or 'nothing'}"
