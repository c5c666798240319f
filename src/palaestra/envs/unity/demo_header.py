"""What stands before the records of a demonstration file, and how one knows a file that is none."""

from __future__ import annotations

from pathlib import Path

from palaestra.core.errors import DemoError
from palaestra.envs.unity.demo_format import HEADER, VERSIONS, Brain, DemoMeta, Meta, read_varint
from palaestra.envs.unity.messages import DecodeError

LONGEST_BRAIN = 1 << 20
_FOREIGN = {
    b"\x89PNG": "a PNG image",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\xff\xd8\xff": "a JPEG image",
    b"version https://git-lfs": "a Git LFS pointer; fetch the file itself with 'git lfs pull'",
}


def read_meta(path: Path, head: bytes) -> DemoMeta:
    """The metadata out of a file's first bytes. Raises DemoError where they are of another kind of file."""
    if not head:
        raise DemoError(f"{path} is empty: 0 bytes; expected a demonstration file")
    kind = next((name for magic, name in _FOREIGN.items() if head.startswith(magic)), None)
    if kind is None and head.isascii() and len(head) > 1 and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        kind = "a text file"
    length = head[0]
    try:
        meta = Meta.FromString(head[1 : 1 + length]) if kind is None and length < HEADER else None
    except DecodeError:
        meta = None
    if meta is None:
        came = f" ({kind})" if kind else ""
        raise DemoError(
            f"{path} is no demonstration file: it begins with {head[:8].hex(' ')}{came}; expected metadata in its first 33 bytes"
        )
    if len(head) <= HEADER:
        raise DemoError(f"{path} is cut off within its header: {len(head)} bytes came; expected more than {HEADER}")
    if meta.api_version not in VERSIONS:
        raise DemoError(f"{path} is of version {meta.api_version} of the format; expected one of {VERSIONS}. A newer Palaestra may read it")
    if meta.number_steps < 0:
        raise DemoError(f"{path} is damaged: its metadata counts {meta.number_steps} records")
    return DemoMeta(meta.api_version, meta.demonstration_name, meta.number_steps, meta.number_episodes, meta.mean_reward)


def read_brain(path: Path, head: bytes) -> tuple[bytes, int]:
    """The behavior's parameters, and where the records begin. Raises DemoError where they are none."""
    length, begin = read_varint(head, HEADER)
    if not 0 < length <= LONGEST_BRAIN:
        raise DemoError(
            f"{path} is no demonstration file: {head[HEADER : HEADER + 8].hex(' ')} at byte {HEADER}; expected a behavior there"
        )
    if begin + length > len(head):
        raise DemoError(f"{path} is cut off within its header: {len(head)} bytes came; its behavior alone ends at byte {begin + length}")
    brain = head[begin : begin + length]
    try:
        named = bool(Brain.FromString(brain).brain_name)
    except DecodeError:
        named = False
    if not named:
        raise DemoError(f"{path} is no demonstration file: its {length} bytes from byte {begin} on name no behavior")
    return brain, begin + length
