"""What a run says at its beginning and end, and that the commands it offers do what it says."""

import json
import re
import shlex
from os import terminal_size
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_runs import settings, write
from tiny_envs import Scripted

import palaestra
from palaestra.cli.main import main
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.presentation import labelled_lines
from palaestra.runtime.run.rate_jumps import RateJump, sentence
from palaestra.runtime.run.result import Result


def train(results: Path, max_steps: int = 800, config: Any = None, **more: Any) -> Result:
    given = {"env": "Basic", "num_areas": 3, "seed": 7, "results_dir": str(results), "run_id": "run", **more}
    return palaestra.train(settings("Basic", max_steps) if config is None else config, **given)


def learn(results: Path, *flags: str, max_steps: int = 800, **block: Any) -> Path:
    """Trains by the command line. Returns the run's folder."""
    file = write(str(results / "x.yaml"), settings("Basic", max_steps, **block))
    given = ["--env=Basic", "--num-areas=3", "--seed=7", f"--results-dir={results}", "--run-id=run"]
    assert main(["learn", file, *given, *flags]) == 0
    return results / "run"


def offered(out: str) -> list[list[str]]:
    """Arguments of the commands `palaestra learn ...` that were printed."""
    return [shlex.split(command)[1:] for command in re.findall(r"palaestra learn .*--resume.*", out)]


def rates(folder: Path) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["Policy/Learning Rate"] for line in lines if "Policy/Learning Rate" in line]


def test_the_closing_mean_is_that_of_the_last_summary_with_its_count_of_episodes(tmp_path, capsys):
    seen: list[Summary] = []
    result = train(tmp_path, callbacks=[seen.append])
    last = [summary for summary in seen if summary.episodes][-1]
    closing = f"decisions in .* s, reward {last.mean:.3f} \\(last {last.episodes} episodes\\)\n"
    assert re.search(closing, capsys.readouterr().out)
    assert result.rewards == {"Basic": pytest.approx(last.mean)}
    assert result.episodes == {"Basic": last.episodes}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, ": buffer_size 128 is more than 100 decisions\n"),
        ({"trainer": "sac", "buffer_init_steps": 101, "steps_per_update": 1}, ": buffer_init_steps 101 is more than 1"),
        ({"trainer": "sac", "batch_size": 128}, ": batch_size 128 is more than 1"),
    ],
)
def test_a_run_without_an_update_says_so_and_why(more: dict[str, Any], why: str, tmp_path: Path, capsys):
    kind = more.pop("trainer", "ppo")
    hyper = {"batch_size": 32, "buffer_size": 128, **more}
    train(tmp_path, config=settings("Basic", 100, trainer_type=kind, hyperparameters=hyper), num_areas=1)
    assert f"; nothing was learned, since no update was made{why}" in capsys.readouterr().out
    train(
        tmp_path, 300, num_areas=1, resume=True, config=settings("Basic", 300, trainer_type=kind, hyperparameters=hyper)
    )
    assert "nothing was learned" not in capsys.readouterr().out


def test_without_a_summary_the_closing_mean_is_of_all_episodes_so_far(tmp_path, capsys):
    result = train(tmp_path, 300, summary_freq=1000)
    assert result.episodes["Basic"] > 0
    message = f"({result.episodes['Basic']} episodes so far; first summary at step 1,000)"
    assert message in capsys.readouterr().out


def test_no_model_is_listed_without_a_reward_once_episodes_have_ended(tmp_path):
    """Basic has episodes of a few decisions; updates of 12 decisions leave most checkpoints without one since the
    last.
    """
    often = {"checkpoint_interval": 30, "keep_checkpoints": 0}
    folder = train(tmp_path, 400, buffer_size=12, batch_size=6, settings=often, quiet=True).folder
    listed = json.loads((folder / "run_logs/training_status.json").read_text())["Basic"]
    listed_rewards = [model["reward"] for model in (*listed["checkpoints"], listed["final_checkpoint"])]
    first = next(i for i, reward in enumerate(listed_rewards) if reward is not None)
    assert None not in listed_rewards[first:]
    assert len(listed_rewards) > first + 5


def test_the_hint_of_a_run_whose_max_steps_were_lowered_below_its_step_trains_it_further(tmp_path, capsys):
    train(tmp_path, 800, quiet=True)
    train(tmp_path, resume=True, config=None, settings={"max_steps": 100}, quiet=True)
    capsys.readouterr()
    assert main(["learn", "--run-id=run", f"--results-dir={tmp_path}", "--resume"]) == 0
    message = capsys.readouterr().out
    assert "it has reached its max_steps of 100 (it is at step 801)" in message
    assert main(offered(message)[0]) == 0
    assert "Resuming 'run' from step 801" in capsys.readouterr().out


def test_more_steps_say_how_far_they_raise_the_learning_rate_and_how_to_hold_it(tmp_path, capsys):
    folder = learn(tmp_path)
    (further,) = offered(capsys.readouterr().out)
    assert further[-1] == "--max-steps=1600"
    assert main(further) == 0
    message = capsys.readouterr().out
    assert "[WARNING] Basic: the learning rate goes back up from 1e-10 to 0.00015, because it falls to zero" in message
    assert main(offered(message)[0]) == 0  # as it is, although the run has ended
    message = capsys.readouterr().out
    assert "Finished at step 2,4" in message
    assert "learning rate goes" not in message
    assert set(rates(folder)[-3:]) == {3e-5}


def test_the_rate_of_a_run_that_was_not_finished_is_offered_as_it_was(tmp_path, capsys):
    train(tmp_path, 800, callbacks=[lambda summary: summary.step >= 400], quiet=True)
    train(tmp_path, 1000, resume=True, callbacks=[lambda summary: True])
    assert "learning rate goes" not in capsys.readouterr().out  # a fifth more
    train(tmp_path, 8000, resume=True, callbacks=[lambda summary: True])
    message = capsys.readouterr().out
    assert "the learning rate goes back up from 0.0001" in message
    assert re.search("learning.rate=0.0001", message)


def test_of_several_behaviors_the_one_whose_rate_rises_is_named():
    jump = RateJump("Wall", 1e-4, 2e-4, 3e-4, (100, 200))
    message = sentence(jump, "palaestra learn", 2)
    assert message.startswith("Wall: the learning rate goes back up from 0.0001 to 0.0002, because it falls to zero")
    hold = "--set behaviors.Wall.max_steps=300 --set behaviors.Wall.hyperparameters.learning_rate=0.0001"
    assert message.endswith(
        f"palaestra learn {hold} --set behaviors.Wall.hyperparameters.learning_rate_schedule=constant"
    )


@pytest.mark.parametrize("more", [{}, {"hyperparameters.learning_rate_schedule": "constant"}])
def test_rates_that_do_not_rise_are_not_spoken_of(more, tmp_path, capsys):
    train(tmp_path, 400, settings=more, callbacks=[lambda summary: True])
    train(tmp_path, 800 if more else 400, settings=more, resume=True)
    assert "learning rate goes" not in capsys.readouterr().out


def test_behaviors_that_come_late_have_their_settings_in_tensorboard_as_text(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    env = Scripted({"A": {}, "B": {}}, appears={"B": 5})
    config = {"default_settings": settings("x", 300)["behaviors"]["x"]}
    folder = train(
        tmp_path, config=config, env=env, num_areas=None, quiet=True, callbacks=[lambda summary: summary.step >= 200]
    ).folder
    env = Scripted({"A": {}, "B": {}}, appears={"B": 5})
    train(tmp_path, config=config, env=env, num_areas=None, quiet=True, resume=True)
    for name in ("A", "B"):
        texts = []
        for file in (folder / name).iterdir():
            if file.name.startswith("events"):
                texts += EventAccumulator(str(file)).Reload().Tags()["tensors"]
        assert texts == ["Hyperparameters/text_summary"], name


def test_a_run_ends_with_short_lines_whose_commands_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(labelled_lines, "get_terminal_size", lambda fallback: terminal_size((80, 24)))
    Path("x.yaml").write_text(yaml.safe_dump(settings("Basic", 900)))
    name = "a-run-with-a-name"
    assert main(["learn", "x.yaml", "--env=Basic", "--num-areas=3", "--seed=7", f"--run-id={name}", "--keep-best"]) == 0
    out = capsys.readouterr().out
    last = out[out.index("[INFO] Finished: ") :].splitlines()
    labels = [line[:10].strip() for line in last[1:]]
    assert [label for label in labels if label] == ["model", "best", "next"]  # no curve is drawn in tests
    assert all(len(line) <= 80 for line in last if not line.startswith("  best"))
    commands = [shlex.split(one) for line in last[3:] for one in line[10:].split(" · ")]
    assert {command[1] for command in commands} >= {"evaluate", "record", "learn"}
    for command in commands:
        if command[1] in ("evaluate", "learn"):
            assert main(command[1:]) == 0
    out = capsys.readouterr().out
    assert f"Resuming '{name}' from step" in out
    for noise in ("TensorBoard", "bottleneck", "Computing with", "differs from"):
        assert noise not in out
        assert noise in Path("results", name, "run_logs", "console.log").read_text()
    assert main(["learn", f"--run-id={name}", "--resume", "--max-steps=1900", "--debug"]) == 0
    assert "bottleneck" in capsys.readouterr().out


def test_a_goal_that_had_too_few_episodes_says_so_at_the_end(tmp_path, capsys):
    learn(tmp_path, "--stop-at=0.5")
    found = re.search(r"note +--stop-at=0.5 needs 100 episodes; there were (\d+)\n", capsys.readouterr().out)
    assert found is not None
    assert 0 < int(found[1]) < 100
