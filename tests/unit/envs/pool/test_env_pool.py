from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psutil
import pytest
import torch

import palaestra
from palaestra.core.errors import EnvError, GameGone
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.copies import Restarts
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.pool.links import ProcessLink
from palaestra.envs.sampler_seeds import spacing
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings

NAME = "python:pool_games:make"


@contextmanager
def opened(
    copies: int, areas: int | None = None, name: str = NAME, games: dict[str, Any] | None = None, **options: Any
) -> Iterator[EnvPool]:
    env = make_env(name, areas=areas, options=options, games=GameSettings(UnityOptions(copies=copies, **(games or {}))))
    assert isinstance(env, EnvPool)
    try:
        yield env
    finally:
        env.close()
        assert not any(copy.link.worker.alive for copy in env.copies)


def right(step: TimeStep) -> Action:
    """Everyone walks right."""
    return Action(torch.zeros(len(step.acting), 0), torch.ones(len(step.acting), 1, dtype=torch.int64))


def only(steps: dict[str, TimeStep]) -> TimeStep:
    (step,) = steps.values()
    return step


@pytest.mark.slow
def test_areas_are_shared_among_processes_and_all_act_after_a_reset():
    with opened(2, areas=5) as env:
        step = only(env.reset(3))
        assert env.num_areas == 5
        assert step.acting.all()
        assert step.area.tolist() == [0, 1, 2, 3, 4]
        pids = step.obs[0][:, 2].tolist()
        assert len(set(pids)) == 2
        assert pids[:3] == [pids[0]] * 3
        assert os.getpid() % 10_000 not in pids


def test_every_slot_makes_its_own_episodes_and_no_step_is_lost_or_counted_twice():
    with opened(3, areas=6, length=7) as env:
        step = only(env.reset(3))
        taken = np.zeros(6)
        earned = np.zeros(6)
        ends = np.zeros(6)
        for _ in range(60):
            taken += step.acting.numpy()
            step = only(env.step({"Walk": right(step)}))
            earned += step.reward.numpy()
            ends += step.truncated.numpy()
            assert torch.equal(step.final_obs.slots, step.truncated.nonzero().squeeze(1))
            # seven steps to the right, then the next episode is at its beginning
            assert (step.final_obs.obs[0][:, :2] == 7).all()
            acting = step.obs[0][step.acting]
            assert torch.equal(acting[:, 0], acting[:, 1])
            assert (step.obs[0][step.final_obs.slots, 1] == 0).all()
        waiting = 1 - step.acting.numpy()
        assert (earned == taken - waiting).all()
        assert (ends == earned // 7).all()
        assert (ends > 0).all()


@pytest.mark.slow
def test_a_slow_copy_does_not_hold_up_the_others(tmp_path: Path):
    with opened(2, areas=2, folder=str(tmp_path)) as env:
        step = only(env.reset(3))
        (tmp_path / "hang").touch()
        for _ in range(30):
            step = only(env.step({"Walk": right(step)}))
        assert sorted(step.acting.tolist()) == [False, True]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("order", "seconds"), [("crash", 60.0), ("hang", 12.0)]
)  # a busy machine takes seconds to start a copy
def test_a_copy_that_crashes_or_hangs_is_started_again_and_its_episode_is_lost_while_the_others_go_on(
    order: str, seconds: float, tmp_path: Path
):
    with opened(2, areas=4, games={"timeout_wait": seconds}, folder=str(tmp_path), ms=1.0) as env:
        step = only(env.reset(3))
        pids = set(step.obs[0][:, 2].tolist())
        for _ in range(5):
            step = only(env.step({"Walk": right(step)}))
        (tmp_path / order).touch()
        lost = torch.zeros(4, dtype=torch.bool)
        end = time.monotonic() + 60
        alone = 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            while time.monotonic() < end and not (lost.any() and (step.acting & lost).any()):
                step = only(env.step({"Walk": right(step)}))
                if step.lost is not None:
                    assert not (step.lost & (step.acting | step.terminated | step.truncated)).any()
                    lost |= step.lost
                alone += bool(lost.any()) and step.acting.tolist() == (~lost).tolist()
        assert alone > 20
        assert lost.tolist() in ([True, True, False, False], [False, False, True, True])
        assert (step.obs[0][lost, 1] == 0).all()
        assert not set(step.obs[0][lost, 2].tolist()) & pids
        why = "was killed by SIGKILL" if order == "crash" else "did not answer for 12 s"
        assert any(why in str(one.message) and "started again now (restart 1)" in str(one.message) for one in caught)


def drawn_by(seed: int) -> set[float]:
    """The values that a game draws from 0 to 1 by a seed, as they are observed."""
    random = Random(seed)
    return {float(np.float32(random.uniform(0, 1))) for _ in range(10_000)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(?s).*it is started again")
def test_a_game_that_is_started_again_draws_other_values_or_has_its_newest_constant(tmp_path: Path):
    with opened(2, areas=2, name="python:pool_games:make_drawers", folder=str(tmp_path)) as env:
        assert env.traits.samples_parameters

        def values() -> list[set[float]]:
            nonlocal step
            seen: list[set[float]] = [set(), set()]
            while min(len(some) for some in seen) < 5:
                step = only(env.step({"Walk": right(step)}))
                for area, mass in zip(
                    step.area[step.acting].tolist(), step.obs[0][step.acting, 0].tolist(), strict=True
                ):
                    seen[area].add(mass)
            return seen

        def crash() -> int:
            nonlocal step
            (tmp_path / "crash").touch()
            lost = torch.zeros(2, dtype=torch.bool)
            while not (step.acting & lost).any():
                step = only(env.step({"Walk": right(step)}))
                lost |= torch.zeros(2, dtype=torch.bool) if step.lost is None else step.lost
            return int(lost.nonzero()[0, 0])

        env.set_parameters({"mass": torch.tensor([0.5, 0.5])})  # a lesson that is over
        env.draw_parameter("mass", "uniform", [0, 1], [7, 8])
        step = only(env.reset(3))
        assert [some <= drawn_by(seed) for some, seed in zip(values(), (7, 8), strict=True)] == [True, True]
        again = crash()
        shift = spacing(2)
        assert values()[again] <= drawn_by(((7, 8)[again] + shift) & 0x7FFFFFFF)
        env.draw_parameter("mass", "uniform", [0, 1], [70, 80])
        values()  # a tick under way still has the values of before
        seeds = [(seed + shift) & 0x7FFFFFFF if copy == again else seed for copy, seed in enumerate((70, 80))]
        assert [some <= drawn_by(seed) for some, seed in zip(values(), seeds, strict=True)] == [True, True]

        env.set_parameters({"mass": torch.tensor([2.0, 3.0])})
        again = crash()
        assert step.obs[0][again, 0] == 2.0 + again


@pytest.mark.slow
def test_a_copy_whose_shared_memory_is_lost_is_started_again(tmp_path: Path):
    (tmp_path / "forget").touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with opened(2, areas=2, name="python:pool_games:make_forgotten", folder=str(tmp_path)) as env:
            assert only(env.reset(3)).acting.all()
    (told,) = {str(one.message) for one in caught if "is started again" in str(one.message)}
    assert "has lost its shared memory" in told
    assert told.count("of the environment") == 1


@pytest.mark.slow
def test_restarts_end_where_their_limit_is_reached(tmp_path: Path):
    with opened(2, areas=2, games={"restarts": Restarts(lifetime=0)}, folder=str(tmp_path)) as env:
        step = only(env.reset(3))
        (tmp_path / "crash").touch()

        def play() -> None:
            nonlocal step
            for _ in range(5000):
                step = only(env.step({"Walk": right(step)}))

        with pytest.raises(GameGone, match="which is all that --max-lifetime-restarts allows"):
            play()


def test_an_exception_of_the_environment_ends_the_run_and_says_where(tmp_path: Path):
    with opened(2, areas=2, folder=str(tmp_path)) as env:
        step = only(env.reset(3))
        (tmp_path / "fail").touch()

        def play() -> None:
            nonlocal step
            for _ in range(100):
                step = only(env.step({"Walk": right(step)}))

        with pytest.raises(EnvError, match="raised an error in step, area 0: ZeroDivisionError: one by nothing"):
            play()


@pytest.mark.slow
def test_a_factory_that_fails_is_told_and_leaves_no_process():
    with pytest.raises(EnvError, match="no_such_option"), opened(2, areas=2, no_such_option=1):
        pass
    assert [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "palaestra.parallel.worker" in child.cmdline()
    ] == []


@pytest.mark.slow
def test_interrupt_ends_a_wait_with_tables_in_which_nobody_acts(tmp_path: Path):
    with opened(2, areas=2, folder=str(tmp_path), ms=3000) as env:
        step = only(env.reset(3))
        env.send({"Walk": right(step)})
        env.interrupt()
        assert not only(env.receive()).acting.any()


def test_more_copies_than_areas_and_copies_of_a_built_in_are_refused():
    with pytest.raises(EnvError, match="--num-envs=3 copies cannot share 2 areas"), opened(3, areas=2):
        pass
    with (
        pytest.raises(EnvError, match="3DBall is built in: one process simulates all of its areas"),
        opened(3, name="3DBall"),
    ):
        pass


def test_gymnasium_copies_learn_in_a_run(tmp_path: Path):
    block = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 64, "buffer_size": 512},
        "max_steps": 2000,
        "summary_freq": 500,
    }
    result = palaestra.train(
        {"behaviors": {"CartPole-v1": block}},
        env="gymnasium:CartPole-v1",
        num_envs=2,
        num_areas=4,
        results_dir=str(tmp_path),
        run_id="run",
        quiet=True,
    )
    assert result.finished
    assert result.steps["CartPole-v1"] >= 2000
    assert (result.rewards["CartPole-v1"] or 0) > 8


ENDS = "python:pool_games:Ends"


def walk(env: EnvPool, step: TimeStep, ticks: int = 1000) -> TimeStep:
    for _ in range(ticks):
        step = only(env.step({"Ends": right(step)}))
    return step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_close", "then"),
    [
        ("raise", "raised an error in close, area 0: OSError: the port is gone"),
        ("hang", r"did not close within 0\.2 s"),
    ],
)
def test_the_error_of_a_step_is_told_before_a_close_that_fails_or_hangs(
    at_close: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with opened(2, 2, ENDS, folder=str(tmp_path), close=at_close) as env:
        step = only(env.reset(3))
        (tmp_path / "fail").touch()
        with pytest.raises(EnvError, match="raised an error in step, area 0: ZeroDivisionError: one by nothing"):
            walk(env, step)
        if at_close == "hang":
            monkeypatch.setattr(env.copies, "grace", 0.2)
            monkeypatch.setattr(ProcessLink, "grace", 0.2)
        with pytest.raises(EnvError, match=rf"copy \d of the environment.*{then}"):
            env.close()


@pytest.mark.slow
def test_every_copy_closes_its_environment_and_is_waited_for(tmp_path: Path):
    with opened(2, 2, ENDS, folder=str(tmp_path), close="wait") as env:
        env.reset(3)
    assert len(list(tmp_path.glob("closed *"))) == 2


@pytest.mark.slow
def test_a_copy_that_still_starts_is_not_waited_for_and_the_first_error_counts():
    with pytest.raises(EnvError, match="no_such_option"), opened(2, 2, ENDS, no_such_option=1, close="hang"):
        pass


@pytest.mark.slow
def test_a_copy_that_cannot_be_drawn_goes_on(tmp_path: Path):
    with opened(2, 2, ENDS, folder=str(tmp_path), render="raise") as env:
        step = only(env.reset(3))
        pids = step.obs[0][:, 2].tolist()
        for area in range(2):
            with pytest.raises(EnvError, match=f"area {area} cannot be drawn: .*OSError: the port is gone"):
                env.render(area)
        step = walk(env, step, 20)
        assert step.lost is None
        assert step.obs[0][:, 2].tolist() == pids


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_render", "why"),
    [
        ("exit", "copy 0 of the environment: it ended with exit code 9"),
        ("hang", r"copy 0 .*: it did not draw within 0\.2"),
    ],
)
@pytest.mark.parametrize("reset", [False, True])
def test_a_copy_that_ends_or_hangs_while_it_is_drawn_is_started_again(
    at_render: str, why: str, reset: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with opened(2, 2, ENDS, folder=str(tmp_path), render=at_render) as env:
        step = only(env.reset(3))
        pids = step.obs[0][:, 2].tolist()
        with monkeypatch.context() as patch:
            if at_render == "hang":
                patch.setattr(env.copies[0], "timeout", 0.2)
            with pytest.raises(EnvError, match=f"area 0 cannot be drawn: {why}"):
                env.render(0)

        def play() -> None:
            nonlocal step
            if reset:
                step = only(env.reset(3))
            end = time.monotonic() + 60
            while step.obs[0][0, 2] == pids[0] and time.monotonic() < end:
                step = walk(env, step, 1)

        with pytest.warns(UserWarning, match=f"(?s){why}.*; it is started again now"):
            play()
        assert step.obs[0][0, 2] != pids[0]
        assert step.obs[0][1, 2] == pids[1]
