"""Records demonstrations of an agent in the format of Unity's recorder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from palaestra.demos.format import DemoRecord, clean_name
from palaestra.demos.writer import DemoWriter, free_path
from palaestra.sdk.agents.academy import Agent
from palaestra.sdk.agents.observation_queue import spec_of


class DemonstrationRecorder:
    """Records an agent, as Unity's class does, from construction until `close` or the end of the game.

    The file is `<folder>/<name>.demo`, or `<name>_0.demo` and so on if it exists. A record is a decision, with the
    action of the decision before it, or an episode's end. The file gets its name at `close`; no file is written if
    nothing was recorded.
    """

    def __init__(self, agent: Agent, name: str, folder: Path | str = "demonstrations") -> None:
        """Starts to record. Raises EnvError for an agent that was not added."""
        self._agent_state = agent._require_state("DemonstrationRecorder")
        self._name = name
        self._folder = Path(folder)
        self._writer: DemoWriter | None = None
        self._agent_state.recorders.append(self)
        agent.academy.on_close(self.close)

    @property
    def path(self) -> Path | None:
        """Path of the file; None until the first record."""
        return None if self._writer is None else self._writer.path

    def record(
        self, obs_bytes: Sequence[bytes], allowed: bytearray | None, *, done: bool = False, truncated: bool = False
    ) -> None:
        """Records a decision request, or with `done` the end of an episode."""
        state = self._agent_state
        if self._writer is None:
            images = [sensor for sensor in state.sensors if len(sensor.shape) == 3]
            compressed = [sensor.name for sensor in images if getattr(sensor, "compressed", False)]
            path = free_path(self._folder, clean_name(self._name))
            self._writer = DemoWriter(path, self._name, state.behavior.key, spec_of(state), compressed)
        columns = zip(obs_bytes, state.sensors, strict=True)
        self._writer.write(
            DemoRecord(
                obs=tuple(np.frombuffer(each, np.float32).reshape(sensor.shape) for each, sensor in columns),
                reward=state.reward,
                group_reward=state.group_reward,
                done=done,
                truncated=truncated,
                id=state.id,
                group=state.group_id,
                mask=None if allowed is None else np.frombuffer(bytes(allowed), np.bool_),
                continuous=np.array(state.actions.continuous, np.float32),
                discrete=np.array(state.actions.discrete, np.int64),
            )
        )

    def close(self) -> None:
        """Finishes the file. May be called again."""
        if self in self._agent_state.recorders:
            self._agent_state.recorders.remove(self)
        if self._writer is not None:
            self._writer.close()
