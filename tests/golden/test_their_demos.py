"""Demonstrations that Unity recorded. A folder with more of them is read where PALAESTRA_DEMOS names one."""

import os
from pathlib import Path

import numpy as np
import pytest

from palaestra.core.errors import EmptyDemo
from palaestra.demos import DemoColumns, DemoSource, DemoWriter, ReadTiming, read_demo
from palaestra.demos.record_columns import join

HERE = Path(__file__).parent / "data" / "demos"
ALL = Path(os.environ.get("PALAESTRA_DEMOS") or HERE)

# records, ends, ends by a limit, sum of rewards, ids that follow one another, records without an action
FACTS = {
    "unity_examples_0.15/Expert3DBall": (549, 0, 0, 54.8, 1, 1),
    "unity_examples_0.15/ExpertBasic": (73, 10, 0, 9.28, 1, 1),
    "unity_examples_0.15/ExpertCrawlerDyn": (1488, 2, 1, 871.089, 1, 1),
    "unity_examples_0.15/ExpertFood": (3733, 3, 3, 83, 1, 0),
    "unity_examples_0.15/ExpertTennis": (1206, 2, 0, 2.99, 1, 1),
    "unity_examples_1.0plus/ExpertHallway": (4395, 90, 0, 79.128, 1, 0),
    "unity_examples_1.0plus/ExpertPyramid": (1751, 9, 0, 16.264, 10, 0),
    "unity_python_tests_0.15/test": (2144, 21, 21, 213.4, 22, 0),
    "unity_python_tests_0.15/test4": (25, 0, 0, 2.4, 1, 0),
    "unity_python_tests_0.15/test_demo_dir/test4": (25, 0, 0, 2.4, 1, 0),
    "unity_python_tests_0.15/test_demo_dir/test5": (25, 0, 0, 2.4, 1, 0),
    "unity_python_tests_0.15/test_demo_dir/test6": (25, 0, 0, 2.4, 1, 0),
    "unity_python_tests_0.15/testdcvis": (38, 0, 0, 0, 1, 1),
    "unity_package_4.0/Ball": (305, 6, 0, 23.6, 1, 0),
    "unity_package_4.0/Hybrid": (761, 12, 12, -1.2186, 1, 0),
    "unity_package_4.0/Duel": (752, 3, 3, 0, 1, 0),
    "unity_package_4.0/Duel_0": (752, 3, 3, 0, 1, 0),
    "unity_package_4.0/Team": (389, 15, 3, 0, 1, 0),
    "unity_package_4.0/Match3": (773, 24, 0, 74.7, 1, 0),
    "unity_package_4.0/Coop": (1, 0, 0, -0.003, 1, 0),
}
# behavior, team, shapes of observations, continuous actions, branches
SPECS = {
    "unity_examples_0.15/Expert3DBall": ("3DBallLearning", 0, [(8,)], 2, ()),
    "unity_examples_0.15/ExpertBasic": ("BasicLearning", 0, [(20,)], 0, (3,)),
    "unity_examples_0.15/ExpertCrawlerDyn": ("CrawlerDynamicLearning", 0, [(126,)], 20, ()),
    "unity_examples_0.15/ExpertFood": ("FoodCollector", 0, [(49,), (4,)], 0, (3, 3, 3, 2)),
    "unity_examples_1.0plus/ExpertHallway": ("Hallway", 0, [(105,), (3,)], 0, (5,)),
    "unity_examples_1.0plus/ExpertPyramid": ("Pyramids", 0, [(56,), (56,), (56,), (4,)], 0, (5,)),
    "unity_python_tests_0.15/test4": ("3DBall", 0, [(8,)], 2, ()),
    "unity_python_tests_0.15/testdcvis": ("VisualFoodCollectorLearning", 0, [(3, 84, 84)], 0, (3, 3, 3, 2)),
    "unity_package_4.0/Ball": ("Ball", 0, [(8,)], 2, ()),
    "unity_package_4.0/Hybrid": ("Hybrid", 0, [(4, 3), (40,), (9,)], 2, (3, 2)),
    "unity_package_4.0/Duel": ("Duel", 0, [(5,)], 0, (3,)),
    "unity_package_4.0/Duel_0": ("Duel", 1, [(5,)], 0, (3,)),
    "unity_package_4.0/Team": ("Team", 0, [(2,)], 0, (3, 2)),
    "unity_package_4.0/Match3": ("Match3", 0, [(4, 6, 6), (3, 6, 6)], 0, (60,)),
    "unity_package_4.0/Coop": ("Coop", 0, [(2,)], 0, (3,)),
}


def files() -> list[str]:
    return sorted(str(path.relative_to(ALL).with_suffix("")) for path in ALL.rglob("*.demo"))


def full(name: str) -> Path:
    return ALL / f"{name}.demo"


def columns_of(demo: DemoSource) -> DemoColumns:
    return join(list(demo.chunks()))


FULL_FILES = [name for name in files() if not name.endswith("Coop_1")]


@pytest.mark.parametrize("name", FULL_FILES)
def test_every_file_has_the_facts_that_are_known_of_it(name):
    demo = read_demo(full(name))
    columns = columns_of(demo)
    records, ends, cuts, reward, ids, without = FACTS[name]
    assert len(demo) == len(columns) == demo.meta.steps == records
    assert int(columns.done.sum()) == ends == demo.meta.episodes - 1
    assert int((columns.done & columns.truncated).sum()) == cuts
    assert float(columns.reward.sum()) == pytest.approx(reward, abs=2e-3)
    assert demo.meta.mean_reward == pytest.approx(columns.reward.sum() / demo.meta.episodes, rel=1e-4, abs=1e-6)
    assert len(np.unique(columns.id)) == ids
    assert int((~columns.acted).sum()) == without


@pytest.mark.parametrize("name", [name for name in SPECS if full(name).exists()])
def test_every_file_has_its_behavior(name):
    demo = read_demo(full(name))
    behavior, team, shapes, continuous, branches = SPECS[name]
    assert (demo.behavior, demo.team) == (behavior, team)
    assert [obs.shape for obs in demo.spec.obs] == shapes
    assert (demo.spec.action.continuous, demo.spec.action.branches) == (continuous, branches)


@pytest.mark.parametrize(
    "name", [name for name in FULL_FILES if name.startswith("unity_package") and "Match3" not in name]
)
def test_records_of_todays_recorder_written_one_by_one_are_the_same_to_the_byte(name, tmp_path):
    demo = read_demo(full(name))
    with DemoWriter(tmp_path / "again.demo", demo.meta.name, demo.key, demo.spec) as writer:
        for record in demo:
            writer.write(record)
    assert (tmp_path / "again.demo").read_bytes() == full(name).read_bytes()


def test_a_recording_without_a_record_says_that_it_is_empty():
    with pytest.raises(EmptyDemo, match=r"Coop_1\.demo is an empty recording: it holds no records of 'Coop"):
        read_demo(HERE / "unity_package_4.0" / "Coop_1.demo")


def test_pairs_obey_the_law_of_the_rule_that_played():
    demo = read_demo(HERE / "unity_package_4.0" / "Ball.demo")
    assert demo.timing is ReadTiming.NEXT
    pairs = list(demo.pairs())
    tilt = [0, 1]
    place = [2, 4]
    speed = [5, 7]
    seen = np.concatenate([part.obs[0] for part in pairs])
    done = np.concatenate([part.continuous for part in pairs])
    assert len(seen) == 305 - 7  # the last view of each of six episodes, and of the open one, is answered by nothing
    np.testing.assert_allclose(
        done, np.clip(-seen[:, place] - 4 * seen[:, speed] - 2 * seen[:, tilt], -1, 1), atol=1e-6
    )


def test_in_converted_files_a_record_stores_its_own_action_and_ends_show_the_next_episode():
    demo = read_demo(HERE / "unity_examples_0.15" / "ExpertBasic.demo")
    assert demo.timing is ReadTiming.OWN_RESTARTED
    episodes = list(demo.episodes())
    assert len(episodes) == 11
    for episode in episodes[:-1]:
        where = episode.pairs.obs[0].argmax(1)
        np.testing.assert_array_equal(where, np.arange(10, 17))  # it starts at 10 and each 2 is a step to the right
        assert (episode.pairs.discrete == 2).all()
        assert episode.pairs.terminated.tolist() == [False] * 6 + [True]
        assert episode.pairs.reward[-1] == pytest.approx(0.99)
        assert episode.final_obs is None
    assert not episodes[-1].ended
    assert episodes[-1].final_obs is not None


@pytest.mark.parametrize(
    ("name", "timing"),
    [
        ("unity_examples_0.15/Expert3DBall", ReadTiming.OWN_RESTARTED),
        ("unity_python_tests_0.15/test4", ReadTiming.NEXT_RESTARTED),
    ],
)
def test_the_action_of_a_pair_turns_the_platform_from_this_view_to_the_next(name, timing):
    demo = read_demo(HERE / f"{name}.demo")
    assert demo.timing is timing
    (episode,) = demo.episodes()
    turned = np.diff(np.concatenate([episode.pairs.obs[0], episode.final_obs[0][None]])[:, :2], axis=0)  # type: ignore[index]
    for axis, action in ((0, 0), (1, 1)):
        assert abs(np.corrcoef(turned[1:, axis], episode.pairs.continuous[1:, action])[0, 1]) > 0.98


def test_old_images_come_with_their_channels_first_and_in_range():
    demo = read_demo(HERE / "unity_python_tests_0.15" / "testdcvis.demo")
    (image,) = columns_of(demo).obs
    assert image.shape == (38, 3, 84, 84)
    assert 0 <= image.min() < image.max() <= 1
    assert any("1 observation without numbers is left out" in warning for warning in demo.warnings)
