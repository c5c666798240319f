"""What is done for a behavior is done when it appears, at the first tick or later."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import read_progress, settings, state
from tiny_envs import CPU, Scripted, behavior_settings

import palaestra
from palaestra.brains.random import RandomBrain
from palaestra.core.errors import CallbackError, ConfigError, RunError
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.collect import threads
from palaestra.runtime.collect.learner import Learner
from palaestra.runtime.monitor.bounded_reading import ResultsFiles
from palaestra.runtime.monitor.run_status import read_status
from palaestra.runtime.run.result import Result
from palaestra.runtime.run.resuming import SavedRun
from palaestra.runtime.settings import RunSettings, behavior_seed
from palaestra.runtime.storage.checkpoints import Checkpoints

STREAMS: dict[str, dict[str, Any]] = {"A": {"steady": True}, "B": {"steady": True}}


def train(place: Path, run_id: str, late: int = 0, *, b: dict[str, Any] | None = None, **more: Any) -> Result:
    """Trains A from the first tick on, and B from tick `late` on."""
    block = settings("A", 400, hyperparameters={"batch_size": 32, "buffer_size": 128, "learning_rate": 1e-9})
    config = {"behaviors": {"A": block["behaviors"]["A"], "B": {**block["behaviors"]["A"], **(b or {})}}}
    env = Scripted(STREAMS, appears={"B": late})
    return palaestra.train(config, env=env, results_dir=str(place), run_id=run_id, quiet=True, seed=1, **more)


def network(result: Result, name: str) -> dict[str, torch.Tensor]:
    """The weights of a behavior; the normalizer and what learning moves by 1e-9 aside."""
    return state(result.folder)[name]["trainer"]["network"]


def is_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.allclose(one[key], other[key], atol=1e-5) for key in one)


@pytest.mark.few(1)
@pytest.mark.parametrize("late", [0, 5])
@pytest.mark.parametrize("by", ["initialize_from", "init_path"])
def test_a_behavior_starts_from_another_run_whenever_it_appears(tmp_path, by, late):
    first = train(tmp_path, "first")
    alone = train(tmp_path, "alone", late)
    more = {"initialize_from": "first"} if by == "initialize_from" else {}
    path = {"init_path": str(first.folder)} if by == "init_path" else {}
    settings_of_seed = {"b": {"network_settings": {"hidden_units": 16, "num_layers": 1}, **path}}
    second = train(tmp_path, "second", late, **settings_of_seed, **more)
    assert is_close(network(first, "B"), network(second, "B"))
    assert is_close(network(alone, "B"), network(first, "B"))  # a seed by name, not by the order of appearance


def test_the_best_model_of_a_late_behavior_that_cannot_be_evaluated_is_not_kept_and_the_run_says_so(tmp_path, capsys):
    block = settings("A", 400)["behaviors"]["A"]
    config = {"behaviors": {"A": block, "B": {**block, "keep_best": {}}}}
    env = Scripted(STREAMS, appears={"B": 5})
    result = palaestra.train(config, env=env, results_dir=str(tmp_path), seed=1)
    assert result.finished
    assert "behavior 'B': keep_best evaluates in a separate environment" in capsys.readouterr().out


@pytest.mark.slow
def test_the_number_of_threads_counts_a_late_behavior(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads, "MUCH_WORK", 40_000)
    block = settings("A", 400)["behaviors"]["A"]
    large = {**block, "network_settings": {"hidden_units": 64, "num_layers": 2}}
    env = Scripted(STREAMS, appears={"B": 5})
    palaestra.train({"behaviors": {"A": block, "B": large}}, env=env, results_dir=str(tmp_path), seed=1, run_id="run")
    out = (tmp_path / "run/run_logs/console.log").read_text()
    assert "Computing with" not in capsys.readouterr().out  # but with --debug
    alone, late, together = "Computing with 1 thread:", "New behavior 'B'", "Computing with 2 threads:"
    assert out.index(alone) < out.index(late) < out.index(together)


def test_a_program_that_trains_keeps_its_threads_and_its_random_numbers(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch.manual_seed(3)
        expected = torch.rand(3)
        torch.manual_seed(3)
        train(tmp_path, "run")
        assert torch.equal(torch.rand(3), expected)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_error_of_a_callback_marks_the_run_as_failed(tmp_path):
    def callback(summary: object) -> None:
        raise ValueError("no such chart")

    with pytest.raises(CallbackError, match="the callback callback raised ValueError: no such chart"):
        train(tmp_path, "run", callbacks=[callback])
    progress = read_progress(tmp_path / "run")
    assert progress["state"] == "failed"
    assert "no such chart" in progress["message"]
    status = read_status(ResultsFiles(tmp_path), "run")
    assert status.state == "died"
    assert "no such chart" in status.failure
    assert status.started is not None
    last = (tmp_path / "run" / "run_logs" / "console.log").read_text().splitlines()
    assert any("[ERROR]" in line and "no such chart" in line for line in last)


def test_behaviors_whose_names_have_the_same_letters_have_seeds_of_their_own():
    own = RunSettings.model_validate({"default_settings": {}, "behaviors": {"First": {}, "Second": {}}})
    seeds = [behavior_seed(name, own) for name in ("First", "Second", "Wing12", "Wing21")]
    assert seeds[1] - seeds[0] == 1000
    assert len({*seeds}) == 4


@pytest.mark.parametrize("number", [0, 1])
def test_what_one_process_saved_goes_on_in_two_with_decisions_counted_once_and_other_random_numbers(tmp_path, number):
    group = RankGroup()
    group.number = number
    group.size = 2
    result = train(tmp_path, "run")
    saved = SavedRun(Checkpoints(result.folder / "checkpoints", 0).load(), group)
    spec = Scripted(STREAMS)
    spec.reset(0)
    block = behavior_settings({"buffer_size": 128, "batch_size": 32}, {"num_layers": 1})
    learner = Learner("B", spec.behaviors["B"], block, CPU, 3, False, group=group)
    assert saved.restore(learner, 5)
    assert (learner.collector.decisions, learner.agreed) == ([result.steps["B"], 0][number], result.steps["B"])
    trainer: Any = learner.trainer
    assert trainer.action_rng.initial_seed() == group.own_seed(5 + sum(result.steps.values()))


def test_a_late_behavior_that_a_brain_plays_goes_on_with_the_random_numbers_of_that_brain(tmp_path, monkeypatch):
    states: list[Any] = []
    decide = RandomBrain.decide

    def noted(self: RandomBrain, seen: Any) -> Any:
        states.append(self.rng.bit_generator.state)
        return decide(self, seen)

    monkeypatch.setattr(RandomBrain, "decide", noted)
    block = settings("A", 400)["behaviors"]["A"]
    cloning = {"trainer_type": "bc", "hyperparameters": {"teacher": "random", "buffer_size": 128, "batch_size": 32}}
    config = {"behaviors": {"A": block, "B": {**block, **cloning}}}

    def play(until: int, late: int, **more: Any) -> Any:
        states.clear()
        env = Scripted(STREAMS, appears={"B": late})
        stop = [lambda summary: summary.step >= until]
        palaestra.train(
            config, env=env, results_dir=str(tmp_path), run_id="run", quiet=True, seed=1, callbacks=stop, **more
        )
        return states[0], states[-1]

    first, _ = play(100, 0)
    later, _ = play(200, 3, resume=True)
    assert later != first


def test_a_late_behavior_that_an_earlier_run_had_not_learns_without_its_data(tmp_path, capsys):
    hyper = {"batch_size": 32, "buffer_size": 400, "buffer_init_steps": 64, "steps_per_update": 20}
    config = settings("A", 200, trainer_type="sac", hyperparameters={**hyper, "save_replay_buffer": True})
    place = {"results_dir": str(tmp_path), "seed": 1}
    palaestra.train(config, env=Scripted({"A": {"steady": True}}), run_id="first", quiet=True, **place)
    block = {**config["behaviors"]["A"], "hyperparameters": {**hyper, "prior_data": {"run": "first"}}}
    result = palaestra.train(
        {"behaviors": {"A": block, "B": block}}, env=Scripted(STREAMS, appears={"B": 5}), run_id="second", **place
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "'B' learns without that run's data: behavior 'B': prior_data.run: " in said
    assert said.count("of each minibatch are prior data") == 1
    assert result.finished


def test_a_late_behavior_that_does_not_fit_its_checkpoint_ends_a_resumed_run_with_a_sentence(tmp_path):
    train(tmp_path, "run", 5, callbacks=[lambda summary: summary.step >= 200])
    wider = {"network_settings": {"hidden_units": 24, "num_layers": 1}}
    with pytest.raises(
        RunError, match=r"and these settings: behaviors\.B\.network_settings\.hidden_units is 24, was 16; change"
    ):
        train(tmp_path, "run", 5, b=wider, resume=True)


def test_settings_that_do_not_fit_a_late_behavior_end_the_run_with_what_to_change_and_how_to_go_on(tmp_path):
    unfit = {"mirror": {"observations": {"nothing": "same"}}}
    with pytest.raises(ConfigError, match=r"^behavior 'B': mirror\.observations: ") as raised:
        train(tmp_path, "run", 5, b=unfit)
    advice = f'change that in {tmp_path / "run" / "configuration.yaml"}, then palaestra.train(run_id="run", '
    assert advice in str(raised.value)
    assert train(tmp_path, "run", 5, resume=True).finished
