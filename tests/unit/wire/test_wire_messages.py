import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool

from palaestra.wire.messages import Observation, ShallowMessage, UnityMessage

PROTO = Path(__file__).parents[3] / "proto"


def shipped() -> bytes:
    return files("palaestra.wire").joinpath("messages.binpb").read_bytes()


def test_the_shipped_descriptors_are_those_of_the_proto_files(tmp_path: Path):
    out = tmp_path / "messages.binpb"
    program = (
        f"import sys; sys.path.insert(0, {str(PROTO)!r}); from compile import compile_into; from pathlib import Path; "
    )
    subprocess.run([sys.executable, "-c", program + f"compile_into(Path({str(out)!r}))"], check=True)
    compiled = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    assert compiled == descriptor_pb2.FileDescriptorSet.FromString(shipped())


def test_another_packages_messages_of_the_same_names_do_not_collide():
    others = descriptor_pb2.FileDescriptorProto(
        name="mlagents_envs/communicator_objects/agent_info.proto", package="communicator_objects"
    )
    others.message_type.add(name="AgentInfoProto").field.add(name="reward", number=7, type=2, label=1)
    descriptor_pool.Default().Add(others)
    assert ShallowMessage.DESCRIPTOR.file.pool is not descriptor_pool.Default()
    info = UnityMessage().unity_output.rl_output.agentInfos["Ball?team=0"].value.add(reward=0.5, id=3)
    assert (info.reward, info.id) == (0.5, 3)


def test_columns_are_the_same_bytes_as_the_whole_message():
    whole = UnityMessage(header={"status": 200})
    agent = whole.unity_output.rl_output.agentInfos["Ball?team=0"].value.add(
        reward=0.5, done=True, max_step_reached=True, id=7, action_mask=[True, False], group_id=2, group_reward=1.5
    )
    agent.observations.add(shape=[2], float_data={"data": [1, 2]}, name="ball")
    columns = ShallowMessage.FromString(whole.SerializeToString())
    (same,) = columns.unity_output.rl_output.agentInfos["Ball?team=0"].value
    assert (same.reward, same.done, same.max_step_reached, same.id, same.group_id, same.group_reward) == (
        0.5,
        True,
        True,
        7,
        2,
        1.5,
    )
    assert same.action_mask == b"\x01\x00"
    assert Observation.FromString(same.observations[0]) == agent.observations[0]
    assert columns.SerializeToString(deterministic=True) == whole.SerializeToString(deterministic=True)
