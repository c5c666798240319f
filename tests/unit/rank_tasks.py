"""What the processes of `test_ranks.py` do: `python rank_tasks.py TASK FILE`, with the environment variables of a
rank.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import fields, is_dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import demo_files
import torch
from duel_env import Duel
from small_runs import settings, state
from tiny_envs import Scripted
from torch import Tensor

import palaestra
from palaestra.core.errors import ConfigError, FolderLost
from palaestra.core.timestep import Action, TimeStep
from palaestra.data.replay import Replay, ReplayBatch
from palaestra.data.rollout import Rollout
from palaestra.parallel import ranks
from palaestra.parallel.rank_group import RankGroup
from palaestra.parallel.rank_setup import must_have_same, split
from palaestra.parallel.several_ranks import SeveralRanks
from palaestra.parallel.shared_sums import ORDERED
from palaestra.rewards.signal_optimizer import SignalOptimizer
from palaestra.runtime.collect.collector import BehaviorCollector, Collector
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import load
from palaestra.trainers.base import Trainer, make_trainer
from palaestra.trainers.sac import SAC

AREAS = 4
WHOLE = {"batch_size": 100_000, "num_epoch": 1, "buffer_size": 96}
"""One minibatch, so that its order does not matter."""
SMALL = {"hidden_units": 16, "num_layers": 1, "normalize": True}
MEMORY = {**SMALL, "memory": {"memory_size": 8, "sequence_length": 4}}
NORMALIZED = {"extrinsic": {"normalize": True}}
DEMO = "shown.demo"
"""One decision, so that whatever is drawn from it is the same: also its pair of states."""
SLOW = {"buffer_init_steps": 1 << 20, "learning_rate": 1e-3}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("3DBall", {"hyperparameters": WHOLE, "network_settings": SMALL, "reward_signals": NORMALIZED}),
    "ppo-lstm": ("Hallway", {"hyperparameters": WHOLE, "network_settings": MEMORY}),
    "poca": ("DungeonEscape", {"trainer_type": "poca", "hyperparameters": WHOLE, "network_settings": SMALL}),
    "poca-lstm": ("DungeonEscape", {"trainer_type": "poca", "hyperparameters": WHOLE, "network_settings": MEMORY}),
    "rnd": (
        "3DBall",
        {
            "hyperparameters": WHOLE,
            "network_settings": SMALL,
            "reward_signals": {**NORMALIZED, "rnd": {"normalize": True}},
        },
    ),
    "curiosity": (
        "Basic",
        {"hyperparameters": WHOLE, "network_settings": SMALL, "reward_signals": {"extrinsic": {}, "curiosity": {}}},
    ),
    "gail-amp": (
        "3DBall",
        {
            "hyperparameters": WHOLE,
            "network_settings": SMALL,
            "reward_signals": {
                **NORMALIZED,
                "gail": {"demo_path": DEMO, "use_actions": True},
                "amp": {"clips": DEMO, "kept_pairs": 0},  # else each rank draws its own
            },
            "behavioral_cloning": {"demo_path": DEMO},
        },
    ),
    "bc": (
        "Basic",
        {"trainer_type": "bc", "hyperparameters": {**WHOLE, "teacher": "heuristic"}, "network_settings": SMALL},
    ),
    "bc-lstm": (
        "Hallway",
        {"trainer_type": "bc", "hyperparameters": {**WHOLE, "teacher": "heuristic"}, "network_settings": MEMORY},
    ),
    # choices, since noise of the gradient would be drawn by each rank for itself
    "sac": (
        "Basic",
        {
            "trainer_type": "sac",
            "hyperparameters": SLOW,
            "network_settings": SMALL,
            "reward_signals": {**NORMALIZED, "rnd": {"normalize": True}},
        },
    ),
}


def own_number() -> int:
    """Returns this rank's number."""
    return int(os.environ["RANK"])


def updated(case: str, group: RankGroup) -> dict[str, Tensor]:
    """Returns all numbers of a trainer after one update with a rollout of 4 areas, or with a rank's half of it."""
    rank = group.number if group.size > 1 else None
    env_name, block = CASES[case]
    env = make_env(env_name, areas=AREAS)
    env.reset(0)
    demo_files.write(
        Path(DEMO), demo_files.episodes(1, spec=env.behaviors[env_name]), env.behaviors[env_name], f"{env_name}?team=0"
    )
    loaded = load(settings(env_name, 1000, **block)).settings
    behavior = loaded.behaviors[env_name]
    trainers: list[Trainer] = []

    def join(name: str, spec: Any) -> BehaviorCollector:
        trainers.append(make_trainer(spec, behavior, torch.device("cpu"), 3, group))
        trainer = trainers[0]
        trainer.policy.generator.manual_seed(11)  # the ranks' own differ
        return BehaviorCollector(name, spec, trainer.policy, 24 * AREAS, trainer.needs)

    collector = Collector(env, join, 5)
    rollout = collector.collect(1000, lambda: False)[env_name]
    if case.startswith(
        "poca"
    ):  # where nothing was paid, or mirrored units cancel out, Adam would make steps of rounding errors
        random = torch.Generator().manual_seed(1)
        rollout = replace(rollout, group_reward=torch.rand(rollout.reward.shape, generator=random))
        trainers[0].state_dict()["network"]["value_head.context_head.weight"].normal_(generator=random)
    whole = rollout
    if rank is not None:
        slots = rollout.reward.shape[1] // 2
        rollout = part(rollout, slice(rank * slots, (rank + 1) * slots))
    trainers[0].update(rollout, 100)
    if isinstance(trainers[0], SAC):
        learn_from_draw(trainers[0], whole, rank)
    state = trainers[0].state_dict()
    if case.startswith(
        "poca"
    ):  # attention is the same whatever is added to all keys, so these have no gradient but rounding errors
        keys, _ = state["network"]["value_head.key_value.bias"].chunk(2)
        keys.zero_()
    return numbers(
        {"network": state["network"], "optimizer": state["optimizer"], "signals": learned(state.get("signals", {}))}
    )


def learn_from_draw(trainer: SAC, rollout: Rollout, rank: int | None) -> None:
    """Takes the steps that SAC takes with what it draws from its replay: here with the same draw, or a rank's half of
    it.
    """
    replay = Replay(trainer.network.spec, 1000, torch.device("cpu"))
    replay.add(rollout, trainer.network.for_environment(rollout.sample), rollout.reward)
    batch = replay.draw(64, torch.Generator().manual_seed(1))
    batch = batch if rank is None else half(batch, rank)
    trainer.gradient(batch, trainer, trainer.metrics)
    trainer.signals.learn(batch.transitions())


def half(batch: ReplayBatch, rank: int) -> ReplayBatch:
    """Returns a rank's half of decisions that were drawn one by one."""
    n = len(batch.reward) // 2
    mine = slice(rank * n, (rank + 1) * n)
    after = slice(2 * n + mine.start, 2 * n + mine.stop)
    obs = tuple(torch.cat([x[mine], x[after]]) for x in batch.obs)
    masks = None if batch.masks is None else torch.cat([batch.masks[mine], batch.masks[after]])
    action = replace(batch.action, continuous=batch.action.continuous[mine], discrete=batch.action.discrete[mine])
    columns = {name: getattr(batch, name)[mine] for name in ("reward", "terminated", "ended")}
    return replace(batch, obs=obs, masks=masks, now=slice(0, n), after=slice(n, 2 * n), action=action, **columns)


def learned(signals: Mapping[str, Any]) -> dict[str, Any]:
    """Returns weights and scales of signals, without sums of open episodes, which each rank has of its own."""
    found: dict[str, Any] = {}
    for name, saved in signals.items():
        found[name] = {key: value for key, value in saved.get("network", {}).items() if key in ("weights", "optimizer")}
        found[name] |= {key: torch.tensor(saved["scale"][key]) for key in ("count", "mean", "m2") if "scale" in saved}
    return found


def numbers(state: Any, path: str = "") -> dict[str, Tensor]:
    """Returns the tensors of a nested state by path."""
    if isinstance(state, Tensor):
        return {path: state.clone()}
    items = state.items() if isinstance(state, Mapping) else enumerate(state) if isinstance(state, list | tuple) else ()
    return {key: value for name, item in items for key, value in numbers(item, f"{path}.{name}").items()}


def part(rollout: Rollout, slots: slice) -> Rollout:
    """Returns the rollout of some slots."""
    time, whole = rollout.reward.shape

    def cut(value: Any) -> Any:
        if isinstance(value, Tensor):
            return (
                value[:, slots]
                if value.shape[:2] == (time, whole)
                else value[slots]
                if value.shape[:1] == (whole,)
                else value
            )
        if isinstance(value, tuple):
            return tuple(map(cut, value))
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{field.name: cut(getattr(value, field.name)) for field in fields(value)})
        return value

    kept = {
        field.name: cut(getattr(rollout, field.name)) for field in fields(rollout) if not field.name.startswith("final")
    }
    mine = (rollout.final_rows % whole >= slots.start) & (rollout.final_rows % whole < slots.stop)
    rows = rollout.final_rows[mine]
    rows = rows // whole * (slots.stop - slots.start) + rows % whole - slots.start
    return replace(rollout, **kept, final_rows=rows, final_obs=tuple(obs[mine] for obs in rollout.final_obs))


def stepped(group: RankGroup) -> Tensor:
    """Returns a signal's weights after steps with 8 rows, of which rank 0 of 2 has 6."""
    rows = torch.arange(1.0, 9.0).square().unsqueeze(1)
    if group.size > 1:
        rows = rows[:6] if group.leads else rows[6:]
    optimizer = SignalOptimizer(lambda: torch.nn.Linear(1, 4), torch.device("cpu"), 0.1, 3, group)
    for _ in range(3):  # Adam's first step is of the same size whatever the gradient
        optimizer.step((optimizer.network(rows) - rows.sqrt()).square().mean(), len(rows))
    return optimizer.network.weight.detach().clone()


def update_all(file: str, group: RankGroup) -> None:
    """Saves what rank 0 has after the update of each case."""
    found = {case: updated(case, group) for case in CASES}
    uneven = stepped(group)
    if group.leads:
        torch.save(uneven, f"{file}.uneven")
        torch.save(found, file)


def exchange(file: str, group: RankGroup) -> None:
    """Saves what each call gives."""
    own = torch.tensor([1.0, 2.0]) * (group.number + 1)
    group.average([own], rows=group.number + 1)
    assert isinstance(group, SeveralRanks)
    assert group.sums is not None or not ORDERED
    sums = group.sums
    group.sums = None
    apart = torch.tensor([1.0, 2.0]) * (group.number + 1)
    group.average([apart], rows=group.number + 1)  # as ranks of several machines do
    group.sums = sums
    parameters = [torch.zeros(1), torch.zeros(1), torch.zeros(1)]
    parameters[0].grad = torch.ones(1)
    if group.leads:
        parameters[1].grad = torch.ones(1)
    group.average_gradients(parameters, rows=1.0)
    differ = ""
    try:
        must_have_same({"torch": f"1.{group.number}"}, group)
    except ConfigError as error:
        differ = str(error)
    found = {
        "differ": differ,
        "average": own,
        "apart": apart,
        "gradients": [None if p.grad is None else p.grad.item() for p in parameters],
        "gather": group.gather(f"rank {group.number}"),
        "numbers": group.gather_numbers([group.number, 0.1]),
        "first": group.from_first(group.number + 7),
        "of_others": group.of_others(lambda: group.number),
        "least": group.least(5 - group.number),
        "total": group.total(group.number + 1),
        "split": [split(7, group), group.share(7), group.own_seed(3)],
    }
    torch.save(found, f"{file}.{group.number}")


class Giving(Scripted):
    """Rewards groups of behavior A on rank 1 alone, which a trainer without groups warns of."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        steps = super().step(actions)
        return {**steps, "A": replace(steps["A"], group_reward=steps["A"].group_reward * own_number())}


def runs(file: str, group: RankGroup) -> None:
    """Saves what several runs, one after the other, have left behind."""
    config = settings("A", 100_000, summary_freq=200)
    config["behaviors"]["B"] = config["behaviors"]["A"]
    seen: list[tuple[str, int]] = []

    def play(until: int, *, appears: int = 0, **more: Any) -> palaestra.Result:
        def look(summary: Summary) -> bool:
            seen.append((summary.behavior, summary.step))
            return summary.behavior == "A" and summary.step >= until

        env = Giving({"A": {"steady": True}, "B": {"steady": True}}, appears={"B": appears})
        return palaestra.train(config, env=env, run_id="run", results_dir=results, seed=3, callbacks=[look], **more)

    results = str(Path(file).parent / "results")
    with redirect_stdout(StringIO()) as printed:
        first = play(400)
        away = play(800, appears=10_000, resume=True)
        decisions = saved_decisions(first.folder)
        back = play(1200, appears=5, resume=True)
        play(3000, appears=10_000 * own_number(), resume=True)
        lost = play_until_lost(results)
        late = play_with_late_team(results)
    steps = [one.steps.get("B") for one in (first, away, back)]
    torch.save(
        {"steps": steps, "saved": decisions, "seen": seen, "printed": printed.getvalue(), "lost": lost, "late": late},
        f"{file}.{own_number()}",
    )


class LateTeam(Duel):
    """Team 0 has no agents on rank 1 until many episodes are over."""

    def _met(self, reward: Tensor, ended: list[int]) -> TimeStep:
        step = super()._met(reward, ended)
        late = own_number() == 1 and len(self.given) < 150
        return replace(step, acting=step.acting & (step.team == 1)) if late else step


def play_with_late_team(results: str) -> list[list[Any]]:
    """Returns, of each rank, which team learns after a run, which policies may be drawn and were, and the ratings."""
    config = settings(
        "Duel",
        3000,
        self_play={
            "save_steps": 200,
            "team_change": 500,
            "swap_steps": 50,
            "window": 20,
            "opponents": "prioritized",
            "exploiter": {"max_steps": 300},
        },
        summary_freq=1000,
    )
    result = palaestra.train(config, env=LateTeam(4), run_id="duel", results_dir=results, seed=3)
    run = state(result.folder)["run"]
    others = [json.loads(one["content"])["run"] for one in run["ranks"]["others"]]
    plays = [one["parts"]["self_play"] for one in (run, *others)]
    duels = [one["behaviors"]["Duel"] for one in plays]
    return [
        [
            one["learning"],
            sorted(map(tuple, one["sides"])),
            duel["numbers"],
            duel["pool"],
            [duel["exploiter"]["times"], duel["exploiter"]["record"], duel["exploiter"]["step"]],
            duel["ratings"]["elos"],
        ]
        for one, duel in zip(plays, duels, strict=True)
    ]


def saved_decisions(run: Path) -> int:
    """Returns the decisions of behavior B in the newest checkpoint."""
    return state(run)["run"]["collector"]["behaviors"]["B"]["decisions"]


def play_until_lost(results: str) -> list[Any]:
    """Returns the error of a run whose folder is deleted, and how the run that was saved elsewhere ended."""
    config = settings("Basic", 1500)

    def delete(_: Summary) -> None:
        shutil.rmtree(Path(results, "gone"))

    try:
        palaestra.train(
            config, env="Basic", num_areas=4, run_id="gone", results_dir=results, seed=3, callbacks=[delete]
        )
    except FolderLost as error:
        resumed = palaestra.train(run_id=str(error.saved and error.saved.name), results_dir=results, resume=True)
        return [str(error), resumed.finished, resumed.steps]
    return []


class Ending(Scripted):
    """Stops the run on tick 150 as Ctrl-C does, on rank 0."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        if self.tick == 150 and len(self.tables[-1]) == 1 and own_number() == 0:
            signal.raise_signal(signal.SIGINT)
        return super().step(actions)


def strangers(file: str, group: RankGroup) -> None:
    """Saves how a run ends whose ranks share no behavior at first; it is stopped and resumed before they do."""
    config = settings("A", 4000)
    config["behaviors"]["B"] = config["behaviors"]["A"]
    streams = {"A": {"steady": True}, "B": {"steady": True}}

    results = Path(file).parent / "results"

    def play(late: int, **more: Any) -> palaestra.Result:
        env = Ending(streams, appears={"B": late} if group.leads else {"A": late + 3})
        return palaestra.train(config, env=env, run_id="run", results_dir=str(results), seed=3, quiet=True, **more)

    with suppress(KeyboardInterrupt):
        play(10_000)
    shared = group.first(lambda: state(results / "run")["run"]["meetings"]["shared"])
    again = play(100, resume=True)
    torch.save({"shared": shared, "finished": again.finished, "steps": again.steps}, f"{file}.{group.number}")


def lose(file: str, group: RankGroup) -> None:
    """Kills rank 1 while rank 0 waits for it; rank 0 saves the error's text."""
    group.gather(0)
    time.sleep(1.2)  # some signs of life
    if not group.leads:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        group.gather(1)
    except Exception as error:
        torch.save({"text": str(error), "reports": getattr(error, "reports", None)}, file)


if __name__ == "__main__":
    torch.set_num_threads(1)
    tasks = {"update": update_all, "exchange": exchange, "runs": runs, "strangers": strangers, "lose": lose}
    with ranks.joined(30.0, "cpu") as joined:
        tasks[sys.argv[1]](sys.argv[2], joined)
