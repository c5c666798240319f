"""Short programs as users of the low-level API write them; each takes the environment to play and gives what it found.

They name nothing of Palaestra but `palaestra.unity`: with another package's name in the imports they are programs for
that one.
"""

import uuid

import numpy as np

from palaestra.unity.base_env import ActionTuple, BaseEnv
from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.envs.unity_gym_env import UnityToGymWrapper
from palaestra.unity.registry import UnityEnvRegistry
from palaestra.unity.side_channel.engine_configuration_channel import EngineConfigurationChannel
from palaestra.unity.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from palaestra.unity.side_channel.side_channel import IncomingMessage, OutgoingMessage, SideChannel


def loop(file_name: str, steps: int = 50, **options) -> list[float]:
    """Plays at random, and gives the return of each episode that ended."""
    env = UnityEnvironment(file_name=file_name, seed=1, **options)
    env.reset()
    behavior_name = list(env.behavior_specs)[0]  # noqa: RUF015 - as users write it
    spec = env.behavior_specs[behavior_name]
    running: dict[int, float] = {}
    returns = []
    for _ in range(steps):
        decision_steps, terminal_steps = env.get_steps(behavior_name)
        for agent_id in terminal_steps:
            returns.append(running.pop(agent_id, 0.0) + terminal_steps[agent_id].reward)
        for agent_id in decision_steps:
            running[agent_id] = running.get(agent_id, 0.0) + decision_steps[agent_id].reward
        env.set_actions(behavior_name, spec.action_spec.random_action(len(decision_steps)))
        env.step()
    env.close()
    return returns


class StringLogChannel(SideChannel):
    """Keeps the lines that a game writes, and writes to it."""

    def __init__(self) -> None:
        super().__init__(uuid.UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7"))
        self.lines: list[str] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        self.lines.append(msg.read_string())

    def send_string(self, data: str) -> None:
        msg = OutgoingMessage()
        msg.write_string(data)
        super().queue_message_to_send(msg)


def strings(file_name: str, **options) -> list[str]:
    """A channel of one's own."""
    channel = StringLogChannel()
    env = UnityEnvironment(file_name, side_channels=[channel], **options)
    env.reset()
    channel.send_string("The environment was reset")
    for i in range(3):
        channel.send_string(f"Step {i}")
        env.step()
    env.close()
    return channel.lines


def engine_and_parameters(file_name: str, parameters: dict[str, float], **options) -> BaseEnv:
    """Sets both before the first reset, and one parameter again later."""
    engine = EngineConfigurationChannel()
    settings = EnvironmentParametersChannel()
    env = UnityEnvironment(file_name, side_channels=[engine, settings], **options)
    engine.set_configuration_parameters(time_scale=2.0, width=120, height=90)
    for key, value in parameters.items():
        settings.set_float_parameter(key, value)
    env.reset()
    for key in parameters:
        settings.set_uniform_sampler_parameters(key, 1.0, 2.0, seed=3)
    env.step()
    env.close()
    return env


def gym_loop(file_name: str, episodes: int = 2, **options) -> list[float]:
    """Returns of episodes through the Gym wrapper."""
    env = UnityToGymWrapper(UnityEnvironment(file_name, **options), action_space_seed=5)
    returns = []
    for _ in range(episodes):
        state = env.reset()
        done = False
        total = 0.0
        while not done:
            assert env.observation_space.contains(state)
            state, reward, done, _ = env.step(env.action_space.sample())
            total += reward
        returns.append(total)
    env.close()
    return returns


def from_registry(manifest: str, identifier: str, **options) -> tuple[int, ...]:
    """A build of a manifest of one's own."""
    registry = UnityEnvRegistry()
    registry.register_from_yaml(manifest)
    env = registry[identifier].make(**options)
    env.reset()
    name = list(env.behavior_specs)[0]  # noqa: RUF015 - as users write it
    decision_steps, _ = env.get_steps(name)
    actions = np.ones((len(decision_steps), env.behavior_specs[name].action_spec.continuous_size), dtype=np.float32)
    env.set_actions(name, ActionTuple(continuous=actions))
    env.step()
    shape = env.get_steps(name)[0].obs[0].shape
    env.close()
    return shape
