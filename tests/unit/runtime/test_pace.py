from palaestra.runtime.pace import Pace


def test_ticks_are_as_far_apart_as_asked_and_lost_time_is_not_made_up_for():
    now, slept = [10.0], list[float]()

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = Pace(0.5, lambda: now[0], sleep)
    for work in (0.1, 0.2, 2.0, 0.0, 0.1):
        pace.wait()
        now[0] += work
    assert slept == [0.4, 0.3, 0.5]
