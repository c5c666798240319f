"""The settings files of ML-Agents: each loads, or is refused with exactly what is not available yet."""

from pathlib import Path

import pytest

from palaestra.runtime.settings import load, to_yaml

FOLDER = Path(__file__).parent / "data" / "configs"
CONFIGS = Path(__file__).parents[2] / "configs"

FILES = {
    "imitation/Crawler",
    "imitation/Hallway",
    "imitation/PushBlock",
    "imitation/Pyramids",
    "poca/DungeonEscape",
    "poca/PushBlockCollab",
    "poca/SoccerTwos",
    "poca/StrikersVsGoalie",
    "ppo/3DBall",
    "ppo/3DBallHard",
    "ppo/3DBall_randomize",
    "ppo/Basic",
    "ppo/Crawler",
    "ppo/FoodCollector",
    "ppo/GridWorld",
    "ppo/Hallway",
    "ppo/Match3",
    "ppo/PushBlock",
    "ppo/Pyramids",
    "ppo/PyramidsRND",
    "ppo/Sorter_curriculum",
    "ppo/Visual3DBall",
    "ppo/VisualFoodCollector",
    "ppo/Walker",
    "ppo/WallJump",
    "ppo/WallJump_curriculum",
    "ppo/Worm",
    "sac/3DBall",
    "sac/3DBallHard",
    "sac/Basic",
    "sac/Crawler",
    "sac/FoodCollector",
    "sac/GridWorld",
    "sac/Hallway",
    "sac/PushBlock",
    "sac/Pyramids",
    "sac/Walker",
    "sac/WallJump",
    "sac/Worm",
    "written/poca_selfplay_curriculum_0.30",
    "written/ppo_lstm_1.1.0",
}


def test_the_list_names_every_file():
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml")} == FILES
    assert sum(not name.startswith("written/") for name in FILES) == 39


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_loads_without_a_word_and_reads_back(name: str, tmp_path: Path):
    loaded = load(FOLDER / f"{name}.yaml")
    assert loaded.warnings == ()
    (tmp_path / "configuration.yaml").write_text(to_yaml(loaded.settings))
    assert load(tmp_path / "configuration.yaml").settings == loaded.settings


def test_a_configuration_that_ml_agents_wrote_loads_with_its_memory():
    loaded = load(FOLDER / "written/ppo_lstm_1.1.0.yaml")
    assert loaded.warnings == ()
    assert loaded.settings.behaviors["Hallway"].network_settings.memory is not None
    assert loaded.settings.behaviors["Hallway"].max_steps == 10_000_000
    assert loaded.settings.env_settings.num_areas == 1
    assert loaded.settings.checkpoint_settings.resume is True


@pytest.mark.parametrize("name", ["3DBall", "3DBallHard", "Visual3DBall", "Basic"])
def test_the_files_we_ship_are_theirs_unchanged(name: str):
    assert (CONFIGS / "ppo" / f"{name}.yaml").read_bytes() == (FOLDER / "ppo" / f"{name}.yaml").read_bytes()


# those are ranges of `palaestra tune`
SETTINGS_FILES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.parent.name not in ("search", "mirrors"))


@pytest.mark.parametrize("path", SETTINGS_FILES, ids=lambda path: path.stem)
def test_every_file_we_ship_loads_without_a_word(path: Path):
    assert load(path).warnings == ()
