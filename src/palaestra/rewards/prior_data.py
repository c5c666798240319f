"""Prior data: experience from elsewhere, of which each minibatch of an off-policy trainer has a share.

Ball et al. 2023, https://arxiv.org/abs/2302.02948.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from palaestra.core.errors import ConfigError, DemoError, EmptyDemo
from palaestra.core.specs import BehaviorSpec
from palaestra.data.n_step import Ahead
from palaestra.data.recorded_replay import recorded_replay, side_by_side
from palaestra.data.replay import Replay, ReplayBatch, randint
from palaestra.datasets import read_demo
from palaestra.demos import Episode
from palaestra.rewards.demonstrations import demo_files, must_be_choices, must_fit
from palaestra.rewards.reward_scaling import ReturnScale
from palaestra.rewards.settings import PriorDataSettings


class PriorData:
    """Recorded decisions and decisions of an earlier run's replay; each is drawn with equal probability."""

    def __init__(
        self,
        settings: PriorDataSettings,
        spec: BehaviorSpec,
        device: torch.device,
        scale: ReturnScale | None = None,
        *,
        memory: int,
        stretch: int,
    ) -> None:
        """`memory` and `stretch`: as in `Replay`; `scale`: the scale of the environment's rewards, if they are scaled.
        Reads the recordings, not the run: see `take`. Raises DemoError."""
        self.run = settings.run
        """The run whose replay is wanted; None: none."""
        self._share = settings.share
        self._wanted = len(settings.sources) + (settings.run is not None)
        self._form = spec, device, memory, stretch
        self._scale = scale
        self._replays: list[Replay] = []
        self._read: list[str] = []
        """Sources that have not been reported to the user."""
        for source in settings.sources:
            self._record(source)

    def _record(self, demo_path: str | Sequence[str]) -> None:
        spec, device, memory, stretch = self._form
        demos = []
        for source in demo_files(demo_path):
            try:
                demos.append(read_demo(source))
            except EmptyDemo:
                continue  # its warning is among the demonstrations'
        episodes = list[Episode]()
        for demo in demos:
            must_fit(demo, spec)
            for episode in demo.episodes():
                must_be_choices(episode.pairs, spec.action, demo)
                episodes.append(episode)
        if not episodes:
            raise DemoError(f"prior_data: not one decision was recorded in {demo_path}")
        replay = recorded_replay(episodes, spec, device, memory=memory, stretch=stretch)
        self._add(replay)
        self._read.append(f"{len(replay):,} recorded decisions of {len(episodes):,} episodes")

    def _add(self, replay: Replay) -> None:
        self._replays.append(replay)
        if self._scale is not None and self._scale.limit is not None:
            self._scale.reach(replay.largest_return(self._scale.gamma))

    def take(self, saved: Sequence[Mapping[str, Any]], run: str) -> None:
        """Adds the replays of an earlier run's ranks. Raises ConfigError if their sequences have another length."""
        spec, device, memory, stretch = self._form
        count = 0
        for state in saved:
            replay = Replay(spec, state["size"], device, memory=memory, stretch=stretch)
            of_sequences = {} if stretch else {"sequence_length": 0}
            remembered = state["decisions"]["recurrent_state"].shape[1]
            if not replay.load_state_dict({**state, **of_sequences}) or (stretch and remembered != memory):
                raise ConfigError(
                    f"prior_data.run: the replay of {run} has sequences of {state['sequence_length']} decisions and "
                    f"{remembered} numbers of memory; expected {stretch} and {memory}, as network_settings.memory says"
                )
            count += len(replay)
            self._add(replay)
        self._read.append(f"{count:,} decisions of {run}")

    def remarks(self) -> list[str]:
        """Returns a remark on the share of prior data in each minibatch, once all files are read."""
        if not self._read or len(self._replays) < self._wanted:
            return []
        read, self._read = self._read, []
        return [f"{self._share:.0%} of each minibatch are prior data: {' and '.join(read)}"]

    def mixed(self, replay: Replay, count: int, generator: torch.Generator, ahead: Ahead) -> ReplayBatch:
        """Draws `count` decisions, the share of prior data among them; at least one from each source that has any."""
        if not self._replays:
            return replay.draw(count, generator, ahead)
        prior = min(max(1, round(count * self._share)), max(1, count - 1))
        batch = replay.draw(max(1, count - prior), generator, ahead)
        for source, number in zip(self._replays, self._numbers(prior, generator), strict=True):
            if number:
                batch = side_by_side(batch, source.draw(number, generator, ahead))
        return batch

    def _numbers(self, count: int, generator: torch.Generator) -> list[int]:
        """Returns how many decisions to draw from each replay, at random in proportion to their sizes."""
        sizes = [len(replay) for replay in self._replays]
        if len(sizes) == 1:
            return [count]
        drawn = np.bincount(np.searchsorted(np.cumsum(sizes), randint(sum(sizes), count, generator), "right"))
        return [*drawn.tolist(), *[0] * (len(sizes) - len(drawn))]
