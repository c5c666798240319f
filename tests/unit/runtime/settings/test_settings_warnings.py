import argparse
from typing import Any

import pytest

from palaestra.cli import learn
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.settings.warnings import remarks


def remarked(**behavior: Any) -> dict[str, str]:
    tree = {"behaviors": {"Ball": behavior}}
    return {".".join(map(str, path)): sentence for path, sentence in remarks(RunSettings.model_validate(tree))}


def test_defaults_deserve_no_word():
    assert remarked() == {}


def test_encoding_size_is_deprecated_and_becomes_hidden_units():
    signals = {"curiosity": {"encoding_size": 64}, "rnd": {"encoding_size": 64, "network_settings": {"num_layers": 1}}}
    assert set(remarked(reward_signals=signals)) == {
        "behaviors.Ball.reward_signals.curiosity.encoding_size",
        "behaviors.Ball.reward_signals.rnd.encoding_size",
    }
    ball = RunSettings.model_validate({"behaviors": {"Ball": {"reward_signals": signals}}}).behaviors["Ball"]
    assert [signal.network_settings.hidden_units for signal in ball.reward_signals.values()] == [64, 128]


def test_what_means_nothing_to_a_reward_signals_network_is_remarked():
    network = {"memory": {}, "deterministic": True, "bfloat16": True, "compile": True, "normalize": True}
    assert remarked(reward_signals={"gail": {"demo_path": "d", "network_settings": network}}) == {
        "behaviors.Ball.reward_signals.gail.network_settings.memory": "not used: a reward signal sees each decision "
        "on its own",
        "behaviors.Ball.reward_signals.gail.network_settings.deterministic": "not used: a reward signal does not act",
        "behaviors.Ball.reward_signals.gail.network_settings.bfloat16": "not used: a reward signal works in float32",
        "behaviors.Ball.reward_signals.gail.network_settings.compile": "not used: a reward signal's network is not "
        "compiled",
    }


def test_self_play_that_cannot_work_as_written_is_remarked():
    play = {"save_steps": 6000, "play_against_latest_model_ratio": 2, "priority": {"power": 1, "decay": 0.9}}
    assert remarked(max_steps=20000, self_play={**play, "opponents": "prioritized"}).keys() == {
        "behaviors.Ball.self_play.play_against_latest_model_ratio"
    }
    assert remarked(max_steps=20000, self_play=play) == {
        "behaviors.Ball.self_play.priority.power": "not used: opponents: prioritized draws copies by it",
        "behaviors.Ball.self_play.play_against_latest_model_ratio": "expected a share within 0..1, got 2.0",
    }
    never = "snapshots are never drawn, so {} has no effect; give less than 1"
    both = {"opponents": ["prioritized", "random"]}
    assert remarked(self_play=both) == {
        "behaviors.Ball.self_play.play_against_opponents_ratio": never.format("prioritized")
    }
    assert remarked(self_play={"exploiter": {}, "play_against_latest_model_ratio": 1}) == {
        "behaviors.Ball.self_play.play_against_latest_model_ratio": never.format("exploiter")
    }
    assert remarked(self_play={**both, "exploiter": {}, "play_against_opponents_ratio": 0.5}) == {}


@pytest.mark.parametrize("trainer", ["ppo", "sac"])
def test_passes_over_demonstrations_are_made_beside_any_trainer(trainer):
    many = {"demo_path": "d", "num_epoch": 5, "samples_per_update": 64}
    assert remarked(trainer_type=trainer, behavioral_cloning=many) == {}


def test_rewards_are_not_what_bc_learns_from():
    signals = {"extrinsic": {"strength": 0.5, "normalize": True, "gamma": 0.99}}
    message = "has no effect: bc does not learn from rewards"
    assert remarked(trainer_type="bc", hyperparameters={"teacher": "heuristic"}, reward_signals=signals) == {
        "behaviors.Ball.reward_signals.extrinsic.strength": message,
        "behaviors.Ball.reward_signals.extrinsic.normalize": message,
    }
    assert remarked(reward_signals=signals) == {}


def test_a_student_cannot_play_for_a_teacher_of_another_behavior():
    def with_teacher(behavior: str | None) -> dict[str, str]:
        return remarked(
            trainer_type="bc",
            hyperparameters={"teacher": "heuristic", "teacher_behavior": behavior, "teacher_plays": False},
        )

    assert set(with_teacher("Expert")) == {"behaviors.Ball.hyperparameters.teacher_plays"}
    assert with_teacher("Ball") == with_teacher(None) == {}


@pytest.mark.parametrize("trainer", ["ppo", "poca", "sac"])
def test_a_minibatch_larger_than_all_there_is_is_remarked(trainer: str):
    found = remarked(trainer_type=trainer, hyperparameters={"batch_size": 128, "buffer_size": 64})
    sentence = found["behaviors.Ball.hyperparameters.batch_size"]
    used = (
        "minibatches draw the same decisions several times" if trainer == "sac" else "each minibatch is a whole rollout"
    )
    assert sentence.startswith(f"128 is more than buffer_size (64): {used}")


def test_criteria_of_the_last_lesson_are_not_used():
    lesson = {"name": "only", "value": 1, "completion_criteria": {"behavior": "Ball"}}
    settings = RunSettings.model_validate({"environment_parameters": {"mass": {"curriculum": [lesson]}}})
    [(path, _)] = remarks(settings)
    assert path == ("environment_parameters", "mass", "curriculum", 0, "completion_criteria")


def test_a_warning_about_a_flag_names_the_flag_that_was_typed():
    parser = argparse.ArgumentParser()
    learn.add_arguments(parser)
    for flag in ("--train", "--load"):
        options = parser.parse_args(["x.yaml", flag])
        warnings = load({"behaviors": {"Ball": {"trainer_type": "ppo"}}}, learn.overrides(options)).warnings
        assert [warning.partition(":")[0] for warning in warnings] == [flag]
