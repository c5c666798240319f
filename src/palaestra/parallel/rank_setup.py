"""Steps that ranks take once in a run, at its start and its end: they divide the work, compare versions, begin with the
same weights, and note that the run has begun or why it ends.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from palaestra.core.errors import ConfigError
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.rank_store import BEGUN, SILENCE, Place, set_left_message, within

T = TypeVar("T")


def split(total: int, group: RankGroup, what: str = "things", flag: str = "") -> int:
    """Returns this rank's part of a number of areas or copies; the first ranks have one more if it does not divide
    evenly.

    Raises ConfigError if a rank would get none; the message names `what` is divided and its command-line `flag`.
    """
    must_suffice(total, group.size, what, flag)
    return total // group.size + (group.number < total % group.size)


def must_suffice(total: int, ranks: int, what: str, flag: str) -> None:
    """Raises ConfigError if there are fewer areas or copies than ranks."""
    if total < ranks:
        raise ConfigError(f"{ranks} processes need at least {ranks} {what}; got {total} ({flag})")


def before(total: int, group: RankGroup) -> int:
    """Returns the sum of the parts that `split` gives to the ranks before this one."""
    return group.number * (total // group.size) + min(group.number, total % group.size)


def own_of(values: Sequence[T], group: RankGroup) -> T:
    """Returns this rank's value of `values`, which has one for each rank."""
    return values[group.number]


def share_weights(network: nn.Module, group: RankGroup) -> None:
    """Gives the network of every rank the weights of rank 0."""
    if group.size > 1:
        network.load_state_dict(group.from_first({key: x.cpu() for key, x in network.state_dict().items()}))


def must_have_same(versions: Mapping[str, str], group: RankGroup) -> None:
    """Raises ConfigError if versions differ between ranks, for example on two machines."""
    found = group.gather(dict(versions))
    if any(one != found[0] for one in found):
        lists = "; ".join(
            f"rank {rank}: {', '.join(f'{name} {version}' for name, version in one.items())}"
            for rank, one in enumerate(found)
        )
        raise ConfigError(
            f"all processes of a run must have the same versions; found {lists}; install the same ones on every machine"
        )


def make_in_group(kind: Callable[..., T], group: RankGroup, what: str, *arguments: Any) -> T:
    """Makes a trainer or a reward signal of a class with these arguments, and with `group` if its constructor has a
    parameter of this name. `what`: its name in messages.

    Raises ConfigError if the constructor has no `group` and there are several ranks: each rank would learn alone.
    """
    try:
        inspect.signature(kind).bind(*arguments, **({"group": group} if takes_group(kind) else {}))
    except TypeError as error:
        raise ConfigError(f"{what}: its constructor is called with {len(arguments)} arguments: {error}") from error
    except ValueError:  # of a class that is not written in Python
        pass
    if takes_group(kind):
        return kind(*arguments, group=group)
    if group.size > 1:
        raise ConfigError(
            f"{what} cannot learn in {group.size} processes: its constructor has no parameter 'group', with which "
            "it would average its gradients (the guide 'Write a trainer', Several processes); give it one, or "
            "train in one process"
        )
    return kind(*arguments)


def takes_group(kind: Callable[..., object]) -> bool:
    """Whether a constructor has a parameter `group`, so that it can learn in several ranks."""
    try:
        return "group" in inspect.signature(kind).parameters
    except (TypeError, ValueError):  # of a class that is not written in Python
        return False


def place_for(task: str, group: RankGroup) -> Place | None:
    """Returns the place of a process that does a task for this rank together with the other ranks' processes; None in a
    group of one."""
    return None if group.size == 1 else group.place._replace(task=task)


def note_begun(run: str, group: RankGroup) -> None:
    """Records that a run has begun, for ranks that are started again."""
    if group.size > 1:
        group.job.set(f"{BEGUN}/{run}", group.place.session)


def begun_before(run: str, group: RankGroup) -> bool:
    """Whether this job began the run before, and its ranks were started again. All ranks get the same answer."""
    if group.size == 1:
        return False
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        # counted by each machine for itself
        return any(group.gather(int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0))
    key = f"{BEGUN}/{run}"
    return group.from_first(group.job.check([key]) and group.job.get(key).decode() != group.place.session)


def leave_message(text: str, group: RankGroup) -> None:
    """Tells the other ranks why this rank ends, so that they can report it."""
    if group.size > 1:
        within(SILENCE, lambda: set_left_message(group.store, group.number, text))
