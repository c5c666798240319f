"""Communicator for tests that imitates a game; it answers at once, always with the same data."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image

from palaestra.unity.communicator import Communicator, PollCallback, UnityOutputProto
from palaestra.wire.encode import COMMUNICATION
from palaestra.wire.messages import message_class

ENDED = 2
"""Index of the agent whose episode ends at every message."""
IMAGE = (3, 30, 40)
NONE, PNG = 0, 1  # of CompressionTypeProto

_Observation = message_class("communicator_objects.ObservationProto")
_Agent = message_class("communicator_objects.AgentInfoProto")


class MockCommunicator(Communicator):
    """Imitates agents that observe 1, 2, 3 ... and black images, with reward 1; the third's episode always ends."""

    def __init__(
        self,
        discrete_action: bool = False,
        visual_inputs: int = 0,
        num_agents: int = 3,
        brain_name: str = "RealFakeBrain",
        vec_obs_size: int = 3,
    ) -> None:
        """Takes branches of 3 and 2 choices or two continuous actions, and the sizes of observations."""
        super().__init__()
        self.is_discrete = discrete_action
        self.visual_inputs = visual_inputs
        self.num_agents = num_agents
        self.brain_name = brain_name
        self.vec_obs_size = vec_obs_size
        self.steps = 0
        self.has_been_closed = False

    def initialize(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Returns a first message with the behavior and its agents."""
        output = self._output()
        hello = output.rl_initialization_output
        hello.name = "RealFakeAcademy"
        hello.communication_version = COMMUNICATION
        hello.package_version = "mock_package_version"
        brain = hello.brain_parameters.add(brain_name=self.brain_name, is_training=True)
        if self.is_discrete:
            brain.action_spec.num_discrete_actions = 2
            brain.action_spec.discrete_branch_sizes.extend((3, 2))
        else:
            brain.action_spec.num_continuous_actions = 2
        return output

    def exchange(self, inputs: Any, poll_callback: PollCallback | None = None) -> Any:
        """Returns the same agents again."""
        self.steps += 1
        return self._output()

    def close(self) -> None:
        """Sets `has_been_closed`."""
        self.has_been_closed = True

    def _output(self) -> Any:
        output = UnityOutputProto()
        for i in range(self.num_agents):
            agent = _Agent(reward=1, done=i == ENDED, max_step_reached=False, id=i, observations=self._observations())
            output.rl_output.agentInfos[self.brain_name].value.append(agent)
        return output

    def _observations(self) -> list[Any]:
        images = [
            _Observation(shape=IMAGE, compression_type=PNG, compressed_data=_black()) for _ in range(self.visual_inputs)
        ]
        vector = _Observation(shape=[self.vec_obs_size], compression_type=NONE)
        vector.float_data.data.extend(range(1, self.vec_obs_size + 1))
        return [*images, vector]


def _black() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (IMAGE[2], IMAGE[1])).save(file, "PNG")
    return file.getvalue()
