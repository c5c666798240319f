"""The settings files of old ML-Agents: each, with the curricula and samplers of its time, becomes one file that loads
and trains.
"""

from pathlib import Path

import pytest

import palaestra
from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.upgrade import Upgraded, upgrade
from palaestra.scenario.settings import CurriculumSettings, SamplerSettings
from palaestra.trainers.settings import BCSettings, PPOSettings, SACSettings

FOLDER = Path(__file__).parent / "data" / "legacy_configs"
TRAINERS = {
    "0.15.1/trainer_config.yaml": 22,
    "0.15.1/sac_trainer_config.yaml": 21,
    "0.15.1/gail_config.yaml": 5,
    "unity_history/online_bc_config.yaml": 8,
    "unity_history/python_trainer_config_pre0.5.yaml": 3,
    "unity_history/imitation_Pyramids_encoding_size.yaml": 1,
}
"""Each trainer file, and how many behaviors it lists."""
CURRICULA = {
    "0.15.1/curricula/PongAI.yaml": ["Paddle_Size"],
    "0.15.1/curricula/pong.json": ["paddleScale", "ballSpeed"],
    "unity_history/curricula/tennis.yaml": ["ball_touch"],
    "unity_history/curricula/wall-jump": ["big_wall_min_height", "big_wall_max_height", "small_wall_height"],
}
SAMPLERS = {
    "0.15.1/3dball_generalize.yaml": ["mass", "gravity", "scale"],
    "unity_history/Bouncer_train_sampler.yaml": ["banana_scale"],
}


def made(
    folder: Path, trainer: str, curriculum: str | None = None, sampler: str | None = None
) -> tuple[Upgraded, RunSettings]:
    """Of these files: new.yaml in the folder, and its settings."""
    done = upgrade(FOLDER / trainer, FOLDER / curriculum if curriculum else None, FOLDER / sampler if sampler else None)
    (folder / "new.yaml").write_text(done.text, encoding="utf-8")
    loaded = load(folder / "new.yaml")
    assert loaded.warnings == ()
    return done, loaded.settings


def test_the_tables_name_every_file():
    named = [FOLDER / name for name in (*TRAINERS, *CURRICULA, *SAMPLERS)]
    found = [path for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".md"]
    assert {path for path in found if not {path, path.parent} & set(named)} == set()


@pytest.mark.parametrize("name", TRAINERS)
def test_a_trainer_file_becomes_a_current_one(name: str, tmp_path: Path):
    done, settings = made(tmp_path, name)
    assert done.changed
    assert len(settings.behaviors) == TRAINERS[name]
    assert not upgrade(tmp_path / "new.yaml").changed


@pytest.mark.parametrize("name", [name for name in TRAINERS if "encoding_size" not in name])
def test_learn_recognizes_a_trainer_file(name: str):
    with pytest.raises(
        ConfigError,
        match=r"is a trainer file of ML-Agents before release 3 \(mlagents 0.17\); upgrade it with `pal",
    ):
        load(FOLDER / name)


@pytest.mark.parametrize("name", CURRICULA)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_curriculum_becomes_lessons_of_any_trainer_file(trainer: str, name: str, tmp_path: Path):
    parameters = made(tmp_path, trainer, curriculum=name)[1].environment_parameters or {}
    assert list(parameters) == CURRICULA[name]
    assert all(isinstance(parameter, CurriculumSettings) for parameter in parameters.values())


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_samplers_become_parameters_of_any_trainer_file(trainer: str, name: str, tmp_path: Path):
    parameters = made(tmp_path, trainer, sampler=name)[1].environment_parameters or {}
    assert list(parameters) == SAMPLERS[name]
    assert all(isinstance(parameter, SamplerSettings) for parameter in parameters.values())


def test_hallway_of_0_15_is_what_it_was(tmp_path: Path):
    hallway = made(tmp_path, "0.15.1/trainer_config.yaml")[1].behaviors["Hallway"]
    assert hallway.hyperparameters == PPOSettings(batch_size=128, buffer_size=1024, beta=0.01)
    assert hallway.network_settings.memory is not None
    assert hallway.network_settings.memory.memory_size == 128
    assert (hallway.max_steps, hallway.summary_freq) == (10_000_000, 10_000)


def test_sac_of_0_15_learns_every_second_step_where_it_did(tmp_path: Path):
    behaviors = made(tmp_path, "0.15.1/sac_trainer_config.yaml")[1].behaviors
    hyper = {
        name: behavior.hyperparameters
        for name, behavior in behaviors.items()
        if isinstance(behavior.hyperparameters, SACSettings)
    }
    assert len(hyper) == 21
    assert {name for name, settings in hyper.items() if settings.steps_per_update == 2} == {
        "CrawlerStatic",
        "CrawlerDynamic",
        "Walker",
    }


def test_imitation_alone_goes_without_the_rewards_of_default(tmp_path: Path):
    behaviors = made(tmp_path, "0.15.1/gail_config.yaml")[1].behaviors
    assert list(behaviors["CrawlerStatic"].reward_signals) == ["gail"]
    assert list(behaviors["Pyramids"].reward_signals) == ["extrinsic", "curiosity", "gail"]


@pytest.mark.parametrize(
    "name", ["unity_history/online_bc_config.yaml", "unity_history/python_trainer_config_pre0.5.yaml"]
)
def test_cloning_asks_who_the_teacher_is(name: str, tmp_path: Path):
    done, settings = made(tmp_path, name)
    hyper = settings.behaviors["StudentBrain"].hyperparameters
    assert isinstance(hyper, BCSettings)
    assert (hyper.teacher, hyper.teacher_behavior) == (
        "heuristic",
        "TeacherBrain" if "online" in name else "ExpertBrain",
    )
    assert f"fill in: who plays '{hyper.teacher_behavior}'" in done.report.text()


@pytest.mark.parametrize(
    ("name", "behavior", "steps"),
    [
        ("0.15.1/trainer_config.yaml", "Basic", 300),
        ("0.15.1/sac_trainer_config.yaml", "Basic", 100),
        ("unity_history/online_bc_config.yaml", "3DBall", 2100),
        ("unity_history/python_trainer_config_pre0.5.yaml", "3DBall", 600),
    ],
)
def test_the_new_file_trains(name: str, behavior: str, steps: int, tmp_path: Path):
    settings = made(tmp_path, name, sampler="0.15.1/3dball_generalize.yaml" if behavior == "3DBall" else None)[1]
    tree = {**settings.model_dump(exclude_unset=True), "behaviors": {behavior: {"max_steps": steps}}}
    if behavior in settings.behaviors:
        tree["behaviors"] = {behavior: {**settings.behaviors[behavior].model_dump(), "max_steps": steps}}
    run = palaestra.train(
        tree, env=f"builtin:{behavior}", results_dir=str(tmp_path), run_id="run", num_areas=4, quiet=True
    )
    assert run.finished
    assert run.models[behavior].is_file()
