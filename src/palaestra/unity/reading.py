"""Decodes agents of one behavior key to steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.unity.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from palaestra.unity.exception import UnityNotFiniteException, UnityObservationException
from palaestra.wire.decode import AgentInfos
from palaestra.wire.messages import DecodeError, Observation
from palaestra.wire.observations import DIMENSIONS, ObservationDecoder


class TensorReader:
    """Decodes the agents of a behavior; the spec of its observations comes from its first agents, `infos`.

    `package_major`, the major version of Unity's package, decides the layout of images that do not declare theirs. The
    constructor and `read` raise UnityObservationException, and UnityNotFiniteException for NaN and infinity.
    """

    def __init__(self, key: str, action: ActionSpec, infos: AgentInfos, package_major: int | None = None) -> None:
        self._key = key
        made = [_column(key, i, int(infos.id[0]), column[0], package_major) for i, column in enumerate(infos.obs)]
        self._columns = [column for column, _ in made]
        self.spec = BehaviorSpec([spec for _, spec in made], action)

    def read(self, infos: AgentInfos) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns decision requests and ends of episodes, each in the order of the message."""
        if len(infos.obs) != len(self._columns):
            raise UnityObservationException(
                f"behavior '{self._key}', agent {infos.id[0]}: {len(infos.obs)} observations received; expected "
                f"{len(self._columns)}"
            )
        try:
            obs = [column.read(blobs, infos.id) for column, blobs in zip(self._columns, infos.obs, strict=True)]
        except NotFinite as error:
            raise UnityNotFiniteException(str(error)) from error
        except ProtocolError as error:
            raise UnityObservationException(str(error)) from error
        masks = self._masks(infos)

        def of(rows: NDArray[np.bool_]) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
            return [column[rows] for column in obs], infos.reward[rows]

        asks = ~infos.done
        ended = infos.done
        ids = infos.id.astype(np.int32)
        groups = infos.group[asks].tolist(), infos.group_reward[asks]
        decisions = DecisionSteps(*of(asks), ids[asks], masks, *groups)
        groups = infos.group[ended].tolist(), infos.group_reward[ended]
        return decisions, TerminalSteps(*of(ended), infos.truncated[ended], ids[ended], *groups)

    def _masks(self, infos: AgentInfos) -> list[NDArray[np.bool_]] | None:
        """Returns masks, (N, choices) for each branch. A mask of a wrong length is ignored."""
        branches = self.spec.action_spec.discrete_branches
        written = [mask for mask, done in zip(infos.mask, infos.done.tolist(), strict=True) if not done]
        if not branches or not written:
            return None
        forbidden = np.zeros((len(written), sum(branches)), np.bool_)
        for row, mask in zip(forbidden, written, strict=True):
            if len(mask) == len(row):
                row[:] = np.frombuffer(mask, np.uint8)
        return np.split(forbidden, np.cumsum(branches)[:-1], axis=1)


def _column(
    key: str, index: int, agent: int, first: bytes, package_major: int | None
) -> tuple[ObservationDecoder | _Numbers, ObservationSpec]:
    try:
        sent = Observation.FromString(first)
    except DecodeError as error:
        raise UnityObservationException(
            f"behavior '{key}', agent {agent}: observation {index} is no message"
        ) from error
    shape = tuple(sent.shape)
    dimensions = tuple(map(DimensionProperty, sent.dimension_properties)) or (DimensionProperty.UNSPECIFIED,) * len(
        shape
    )
    kind = ObservationType(sent.observation_type)
    if not (len(shape) in (1, 3) or dimensions == DIMENSIONS[2]):
        return _Numbers(key, index, shape), ObservationSpec(shape, dimensions, kind, sent.name)
    try:
        sensor = ObservationDecoder(key, agent, sent.name or f"obs_{index}", first, package_major)
    except ProtocolError as error:
        raise UnityObservationException(str(error)) from error
    dimensions = tuple(map(DimensionProperty, DIMENSIONS[3])) if sensor.channels_last else dimensions
    return sensor, ObservationSpec(sensor.spec.shape, dimensions, kind, sent.name)


class _Numbers:
    """Decoder of an observation that is neither a vector, an image nor a list of entities."""

    def __init__(self, key: str, index: int, shape: tuple[int, ...]) -> None:
        self._key = key
        self._index = index
        self._shape = shape

    def read(self, blobs: Sequence[bytes], agents: NDArray[np.int64]) -> NDArray[np.float32]:
        """Returns the observation, (N, *shape). Raises ProtocolError and NotFinite."""
        rows = []
        for blob, agent in zip(blobs, agents.tolist(), strict=True):
            sent = Observation.FromString(blob)
            row = np.array(sent.float_data.data, np.float32)
            if tuple(sent.shape) != self._shape or row.size != np.prod(self._shape, dtype=int):
                raise ProtocolError(
                    f"behavior '{self._key}', agent {agent}: observation {self._index} came as {row.size} numbers of "
                    f"shape {tuple(sent.shape)}; expected {self._shape}, as in the first message"
                )
            if not np.isfinite(row).all():
                raise NotFinite(self._key, agent, f"observation {self._index}", float(row[~np.isfinite(row)][0]))
            rows.append(row.reshape(self._shape))
        return np.stack(rows)
