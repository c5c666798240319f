"""What is said to a game, byte by byte: messages written out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from palaestra.core.specs import ActionSpec
from palaestra.wire import encode
from palaestra.wire.encode import ActionWriter


@dataclass(frozen=True)
class Kind:
    """Actions of a behavior's agents and the ListAgentActionProto they are to become."""

    name: str
    spec: ActionSpec
    continuous: list[list[float]]
    discrete: list[list[int]]
    written: str  # hex


KINDS = (
    Kind(
        "one continuous action",
        ActionSpec(1),
        [[0.5]],
        [[]],
        "0a0c  0a04 0000003f  3204 0000003f",  # an agent of 12 bytes: vector_actions_deprecated, continuous_actions
    ),
    Kind(
        "two continuous actions of two agents",
        ActionSpec(2),
        [[1.0, -1.0], [0.0, 0.25]],
        [[], []],
        "0a14  0a08 0000803f 000080bf  3208 0000803f 000080bf    0a14  0a08 00000000 0000803e  3208 00000000 0000803e",
    ),
    Kind(
        "one branch",
        ActionSpec(0, (3,)),
        [[], []],
        [[2], [0]],
        "0a09  0a04 00000040  3a01 02    0a09  0a04 00000000  3a01 00",  # vector_actions_deprecated, discrete_actions
    ),
    Kind(
        "a branch of 128 choices",
        ActionSpec(0, (128,)),
        [[]],
        [[127]],
        "0a09  0a04 0000fe42  3a01 7f",
    ),
    Kind(
        "a branch of 129 choices",  # numbers of two bytes, all of them
        ActionSpec(0, (129, 2)),
        [[], []],
        [[128, 1], [5, 0]],
        "0a0f  0a08 00000043 0000803f  3a03 8001 01    0a0f  0a08 0000a040 00000000  3a03 8500 00",
    ),
    Kind(
        "a branch of 16385 choices",  # of three
        ActionSpec(0, (16385,)),
        [[]],
        [[16384]],
        "0a0b  0a04 00008046  3a03 808001",
    ),
    Kind(
        "hybrid",
        ActionSpec(2, (3, 2)),
        [[0.5, -1.0]],
        [[2, 1]],
        "0a20  0a10 0000003f 000080bf 00000040 0000803f  3208 0000003f 000080bf  3a02 02 01",
    ),
    Kind("a branch without a choice", ActionSpec(0, (1,)), [[]], [[0]], "0a09  0a04 00000000  3a01 00"),
    Kind("nobody", ActionSpec(1), [], [], ""),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_actions_are_written_byte_by_byte(kind: Kind) -> None:
    agents = len(kind.continuous)
    continuous = np.array(kind.continuous, np.float32).reshape(agents, kind.spec.continuous)
    discrete = np.array(kind.discrete, np.int64).reshape(agents, len(kind.spec.branches))
    assert ActionWriter(kind.spec).write(continuous, discrete) == bytes.fromhex(kind.written)


ANSWERS = {
    "to a hello": (
        encode.initialization(7, 2),
        """0a03 08c801
        1a24  1222  0807  1205 312e352e30  1a05 312e312e30  220e 0801 1001 1801 2001 2801 3001 3801  2802""",
        # header: status 200. unity_input: rl_initialization_input: seed, 1.5.0, 1.1.0, seven capabilities, num_areas
    ),
    "reset": (encode.reset(b""), "0a03 08c801  1a04 0a02 2001"),
    "reset with a side channel": (encode.reset(b"\x01\x02"), "0a03 08c801  1a08 0a06 2001 2a02 0102"),
    "go on, nobody asked": (encode.step({}, b""), "0a03 08c801  1a02 0a00"),
    "go on with actions and a side channel": (
        encode.step({"A?team=0": bytes.fromhex("0a09 0a04 00000040 3a01 02")}, b"\x09"),
        "0a03 08c801  1a1e 0a1c  0a17 0a08 413f7465616d3d30 120b 0a09 0a04 00000040 3a01 02  2a01 09",
    ),
    "goodbye": (encode.goodbye(), "0a03 089003"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_written_byte_by_byte(name: str) -> None:
    said, expected = ANSWERS[name]
    assert said.hex(" ") == bytes.fromhex(expected).hex(" ")
