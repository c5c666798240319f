"""`keep_best`: the best model of a run and its checkpoint, evaluated without disturbing the run."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sacrifice_env import Sacrifice
from small_runs import differences, settings, state

import palaestra
from palaestra.core.errors import CallError, ConfigError, RunError
from palaestra.core.metrics import GROUP_REWARD, REWARD
from palaestra.envs.builtin.basic.env import Basic
from palaestra.runtime.play.best_models import untouched_random_numbers
from palaestra.runtime.recording.filming import find_sources
from palaestra.runtime.run.result import Result
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.web.people.opponents import choices


def run(folder: Path, keep: dict[str, Any] | None, env: Any = "Basic", run_id: str = "a", **more: Any) -> Result:
    own = {} if keep is None else {"keep_best": keep}
    block = {"max_steps": 3000, "summary_freq": 500, **own, **more.pop("block", {})}
    config = settings("Basic", **block)
    given = {"results_dir": str(folder), "run_id": run_id, "seed": 3, "num_areas": 4, "quiet": True, **more}
    return palaestra.train(config, env=env, **given)


def best_of(result: Result) -> dict[str, Any]:
    return json.loads((result.folder / "run_logs/training_status.json").read_text())["Basic"]["best_checkpoint"]


@pytest.mark.few(1)
@pytest.mark.parametrize("threaded", [True, False])
def test_a_run_learns_the_same_with_and_without(tmp_path, threaded):
    random.seed(1), np.random.seed(1)
    # threaded, it is evaluated only at its end, when its last update waits to take effect
    block = {"threaded": True, "max_steps": 400} if threaded else {}
    without = run(tmp_path, None, run_id="without", block=block)
    with_it = run(tmp_path, {"every": 500, "episodes": 8}, run_id="with", block=block)
    left = state(without.folder)
    right = state(with_it.folder)
    assert left["run"]["parts"].pop("keep_best") == {}
    assert right["run"]["parts"].pop("keep_best")["Basic"]["value"] is not None
    assert differences(left, right) == []
    assert best_of(with_it)["steps"] > 0
    best = (with_it.folder / "Basic-best.onnx").read_bytes()
    assert not threaded or best == with_it.models["Basic"].read_bytes()


def test_the_best_model_is_the_best_of_all_that_were_evaluated_and_has_its_checkpoint(tmp_path, capsys):
    result = run(tmp_path, {"every": 500, "episodes": 20}, quiet=False)
    lines = [line for line in capsys.readouterr().out.splitlines() if "episodes of keep_best" in line]
    values = {
        int(line.split("at step ")[1].split(":")[0].replace(",", "")): float(line.split("mean reward ")[1].split()[0])
        for line in lines
    }
    assert len(values) == 6
    best = best_of(result)
    assert best["reward"] == pytest.approx(max(values.values()), abs=5e-4)
    assert values[best["steps"]] == max(values.values())
    (step,) = Checkpoints(result.folder / "Basic" / "best" / "checkpoints", 1).steps()
    assert step == best["steps"]


def test_a_best_model_is_named_by_its_run(tmp_path: Path):
    result = run(tmp_path, {"every": 500, "episodes": 8})
    assert result.best == {"Basic": result.folder / "Basic-best.onnx"}
    for policy in (
        palaestra.load_policy(result, step="best"),
        palaestra.load_policy("a", step="best", results_dir=tmp_path),
        palaestra.load_policy("a@best", results_dir=tmp_path),
    ):
        assert policy.path == result.best["Basic"]
    assert palaestra.load_policy("a", results_dir=tmp_path).path == result.models["Basic"]
    assert find_sources(["a@best", "a"], (), tmp_path)[0][0].title == "a best"
    assert "run a, best" in choices(tmp_path, ["a"], "Basic").values()
    assert palaestra.evaluate(result, step="best", episodes=2, quiet=True).runs == ["a"]
    result.best["Basic"].unlink()
    assert result.best == {}
    with pytest.raises(RunError, match="the run 'a' has no best model: a run keeps one with keep_best=True"):
        palaestra.evaluate("a@best", results_dir=tmp_path)
    with pytest.raises(CallError, match="step: expected 'best' or a count of decisions, got 'bets'"):
        palaestra.evaluate("a", step="bets", results_dir=tmp_path)  # pyright: ignore[reportArgumentType]


def test_the_last_lines_name_the_best_model_where_the_last_is_worse(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = {"hyperparameters": {"buffer_size": 256, "batch_size": 64}, "max_steps": 1500}
    for keep, name in (({"metric": "Policy/Learning Rate"}, "a@best"), (None, "a")):  # the rate falls
        run(Path("results"), keep, quiet=False, block=block, force=True)
        end = capsys.readouterr().out.partition("Finished")[2]
        assert f'palaestra.evaluate("{name}")' in end
        assert f'palaestra.record("{name}")' in end


def evaluated(out: str) -> list[int]:
    lines = [line for line in out.splitlines() if "episodes of keep_best" in line]
    return [int(line.split("at step ")[1].split(":")[0].replace(",", "")) for line in lines]


@pytest.mark.parametrize("threaded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_final_policy_is_evaluated_though_no_summary_falls_on_the_last_step(tmp_path, capsys, threaded):
    keep = {"every": 800, "episodes": 4}
    block = {"max_steps": 1000, "summary_freq": 400, "threaded": threaded}
    result = run(tmp_path, keep, quiet=False, block=block)
    out = capsys.readouterr().out
    assert evaluated(out) == [800, 1000]
    assert ("Basic-best.onnx (step 800, " in out) == ("; the last: " in out) != ("(step 1,000, " in out)
    assert state(result.folder)["run"]["parts"]["keep_best"]["Basic"]["measured"] == 1000
    again = run(tmp_path, keep, quiet=False, block={**block, "max_steps": 1100}, resume=True)
    assert evaluated(capsys.readouterr().out) == [1100]
    assert again.finished


def test_the_policy_that_met_the_goal_is_evaluated(tmp_path, capsys):
    stop = {"at_least": -100.0, "summaries": 3, "episodes": 1}
    result = run(tmp_path, {"every": 10_000, "episodes": 4}, quiet=False, block={"stop_when": stop})
    assert result.endings == {"Basic": "goal"}
    assert evaluated(capsys.readouterr().out) == [result.steps["Basic"]]


def test_measurements_come_at_the_multiples_of_every_and_where_the_run_ends_as_a_program_wished(tmp_path, capsys):
    keep = {"every": 700, "episodes": 4}
    result = run(tmp_path, keep, quiet=False, callbacks=[lambda summary: summary.step >= 2000])
    out = capsys.readouterr().out
    assert evaluated(out) == [1000, 1500, result.steps["Basic"]]  # the summaries after 700 and 1,400, and the end
    assert "measured for keep_best at summaries" not in out
    run(tmp_path, {"every": 100, "episodes": 4}, run_id="b", quiet=False, block={"max_steps": 100})
    assert "so every 500 decisions (summary_freq), not every 100" in capsys.readouterr().out


def test_training_can_start_from_the_best_checkpoint(tmp_path):
    first = run(tmp_path, {"every": 500, "episodes": 8})
    (step,) = Checkpoints(first.folder / "Basic" / "best" / "checkpoints", 1).steps()
    place = first.folder / "Basic" / "best" / "checkpoints" / str(step)
    again = run(tmp_path, None, run_id="b", block={"init_path": str(place), "max_steps": 64})
    assert again.steps["Basic"] >= 64


def test_a_metric_of_the_training_needs_no_evaluation(tmp_path):
    result = run(tmp_path, {"metric": REWARD, "every": 500})
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    assert best_of(result)["reward"] == pytest.approx(max(row[REWARD] for row in rows if REWARD in row))


@pytest.mark.slow
def test_the_reward_of_groups_is_that_of_whole_groups(tmp_path):
    keep = {"metric": REWARD, "every": 500}
    config = settings("Sacrifice", 2000, summary_freq=500, trainer_type="poca", keep_best=keep)
    result = palaestra.train(config, env=lambda: Sacrifice(8), results_dir=str(tmp_path), seed=4, quiet=True)
    rows = [json.loads(line) for line in (result.folder / "metrics.jsonl").read_text().splitlines()]
    best = json.loads((result.folder / "run_logs/training_status.json").read_text())["Sacrifice"]["best_checkpoint"]
    assert best["reward"] == pytest.approx(max(row[GROUP_REWARD] for row in rows if GROUP_REWARD in row))
    assert best["reward"] > max(row[REWARD] for row in rows if REWARD in row)


@pytest.mark.slow
def test_an_interrupted_run_keeps_the_same_best(tmp_path):
    keep = {"every": 1000, "episodes": 8}
    whole = run(tmp_path, keep, run_id="whole")
    run(tmp_path, keep, run_id="cut", callbacks=[lambda summary: summary.step >= 1500])
    resumed = run(tmp_path, keep, run_id="cut", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    for key in ("steps", "reward"):
        assert best_of(whole)[key] == best_of(resumed)[key]


class Impatient(Basic):
    """After a few ticks someone presses Ctrl-C."""

    ticks = 0

    def step(self, actions: Any) -> Any:
        self.ticks += 1
        if self.ticks == 5:
            signal.raise_signal(signal.SIGINT)
        assert self.ticks < 50, "the evaluation went on"
        return super().step(actions)


def test_ctrl_c_leaves_an_evaluation_out_and_the_resumed_run_makes_up_for_it(tmp_path):
    made = list[Basic]()

    def make() -> Basic:
        made.append(Impatient(4) if len(made) == 1 else Basic(4))
        return made[-1]

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, {"every": 500, "episodes": 10_000}, env=make, num_areas=None)
    assert 500 <= max(Checkpoints(tmp_path / "a" / "checkpoints", 1).steps()) < 600
    assert not (tmp_path / "a" / "Basic-best.onnx").exists()
    resumed = run(tmp_path, {"every": 2000, "episodes": 4}, env=make, num_areas=None, resume=True)
    assert best_of(resumed)["steps"] > 0


ERRORS = {"reset": ValueError("no such level"), "step": SystemExit("no such level")}


class Broken(Basic):
    """An environment of the user's that cannot be reset or stepped, for an error of its author."""

    def __init__(self, where: str) -> None:
        super().__init__(4)
        self.where = where

    def _fail(self, where: str) -> None:
        if self.where == where:
            raise ERRORS[where]

    def reset(self, seed: int) -> Any:
        self._fail("reset")
        return super().reset(seed)

    def step(self, actions: Any) -> Any:
        self._fail("step")
        return super().step(actions)


@pytest.mark.parametrize("where", ["reset", "step"])
def test_any_error_of_the_environment_of_evaluations_is_told_and_the_run_goes_on(where, tmp_path, capsys):
    made = list[Basic]()

    def make() -> Basic:
        made.append(Broken(where) if len(made) == 1 else Basic(4))
        return made[-1]

    block = {"max_steps": 600, "summary_freq": 200}
    result = run(tmp_path, {"every": 400, "episodes": 4}, env=make, num_areas=None, block=block, quiet=False)
    assert result.finished
    assert max(Checkpoints(result.folder / "checkpoints", 1).steps()) >= 600
    out = capsys.readouterr().out
    sentences = [f"{type(ERRORS[where]).__name__}: no such level (", "could not be evaluated at step"]
    assert [out.count(text) for text in sentences] == [2, 2]
    assert f"{Path(__file__).name}, line" in out
    assert "training continues" in out
    assert list(result.folder.glob("*.onnx")) == [*result.models.values()]


def test_an_environment_that_cannot_be_opened_twice_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="cannot be opened twice; choose a metric"):
        run(tmp_path, {"every": 500}, env=Basic(4))


@pytest.mark.slow
def test_a_function_that_chooses_the_number_of_areas_makes_the_environment_of_evaluations_too(tmp_path):
    result = run(tmp_path, {"every": 500, "episodes": 20}, env=lambda: Basic(4), num_areas=None)
    assert best_of(result)["steps"] > 0


def test_self_play_needs_a_metric(tmp_path):
    play = {"save_steps": 100, "swap_steps": 50, "team_change": 200}
    config = settings("Tennis", 1000, self_play=play, keep_best={"every": 500})
    with pytest.raises(ConfigError, match="metric: Self-play/ELO"):
        palaestra.train(config, env="Tennis", results_dir=str(tmp_path), run_id="a", quiet=True)


def test_random_numbers_of_the_process_are_as_they_were():
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    with untouched_random_numbers():
        random.random(), np.random.rand(), torch.rand(3)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected


def test_the_environment_of_evaluations_is_opened_once_and_closed_at_the_end(tmp_path):
    opened = list[Any]()

    class Own(Basic):
        closed = 0

        def close(self) -> None:
            self.closed += 1
            super().close()

    def make(areas: int) -> Own:
        opened.append(env := Own(areas))
        return env

    result = run(tmp_path, {"every": 200, "episodes": 3}, env=make, num_areas=4)
    assert result.finished
    training, evaluations = opened
    assert training.num_areas == 4
    assert evaluations.num_areas == 3
    assert evaluations.closed == 1
