import pytest

from palaestra.core.errors import ConfigError
from palaestra.core.files import shipped_files
from palaestra.runtime.settings.examples import find_example
from palaestra.runtime.tune.shipped_spaces import read_block, space_for
from palaestra.runtime.tune.study_plan import make_plan


@pytest.mark.parametrize("example", ["ppo/3DBall", "sac/3DBall", "poca/PushBlockCollab"])
def test_the_space_of_each_trainer_is_one_that_it_can_train_with(example):
    plan = make_plan(find_example(example), {})  # which checks both ends of every range
    assert len(plan.dimensions) > 7
    assert plan.start is not None  # the example's own values are in the ranges


def test_minibatches_are_never_larger_than_a_rollout():
    for name in ("ppo", "poca"):
        space = read_block(name)["space"]
        of = "behaviors.*.hyperparameters"
        batches, rollouts = (space[f"{of}.{key}"]["choice"] for key in ("batch_size", "buffer_size"))
        assert max(batches) <= min(rollouts)


def test_a_block_is_read_with_its_key_or_without(tmp_path):
    (tmp_path / "with.yaml").write_text("search:\n  trials: 3\n")
    (tmp_path / "without.yaml").write_text("trials: 3\n")
    assert read_block(tmp_path / "with.yaml") == read_block(tmp_path / "without.yaml") == {"trials": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "search:\n  trials: 3\n  space:\n    a.b: {log: [2, 1]}\n",
            "s.yaml:4: search.space.a.b.log: expected the smaller number first",
        ),
        ("trails: 3\n", "s.yaml:1: search.trails: unknown key"),
        ("- 3\n", "expected a map with the key `space`"),
        ("search: 7\n", "expected a map"),
        ("", "expected a map"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_mistake_in_a_file_of_ranges_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        read_block(tmp_path / "s.yaml")
    assert message in str(error.value)


def test_a_name_that_is_no_space_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="did you mean 'ppo'"):
        read_block("ppa")
    with pytest.raises(ConfigError, match="no settings file"):
        read_block("nothing.yaml")


def test_a_trainer_without_a_space_needs_ranges_of_its_own():
    assert set(shipped_files("search")) == {"ppo", "sac", "poca"}
    with pytest.raises(ConfigError, match=r"trainer 'bc'.*give the ranges under search.space"):
        space_for({"bc"})
    with pytest.raises(ConfigError, match="trainers ppo, sac"):
        space_for({"ppo", "sac"})
