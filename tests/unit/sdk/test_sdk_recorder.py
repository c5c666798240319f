from pathlib import Path

import numpy as np
from sdk_play import Walker, advance, exchange

from palaestra import sdk
from palaestra.demos import read_demo


def test_a_record_holds_the_action_of_the_decision_before(tmp_path: Path):
    academy = sdk.Academy()
    agent = academy.add(Walker())
    recorder = sdk.DemonstrationRecorder(agent, "walk", tmp_path)
    outputs = advance(academy)

    @academy.on_step
    def world() -> None:
        agent.add_reward(1.0)
        if academy.step_count == 3:
            agent.end_episode()

    for action in (0.25, 0.5, 0.75):
        outputs = exchange(academy, outputs, action)
    academy.close()
    demo = read_demo(tmp_path / "walk.demo")
    assert (recorder.path, demo.key, demo.meta.steps, demo.meta.episodes) == (demo.path, "Walker?team=0", 5, 2)
    records = list(demo)
    assert [record.obs[0].tolist() for record in records] == [[0, 1], [0.25, 2], [0.75, 3], [1.5, 3], [0, 1]]
    assert [record.continuous.tolist() for record in records] == [[0.0], [0.25], [0.5], [0.75], [0.0]]
    assert [record.reward for record in records] == [0, 1, 1, 1, 0]
    assert [record.done for record in records] == [False, False, False, True, False]


def test_masks_images_and_groups_are_recorded(tmp_path: Path):
    class Painter(Walker):
        behavior = sdk.Behavior("Painter", observations=1, branches=(2, 2))

        def initialize(self) -> None:
            self.add_sensor(sdk.ImageSensor(2, 2, 3, source=lambda: np.full((2, 2, 3), 51, np.uint8)))

        def collect_observations(self, sensor: sdk.VectorSensor) -> None:
            sensor.add(7)

        def write_action_mask(self, mask: sdk.ActionMask) -> None:
            mask.set_action_enabled(1, 0, False)

    academy = sdk.Academy()
    group = sdk.Group()
    agent = academy.add(Painter())
    group.register_agent(agent)
    sdk.DemonstrationRecorder(agent, "paint", tmp_path)
    outputs = advance(academy)
    group.add_group_reward(2.0)
    exchange(academy, outputs, discrete=1)
    academy.close()
    first, second = read_demo(tmp_path / "paint.demo")
    np.testing.assert_allclose(first.obs[0], 0.2, atol=1e-6)
    assert first.mask is not None
    assert first.mask.tolist() == [True, True, False, True]
    assert (second.group, second.group_reward, second.discrete.tolist()) == (1, 2.0, [1, 1])


def test_recordings_of_one_name_have_files_of_their_own_and_none_comes_of_nothing(tmp_path: Path):
    academy = sdk.Academy()
    for _ in range(3):
        sdk.DemonstrationRecorder(academy.add(Walker()), "walk", tmp_path)
    sdk.DemonstrationRecorder(academy.add(Walker(decision_period=None)), "never", tmp_path)
    advance(academy)
    academy.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["walk.demo", "walk_0.demo", "walk_1.demo"]


def test_a_recording_ends_with_the_agents_behavior_and_with_the_agent(tmp_path: Path):
    academy = sdk.Academy()
    agent = academy.add(Walker())
    other = academy.add(Walker())
    sdk.DemonstrationRecorder(agent, "old", tmp_path)
    sdk.DemonstrationRecorder(other, "gone", tmp_path)
    outputs = advance(academy)
    agent.set_team(1)
    academy.remove(other)
    exchange(academy, outputs)
    for name in ("old", "gone"):
        demo = read_demo(tmp_path / f"{name}.demo")
        assert ([record.done for record in demo], demo.key) == ([False, True], "Walker?team=0")
