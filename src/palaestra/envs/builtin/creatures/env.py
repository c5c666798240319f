"""Base class of the creatures' environments."""

from __future__ import annotations

from typing import ClassVar

import torch

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.builtin.base.env import Program, WarpEnv
from palaestra.envs.builtin.base.world_columns import Rows, resolve
from palaestra.envs.builtin.creatures.anatomy import Creature
from palaestra.envs.builtin.creatures.assembly import make_anatomy, make_scratch
from palaestra.envs.builtin.creatures.drawing import draw_creature
from palaestra.envs.builtin.creatures.rules import MOST_TICKS, TICKS
from palaestra.envs.builtin.creatures.solver import TICK
from palaestra.envs.solids import Drawing


class CreatureEnv(WarpEnv):
    """One creature in each area."""

    creature: ClassVar[Creature]
    program: ClassVar[Program]
    sensors: ClassVar[dict[str, int]]
    """Size of each observation, by its sensor's name."""
    default_areas = 10
    most_decisions = int(MOST_TICKS) // int(TICKS)
    tick_seconds = float(TICKS) * float(TICK)
    parameter_ranges: ClassVar = {}

    def __init__(self, areas: int | None = None, device: str | torch.device = "cpu") -> None:
        creature = self.creature
        where = str(resolve(device))
        parts, joints = len(creature.parts), len(creature.jointed)
        actions = len(creature.targets) + len(creature.strengths)
        spec = BehaviorSpec(
            tuple(ObsSpec(name, (size,)) for name, size in self.sensors.items()), ActionSpec(continuous=actions), steady=True
        )
        *more, size = self.sensors.values()
        of_parts = more[0] if more else 0
        count = self.default_areas if areas is None else areas
        wide = {"obs": size, "final_obs": size, "obs_parts": of_parts, "final_obs_parts": of_parts, "action": actions}
        per_part = dict.fromkeys(("position", "rotation", "velocity", "spin"), parts)
        super().__init__(
            self.program,
            spec,
            areas,
            device,
            anatomy=make_anatomy(creature, where),
            scratch=make_scratch(creature, count, where),
            target=joints,
            strength=joints,
            **wide,
            **per_part,
        )

    def _drawing(self, rows: Rows) -> Drawing:
        return draw_creature(rows, self.creature, self.behavior)
