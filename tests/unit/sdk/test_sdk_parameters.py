from palaestra import sdk
from palaestra.sdk.protocol.game_channels import Stat


def test_a_parameter_that_is_not_set_has_the_games_default():
    parameters = sdk.EnvironmentParameters()
    assert parameters.get_with_default("gravity", 9.8) == 9.8
    parameters.set("gravity", 1.5)
    assert parameters.get_with_default("gravity", 9.8) == 1.5
    assert parameters.keys() == ["gravity"]


def test_callbacks_hear_of_numbers_and_not_of_draws():
    parameters = sdk.EnvironmentParameters()
    heard = []
    parameters.register_callback("gravity", heard.append)
    parameters.set("gravity", 2)
    parameters.sample("gravity", "uniform", (0, 1), seed=3)
    parameters.get_with_default("gravity", 0)
    assert heard == [2.0]


def test_samplers_draw_at_each_read_and_restart_with_their_seed():
    parameters = sdk.EnvironmentParameters()

    def draws() -> list[float]:
        return [parameters.get_with_default("x", 0) for _ in range(200)]

    parameters.sample("x", "uniform", (2, 3), seed=1)
    first = draws()
    assert len(set(first)) == 200
    assert 2 <= min(first) < 2.1 < 2.9 < max(first) <= 3
    parameters.sample("x", "uniform", (2, 3), seed=1)
    assert draws() == first
    parameters.sample("x", "gaussian", (5, 0.1), seed=1)
    normal = draws()
    assert 4.9 < sum(normal) / 200 < 5.1
    assert 0.05 < max(normal) - 5 < 0.5
    parameters.sample("x", "multirangeuniform", (0, 1, 10, 13), seed=1)
    ranged = draws()
    assert all(0 <= x <= 1 or 10 <= x <= 13 for x in ranged)
    assert 120 < sum(x >= 10 for x in ranged) < 180  # three quarters
    parameters.sample("x", "multirangeuniform", (1, 1, 2, 2), seed=1)
    assert set(draws()) == {1, 2}


def test_stats_are_taken_once_and_in_order():
    stats = sdk.StatsRecorder()
    stats.add("Score", 2)
    stats.add("Falls", 1, sdk.StatAggregationMethod.SUM)
    assert stats.take() == [
        Stat("Score", 2.0, sdk.StatAggregationMethod.AVERAGE),
        Stat("Falls", 1.0, sdk.StatAggregationMethod.SUM),
    ]
    assert stats.take() == []
