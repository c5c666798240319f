"""The environment interface, and optional interfaces beside it. `palaestra.testing.check_env` tests them."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.core.metrics import Measurement
    from palaestra.core.specs import BehaviorSpec
    from palaestra.core.timestep import Action, TimeStep

Distribution = Literal["uniform", "gaussian", "multirangeuniform"]
"""Distributions for sampled parameters, by their names in settings."""


@runtime_checkable
class Env(Protocol):
    """An environment that steps many agents at once and returns one table for each behavior.

    An episode restarts on the tick on which it ends (Gymnasium's SAME_STEP): `obs` is already the first observation of
    the new one. A returned TimeStep is never modified.
    """

    device: torch.device
    num_areas: int
    behaviors: Mapping[str, BehaviorSpec]  # may gain names between ticks, but never loses one
    parameters: Mapping[str, float]  # defaults of the parameters that `set_parameters` accepts

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Resets every area. The same seed and actions give the same results."""
        ...

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """Simulates one tick. Rows of inactive slots are ignored; a behavior without active slots needs no actions.

        Raises EnvError if the environment's process has stopped.
        """
        ...

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets a value for each area, (num_areas,), from its next episode on. Raises EnvError for an unknown name."""
        ...

    def render(self, area: int) -> np.ndarray:
        """Returns an image of one area, (H, W, 3) uint8. Raises EnvError if the environment cannot draw."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the complete state; empty if the environment cannot be saved, so that a resumed run starts new
        episodes.
        """
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restores a saved state, from which the same actions give the same results."""
        ...

    def close(self) -> None:
        """Frees resources; may be called again."""
        ...


@runtime_checkable
class Measures(Protocol):
    """An environment that reports measurements, such as a game's score."""

    def take_measurements(self) -> list[Measurement]:
        """Returns the measurements since the last call, in order."""
        ...


@runtime_checkable
class StaggersEpisodes(Protocol):
    """An environment that can spread the ends of time-limited episodes over its areas."""

    def stagger(self, seed: int) -> None:
        """Advances the clock of each area's episode by a random part of its time limit. Call it right after `reset`.

        Raises EnvError if episodes have no time limit.
        """
        ...


@runtime_checkable
class QueuesParameters(Protocol):
    """An environment that accepts parameters for several episodes in advance, so that callers need not watch for new
    episodes.
    """

    @property
    def queue_length(self) -> int:
        """Number of episodes for which it accepts parameters, at least 2."""
        ...

    @property
    def episodes(self) -> Tensor:
        """Number of episodes that each area has begun, (areas,) int64."""
        ...

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Sets values (areas, queue_length): an area's next episode uses the first, the one after it the second, and so
        on.

        They remain until this method or `set_parameters` is called again. Raises EnvError for an unknown name.
        """
        ...


@runtime_checkable
class SamplesParameters(Protocol):
    """An environment that samples parameters itself, each time it reads one, as Unity games do."""

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """Sets the distribution of a parameter. `seeds` has a 31-bit seed for each area; one with several parts uses
        the seeds that follow. A part that is restarted draws other numbers than before.

        `numbers`: minimum and maximum; mean and standard deviation; or both ends of each of several ranges. Raises
        EnvError for an unknown name.
        """
        ...


@runtime_checkable
class SharesAreas(Protocol):
    """An environment that declares whether one of its areas may hold several games that cannot be distinguished."""

    shared_areas: bool


@runtime_checkable
class KeepsTime(Protocol):
    """An environment in processes of its own that keep time by themselves, as Unity games do."""

    def set_speed(self, speed: float) -> None:
        """Sets the speed from now on, as a multiple of the time scale that it was opened with."""
        ...


@runtime_checkable
class Exchanges(Protocol):
    """An environment whose moves exchange two neighboring pieces of a board, on which nothing happens between two
    moves.
    """

    pieces: tuple[str, ...]
    """Groups of the drawing with a solid for each cell, row after row, the first row in front."""
    columns: int
    """Cells of a row."""

    def exchange(self, first: int, second: int) -> int | None:
        """Returns the choice of the first branch that exchanges the pieces of two cells; None if they are no
        neighbors.
        """
        ...


@runtime_checkable
class ReassignsSlots(Protocol):
    """An environment that declares whether an agent may get another slot in each episode."""

    reassigns_slots: bool


@runtime_checkable
class RunAware(Protocol):
    """An environment that receives facts about the training run, for analytics."""

    def training_starts(self, facts: TrainingFacts) -> None:
        """Called once, before the first `reset`."""
        ...

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Called once for each behavior, when it first appears."""
        ...


@runtime_checkable
class AsyncEnv(Protocol):
    """An environment that simulates a tick in the background.

    `send` followed by `receive` is equivalent to `step`. No other method may be called between the two.
    """

    def send(self, actions: Mapping[str, Action]) -> None:
        """Starts a tick."""
        ...

    def receive(self) -> dict[str, TimeStep]:
        """Waits for the tick and returns its tables. Raises EnvError if the environment's process has stopped."""
        ...


@runtime_checkable
class StepsArrays(Protocol):
    """An environment that can make a tick without PyTorch, for copies in processes, where each touch of it costs as
    much as a tick.
    """

    def step_arrays(self, arrays: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, TimeStep] | None:
        """Makes a tick with the actions in `arrays`: by behavior, the columns `continuous`, `discrete`, `reward`,
        `obs0`, `obs1` and so on.

        If all agents acted before and act again, writes observations and rewards there and returns None; else returns
        what `step` would.
        """
        ...


@runtime_checkable
class ReportsBusyTime(Protocol):
    """An environment whose copies simulate beside this process, such as in processes of their own or on other
    machines.
    """

    def busy_seconds(self) -> dict[str, float]:
        """Returns by copy, whose name is for users, the seconds since its first start in which it was not waiting for
        actions.
        """
        ...


@runtime_checkable
class Heuristic(Protocol):
    """An environment with a rule-based policy for some of its behaviors."""

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """Returns the rule's actions for the current state, one row for each slot; None: the behavior has no rule.

        Only the rows of `slots` (R,) are valid, or of all active slots if it is None.
        """
        ...


@runtime_checkable
class Timed(Protocol):
    """An environment that knows the simulated time of a tick, so that it can be shown at real speed."""

    tick_seconds: float | None
    """Simulated seconds from the current state to the next tick; may change from tick to tick. None: unknown."""


@runtime_checkable
class Interruptible(Protocol):
    """An environment that waits for its own processes. Signal handlers call both methods."""

    def interrupt(self) -> None:
        """Makes a waiting `step` return soon, with tables in which no agent has to act."""
        ...

    def abandon(self) -> None:
        """Ends its processes at once, because this process is about to exit."""
        ...


_KEY = b"unity.ml-agents"


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """Facts about a run at its start. Names and fields are those of the message TrainingEnvironmentInitialized."""

    mlagents_version: str
    mlagents_envs_version: str
    python_version: str
    torch_version: str
    torch_device_type: str
    num_envs: int
    num_environment_parameters: int
    run_options: str  # JSON; users' names and paths are `hashed`


@dataclass(frozen=True, slots=True)
class BehaviorFacts:
    """Facts about a behavior when it starts to train. Names and fields are those of the message
    TrainingBehaviorInitialized.
    """

    behavior_name: str  # hashed
    trainer_type: str
    extrinsic_reward_enabled: bool
    gail_reward_enabled: bool
    curiosity_reward_enabled: bool
    rnd_reward_enabled: bool
    behavioral_cloning_enabled: bool
    recurrent_enabled: bool
    visual_encoder: str
    num_network_layers: int
    num_network_hidden_units: int
    trainer_threaded: bool
    self_play_enabled: bool
    curriculum_enabled: bool
    config: str  # JSON, hashed like run_options


def hashed(text: str) -> str:
    """Returns the HMAC-SHA256 of a text under ML-Agents' key, in hexadecimal: equal names stay equal, but cannot be
    read.
    """
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()
