"""Warnings where something goes wrong, and none where all goes well."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import settings
from tiny_envs import Bandit

import palaestra
from palaestra.core.metrics import ELO, REWARD
from palaestra.core.specs import ActionSpec
from palaestra.core.timestep import Action, TimeStep
from palaestra.runtime.logging.symptoms import ENTROPY, GUIDE, LEARNING_RATE, VALUES, Symptoms
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.settings import BehaviorSettings
from palaestra.trainers.update_metrics import AT_BOUNDS

CHOICES = ActionSpec(0, (3,))
NUMBERS = ActionSpec(2)
PPO = BehaviorSettings.model_validate({"max_steps": 2000})


def summary(number: int, returns: list[float], **values: float) -> Summary:
    """The one at 100 times this number."""
    tags = {"entropy": ENTROPY, "values": VALUES, "bounds": AT_BOUNDS, "elo": ELO}
    metrics = {LEARNING_RATE: 1e-4, **{tags.get(k, k): v for k, v in values.items()}}
    mean = float(np.mean(returns)) if returns else math.nan
    rewards = {REWARD: np.array(returns)} if returns else {}
    return Summary("B", 100 * number, 0, 0, True, metrics, {}, rewards, len(returns), mean, 0.0)


def reported(
    rewards: list[list[float]],
    block: BehaviorSettings = PPO,
    action: ActionSpec = CHOICES,
    symptoms: Symptoms | None = None,
    **values: float,
) -> list[str]:
    """All that is said of summaries with these returns and metrics, checked to be the same after a save in their
    midst.
    """
    made = symptoms or Symptoms()
    resumed = Symptoms()
    message = []
    for i, returns in enumerate(rewards):
        if i == len(rewards) // 2:
            resumed.load_state_dict(json.loads(json.dumps(made.state_dict())))
        sentences = made.note(summary(i + 1, returns, **values), block, action)
        if i >= len(rewards) // 2:
            assert resumed.note(summary(i + 1, returns, **values), block, action) == sentences
        message += sentences
    return message


FLAT = [[0.0, 1.0, 2.0]] * 20
RISING = [[float(i), i + 1.0, i + 2.0] for i in range(20)]
CEILING = [[0.0, 1.0, 2.0], *[[9.0, 9.0, 9.0]] * 19]


def test_a_reward_that_does_not_rise_is_told_once_with_the_guide():
    (message,) = reported(FLAT)
    assert message.startswith("B: the mean reward has not risen (1 in the first summary, 1 now), after 1,000")
    assert message.endswith(f"(see {GUIDE})")


def test_a_reward_that_has_risen_within_chance_is_not_called_flat():
    (message,) = reported([[0.0, 2.08]] + [[0.0, 3.36]] * 19)
    assert "the mean reward has not risen by more than chance (1.04 in the first summary, 1.68 now)" in message


def test_of_a_reward_that_has_more_than_doubled_by_two_standard_errors_nothing_is_told():
    assert reported([[0.0, 1.0, 2.0]] + [[1.2, 2.2, 3.2]] * 19) == []


def test_the_guide_that_warnings_name_is_there():
    page = Path(__file__).parents[4] / "docs" / "guides" / "training" / "it-does-not-learn.md"
    assert f"the guide '{page.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}'" == GUIDE


def test_a_reward_that_is_always_the_same_is_told_as_such():
    (message,) = reported([[0.0, 0.0]] * 20, values=0.0)
    assert "every episode has earned the same so far (0), so there is nothing to learn from" in message


def test_a_reward_that_is_always_the_same_is_told_however_few_updates_there_were_and_at_the_end():
    symptoms = Symptoms()
    told = []
    for number in range(1, 11):
        one = summary(number, [0.0, 0.0])
        told += symptoms.note(replace(one, values={}), PPO, CHOICES)  # no update
    assert len(told) == 1
    assert "every episode has earned the same so far (0)" in told[0]
    last = symptoms.unrewarded("B", PPO, {REWARD: [0.0]}, "Maze")
    assert last is not None
    assert last.startswith("all 21 episodes earned 0: more steps will not help, unless random actions find")
    assert "`palaestra doctor Maze`" in last
    curious = BehaviorSettings.model_validate({"reward_signals": {"extrinsic": {}, "rnd": {}}})
    last = symptoms.unrewarded("B", curious, {}, None)
    assert last == f"all 20 episodes earned 0: rnd led to nothing better yet (see {GUIDE})"
    shown = {"trainer_type": "sac", "hyperparameters": {"prior_data": {"demo_path": "a"}}}
    last = symptoms.unrewarded("B", BehaviorSettings.model_validate(shown), {}, None)
    assert last == f"all 20 episodes earned 0: prior_data led to nothing better yet (see {GUIDE})"
    both = {"reward_signals": {"extrinsic": {}, "rnd": {}}, "behavioral_cloning": {"demo_path": "a"}}
    last = symptoms.unrewarded("B", BehaviorSettings.model_validate(both), {}, None)
    assert last == f"all 20 episodes earned 0: rnd, behavioral_cloning led to nothing better yet (see {GUIDE})"
    assert symptoms.unrewarded("B", PPO, {REWARD: [1.0]}, "Maze") is None
    symptoms.note(summary(11, [0.5]), PPO, CHOICES)
    for number in range(12, 20):
        symptoms.note(summary(number, [0.0, 0.0]), PPO, CHOICES)
    assert symptoms.unrewarded("B", PPO, {}, "Maze") is None  # one episode has earned something


def test_a_reward_that_is_flat_since_it_rose_a_little_is_told_where_the_critic_predicts_nothing():
    plateau = [[0.1] * 18 + [1.0] * 2] * 2 + [[0.0, 1.0] * 10] * 14
    (message,) = reported(plateau, values=0.01)
    assert message.startswith(
        "B: the mean reward has been flat since step 300 (0.5), and its critic predicts nothing (explained variance "
        "0.01; 1 is perfect): observations may lack what rewards depend on"
    )
    assert reported(plateau, values=0.3) == []
    assert reported(plateau[:11], values=0.0) == []  # flat for nine summaries
    assert reported([[0.0, 0.1] * 10] * 2 + [[0.9, 1.0] * 10] * 14, values=0.0) == []  # it has learned
    rising = [[0.0] * (20 - i) + [1.0] * i for i in (2, 2, 8, 9, 9, 10, 10, 11, 12, 12, 13, 14, 14, 15)]
    assert reported(rising, values=0.0) == []
    long = BehaviorSettings.model_validate({"max_steps": 100_000})
    (message,) = reported([*plateau[:2], *plateau[2:3] * 310], long, values=0.0)
    assert "flat since step 100 (0.5)" in message  # the first eight summaries have been joined
    assert reported([[0.0, 0.1] * 10, *[[0.9, 1.0] * 10] * 310], long, values=0.0) == []


@pytest.mark.parametrize("rewards", [RISING, CEILING], ids=["rising", "at its ceiling"])
def test_of_a_reward_that_has_risen_nothing_is_told_whatever_entropy_and_values_are(rewards):
    assert reported(rewards, entropy=0.0, values=-10.0) == []


def test_a_lucky_few_episodes_do_not_count_as_a_rise():
    rewards = [[0.0, 10.0] * 20, *[[0.0, 10.0] * 19 + [10.0, 10.0]] * 19]
    assert len(reported(rewards)) == 1


def test_where_the_first_episodes_to_end_are_those_that_succeed_a_rise_from_what_follows_counts():
    rewards = [[4.2, 4.3], [-2.0, -1.0] * 5, [0.0, 1.0] * 5, *[[4.1, 4.2] * 5] * 17]  # as in PushBlock
    assert reported(rewards) == []


def test_a_few_summaries_or_a_small_part_of_the_run_are_too_early_to_say():
    assert reported(FLAT[:9]) == []
    assert reported(FLAT, BehaviorSettings.model_validate({"max_steps": 20_000})) == []


def test_an_entropy_that_is_gone_is_told_where_the_reward_has_not_risen():
    message = reported(FLAT[:8], entropy=0.01)
    assert len(message) == 1
    assert "its policy has stopped exploring (entropy 0.01), yet the mean reward has not risen" in message[0]
    assert "A larger beta" in message[0]
    assert reported(FLAT[:8], entropy=0.1) == []
    sac = BehaviorSettings.model_validate({"trainer_type": "sac"})
    assert "A larger init_entcoef" in reported(FLAT[:8], sac, NUMBERS, entropy=-9.0)[0]
    assert reported(FLAT[:8], sac, NUMBERS, entropy=-2.0) == []
    assert reported(FLAT[:8], action=NUMBERS, entropy=1.4) == []
    assert len(reported(FLAT[:8], action=NUMBERS, entropy=-3.0)) == 1


def test_values_that_explain_nothing_are_told_where_the_reward_has_not_risen():
    _, message = reported(FLAT, values=0.01)
    assert "its critic does not predict what agents earn (explained variance 0.01; 1 is perfect)" in message
    assert len(reported(FLAT, values=0.4)) == 1


def test_in_the_end_the_sign_that_the_newest_summary_shows_is_told_in_short():
    symptoms = Symptoms()
    reported(FLAT[:12], symptoms=symptoms, values=0.01)
    assert symptoms.lasting("B", PPO) == (
        "the mean reward did not rise, and the critic predicts nothing (observations may lack what rewards depend on): "
        f"more steps alone are unlikely to help; see {GUIDE}",
        True,
    )
    reported([[9.0, 9.1, 9.2]] * 6, symptoms=symptoms, values=0.01)
    assert symptoms.lasting("B", PPO) is None  # it rose later
    reported([[0.1] * 18 + [1.0] * 2] * 2 + [[0.0, 1.0] * 10] * 14, symptoms=(plateau := Symptoms()), values=0.01)
    assert "flat since step 300, and the critic predicts nothing" in str(plateau.lasting("B", PPO))
    reported(FLAT, symptoms=(plain := Symptoms()), values=0.4)
    assert "the mean reward did not rise: more steps" in str(plain.lasting("B", PPO))
    reported([[0.0, 2.08]] + [[0.0, 3.36]] * 19, symptoms=(slow := Symptoms()))
    assert slow.lasting("B", PPO) == (
        f"the mean reward did not rise by more than chance: it does not learn, or not yet; see {GUIDE}",
        False,
    )
    reported(RISING, action=NUMBERS, symptoms=(bounded := Symptoms()), bounds=0.83)
    assert bounded.lasting("B", PPO) is None
    reported([[0.0, 0.0]] * 20, symptoms=(constant := Symptoms()), values=0.0)
    assert constant.lasting("B", PPO) is None  # `unrewarded` tells it


def test_actions_at_their_bounds_are_told_whatever_the_reward():
    (message,) = reported(RISING, action=NUMBERS, bounds=0.83)
    assert "83% of its continuous actions are at -1 or 1" in message
    assert reported(RISING, action=NUMBERS, bounds=0.3) == []


def test_in_self_play_in_later_lessons_and_with_other_rewards_the_mean_need_not_rise():
    assert reported([[0.0, 0.0]] * 20, elo=1200.0, entropy=0.0, values=0.0) == []
    assert reported(FLAT, **{"Environment/Lesson Number/size": 1.0}) == []
    signals = {"curiosity": {}}
    assert reported(FLAT, BehaviorSettings.model_validate({"max_steps": 2000, "reward_signals": signals})) == []


def test_a_network_that_had_learned_before_need_not_improve():
    symptoms = Symptoms()
    symptoms.started_trained("B")
    assert reported(FLAT, symptoms=symptoms) == []


class Hard(Bandit):
    """The harder agents push, the more they earn."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        tables = super().step(actions)
        reward = actions["Bandit"].continuous.mean(1)
        return {
            name: TimeStep(**{k: getattr(step, k) for k in step.__slots__} | {"reward": reward})
            for name, step in tables.items()
        }


class Blind(Bandit):
    """Rewards are noise."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        tables = super().step(actions)
        reward = torch.randn(self.num_areas, generator=self.generator)
        return {
            name: TimeStep(**{k: getattr(step, k) for k in step.__slots__} | {"reward": reward})
            for name, step in tables.items()
        }


class Nothing(Bandit):
    """No action earns anything."""

    def step(self, actions: Mapping[str, Action]) -> dict[str, TimeStep]:
        tables = super().step(actions)
        return {
            name: TimeStep(**{k: getattr(step, k) for k in step.__slots__} | {"reward": torch.zeros(self.num_areas)})
            for name, step in tables.items()
        }


def test_what_another_version_noted_is_left_out():
    symptoms = Symptoms()
    symptoms.load_state_dict({"A": {"judged": True, "recent": {}}})
    assert symptoms.state_dict() == {}


def run(env: Bandit, results: Path, **hyper: Any) -> None:
    given = {"batch_size": 32, "buffer_size": 128, "learning_rate": 0.02, **hyper}
    palaestra.train(
        settings("Bandit", 4000, hyperparameters=given), env=env, results_dir=str(results), run_id="run", seed=1
    )


def test_a_run_says_that_actions_sit_at_their_bounds_and_one_that_learns_says_nothing(tmp_path, capsys):
    run(Hard(8, continuous=2), tmp_path / "hard")
    assert capsys.readouterr().out.count("of its continuous actions are at -1 or 1") == 1
    run(Bandit(8, branches=(2,)), tmp_path / "easy")
    assert "WARNING" not in capsys.readouterr().out


def test_a_run_whose_rewards_are_noise_says_that_nothing_is_learned(tmp_path, capsys):
    run(Blind(8, branches=(2,)), tmp_path)
    out = capsys.readouterr().out
    assert out.count("the mean reward has not risen (") >= 1
    assert out.count("its critic does not predict what agents earn") == 1
    end = " ".join(out.partition("Finished")[2].split())
    assert "note the mean reward did not rise" in end
    assert "more steps alone are unlikely to help; see the guide 'It does not learn'" in end
    assert "max_steps" not in end


def test_a_run_that_has_met_no_reward_says_so_at_its_end_and_offers_no_more_steps(tmp_path, capsys):
    run(Nothing(8, branches=(2,)), tmp_path / "nothing")
    end = " ".join(capsys.readouterr().out.partition("Finished")[2].split())
    assert " episodes earned 0: more steps will not help, unless random actions find a better" in end
    assert "Is one ever given?" in end
    assert "max_steps" not in end
    run(Bandit(8, branches=(2,)), tmp_path / "easy")
    assert "max_steps" in capsys.readouterr().out.partition("Finished")[2]
