"""Environments with the API of ML-Agents: a Unity build, the Editor, or any environment of Palaestra."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from dataclasses import replace
from logging import DEBUG
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.envs.unity import executable
from palaestra.envs.unity.options import EDITOR_PORT, UnityOptions
from palaestra.envs.unity.process import arguments
from palaestra.unity.base_env import (
    ActionTuple,
    AgentId,
    BaseEnv,
    BehaviorMapping,
    BehaviorName,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from palaestra.unity.communicated import CommunicatorBackend
from palaestra.unity.communicator import Communicator
from palaestra.unity.exception import UnityActionException, UnityEnvironmentException
from palaestra.unity.game import UnityGame
from palaestra.unity.game_backend import GameBackend, StepResult
from palaestra.unity.logging_util import get_logger
from palaestra.unity.side_channel.default_training_analytics_side_channel import DefaultTrainingAnalyticsSideChannel
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.unity.side_channel.side_channel_manager import SideChannelManager
from palaestra.unity.timers import hierarchical_timer, timed
from palaestra.wire.encode import COMMUNICATION

if TYPE_CHECKING:
    from palaestra.unity.world import InProcessBackend

IN_PROCESS = ("builtin", "gymnasium", "pettingzoo", "python")
"""Prefixes before a colon that name environments without a game process."""


class UnityEnvironment(BaseEnv):
    """Environment of a Unity build, of the Editor (`file_name` None), or of another `--env` name, such as
    'builtin:3DBall'.

    Environments other than games run in this process and ignore ports, timeouts, graphics options and log folders.
    """

    API_VERSION = COMMUNICATION
    DEFAULT_EDITOR_PORT = EDITOR_PORT
    BASE_ENVIRONMENT_PORT = 5005

    def __init__(  # noqa: PLR0913 - the original's signature
        self,
        file_name: str | None = None,
        worker_id: int = 0,
        base_port: int | None = None,
        seed: int = 0,
        no_graphics: bool = False,
        no_graphics_monitor: bool = False,
        timeout_wait: int = 60,
        additional_args: Sequence[str] | None = None,
        side_channels: list[SideChannel] | None = None,
        log_folder: str | None = None,
        num_areas: int = 1,
    ) -> None:
        """Starts the game with `additional_args`, waits for it on port `base_port` + `worker_id`, and sends `seed` and
        `num_areas`.

        Raises:
            UnityEnvironmentException: the game does not exist, did not start, or has another protocol version.
            UnityWorkerInUseException: the port is taken.
            UnityTimeOutException: the game sent nothing for `timeout_wait` seconds.
        """
        self._loaded = False
        self._steps: dict[BehaviorName, tuple[DecisionSteps, TerminalSteps]] = {}
        self._actions: dict[BehaviorName, ActionTuple] = {}
        self._begun = False
        channels = list(side_channels or ())
        if not any(channel.channel_id == DefaultTrainingAnalyticsSideChannel.CHANNEL_ID for channel in channels):
            analytics = DefaultTrainingAnalyticsSideChannel()
            analytics.environment_initialized()
            channels.append(analytics)
        self.side_channel_manager = SideChannelManager(channels)
        options = UnityOptions(
            args=tuple(additional_args or ()),
            timeout_wait=timeout_wait,
            areas=num_areas,
            no_graphics=no_graphics,
            no_graphics_monitor=no_graphics_monitor,
            logs=Path(log_folder) if log_folder else None,
            show_output=get_logger(__name__).getEffectiveLevel() <= DEBUG,
        )
        first_port = (
            base_port
            if base_port is not None
            else self.BASE_ENVIRONMENT_PORT
            if file_name
            else self.DEFAULT_EDITOR_PORT
        )
        communicator = self._get_communicator(worker_id, first_port, timeout_wait)
        if communicator is not None:
            log = None if options.logs is None else options.logs / f"Player-{worker_id}.log"
            words = arguments(options, worker_id, first_port + worker_id, log)
            self._backend: GameBackend | InProcessBackend = CommunicatorBackend(
                communicator, file_name, words, seed, num_areas
            )
        elif file_name is not None and _in_process(file_name):
            from palaestra.unity.world import InProcessBackend  # imports torch, which takes seconds

            self._backend = InProcessBackend(file_name, seed, num_areas, additional_args or ())
        else:
            if file_name is None and worker_id != 0:
                raise UnityEnvironmentException(
                    f"the Editor (file_name None) takes the worker_id 0; {worker_id} was given"
                )
            options = replace(options, executable=None if file_name is None else _build(file_name))
            self._backend = UnityGame(options, worker_id, first_port + worker_id, seed)
        self.academy_capabilities: Any = self._backend.capabilities
        """Capabilities of the game, a UnityRLCapabilitiesProto."""
        self._loaded = True
        atexit.register(self.close)

    def reset(self) -> None:
        """Begins new episodes for all agents. Raises as `step` does."""
        self._check_loaded()
        self._begun = True
        self._store(self._backend.reset(self._side_channel()))

    @timed
    def step(self) -> None:
        """Sends the actions, zeros where none were set, and waits for the next decision requests or ends of episodes.

        The first call is a `reset`.

        Raises:
            UnityEnvironmentException: the game exited, or the environment is closed.
            UnityCommunicatorStoppedException: the game quit.
            UnityTimeOutException: the game sent nothing for `timeout_wait` seconds.
        """
        if not self._begun:
            self.reset()
            return
        self._check_loaded()
        actions = {}
        for name, (decisions, _) in self._steps.items():
            if len(decisions):
                actions[name] = self._actions.get(name) or self._zeros(name)
        with hierarchical_timer("communicator.exchange"):
            result = self._backend.step(actions, self._side_channel())
        self._store(result)

    def close(self) -> None:
        """Closes the environment. Raises UnityEnvironmentException if it is closed."""
        self._check_loaded()
        self._loaded = False
        atexit.unregister(self.close)
        self._backend.close()

    @property
    def behavior_specs(self) -> Mapping[BehaviorName, BehaviorSpec]:
        """Specs of the behaviors known so far, by key such as 'Ball?team=0'; empty before the first `reset`."""
        return BehaviorMapping(self._backend.specs)

    def get_steps(self, behavior_name: BehaviorName) -> tuple[DecisionSteps, TerminalSteps]:
        """Returns decision requests and ends; an agent may be in both. Raises UnityActionException."""
        self._check_known(behavior_name)
        return self._steps[behavior_name]

    def set_actions(self, behavior_name: BehaviorName, action: ActionTuple) -> None:
        """Sets the actions of a behavior's agents, in the order of its DecisionSteps. Raises UnityActionException."""
        self._check_known(behavior_name)
        if behavior_name in self._steps:
            self._actions[behavior_name] = self._checked(behavior_name, action, len(self._steps[behavior_name][0]))

    def set_action_for_agent(self, behavior_name: BehaviorName, agent_id: AgentId, action: ActionTuple) -> None:
        """Sets the action of an agent. Raises UnityActionException for a wrong shape, and IndexError if the agent
        requests no decision."""
        self._check_known(behavior_name)
        if behavior_name not in self._steps:
            return
        one = self._checked(behavior_name, action, 1)
        rows = np.flatnonzero(self._steps[behavior_name][0].agent_id == agent_id)
        if not len(rows):
            raise IndexError(
                f"agent_id {agent_id} of behavior '{behavior_name}' did not request a decision at the last step"
            )
        all_ = self._actions.setdefault(behavior_name, self._zeros(behavior_name))
        all_.continuous[rows[0]] = one.continuous[0]
        all_.discrete[rows[0]] = one.discrete[0]

    def _checked(self, name: BehaviorName, action: ActionTuple, agents: int) -> ActionTuple:
        return self._backend.specs[name].action_spec.check(action, agents, name)

    def _zeros(self, name: BehaviorName) -> ActionTuple:
        return self._backend.specs[name].action_spec.empty_action(len(self._steps[name][0]))

    def _side_channel(self) -> bytes:
        return bytes(self.side_channel_manager.generate_side_channel_messages())

    def _store(self, result: StepResult) -> None:
        self._actions = {}
        self._steps = {
            name: result.steps.get(name) or (DecisionSteps.empty(spec), TerminalSteps.empty(spec))
            for name, spec in self._backend.specs.items()
        }
        self.side_channel_manager.process_side_channel_message(result.side_channel)

    def _check_loaded(self) -> None:
        if not self._loaded:
            raise UnityEnvironmentException("this environment is closed; make another")

    def _check_known(self, name: BehaviorName) -> None:
        if name not in self._backend.specs:
            known = ", ".join(f"'{each}'" for each in self._backend.specs) or "none; they appear with the first reset"
            raise UnityActionException(f"this environment has no behavior '{name}' (known: {known})")

    @staticmethod
    def _get_communicator(worker_id: int, base_port: int, timeout_wait: int) -> Communicator | None:
        """Returns a communicator, for subclasses to override; None: Palaestra's server is used."""
        return None


def _in_process(name: str) -> bool:
    """Whether a name means an environment in this process; names and paths of builds come first."""
    if name.partition(":")[0] in IN_PROCESS:
        return True
    return not executable.looks_like_build(name) and executable.find(name) is None


def _build(name: str) -> str:
    found = executable.find(name)
    if found is None:
        raise UnityEnvironmentException(executable.explain_missing(name))
    return str(found)
