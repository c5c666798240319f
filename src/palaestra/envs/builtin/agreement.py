"""How far built-in environments agree with Unity's examples of the same names, from `agreement.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

NEAR = 0.95
"""Share of Unity's figure from which a result counts as Unity's."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """The result, in Palaestra's environment, of a model that Unity trained in its own example; actions are sampled as
    in Unity."""

    model: str
    """Model file from the examples of ML-Agents, such as 3DBall.onnx."""
    score: float
    """Mean of the number that `of` names."""
    error: float | None
    """Standard error of the mean; None if it is not known."""
    episodes: int | None
    """Episodes of the mean; None if their number is not known."""
    stated: float | None
    """Figure in Unity's documentation; None if there is none."""
    of: str = "reward of an episode"


@dataclass(frozen=True, slots=True)
class Learned:
    """Result of a training in Palaestra's environment with ML-Agents' own settings file for the example, unchanged."""

    settings: str
    """Settings file of ML-Agents, such as ppo/Worm.yaml."""
    decisions: float
    """Millions of agents' decisions until `reward` was reached; of several seeds, the most."""
    planned: float
    """Millions of decisions that the settings file asks for; a run with fewer was stopped."""
    reward: float
    """Mean reward of an episode in training at that time; of several seeds, the least."""
    stated: float | None
    """Figure in Unity's documentation; None if there is none."""
    seeds: int = 1
    behavior: str = ""
    """The behavior that these numbers are about, if the environment has several."""
    measure: str = ""
    """Name of the measured number if it is not the mean reward of an episode in training, such as the rating of
    self-play."""
    remark: str = ""
    """Further words that belong to the number."""

    @property
    def status(self) -> str:
        """Whether the task was solved, by Unity's figure; empty if the run was finished and Unity gives no figure."""
        if self.stated is not None and self.reward >= NEAR * self.stated:
            return "solved"
        if self.decisions < self.planned:
            return "not finished"
        return "" if self.stated is None else "not solved"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Comparison of an environment with Unity's example of its name. Each entry is a sentence without a full stop."""

    same: tuple[str, ...]
    """Facts that equal Unity's, up to rounding."""
    approximate: tuple[str, ...]
    """Facts that differ from Unity's, and by how much."""
    models: tuple[ModelScore, ...] = ()
    learned: tuple[Learned, ...] = ()

    @property
    def falls_short(self) -> bool:
        """Whether one of Unity's models earns less in this environment than Unity states."""
        return any(score.stated is not None and score.score < NEAR * score.stated for score in self.models)


@cache
def agreements() -> dict[str, Agreement]:
    """Returns the agreement of each built-in environment that Unity's examples have too, by name."""
    tree = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {
        name: Agreement(
            tuple(entry["same"]),
            tuple(entry["approximate"]),
            tuple(ModelScore(**each) for each in entry.get("models", ())),
            tuple(Learned(**each) for each in entry.get("learned", ())),
        )
        for name, entry in tree.items()
    }
