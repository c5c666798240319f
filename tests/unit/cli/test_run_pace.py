from palaestra.cli.run import PlaybackClock


def test_ticks_are_as_far_apart_as_asked_and_lost_time_is_not_made_up_for():
    now = [10.0]
    slept = list[float]()

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = PlaybackClock(lambda: now[0], sleep)
    for seconds, work in ((0.5, 0.1), (0.5, 0.2), (0.5, 2.0), (0.5, 0.0), (0.25, 0.1), (0.5, 0)):
        pace.wait(seconds)
        now[0] += work
    assert slept == [0.4, 0.3, 0.5, 0.15]
