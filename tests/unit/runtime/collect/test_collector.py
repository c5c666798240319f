import copy
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
import torch
from any_env import Anything
from tiny_envs import (
    CPU,
    Bandit,
    PlainBuffer,
    Scripted,
    behavior_settings,
    episodes_of,
    plainly,
    same_episodes,
    slow_episodes,
    table,
)
from torch import Tensor

from palaestra.core.errors import NotFinite
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action, Decision, TimeStep
from palaestra.data.rollout import Rollout
from palaestra.envs.base import Env
from palaestra.models.policy import NetworkPolicy, PendingDecision
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.collect.collector_state import pack, restore, state_of, unpack
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.storage import tensor_files
from palaestra.trainers.ppo import PPO

LOOSE = {"slots": 3}
LOSING = {"slots": 3, "losses": 0.1}
STEADY = {"slots": 5, "steady": True}


class Watched(NetworkPolicy):
    """Keeps what it answered."""

    def __init__(self, policy: NetworkPolicy) -> None:
        super().__init__(policy.network, policy.generator)
        self.answers: list[tuple[TimeStep, Decision]] = []

    def choose(self, step: TimeStep) -> PendingDecision:
        decision = super().choose(step).decision()
        self.answers.append((step, decision))
        return PendingDecision(decision.action, lambda: decision)


def collector_of(env: Env, rollout_size: int | None = 20, seed: int = 0) -> Collector:
    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        trainer = PPO(spec, behavior_settings(), CPU, seed)
        return BehaviorCollector(name, spec, Watched(trainer.policy), rollout_size)

    return Collector(env, join, seed)


def sized(acting: list[list[int]], counted: list[int] | None = None) -> tuple[BehaviorCollector, list[int]]:
    """A collector of 12 slots that waits for 64 decisions of each, and its rollout's size after each of these ticks."""
    spec = BehaviorSpec((ObsSpec("seen", (1,)),), ActionSpec(continuous=1))
    collector = BehaviorCollector("Walker", spec, cast(Any, None), 120, patience=64, longest=10**6)
    if counted is not None:
        collector.counted = torch.tensor([slot in counted for slot in range(12)])
    action = Action(torch.zeros(12, 1), torch.zeros(12, 0, dtype=torch.int64))
    chosen = PendingDecision(action, lambda: Decision(action, action, torch.zeros(12, 1), torch.zeros(12, 0)))
    sizes = list[int]()
    for slots in acting:
        step = table(torch.zeros(12, 1), acting=[slot in slots for slot in range(12)])
        if collector.buffer is not None:
            collector.complete(step)
        collector.open(step, chosen)
        sizes.append(collector.rollout_size or 0)
    return collector, sizes


def test_a_rollout_waits_for_agents_that_come_later_or_decide_at_other_ticks():
    everyone = list(range(12))
    assert sized([everyone])[1] == [12 * 64]
    # one decides alone, then all: when 120 decisions are complete, twelve agents have decided
    collector, sizes = sized([[0]] + [everyone] * 11)
    assert sizes == [120] * 11 + [12 * 64]
    assert collector.agents == 12
    evens = everyone[::2]
    odds = everyone[1::2]
    assert sized([evens, odds] * 12)[1][-1] == 12 * 64


def test_a_rollout_does_not_wait_for_teams_that_take_turns():
    left = list(range(6))
    right = list(range(6, 12))
    # each side has six agents, 20 decisions of each fit
    assert sized([left] * 12 + [right] * 12, counted=right)[1][-1] == 120


def never() -> bool:
    return False


def test_a_rollout_is_given_when_it_is_full():
    env = Scripted({"Walker": STEADY})
    collector = collector_of(env)
    rollouts = collector.collect(100, never)
    assert rollouts["Walker"].shape == (4, 5)
    assert env.tick == 4
    assert collector.collectors["Walker"].decisions == 20


def test_a_rollout_has_at_least_as_many_decisions_as_asked_for():
    collector = collector_of(Scripted({"Walker": STEADY}), rollout_size=18)
    assert collector.collect(100, never)["Walker"].shape == (4, 5)


def test_memory_goes_with_its_episode_though_nobody_acts_when_that_ends():
    # often its one slot ends and does not act
    env = Anything((ObsSpec("vector", (3,)),), ActionSpec(2), areas=1, steady=False)

    def join(name: str, spec: BehaviorSpec) -> BehaviorCollector:
        network = {"memory": {"sequence_length": 4, "memory_size": 8}}
        return BehaviorCollector(name, spec, PPO(spec, behavior_settings(network=network), CPU, 0).policy, 30)

    rollout = Collector(env, join, 0).collect(500, never)["Any"]
    assert rollout.lengths is not None
    ended = (rollout.terminated | rollout.truncated)[: int(rollout.lengths) - 1, 0]
    assert 2 < ended.sum() < 20
    assert torch.equal(rollout.recurrent_state[1 : int(rollout.lengths), 0].any(1), ~ended)


class Apart(Scripted):
    """Works on a tick by itself; refuses anything else in between."""

    def send(self, actions: Mapping[str, Action]) -> None:
        self.sent = actions

    def receive(self) -> dict[str, TimeStep]:
        return super().step(self.sent)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        raise AssertionError("it sends and receives")


@pytest.mark.parametrize("seed", range(3))
def test_an_environment_that_works_by_itself_gives_the_same_rollouts(seed: int):
    streams = {"Walker": STEADY, "Talker": LOOSE, "Loser": LOSING, "Late": {"slots": 2, "grows_at": 9}}
    one, other = (collector_of(kind(streams, appears={"Late": 6}), seed=seed) for kind in (Scripted, Apart))
    for ticks in (3, 5, 1, 40, 40, 7):
        expected = one.collect(ticks, never)
        given = other.collect(ticks, never)
        assert expected.keys() == given.keys()
        for name, rollout in expected.items():
            assert_equal_rollouts(given[name], rollout)
        assert {name: part.decisions for name, part in one.collectors.items()} == {
            name: part.decisions for name, part in other.collectors.items()
        }


def assert_equal_rollouts(given: Rollout, expected: Rollout) -> None:
    for name in Rollout.__slots__:
        for a, b in zip(columns_of(getattr(given, name)), columns_of(getattr(expected, name)), strict=True):
            assert torch.equal(a, b), name


def columns_of(value: Any) -> list[Tensor]:
    if value is None:
        return []
    if isinstance(value, Action):
        return [value.continuous, value.discrete]
    return list(value) if isinstance(value, tuple) else [value]


def test_collecting_stops_after_so_many_ticks_or_when_told():
    collector = collector_of(Scripted({"Walker": STEADY}), rollout_size=1000)
    assert collector.collect(7, never) == {}
    assert collector.collectors["Walker"].decisions == 35
    assert collector.collect(7, lambda: True) == {}
    assert collector.collectors["Walker"].decisions == 40


@pytest.mark.parametrize("seed", range(3))
def test_each_behavior_fills_rollouts_of_its_own(seed: int):
    streams = {"Walker": STEADY, "Talker": LOOSE, "Loser": LOSING, "Late": {"slots": 2, "grows_at": 9}}
    env = Scripted(streams, appears={"Late": 6})
    collector = collector_of(env, seed=seed)
    taken: dict[str, list[tuple[int, Rollout]]] = {name: [] for name in streams}
    while env.tick < 90:
        for name, rollout in collector.collect(100, never).items():
            taken[name].append((env.tick, copy.deepcopy(rollout)))
    for name, rollouts in taken.items():
        policy = collector.collectors[name].policy
        assert isinstance(policy, Watched)
        plain = PlainBuffer()
        answers = iter(policy.answers)
        ends = dict(rollouts)
        for tick, tables in enumerate(env.tables):
            if name not in tables:
                continue
            plain.complete(tables[name])
            if tick in ends:
                assert plain.decisions >= 20
                assert plainly(ends[tick]) == plain.take(tables[name])
            assert plain.decisions < 20
            if tick < env.tick and tables[name].acting.any():
                plain.open(*next(answers))
        assert len(rollouts) > 1
        assert next(answers, None) is None


def test_returns_and_lengths_of_episodes_are_right_for_every_behavior():
    streams = {"Walker": STEADY, "Talker": LOOSE, "Loser": LOSING, "Late": {"slots": 2, "grows_at": 9}}
    env = Scripted(streams, appears={"Late": 6})
    collector = collector_of(env)
    for _ in range(30):
        collector.collect(5, never)
    for name in streams:
        tables = [tables[name] for tables in env.tables if name in tables]
        same_episodes(episodes_of(collector.collectors[name].meter.take()), slow_episodes(tables))


def test_a_behavior_that_appears_while_another_is_absent_is_welcomed():
    env = Scripted({"Talker": LOOSE, "Late": LOOSE}, appears={"Late": 3}, absent={"Talker": 3})
    collector = collector_of(env)
    collector.collect(10, never)
    assert env.tick == 3  # what is due is reckoned anew
    collector.collect(10, never)
    assert set(collector.collectors) == {"Talker", "Late"}
    assert collector.collectors["Late"].decisions > 0


@pytest.mark.parametrize("slots", [2, 5, 7])
def test_a_behavior_that_is_absent_after_a_reset_begins_anew_in_any_number_of_slots(slots: int):
    env = Scripted({"Talker": LOOSE, "Late": {"slots": 5}}, appears={"Late": 3})
    collector = collector_of(env)
    for _ in range(10):
        collector.collect(5, never)
    late = collector.collectors["Late"]
    late.meter.take()
    late.counted = torch.ones(5, dtype=torch.bool)
    env.made["Late"] = {"slots": slots}
    collector.restart(1)
    assert (late.meter.slots, late.counted) == (0, None)
    for _ in range(10):
        collector.collect(5, never)
    tables = [tables["Late"] for tables in env.tables if "Late" in tables]
    same_episodes(episodes_of(late.meter.take()), slow_episodes(tables))


class Asked(Scripted):
    """Notes for which behaviors actions came."""

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.asked: list[set[str]] = []
        return super().reset(seed)

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        self.asked.append(set(actions))
        return super().step(actions)


@pytest.mark.parametrize("rollout_size", [10, None])
def test_a_behavior_in_which_nobody_acts_is_not_asked_and_gets_no_actions(rollout_size: int | None):
    env = Asked({"Lonely": {"slots": 1}, "Walker": STEADY})
    collector = collector_of(env, rollout_size)
    for _ in range(20):
        collector.collect(5, never)
    acting = [{name for name, step in tables.items() if step.acting.any()} for tables in env.tables]
    assert env.asked == acting[:-1]
    assert {"Walker"} in acting
    lonely = collector.collectors["Lonely"].policy
    assert isinstance(lonely, Watched)
    assert len(lonely.answers) == sum("Lonely" in names for names in acting[:-1])


def test_what_is_lost_leaves_the_rollout_but_not_the_count_of_decisions():
    env = Scripted({"Loser": {"slots": 4, "losses": 0.2}})
    collector = collector_of(env, rollout_size=10**6)
    counts = [0]
    fullness = [0]
    for _ in range(200):
        collector.collect(1, never)
        part = collector.collectors["Loser"]
        assert part.buffer is not None
        counts.append(part.decisions)
        fullness.append(part.buffer.decisions)
    assert counts == sorted(counts)
    assert fullness != sorted(fullness)
    assert counts[-1] > fullness[-1]


def test_a_behavior_that_learns_no_more_goes_on_being_counted():
    collector = collector_of(Scripted({"Walker": STEADY, "Talker": LOOSE}), rollout_size=1000)
    collector.collect(10, never)
    before = {name: part.decisions for name, part in collector.collectors.items()}
    for part in collector.collectors.values():
        part.rollout_size = None
        part.buffer = None
    collector.collect(10, never)
    assert collector.collectors["Walker"].decisions == before["Walker"] + 50
    assert collector.collectors["Talker"].decisions > before["Talker"]


def test_a_seat_that_does_not_learn_acts_and_keeps_nothing():
    collector = collector_of(Scripted({"Walker": STEADY}), rollout_size=None)
    assert collector.collect(9, never) == {}
    assert collector.collectors["Walker"].buffer is None
    assert len(collector.collectors["Walker"].meter.take().returns) > 0


def test_time_is_told_by_where_it_went():
    collector = collector_of(Scripted({"Walker": STEADY}))
    collector.collect(3, never)
    assert collector.seconds["environment"] > 0
    assert collector.seconds["inference"] > 0


class Broken(Bandit):
    """A NaN in a truncated episode's last view."""

    def _table(self, reward: Tensor, ended: bool) -> TimeStep:
        step = super()._table(reward, ended)
        values = {name: getattr(step, name) for name in step.__slots__}
        for view in step.final_obs.obs:
            view[:, 1] = torch.nan
        return TimeStep(**{**values, "terminated": step.truncated, "truncated": step.terminated})


def test_a_last_view_that_is_no_number_never_reaches_a_trainer():
    collector = collector_of(Broken(4, continuous=1))
    with pytest.raises(
        NotFinite, match=r"behavior 'Bandit', agent 0: at a truncated episode's end, observation 'o0'\[1\] is nan"
    ):
        collector.collect(100, never)


SETTINGS: dict[str, Any] = {
    "hyper": {"batch_size": 16, "buffer_size": 96, "learning_rate": 1e-3},
    "network": {"normalize": True},
}


class Training:
    """Collector and trainer, as a run joins them."""

    def __init__(self, env: Env, seed: int, **settings: Any) -> None:
        self.env = env
        self.ticks = 0
        self.trainers: dict[str, PPO] = {}
        self.settings = {**SETTINGS, **settings}
        self.collector = Collector(env, self._join, seed)

    def _join(self, name: str, spec: BehaviorSpec) -> BehaviorCollector:
        trainer = PPO(spec, behavior_settings(**self.settings), CPU, 7)
        self.trainers[name] = trainer
        return BehaviorCollector(name, spec, trainer.policy, trainer.rollout_size)

    def go_on(self, until: int) -> None:
        while self.ticks < until:
            rollouts = self.collector.collect(1, never)
            self.ticks += 1
            for name, rollout in rollouts.items():
                self.trainers[name].update(rollout, self.collector.collectors[name].decisions)
                self.collector.collectors[name].meter.take()
        for part in self.collector.collectors.values():
            part.meter.take()

    def state(self) -> dict[str, Any]:
        return {
            "collector": state_of(self.collector),
            "trainers": {name: t.state_dict() for name, t in self.trainers.items()},
        }

    def load(self, state: dict[str, Any], seed: int) -> bool:
        restored = restore(self.collector, state["collector"], seed)
        for name, trainer in self.trainers.items():
            trainer.load_state_dict(state["trainers"][name])
            self.collector.collectors[name].decisions = state["collector"]["behaviors"][name]["decisions"]
        return restored


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint gives back."""
    tensors: dict[str, Tensor] = {}
    rest = json.loads(json.dumps(tensor_files.flatten(state, tensors)))
    return tensor_files.restore(rest, {name: tensor.clone() for name, tensor in tensors.items()})


def tensors_of(training: Training) -> dict[str, Any]:
    tensors: dict[str, Tensor] = {}
    rest = tensor_files.flatten(training.state(), tensors)
    return {**tensors, "": json.dumps(rest)}


def equal(found: Training, expected: Training) -> None:
    mine = tensors_of(found)
    theirs = tensors_of(expected)
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.equal(mine[name], value) if isinstance(value, Tensor) else mine[name] == value, name


@pytest.mark.parametrize(
    ("make", "stop", "end", "settings"),
    [
        (lambda: make_env("builtin:3DBall", areas=6), 37, 70, {}),
        (lambda: make_env("builtin:3DBall", areas=6), 48, 70, {}),  # just after an update
        (lambda: make_env("builtin:Basic", areas=8), 29, 60, {"extrinsic": {"normalize": True}}),
        (lambda: make_env("builtin:GridWorld", areas=3), 35, 66, {"hyper": {"batch_size": 16, "buffer_size": 48}}),
        (lambda: Bandit(6, continuous=1, branches=(3,)), 21, 50, {}),
    ],
    ids=["3DBall", "3DBall after an update", "Basic", "GridWorld", "Bandit"],
)
def test_a_run_that_was_interrupted_gives_the_tensors_of_one_that_was_not(
    make: Any, stop: int, end: int, settings: dict[str, Any]
):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    whole, first, second = (Training(make(), seed, **settings) for seed in (0, 0, 5))
    whole.go_on(end)
    first.go_on(stop)
    assert second.load(through_a_file(first.state()), seed=5)
    second.ticks = stop
    equal(second, first)
    second.go_on(end)
    equal(second, whole)
    assert any(t.optimizer.state_dict()["steps"][0] > 0 for t in whole.trainers.values())
    torch.set_num_threads(threads)


def test_an_environment_that_cannot_be_saved_starts_anew_and_everything_else_goes_on():
    streams = {"Walker": STEADY, "Talker": LOOSE}
    old = Training(Scripted(streams), 0)
    new = Training(Scripted(streams), 1)
    old.go_on(30)
    assert new.load(through_a_file(old.state()), seed=2) is False
    for name, part in old.collector.collectors.items():
        assert new.collector.collectors[name].decisions == part.decisions > 0
        assert torch.equal(new.trainers[name].parameters[0], old.trainers[name].parameters[0])
    new.go_on(40)
    assert new.collector.collectors["Walker"].decisions > old.collector.collectors["Walker"].decisions


def test_another_number_of_areas_starts_new_episodes():
    old = Training(make_env("builtin:Basic", areas=4), 0)
    new = Training(make_env("builtin:Basic", areas=6), 0)
    old.go_on(5)
    assert new.load(through_a_file(old.state()), seed=1) is False
    new.go_on(30)
    assert new.collector.collectors["Basic"].decisions == 20 + 30 * 6


class Growing(Scripted):
    """The same, and can be saved: all of it is the tick it is at."""

    def state_dict(self) -> dict[str, Tensor]:
        return {"tick": torch.tensor([self.seed, self.tick])}

    def reset(self, seed: int) -> dict[str, TimeStep]:
        self.seed = seed
        return super().reset(seed)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        seed, ticks = state["tick"].tolist()
        self.reset(seed)
        for _ in range(ticks):
            self.step({})


@pytest.mark.parametrize("stop", [20, 33])
def test_a_run_whose_slots_have_become_more_and_whose_episodes_were_lost_goes_on_bit_for_bit(stop: int):
    streams = {"Talker": {"slots": 2, "grows_at": 9, "losses": 0.1}}
    whole, first, second = (Training(Growing(streams), seed) for seed in (0, 0, 5))
    whole.go_on(70)
    first.go_on(stop)
    assert second.load(through_a_file(first.state()), seed=5)
    second.ticks = stop
    equal(second, first)
    second.go_on(70)
    equal(second, whole)


def test_a_run_with_behaviors_that_are_not_there_yet_starts_new_episodes():
    streams = {"Walker": STEADY, "Late": LOOSE}
    late = {"Late": 5}
    old = Training(Growing(streams, late), 0)
    new = Training(Growing(streams, late), 0)
    old.go_on(20)
    assert restore(new.collector, through_a_file(old.state())["collector"], seed=1) is False
    assert set(new.collector.collectors) == {"Walker"}
    assert new.collector.collectors["Walker"].decisions == 0  # which a run knows, as ranks may share them
    new.go_on(20)
    assert new.collector.collectors["Late"].decisions > 0
    assert new.collector.collectors["Walker"].decisions == 100


def test_tables_from_before_episodes_could_be_lost_are_read():
    collector = collector_of(Scripted({"Talker": LOSING}))
    collector.collect(30, never)
    packed = pack(collector.steps["Talker"])
    assert unpack(packed) == collector.steps["Talker"]
    del packed["lost"]
    assert unpack(packed).lost is None


def test_a_run_that_moves_between_cpu_and_accelerator_starts_new_episodes():
    old = Training(make_env("builtin:Basic", areas=4), 0)
    new = Training(make_env("builtin:Basic", areas=4), 0)
    old.go_on(5)
    state = through_a_file(old.state())
    state["collector"]["on_host"] = False
    assert new.load(state, seed=1) is False
    new.go_on(30)
    assert new.collector.collectors["Basic"].decisions == 20 + 30 * 4


@pytest.mark.parametrize("buffer_size", [8, 48, 200])
def test_a_run_goes_on_with_another_buffer_size(buffer_size: int):
    old = Training(make_env("builtin:Basic", areas=4), 0)
    old.go_on(13)
    new = Training(make_env("builtin:Basic", areas=4), 0, hyper={"batch_size": 8, "buffer_size": buffer_size})
    assert new.load(through_a_file(old.state()), seed=1)
    new.go_on(60)
    assert new.collector.collectors["Basic"].decisions == 13 * 4 + 60 * 4


def test_looking_at_a_policys_shapes_leaves_its_random_numbers_where_they_were():
    training = Training(make_env("builtin:Basic", areas=4), 0)
    training.go_on(3)
    state = through_a_file(training.state())
    other = Training(make_env("builtin:Basic", areas=4), 0)
    other.trainers["Basic"].load_state_dict(state["trainers"]["Basic"])
    before = other.trainers["Basic"].action_rng.get_state()
    restore(other.collector, state["collector"], 0)
    assert torch.equal(other.trainers["Basic"].action_rng.get_state(), before)


def test_of_staggered_episodes_only_whole_ones_are_told_after_a_resume_too():
    def collector() -> Collector:
        env = make_env("builtin:Match3", areas=8)
        policy = PPO(env.behaviors["Match3VectorObs"], behavior_settings(), CPU, 0).policy
        return Collector(env, lambda name, spec: BehaviorCollector(name, spec, policy, None), 3, (), stagger=True)

    first = collector()
    first.collect(300, never)
    told = [first.collectors["Match3VectorObs"].meter.take()]
    second = collector()
    assert restore(second, through_a_file(state_of(first)), 4)
    second.collect(600, never)
    told.append(second.collectors["Match3VectorObs"].meter.take())
    lengths = [length for episodes in told for length in episodes.lengths.tolist()]
    assert lengths == [500] * len(lengths)
    assert 4 < len(lengths) < 16
