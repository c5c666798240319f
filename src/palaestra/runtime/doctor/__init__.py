"""Finds what is wrong with a game or another environment before training.

`stages` follows a game to its first decision; `meters` collects statistics while random actions are played; `findings`
lists problems and advice; `examination` combines them; `time_scales` compares a game at several time scales.
"""

from palaestra.runtime.doctor.examination import Examination, Limit, examine
from palaestra.runtime.doctor.findings import Finding
from palaestra.runtime.doctor.stages import CheckStage, Visitor
from palaestra.runtime.doctor.time_scales import ScaleComparison, compare

__all__ = ["CheckStage", "Examination", "Finding", "Limit", "ScaleComparison", "Visitor", "compare", "examine"]
