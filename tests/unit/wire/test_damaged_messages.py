"""Truncated, mutated and concatenated messages either decode or raise one of our errors with a reason."""

import random

import numpy as np
from conversations import NAMES, requests
from unity_infos import CHW, HWC, KEY, agent, brain, floats, message, picture, png

from palaestra.core.errors import NotFinite, ProtocolError
from palaestra.wire.decode import decode
from palaestra.wire.readers import AgentInfoReader

MESSAGES = 2000
PIXELS = np.arange(16 * 16 * 3).reshape(16, 16, 3) % 256


def sound() -> list[bytes]:
    """Recorded messages, and one with observations of every kind."""
    sees = [
        floats([1, 2], name="eyes"),
        floats([[1, 2], [3, 4]], (4, 1), name="buffer"),
        floats(np.ones((2, 4, 4)), CHW, name="grid"),
        picture((3, 16, 16), png(PIXELS), CHW, name="camera"),
        picture((16, 16, 3), png(PIXELS), HWC, name="old camera"),
        picture((4, 16, 16), png(PIXELS) + png(PIXELS), CHW, (0, 1, 2, -1, 3, 3), name="stack"),
    ]
    masked = [agent(i, *sees, reward=i, action_mask=[True, False, False], group_id=i) for i in range(4)]
    every = message({KEY: [*masked, agent(9, *sees, done=True)]}, [brain(2, (3,))])
    return [every] * 8 + [raw for name in NAMES for raw in requests(name)[2:6]]


def damaged(raw: bytes, rng: random.Random) -> bytes:
    broken = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
        at = rng.randrange(len(broken))
        kind = rng.choice((0, 0, 0, 1, 1, 1, 2, 3, 4, 5))
        if kind == 0:
            broken[at] = rng.randrange(256)
        elif kind == 1:
            broken[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del broken[at : at + rng.choice((1, 4, 100))]
        elif kind == 3:
            broken[at:at] = rng.randbytes(rng.choice((1, 4, 20)))
        elif kind == 4:
            broken[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\x00\x00\xc0\x7f", b"\xff\xff\xff\x7f"))
        else:
            broken[at:at] = broken[rng.randrange(len(broken)) :][:50]
        if not broken:
            return b""
    return bytes(broken[: rng.randrange(len(broken))] if rng.random() < 0.1 else broken)


def test_damaged_messages_are_read_or_refused_with_a_reason() -> None:
    rng = random.Random(3)
    pool = sound()
    steady = {raw: _readers(raw, {}) for raw in pool}
    words: list[str] = []
    for _ in range(MESSAGES):
        raw = rng.choice(pool)
        try:
            _readers(damaged(raw, rng), steady[raw] if rng.random() < 0.5 else {})
        except (ProtocolError, NotFinite) as error:
            words.append(str(error))
    assert MESSAGES / 2 < len(words) < MESSAGES * 0.95
    assert min(len(word) for word in words) > 20
    assert sum("agent" in word for word in words) > MESSAGES / 20  # many get as far as what one agent sent


def _readers(raw: bytes, known: dict[str, AgentInfoReader]) -> dict[str, AgentInfoReader]:
    """Reads a message with these readers, and adds a reader for each behavior that it announces."""
    came = decode(raw)
    readers = dict(known)
    brains = {} if came.hello is None else {one.brain_name: one for one in came.hello.brain_parameters}
    for key, infos in came.infos.items():
        if key not in readers:
            readers[key] = AgentInfoReader(key, brains.get(key, brain(1)), infos, "4.0.0")
        for column, obs in zip(readers[key].observations(infos), readers[key].spec.obs, strict=True):
            assert column.shape == (len(infos.id), *obs.shape)
            assert np.isfinite(column).all()
        masks = readers[key].masks(infos)
        assert masks is None or masks.shape == (len(infos.id), readers[key].spec.action.choices)
    return readers
