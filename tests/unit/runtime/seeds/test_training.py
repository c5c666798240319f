import multiprocessing
import subprocess
import sys
import threading

import pytest
import yaml
from small_runs import settings

import palaestra
from palaestra.core.errors import ConfigError, RunError
from palaestra.envs.builtin.basic.env import Basic


def basic():
    """Makes an environment, in whichever process."""
    return Basic(4)


def test_seeds_are_trained_one_after_another_with_their_mean_and_interval(tmp_path, capsys):
    found = palaestra.train_seeds(
        settings("Basic"), seeds=[3, 7], env="Basic", run_id="x", results_dir=str(tmp_path), quiet=True
    )
    assert list(found.results) == [3, 7]
    assert found.errors == {}
    assert all(result.finished for result in found.results.values())
    for seed in (3, 7):
        written = yaml.safe_load((tmp_path / f"x-seed-{seed}" / "configuration.yaml").read_text())
        assert written["env_settings"]["seed"] == seed
    scores = found.comparison.results["x", "Basic"]
    assert scores.score.value == pytest.approx(scores.scores.mean())
    assert scores.score.low <= scores.score.value <= scores.score.high
    assert "interquartile mean" in str(found)
    assert capsys.readouterr().out == ""
    again = palaestra.train_seeds(seeds="3,8", env="Basic", run_id="x", results_dir=str(tmp_path), resume=True)
    assert list(again.results) == [3, 8]
    assert "x-seed-8" in capsys.readouterr().out


def test_a_seed_that_fails_does_not_stop_the_others(tmp_path):
    class Broken(Basic):
        made = 0

        def __init__(self):
            super().__init__(4)
            Broken.made += 1
            self.number = Broken.made

        def step(self, actions):
            if self.number == 1:
                raise palaestra.core.errors.EnvError("it broke")
            return super().step(actions)

    found = palaestra.train_seeds(
        settings("Basic"), seeds=2, env=Broken, run_id="x", results_dir=str(tmp_path), quiet=True
    )
    assert list(found.results) == [2]
    assert "it broke" in found.errors[1]
    assert "failed: " in str(found)


def test_settings_that_cannot_be_used_are_an_error_before_the_first_run(tmp_path):
    with pytest.raises(ConfigError, match="max_step"):
        palaestra.train_seeds(settings("Basic", max_step=3), env="Basic", results_dir=str(tmp_path))
    with pytest.raises(ConfigError, match="only one run can use"):
        palaestra.train_seeds(settings("Basic"), env=basic(), results_dir=str(tmp_path))
    with pytest.raises(RunError, match=r"no seed was trained: seed 1: .*'Basicc'"):
        palaestra.train_seeds(settings("Basic"), env="Basicc", results_dir=str(tmp_path), quiet=True)
    assert not (tmp_path / "ppo-seed-1" / "configuration.yaml").exists()


@pytest.mark.slow
def test_seeds_side_by_side_learn_the_same_as_one_after_another(tmp_path):
    options = {"seeds": 2, "env": basic, "results_dir": str(tmp_path), "quiet": True}
    beside = palaestra.train_seeds(settings("Basic"), run_id="x", side_by_side=2, **options)
    alone = palaestra.train_seeds(settings("Basic"), run_id="y", **options)
    assert list(beside.results) == list(alone.results) == [1, 2]
    for seed, result in alone.results.items():
        assert beside.results[seed].rewards == result.rewards
    assert not multiprocessing.active_children()
    lock = threading.Lock()
    with pytest.raises(ConfigError, match=r"cannot be given to another process: TypeError: cannot pickle.*constructor"):
        palaestra.train_seeds(settings("Basic"), run_id="z", side_by_side=2, **{**options, "env": lambda: lock})


@pytest.mark.slow
def test_a_script_trains_seeds_side_by_side_without_a_guard_of_its_main_part(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import palaestra\nprint('begins')\n"
        "print(repr(palaestra.train_seeds(env='Basic', max_steps=200, seeds=2, side_by_side=2, quiet=True)))\n"
    )
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("begins\n<SeedResults 2 seeds")
