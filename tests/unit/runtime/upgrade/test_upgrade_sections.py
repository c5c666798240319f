from pathlib import Path
from typing import Any

import pytest
from school_env import School
from upgraded_files import loaded, refused, upgraded

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.models.settings import MemorySettings
from palaestra.rewards.settings import CuriositySettings, ExtrinsicSettings, GAILSettings
from palaestra.runtime.settings import behavior_settings, load
from palaestra.runtime.upgrade import upgrade
from palaestra.trainers.settings import BCSettings, BehavioralCloningSettings, PPOSettings, SACSettings


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


PPO = """
    default:
        trainer: ppo
        batch_size: 1024
        buffer_size: 10240
        beta: 5.0e-3
        normalize: true
        hidden_units: 256
        max_steps: 5.0e5
        summary_freq: 1000
        time_horizon: 128
        use_recurrent: false
        memory_size: 256
        sequence_length: 64
        reward_signals:
            extrinsic:
                strength: 1.0
                gamma: 0.99
"""


def test_each_key_of_a_section_goes_where_it_belongs():
    block = loaded(PPO + "    A:\n        batch_size: 64\n")
    assert block.trainer_type == "ppo"
    assert block.hyperparameters == PPOSettings(batch_size=64, buffer_size=10240, beta=5e-3)
    network = block.network_settings
    assert (network.normalize, network.hidden_units, network.memory) == (True, 256, None)
    assert (block.max_steps, block.summary_freq, block.time_horizon) == (500_000, 1000, 128)
    assert block.reward_signals == {"extrinsic": ExtrinsicSettings()}


def test_default_serves_behaviors_that_are_not_listed():
    block = loaded(PPO + "    A:\n        batch_size: 64\n", "Other")
    assert block.hyperparameters == PPOSettings(batch_size=1024, buffer_size=10240, beta=5e-3)


def test_a_block_says_only_what_differs_and_where_it_came_from():
    text = upgraded(PPO + "    A:\n        batch_size: 64\n        normalize: true\n").text
    assert text.endswith("behaviors:\n  A:  # old.yaml:19\n    hyperparameters:\n      batch_size: 64\n")


def test_recurrent_sections_have_a_memory_and_others_none_although_default_has():
    text = PPO.replace("use_recurrent: false", "use_recurrent: true") + "    A:\n        use_recurrent: false\n"
    assert loaded(text).network_settings.memory is None
    assert loaded(text, "Other").network_settings.memory == MemorySettings(sequence_length=64, memory_size=256)


def test_a_minibatch_of_less_than_a_sequence_is_the_one_sequence_that_it_was():
    text = "A: {trainer: ppo, batch_size: 16, use_recurrent: true, sequence_length: 32, memory_size: 8}"
    assert loaded(text).hyperparameters == PPOSettings(batch_size=32)
    assert "old.yaml:1: batch_size 16 is less than a sequence of 32" in upgraded(text).report.text()


def test_signals_of_a_section_replace_those_of_default():
    text = (
        PPO + "    A:\n        reward_signals:\n            gail: {strength: 0.1, gamma: 0.9, demo_path: x.demo, "
        "encoding_size: 64}\n"
    )
    signals = loaded(text).reward_signals
    assert list(signals) == ["gail"]
    gail = signals["gail"]
    assert isinstance(gail, GAILSettings)
    assert (gail.strength, gail.gamma, gail.demo_path, gail.network_settings.hidden_units) == (0.1, 0.9, "x.demo", 64)
    assert list(loaded(text, "Other").reward_signals) == ["extrinsic"]


def test_default_goes_where_a_section_could_not_be_without_its_signals():
    signals = "    A:\n        reward_signals: {curiosity: {strength: 0.1, gamma: 0.9}}\n"
    old = PPO.replace("gamma: 0.99", "gamma: 0.5") + signals
    assert list(loaded(old).reward_signals) == ["curiosity"]
    assert loaded(old).network_settings.hidden_units == 256
    assert "old.yaml:2: every behavior has all values of `default` itself" in upgraded(old).report.text()
    with pytest.raises(ConfigError, match="'Other', which has no settings"):
        behavior_settings(load(Path("new.yaml")).settings, "Other")


def test_before_0_9_discount_and_curiosity_were_keys_of_their_own():
    text = "A: {trainer: ppo, gamma: 0.9, use_curiosity: true, curiosity_strength: 0.02, curiosity_enc_size: 64}"
    signals = loaded(text).reward_signals
    assert signals["extrinsic"] == ExtrinsicSettings(gamma=0.9)
    curiosity = signals["curiosity"]
    assert isinstance(curiosity, CuriositySettings)
    assert (curiosity.gamma, curiosity.strength, curiosity.network_settings.hidden_units) == (0.9, 0.02, 64)


def test_curiosity_that_was_not_used_stays_away():
    block = loaded("A: {trainer: ppo, use_curiosity: false, curiosity_strength: 0.02}")
    assert list(block.reward_signals) == ["extrinsic"]


@pytest.mark.parametrize(
    ("keys", "steps", "of_signals"),
    [
        ("train_interval: 4, num_update: 2", 2.0, 2.0),
        ("train_interval: 4", 4.0, 4.0),
        ("num_update: 2", 0.5, 0.5),
        ("updates_per_train: 4", 0.25, 0.25),
        ("steps_per_update: 10, train_interval: 3", 10.0, 10.0),
        ("reward_signal_steps_per_update: 5", 1.0, 5.0),
        (
            "train_interval: 8, num_update: 2, reward_signals: {reward_signal_num_update: 4, extrinsic: {gamma: 0.9}}",
            4.0,
            2.0,
        ),
    ],
)
def test_sac_learns_as_often_as_it_did(keys, steps, of_signals):
    text = f"A: {{trainer: sac, tau: 0.01, init_entcoef: 0.5, buffer_init_steps: 1.0e3, {keys}}}"
    hyper = loaded(text).hyperparameters
    assert isinstance(hyper, SACSettings)
    assert (hyper.steps_per_update, hyper.reward_signal_steps_per_update) == (steps, of_signals)
    assert (hyper.tau, hyper.init_entcoef, hyper.buffer_init_steps) == (0.01, 0.5, 1000)


def test_a_trainer_takes_over_from_default_what_it_knows():
    hyper = loaded(PPO + "    A:\n        trainer: sac\n").hyperparameters
    assert hyper == SACSettings(batch_size=1024, buffer_size=10240)
    assert upgraded(PPO + "    A:\n        trainer: sac\n").report.warnings == []


def test_self_play_and_pretraining_have_other_names():
    block = loaded(
        """
        A:
            trainer: ppo
            self_play: {window: 5, play_against_current_self_ratio: 0.25, save_steps: 5.0e4, swap_steps: 50000}
            pretraining: {demo_path: x.demo, strength: 0.5, steps: 1.0e4}
        """
    )
    play = block.self_play
    assert (play.window, play.play_against_latest_model_ratio, play.save_steps) == (5, 0.25, 50_000)
    assert block.behavioral_cloning == BehavioralCloningSettings(demo_path="x.demo", strength=0.5, steps=10_000)


@pytest.mark.parametrize("trainer", ["imitation", "online_bc"])
def test_the_brain_to_imitate_is_the_behavior_that_the_teacher_plays(trainer):
    text = f"A: {{trainer: {trainer}, brain_to_imitate: Master, batch_size: 16, batches_per_epoch: 5}}"
    block = loaded(text)
    assert block.trainer_type == "bc"
    assert block.hyperparameters == BCSettings(teacher="heuristic", teacher_behavior="Master", batch_size=16)
    assert "old.yaml:1: fill in: who plays 'Master'" in upgraded(text).report.text()


def test_a_brain_that_was_only_a_placeholder_leaves_the_students_own_agents_to_the_teacher():
    text = """
        default: {trainer: online_bc, brain_to_imitate: <Your_Brain>}
        A: {brain_to_imitate: Master}
        B: {trainer: offline_bc, demo_path: x}
    """
    assert loaded(text, "Other").hyperparameters == BCSettings(teacher="heuristic")
    assert loaded(text).hyperparameters == BCSettings(teacher="heuristic", teacher_behavior="Master")
    assert loaded(text, "B").hyperparameters == BCSettings(demo_path="x")


def test_a_recurrent_student_learns_from_the_behavior_of_its_teacher(tmp_path):
    upgraded(
        """
        default:
            trainer: imitation
            brain_to_imitate: <Your_Brain>
            batch_size: 16
            batches_per_epoch: 5
            buffer_size: 128
            hidden_units: 16
            num_layers: 1
            max_steps: 5.0e2
            summary_freq: 250
        Pupil:
            brain_to_imitate: Expert
            use_recurrent: true
            sequence_length: 32
            memory_size: 8
        """
    )
    school: Any = School()
    run = palaestra.train(Path("new.yaml"), env=school, results_dir=str(tmp_path), num_areas=4, quiet=True)
    assert run.finished
    assert list(run.models) == ["Pupil"]


def test_offline_cloning_learns_from_its_files():
    text = "A: {trainer: offline_bc, demo_path: ./demos/<Your_Demo_File>.demo, hidden_units: 64}"
    assert loaded(text).hyperparameters == BCSettings(demo_path="./demos/<Your_Demo_File>.demo")
    assert "old.yaml:1: fill in: './demos/<Your_Demo_File>.demo'" in upgraded(text).report.text()


def test_a_section_may_be_another_by_name_or_by_anchor():
    sections = "    A: B\n    B: C\n    C:\n        <<: *base\n        batch_size: 8\n"
    text = PPO.replace("default:", "default: &base") + sections
    assert loaded(text).hyperparameters == PPOSettings(batch_size=8, buffer_size=10240, beta=5e-3)
    assert (
        refused("default: {trainer: ppo}\nA: Hallwey\nHallway: {}")
        == "old.yaml:2: 'A' refers to 'Hallwey', which is not a section; did you mean 'Hallway'?"
    )
    message = refused("default: {trainer: ppo}\nA: B\nB: A")
    assert message == "old.yaml:3: 'B' refers to 'A', which refers back to itself"


def test_a_key_that_nobody_knows_is_named_with_its_line():
    warnings = upgraded(
        """
        A:
            trainer: ppo
            hiden_units: 3
            reward_signals:
                extrinsic: {gamma: 0.9, speed: 3}
                joy: {strength: 1}
            self_play:
                windows: 3
        version: 2
        """
    ).report.warnings
    assert warnings == [
        "old.yaml:10: 'version' is not a section: left out",
        "old.yaml:6: unknown key 'speed': left out",
        "old.yaml:7: unknown key 'joy': left out",
        "old.yaml:9: unknown key 'windows'; did you mean 'window'?: left out",
        "old.yaml:4: unknown key 'hiden_units'; did you mean 'hidden_units'?: left out",
    ]


def test_a_key_given_twice_counts_where_it_stands_last():
    text = "A:\n    trainer: ppo\n    batch_size: 8\n    batch_size: 16\n"
    assert loaded(text).hyperparameters == PPOSettings(batch_size=16)
    assert upgraded(text).report.warnings == ["old.yaml:4: the key 'batch_size' is given twice: this value is used"]


def test_values_that_cannot_be_used_are_named_with_their_old_lines():
    assert refused("default:\n    trainer: ppo\n    batch_size: -3\nA:\n    normalize: 'yes!'\n").splitlines() == [
        "2 settings cannot be used:",
        "  old.yaml:3: default_settings.hyperparameters.batch_size: expected a number greater than 0, got -3",
        "  old.yaml:5: behaviors.A.network_settings.normalize: expected true or false, got 'yes!'",
    ]


def test_without_a_trainer_it_is_told_by_the_keys():
    assert loaded("A: {tau: 0.01, hidden_units: 8}").trainer_type == "sac"
    assert loaded("A: {hidden_units: 8}").trainer_type == "ppo"
    assert upgraded("A: {hidden_units: 8}").report.warnings == ["old.yaml:1: no `trainer` is given: assumed to be ppo"]


def test_old_steps_were_counted_otherwise_before_0_14_and_the_report_says_so():
    assert "multiply both by the number of agents" in upgraded("A: {trainer: ppo}").report.text()
    assert "multiply" not in upgraded("behaviors: {A: {trainer: ppo}}").report.text()


def test_what_was_left_of_an_upgrade_is_current(tmp_path):
    done = upgraded(PPO + "    A:\n        batch_size: 64\n")
    again = upgrade(Path("new.yaml"))
    assert done.changed
    assert (again.changed, again.text) == (False, done.text)
