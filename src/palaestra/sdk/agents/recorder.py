"""Demonstrations: what an agent sees and is told, written as Unity's recorder does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from palaestra.demos.format import DemoRecord, clean_name
from palaestra.demos.writer import DemoWriter, free_path
from palaestra.sdk.agents.agent import Agent, AgentState


class DemonstrationRecorder:
    """Unity's: records an agent, from when it is made until `close` or the end of the game.

    The file is `<folder>/<name>.demo`, or `<name>_0.demo` and so on where there is one. A record is a decision (the action in it is that
    of the decision before) or an episode's end. The file gets its name at `close`, and none comes where nothing was recorded.
    """

    def __init__(self, agent: Agent, name: str, folder: Path | str = "demonstrations") -> None:
        """Raises EnvError for an agent that was not added."""
        self._life = agent._alive("DemonstrationRecorder")
        self._name, self._folder = name, Path(folder)
        self._writer: DemoWriter | None = None
        self._life.recorders.append(self)
        agent.academy.on_close(self.close)

    @property
    def path(self) -> Path | None:
        """Where it is written; None until the first record."""
        return None if self._writer is None else self._writer.path

    def asked(self, life: AgentState, seen: Sequence[bytes], allowed: bytearray | None) -> None:
        """A record of a decision that an agent asks for."""
        mask = None if allowed is None else np.frombuffer(bytes(allowed), np.bool_)
        self._write(life, self._record(life, seen, mask, done=False, cut=False))

    def ended(self, life: AgentState, seen: Sequence[bytes], cut: bool) -> None:
        """A record of an episode's end."""
        self._write(life, self._record(life, seen, None, done=True, cut=cut))

    def close(self) -> None:
        """Finishes the file. May be called again."""
        if self in self._life.recorders:
            self._life.recorders.remove(self)
        if self._writer is not None:
            self._writer.close()

    def _record(self, life: AgentState, seen: Sequence[bytes], mask: np.ndarray | None, *, done: bool, cut: bool) -> DemoRecord:
        shapes = [obs.shape for obs in life.crowd.spec.obs]
        return DemoRecord(
            obs=tuple(np.frombuffer(view, np.float32).reshape(shape) for view, shape in zip(seen, shapes, strict=True)),
            reward=life.reward,
            group_reward=life.group_reward,
            done=done,
            truncated=cut,
            id=life.id,
            group=life.group_id,
            mask=mask,
            continuous=np.array(life.actions.continuous, np.float32),
            discrete=np.array(life.actions.discrete, np.int64),
        )

    def _write(self, life: AgentState, record: DemoRecord) -> None:
        if self._writer is None:
            crowd = life.crowd
            compressed = [sensor.name for sensor in life.sensors if len(sensor.shape) == 3 and getattr(sensor, "compressed", False)]
            self._writer = DemoWriter(free_path(self._folder, clean_name(self._name)), self._name, crowd.key, crowd.spec, compressed)
        self._writer.write(record)
