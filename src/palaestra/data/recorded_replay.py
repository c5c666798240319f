"""A replay of recorded episodes, and batches drawn from two replays.

Letters in shapes: see `data.replay`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from palaestra.core.row_index import Sequences
from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action
from palaestra.data.replay import DecisionTable, Replay, ReplayBatch, decoded, encoded, in_range
from palaestra.data.replay_index import NONE
from palaestra.demos import Episode, Pairs


def recorded_replay(
    episodes: Iterable[Episode], spec: BehaviorSpec, device: torch.device, *, memory: int, stretch: int
) -> Replay:
    """Returns a replay of these episodes (at least one), to which nothing is added later. `memory` and `stretch`: as in
    `Replay`; an agent's memory at the beginning of a sequence is not recorded, so it starts empty.

    The reward is the sum of an agent's own and its group's reward. An end whose final observation was not recorded
    leads to the observation before it.
    """
    obs: list[list[Tensor]] = [[] for _ in spec.obs]
    parts: list[Pairs] = []
    finals: list[bool] = []
    for episode in episodes:
        parts.append(episode.pairs)
        finals.append(episode.final_obs is not None)
        for i, (table, seen) in enumerate(zip(obs, episode.pairs.obs, strict=True)):
            final = [] if episode.final_obs is None else [episode.final_obs[i][None]]
            table.append(_stored(torch.from_numpy(np.concatenate([seen, *final])), spec.obs[i].is_visual))
    lengths = np.array([len(part) for part in parts])
    count = int(lengths.sum())
    row = np.arange(count) + np.repeat(np.cumsum(finals) - finals, lengths)
    last = np.cumsum(lengths) - 1
    ended = np.concatenate([part.terminated | part.truncated for part in parts])
    after = row + 1
    after[last[~np.array(finals)]] -= 1
    place = np.arange(count) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    begins = place % stretch == 0 if stretch else np.zeros(count, np.bool_)
    following = np.arange(1, count + 1)
    following[last] = NONE
    replay = Replay(spec, count, device, memory=memory, stretch=stretch)
    used = count + sum(finals)
    replay.rows = max(replay.rows, used)
    arrays = {
        "obs": row.astype(np.int32),
        "after": after.astype(np.int32),
        "following": following,
        "owns_after": np.zeros(count, np.bool_),
        "begins": begins,
        "starts": np.flatnonzero(begins),
        "free": np.arange(replay.rows - 1, used - 1, -1, dtype=np.int32),
        "waiting": np.zeros(0, np.int32),
        "last": np.zeros(0, np.int64),
        "age": np.zeros(0, np.int64),
    }
    counts = {"oldest": 0, "end": count, "starts": [0, int(begins.sum())], "highest": used}

    def column(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(part, name) for part in parts]))

    decisions = DecisionTable(
        column("continuous").clamp(-1, 1),
        column("discrete").to(torch.int32),
        column("reward") + column("group_reward"),
        column("terminated"),
        torch.from_numpy(ended),
        torch.zeros(count, memory),
    )
    state = {
        "size": count,
        "sequence_length": stretch,
        "obs": [_table(table) for table in obs],
        "masks": _masks(parts, row, used, spec.action.branches),
        "decisions": decisions._asdict(),
        "index": {"arrays": {name: torch.from_numpy(array) for name, array in arrays.items()}, "counts": counts},
    }
    assert replay.load_state_dict(state)
    return replay


def _stored(values: Tensor, visual: bool) -> Tensor:
    return encoded(values, visual and bool(in_range(values)))


def _table(parts: Sequence[Tensor]) -> Tensor:
    """Joins the observations of all episodes; as bytes where all are."""
    return torch.cat(list(parts) if len({part.dtype for part in parts}) == 1 else [decoded(part) for part in parts])


def _masks(parts: Sequence[Pairs], row: np.ndarray, used: int, branches: Sequence[int]) -> Tensor | None:
    """Returns allowed choices of each observation, (used, choices); recorded choices are allowed. None: all are."""
    if not branches or all(part.mask is None for part in parts):
        return None
    table = np.ones((used, sum(branches)), np.bool_)
    table[row] = np.concatenate(
        [np.ones((len(p), sum(branches)), np.bool_) if p.mask is None else p.mask for p in parts]
    )
    done = np.concatenate([part.discrete for part in parts]) + np.cumsum((0, *branches[:-1]))
    table[row[:, None], done] = True
    return torch.from_numpy(table)


def side_by_side(first: ReplayBatch, second: ReplayBatch) -> ReplayBatch:
    """Joins two batches of one behavior, the first batch's decisions before the second's."""
    masks = _both_masks(first, second)
    columns = [
        (one.action.continuous, one.action.discrete, one.reward, one.terminated, one.ended) for one in (first, second)
    ]
    continuous, discrete, reward, terminated, ended = (torch.cat(pair) for pair in zip(*columns, strict=True))
    action = Action(continuous, discrete)
    if first.sequences is not None and second.sequences is not None:
        now, after, order, sequences = _woven(first, second, first.sequences, second.sequences)
        obs = tuple(torch.cat(pair).index_select(0, order) for pair in zip(first.obs, second.obs, strict=True))
        masks = None if masks is None else torch.cat(masks).index_select(0, order)
        return ReplayBatch(obs, masks, now, after, sequences, action, reward, terminated, ended)
    here, count = len(first.reward), len(reward)

    def together(a: Tensor, b: Tensor) -> Tensor:
        return torch.cat([a[:here], b[: count - here], a[here:], b[count - here :]])

    obs = tuple(map(together, first.obs, second.obs))
    masks = None if masks is None else together(*masks)
    at = slice(0, count), slice(count, 2 * count)
    steps = None if first.steps is None or second.steps is None else torch.cat([first.steps, second.steps])
    return ReplayBatch(obs, masks, *at, None, action, reward, terminated, ended, steps)


def _both_masks(first: ReplayBatch, second: ReplayBatch) -> tuple[Tensor, Tensor] | None:
    known = first.masks if first.masks is not None else second.masks
    if known is None:
        return None
    a, b = (
        known.new_ones((len(one.obs[0]), known.shape[1])) if one.masks is None else one.masks for one in (first, second)
    )
    return a, b


def _woven(
    first: ReplayBatch, second: ReplayBatch, a: Sequences, b: Sequences
) -> tuple[Tensor, Tensor, Tensor, Sequences]:
    """Lays two grids of sequences out side by side. Returns `now`, `after`, the order of all observations, and the
    sequences."""
    of_a, of_b = len(a.recurrent_state), len(b.recurrent_state)
    width = of_a + of_b
    place = torch.cat([a.place // of_a * width + a.place % of_a, b.place // of_b * width + of_a + b.place % of_b])
    order = place.argsort()
    rows = torch.empty_like(order).index_copy_(0, order, torch.arange(len(order), device=order.device))
    offset = len(first.obs[0])

    def at(of_first: slice | Tensor, of_second: slice | Tensor) -> Tensor:
        assert isinstance(of_first, Tensor)
        assert isinstance(of_second, Tensor)
        return rows.index_select(0, torch.cat([of_first, of_second + offset]))

    now, after = at(first.now, second.now), at(first.after, second.after)
    memory = torch.cat([a.recurrent_state, b.recurrent_state])
    return now, after, order, Sequences(max(a.steps, b.steps), place.index_select(0, order), memory)
