"""Plays a game without a trainer: agents follow their heuristic or a model, in real time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palaestra.core.display import print_now
from palaestra.core.errors import EnvError
from palaestra.core.files import MODEL_FILES, near_files
from palaestra.sdk.areas import STEP_SECONDS, Areas
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs

if TYPE_CHECKING:
    from palaestra.brains.trained import ModelBrain


class StandalonePlayer:
    """Plays a game's areas and prints a line for each episode."""

    def __init__(self, areas: Areas, models: Sequence[str], time_scale: float, seed: int) -> None:
        """Takes `models` in the form 'BEHAVIOR=FILE.onnx'. Raises EnvError for another form or a missing file."""
        if time_scale < 0:
            raise EnvError(f"--time-scale is {time_scale}; expected 0 (no waiting) or more")
        self._areas = areas
        self._seed = seed
        self._seconds = STEP_SECONDS / time_scale if time_scale else 0.0
        self._files = dict(_named(model) for model in models)
        if unknown := [name for name in self._files if name not in areas.behaviors]:
            raise EnvError(
                f"--model names behavior '{unknown[0]}'; this game has {', '.join(areas.behaviors) or 'none'}"
            )
        self._brains: dict[str, ModelBrain] = {}
        # own and group return of open episodes
        self._returns: defaultdict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._lengths: defaultdict[tuple[str, int], int] = defaultdict(int)  # decisions
        self.episodes = 0

    def play(self, episodes: int | None) -> None:
        """Plays until `episodes` ended; None: forever. Raises EnvError if there is neither a model nor a heuristic."""
        try:
            self._areas.reset()
            begin = time.perf_counter()
            while episodes is None or self.episodes < episodes:
                outputs = self._areas.advance()
                played = self._areas.academies[0].total_step_count * self._seconds
                time.sleep(max(0.0, begin + played - time.perf_counter()))
                for one in outputs.values():
                    self._count(one)
                self._areas.answer({key: self._decide(one) for key, one in outputs.items()})
                for academy in self._areas.academies:
                    academy.stats_recorder.take()  # dropped: there are no curves
        finally:
            self._areas.close()

    def _count(self, one: AgentOutputs) -> None:
        infos = one.infos
        for id, reward, group_reward, done, truncated in zip(
            infos.id.tolist(),
            infos.reward.tolist(),
            infos.group_reward.tolist(),
            infos.done.tolist(),
            infos.truncated.tolist(),
            strict=True,
        ):
            at = one.key, id
            self._returns[at][0] += reward
            self._returns[at][1] += group_reward
            if not done:
                self._lengths[at] += 1
                continue
            self.episodes += 1
            own, shared = self._returns.pop(at)
            group = f" and its group's {shared:.3f}" if infos.group.any() else ""
            how = "was truncated" if truncated else "ended"
            print_now(
                f"episode {self.episodes}: {one.key}, agent {id}, {how} after {self._lengths.pop(at, 0)} decisions: "
                f"reward {own:.3f}{group}"
            )

    def _decide(self, one: AgentOutputs) -> AgentActions:
        name = one.key.partition("?")[0]
        if name in self._files:
            return self._by_model(name, one)
        actions = self._areas.heuristic(one.key)
        if actions is None:
            raise EnvError(
                f"there is no policy for '{name}': write 'def heuristic(self, actions)' in its agents' class, give it "
                f"a model (--model {name}=results/first/{name}.onnx), or train it (palaestra learn SETTINGS --env "
                "GAME.py)"
            )
        return actions

    def _by_model(self, name: str, one: AgentOutputs) -> AgentActions:
        from palaestra.brains.base import Seen
        from palaestra.brains.model import load_policy  # imports onnxruntime
        from palaestra.brains.trained import ModelBrain

        if name not in self._brains:
            self._brains[name] = ModelBrain(
                load_policy(self._files[name], seed=self._seed), name, one.spec, deterministic=False
            )
        brain = self._brains[name]
        decision_requested = ~one.infos.done
        brain.begin(one.infos.id[one.infos.done])
        mask = None if one.mask is None else one.mask[decision_requested]
        team = int(one.key.rpartition("=")[2])
        ids = one.infos.id[decision_requested]
        choice = brain.decide(
            Seen(ids, tuple(column[decision_requested] for column in one.obs), mask, np.full(len(ids), team))
        )
        return AgentActions(choice.continuous, choice.discrete)


def _named(model: str) -> tuple[str, Path]:
    name, equals, file = model.partition("=")
    if not name or not equals or not file:
        raise EnvError(f"--model is '{model}'; expected BEHAVIOR=FILE.onnx, such as Ball=results/first/Ball.onnx")
    if not Path(file).is_file():
        raise EnvError(f"--model {model}: there is no file {file}{near_files(Path(file), MODEL_FILES)}")
    return name, Path(file)
