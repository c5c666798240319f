"""Bytes as a Unity game sends them, written out by hand or recorded, to columns."""

from dataclasses import dataclass

import numpy as np
import pytest
from unity_infos import Brain

from palaestra.core.specs import ObsSpec
from palaestra.wire.decode import decode
from palaestra.wire.readers import AgentInfoReader

COLOR = """89504e470d0a1a0a 0000000d49484452 00000002 00000002 0802000000fdd49a73
    00000019494441547801010e00f1ff 00 ff0000 00ff00 00 0000ff 336699 1bf20430 76883b88 0000000049454e44ae426082"""
OTHER = """89504e470d0a1a0a 0000000d49484452 00000002 00000002 0802000000fdd49a73
    00000019494441547801010e00f1ff 00 003366 99ccff 00 ffcc99 663300 29e405fb 1eb7e05c 0000000049454e44ae426082"""
GREY = """89504e470d0a1a0a 0000000d49484452 00000002 00000002 080000000057dd52f8
    0000001149444154780101 0600f9ff 00 0033 00 66ff 029d0199 0fdf9f02 0000000049454e44ae426082"""
"""Two by two pixels each, 82, 82 and 74 bytes."""

ONE_TO_EIGHT = "0000803f 00000040 00004040 00008040 0000a040 0000c040 0000e040 00000041"
RED = [[255, 0], [0, 51]]
GREEN = [[0, 255], [0, 102]]
BLUE = [[0, 0], [255, 153]]
OTHER_RED = [[0, 153], [255, 102]]
OTHER_GREEN = [[51, 204], [204, 51]]
OTHER_BLUE = [[102, 255], [153, 0]]


@dataclass(frozen=True)
class Kind:
    """An ObservationProto and what it is to become; pixels of 0 to 255 where it came as PNG."""

    name: str
    sent: str  # hex
    spec: ObsSpec
    values: object
    scale: int = 1


KINDS = (
    Kind(
        "vector",
        # shape, float_data, dimension_properties, name
        "0a0103  220e 0a0c 0000003f 000080bf 0000803e  320101  4204 65796573",
        ObsSpec("eyes", (3,)),
        [0.5, -1, 0.25],
    ),
    Kind(
        "stacked vector",  # two views of two numbers, the older first
        "0a0104  2212 0a10 0000803f 00000040 00004040 00008040  320101  4205 737461636b",
        ObsSpec("stack", (4,)),
        [1, 2, 3, 4],
    ),
    Kind(
        "goal",
        "0a0102  220a 0a08 0000803f 00000000  320101  3801  4204 676f616c",
        ObsSpec("goal", (2,), goal=True),
        [1, 0],
    ),
    Kind(
        "variable length",
        "0a020302  221a 0a18 0000803f 00000040 00004040 00008040 00000000 00000000  32020401  4206 627566666572",
        ObsSpec("buffer", (3, 2)),
        [[1, 2], [3, 4], [0, 0]],
    ),
    Kind(
        "channels first as numbers",
        f"0a03020202  2222 0a20 {ONE_TO_EIGHT}  3203010202  420463616d30",
        ObsSpec("cam0", (2, 2, 2)),
        [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    ),
    Kind(
        "channels last as numbers",
        f"0a03020202  2222 0a20 {ONE_TO_EIGHT}  3203020201  420463616d30",
        ObsSpec("cam0", (2, 2, 2)),
        [[[1, 3], [5, 7]], [[2, 4], [6, 8]]],
    ),
    Kind(
        "one PNG",
        f"0a03030202  1001  1a52 {COLOR}  3203010202  420463616d30",
        ObsSpec("cam0", (3, 2, 2)),
        [RED, GREEN, BLUE],
        255,
    ),
    Kind(
        "one PNG of a package before 3.0",
        f"0a03020203  1001  1a52 {COLOR}  3203020201  420463616d30",
        ObsSpec("cam0", (3, 2, 2)),
        [RED, GREEN, BLUE],
        255,
    ),
    Kind(
        "PNGs back to back",  # 164 bytes
        f"0a03050202  1001  1aa401 {COLOR} {OTHER}  3203010202  420463616d30",
        ObsSpec("cam0", (5, 2, 2)),
        [RED, GREEN, BLUE, OTHER_RED, OTHER_GREEN],
        255,
    ),
    Kind(
        "PNGs with a mapping",  # 0 1 2 -1 3 3: one channel is dropped, the last two are averaged
        f"0a03040202  1001  1aa401 {COLOR} {OTHER}  2a0f 00 01 02 ffffffffffffffffff01 03 03  3203010202  420463616d30",
        ObsSpec("cam0", (4, 2, 2)),
        [RED, GREEN, BLUE, [[76.5, 229.5], [178.5, 25.5]]],
        255,
    ),
    Kind(
        "grey from three channels",
        f"0a03010202  1001  1a52 {COLOR}  2a03000000  3203010202  420463616d30",
        ObsSpec("cam0", (1, 2, 2)),
        [[[85, 85], [85, 102]]],
        255,
    ),
    Kind(
        "grey PNG",
        f"0a03010202  1001  1a4a {GREY}  3203010202  420463616d30",
        ObsSpec("cam0", (1, 2, 2)),
        [[[0, 51], [102, 255]]],
        255,
    ),
)


def field(number: int, payload: bytes) -> bytes:
    """A field with a length before it, as long as 16 KiB at most."""
    size = len(payload)
    return bytes([number << 3 | 2]) + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + payload


def message_with(observation: bytes) -> bytes:
    """Two agents, 1 and 2, of behavior 'A?team=0', which see this."""
    agents = field(1, b"\x50\x01" + field(13, observation)) + field(1, b"\x50\x02" + field(13, observation))
    return b"\x0a\x03\x08\xc8\x01" + field(2, field(1, field(2, field(1, b"A?team=0") + field(2, agents))))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_bytes_of_every_kind_of_observation_become_a_column(kind: Kind) -> None:
    came = decode(message_with(bytes.fromhex(kind.sent))).infos["A?team=0"]
    reader = AgentInfoReader("A?team=0", Brain(action_spec={"num_continuous_actions": 1}), came, "")
    assert reader.spec.obs == (kind.spec,)
    expected = np.asarray(kind.values, np.float32) / kind.scale
    np.testing.assert_allclose(reader.observations(came)[0], [expected, expected], rtol=0, atol=1e-7)


def test_bytes_of_everything_else_about_agents_become_columns() -> None:
    # reward, done, max_step_reached, id, observation
    ended = "3d 000080bf  4001  4801  5007  6a0b 0a0101 2206 0a04 0000803f"
    # id, mask, observation, group, its reward
    asks = "5007  5a03 010000  6a0b 0a0101 2206 0a04 00000040  7005  7d 0000003f"
    agents = field(1, bytes.fromhex(ended)) + field(1, bytes.fromhex(asks))
    came = decode(
        b"\x0a\x03\x08\xc8\x01"
        + field(2, field(1, field(2, field(1, b"A?team=1") + field(2, agents)) + field(3, b"side")))
    )
    assert came.side_channel == b"side"
    infos = came.infos["A?team=1"]
    assert (infos.id.tolist(), infos.done.tolist(), infos.truncated.tolist()) == ([7, 7], [True, False], [True, False])
    assert (infos.reward.tolist(), infos.group.tolist(), infos.group_reward.tolist()) == ([-1, 0], [0, 5], [0, 0.5])
    reader = AgentInfoReader(
        "A?team=1", Brain(action_spec={"num_discrete_actions": 1, "discrete_branch_sizes": [3]}), infos, ""
    )
    assert reader.team == 1
    assert reader.observations(infos)[0].tolist() == [[1], [2]]
    masks = reader.masks(infos)
    assert masks is not None
    assert masks.tolist() == [[True, True, True], [False, True, True]]
