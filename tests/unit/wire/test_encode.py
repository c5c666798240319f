from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palaestra.core.specs import ActionSpec
from palaestra.wire import encode
from palaestra.wire.encode import ActionWriter
from palaestra.wire.messages import UnityMessage, message_class

Listed = message_class("communicator_objects.UnityRLInputProto.ListAgentActionProto")

SPECS = (
    ActionSpec(1),
    ActionSpec(40),
    ActionSpec(0, (2,)),
    ActionSpec(0, (1, 128, 129, 3)),
    ActionSpec(0, (127, 16384, 16385)),
    ActionSpec(0, (2,) * 40),
    ActionSpec(3, (5, 200)),
)


def drawn(spec: ActionSpec, agents: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and last agents take the first and last choice of every branch."""
    random = np.random.default_rng(4)
    sizes = np.array(spec.branches, np.int64)
    discrete = random.integers(0, sizes, (agents, len(sizes)))
    discrete[0] = 0
    discrete[-1] = sizes - 1
    return random.uniform(-1, 1, (agents, spec.continuous)).astype(np.float32), discrete


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("agents", [1, 3, 50])
def test_protobuf_reads_what_was_written(spec: ActionSpec, agents: int) -> None:
    continuous, discrete = drawn(spec, agents)
    rows = Listed.FromString(ActionWriter(spec).write(continuous, discrete)).value
    assert len(rows) == agents
    for row, numbers, choices in zip(rows, continuous.tolist(), discrete.tolist(), strict=True):
        assert list(row.continuous_actions) == numbers
        assert list(row.discrete_actions) == choices
        assert list(row.vector_actions_deprecated) == numbers + choices
        assert row.value == 0


def test_rows_of_a_larger_table_and_wider_numbers_are_written_as_they_are() -> None:
    spec = ActionSpec(2, (3,))
    continuous, discrete = drawn(spec, 6)
    picked = np.array([4, 0, 2])
    rows = Listed.FromString(ActionWriter(spec).write(continuous.astype(np.float64)[picked], discrete[picked])).value
    assert [list(row.continuous_actions) for row in rows] == continuous[picked].tolist()
    assert [list(row.discrete_actions) for row in rows] == discrete[picked].tolist()


def parsed(raw: bytes) -> Any:
    return UnityMessage.FromString(raw)


def test_a_step_holds_the_actions_of_each_key() -> None:
    written = ActionWriter(ActionSpec(1)).write(np.array([[0.5], [1]], np.float32), np.zeros((2, 0), np.int64))
    message = parsed(encode.step({"A?team=0": written, "Bär?team=1": written[:14]}, b"side"))
    given = message.unity_input.rl_input
    assert (message.header.status, given.command, given.side_channel) == (200, 0, b"side")
    assert {key: len(some.value) for key, some in given.agent_actions.items()} == {"A?team=0": 2, "Bär?team=1": 1}


def test_a_step_without_actions_is_a_step() -> None:
    message = parsed(encode.step({}, b""))
    assert message.HasField("unity_input")
    assert message.unity_input.HasField("rl_input")
    assert not message.unity_input.rl_input.agent_actions
    assert not message.HasField("unity_output")


def test_a_reset_carries_side_channels() -> None:
    given = parsed(encode.reset(b"\x00\x01")).unity_input.rl_input
    assert (given.command, given.side_channel) == (encode.RESET, b"\x00\x01")


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_a_hello_is_answered_with_versions_and_all_capabilities(seed: int) -> None:
    given = parsed(encode.initialization(seed, 3)).unity_input.rl_initialization_input
    assert (given.seed, given.num_areas, given.communication_version, given.package_version) == (
        seed,
        3,
        "1.5.0",
        "1.1.0",
    )
    assert len(encode.CAPABILITIES) == 7
    assert all(getattr(given.capabilities, name) for name in encode.CAPABILITIES)


def test_goodbye_is_a_status_alone() -> None:
    message = parsed(encode.goodbye())
    assert message.header.status == 400
    assert not message.HasField("unity_input")
