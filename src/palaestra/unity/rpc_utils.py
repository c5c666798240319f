"""Functions that convert protocol messages to specs and steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import ProtocolError
from palaestra.unity.base_env import ActionSpec, BehaviorSpec, DecisionSteps, TerminalSteps
from palaestra.unity.exception import UnityNotFiniteException, UnityObservationException
from palaestra.unity.reading import TensorReader
from palaestra.wire.decode import AgentInfos
from palaestra.wire.images import SIGNATURE, Picture, picture_size, read_pictures
from palaestra.wire.readers import read_action

PNG_HEADER = SIGNATURE


def behavior_spec_from_proto(brain_param_proto: Any, agent_info: Any) -> BehaviorSpec:
    """Returns the spec of a BrainParametersProto and one AgentInfoProto. Raises UnityObservationException."""
    return TensorReader(
        brain_param_proto.brain_name, ActionSpec(*read_action(brain_param_proto)), _infos([agent_info])
    ).spec


def steps_from_proto(
    agent_info_list: Collection[Any], behavior_spec: BehaviorSpec
) -> tuple[DecisionSteps, TerminalSteps]:
    """Converts AgentInfoProtos to steps. Raises UnityObservationException and UnityNotFiniteException."""
    if not agent_info_list:
        return DecisionSteps.empty(behavior_spec), TerminalSteps.empty(behavior_spec)
    infos = _infos(agent_info_list)
    reader = TensorReader("", behavior_spec.action_spec, infos)
    expected = [spec.shape for spec in behavior_spec.observation_specs]
    came = [spec.shape for spec in reader.spec.observation_specs]
    if came != expected:
        raise UnityObservationException(
            f"agent {infos.id[0]}: received observations of shapes {came}; expected {expected}, as in its spec"
        )
    for what, numbers in (("rewards", infos.reward), ("group rewards", infos.group_reward)):
        if not np.isfinite(numbers).all():
            raise UnityNotFiniteException(
                f"the {what} {numbers.tolist()} are not all finite; agents {infos.id.tolist()}"
            )
    return reader.read(infos)


def process_pixels(
    image_bytes: bytes, expected_channels: int, mappings: Sequence[int] | None = None
) -> NDArray[np.float32]:
    """Decodes concatenated PNGs to (C, H, W) within 0..1. Raises UnityObservationException for invalid images."""
    picture = Picture(image_bytes, tuple(mappings or ()), "the image")
    try:
        return read_pictures([picture], (expected_channels, *picture_size(picture)))[0]
    except ProtocolError as error:
        raise UnityObservationException(str(error)) from error


def _infos(agents: Collection[Any]) -> AgentInfos:
    observations = [[one.SerializeToString() for one in agent.observations] for agent in agents]
    if len(set(map(len, observations))) > 1:
        raise UnityObservationException(
            f"agents of one behavior sent {sorted(set(map(len, observations)))} observations; expected the same "
            "number from each"
        )
    return AgentInfos(
        np.array([agent.id for agent in agents], np.int64),
        np.array([agent.reward for agent in agents], np.float32),
        np.array([agent.done for agent in agents], np.bool_),
        np.array([agent.max_step_reached for agent in agents], np.bool_),
        np.array([agent.group_id for agent in agents], np.int64),
        np.array([agent.group_reward for agent in agents], np.float32),
        tuple(bytes(agent.action_mask) for agent in agents),
        tuple(zip(*observations, strict=True)),
    )
