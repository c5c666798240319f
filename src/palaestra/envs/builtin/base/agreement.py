"""How far a built-in environment is Unity's example of the same name: `palaestra envs NAME --unity` and the documentation show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelScore:
    """The result here of a model that Unity trained in its own example, its actions sampled as in Unity."""

    model: str
    """File among the examples of ML-Agents, such as 3DBall.onnx."""
    score: float
    """Mean of the quantity `of`."""
    error: float
    """Standard error of the mean."""
    episodes: int
    stated: float | None
    """Figure in Unity's documentation; None if there is none."""
    of: str = "reward of an episode"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Comparison of an environment with Unity's example of its name. Each entry is a sentence without a full stop."""

    same: tuple[str, ...]
    """Facts that are Unity's: to the digit, as far as floating point allows."""
    approximate: tuple[str, ...]
    """Facts that differ, and by how much."""
    models: tuple[ModelScore, ...] = ()
