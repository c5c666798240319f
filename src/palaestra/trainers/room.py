"""Is there room for what a trainer keeps?"""

from __future__ import annotations

import gc
from weakref import WeakSet

import torch

from palaestra.core.errors import ConfigError
from palaestra.core.memory import free_memory, size_of
from palaestra.data.replay import Replay

_admitted: WeakSet[Replay] = WeakSet()
"""Replays of this process, which take what they need little by little."""


def check_room(replay: Replay) -> None:
    """Raises ConfigError where a replay's tables, which are filled later, cannot fit into what is free and promised to no other."""
    needed = _still_to_take(replay)
    free, promised = _free(replay)
    if needed > free:
        gc.collect()  # replays of a run that is over
        free, promised = _free(replay)
    if needed > free:
        where = "on the GPU" if replay.device.type == "cuda" else "of memory"
        beside = f" beside the {size_of(promised)} that replays of other behaviors will take" if promised else ""
        fitting = int(replay.size * free / replay.bytes_needed * 0.8)
        advice = f"a buffer_size of {fitting:,} would fit" if fitting else "make theirs smaller"
        raise ConfigError(
            f"hyperparameters.buffer_size: a replay of {replay.size:,} decisions takes {size_of(replay.bytes_needed)}, but "
            f"{size_of(free)} {where} are free{beside}; {advice}"
        )
    _admitted.add(replay)


def _free(replay: Replay) -> tuple[int, int]:
    """Bytes where its tables go that are free and promised to no other, and how many are promised."""
    free = torch.cuda.mem_get_info(replay.device)[0] if replay.device.type == "cuda" else free_memory()
    promised = sum(_still_to_take(other) for other in _admitted if other is not replay and other.device == replay.device)
    return max(0, free - promised), promised


def _still_to_take(replay: Replay) -> int:
    """Bytes of its tables that nothing was written to yet; a GPU gives all of them at once."""
    if replay.device.type == "cuda":
        return 0 if len(replay) else replay.bytes_needed
    return round(replay.bytes_needed * (1 - len(replay) / replay.size))
