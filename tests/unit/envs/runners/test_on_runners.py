import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from pool_games import Stroll

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.pool.env_pool import EnvPool
from palaestra.envs.runners.ray_cluster import RayCluster
from palaestra.envs.runners.runner_options import RunnerOptions
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.environments import on_runners
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.environments.unity_games import GameSettings

WALK = "python:pool_games:make"
GAME = Path(__file__).parents[4] / "examples" / "sdk_roll.py"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine, which several tests use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray = pytest.importorskip("ray")
        ray.init(
            address="local", num_cpus=4, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False
        )
        yield
        ray.shutdown()


@contextmanager
def opened(
    name: str, messages: list[str], *, copies: int = 2, areas: int | None = None, **options: Any
) -> Iterator[EnvPool]:
    """Copies in two runners."""
    logs = options.pop("logs", None)
    games = GameSettings(
        UnityOptions(copies=copies, logs=logs), (), lambda _, text: messages.append(text), RunnerOptions(min(2, copies))
    )
    env = make_env(name, areas=areas, options=options, games=games)
    assert isinstance(env, EnvPool)
    try:
        yield env
    finally:
        env.close()


def all_gone(word: str) -> bool:
    """Whether no such process is left soon; Ray ends actors in the background."""
    deadline = time.monotonic() + 60
    while running(word) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not running(word)


def running(word: str) -> list[int]:
    """Processes with a word on their command line that run."""
    found = psutil.process_iter(["pid", "cmdline", "status"])
    return [
        one.pid
        for one in found
        if one.info["status"] != psutil.STATUS_ZOMBIE and word in " ".join(one.info["cmdline"] or ())
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_copies_in_runners_act_together_and_a_runner_that_is_killed_starts_again_while_the_other_goes_on(
    tmp_path: Path,
):
    messages = list[str]()
    with opened(WALK, messages, copies=3, areas=5, folder=str(tmp_path)) as env:
        stroll = Stroll(env)
        step = stroll.step
        assert step.area.tolist() == [0, 1, 2, 3, 4]
        assert step.acting.all()
        assert len(set(step.obs[0][:, 2].tolist())) == 3
        assert "3 copies of the environment in 2 runners" in messages[0]
        os.kill(running("ray::EnvRunner")[0], signal.SIGKILL)
        alone = 0

        def back() -> bool:
            nonlocal alone
            alone += bool(stroll.lost.any()) and bool((stroll.step.acting & ~stroll.lost).any())
            return stroll.lost_are_back

        stroll.until(back)
        assert stroll.lost.tolist() in ([True] * 4 + [False], [False] * 4 + [True])
        assert (stroll.step.obs[0][stroll.step.acting & stroll.lost, 1] == 0).all()
        assert alone > 10
        assert any("it is started again now (restart 1)" in text for text in messages)
        (tmp_path / "fail").touch()
        with pytest.raises(EnvError, match=r"runner \d on .*ZeroDivisionError: one by nothing"):
            stroll.until(lambda: False)
    assert all_gone("ray::EnvRunner")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_game_plays_in_a_runner_exactly_as_it_plays_here(tmp_path: Path):
    def play(games: GameSettings) -> list[TimeStep]:
        env = EnvWrapper.of(make_env(str(GAME), games=games))
        try:
            assert env.traits.samples_parameters
            env.draw_parameter("drag", "uniform", (0.05, 0.2), [7])
            steps = [env.reset(11)["Roll"]]
            for i in range(40):
                slots = len(steps[-1].acting)
                action = Action(torch.full((slots, 1), 1.0 - i / 20), torch.zeros(slots, 0, dtype=torch.int64))
                steps.append(env.step({"Roll": action})["Roll"])
            return steps
        finally:
            env.close()

    here = play(GameSettings(UnityOptions(base_port=None)))
    there = play(GameSettings(UnityOptions(logs=tmp_path), runners=RunnerOptions(1)))
    for mine, theirs in zip(here, there, strict=True):
        assert torch.equal(mine.obs[0][mine.acting], theirs.obs[0][mine.acting])
        for name in ("acting", "reward"):
            assert torch.equal(getattr(mine, name), getattr(theirs, name)), name
        assert torch.equal(mine.final_obs.slots, theirs.final_obs.slots)
    assert [file.name for file in tmp_path.iterdir() if file.stat().st_size] == ["Player-0.log"]
    assert all_gone(GAME.name)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_another_version_on_a_machine_and_a_build_that_is_missing_there_are_refused(monkeypatch: pytest.MonkeyPatch):
    with (
        pytest.raises(EnvError, match=r"runner 0 on .*: found no .*build './nowhere.x86_64'"),
        opened("./nowhere.x86_64", [], copies=1),
    ):
        pass
    monkeypatch.setattr(on_runners, "palaestra_version", lambda: "0.0.1")
    with (
        pytest.raises(EnvError, match=r"and the run 0\.0\.1: every machine needs the same version"),
        opened(WALK, [], copies=1),
    ):
        pass
    assert all_gone("ray::EnvRunner")


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_game_that_sends_a_number_that_is_none_is_reported_with_its_runner(tmp_path: Path):
    game = tmp_path / "nan_roll.py"
    game.write_text(
        f"import sys; sys.path.insert(0, {str(GAME.parents[1])!r})\nfrom examples import sdk_roll\nfrom palaestra "
        "import sdk\nclass Broken(sdk_roll.Roller):\n    def collect_observations(self, sensor):\n        "
        "sensor.add(float('nan'), 0.0, 0.0)\n@sdk.game\ndef roll(academy):\n    "
        "academy.add(Broken(academy))\nroll.play()\n"
    )
    with pytest.raises(EnvError, match=r"runner 0 on "), opened(str(game), [], copies=1) as env:
        env.reset(1)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("nonsense", "expected HOST:PORT, such as 10.0.0.1:6379"),
        ("ray://10.0.0.1:10001", "ray job submit"),
    ],
)
def test_an_address_where_no_ray_is_is_reported_at_once(address: str, message: str):
    games = GameSettings(UnityOptions(copies=2), runners=RunnerOptions(2, address))
    with pytest.raises(EnvError, match=message):
        make_env(WALK, areas=2, games=games)


def test_runners_without_ray_and_runners_of_a_built_in_are_refused(monkeypatch: pytest.MonkeyPatch):
    games = GameSettings(UnityOptions(copies=2), runners=RunnerOptions(2))
    with pytest.raises(EnvError, match="3DBall is built in"):
        make_env("3DBall", games=games)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvError, match=r"pip install 'palaestra\[ray\]'"):
        make_env(WALK, areas=2, games=games)


@pytest.mark.slow
def test_a_ray_that_cannot_start_is_reported_in_a_sentence_with_what_helps(monkeypatch: pytest.MonkeyPatch):
    ray = pytest.importorskip("ray")

    def times_out(**_: Any) -> None:
        raise Exception("The current node timed out during startup.\n" + "  File ray/node.py\n" * 50)

    monkeypatch.setattr(ray, "init", times_out)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    games = GameSettings(UnityOptions(copies=2), runners=RunnerOptions(2))
    with pytest.raises(
        EnvError, match=r"could not start on this machine: The current node .*ray start --head.*--ray-address"
    ) as caught:
        make_env(WALK, areas=2, games=games)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_cluster_without_room_for_the_runners_is_reported_before_the_wait():
    joined = RayCluster(RunnerOptions(2, cpus=3.0))
    try:
        deadline = time.monotonic() + 60
        while joined.ray.available_resources().get("CPU") != 4 and time.monotonic() < deadline:
            time.sleep(0.1)  # actors of the tests before end in the background
        assert joined.missing_room() == "2 runners need 6 CPUs, and the Ray cluster has 4 free (--runner-cpus)"
    finally:
        joined.close()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_the_error_of_a_step_is_reported_before_that_of_close(tmp_path: Path):
    with opened("python:pool_games:Ends", [], copies=1, areas=1, folder=str(tmp_path), close="raise") as env:
        stroll = Stroll(env)
        (tmp_path / "fail").touch()
        with pytest.raises(EnvError, match=r"runner 0 on .*in step, area 0: ZeroDivisionError: one by nothing"):
            stroll.walk()
        with pytest.raises(EnvError, match=r"runner 0 on .*in close, area 0: OSError: the port is gone"):
            env.close()
