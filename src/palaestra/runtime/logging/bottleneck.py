"""Measures where a run's time goes, and gives a sentence about the bottleneck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

ENVIRONMENT = "environment"
INFERENCE = "inference"
LEARNING = "learning"
SAVING = "saving"
OTHER = "other"
EVALUATION = "evaluation"
TRAINER, RANKS, EXCHANGE = "waiting for the trainer", "waiting for other ranks", "exchange with other ranks"
OWN = (ENVIRONMENT, INFERENCE, LEARNING, TRAINER, SAVING, EVALUATION, OTHER)
"""Parts of a rank's time without waiting for other ranks and exchanging with them."""
UNEQUAL = 0.15
"""Share of the time by which the waits of two ranks differ if one of them is slow."""
IDLE = 0.5
"""Share of the time below which copies count as idle."""
MANY = 2000
"""Number of agents from which the duration of a tick grows in proportion to them."""
WORTH = 1.15
"""Least speedup for which a change is proposed."""


@dataclass(frozen=True, slots=True)
class TimeUse:
    """Seconds of one rank."""

    total: float
    parts: Mapping[str, float]  # by ENVIRONMENT, INFERENCE and so on; OTHER is the rest
    copies: Mapping[str, float] = field(default_factory=dict)  # by copy of the environment: not waiting for actions
    trainers: Mapping[str, float] = field(default_factory=dict)  # by behavior whose trainer has a process: learning

    def since(self, before: TimeUse | None) -> TimeUse:
        """Returns the seconds since an earlier state of the same rank."""
        if before is None:
            return self
        return TimeUse(
            self.total - before.total,
            _less(self.parts, before.parts),
            _less(self.copies, before.copies),
            _less(self.trainers, before.trainers),
        )

    def share(self, part: str) -> float:
        """Returns a part's share of the time."""
        if part == OTHER:
            return max(0.0, 1.0 - sum(self.parts.values()) / max(self.total, 1e-9))
        return self.parts.get(part, 0.0) / max(self.total, 1e-9)

    @property
    def busy(self) -> float | None:
        """Mean share of the time in which a copy is not waiting for actions; None if there are no copies."""
        return sum(self.copies.values()) / len(self.copies) / max(self.total, 1e-9) if self.copies else None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, rounded to 0.1 ms."""
        parts = {**self.parts, OTHER: self.share(OTHER) * self.total}
        more = {"copies": self.copies, "trainers": self.trainers}
        return {
            "total": round(self.total, 4),
            **{name: round(seconds, 4) for name, seconds in parts.items()},
            **{name: {key: round(seconds, 4) for key, seconds in kept.items()} for name, kept in more.items() if kept},
        }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _less(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}


EnvKind = Literal["game", "editor", "python", "builtin", "own"]
"""Kinds of environments: `python` ones can be copied, `own` ones are objects that a program has made."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Facts about a run on which advice depends."""

    kind: EnvKind
    agents: int  # that decide in a rank's tick
    copies: int = 1  # of the environment, of all ranks
    runners: bool = False  # whether these are on other machines
    cores: int = 1
    gpus: int = 0
    on_gpu: bool = False  # whether networks are on one
    threaded: bool = False


def bottleneck(uses: Sequence[TimeUse], setup: Setup) -> str:
    """Returns a sentence about the step that takes most time, and a flag that helps. `uses`: one for each rank."""
    waits = [use.share(RANKS) + use.share(EXCHANGE) for use in uses]
    if len(uses) > 1 and max(waits) - min(waits) >= UNEQUAL:
        return _slow_rank(uses, waits)
    mean = mean_of(uses)
    waiting = mean.share(RANKS) + mean.share(EXCHANGE)
    part = max(OWN, key=mean.share)
    share = f"{_percent(mean.share(part))} of the time"
    if len(uses) > 1 and waiting > mean.share(part):
        return (
            f"exchange between ranks is the bottleneck ({_percent(waiting)} of the time): a larger batch_size "
            "makes it rarer, and fewer ranks (--processes, --gpus) need less of it"
        )
    match part:
        case "environment":
            return _environment(mean, setup, share)
        case "inference":
            return f"choosing actions is the bottleneck ({share}): {_larger_ticks(setup, len(uses))}"
        case "learning":
            return f"learning is the bottleneck ({share}): {_learning(mean, setup, len(uses))}"
        case "waiting for the trainer":
            return (
                f"learning is the bottleneck (collecting waits for the trainer's process {share}): "
                f"{_more_ranks(setup, len(uses))} share it if minibatches are large"
            )
        case "evaluation":
            return (
                f"evaluating for keep_best is the bottleneck ({share}): a larger keep_best.every makes it rarer, "
                "fewer episodes shorter"
            )
        case "saving":
            return f"writing checkpoints is the bottleneck ({share}): a larger checkpoint_interval makes them rarer"
    return (
        f"the run's own records are the bottleneck ({share}): a larger summary_freq makes summaries rarer, and "
        "callbacks may be slow"
    )


def mean_of(uses: Sequence[TimeUse]) -> TimeUse:
    """Returns the mean over ranks, including the copies and trainers of all ranks."""
    names = dict.fromkeys(name for use in uses for name in use.parts)
    return TimeUse(
        sum(use.total for use in uses) / len(uses),
        {name: sum(use.parts.get(name, 0.0) for use in uses) / len(uses) for name in names},
        {f"rank {rank}: {name}": seconds for rank, use in enumerate(uses) for name, seconds in use.copies.items()},
        {f"rank {rank}: {name}": seconds for rank, use in enumerate(uses) for name, seconds in use.trainers.items()},
    )


DOING = {
    ENVIRONMENT: "in its environment",
    INFERENCE: "choosing actions",
    LEARNING: "learning",
    TRAINER: "waiting for its trainer",
    SAVING: "writing checkpoints",
    EVALUATION: "evaluating for keep_best",
    OTHER: "on its own records",
}


def _slow_rank(uses: Sequence[TimeUse], waits: Sequence[float]) -> str:
    slow = waits.index(min(waits))
    part = max(OWN, key=uses[slow].share)
    who = "the other waits" if len(uses) == 2 else "others wait"
    long = _percent(max(waits))
    if part == SAVING:
        return (
            f"rank {slow} is the bottleneck: {who} up to {long} of the time while it writes checkpoints "
            "(checkpoint_interval)"
        )
    return (
        f"rank {slow} is the bottleneck: {who} for it up to {long} of the time, and it spends "
        f"{_percent(uses[slow].share(part))} of its own {DOING[part]}; ranks need equal shares (--num-areas or "
        f"--num-envs that divide by {len(uses)}) and equally fast machines"
    )


def _environment(use: TimeUse, setup: Setup, share: str) -> str:
    busy = use.busy
    what = f"the environment is the bottleneck ({share}"
    if setup.kind == "editor":
        return (
            f"{what}): a build of the game is faster than the Editor, and can run in several copies (--env=BUILD "
            "--num-envs=4)"
        )
    if setup.kind == "own":
        return (
            f"{what}): named as --env=python:module:factory it can run in several copies "
            f"(--num-envs={max(2, setup.cores)})"
        )
    if setup.kind == "builtin":
        return f"{what}): {_larger_ticks(setup, 1)}"
    if setup.copies == 1:
        return f"{what}): --num-envs={max(2, setup.cores)} runs copies of it side by side"
    if busy is not None and busy < IDLE:
        return (
            f"messages to and from the copies are the bottleneck ({share}, and the {setup.copies} copies are busy only "
            f"{_percent(busy)}): more agents in each copy (--num-areas) let each message carry more"
        )
    what += "" if busy is None else f", its {setup.copies} copies are busy {_percent(busy)} of it"
    if setup.runners:
        return f"{what}): more copies (--num-envs={2 * setup.copies}) on more runners (--env-runners)"
    if setup.copies < setup.cores:
        return f"{what}): --num-envs={min(2 * setup.copies, setup.cores)} uses more of the {setup.cores} cores"
    return (
        f"{what}): `palaestra doctor` says whether more copies are worth starting on {setup.cores} cores, and "
        "--env-runners=N puts them on more machines"
    )


def _learning(use: TimeUse, setup: Setup, ranks: int) -> str:
    if setup.gpus and not setup.on_gpu:
        return "--torch-device=cuda learns on the GPU, if networks are large"
    share = use.share(LEARNING)
    gain = 1 / max(share, 1 - share)
    if setup.cores > ranks and not setup.threaded and gain >= WORTH:
        return f"threaded: true learns while the next rollout is collected, up to {gain:.1f} times as fast"
    if setup.cores > 1 or setup.gpus > 1:
        return f"{_more_ranks(setup, ranks)} share it if minibatches are large"
    return "a smaller num_epoch or network, or a larger batch_size, needs less of it"


def _more_ranks(setup: Setup, ranks: int) -> str:
    if setup.gpus > ranks:
        return f"--gpus={setup.gpus}"
    return f"more processes (--processes={2 * ranks})"


def _larger_ticks(setup: Setup, ranks: int) -> str:
    """Returns how more agents are served at once, or by more processes."""
    if setup.agents < MANY:
        more = "--num-envs or --num-areas" if setup.kind in ("game", "python") else "--num-areas"
        return f"a tick with more agents ({more}) takes hardly longer than one with {setup.agents}"
    if setup.gpus and not setup.on_gpu:
        return "--torch-device=cuda makes larger ticks cheap"
    return f"{_more_ranks(setup, ranks)} share it"
