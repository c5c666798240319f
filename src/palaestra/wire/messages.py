"""The wire protocol's message classes, out of a descriptor pool of our own.

No code is generated for one release of protobuf, and nothing of another package with the same messages is in the way.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

__all__ = ["EXCHANGE", "Any_", "DecodeError", "Message", "Observation", "ShallowMessage", "UnityMessage", "message_class"]

EXCHANGE = "/communicator_objects.UnityToExternalProto/Exchange"
"""The one call that a game makes, again and again."""


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    compiled = descriptor_pb2.FileDescriptorSet.FromString(files("palaestra.wire").joinpath("messages.binpb").read_bytes())
    for file in compiled.file:
        pool.Add(file)
    return pool


_POOL = _pool()


def message_class(name: str) -> Any:
    """A message class by its full name, such as 'communicator_objects.AgentInfoProto' (proto/communicator.proto)."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


UnityMessage = message_class("communicator_objects.UnityMessageProto")
"""A whole message, every field by its name."""
ShallowMessage = message_class("palaestra.columns.Message")
"""The same message with bytes where many agents or whole arrays are read at once (proto/columns.proto)."""
Observation = message_class("communicator_objects.ObservationProto")
Any_ = message_class("palaestra.any.Any")


def varint(value: int) -> bytes:
    """A number as protobuf writes lengths."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
