"""What a Unity game might send, put together from its parts."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from palaestra.wire.decode import AgentInfos, decode
from palaestra.wire.messages import Observation, UnityMessage, message_class
from palaestra.wire.readers import AgentInfoReader

AgentInfo = message_class("communicator_objects.AgentInfoProto")
Brain = message_class("communicator_objects.BrainParametersProto")

KEY = "Ball?team=0"
CHW, HWC = (1, 2, 2), (2, 2, 1)


def floats(values: Any, dimensions: Sequence[int] = (1,), **fields: Any) -> Any:
    """An observation that comes as numbers, of the array's shape."""
    array = np.asarray(values, np.float32)
    observation = Observation(shape=array.shape, dimension_properties=dimensions, **fields)
    observation.float_data.data.extend(array.ravel().tolist())
    return observation


def png(pixels: Any, mode: str | None = None) -> bytes:
    """A PNG of (H, W) or (H, W, channels) numbers of 0 to 255."""
    image = Image.fromarray(np.asarray(pixels, np.uint8))
    file = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(file, "png")
    return file.getvalue()


def picture(
    shape: Sequence[int], data: bytes, dimensions: Sequence[int] = CHW, mapping: Sequence[int] = (), **fields: Any
) -> Any:
    """An observation that comes as PNG."""
    return Observation(
        shape=shape,
        dimension_properties=dimensions,
        compression_type=1,
        compressed_data=data,
        compressed_channel_mapping=mapping,
        **fields,
    )


def agent(id: int, *observations: Any, **fields: Any) -> Any:
    return AgentInfo(id=id, observations=observations, **fields)


def brain(continuous: int = 0, branches: Sequence[int] = (), key: str = KEY) -> Any:
    spec = {
        "num_continuous_actions": continuous,
        "num_discrete_actions": len(branches),
        "discrete_branch_sizes": branches,
    }
    return Brain(brain_name=key, action_spec=spec)


def message(agents: Mapping[str, Sequence[Any]], brains: Sequence[Any] = ()) -> bytes:
    """A whole message of one tick."""
    whole = UnityMessage()
    whole.header.status = 200
    for key, infos in agents.items():
        whole.unity_output.rl_output.agentInfos[key].value.extend(infos)
    whole.unity_output.rl_initialization_output.brain_parameters.extend(brains)
    return whole.SerializeToString(deterministic=True)


def infos(*agents: Any) -> AgentInfos:
    """The decoded infos of one behavior."""
    return decode(message({KEY: agents})).infos[KEY]


def reader(*agents: Any, branches: Sequence[int] = (), version: str = "4.0.0") -> AgentInfoReader:
    """Of one behavior, which these agents show first."""
    return AgentInfoReader(KEY, brain(0 if branches else 1, branches), infos(*agents), version)
