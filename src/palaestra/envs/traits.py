"""Traits of an environment: facts about it, and abilities besides stepping, as one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import EnvError

if TYPE_CHECKING:
    from palaestra.envs.base import Env
    from palaestra.envs.ray_fans import RayFan


Range = tuple[float, float, float]
"""Default, minimum and maximum of a parameter."""


@dataclass(frozen=True, slots=True)
class SwapBoard:
    """A board whose moves exchange two neighboring pieces, and on which nothing happens between two moves."""

    pieces: tuple[str, ...]
    """Groups of the drawing with a solid for each cell, row after row, the front row first."""
    columns: int
    """Cells of a row."""
    exchange: Callable[[int, int], int | None]
    """Returns the choice of the first branch that swaps the pieces of two cells; None if they are not neighbors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvTraits:
    """Facts about an environment, and its abilities, whose methods are those of `EnvWrapper`.

    Environments of Palaestra state them in their attribute `traits`. For any other environment, `traits_of` derives
    them from the environment's members.
    """

    name: str = ""  # its name in messages
    summary: str = ""  # one sentence about it
    rewards: tuple[str, ...] = ()  # sentences about what agents are rewarded for
    episode: str = ""  # a sentence about when an episode ends
    benchmark: float | None = None  # mean episode reward of a good policy; None: unknown
    notes: tuple[str, ...] = ()  # sentences for users on what was made of it, shown when a run begins
    max_episode_steps: int | None = None  # time limit of an episode in decisions; None: unknown, or none
    parameter_ranges: Mapping[str, Range] = field(default_factory=dict[str, Any])
    refused_parameters: Mapping[str, str] = field(default_factory=dict[str, str])  # that it was opened with, and why
    ray_fans: Mapping[str, Sequence[RayFan]] = field(default_factory=dict[str, Any])  # of observations, by behavior
    board: SwapBoard | None = None  # the board, if its moves exchange two pieces

    opponents: tuple[str, ...] = ()  # behaviors whose agents are in several teams, so that they can learn by self-play
    shared_areas: bool = False  # an area may hold several games that cannot be told apart
    shared_slots: tuple[str, ...] = ()  # behaviors between which agents change, with the same slots in all of them
    reassigns_slots: bool = False  # an agent may get another slot in each episode

    asynchronous: bool = False  # `send` starts a tick in the background
    interruptible: bool = False  # `interrupt` and `abandon` end its waiting
    uses_cores: bool = False  # it computes on cores of this machine while a policy chooses
    reports_busy_time: bool = False  # `busy_seconds` says how long its copies were busy
    real_time: bool = False  # its processes keep time by themselves, as Unity games do, at the speed of `set_speed`
    timed: bool = False  # `tick_seconds` says how long a tick lasts
    steps_arrays: bool = False  # `step_arrays` makes a tick without PyTorch
    host_ticks: bool = False  # `host_ticks` may make ticks as NumPy arrays

    run_aware: bool = False  # `training_starts` and `behavior_joins` take facts about the run
    measures: bool = False  # `take_measurements` gives measurements, such as a game's score
    staggers_episodes: bool = False  # `stagger` spreads the ends of first episodes
    samples_parameters: bool = False  # `draw_parameter` makes it sample a parameter by itself, each time it reads one
    queue_length: int = 0  # episodes for which `queue_parameters` takes values in advance, at least 2; 0: it takes none
    has_heuristic: bool = False  # `heuristic` has a rule-based policy for some of its behaviors
    draws: bool = False  # `drawing` describes its areas as solids
    renders: bool = True  # `render` may return an image


ABILITIES: Mapping[str, tuple[str, ...]] = {
    "asynchronous": ("send", "receive"),
    "interruptible": ("interrupt", "abandon"),
    "reports_busy_time": ("busy_seconds",),
    "real_time": ("set_speed",),
    "timed": ("tick_seconds",),
    "steps_arrays": ("step_arrays",),
    "host_ticks": ("host_ticks",),
    "run_aware": ("training_starts", "behavior_joins"),
    "measures": ("take_measurements",),
    "staggers_episodes": ("stagger",),
    "samples_parameters": ("draw_parameter",),
    "queue_length": ("queue_length", "episodes", "queue_parameters"),
    "has_heuristic": ("heuristic",),
    "draws": ("drawing",),
    "renders": ("render",),
}
"""Members of an environment that give it a trait."""
FACTS = ("name", "benchmark", "episode", "max_episode_steps", "parameter_ranges", "ray_fans", "shared_areas")
FACTS += ("reassigns_slots", "uses_cores")
"""Attributes of an environment that are its traits of the same name."""
LISTS = ("rewards", "notes", "opponents", "shared_slots")
"""Attributes that are lists of texts."""


def traits_of(env: Env) -> EnvTraits:
    """Returns the traits that an environment states, else the traits that follow from its members. Raises EnvError if
    its `traits` is something else."""
    stated = getattr(env, "traits", None)
    if stated is None:
        return traits_by_members(env)
    if not isinstance(stated, EnvTraits):
        raise EnvError(
            f"{type(env).__name__}: 'traits' is an instance of {type(stated).__name__}; expected "
            "palaestra.envs.traits.EnvTraits, or no such attribute"
        )
    return stated


def traits_by_members(env: Any) -> EnvTraits:
    """Returns the traits that follow from the members of an environment."""
    known: dict[str, Any] = {trait: True for trait, names in ABILITIES.items() if _has(env, names)}
    known["renders"] = "renders" in known
    if "queue_length" in known:
        known["queue_length"] = env.queue_length
    known |= {name: getattr(env, name) for name in FACTS if getattr(env, name, None) is not None}
    known["parameter_ranges"] = dict(known.get("parameter_ranges", {}))  # any mapping, which may not go through pipes
    known |= {name: tuple(getattr(env, name, None) or ()) for name in LISTS}
    if _has(env, ("pieces", "columns", "exchange")):
        known["board"] = SwapBoard(env.pieces, env.columns, env.exchange)
    return EnvTraits(**known, summary=summary_of(env))


def summary_of(thing: Any) -> str:
    """Returns the summary of an environment, its class or its factory; else the first line of its documentation."""
    summary = getattr(thing, "summary", None)
    kind = thing if isinstance(thing, type) or callable(thing) else type(thing)
    return summary if isinstance(summary, str) else (kind.__doc__ or "").strip().partition("\n")[0].strip()


def _has(env: object, names: Sequence[str]) -> bool:
    return all(hasattr(env, name) for name in names)
