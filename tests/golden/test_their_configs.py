"""The settings files of ML-Agents: each loads, or is refused with exactly what is not available yet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import load, to_yaml

FOLDER = Path(__file__).parent / "data" / "configs"
CONFIGS = Path(__file__).parents[2] / "configs"

MISSING: dict[str, set[str]] = {
    "imitation/Crawler": set(),
    "imitation/Hallway": set(),
    "imitation/PushBlock": set(),
    "imitation/Pyramids": set(),
    "poca/DungeonEscape": set(),
    "poca/PushBlockCollab": set(),
    "poca/SoccerTwos": set(),
    "poca/StrikersVsGoalie": set(),
    "ppo/3DBall": set(),
    "ppo/3DBallHard": set(),
    "ppo/3DBall_randomize": set(),
    "ppo/Basic": set(),
    "ppo/Crawler": set(),
    "ppo/FoodCollector": set(),
    "ppo/GridWorld": set(),
    "ppo/Hallway": set(),
    "ppo/Match3": set(),
    "ppo/PushBlock": set(),
    "ppo/Pyramids": set(),
    "ppo/PyramidsRND": set(),
    "ppo/Sorter_curriculum": set(),
    "ppo/Visual3DBall": set(),
    "ppo/VisualFoodCollector": set(),
    "ppo/Walker": set(),
    "ppo/WallJump": set(),
    "ppo/WallJump_curriculum": set(),
    "ppo/Worm": set(),
    "sac/3DBall": set(),
    "sac/3DBallHard": set(),
    "sac/Basic": set(),
    "sac/Crawler": set(),
    "sac/FoodCollector": set(),
    "sac/GridWorld": set(),
    "sac/Hallway": set(),
    "sac/PushBlock": set(),
    "sac/Pyramids": set(),
    "sac/Walker": set(),
    "sac/WallJump": set(),
    "sac/Worm": set(),
    "written/poca_selfplay_curriculum_0.30": {"SoccerAgentAdvanced.threaded"},
    "written/ppo_lstm_1.1.0": set(),
}
"""What each file asks for that is not there yet; a behavior's path without `behaviors.`."""


def test_the_table_names_every_file():
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.yaml")} == MISSING.keys()
    assert sum(not name.startswith("written/") for name in MISSING) == 39


@pytest.mark.parametrize("name", [name for name, missing in MISSING.items() if not missing])
def test_a_file_loads_without_a_word_and_reads_back(name: str, tmp_path: Path):
    loaded = load(FOLDER / f"{name}.yaml")
    assert loaded.warnings == ()
    (tmp_path / "configuration.yaml").write_text(to_yaml(loaded.settings))
    assert load(tmp_path / "configuration.yaml").settings == loaded.settings


@pytest.mark.parametrize("name", [name for name, missing in MISSING.items() if missing])
def test_a_file_is_refused_with_exactly_what_is_missing(name: str):
    file = FOLDER / f"{name}.yaml"
    with pytest.raises(ConfigError) as caught:
        load(file)
    named = re.findall(rf"^ *{re.escape(str(file))}:(\d+): (\S+): .*not available yet", str(caught.value), re.MULTILINE)
    assert {path.removeprefix("behaviors.") for _, path in named} == MISSING[name]
    lines = file.read_text().splitlines()
    assert all(path.rpartition(".")[2] + ":" in lines[int(line) - 1] for line, path in named)


def test_a_configuration_that_ml_agents_wrote_loads_with_its_memory():
    loaded = load(FOLDER / "written/ppo_lstm_1.1.0.yaml")
    assert loaded.warnings == ()
    assert loaded.settings.behaviors["Hallway"].network_settings.memory is not None
    assert loaded.settings.behaviors["Hallway"].max_steps == 10_000_000
    assert loaded.settings.env_settings.num_areas == 1
    assert loaded.settings.checkpoint_settings.resume is True


@pytest.mark.parametrize("name", ["3DBall", "3DBallHard", "Basic", "GridWorld"])
def test_the_files_we_ship_are_theirs_unchanged(name: str):
    assert (CONFIGS / "ppo" / f"{name}.yaml").read_bytes() == (FOLDER / "ppo" / f"{name}.yaml").read_bytes()


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_we_ship_loads_without_a_word(path: Path):
    assert load(path).warnings == ()
