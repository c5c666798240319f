"""Demonstrations in tensors: the decisions of any number of files, for whatever imitates them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palaestra.core.errors import DemoError, EmptyDemo
from palaestra.core.specs import ActionSpec, BehaviorSpec, differences
from palaestra.core.timestep import Action
from palaestra.envs.unity.demo import Demo, Pairs, read_demo


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """N decisions in the order in which they were made, one file after another."""

    obs: tuple[Tensor, ...]  # each (N, *shape) float32
    action: Action  # as an environment gets it: (N, continuous) within -1..1, (N, branches)
    mask: Tensor | None  # (N, choices) bool, True: allowed, as what was done always is; None: nothing was forbidden
    episode: Tensor  # (N,) int64, rising: those of one episode follow one another
    ended: Tensor  # (N,) bool: the episode ended with it; False at the last of an episode whose recording stopped
    reward: Tensor  # (N,) earned by it, its group's included

    def __len__(self) -> int:
        return len(self.reward)


def load_demonstrations(demo_path: str | Sequence[str], spec: BehaviorSpec, device: torch.device) -> Demonstrations:
    """All decisions of a file, of the .demo files in a folder, or of several of both, as a list or with commas between.

    Empty recordings are passed over where others are not (see `oddities`). Raises DemoError where there is nothing to read, or
    where a file is of other agents than those that `spec` describes.
    """
    parts: list[Pairs] = []
    empty: list[str] = []
    episodes = 0
    for path in demo_files(demo_path):
        try:
            demo = read_demo(path)
        except EmptyDemo as error:
            empty.append(str(error))
            continue
        must_fit(demo, spec)
        before = episodes
        for pairs in demo.pairs():
            _must_be_choices(pairs, spec.action, demo)
            pairs.episode[:] += before
            episodes = int(pairs.episode[-1]) + 1
            parts.append(pairs)
    if not parts:
        raise DemoError(empty[0] if empty else f"demo_path {_typed(demo_path)}: not one decision was recorded in it")
    return _on(device, parts, spec.action)


def oddities(demo_path: str | Sequence[str]) -> Iterator[str]:
    """What is odd about files that `load_demonstrations` reads all the same, such as episodes that are lost: a line each, with the file."""
    for path in demo_files(demo_path):
        try:
            yield from read_demo(path).warnings
        except EmptyDemo as error:
            yield f"{error}; it is passed over"


def demo_files(demo_path: str | Sequence[str]) -> list[Path]:
    """The files that are meant, each once, those of a folder in the order of their names. Raises DemoError where one is missing."""
    files: list[Path] = []
    for path in _paths(demo_path):
        if path.is_dir():
            inside = sorted(path.glob("*.demo"))
            if not inside:
                raise DemoError(f"demo_path {path}: the folder has no demonstration files (.demo)")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise DemoError(f"demo_path {path}: there is no such file or folder{_hint(path)}")
    if not files:
        raise DemoError("demo_path is empty; expected a demonstration file (.demo), a folder of them, or several of both")
    return list(dict.fromkeys(files))


def must_fit(demo: Demo, spec: BehaviorSpec) -> None:
    """Raises DemoError, with both side by side, where a demonstration's agents see or do something else. Names may differ."""
    if table := differences(demo.spec, spec, ("the file", "the behavior")):
        raise DemoError(f"{demo.path} was recorded from other agents ('{demo.behavior}') than those that are to learn from it:\n{table}")


def _must_be_choices(pairs: Pairs, action: ActionSpec, demo: Demo) -> None:
    wrong = np.argwhere((pairs.discrete < 0) | (pairs.discrete >= np.array(action.branches, np.int64)))
    if len(wrong):
        row, branch = wrong[0].tolist()
        raise DemoError(
            f"{demo.path}, episode {pairs.episode[row]}: branch {branch} of an action is {pairs.discrete[row, branch]}; "
            f"expected 0 to {action.branches[branch] - 1}"
        )


def _paths(demo_path: str | Sequence[str]) -> Iterator[Path]:
    for text in [demo_path] if isinstance(demo_path, str) else demo_path:
        whole = Path(text).expanduser()
        if "," not in text or whole.exists():
            yield from [whole] if text.strip() else []
        else:
            yield from (Path(part.strip()).expanduser() for part in text.split(",") if part.strip())


def _hint(path: Path) -> str:
    """What may have been meant, or from where it was looked for."""
    if (named := path.with_name(f"{path.name}.demo")).is_file():
        return f"; did you mean {named}?"
    return "" if path.is_absolute() else f" in {Path.cwd()}; a path is relative to the folder in which palaestra is started"


def _typed(demo_path: str | Sequence[str]) -> str:
    return demo_path if isinstance(demo_path, str) else ", ".join(demo_path)


def _on(device: torch.device, parts: Sequence[Pairs], action: ActionSpec) -> Demonstrations:
    """The columns, joined and moved."""

    def column(name: str) -> Tensor:
        return torch.from_numpy(np.concatenate([getattr(part, name) for part in parts])).to(device)

    obs = tuple(torch.from_numpy(np.concatenate(views)).to(device) for views in zip(*(part.obs for part in parts), strict=True))
    return Demonstrations(
        obs=obs,
        action=Action(column("continuous").clamp(-1, 1), column("discrete")),
        mask=_mask(parts, action, device),
        episode=column("episode"),
        ended=column("terminated") | column("truncated"),
        reward=column("reward") + column("group_reward"),
    )


def _mask(parts: Sequence[Pairs], action: ActionSpec, device: torch.device) -> Tensor | None:
    """What was allowed. A person or a rule may do what a mask forbids, which no policy could be taught: it counts as allowed."""
    if not action.branches or all(part.mask is None for part in parts):
        return None
    starts = np.cumsum((0, *action.branches[:-1]))
    masks: list[NDArray[np.bool_]] = []
    for part in parts:
        mask = np.ones((len(part), action.choices), np.bool_) if part.mask is None else part.mask.copy()
        np.put_along_axis(mask, part.discrete + starts, True, 1)
        masks.append(mask)
    return torch.from_numpy(np.concatenate(masks)).to(device)
