import io
import logging
import struct
import zipfile
from pathlib import Path
from uuid import UUID, uuid4

import gymnasium
import numpy as np
import pytest
from PIL import Image
from unity_client import Brain, Info, info, vector
from unity_games import make_build
from unity_play import free_port

import palaestra.unity.envs as factories
from palaestra.core.errors import EnvError, PalaestraError
from palaestra.unity import exception, timers
from palaestra.unity.base_env import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from palaestra.unity.environment import UnityEnvironment
from palaestra.unity.envs.unity_aec_env import UnityAECEnv
from palaestra.unity.envs.unity_gym_env import UnityGymException, UnityToGymWrapper
from palaestra.unity.envs.unity_parallel_env import UnityParallelEnv
from palaestra.unity.registry import RemoteRegistryEntry, UnityEnvRegistry, default_registry
from palaestra.unity.rpc_utils import behavior_spec_from_proto, process_pixels, steps_from_proto
from palaestra.unity.side_channel import IncomingMessage
from palaestra.unity.side_channel.engine_configuration_channel import EngineConfig, EngineConfigurationChannel
from palaestra.unity.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from palaestra.unity.side_channel.float_properties_channel import FloatPropertiesChannel
from palaestra.unity.side_channel.raw_bytes_channel import RawBytesChannel
from palaestra.unity.side_channel.side_channel import SideChannel
from palaestra.unity.side_channel.side_channel_manager import SideChannelManager
from palaestra.unity.side_channel.stats_side_channel import StatsAggregationMethod, StatsSideChannel
from palaestra.wire.side_channels import message_of

HYBRID = ActionSpec.create_hybrid(2, (3, 4))
SPEC = BehaviorSpec([ObservationSpec((3,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "x")], HYBRID)


def record(channel: UUID, payload: bytes) -> bytes:
    return channel.bytes_le + struct.pack("<i", len(payload)) + payload


def test_a_subclass_may_have_properties_of_its_own_in_place_of_the_base_classs():
    class Fixed(SideChannel):
        @property
        def channel_id(self):
            return UUID(int=7)

        def on_message_received(self, msg):
            raise NotImplementedError

    assert Fixed(UUID(int=3)).channel_id == UUID(int=7)


def test_action_specs_make_actions_of_their_shape():
    assert str(HYBRID) == "Continuous: 2, Discrete: (3, 4)"
    assert not HYBRID.is_continuous()
    assert not HYBRID.is_discrete()
    drawn = HYBRID.random_action(50)
    assert (drawn.continuous.dtype, drawn.discrete.dtype) == (np.float32, np.int32)
    assert (drawn.discrete.max(0) == [2, 3]).all()
    assert np.abs(drawn.continuous).max() <= 1
    assert ActionSpec.create_discrete((3,)).empty_action(2).continuous.shape == (2, 0)


def test_the_missing_part_of_an_action_has_no_columns():
    assert ActionTuple(np.zeros((3, 2))).discrete.shape == (3, 0)
    assert ActionTuple(discrete=np.zeros((3, 2))).discrete.dtype == np.int32
    assert ActionTuple().continuous is None


@pytest.mark.parametrize(
    ("spec", "action", "part"),
    [
        (ActionSpec(2, ()), np.zeros((1, 2), np.float32), "continuous"),
        (ActionSpec(2, ()), [[0.0, 0.0]], "continuous"),
        (ActionSpec(0, (3,)), [[1]], "discrete"),
    ],
)
def test_an_action_that_is_no_action_tuple_says_how_to_make_one(spec: ActionSpec, action: object, part: str):
    wanted = rf"takes an ActionTuple, got a .*: wrap it as ActionTuple\({part}=array\)"
    with pytest.raises(exception.UnityActionException, match=wanted):
        spec.check(action, 1, "Ball")  # pyright: ignore[reportArgumentType]


def test_empty_steps_have_the_types_of_others():
    decisions = DecisionSteps.empty(SPEC)
    terminals = TerminalSteps.empty(SPEC)
    assert decisions.obs[0].shape == (0, 3)
    assert (decisions.agent_id.dtype, terminals.interrupted.dtype, terminals.group_id.dtype) == (
        np.int32,
        np.bool_,
        np.int32,
    )
    assert decisions.action_mask is None


def test_agents_of_messages_become_steps():
    agents = [info(3, [vector([1, 2, 3])], 0.5, group=2), info(5, [vector([4, 5, 6])], mask=[True] * 2 + [False] * 5)]
    agents.append(info(3, [vector([7, 8, 9])], 1.0, done=True, truncated=True))
    decisions, terminals = steps_from_proto(agents, SPEC)
    assert decisions.agent_id_to_index == {3: 0, 5: 1}
    assert decisions[3].group_id == 2
    assert decisions[5].action_mask is not None
    assert decisions[5].action_mask[0].tolist() == [True, True, False]
    assert terminals[3].interrupted
    assert terminals[3].obs[0].tolist() == [7, 8, 9]
    with pytest.raises(exception.UnityObservationException, match="expected"):
        steps_from_proto([info(1, [vector([1, 2])])], SPEC)
    with pytest.raises(RuntimeError, match="rewards"):
        steps_from_proto([info(1, [vector([1, 2, 3])], float("inf"))], SPEC)


def test_specs_come_of_messages_old_ones_too():
    one = Info(id=1, observations=[vector([1, 2])])
    old = Brain(brain_name="B", vector_action_size_deprecated=[3, 2], vector_action_space_type_deprecated=0)
    assert behavior_spec_from_proto(old, one).action_spec == ActionSpec(0, (3, 2))
    assert behavior_spec_from_proto(Brain(brain_name="B"), one).action_spec == ActionSpec(0, ())


def test_grey_pictures_and_mappings_decode():
    raw = io.BytesIO()
    Image.fromarray(np.full((2, 4), 51, np.uint8)).save(raw, "PNG")
    np.testing.assert_allclose(process_pixels(raw.getvalue(), 1), np.full((1, 2, 4), 0.2), rtol=1e-6)
    assert process_pixels(raw.getvalue() * 2, 2, [0, 0, 0, 1, 1, 1]).shape == (2, 2, 4)
    with pytest.raises(exception.UnityObservationException, match="PNG"):
        process_pixels(b"no picture", 3)


def test_every_error_is_of_both_trees():
    kinds = [
        kind for kind in vars(exception).values() if isinstance(kind, type) and kind.__module__ == exception.__name__
    ]
    assert len(kinds) == 11
    assert all(issubclass(kind, PalaestraError) and issubclass(kind, exception.UnityException) for kind in kinds)


def test_channels_say_what_the_original_says():
    engine = EngineConfigurationChannel()
    parameters = EnvironmentParametersChannel()
    engine.set_configuration(EngineConfig(None, None, 3, 2.0, None, 30))
    parameters.set_gaussian_sampler_parameters("q", 1.0, 2.0, 0x1ACF)
    parameters.set_multirangeuniform_sampler_parameters("q", [(0.0, 1.0)], 1)
    raw = SideChannelManager([engine, parameters]).generate_side_channel_messages()
    expected = [struct.pack("<ii", 1, 3), struct.pack("<if", 2, 2.0), struct.pack("<ii", 4, 30)]
    gaussian = bytes.fromhex("0100000071 01000000 cf1a0000 01000000 0000803f 00000040")
    ranges = struct.pack("<i", 1) + b"q" + struct.pack("<iiiiff", 1, 1, 2, 2, 0.0, 1.0)
    assert raw == b"".join(record(engine.channel_id, one) for one in expected) + b"".join(
        record(parameters.channel_id, one) for one in (gaussian, ranges)
    )
    with pytest.raises(exception.UnitySideChannelException, match="height"):
        engine.set_configuration_parameters(width=3)
    with pytest.raises(exception.UnityCommunicationException):
        engine.on_message_received(IncomingMessage(b""))


def test_distributions_may_have_their_bounds_in_any_order_and_wrong_ones_are_told(caplog: pytest.LogCaptureFixture):
    parameters = EnvironmentParametersChannel()
    env = UnityEnvironment("builtin:3DBall", num_areas=2, side_channels=[parameters])
    with caplog.at_level(logging.WARNING):
        parameters.set_uniform_sampler_parameters("mass", 5.0, 3.0, seed=1)
        parameters.set_multirangeuniform_sampler_parameters("scale", [(2.0, 1.0), (3.0, 3.0)], seed=1)
        env.reset()
        parameters.set_multirangeuniform_sampler_parameters("scale", [(2.0, 2.0), (3.0, 3.0)], seed=1)
        env.reset()
    assert "ignores" not in caplog.text
    parameters.set_gaussian_sampler_parameters("mass", 5.0, -1.0, seed=1)
    with pytest.raises(
        exception.UnitySideChannelException,
        match="'mass': the standard deviation is -1; expected a number of at least 0",
    ):
        env.reset()
    parameters.set_multirangeuniform_sampler_parameters("mass", [], seed=1)
    with pytest.raises(exception.UnitySideChannelException, match="'mass': there are no intervals"):
        env.reset()
    env.close()


def test_channels_keep_what_the_game_says(caplog: pytest.LogCaptureFixture):
    stats = StatsSideChannel()
    floats = FloatPropertiesChannel()
    raw = RawBytesChannel(uuid4())
    manager = SideChannelManager([stats, floats, raw])
    pair = bytes(message_of("score", 2.5).buffer)
    fields = [
        record(stats.channel_id, pair + struct.pack("<i", 2)),
        record(floats.channel_id, pair),
        record(raw.channel_id, b"xyz"),
    ]
    with caplog.at_level(logging.WARNING):
        manager.process_side_channel_message(b"".join(fields) + record(uuid4(), b"?"))
    assert "for which there is none here" in caplog.text
    assert dict(stats.get_and_reset_stats()) == {"score": [(2.5, StatsAggregationMethod.SUM)]}
    assert not stats.get_and_reset_stats()
    assert floats.get_property_dict_copy() == {"score": 2.5}
    assert raw.get_and_clear_received_messages() == [b"xyz"]
    with pytest.raises(exception.UnityEnvironmentException, match="bytes"):
        manager.process_side_channel_message(b"123")
    with pytest.raises(exception.UnityEnvironmentException, match="one id"):
        SideChannelManager([stats, StatsSideChannel()])
    with pytest.raises(exception.UnityEnvironmentException, match="one id"):
        SideChannelManager([stats, stats])


def test_the_same_seed_and_actions_give_the_same_steps_of_a_built_in():
    def played() -> list[bytes]:
        env = UnityEnvironment("builtin:GridWorld", seed=4, num_areas=2)
        shown = []
        for tick in range(60):
            env.step()
            decisions, terminals = env.get_steps("GridWorld?team=0")
            shown += [
                decisions.obs[0].tobytes(),
                decisions.reward.tobytes(),
                terminals.obs[0].tobytes(),
                terminals.reward.tobytes(),
            ]
            env.set_actions("GridWorld?team=0", ActionTuple(discrete=np.full((2, 1), tick % 5)))
        env.close()
        return shown

    assert played() == played()


def test_an_end_has_its_reward_and_the_decision_beside_it_none():
    env = UnityEnvironment("builtin:Basic")
    env.reset()
    ends = 0
    for _ in range(30):
        env.set_actions("Basic?team=0", ActionTuple(discrete=np.array([[2]])))
        env.step()
        decisions, terminals = env.get_steps("Basic?team=0")
        if len(terminals):
            ends += 1
            assert terminals.reward[0] > 0.5
            assert decisions.reward[0] == 0
            assert (terminals.obs[0] != decisions.obs[0]).any()
    assert ends > 0
    env.set_actions("Basic?team=0", ActionTuple(discrete=np.array([[3]])))
    with pytest.raises(exception.UnityActionException, match="3 choices"):
        env.step()
    env.close()


def test_gym_takes_one_agent_and_nothing_after_the_end():
    with pytest.raises(UnityGymException, match="expected one agent"):
        UnityToGymWrapper(UnityEnvironment("builtin:Basic", num_areas=2))
    env = UnityToGymWrapper(UnityEnvironment("builtin:GridWorld"), uint8_visual=True, allow_multiple_obs=True)
    image, goal = env.reset()
    assert (image.dtype, image.shape, goal.shape) == (np.uint8, (3, 64, 84), (2,))
    assert env.observation_space.contains((image, goal))
    while not env.step(env.action_space.sample())[2]:
        pass
    with pytest.raises(gymnasium.error.Error, match="reset"):
        env.step(0)
    assert env.render() is not None
    env.close()


def test_agents_of_pettingzoo_see_their_end_and_then_their_new_episode(tmp_path: Path):
    build = make_build(tmp_path, "Ball", agents=1, episode=2, seed=1)
    parallel = UnityParallelEnv(UnityEnvironment(str(build), base_port=free_port()))
    agent, *_ = parallel.reset()
    assert agent == "Ball?team=0?agent_id=0"
    first = parallel.step({agent: [1.0]})
    second = parallel.step({agent: np.array([1.0])})
    assert [first[2][agent], second[2][agent]] == [False, True]
    last = second[3][agent]["final_observation"]
    fresh = second[0][agent]
    # with action 1 one earns what one sees
    assert second[1][agent] == pytest.approx(float(first[0][agent][0]), abs=1e-6)
    parallel.close()
    serial = UnityAECEnv(UnityEnvironment(str(build), base_port=free_port()))
    serial.reset()
    for _ in range(2):
        serial.step([1.0])
    assert serial.last()[2]
    np.testing.assert_array_equal(serial.last()[0], last)
    serial.step(None)
    np.testing.assert_array_equal(serial.last()[0], fresh)
    assert serial.last()[1:3] == (0.0, False)
    with pytest.raises(gymnasium.error.Error, match="expected one of Box"):
        serial.step([3.0])
    serial.close()
    with pytest.raises(gymnasium.error.Error, match="closed"):
        serial.reset()


def test_the_default_registry_has_the_built_ins_also_by_attribute():
    env = default_registry["Basic"].make(seed=1)
    env.reset()
    assert list(env.behavior_specs) == ["Basic?team=0"]
    env.close()
    wrapped = factories.ThreeDBall.env(seed=2)  # type: ignore[attr-defined]
    assert wrapped.agent_selection == "3DBall?team=0?agent_id=0"
    wrapped.close()
    with pytest.raises(KeyError, match="did you mean 'Basic'"):
        default_registry["basic"]


def test_a_remote_build_is_fetched_when_it_is_made_and_only_once(tmp_path: Path):
    archive = tmp_path / "game.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(make_build(tmp_path, "Ball"), "Game/Game.x86_64")
    registry = UnityEnvRegistry()
    registry.register(
        RemoteRegistryEntry("Far", 1.0, "far away", archive.as_uri(), None, None, tmp_dir=str(tmp_path / "kept"))
    )
    assert not (tmp_path / "kept").exists()
    for _ in range(2):
        env = registry["Far"].make(base_port=free_port())
        archive.unlink(missing_ok=True)
        env.close()
    registry.register(RemoteRegistryEntry("Nowhere", 1.0, "", None, None, "http://localhost/x.zip"))
    with pytest.raises(FileNotFoundError, match="win32"):
        registry["Nowhere"].make()
    with pytest.raises(EnvError, match="cannot read"):
        registry.register_from_yaml(str(tmp_path / "none.yaml"))


def test_timers_tell_where_time_went():
    timers.reset_timers()
    with timers.hierarchical_timer("outer"), timers.hierarchical_timer("inner"):
        pass
    timers.set_gauge("g", 1.0)
    timers.set_gauge("g", 3.0)
    tree = timers.get_timer_tree()
    assert tree["children"]["outer"]["children"]["inner"]["count"] == 1
    assert tree["gauges"]["g"] == {"value": 3.0, "min": 1.0, "max": 3.0, "count": 2}
    timers.reset_timers()
