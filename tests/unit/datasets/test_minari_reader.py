import json
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from minari_files import BOX, Collector, assert_same, dataset, episode, keeps_images, records, simple

import palaestra
from palaestra.core.errors import DemoError, EmptyDemo
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.core.timestep import Action
from palaestra.datasets import minari_library, minari_reader, read_demo
from palaestra.envs.gymnasium.env import GymnasiumEnv
from palaestra.rewards.demonstrations import load_demonstrations
from palaestra.runtime.play.demo_recording import DemoRecorder, record_demo


class Sampled(gymnasium.Env):
    """Shows samples of any space, ends every second episode and cuts the others."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, *, mask: object = None) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._mask = mask
        self._ticks = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._ticks += 1
        return self.observation_space.sample(), self._info()

    def step(self, action: object):
        self._ticks += 1
        end = self._ticks % 4 == 0
        return self.observation_space.sample(), self._ticks / 8, end and self._ticks % 8 == 0, end, self._info()

    def _info(self) -> dict:
        return {} if self._mask is None else {"action_mask": self._mask}


NESTED = spaces.Dict(
    [  # in an order of its own, which Gymnasium would sort
        ("z", spaces.Box(-5, 5, (2, 3), np.float64)),
        ("image", spaces.Box(0, 255, (6, 5, 3), np.uint8)),
        ("a", spaces.Tuple((spaces.Discrete(4, start=-1), spaces.MultiBinary(3)))),
        (
            "more",
            spaces.Dict(
                {"grid": spaces.MultiDiscrete([[2, 3], [4, 2]]), "gray": spaces.Box(0, 1, (1, 8, 8), np.float32)}
            ),
        ),
        ("counts", spaces.Box(-3, 9, (2,), np.int32)),
    ]
)
HYBRID = spaces.Tuple(
    (
        spaces.Box(np.array([-2, 0], np.float32), np.array([2, 0.5], np.float32)),
        spaces.Discrete(3, start=1),
        spaces.Dict([("b", spaces.MultiDiscrete([2, 4])), ("a", spaces.MultiBinary(2))]),
        spaces.Box(-np.inf, np.inf, (1,), np.float64),
    )
)
SPACES = [
    (NESTED, HYBRID, None),
    (spaces.Discrete(16), spaces.Discrete(4, start=2), np.array([1, 0, 1, 1], np.int8)),
    (spaces.Box(-1, 1, (3,)), spaces.MultiDiscrete([3, 2]), np.array([1, 1, 0, 1, 1], np.int8)),
    (spaces.Box(0, 255, (4, 9, 9), np.uint8), spaces.Box(-3, 1, (2,), np.float32), None),
]


@pytest.mark.parametrize("data_format", ["hdf5", "arrow"])
@pytest.mark.parametrize(("observation_space", "action_space", "mask"), SPACES)
def test_a_dataset_of_any_spaces_holds_what_their_environment_shows_and_takes(
    tmp_path, observation_space, action_space, mask, data_format
):
    if data_format == "arrow":
        pytest.importorskip("pyarrow")
    if isinstance(observation_space, spaces.Dict) and not keeps_images():
        pytest.skip("this version of Minari saves images as JPEGs")
    collector = Collector(Sampled(observation_space, action_space, mask=mask), infos=mask is not None)
    env = GymnasiumEnv.wrap(collector)
    spec = env.behaviors[env.behavior]
    rng = np.random.default_rng(3)

    def act(_: object) -> dict[str, Action]:
        chosen = [
            np.flatnonzero(mask[:4] if mask is not None and len(mask) == 4 else np.ones(size))
            for size in spec.action.branches
        ]
        choices = [[int(rng.choice(one[:2])) for one in chosen]]
        numbers = rng.uniform(-1, 1, (1, spec.action.continuous)).astype(np.float32)
        return {
            env.behavior: Action(torch.from_numpy(numbers), torch.tensor(choices, dtype=torch.int64).reshape(1, -1))
        }

    recorder = DemoRecorder(env, tmp_path / "x.demo", 4)
    record_demo(env, recorder, act, lambda steps: None, 1)
    recorder.close()
    collector.episodes = collector.episodes[:4]
    collector.dataset("made/up-v0", data_format=data_format)
    demo = read_demo("minari:made/up-v0")
    shapes = [(obs.name, obs.shape) for obs in demo.spec.obs]
    assert (shapes, demo.spec.action) == ([(obs.name, obs.shape) for obs in spec.obs], spec.action)
    expected = records(str(tmp_path / "x.demo"))
    assert_same(records(demo), expected if expected.mask is None else _with_final_masks(expected, mask), scaled=True)


def _with_final_masks(columns, mask):
    """A demonstration file has no masks in its last records, of which no decision is made."""
    columns.mask[columns.done] = mask != 0
    return columns


def test_episodes_end_are_cut_and_show_their_final_observations():
    simple("my/b-v0", episode(3), episode(2, end=False, cut=True, start=5), episode(2, cut=True, start=9))
    demo = palaestra.read_demo("minari:my/b-v0")
    first, cut, both = demo.episodes()
    assert first.pairs.obs[0][:, 0].tolist() == [0, 1, 2]
    assert first.pairs.discrete[:, 0].tolist() == [0, 1, 2]
    assert first.pairs.reward.tolist() == [1, 2, 3]
    assert first.final_obs[0].tolist() == [3, 3]
    assert (first.pairs.terminated[-1], first.pairs.truncated[-1], first.ended) == (True, False, True)
    assert (cut.pairs.terminated[-1], cut.pairs.truncated[-1]) == (False, True)
    assert (both.pairs.terminated[-1], both.pairs.truncated[-1]) == (True, False)
    assert (demo.behavior, len(demo), demo.most_decisions) == ("b", 10, 7)


def test_an_episode_that_goes_on_after_an_end_becomes_two_with_all_decisions():
    one = episode(4)
    one["terminations"][1] = True
    simple("my/b-v0", one)
    first, second = read_demo("minari:my/b-v0").episodes()
    assert first.pairs.obs[0][:, 0].tolist() == [0, 1]
    assert first.final_obs[0].tolist() == [2, 2]
    assert second.pairs.obs[0][:, 0].tolist() == [2, 3]
    assert second.pairs.discrete[:, 0].tolist() == [2, 0]


def test_episodes_without_an_end_stay_apart():
    simple("my/b-v0", episode(2, end=False), episode(2, end=False, start=5))
    assert [one.pairs.obs[0][:, 0].tolist() for one in read_demo("minari:my/b-v0").episodes()] == [[0, 1], [5, 6]]


def test_long_episodes_come_in_pieces_and_short_ones_together(monkeypatch):
    simple("my/b-v0", episode(40), episode(3), episode(2))
    whole = records("minari:my/b-v0")
    assert len(list(read_demo("minari:my/b-v0").chunks())) == 1
    monkeypatch.setattr(minari_reader, "DECODED", 100)
    monkeypatch.setattr(minari_reader, "TOGETHER", 0)
    pieces = list(read_demo("minari:my/b-v0").chunks())
    assert len(pieces) > 4
    assert [piece.first for piece in pieces] == np.cumsum([0, *map(len, pieces[:-1])]).tolist()
    assert_same(records("minari:my/b-v0"), whole)


def test_a_final_mask_may_forbid_everything():
    mask = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]], np.int8)
    simple("my/b-v0", episode(3, infos={"action_mask": mask, "anything": np.zeros(4)}))
    (pairs,) = read_demo("minari:my/b-v0").pairs()
    np.testing.assert_array_equal(pairs.mask, mask[:3] != 0)


def test_combined_datasets_are_read_one_after_the_other():
    import minari

    both = [simple("my/one-v0", episode(2)), simple("my/two-v0", episode(3, start=7))]
    minari.combine_datasets(both, "my/both-v0")
    assert records("minari:my/both-v0").obs[0][:, 0].tolist() == [0, 1, 2, 7, 8, 9, 10]


def test_a_folder_is_read_wherever_it_lies(root, tmp_path, monkeypatch):
    simple("my/b-v0")
    (root / "my" / "b-v0").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    for source in (f"minari:{tmp_path}/moved", "minari:./moved/data", "minari:moved"):
        assert len(records(source)) == 4


def change(root: Path, **entries: object) -> None:
    path = root / "my" / "b-v0" / "data" / "metadata.json"
    metadata = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({key: value for key, value in metadata.items() if value is not None}))


def test_datasets_of_old_versions_are_read_and_their_spaces_come_from_their_environment(root):
    env = Collector(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    env.step(0)
    env.dataset("my/b-v0", env=env.env)
    path = root / "my" / "b-v0" / "data" / "metadata.json"
    old = json.loads(path.read_text())["env_spec"].replace(
        '"order_enforce": true,', '"order_enforce": true, "autoreset": false,'
    )
    change(root, minari_version="0.4.3", observation_space=None, action_space=None, env_spec=old)
    demo = read_demo("minari:my/b-v0")
    assert (demo.behavior, demo.spec.obs[0].shape, demo.spec.action.branches) == ("CartPole-v1", (4,), (2,))


def test_an_unknown_id_is_refused_with_the_nearest_and_the_line_that_downloads_it():
    simple("cart/expert-v0")
    with pytest.raises(
        DemoError, match=r"did you mean 'cart/expert-v0'\?.*to download it: minari download cart/expret-v0"
    ):
        read_demo("minari:cart/expret-v0")
    for source, message in (
        ("minari:", "names no dataset"),
        ("minari:./nothing", "there is no such folder"),
        ("minari:../../etc", "there is no such folder|holds no Minari dataset"),
    ):
        with pytest.raises(DemoError, match=message):
            read_demo(source)


def test_a_missing_package_is_named_with_the_line_that_installs_it(root, monkeypatch):
    simple("my/b-v0")
    monkeypatch.setitem(sys.modules, "minari.dataset.minari_storage", None)
    with pytest.raises(DemoError, match=r"need the package minari: pip install 'palaestra\[minari\]'"):
        read_demo("minari:my/b-v0")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"total_episodes": 0}, "is an empty dataset"),
        ({"total_episodes": "many"}, "cannot be read"),
        ({"total_episodes": 3}, "episode 1 cannot be read"),
        ({"total_episodes": 4}, "counts 4 episodes of 3 steps"),
        ({"total_steps": 2}, "its metadata counts 2 steps; more were read"),
        ({"data_format": "tar"}, "cannot be read"),
        ({"observation_space": '{"type": "Graph"}'}, "cannot be read"),
        ({"observation_space": '{"type": "Text", "max_length": 3, "min_length": 1, "charset": "abc"}'}, "is a Text"),
        (
            {"observation_space": '{"type": "Box", "dtype": "float32", "shape": [3], "low": [0,0,0], "high": [1,1,1]}'},
            r"episode 0: .*shape \(2,\)",
        ),
        (
            {"action_space": '{"type": "Box", "dtype": "float32", "shape": [2], "low": [0,0], "high": [1,1]}'},
            "episode 0: actions have shape",
        ),
    ],
)
def test_damaged_metadata_are_refused_with_a_sentence(root, entries, message):
    simple("my/b-v0")
    change(root, **entries)
    with pytest.raises(DemoError, match=message):
        records("minari:my/b-v0")


def test_damaged_data_are_refused_with_a_sentence(root):
    simple("my/b-v0")
    data = root / "my" / "b-v0" / "data"
    whole = (data / "main_data.hdf5").read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"x" * 999):
        (data / "main_data.hdf5").write_bytes(content)
        with pytest.raises(DemoError, match="episode 0 cannot be read"):
            records("minari:my/b-v0")
    (data / "metadata.json").write_text("{")
    with pytest.raises(DemoError, match="cannot be read: JSONDecodeError"):
        read_demo("minari:my/b-v0")
    (data / "metadata.json").unlink()
    with pytest.raises(DemoError, match="has data but no metadata"):
        read_demo("minari:my/b-v0")


def test_rows_that_a_file_declares_and_does_not_hold_are_refused(root):
    h5py = pytest.importorskip("h5py")
    simple("my/b-v0", episode(2))
    with h5py.File(root / "my" / "b-v0" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
        file["episode_0"].create_dataset("rewards", (1 << 30,), "f4", chunks=(1024,))
    with pytest.raises(DemoError, match=r"episode 0 is damaged: it declares 4,294,967,\d+ bytes, and its file holds"):
        records("minari:my/b-v0")


@pytest.mark.parametrize("link", ["external", "raw", "itself"])
def test_data_of_a_dataset_that_lie_in_other_files_are_not_read(root, tmp_path, link, monkeypatch):
    monkeypatch.setattr(minari_library, "MOST_ARRAYS", 100)
    h5py = pytest.importorskip("h5py")
    simple("my/b-v0", episode(2))
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(root / "my" / "b-v0" / "data" / "main_data.hdf5", "a") as file:
        group = file["episode_0"]
        del group["rewards"]
        if link == "external":
            group["rewards"] = h5py.ExternalLink(str(tmp_path / "secret"), "rewards")
        elif link == "raw":
            group.create_dataset("rewards", (3,), "f4", external=[(str(tmp_path / "secret"), 0, 64)])
        else:
            group["rewards"] = group
    with pytest.raises(DemoError, match=r"is a link|lies in another file|has more than"):
        records("minari:my/b-v0")


def test_an_episode_larger_than_memory_is_refused_with_its_size(monkeypatch):
    simple("my/b-v0", episode(2), episode(200))
    monkeypatch.setattr(minari_reader, "UNASKED", 1000)
    monkeypatch.setattr(minari_reader, "free_memory", lambda: 1024)
    with pytest.raises(DemoError, match=r"episode 1 takes 3\.1 KiB of memory for its 200 steps, and 1\.0 KiB are free"):
        records("minari:my/b-v0")


def test_an_empty_dataset_is_an_empty_demonstration(root):
    simple("my/b-v0")
    change(root, total_episodes=0, total_steps=0)
    with pytest.raises(EmptyDemo):
        read_demo("minari:my/b-v0")


def behavior(obs: tuple[ObsSpec, ...], action: ActionSpec) -> BehaviorSpec:
    return BehaviorSpec(obs, action)


def test_other_spaces_are_refused_with_both_sides_named():
    simple("my/b-v0")
    cpu = torch.device("cpu")
    seen = (ObsSpec("v", (2,)),)
    with pytest.raises(
        DemoError,
        match=r"minari:my/b-v0 was recorded from other agents.*\n.*the dataset.*the behavior\n(.*\n)*.*discrete 3 "
        r"+discrete 4",
    ):
        load_demonstrations("minari:my/b-v0", behavior(seen, ActionSpec(0, (4,))), cpu)
    with pytest.raises(DemoError, match=r"discrete actions begin with   0   \(1,\)"):
        load_demonstrations("minari:my/b-v0", behavior(seen, ActionSpec(0, (3,), starts=(1,))), cpu)
    dataset("my/c-v0", BOX, spaces.Box(-2, 2, (1,)), [{**episode(3), "actions": np.ones((3, 1), np.float32)}])
    with pytest.raises(DemoError, match=r"continuous actions   -2\.\.2   -1\.\.1   <- differs"):
        load_demonstrations("minari:my/c-v0", behavior(seen, ActionSpec(1)), cpu)
    scaled = behavior(seen, ActionSpec(1, low=(-2.0,), high=(2.0,)))
    assert (
        load_demonstrations("minari:my/c-v0", scaled, cpu).decisions.take(torch.arange(3)).action.continuous.tolist()
        == [[0.5]] * 3
    )


def test_decisions_are_learned_from_datasets_and_files_together(tmp_path):
    simple("my/b-v0", episode(3), episode(2, start=7))
    spec = behavior((ObsSpec("v", (2,)),), ActionSpec(0, (3,)))
    both = load_demonstrations(["minari:my/b-v0", "minari:my/b-v0"], spec, torch.device("cpu"))
    assert len(both) == 5, "each is read once"
    assert both.last.tolist() == [False, False, True, False, True]
    assert load_demonstrations(" minari:my/b-v0 , minari:my/b-v0", spec, torch.device("cpu")) is both


def test_demonstrations_load_from_our_environments_collected_by_minari(root):
    simple("my/b-v0", episode(3))
    path = root / "my" / "b-v0" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    goal = {"type": "Box", "dtype": "float32", "shape": [2], "low": [-9, -9], "high": [9, 9]}
    env = gymnasium.envs.registration.EnvSpec("palaestra/Some-v0", "palaestra:nothing").to_json()
    path.write_text(json.dumps(metadata | {"env_spec": env, "observation_space": json.dumps(goal)}))
    demo = read_demo("minari:my/b-v0")
    assert demo.form.own
    assert demo.behavior == "Some"
    assert demo.spec == BehaviorSpec((ObsSpec("observation", (2,)),), ActionSpec(0, (3,)))
