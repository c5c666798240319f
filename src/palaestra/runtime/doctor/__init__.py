"""What is wrong with a game, or with any environment, before it is trained with.

`stages` follows a game on its way to the first decision; `meters` measures while random actions are played;
`findings` says what is odd about it and what to do; `examination` joins them, and `time_scales` compares several.
"""

from palaestra.runtime.doctor.examination import Examination, Limit, examine
from palaestra.runtime.doctor.findings import Finding
from palaestra.runtime.doctor.stages import CheckStage, Visitor
from palaestra.runtime.doctor.time_scales import Comparison, compare

__all__ = ["CheckStage", "Comparison", "Examination", "Finding", "Limit", "Visitor", "compare", "examine"]
