"""Repairs headers of old demonstration files from their records: the timing and the sizes of actions."""

from __future__ import annotations

from typing import Any

import numpy as np

from palaestra.demos.format import ReadTiming
from palaestra.demos.record_columns import stored_numbers
from palaestra.demos.record_file import RecordFile

_MAX_CHOICES = 0x7FFFFFFF  # largest number of the message's field; the reader refuses as many


def timing_of(brain: bytes, parsed: Any) -> ReadTiming:
    """An old file lacks both team and `action_spec`; of these, only a converted file has the two oldest fields."""
    if "?" in parsed.brain_name or parsed.HasField("action_spec"):
        return ReadTiming.NEXT
    return ReadTiming.OWN_RESTARTED if brain[:1] in (b"\x08", b"\x10") else ReadTiming.NEXT_RESTARTED


def infer_action(file: RecordFile, records: int, brain: Any, warnings: list[str]) -> None:
    """Infers a missing action spec, as in files of Unity's Match-3 actuator, from the records."""
    spec = brain.action_spec
    if spec.num_continuous_actions or spec.num_discrete_actions or brain.vector_action_size_deprecated:
        return
    actions = 0
    masks = set()
    most = np.zeros(0, np.int64)
    for pair in file.parsed(records):
        actions = max(actions, len(pair.action_info.continuous_actions))
        masks.add(len(pair.agent_info.action_mask))
        discrete = np.array(pair.action_info.discrete_actions, np.int64)
        most = np.maximum(most, discrete) if len(discrete) == len(most) else discrete if len(most) == 0 else most
    branches = np.clip(most + 1, 1, _MAX_CHOICES).tolist()
    if len(branches) == 1 and max(masks, default=0) >= branches[0]:
        branches = [max(masks)]
    spec.num_continuous_actions = actions
    spec.num_discrete_actions = len(branches)
    spec.discrete_branch_sizes.extend(branches)
    warnings.append(
        f"{file.path} does not say what actions '{brain.brain_name}' has; its records have {actions} continuous, "
        f"branches {branches}"
    )


def correct_action(file: RecordFile, records: int, brain: Any, warnings: list[str]) -> None:
    """Takes the number of continuous actions from the records if the header has another number.

    Before ML-Agents 1.0 a heuristic returned an array of its own, and the recorder stored all numbers of this array.
    """
    spec = brain.action_spec
    old = brain.vector_action_size_deprecated
    if spec.num_discrete_actions or not (spec.num_continuous_actions or brain.vector_action_space_type_deprecated):
        return
    said = spec.num_continuous_actions or (old[0] if old else 0)
    stored = (stored_numbers(pair.action_info) for pair in file.parsed(records))
    counts = (len(numbers) for numbers in stored if any(numbers))  # an episode's first record stores zeros
    came = next(counts, said)
    if came == said or any(count != came for count in counts):
        return  # numbers of several counts are an error of the record that is read
    spec.num_continuous_actions = came
    warnings.append(
        f"{file.path}: its header says {said} continuous actions, but its records hold {came}, as a heuristic of "
        f"ML-Agents before 1.0 may have returned; they are read as {came}. To use it with a behavior of {said}, record "
        f"it again with a heuristic that returns {said}"
    )
