"""The wire protocol's message classes, built at import from compiled descriptors in a separate descriptor pool.

This works with every release of protobuf, and does not collide with other packages that define the same messages.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as DecodeError
from google.protobuf.message import Message as Message

EXCHANGE = "/communicator_objects.UnityToExternalProto/Exchange"
"""The gRPC method that games call for every message."""


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    compiled = descriptor_pb2.FileDescriptorSet.FromString(
        files("palaestra.wire").joinpath("messages.binpb").read_bytes()
    )
    for file in compiled.file:
        pool.Add(file)
    return pool


_POOL = _pool()


def message_class(name: str) -> Any:
    """Returns a message class by its full name in `proto/`, such as 'communicator_objects.AgentInfoProto'."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


UnityMessage = message_class("communicator_objects.UnityMessageProto")
"""A message with every field decoded."""
ShallowMessage = message_class("palaestra.columns.Message")
"""A message with agents and arrays left as bytes, so that many are decoded at once (proto/columns.proto)."""
Observation = message_class("communicator_objects.ObservationProto")
Any_ = message_class("palaestra.any.Any")


def varint(value: int) -> bytes:
    """Encodes a number as a protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
