"""Small games for tests of the SDK: agents that note what happens to them, and what an academy says as plain values."""

from collections.abc import Mapping

import numpy as np

from palaestra import sdk
from palaestra.sdk.agents.academy import AgentT
from palaestra.sdk.protocol.exchange import AgentActions, AgentOutputs


class Walker(sdk.Agent):
    """Sees where it is and its steps; goes where it is told. `log` has the methods called, in order."""

    behavior = sdk.Behavior("Walker", observations=2, continuous=1)
    decision_period = 1

    def __init__(self, **settings: object) -> None:
        self.at = 0.0
        self.log = []
        for name, value in settings.items():
            setattr(self, name, value)

    def initialize(self) -> None:
        self.log.append("initialize")

    def on_episode_begin(self) -> None:
        self.log.append("begin")
        self.at = 0.0

    def collect_observations(self, sensor: sdk.VectorSensor) -> None:
        self.log.append("observe")
        sensor.add(self.at, self.step_count)

    def on_action_received(self, actions: sdk.Actions) -> None:
        self.log.append(("act", *actions.continuous, *actions.discrete))
        self.at += sum(actions.continuous)


def rows(outputs: Mapping[str, AgentOutputs]) -> list[tuple]:
    """A tuple an agent: its number, 'asks', 'ended' or 'truncated', its reward, and what its first sensor saw."""
    out = []
    for one in outputs.values():
        infos = one.infos
        for row, id in enumerate(infos.id.tolist()):
            what = "asks" if not infos.done[row] else "truncated" if infos.truncated[row] else "ended"
            out.append((id, what, float(infos.reward[row]), one.obs[0][row].ravel().tolist()))
    return out


def same_actions(
    outputs: Mapping[str, AgentOutputs], continuous: float = 0.0, discrete: int = 0
) -> dict[str, AgentActions]:
    """The same action for all that asked."""
    out = {}
    for key, one in outputs.items():
        asking = int((~one.infos.done).sum())
        action = one.spec.action
        out[key] = AgentActions(
            np.full((asking, action.continuous), continuous, np.float32),
            np.full((asking, len(action.branches)), discrete, np.int64),
        )
    return out


def advance(game: sdk.Academy | sdk.Areas) -> dict[str, AgentOutputs]:
    """Steps until an agent asks or ends."""
    if isinstance(game, sdk.Areas):
        return game.advance()
    game.run()
    return game.observation_queue.take()


def answer(game: sdk.Academy | sdk.Areas, actions: Mapping[str, AgentActions]) -> None:
    """Finishes the step with these actions."""
    if isinstance(game, sdk.Areas):
        game.answer(actions)
        return
    game.observation_queue.answer(actions)
    game.finish()


def begun(agent: AgentT) -> tuple[sdk.Academy, AgentT, dict[str, AgentOutputs]]:
    """An academy with this agent, which has asked for its first decision."""
    academy = sdk.Academy()
    academy.add(agent)
    return academy, agent, advance(academy)


def exchange(
    game: sdk.Academy | sdk.Areas, outputs: Mapping[str, AgentOutputs], continuous: float = 0.0, discrete: int = 0
) -> dict[str, AgentOutputs]:
    """Answers and goes on to the next exchange."""
    answer(game, same_actions(outputs, continuous, discrete))
    return advance(game)
