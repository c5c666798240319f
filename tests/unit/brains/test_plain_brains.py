"""Chance, an environment's rule, and functions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from duel_env import Duel
from tiny_envs import Bandit

import palaestra
from palaestra.brains.base import Choice, Role, Seen
from palaestra.brains.custom import user_brain
from palaestra.brains.heuristic import RuleBrain
from palaestra.brains.random import RandomBrain
from palaestra.brains.trained import ModelBrain
from palaestra.core.errors import EnvError, PolicyError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions

MODELS = Path(__file__).parents[2] / "golden" / "data" / "onnx"


def role(continuous=0, branches=(), env=None, argument="", shapes=((2,),)):
    spec = BehaviorSpec(
        tuple(ObsSpec(f"part{i}", shape) for i, shape in enumerate(shapes)), ActionSpec(continuous, branches)
    )
    return Role("Hero", spec, argument, env or Bandit(1, continuous=1), 0, False)


def seen(rows, mask=None, shapes=((2,),)):
    return Seen(
        np.arange(rows), tuple(np.zeros((rows, *shape), np.float32) for shape in shapes), mask, np.zeros(rows, np.int64)
    )


def test_chance_is_uniform_over_numbers_and_allowed_choices():
    mask = np.tile(np.array([1, 0, 1, 1, 1], bool), (4000, 1))
    choice = RandomBrain(role(1, (3, 2))).decide(seen(4000, mask))
    assert abs(choice.continuous.mean()) < 0.04
    assert choice.continuous.var() == pytest.approx(1 / 3, abs=0.02)
    assert np.bincount(choice.discrete[:, 0], minlength=3) / 4000 == pytest.approx([0.5, 0, 0.5], abs=0.03)
    assert np.bincount(choice.discrete[:, 1]) / 4000 == pytest.approx([0.5, 0.5], abs=0.03)


def test_chance_with_the_same_seed_does_the_same():
    first = RandomBrain(role(2))
    second = RandomBrain(role(2))
    assert np.array_equal(first.decide(seen(5)).continuous, second.decide(seen(5)).continuous)
    assert not np.array_equal(first.decide(seen(5)).continuous, first.decide(seen(5)).continuous)


def test_the_rule_is_asked_for_the_rows_that_act():
    env = Duel(2)
    env.heuristic = lambda behavior, slots: type(Duel().heuristic(behavior))(
        torch.arange(4.0)[:, None] / 4, torch.zeros(4, 0, dtype=torch.int64)
    )
    choice = RuleBrain(role(1, env=env)).decide(
        Seen(np.array([1, 3]), (np.zeros((2, 2), np.float32),), None, np.ones(2, np.int64))
    )
    assert choice.continuous.tolist() == [[0.25], [0.75]]


def test_an_environment_without_a_rule_says_who_has_one():
    with pytest.raises(
        EnvError, match=r"'Hero': the environment has no heuristic.*; use model:FILE.onnx, random or python:"
    ):
        RuleBrain(role(1)).decide(seen(1))
    with pytest.raises(EnvError, match="no heuristic for behavior 'Hero', only for 3DBall; use model"):
        RuleBrain(role(2, env=palaestra.make("3DBall", areas=1))).decide(seen(1))
    with pytest.raises(EnvError, match=r"a Unity game does not share its heuristics .*'Heuristic Only'"):
        RuleBrain(role(1, env=UnityEnv(UnityOptions()))).decide(seen(1))


def test_what_takes_no_argument_refuses_one():
    for kind in (RandomBrain, RuleBrain):
        with pytest.raises(PolicyError, match="takes no argument; got 'x'"):
            kind(role(1, argument="x"))


@pytest.mark.parametrize(
    ("action", "answer", "expected"),
    [
        ((2, ()), [[0, 1], [1, 0]], ([[0, 1], [1, 0]], [[], []])),
        ((1, ()), [0.5, 1], ([[0.5], [1]], [[], []])),
        ((0, (3,)), [2, 1], ([[], []], [[2], [1]])),
        ((1, (3,)), ([[1], [0]], [[2], [1]]), ([[1], [0]], [[2], [1]])),
        ((0, (3,)), Choice(np.zeros((2, 0)), np.array([[2], [1]])), ([[], []], [[2], [1]])),
    ],
)
def test_a_function_may_answer_in_the_plainest_form(action, answer, expected):
    choice = user_brain(lambda obs, mask: answer, "python:mine:f", role(*action)).decide(seen(2))
    assert (np.asarray(choice.continuous).tolist(), np.asarray(choice.discrete).tolist()) == expected


@pytest.mark.parametrize(
    ("action", "answer", "message"),
    [
        ((1, ()), None, r"returned None \(is a 'return' missing\?\); expected numbers of shape \(R, 1\)"),
        (
            (1, (3,)),
            [[1], [0]],
            r"instance of list; expected a pair: numbers .* and whole numbers of shape \(R, 1\), choices of branches "
            r"\[3\]",
        ),
        ((2, ()), [[1], [0, 1]], "its answer is no array of numbers"),
    ],
)
def test_an_answer_that_cannot_be_read_says_what_is_wanted(action, answer, message):
    brain = user_brain(lambda obs, mask: answer, "python:mine:f", role(*action))
    with pytest.raises(PolicyError, match=r"behavior 'Hero', brain python:mine:f.*" + message):
        brain.decide(seen(2))


def test_a_recurrent_model_remembers_by_slot_and_forgets_at_an_episodes_start():
    policy = palaestra.load_policy(MODELS / "unity_package_tests_2.2.1" / "hybrid0vis8vec_2c_2_3d_v2_0.onnx", seed=0)
    spec = role(2, (2, 3), shapes=((8,),)).spec
    brain = ModelBrain(policy, "Hero", spec, deterministic=True)
    view = np.ones((1, 8), np.float32)
    none = np.zeros(1, np.int64)

    def play(slot):
        return brain.decide(Seen(np.array([slot]), (view,), None, none)).continuous.tolist()

    brain.begin(np.array([3, 5]))
    first = play(5)
    second = play(5)
    assert first != second
    assert play(3) == first
    brain.begin(np.array([5]))
    assert play(5) == first


def test_a_model_of_version_2_sees_all_vectors_as_one():
    policy = palaestra.load_policy(MODELS / "unity_examples" / "Sorter.onnx", seed=0)
    shapes = ((20, 23), (10,), (8,))
    brain = ModelBrain(policy, "Hero", role(0, (3, 3, 3), shapes=shapes).spec, deterministic=True)
    obs = tuple(np.random.default_rng(0).random((4, *shape), np.float32) for shape in shapes)
    chosen = brain.decide(Seen(np.arange(4), obs, None, np.zeros(4, np.int64))).discrete
    wanted = policy.act([np.concatenate(obs[1:], 1), obs[0]], deterministic=True).discrete
    assert np.array_equal(chosen, wanted)


@pytest.mark.parametrize(
    ("action", "shapes", "message"),
    [
        (
            (2, (3,)),
            ((28,), (7,)),
            r"sees 28 and 6; does 2 continuous, discrete 3\n  the agents: sees 28 and 7; does 2 continuous, discrete "
            r"3$",
        ),
        (
            (2, ()),
            ((28,), (6,)),
            r"sees 28 and 6; does 2 continuous, discrete 3\n  the agents: sees 28 and 6; does 2 continuous$",
        ),
    ],
)
def test_a_model_of_other_agents_is_refused(action, shapes, message):
    policy = palaestra.load_policy(MODELS / "runs" / "TTrain_ppo_hybrid.onnx")
    with pytest.raises(
        PolicyError,
        match=r"TTrain_ppo_hybrid.onnx was made for other agents than those of 'Hero':\n  the model:  " + message,
    ):
        ModelBrain(policy, "Hero", role(*action, shapes=shapes).spec, deterministic=True)
