"""The contract of an environment. `palaestra.testing.check_env` tests it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray
    from torch import Tensor

    from palaestra.core.metrics import Measurement
    from palaestra.core.specs import BehaviorSpec
    from palaestra.core.timestep import Action, TimeStep

Distribution = Literal["uniform", "gaussian", "multirangeuniform"]
"""Kinds of distributions that parameters are drawn from, by their names in settings."""


@runtime_checkable
class Env(Protocol):
    """Steps many agents at once and shows each behavior as one table.

    An episode restarts on the tick it ends (Gymnasium's SAME_STEP): `obs` is already the new
    one's first view. A returned TimeStep is never written to again.
    """

    device: torch.device
    num_areas: int
    behaviors: Mapping[str, BehaviorSpec]  # may gain names between ticks; never loses one
    parameters: Mapping[str, float]  # what `set_parameters` takes, with the defaults

    def reset(self, seed: int) -> dict[str, TimeStep]:
        """Starts every area anew. The same seed and actions give the same stream."""
        ...

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        """One tick. Rows that were not acting are ignored; a behavior without actions is one in which nobody was.

        Raises EnvError when the far side is gone.
        """
        ...

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """One value an area, (num_areas,); each takes hold at that area's next episode. Raises EnvError for an unknown name."""
        ...

    def render(self, area: int) -> np.ndarray:
        """A picture of one area, (H, W, 3) uint8. Raises EnvError where the environment has none."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """All that decides what comes next; empty where it cannot be saved, and a resumed run starts new episodes."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Goes back to a saved state: the same actions give the same stream from there."""
        ...

    def close(self) -> None:
        """Frees what it holds; may be called again."""
        ...


@runtime_checkable
class Measures(Protocol):
    """What an environment may do besides: measure numbers of its own, such as a game's score."""

    def take_measurements(self) -> list[Measurement]:
        """All since the last call, in the order in which they came."""
        ...


@runtime_checkable
class StaggersEpisodes(Protocol):
    """What an environment may do besides: have episodes that are cut after some time end at different times in different areas."""

    def stagger(self, seed: int) -> None:
        """Right after `reset`: has each area's episode go on as if a part of its time, drawn for each, had passed already.

        Raises EnvError where episodes are not cut.
        """
        ...


@runtime_checkable
class QueuesParameters(Protocol):
    """What an environment may do besides: take parameters of many episodes at once, so that nobody has to watch for where one begins."""

    @property
    def queue_length(self) -> int:
        """For how many, at least 2."""
        ...

    @property
    def episodes(self) -> Tensor:
        """(areas,) int64: how many each area has begun."""
        ...

    def queue_parameters(self, values: Mapping[str, Tensor]) -> None:
        """(areas, queue_length) each: an area's next episode gets the first, the one after it the second. Raises as `set_parameters` does.

        Holds until set anew, by whichever of the two.
        """
        ...


@runtime_checkable
class SamplesParameters(Protocol):
    """What an environment may do besides: draw parameters by itself, a number whenever it reads one, as games do."""

    def draw_parameter(self, name: str, kind: Distribution, numbers: Sequence[float], seeds: Sequence[int]) -> None:
        """From now on. Seeds of 31 bits, one an area; an area that is several within draws with those that follow its own.

        `numbers`: least and greatest; mean and standard deviation; of several ranges both ends of each. Raises EnvError for an unknown
        name.
        """
        ...


@runtime_checkable
class SharesAreas(Protocol):
    """What an environment may say besides: that several games, which nobody tells apart, may go on in one of its areas."""

    shared_areas: bool


@runtime_checkable
class RunAware(Protocol):
    """What an environment may do besides: hear of the run that it is in."""

    def training_starts(self, facts: TrainingFacts) -> None:
        """Called once, before the first `reset`."""
        ...

    def behavior_joins(self, facts: BehaviorFacts) -> None:
        """Called once a behavior, when it is first seen."""
        ...


@runtime_checkable
class AsyncEnv(Protocol):
    """What an environment may do besides: work on a tick by itself, while its caller does something else.

    `receive` after `send` is `step`. Between the two nothing else may be called.
    """

    def send(self, actions: Mapping[str, Action]) -> None:
        """Begins a tick."""
        ...

    def receive(self) -> dict[str, TimeStep]:
        """What came of it; waits for it. Raises EnvError when the far side is gone."""
        ...


@runtime_checkable
class Heuristic(Protocol):
    """What an environment may do besides: know a rule of its own by which agents of some of its behaviors play."""

    def heuristic(self, behavior: str, slots: NDArray[np.int64] | None = None) -> Action | None:
        """What the rule would do in the state now shown, a row a slot. None: it has no rule.

        `slots` (R,) are those that are asked about, None all that act; other rows mean nothing.
        """
        ...


@runtime_checkable
class Timed(Protocol):
    """What an environment may do besides: say how long a tick lasts in the world that it shows, so that it can be watched as it is."""

    tick_seconds: float | None
    """From what is shown now to the next tick, in seconds; it may change from tick to tick. None: it does not know."""


@runtime_checkable
class Interruptible(Protocol):
    """What an environment that waits for processes of its own must do besides. Both are called by signal handlers."""

    def interrupt(self) -> None:
        """Has a `step` that waits return soon, with tables in which nobody need act."""
        ...

    def abandon(self) -> None:
        """Ends its processes at once: this one ends itself."""
        ...


_KEY = b"unity.ml-agents"


@dataclass(frozen=True, slots=True)
class TrainingFacts:
    """A run that begins. Names and fields are those of the message TrainingEnvironmentInitialized."""

    mlagents_version: str
    mlagents_envs_version: str
    python_version: str
    torch_version: str
    torch_device_type: str
    num_envs: int
    num_environment_parameters: int
    run_options: str  # JSON; what a user named or where it lies only as `hashed`


@dataclass(frozen=True, slots=True)
class BehaviorFacts:
    """A behavior that begins to learn. Names and fields are those of the message TrainingBehaviorInitialized."""

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
    config: str  # JSON, as run_options


def hashed(text: str) -> str:
    """HMAC-SHA256 under ML-Agents' key, in hexadecimal: the same name is recognized again, and cannot be read."""
    return hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()
