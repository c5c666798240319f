import numpy as np
import pytest

from palaestra.brains.base import Choice, Seen
from palaestra.brains.checked import CheckedBrain
from palaestra.core.errors import PolicyError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec

SPEC = BehaviorSpec((ObsSpec("place", (2,)),), ActionSpec(2, (3, 2)))
SEEN = Seen(
    np.array([4, 9]),
    (np.zeros((2, 2), np.float32),),
    np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 1]], bool),
    np.zeros(2, np.int64),
)


class Says:
    def __init__(self, continuous, discrete):
        self.choice = Choice(np.array(continuous), np.array(discrete))

    def decide(self, seen):
        return self.choice


def decide(brain):
    return CheckedBrain(brain, "python:mine:Says", "Hero", SPEC).decide(SEEN)


def test_what_fits_is_passed_on_in_the_types_of_an_action():
    choice = decide(Says([[0, 1], [-1, 0]], [[1, 0], [2, 1]]))
    assert (choice.continuous.dtype, choice.discrete.dtype) == (np.float32, np.int64)
    assert choice.discrete.tolist() == [[1, 0], [2, 1]]


@pytest.mark.parametrize(
    ("continuous", "discrete", "message"),
    [
        ([[0.0], [0.0]], [[0, 0], [0, 1]], r"continuous actions have shape \(2, 1\); expected \(2, 2\)"),
        ([[0, 0], [0, 1.5]], [[0, 0], [0, 1]], r"continuous action 1 of slot 9 is 1.5; expected -1 to 1"),
        ([[np.nan, 0], [0, 0]], [[0, 0], [0, 1]], r"continuous action 0 of slot 4 is nan"),
        ([[0, 0], [0, 0]], [[0, 0]], r"discrete actions have shape \(1, 2\); expected \(2, 2\)"),
        ([[0, 0], [0, 0]], [[0, 0], [3, 1]], r"slot 9 chose 3 in branch 0; expected 0 to 2"),
        ([[0, 0], [0, 0]], [[0.0, 0], [1, 1]], r"of type float64; expected whole numbers"),
        ([[0, 0], [0, 0]], [[2, 0], [0, 1]], r"slot 4 chose 2 in branch 0, which is masked; allowed: \[0, 1\]"),
        ([[0, 0], [0, 0]], [[0, 0], [0, 0]], r"slot 9 chose 0 in branch 1, which is masked; allowed: \[1\]"),
    ],
)
def test_what_does_not_fit_is_named_with_behavior_brain_and_slot(continuous, discrete, message):
    with pytest.raises(PolicyError, match=r"behavior 'Hero', brain python:mine:Says.*" + message):
        decide(Says(continuous, discrete))


def test_what_a_brain_raises_is_told_with_its_file_and_line():
    class Broken:
        def begin(self, slots):
            raise KeyError("no such slot")

        def decide(self, seen):
            return 1 / 0

    brain = CheckedBrain(Broken(), "mine", "Hero", SPEC)
    with pytest.raises(
        PolicyError, match=r"brain mine raised an error: ZeroDivisionError: .*test_checked_brains.py, line \d+"
    ):
        brain.decide(SEEN)
    with pytest.raises(PolicyError, match=r"raised an error in begin: KeyError: .*test_checked_brains.py, line \d+"):
        brain.begin(np.array([1]))


def test_an_answer_that_is_no_choice_is_refused():
    class Plain:
        def decide(self, seen):
            return np.zeros(2)

    with pytest.raises(PolicyError, match="returned an instance of ndarray; expected a Choice"):
        decide(Plain())


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_only_streams_whose_position_can_be_written_down_are_shown(kind: type[np.random.BitGenerator]):
    class Draws:
        rng = np.random.Generator(kind(1))

        def decide(self, seen: Seen) -> Choice:
            raise NotImplementedError

    shown = CheckedBrain(Draws(), "mine", "Hero", SPEC).rng
    assert shown is (Draws.rng if kind is np.random.PCG64 else None)
