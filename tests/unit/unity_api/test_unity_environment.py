import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from unity_client import Client, brain, header, info, output, vector
from unity_games import Game, make_build
from unity_play import Player, free_port, in_thread

from palaestra.core.errors import EnvError, PalaestraError
from palaestra.unity.base_env import ActionTuple, DecisionSteps
from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.exception import (
    UnityActionException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnityNotFiniteException,
    UnityWorkerInUseException,
)
from palaestra.wire.server import LOOPBACK, find_port

pytestmark = pytest.mark.usefixtures("patient_games")

KEY = "Odd?team=0"


class Scripted(Game):
    """Says the messages that it was made with, then leaves."""

    def __init__(self, *messages, **talk) -> None:
        super().__init__(**talk)
        self.messages = list(messages)
        self.replies: list = []

    def reset(self):
        return self.messages.pop(0)

    def step(self, reply):
        self.replies.append(reply)
        return self.messages.pop(0) if self.messages else None


def asks(*rewards: float, branches: tuple[int, ...] = (), seen: tuple[float, ...] = (1.0,), mask=None):
    infos = [info(agent, [vector(list(seen))], reward, mask=mask) for agent, reward in enumerate(rewards)]
    return output({KEY: infos}, [brain(KEY, 0 if branches else 2, branches)])


def editor(*messages, **talk) -> tuple[UnityEnvironment, Scripted]:
    """An environment that waits for the Editor, and the Editor."""
    port = free_port()
    game = Scripted(*messages, **talk)
    Player(game, Client(port))
    return UnityEnvironment(base_port=port, timeout_wait=20), game


def test_nothing_is_known_before_the_first_reset_and_the_first_step_is_one():
    env, game = editor(asks(0.0, 0.0), asks(1.0, 2.0))
    assert dict(env.behavior_specs) == {}
    assert env.academy_capabilities.multiAgentGroups
    env.step()
    assert list(env.behavior_specs) == [KEY]
    env.step()
    decisions, terminals = env.get_steps(KEY)
    np.testing.assert_array_equal(decisions.reward, [1, 2])
    assert len(terminals) == 0
    env.close()
    assert game.resets == 1


def test_agents_without_an_action_do_nothing_and_others_act():
    env, game = editor(asks(0.0, 0.0, branches=(3, 200)), asks(0.0, 0.0), asks(0.0, 0.0))
    env.reset()
    env.set_action_for_agent(KEY, 1, ActionTuple(discrete=np.array([[2, 150]])))
    env.step()
    env.step()
    env.close()
    first, second = (
        [list(one.discrete_actions) for one in r.unity_input.rl_input.agent_actions[KEY].value] for r in game.replies
    )
    assert first == [[0, 0], [2, 150]]
    assert second[:2] == [[], []]  # the spec came again, with other actions


def test_choices_outside_a_branch_go_to_the_game_as_they_are():
    env, game = editor(asks(0.0, branches=(3,)), asks(0.0, branches=(3,)))
    env.reset()
    env.set_actions(KEY, ActionTuple(discrete=np.array([[-7]])))
    env.step()
    env.close()
    assert list(game.replies[0].unity_input.rl_input.agent_actions[KEY].value[0].discrete_actions) == [-7]


def test_masks_say_what_is_forbidden_by_branch():
    env, _ = editor(asks(0.0, branches=(2, 1), mask=[True, False, False]))
    env.reset()
    step = env.get_steps(KEY)[0][0]
    assert step.action_mask is not None
    assert [branch.tolist() for branch in step.action_mask] == [[True, False], [False]]
    env.close()


def test_wrong_names_shapes_and_agents_are_named():
    env, _ = editor(asks(0.0, 0.0))
    env.reset()
    with pytest.raises(UnityActionException, match=r"no behavior 'Even' \(known: 'Odd\?team=0'\)"):
        env.get_steps("Even")
    with pytest.raises(UnityActionException, match=r"continuous action of shape \(2, 2\).*\(3, 2\)"):
        env.set_actions(KEY, ActionTuple(np.zeros((3, 2))))
    with pytest.raises(UnityActionException, match="discrete"):
        env.set_actions(KEY, ActionTuple(np.zeros((2, 2)), np.zeros((2, 1))))
    with pytest.raises(IndexError, match="agent_id 9"):
        env.set_action_for_agent(KEY, 9, ActionTuple(np.zeros((1, 2))))
    with pytest.raises(KeyError, match="agent 9 is not among these DecisionSteps"):
        env.get_steps(KEY)[0][9]
    env.close()


def test_a_closed_environment_says_so():
    env, _ = editor(asks(0.0))
    env.close()
    for call in (env.reset, env.step, env.close):
        with pytest.raises(UnityEnvironmentException, match="closed"):
            call()


def test_a_message_of_ten_megabytes_arrives():
    env, _ = editor(asks(0.0, seen=(0.5,) * 2_600_000))
    env.reset()
    assert env.get_steps(KEY)[0].obs[0].shape == (1, 2_600_000)
    env.close()


def test_a_game_that_quits_differs_from_one_that_crashed(tmp_path: Path):
    env, _ = editor(asks(0.0))
    env.reset()
    with pytest.raises(UnityCommunicatorStoppedException):
        env.step()
    env.close()
    build = make_build(tmp_path, "Ball", die_at=4, die_how="exit", die_code=7, words="NullReferenceException: lost")
    env = UnityEnvironment(str(build), base_port=free_port())
    env.reset()
    with pytest.raises(UnityEnvironmentException, match=r"return code 7(.|\n)*NullReferenceException"):
        env.step()
    env.close()


def test_a_reward_that_is_no_number_is_a_runtime_error_and_ours():
    env, _ = editor(asks(float("nan")))
    with pytest.raises(UnityNotFiniteException, match="agent 0: its reward is nan") as caught:
        env.reset()
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, EnvError)
    assert isinstance(caught.value, UnityException)
    env.close()


def test_a_port_that_is_taken_is_an_error_with_the_worker():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UnityWorkerInUseException, match="worker 3"):
            UnityEnvironment("/bin/sh", worker_id=3, base_port=taken.getsockname()[1] - 3)


def test_what_cannot_be_started_is_explained(tmp_path: Path):
    with pytest.raises(UnityEnvironmentException, match=r"found no .* build"):
        UnityEnvironment(str(tmp_path / "Nowhere.x86_64"))
    with pytest.raises(UnityEnvironmentException, match="3DBall"):
        UnityEnvironment("3DBal")
    with pytest.raises(UnityEnvironmentException, match="worker_id 0"):
        UnityEnvironment(worker_id=1)
    with pytest.raises(PalaestraError, match="additional_args"):
        UnityEnvironment("builtin:Basic", additional_args=["--fast"])


def test_a_game_of_another_protocol_is_refused():
    with pytest.raises(UnityEnvironmentException, match=r"2\.0\.0"):
        editor(asks(0.0), version="2.0.0")


def test_a_build_gets_the_arguments_of_the_original_and_leaves_nothing(tmp_path: Path):
    build = make_build(tmp_path, "Ball", notes=str(tmp_path / "notes"))
    port = free_port()
    threads = threading.active_count()
    env = UnityEnvironment(
        str(build), base_port=port - 1, worker_id=1, no_graphics=True, additional_args=["--speed", "3"], timeout_wait=30
    )
    argv = next((tmp_path / "notes").glob("*.json")).read_text()
    assert f'"-nographics", "-batchmode", "--mlagents-port", "{port}", "--speed", "3"]' in argv
    env.reset()
    env.close()
    assert list((tmp_path / "notes").glob("*.end.json"))
    assert threading.active_count() <= threads
    assert find_port(LOOPBACK, port) == port


def test_the_editor_may_come_late():
    port = free_port()
    with in_thread(lambda: UnityEnvironment(base_port=port, timeout_wait=20)) as opened:
        time.sleep(0.4)
        player = Player(Scripted(asks(0.0)), Client(port))
    opened.result.reset()
    assert list(opened.result.behavior_specs) == [KEY]
    opened.result.close()
    player.wait()


def test_an_observation_of_four_dimensions_arrives():
    odd = vector([float(i) for i in range(16)])
    del odd.shape[:]
    odd.shape.extend([2, 2, 2, 2])
    del odd.dimension_properties[:]
    env, _ = editor(output({KEY: [info(0, [odd])]}, [brain(KEY, 1)]))
    env.reset()
    assert env.behavior_specs[KEY].observation_specs[0].shape == (2, 2, 2, 2)
    assert env.get_steps(KEY)[0].obs[0][0, 1, 1, 1, 1] == 15
    env.close()


def test_agents_that_were_never_described_are_passed_over():
    env, _ = editor(output({"Stranger?team=0": [info(0, [vector([1.0])])]}, []), header(), asks(0.0))
    env.reset()
    env.step()
    assert dict(env.behavior_specs) == {}
    env.step()
    assert isinstance(env.get_steps(KEY)[0], DecisionSteps)
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending", ["raise ValueError('mine')", "pass", "import signal; signal.raise_signal(signal.SIGINT)"]
)
def test_a_program_that_ends_without_closing_takes_its_game_with_it(tmp_path: Path, ending: str):
    build = make_build(tmp_path, "Ball", notes=str(tmp_path / "notes"))
    code = (
        f"from palaestra.unity.environment import UnityEnvironment\nenv = UnityEnvironment({str(build)!r}, "
        f"base_port={free_port()})\nenv.reset(); env.step()\n{ending}"
    )
    subprocess.run([sys.executable, "-c", code], timeout=180, stderr=subprocess.DEVNULL)
    assert list((tmp_path / "notes").glob("*.end.json"))


def test_imports_bring_neither_torch_nor_a_download():
    code = (
        "import sys, socket; socket.getaddrinfo = socket.create_connection = None\nimport "
        "palaestra.unity.environment, palaestra.unity.registry, palaestra.unity.envs, palaestra.unity.side_channel, "
        "palaestra.unity.rpc_utils, palaestra.unity.envs.unity_gym_env, palaestra.unity.envs.unity_aec_env\nassert "
        "len(palaestra.unity.registry.default_registry) > 2; palaestra.unity.envs.ThreeDBall\nassert 'torch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180)
