"""Is there room for what a trainer keeps?"""

from __future__ import annotations

import psutil
import torch

from palaestra.core.errors import ConfigError
from palaestra.data.replay import Replay


def check_room(replay: Replay) -> None:
    """Raises ConfigError where a replay's tables, which are made later, cannot fit into what is free now."""
    free = torch.cuda.mem_get_info(replay.device)[0] if replay.device.type == "cuda" else psutil.virtual_memory().available
    if replay.bytes_needed > free:
        where = "on the GPU" if replay.device.type == "cuda" else "of memory"
        fitting = int(replay.size * free / replay.bytes_needed * 0.8)
        raise ConfigError(
            f"hyperparameters.buffer_size: a replay of {replay.size:,} decisions takes {size_of(replay.bytes_needed)}, but "
            f"{size_of(free)} {where} are free; a buffer_size of {fitting:,} would fit"
        )


def size_of(size: int) -> str:
    """Bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 1024:,.1f} KiB"
