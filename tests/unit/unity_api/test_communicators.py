"""Modules of the original that programs import besides: communicators, the mock one, and env_utils."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unity_games import make_build
from unity_play import free_port

from palaestra.unity import env_utils
from palaestra.unity.communicator import Communicator, UnityInputProto
from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.exception import (
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from palaestra.unity.mock_communicator import MockCommunicator
from palaestra.unity.rpc_communicator import RpcCommunicator

WINDOWS = sys.platform == "win32"


def mocked(**options: Any) -> tuple[UnityEnvironment, MockCommunicator]:
    """An environment that talks through a mock, as tests of programs for the original have it."""
    mock = MockCommunicator(**options)

    class Mocked(UnityEnvironment):
        @staticmethod
        def _get_communicator(worker_id: int, base_port: int, timeout_wait: int) -> Communicator:
            return mock

    return Mocked(), mock


def test_a_mock_announces_its_behavior_before_the_first_reset():
    env, _ = mocked()
    assert list(env.behavior_specs) == ["RealFakeBrain"]
    spec = env.behavior_specs["RealFakeBrain"]
    assert (spec.observation_specs[0].shape, spec.action_spec.continuous_size) == ((3,), 2)
    env.close()


@pytest.mark.parametrize("discrete", [False, True])
def test_a_mock_answers_resets_and_steps_with_three_agents_of_whom_one_ends(discrete: bool):
    env, mock = mocked(discrete_action=discrete, visual_inputs=1)
    env.reset()
    decisions, ends = env.get_steps("RealFakeBrain")
    spec = env.behavior_specs["RealFakeBrain"]
    env.set_actions("RealFakeBrain", spec.action_spec.random_action(2))
    env.step()
    assert (list(decisions), list(ends)) == ([0, 1], [2])
    assert [column.shape for column in decisions.obs] == [(2, 3, 30, 40), (2, 3)]
    assert decisions.obs[1].tolist() == [[1, 2, 3]] * 2
    assert decisions.reward.tolist() == [1, 1]
    assert spec.action_spec.discrete_branches == ((3, 2) if discrete else ())
    assert mock.steps == 2
    env.close()
    assert mock.has_been_closed
    with pytest.raises(UnityEnvironmentException):
        env.step()


def test_a_mock_has_the_agents_names_and_sizes_it_is_given():
    env, _ = mocked(num_agents=5, brain_name="Other", vec_obs_size=7)
    env.reset()
    decisions, _ = env.get_steps("Other")
    assert (list(decisions), decisions.obs[0].shape) == ([0, 1, 3, 4], (4, 7))


def test_a_communicator_that_has_nothing_more_to_say_ends_the_conversation(monkeypatch: pytest.MonkeyPatch):
    env, mock = mocked()
    env.reset()
    monkeypatch.setattr(mock, "exchange", lambda inputs, poll: None)
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()


class Rpc(UnityEnvironment):
    """Talks to its game through an RpcCommunicator."""

    @staticmethod
    def _get_communicator(worker_id: int, base_port: int, timeout_wait: int) -> Communicator:
        return RpcCommunicator(worker_id, base_port, timeout_wait)


@pytest.mark.skipif(WINDOWS, reason="the build is a shell script")
def test_an_environment_with_an_rpc_communicator_reports_what_ours_reports(tmp_path: Path):
    build = make_build(tmp_path, "Crowd", messages=20, agents=3, seed=5)
    reports = []
    for kind in (Rpc, UnityEnvironment):
        env = kind(str(build), base_port=free_port(), timeout_wait=30)
        seen = []
        env.reset()
        for _ in range(5):
            for name in sorted(env.behavior_specs):
                decisions, ends = env.get_steps(name)
                seen.append((name, list(decisions), list(ends), [column.sum().item() for column in decisions.obs]))
            env.step()
        env.close()
        reports.append(seen)
    assert reports[0] == reports[1]


def test_a_port_that_is_taken_is_named_and_free_again_after_close():
    port = free_port()
    first = RpcCommunicator(base_port=port)
    with pytest.raises(UnityWorkerInUseException):
        RpcCommunicator(base_port=port)
    other = RpcCommunicator(worker_id=0, base_port=free_port())
    other.close()
    first.close()
    first.close()
    RpcCommunicator(base_port=port).close()


@pytest.mark.slow
def test_a_silent_game_is_waited_for_until_the_timeout():
    communicator = RpcCommunicator(base_port=free_port(), timeout_wait=0.2)
    calls = []
    with pytest.raises(UnityTimeOutException):
        communicator.initialize(UnityInputProto(), lambda: calls.append(1))
    assert calls
    communicator.close()


def test_what_a_poll_raises_ends_the_wait():
    communicator = RpcCommunicator(base_port=free_port(), timeout_wait=30)

    def gone() -> None:
        raise UnityEnvironmentException("gone")

    with pytest.raises(UnityEnvironmentException, match="gone"):
        communicator.initialize(UnityInputProto(), gone)
    communicator.close()


def test_threads_of_a_communicator_end_with_it():
    before = threading.active_count()
    communicator = RpcCommunicator(base_port=free_port())
    assert threading.active_count() > before
    communicator.close()
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before


@pytest.mark.skipif(WINDOWS, reason="builds have other names there")
def test_builds_are_found_and_started_by_name(tmp_path: Path):
    build = tmp_path / ("Game.x86_64" if sys.platform == "linux" else "Game")
    build.write_text('#!/bin/sh\necho "$1" > "$(dirname "$0")/told"\n')
    build.chmod(0o755)
    assert env_utils.get_platform() == sys.platform
    assert env_utils.validate_environment_path(str(tmp_path / "Game")) == str(build)
    assert env_utils.validate_environment_path(str(tmp_path / "Other")) is None
    process = env_utils.launch_executable(str(tmp_path / "Game"), ["hello"])
    assert process.wait(180) == 0
    assert (tmp_path / "told").read_text() == "hello\n"
    with pytest.raises(UnityEnvironmentException, match="Other"):
        env_utils.launch_executable(str(tmp_path / "Other"), [])
    build.write_bytes(np.zeros(10).tobytes())
    build.chmod(0o644)
    with pytest.raises(UnityEnvironmentException, match="cannot be started"):
        env_utils.launch_executable(str(build), [])
