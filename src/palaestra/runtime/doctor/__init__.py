"""What is wrong with a game, or with any environment, before it is trained with.

`stages` follows a game on its way to the first decision; `meters` measures while random actions are played;
`findings` says what is odd about it and what to do; `examination` joins them.
"""

from palaestra.runtime.doctor.examination import Examination, Limit, examine
from palaestra.runtime.doctor.findings import Finding
from palaestra.runtime.doctor.stages import Stage, Visitor

__all__ = ["Examination", "Finding", "Limit", "Stage", "Visitor", "examine"]
