"""The game's side of the wire, for tests: a client that sends any message, and builders for everything that a game can
say.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
import numpy as np

from palaestra.wire.messages import UnityMessage, message_class

Info = message_class("communicator_objects.AgentInfoProto")
Observation = message_class("communicator_objects.ObservationProto")
Brain = message_class("communicator_objects.BrainParametersProto")

CAPABILITIES = (
    "baseRLCapabilities",
    "concatenatedPngObservations",
    "compressedChannelMapping",
    "hybridActions",
    "trainingAnalytics",
    "variableLengthObservation",
    "multiAgentGroups",
)
_METHOD = "/communicator_objects.UnityToExternalProto/Exchange"
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),  # clients of one process share no connection
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)


class Client:
    """One game's connection. An exchange that takes longer than `patience` seconds raises grpc.RpcError, as does a lost
    connection.
    """

    def __init__(self, port: int, address: str = "127.0.0.1", patience: float = 60.0) -> None:
        self.port = port
        self.patience = patience
        self.closed = threading.Event()
        self._channel = grpc.insecure_channel(f"{address}:{port}", options=_OPTIONS)
        self._call = self._channel.unary_unary(_METHOD)
        self._spoke = False

    def connect(self) -> None:
        """Opens the connection and says nothing. Without it the first exchange does."""
        grpc.channel_ready_future(self._channel).result(timeout=self.patience)

    def exchange_bytes(self, raw: bytes, patience: float | None = None) -> bytes:
        # for a trainer that is not there yet; one that is gone will not come back
        wait = not self._spoke
        self._spoke = True
        return self._call(raw, timeout=patience or self.patience, wait_for_ready=wait)

    def exchange(self, message: Any, patience: float | None = None) -> Any:
        """The trainer's UnityMessage in answer to a UnityMessage."""
        return UnityMessage.FromString(self.exchange_bytes(message.SerializeToString(), patience))

    def hello(
        self,
        version: str = "1.5.0",
        package: str = "3.0.0",
        capabilities: Iterable[str] = CAPABILITIES,
        name: str = "AcademySingleton",
    ) -> Any:
        """The first message and its answer."""
        return self.exchange(hello(version, package, capabilities, name))

    def ready(self, patience: float | None = None) -> Any:
        """The second message, a header alone; its answer is the trainer's first command."""
        return self.exchange(header(), patience)

    def quit(self) -> None:
        """Says that the game leaves; whatever comes back is ignored."""
        with suppress(grpc.RpcError):
            self.exchange(header(400), patience=2)

    def close(self) -> None:
        self.closed.set()
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Messages


def header(status: int = 200) -> Any:
    message = UnityMessage()
    message.header.status = status
    return message


def hello(
    version: str = "1.5.0",
    package: str = "3.0.0",
    capabilities: Iterable[str] = CAPABILITIES,
    name: str = "AcademySingleton",
) -> Any:
    message = header()
    init = message.unity_output.rl_initialization_output
    init.name = name
    init.communication_version = version
    init.package_version = package
    init.capabilities.SetInParent()
    for capability in capabilities:
        setattr(init.capabilities, capability, True)
    return message


def output(infos: Mapping[str, Sequence[Any]], brains: Sequence[Any] = (), side_channel: bytes = b"") -> Any:
    """A tick's message: infos by behavior key (a key with none is sent with none), the parameters of new behaviors."""
    message = header()
    rl_output = message.unity_output.rl_output
    rl_output.side_channel = side_channel
    for key, some in infos.items():
        rl_output.agentInfos[key].value.extend(some)
    if brains:
        message.unity_output.rl_initialization_output.brain_parameters.extend(brains)
    return message


def brain(key: str, continuous: int = 0, branches: Sequence[int] = (), legacy: bool = False) -> Any:
    """Brain parameters; `legacy`: in the fields of packages before hybrid actions, which know no behavior with both."""
    made = Brain(brain_name=key, is_training=True)
    if not legacy:
        made.action_spec.num_continuous_actions = continuous
        made.action_spec.num_discrete_actions = len(branches)
        made.action_spec.discrete_branch_sizes.extend(branches)
    elif continuous and branches:
        raise ValueError("a legacy behavior has either continuous or discrete actions")
    else:
        made.vector_action_space_type_deprecated = 1 if continuous else 0
        made.vector_action_size_deprecated.extend([continuous] if continuous else branches)
    return made


def info(
    id: int,
    obs: Sequence[Any] = (),
    reward: float = 0.0,
    done: bool = False,
    truncated: bool = False,
    mask: Sequence[bool] | None = None,
    group: int = 0,
    group_reward: float = 0.0,
) -> Any:  # fmt: skip
    """What one agent says. `truncated`: it ended by a limit (done as well); `mask`: True forbids a choice, flat over
    all branches.
    """
    made = Info(
        id=id,
        reward=reward,
        done=done or truncated,
        max_step_reached=truncated,
        group_id=group,
        group_reward=group_reward,
    )
    made.observations.extend(obs)
    made.action_mask.extend(mask or ())
    return made


# Observations


def vector(values: Sequence[float] | np.ndarray, name: str | None = None, goal: bool = False) -> Any:
    values = np.asarray(values, np.float32)
    return _floats(values, (1,), name or f"VectorSensor_size{len(values)}", goal)


def entities(rows: Sequence[Sequence[float]] | np.ndarray, name: str = "BufferSensor") -> Any:
    """Rows of variable number, (most, size); those that are not there are zeros at the end."""
    return _floats(np.asarray(rows, np.float32), (4, 1), name)


def pictures(
    files: Sequence[bytes],
    shape: Sequence[int],
    mapping: Sequence[int] = (),
    name: str = "CameraSensor",
    properties: Sequence[int] = (1, 2, 2),
) -> Any:
    """A compressed image: PNG files back to back. `shape` as the game announces it; `mapping`: channel of the files to
    one of ours.

    `properties` are those of CHW; those of HWC are (2, 2, 1), and packages of API 1.4 and older have none.
    """
    made = Observation(shape=list(shape), compression_type=1, compressed_data=b"".join(files), name=name)
    made.compressed_channel_mapping.extend(mapping)
    made.dimension_properties.extend(properties)
    return made


def _floats(values: np.ndarray, properties: Sequence[int], name: str, goal: bool = False) -> Any:
    made = Observation(shape=values.shape, dimension_properties=properties, observation_type=int(goal), name=name)
    made.float_data.data.extend(values.ravel().tolist())
    return made


# Answers


def actions(reply: Any, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the N agents of a behavior that asked, in the order in which they asked: (N, continuous) float32, (N,
    branches) int64.
    """
    rows = _answers(reply, key)
    return _table(rows, "continuous_actions", np.float32), _table(rows, "discrete_actions", np.int64)


def old_actions(reply: Any, key: str) -> np.ndarray:
    """The same as packages before hybrid actions read it: (N, continuous + branches) float32."""
    return _table(_answers(reply, key), "vector_actions_deprecated", np.float32)


def _table(rows: Any, field: str, kind: type) -> np.ndarray:
    """Raises ValueError where the rows differ in length."""
    width = len(getattr(rows[0], field)) if rows else 0
    return np.array([list(getattr(row, field)) for row in rows], kind).reshape(len(rows), width)


def _answers(reply: Any, key: str) -> Any:
    given = reply.unity_input.rl_input.agent_actions
    return given[key].value if key in given else ()
