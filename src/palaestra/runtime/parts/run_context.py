"""The things that the parts of a run share."""

from __future__ import annotations

from dataclasses import dataclass, field

from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.logging.console import Console
from palaestra.runtime.parts.journal import Journal
from palaestra.runtime.settings import RunSettings
from palaestra.runtime.storage.run_folder import RunFolder
from palaestra.runtime.storage.status import TrainingStatus


@dataclass(frozen=True)
class RunContext:
    """The things that the parts of a run share."""

    settings: RunSettings
    folder: RunFolder
    env: EnvWrapper
    journal: Journal
    console: Console
    group: RankGroup
    status: TrainingStatus
    """The list of models, with lessons, ratings and the ends of behaviors."""
    one_of_several: bool = False
    """Whether this run is one of several seeds, which have a common summary."""
    learners: dict[str, Learner] = field(default_factory=dict)
    """Learners by behavior, in the order in which the behaviors appeared."""

    @property
    def inference(self) -> bool:
        """Whether the run only plays."""
        return self.settings.checkpoint_settings.inference
