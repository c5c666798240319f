import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from pool_games import Stroll, drawn_by

import palaestra
from palaestra.core.errors import EnvError, GameGone
from palaestra.envs.copies import Restarts
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.pool.links import ProcessLink
from palaestra.envs.sampler_seeds import spacing
from palaestra.envs.unity.options import UnityOptions
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings

NAME = "python:pool_games:make"
ENDS = "python:pool_games:Ends"


@contextmanager
def opened(
    copies: int = 2, areas: int = 2, name: str = NAME, games: dict[str, Any] | None = None, **options: Any
) -> Iterator[EnvPool]:
    env = make_env(name, areas=areas, options=options, games=GameSettings(UnityOptions(copies=copies, **(games or {}))))
    assert isinstance(env, EnvPool)
    try:
        yield env
    finally:
        env.close()
        assert not any(copy.link.worker.alive for copy in env.copies)


@pytest.mark.slow
def test_areas_are_shared_among_processes_and_all_act_after_a_reset():
    with opened(2, areas=5) as env:
        step = Stroll(env).step
        assert env.num_areas == 5
        assert step.acting.all()
        assert step.area.tolist() == [0, 1, 2, 3, 4]
        pids = step.obs[0][:, 2].tolist()
        assert len(set(pids)) == 2
        assert pids[:3] == [pids[0]] * 3
        assert os.getpid() % 10_000 not in pids


@pytest.mark.slow
def test_every_slot_makes_its_own_episodes_and_no_step_is_lost_or_counted_twice():
    with opened(3, areas=6, length=7) as env:
        stroll = Stroll(env)
        taken = np.zeros(6)
        earned = np.zeros(6)
        ends = np.zeros(6)
        for _ in range(60):
            taken += stroll.step.acting.numpy()
            step = stroll.walk()
            earned += step.reward.numpy()
            ends += step.truncated.numpy()
            assert torch.equal(step.final_obs.slots, step.truncated.nonzero().squeeze(1))
            # seven steps to the right, then the next episode is at its beginning
            assert (step.final_obs.obs[0][:, :2] == 7).all()
            acting = step.obs[0][step.acting]
            assert torch.equal(acting[:, 0], acting[:, 1])
            assert (step.obs[0][step.final_obs.slots, 1] == 0).all()
        waiting = 1 - stroll.step.acting.numpy()
        assert (earned == taken - waiting).all()
        assert (ends == earned // 7).all()
        assert (ends > 0).all()


@pytest.mark.slow
def test_a_slow_copy_does_not_hold_up_the_others(tmp_path: Path):
    with opened(folder=str(tmp_path)) as env:
        stroll = Stroll(env)
        (tmp_path / "hang").touch()
        assert sorted(stroll.walk(30).acting.tolist()) == [False, True]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("order", "seconds", "why"),
    [("crash", 60.0, "was killed by SIGKILL"), ("hang", 12.0, "did not answer for 12 s")],
)  # a busy machine takes seconds to start a copy
def test_a_copy_that_crashes_or_hangs_is_started_again_and_its_episode_is_lost_while_the_others_go_on(
    order: str, seconds: float, why: str, tmp_path: Path
):
    with opened(2, areas=4, games={"timeout_wait": seconds}, folder=str(tmp_path), ms=1.0) as env:
        stroll = Stroll(env)
        pids = set(stroll.step.obs[0][:, 2].tolist())
        stroll.walk(5)
        (tmp_path / order).touch()
        alone = 0

        def back() -> bool:
            nonlocal alone
            alone += bool(stroll.lost.any()) and stroll.step.acting.tolist() == (~stroll.lost).tolist()
            return stroll.lost_are_back

        with pytest.warns(UserWarning, match=f"(?s){why}.*started again now \\(restart 1\\)"):
            stroll.until(back)
        lost = stroll.lost
        assert alone > 20
        assert lost.tolist() in ([True, True, False, False], [False, False, True, True])
        assert (stroll.step.obs[0][lost, 1] == 0).all()
        assert not set(stroll.step.obs[0][lost, 2].tolist()) & pids


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:(?s).*it is started again")
def test_a_game_that_is_started_again_draws_other_values_or_has_its_newest_constant(tmp_path: Path):
    with opened(name="python:pool_games:make_drawers", folder=str(tmp_path)) as env:
        assert env.traits.samples_parameters

        def values() -> list[set[float]]:
            seen: list[set[float]] = [set(), set()]
            while min(len(some) for some in seen) < 5:
                step = stroll.walk()
                for area in step.area[step.acting].tolist():
                    seen[area].add(float(step.obs[0][area, 0]))
            return seen

        def crash() -> int:
            (tmp_path / "crash").touch()
            stroll.lost[:] = False
            stroll.until(lambda: stroll.lost_are_back)
            return int(stroll.lost.nonzero()[0, 0])

        env.set_parameters({"mass": torch.tensor([0.5, 0.5])})  # a lesson that is over
        env.draw_parameter("mass", "uniform", [0, 1], [7, 8])
        stroll = Stroll(env)
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
        assert stroll.step.obs[0][again, 0] == 2.0 + again


@pytest.mark.slow
def test_a_copy_whose_shared_memory_is_lost_is_started_again(tmp_path: Path):
    (tmp_path / "forget").touch()
    with (
        pytest.warns(
            UserWarning, match=r"(?s)copy \d of the environment: it has lost its shared memory.*started again"
        ),
        opened(name="python:pool_games:make_forgotten", folder=str(tmp_path)) as env,
    ):
        assert Stroll(env).step.acting.all()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("order", "error", "match"),
    [
        ("fail", EnvError, "raised an error in step, area 0: ZeroDivisionError: one by nothing"),
        ("crash", GameGone, "which is all that --max-lifetime-restarts allows"),
    ],
)
def test_an_exception_of_the_environment_and_a_limit_of_restarts_end_the_run(
    order: str, error: type[EnvError], match: str, tmp_path: Path
):
    with opened(games={"restarts": Restarts(lifetime=0)}, folder=str(tmp_path)) as env:
        stroll = Stroll(env)
        (tmp_path / order).touch()
        with pytest.raises(error, match=match):
            stroll.walk(5000)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"name": ENDS, "close": "hang"}])
def test_a_factory_that_fails_is_reported_and_leaves_no_process_even_if_another_copy_would_not_close(
    options: dict[str, Any],
):
    with pytest.raises(EnvError, match="no_such_option"), opened(no_such_option=1, **options):
        pass
    assert [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "palaestra.parallel.worker" in child.cmdline()
    ] == []


@pytest.mark.slow
def test_interrupt_ends_a_wait_with_tables_in_which_nobody_acts(tmp_path: Path):
    with opened(folder=str(tmp_path), ms=3000) as env:
        env.send(Stroll(env).action)
        env.interrupt()
        (step,) = env.receive().values()
        assert not step.acting.any()


def test_more_copies_than_areas_and_copies_of_a_built_in_are_refused():
    with pytest.raises(EnvError, match="--num-envs=3 copies cannot share 2 areas"), opened(3, areas=2):
        pass
    with pytest.raises(EnvError, match="3DBall is built in: one process simulates all"), opened(name="3DBall"):
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at_close", "then"),
    [
        ("raise", "raised an error in close, area 0: OSError: the port is gone"),
        ("hang", r"did not close within 0\.2 s"),
    ],
)
def test_the_error_of_a_step_is_raised_before_a_close_that_fails_or_hangs(
    at_close: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with opened(name=ENDS, folder=str(tmp_path), close=at_close) as env:
        stroll = Stroll(env)
        (tmp_path / "fail").touch()
        with pytest.raises(EnvError, match="raised an error in step, area 0: ZeroDivisionError: one by nothing"):
            stroll.walk(1000)
        if at_close == "hang":
            monkeypatch.setattr(env.copies, "grace", 0.2)
            monkeypatch.setattr(ProcessLink, "grace", 0.2)
        with pytest.raises(EnvError, match=rf"copy \d of the environment.*{then}"):
            env.close()


@pytest.mark.slow
def test_every_copy_closes_its_environment_and_is_waited_for(tmp_path: Path):
    with opened(name=ENDS, folder=str(tmp_path), close="wait") as env:
        env.reset(3)
    assert len(list(tmp_path.glob("closed *"))) == 2


def test_a_copy_is_drawn_between_two_ticks(tmp_path: Path):
    with opened(name=ENDS, folder=str(tmp_path)) as env:
        stroll = Stroll(env)
        assert env.render(0).shape == (4, 4, 3)
        stroll.walk(3)
        assert not stroll.lost.any()


@pytest.mark.slow
def test_a_copy_that_cannot_be_drawn_goes_on(tmp_path: Path):
    with opened(name=ENDS, folder=str(tmp_path), render="raise") as env:
        stroll = Stroll(env)
        pids = stroll.step.obs[0][:, 2].tolist()
        for area in range(2):
            with pytest.raises(EnvError, match=f"area {area} cannot be drawn: .*OSError: the port is gone"):
                env.render(area)
        assert stroll.walk(20).obs[0][:, 2].tolist() == pids
        assert not stroll.lost.any()


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
    with opened(name=ENDS, folder=str(tmp_path), render=at_render) as env:
        stroll = Stroll(env)
        pids = stroll.step.obs[0][:, 2].tolist()
        with monkeypatch.context() as patch:
            if at_render == "hang":
                patch.setattr(env.copies[0], "_timeout", 0.2)
            with pytest.raises(EnvError, match=f"area 0 cannot be drawn: {why}"):
                env.render(0)

        def play() -> None:
            if reset:
                stroll.reset()
            stroll.until(lambda: stroll.step.obs[0][0, 2] != pids[0])

        with pytest.warns(UserWarning, match=f"(?s){why}.*; it is started again now"):
            play()
        assert stroll.step.obs[0][1, 2] == pids[1]
