"""How far a built-in environment is Unity's example of the same name: `palaestra envs NAME --unity` and the documentation show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelScore:
    """What a model that Unity trained in its own example reaches here, its actions sampled as in Unity."""

    model: str
    """Its file among the examples of ML-Agents, such as 3DBall.onnx."""
    score: float
    """Mean reward of an episode, of a group if it is rewarded together; or what `of` says."""
    error: float
    """Standard error of the mean."""
    episodes: int
    stated: float | None
    """What Unity's documentation states; None if it states nothing."""
    of: str = "reward of an episode"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What an environment shares with Unity's example of its name. Each entry is a sentence without a full stop."""

    same: tuple[str, ...]
    """What is Unity's: to the digit, as far as floating point allows."""
    approximate: tuple[str, ...]
    """What differs, and by how much."""
    models: tuple[ModelScore, ...] = ()
