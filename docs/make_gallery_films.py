"""Films the built-in environments for the gallery, each played by what was trained in it.

`docs/make_gallery.py --film NAME` calls it. A film shows the run of `results` that FILMS names; `--model FILE` plays a
model of your own or of Unity in its place, and an environment whose film names neither is played by its heuristic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from make_gallery_curves import command
from make_pictures import TRAININGS, World, clip, save_webp

from palaestra.brains.model import Policy, load_policy
from palaestra.core.errors import RunError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.solids import Drawing
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.doctor.examination import random_action
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.play.evaluation import model_brains
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.run_models import find_models

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "images" / "gallery"
SIZE = (360, 264)
FPS = 15


@dataclass(frozen=True)
class Film:
    """How an environment is filmed, and by what it is played."""

    player: str = ""
    """Run in `results`, or a file of Unity's such as Walker.onnx; empty: the environment's heuristic."""
    half: tuple[float, float, float] | None = None
    follow: str = ""
    elevation: float | None = None
    skip: float = 0.0
    seed: int = 0
    sampled: bool = True
    seconds: float = 6.0
    size: tuple[int, int] = SIZE
    pace: float | None = None
    """Seconds that a decision lasts in the film; None: as long as in the environment."""
    lower: float = 0.0
    """Meters by which everything is moved down, so that a tall body stands in the middle."""
    random: float = 0.0
    """Seconds of random actions before the policy begins."""

    @property
    def of_unity(self) -> bool:
        """Whether a model of Unity's plays."""
        return self.player.endswith(".onnx")

    def words(self) -> str:
        """Returns a sentence that says what plays."""
        if self.of_unity:
            return f"Played by Unity's own model, {self.player}."
        who = "a policy that was trained here with the settings file below"
        if not self.player:
            who = "the environment's heuristic, a policy of fixed rules (no policy was trained for this picture)"
        return f"Random actions for {self.random:g} seconds, then {who}." if self.random else f"Played by {who}."


YARD = (12.6, 1.2, 12.6)
FILMS = {
    "3DBall": Film("3dball", half=(4.6, 4.4, 4.6), skip=0.5),
    "3DBallHard": Film("3DBallHard-seed-1", half=(4.6, 4.4, 4.6), skip=0.6, seed=4),
    "Basic": Film("Basic-seed-1", size=(360, 110), seconds=6, sampled=False, pace=0.3),
    "CartPole": Film("CartPole-seed-1", size=(360, 150), seconds=7, random=2.5),
    "CooperativePushBlock": Film("PushBlockCollab.onnx", seconds=8),
    "Crawler": Film("crawler", half=(4.6, 1.5, 2.6), follow="limbs", skip=4, sampled=False, seconds=7),
    "DungeonEscape": Film(seconds=8),
    "FoodCollector": Film("foodcollector", half=(19, 2, 14), follow="agent", skip=2, seed=1, seconds=7),
    "GridWorld": Film("GridWorld-seed-1", seconds=7, pace=0.3),
    "Hallway": Film("Hallway.onnx", half=(12, 3, 10), follow="agent", seconds=8),
    "Match3": Film(seconds=8, pace=0.8),
    "Match3Visual": Film(seconds=8, pace=0.8, seed=1),
    "PushBlock": Film("pushblock", seed=1, sampled=False),
    "PushBlockCollab": Film("PushBlockCollab.onnx", seconds=8, seed=1),
    "Pyramids": Film(seconds=8, half=(30, 4, 24), follow="agent"),
    "RingOut": Film("ringout", skip=16.5, seed=1, seconds=7),
    "SoccerTwos": Film("soccer", size=(360, 180), skip=2, seconds=8),
    "Sorter": Film("Sorter.onnx", seconds=8),
    "StrikersVsGoalie": Film(size=(360, 180), seconds=8),
    "Tennis": Film("Tennis-seed-1", size=(360, 200), seconds=7),
    "Visual3DBall": Film(half=(4.6, 4.4, 4.6), skip=0.4, seed=3, random=2),
    "VisualFoodCollector": Film(half=(19, 2, 14), follow="agent", skip=2, seed=3, seconds=7),
    "Walker": Film("Walker.onnx", half=(1.7, 1.5, 1.0), follow="limbs", elevation=18, lower=1.0, skip=2, seconds=7),
    "WallJump": Film(seconds=7),
    "Worm": Film("Worm-seed-1", half=(4, 1.6, 2.4), follow="limbs", skip=2, seconds=7),
}


def film(name: str, results: Path, model: Path | None = None) -> None:
    """Films an environment into `docs/images/gallery`."""
    chosen = FILMS[name]
    world = World("", "", chosen.half, chosen.follow, chosen.elevation, chosen.skip, chosen.seed, chosen.sampled)
    play = scene(name, chosen, players_of(name, chosen, results, model))
    frames = list(clip(world, chosen.seconds, chosen.size, play, FPS))
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_webp(frames, FOLDER / f"{name}.webp", quality=64, fps=FPS)


def players_of(name: str, chosen: Film, results: Path, model: Path | None) -> Mapping[str, Path]:
    """Returns the model of each behavior; none where the heuristic plays. Stops if there is no such run."""
    if model is None and not chosen.player:
        return {}
    if model is None and chosen.of_unity:
        raise SystemExit(f"this film is of Unity's {chosen.player}: name your copy with --model, or a model of yours")
    try:
        return find_models(str(model or chosen.player), results).files
    except RunError as error:
        words = TRAININGS.get(chosen.player, " ".join(command(name)[1:]) + " --seed=1")
        train = f"palaestra learn {words} --run-id={chosen.player}"
        raise SystemExit(f"{error}\ntrain it first: {train}") from None


def scene(name: str, chosen: Film, files: Mapping[str, Path]) -> tuple[float, Iterator[Drawing]]:
    """Returns the seconds between two decisions, and drawings before each of them."""
    env = EnvWrapper.of(make_env(f"builtin:{name}", areas=1))
    down = np.array((0.0, chosen.lower, 0.0), np.float32)

    def drawings() -> Iterator[Drawing]:
        with closing(env):
            steps = env.reset(chosen.seed)
            act = Actor(env, chosen, files)
            while True:
                drawing = env.drawing(np.zeros(1, np.int64))
                solids = [replace(one, position=one.position - down) for one in drawing.solids]
                yield replace(drawing, solids=tuple(solids))
                steps = env.step(act(steps))

    return chosen.pace or env.tick_seconds or 0.1, drawings()


class Actor:
    """Answers the agents of an environment with models, or with its heuristic if there are none."""

    def __init__(self, env: EnvWrapper, chosen: Film, files: Mapping[str, Path]) -> None:
        self.env = env
        named = dict(zip(env.behaviors, files.values(), strict=False)) if len(files) == 1 else files
        policies: dict[str, Policy] = {one: load_policy(file, seed=chosen.seed) for one, file in named.items()}
        brains = model_brains(env, policies, deterministic=not chosen.sampled)
        self.left = chosen.random
        self.chance = torch.Generator().manual_seed(chosen.seed)
        self.players = Players(env, brains, lambda agents: 10**9 * agents) if files else None

    def __call__(self, steps: Mapping[str, TimeStep]) -> dict[str, Action]:
        """Returns the actions of all behaviors."""
        self.left -= self.env.tick_seconds or 0.1
        if self.left > 0:
            return {
                name: random_action(self.env.behaviors[name].action, step, self.chance) for name, step in steps.items()
            }
        if self.players is not None:
            self.players.note(steps)
            return self.players.act(steps)
        return {name: ruled(self.env, name, len(step.acting)) for name, step in steps.items()}


def ruled(env: EnvWrapper, behavior: str, slots: int) -> Action:
    """Returns the heuristic's actions, or zeros if there is none."""
    spec = env.behaviors[behavior].action
    return env.heuristic(behavior) or Action(
        torch.zeros(slots, spec.continuous), torch.zeros(slots, len(spec.branches), dtype=torch.int64)
    )
