from __future__ import annotations

import json
from pathlib import Path

import pytest
from demo_files import episodes, write
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.registration import EnvSpec, registry
from minari_files import episode, records, simple

from palaestra.cli.demo_convert import spaces_of
from palaestra.cli.main import main
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec

pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "datasets"


def run(*arguments: object) -> int:
    return main([*map(str, arguments)])


def test_a_dataset_is_shown_as_a_file_is(capsys):
    simple("my/b-v0", episode(3), episode(2, end=False, cut=True), author="Ada")
    assert run("demo", "minari:my/b-v0") == 0
    lines = capsys.readouterr().out.splitlines()
    for expected in (
        "name       my/b-v0 (format hdf5, Minari ",
        "author     Ada",
        "steps      7 records, 5 decisions with what was seen",
        "episodes   1 ended, 1 cut by a limit, 0 open (metadata: 2)",
        "does       discrete 0: 0: 40%, 1: 40%, 2: 20%",
    ):
        assert any(line.startswith(f"  {expected}") for line in lines), expected
    assert run("demo", "minari:my/b-v0", "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["steps"], shown["metadata_episodes"], shown["warnings"]) == (5, 2, [])


def test_files_become_datasets_and_datasets_files(capsys, tmp_path):
    source = write(tmp_path / "x.demo", episodes(3, 2))
    assert run("demo", source, "--to-minari", "my/b-v0", "--author", "Ada", "--format", "hdf5") == 0
    assert "learn      demo_path: minari:my/b-v0" in capsys.readouterr().out
    assert run("demo", "minari:my/b-v0", "--to-demo", "y.demo") == 0
    assert (tmp_path / "y.demo").read_bytes() == source.read_bytes()
    for wrong, message in (
        (["--to-minari", "my/b-v0"], "exists already"),
        (["--to-demo", "y.demo"], "exists already"),
        (["--to-demo", "x.demo", "--force"], "cannot be written onto itself"),
        (["--to-demo", "y.txt"], "expected a file that ends in .demo"),
        (["--to-demo", "z.demo", "--env", "3DBall"], "--env is for --to-minari"),
        (["--to-minari", "my/c-v0", "--json"], "--json shows demonstrations"),
        (["--author", "Ada"], "--author is for a conversion"),
        (["--to-minari", "my/c-v0", "--env", "3DBal"], "did you mean '3DBall'"),
        (["--to-minari", "my/c-v0", "--env", "gymnasium:CartPole-v1"], "does not fit the spaces of the environment"),
        (["--to-minari", "my/c-v0", "--env", "minari:my/d-v0"], "did you mean 'my/b-v0'"),
    ):
        assert run("demo", source, *wrong) == 1
        assert message in capsys.readouterr().err
    assert run("demo", source, "--to-minari", "my/c-v0", "--env", "minari:my/b-v0") == 0


def test_a_dataset_names_a_built_in_environment_only_if_one_of_its_behaviors_fits(capsys):
    basic = BehaviorSpec((ObsSpec("place", (20,)),), ActionSpec(0, (3,)))
    fits = write(Path("fits.demo"), episodes(3, spec=basic), basic, "Walker?team=0")
    other = write(Path("other.demo"), episodes(3))
    assert run("demo", fits, "--to-minari", "my/fits-v0", "--env", "Basic") == 0
    assert run("demo", other, "--to-minari", "my/other-v0", "--env", "builtin:Basic") == 1
    told = capsys.readouterr().err
    assert "does not fit the spaces of the environment Basic" in told
    assert "things (2, 2)" in told


def test_a_dataset_is_copied_into_another_format_with_its_spaces_and_metadata():
    import minari

    pytest.importorskip("pyarrow")
    one = simple("my/b-v0", episode(3), author="Ada", algorithm_name="PPO")
    assert run("demo", "minari:my/b-v0", "--to-minari", "my/c-v0", "--format", "arrow", "--author", "Bob") == 0
    other = minari.load_dataset("my/c-v0")
    assert (other.observation_space, other.action_space, other.storage.FORMAT) == (
        one.observation_space,
        one.action_space,
        "arrow",
    )
    assert (other.storage.metadata["author"], other.storage.metadata["algorithm_name"]) == ({"Bob"}, "PPO")
    assert other[0].actions.tolist() == [0, 1, 2]


def test_a_recording_becomes_a_dataset_with_the_spaces_of_its_environment(capsys, root):
    import minari

    asked = ["record", "--demo", "--brain", "random", "--episodes", 2, "--areas", 2, "--to-minari"]
    assert run(*asked, "cart/random-v0", "--env", "gymnasium:CartPole-v1") == 0
    dataset = minari.load_dataset("cart/random-v0")
    assert dataset.recover_environment().spec.id == "CartPole-v1"
    assert dataset[0].observations[0] in dataset.observation_space
    assert (dataset.total_episodes, dataset.storage.metadata["algorithm_name"]) == (2, "random")
    assert not list(Path().glob("**/*.demo"))
    assert run(*asked, "cart/random-v0", "--env", "gymnasium:CartPole-v1") == 1
    assert run(*asked, "basic/random-v0", "--env", "Basic", "--demo-out", "here") == 0
    (file,) = Path("here").glob("*.demo")
    assert len(records(str(file))) == len(records("minari:basic/random-v0"))
    assert run("record", "--to-minari", "cart/random-v0") == 1
    assert "--to-minari is for demonstrations: add --demo" in capsys.readouterr().err


@pytest.mark.parametrize("by_option", [True, False])
def test_a_recording_without_what_was_left_out_is_written_as_it_was_recorded(
    by_option: bool, monkeypatch: pytest.MonkeyPatch
):
    class Told(CartPoleEnv):
        metadata = CartPoleEnv.metadata | ({} if by_option else {"leave_out": ["mission"]})

        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Dict({"pole": self.observation_space, "mission": spaces.Text(9)})

    monkeypatch.setitem(registry, "Told-v0", EnvSpec("Told-v0", entry_point=Told))
    form, env_spec = spaces_of(
        "gymnasium:Told-v0", {"leave_out": ["mission"], "missing_mask_allows_all": True} if by_option else {}
    )
    assert (form, env_spec.id) == (None, "Told-v0")


def test_each_behavior_and_team_becomes_a_dataset_of_its_own():
    import minari

    assert (
        run(
            "record",
            "--demo",
            "--brain",
            "random",
            "--episodes",
            1,
            "--areas",
            1,
            "--env",
            "RingOut",
            "--to-minari",
            "ring/random-v0",
        )
        == 0
    )
    ids = set(minari.list_local_datasets())
    assert ids == {"ring/random-v0", "ring/random-RingOut-team1-v0", "ring/random-RingOut-team2-v0"}
