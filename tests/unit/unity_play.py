"""A trainer's side of a test game: an environment on a free port, policies of a line or two, and what a run counted."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from unity_client import Client
from unity_games import Game

from palaestra.core.specs import BehaviorSpec
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.models.policy import PendingDecision
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.wire.server import Call


def free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


@dataclass
class MessageLog:
    """Messages of an environment to its user, each with its time."""

    lines: list[tuple[float, str, str]] = field(default_factory=list)  # time.monotonic(), level, text

    def __call__(self, level: str, text: str) -> None:
        self.lines.append((time.monotonic(), level, text))

    @property
    def warnings(self) -> list[str]:
        return [text for _, level, text in self.lines if level == "warning"]


@contextmanager
def opened(tell: Callable[[str, str], None] | None = None, **options: Any) -> Iterator[UnityEnv]:
    """An environment that is closed in the end; without `executable` it waits for an Editor on a free port."""
    if options.get("executable") is None:
        options.setdefault("editor_port", free_port())
    env = UnityEnv(UnityOptions(**options), (), tell or MessageLog())
    try:
        yield env
    finally:
        env.close()


class Direct(Client):
    """Speaks to an environment of this process without a connection: its messages go where the server's go."""

    def __init__(self, env: UnityEnv, copy: int = 0) -> None:
        self.port = 0
        self.patience = 60.0
        self.closed = threading.Event()
        self._inbox = env.inbox
        self._copy = copy

    def connect(self) -> None:
        """There is nothing to connect."""

    def exchange_bytes(self, raw: bytes, patience: float | None = None) -> bytes:
        call = Call(self._copy, "direct", raw)
        self._inbox.put(call)
        answer = call.wait()
        if answer is None:
            raise ConnectionError("the trainer ended the call")
        return answer

    def close(self) -> None:
        self.closed.set()


class Player:
    """A game in a thread of its own. `wait` raises what the game raised."""

    def __init__(self, game: Game, client: Client) -> None:
        self.game = game
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(client,), daemon=True)
        self._thread.start()

    def _run(self, client: Client) -> None:
        try:
            self.game.run(client)
        except BaseException as error:
            self._error = error

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float = 30) -> Game:
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        assert self.over, "the game still plays"
        return self.game


class EchoPolicy:
    """Acts as the crowd's `echo` wants it: out of the first number of what an agent sees. Masks do not count."""

    def __init__(self, spec: BehaviorSpec) -> None:
        self.action = spec.action
        self.generator = torch.Generator().manual_seed(1)

    def choose(self, step: TimeStep) -> PendingDecision:
        made = self.decide(step)
        return PendingDecision(made.action, lambda: made)

    def see(self, step: TimeStep) -> None:
        """It remembers nothing."""

    def decide(self, step: TimeStep) -> Decision:
        x = step.obs[0][:, 0]
        continuous = x[:, None].repeat(1, self.action.continuous)
        return decision(continuous, [(64 * x.abs()).round().long() % size for size in self.action.branches])


class RandomPolicy(EchoPolicy):
    """Draws among what is allowed."""

    def decide(self, step: TimeStep) -> Decision:
        continuous = torch.rand(len(step.reward), self.action.continuous, generator=self.generator) * 2 - 1
        masks = () if step.action_mask is None else step.action_mask.split(self.action.branches, 1)
        drawn = [torch.multinomial(mask.float(), 1, generator=self.generator)[:, 0] for mask in masks]
        return decision(continuous, drawn)


def decision(continuous: torch.Tensor, branches: list[torch.Tensor]) -> Decision:
    """With log probabilities of nothing."""
    discrete = torch.stack(branches, 1) if branches else torch.zeros(len(continuous), 0, dtype=torch.int64)
    action = Action(continuous, discrete)
    return Decision(
        action,
        action,
        torch.zeros(len(continuous), continuous.shape[1] + len(branches)),
        torch.zeros(len(continuous), 0),
    )


@dataclass
class Count:
    """What the runtime counted of one behavior."""

    episodes: int = 0
    returns: float = 0.0
    group_returns: float = 0.0
    length: int = 0
    completed: int = 0


class Run:
    """A collector whose policies learn nothing, and what it counts."""

    def __init__(self, env: UnityEnv, policy: type[EchoPolicy], rollout: int = 256) -> None:
        self.counts: dict[str, Count] = {}
        self._policy = policy
        self._rollout = rollout
        self.collector = Collector(env, self._join, seed=3)

    def _join(self, name: str, spec: BehaviorSpec) -> BehaviorCollector:
        self.counts[name] = Count()
        return BehaviorCollector(name, spec, self._policy(spec), self._rollout)  # pyright: ignore[reportArgumentType]

    def until(self, done: Callable[[], bool]) -> Mapping[str, Count]:
        """Collects until `done()`; rollouts are taken and dropped."""
        while not done():
            self.collector.collect(256, done)
            for name, part in self.collector.collectors.items():
                self._count(self.counts[name], part)
        return self.counts

    @staticmethod
    def _count(count: Count, part: BehaviorCollector) -> None:
        episodes = part.meter.take()
        count.episodes += len(episodes.returns)
        count.returns += float(episodes.returns.sum())
        count.group_returns += float(episodes.group_returns.sum())
        count.length += int(episodes.lengths.sum())
        count.completed = part.decisions


class Play:
    """A run with a clock: it never waits for ever."""

    def __init__(self, env: UnityEnv, run: Run) -> None:
        self.env = env
        self.run = run

    def count(self, name: str) -> Count:
        return self.run.counts[name]

    def for_seconds(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.run.until(lambda: time.monotonic() > deadline)

    def until(self, done: Callable[[], bool], seconds: float) -> None:
        """Fails where that takes longer."""
        deadline = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, f"not after {seconds} s"
            self.for_seconds(0.05)


@dataclass
class Work:
    """What a thread gave back."""

    result: Any = None
    error: BaseException | None = None
    over: bool = False


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator[Work]:
    """Work beside the block, waited for at its end; what it raises is raised there."""
    done = Work()

    def run() -> None:
        try:
            done.result = work()
        except BaseException as error:
            done.error = error
        finally:
            done.over = True

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield done
    thread.join(180)
    assert not thread.is_alive(), "it still works"
    if done.error is not None:
        raise done.error


def played_beside(env: UnityEnv, work: Callable[[], Any]) -> Play:
    """A run that went on until the work in a thread of its own was done."""
    with in_thread(work) as done:
        play = Play(env, Run(env, RandomPolicy, rollout=64))
        while not done.over:
            play.for_seconds(0.02)
    return play


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.005)


def sleeper(folder: Path) -> Path:
    """A build that never connects."""
    build = folder / "Game.x86_64"
    build.write_text("#!/bin/sh\nexec sleep 600\n")
    build.chmod(0o755)
    return build
