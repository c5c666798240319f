import numpy as np
import pytest

from palaestra.core.specs import ActionSpec
from palaestra.wire.encode import ActionWriter
from palaestra.wire.messages import message_class

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
