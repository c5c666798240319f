"""The steps of a clip."""

from palaestra.web.watch.learning_card import start_middle_now


def test_the_middle_of_a_clip_is_where_half_of_the_reward_was_gained():
    steps = [0, 100, 200, 300, 400]
    assert start_middle_now(steps, [[50, 0.0], [110, 60.0], [300, 100.0], [400, 100.0]]) == [0, 100, 400]
    assert start_middle_now(steps, [[50, -1.0], [210, -6.0], [400, -10.0]]) == [0, 200, 400]
    assert start_middle_now(steps, []) == [0, 200, 400]
    assert start_middle_now([0, 5], [[5, 1.0]]) == [0, 5]
    assert start_middle_now([7], []) == [7]
    assert start_middle_now([], []) == []
