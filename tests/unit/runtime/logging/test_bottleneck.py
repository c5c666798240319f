from dataclasses import replace

import pytest

from palaestra.runtime.logging.bottleneck import (
    ENVIRONMENT,
    EXCHANGE,
    INFERENCE,
    LEARNING,
    OTHER,
    RANKS,
    SAVING,
    TRAINER,
    Setup,
    TimeUse,
    bottleneck,
)

EIGHT_CORES = Setup("builtin", agents=12, cores=8)


def use(total: float = 10.0, copies: tuple[float, ...] = (), **parts: float) -> TimeUse:
    names = {"environment": ENVIRONMENT, "inference": INFERENCE, "learning": LEARNING, "trainer": TRAINER}
    names["saving"] = SAVING
    names |= {"ranks": RANKS, "exchange": EXCHANGE}
    copies_busy = {f"copy {i}": busy for i, busy in enumerate(copies)}
    return TimeUse(total, {names[name]: seconds for name, seconds in parts.items()}, copies_busy)


def of_game(**facts: int | bool) -> Setup:
    return Setup("game", agents=12, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "setup", "said"),
    [
        (use(environment=6, learning=3), of_game(cores=8), ("environment is the bottleneck (60 %", "--num-envs=8")),
        (use(environment=6, copies=(9, 9)), of_game(cores=8, copies=2), ("2 copies are busy 90 %", "--num-envs=4")),
        (use(environment=6, copies=(9,) * 8), of_game(cores=8, copies=8), ("doctor", "on 8 cores", "--env-runners")),
        (use(environment=6, copies=(1, 3)), of_game(cores=8, copies=2), ("busy only 20 %", "--num-areas")),
        (use(environment=6), replace(EIGHT_CORES, kind="editor"), ("a build", "--env=BUILD")),
        (use(environment=6), EIGHT_CORES, ("environment", "--num-areas")),
        (use(environment=6), replace(EIGHT_CORES, agents=9000), ("environment", "--processes=2")),
        (use(inference=5, learning=3), EIGHT_CORES, ("choosing actions is the bottleneck (50 %", "--num-areas")),
        (use(inference=5), replace(EIGHT_CORES, agents=9000, gpus=1), ("choosing actions", "--torch-device=cuda")),
        (use(environment=2, inference=2, learning=6), EIGHT_CORES, ("learning", "threaded: true", "1.7 times")),
        (use(learning=9.5), EIGHT_CORES, ("learning", "--processes=2")),
        (use(learning=9.5), replace(EIGHT_CORES, gpus=4, on_gpu=True), ("learning", "--gpus=4")),
        (use(learning=6), replace(EIGHT_CORES, cores=1), ("learning", "num_epoch")),
        (
            use(environment=2, trainer=5),
            replace(EIGHT_CORES, threaded=True),
            ("learning", "waits for the trainer's process 50 %"),
        ),
        (use(saving=6, learning=3), EIGHT_CORES, ("writing checkpoints", "checkpoint_interval")),
        (use(learning=2), EIGHT_CORES, ("records", "summary_freq")),
    ],
)
def test_the_largest_part_is_named_with_what_helps(times, setup, said):
    sentence = bottleneck([times], setup)
    assert "--num-envs=16" not in sentence  # twice as many copies as cores
    assert all(part in sentence for part in said), sentence


def test_of_several_ranks_the_one_that_others_wait_for_is_named():
    slow = use(environment=8, learning=1)
    fast = use(environment=2, learning=1, ranks=6)
    sentence = bottleneck([fast, slow], EIGHT_CORES)
    assert "rank 1 is the bottleneck: the other waits for it up to 60 %" in sentence
    assert "80 % of its own in its environment" in sentence
    assert "rank 0 is the bottleneck: others wait for it" in bottleneck([slow, fast, fast], EIGHT_CORES)


def test_ranks_that_all_wait_as_long_are_bound_by_what_they_exchange():
    sentence = bottleneck([use(learning=3, exchange=4, ranks=1)] * 2, EIGHT_CORES)
    assert "exchange between ranks is the bottleneck (50 %" in sentence
    assert "batch_size" in sentence


def test_equal_ranks_are_spoken_of_as_one():
    assert "learning is the bottleneck (70 %" in bottleneck([use(learning=6, ranks=1), use(learning=8)], EIGHT_CORES)


def test_a_period_is_the_difference_of_two_times():
    before = use(10.0, (4.0,), environment=5)
    now = use(30.0, (14.0, 3.0), environment=17, learning=1)
    period = now.since(before)
    assert period == use(20.0, (10.0, 3.0), environment=12, learning=1)
    assert period.share(ENVIRONMENT) == pytest.approx(0.6)
    assert period.share(OTHER) == pytest.approx(0.35)
    assert period.busy == pytest.approx(6.5 / 20)
    spent = {"total": 20.0, "environment": 12.0, "learning": 1.0, "other": 7.0}
    assert period.as_dict() == {**spent, "copies": {"copy 0": 10.0, "copy 1": 3.0}}
    assert now.since(None) == now
