import json
from pathlib import Path
from typing import Any

import pytest
from upgraded_files import loaded, parameters, refused, upgraded

from palaestra.core.errors import ConfigError
from palaestra.runtime.settings import BehaviorSettings, load
from palaestra.runtime.upgrade import upgrade
from palaestra.scenario.settings import CurriculumSettings, SamplerSettings

WALLS = {
    "measure": "progress",
    "thresholds": [0.1, 0.3],
    "min_lesson_length": 100,
    "signal_smoothing": True,
    "parameters": {"low": [0.0, 4.0, 6.0], "high": [4, 7, 8]},
}
BEHAVIORS = "A: {trainer: ppo, batch_size: 3}\nB: {trainer: ppo}\n"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def write(name: str, content: Any) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        content if isinstance(content, str) else json.dumps(content, indent="\t" if name.endswith("json") else 2),
        encoding="utf-8",
    )
    return path


def lessons(behavior: str, values: list[float], curriculum: dict[str, Any] = WALLS) -> CurriculumSettings:
    shared = {key: curriculum[key] for key in ("measure", "min_lesson_length", "signal_smoothing")}
    criteria = [{"behavior": behavior, **shared, "threshold": threshold} for threshold in curriculum["thresholds"]]
    found = zip([*criteria, None], values, strict=True)
    tree = [
        {"value": value, "name": f"Lesson{i}", "completion_criteria": each} for i, (each, value) in enumerate(found)
    ]
    return CurriculumSettings.model_validate({"curriculum": tree})


def sampler(kind: str, **numbers: Any) -> SamplerSettings:
    return SamplerSettings.model_validate({"sampler_type": kind, "sampler_parameters": numbers})


def test_a_folder_has_a_file_for_each_behavior():
    write("walls/A.json", WALLS)
    write("walls/B.json", {**WALLS, "parameters": {"other": [1, 2, 3]}})
    write("walls/A.json.meta", "guid: 3")
    found = parameters(BEHAVIORS, curriculum=Path("walls"))
    assert found == {"low": lessons("A", [0, 4, 6]), "high": lessons("A", [4, 7, 8]), "other": lessons("B", [1, 2, 3])}


def test_a_curriculum_of_a_behavior_that_the_trainer_file_lacks_adds_it_and_says_so():
    write("walls/A.json", WALLS)
    write("walls/OldBrain.json", {**WALLS, "parameters": {"other": [1, 2, 3]}})
    old = write("old.yaml", f"default: {{trainer: ppo}}\n{BEHAVIORS}")
    report = upgrade(old, Path("walls")).report
    assert report.heading == "old.yaml: ML-Agents before release 3 (mlagents 0.17); 3 behaviors and default_settings"
    assert sum(note.startswith("OldBrain: named by a curriculum, but not in the tr") for note in report.notes) == 1


def test_a_file_has_a_map_by_behavior():
    file = write("walls.yaml", {"A": WALLS, "B": {**WALLS, "parameters": {"other": [1, 2, 3]}}})
    assert parameters(BEHAVIORS, curriculum=file)["other"] == lessons("B", [1, 2, 3])


def test_what_a_curriculum_left_out_was_one_episode_and_no_smoothing():
    file = write("walls.yaml", {"A": {key: WALLS[key] for key in ("measure", "thresholds", "parameters")}})
    usual = {**WALLS, "min_lesson_length": 1, "signal_smoothing": False}
    assert parameters(curriculum=file)["low"] == lessons("A", [0, 4, 6], usual)


@pytest.mark.parametrize(
    ("name", "behaviors", "measured"),
    [("B", BEHAVIORS, "B"), ("walls", "A: {trainer: ppo, batch_size: 3}", "A"), ("walls", BEHAVIORS, "A")],
)
def test_a_single_curriculum_is_of_the_behavior_of_its_name_or_else_of_the_first(name, behaviors, measured):
    file = write(f"{name}.json", WALLS)
    assert parameters(behaviors, curriculum=file)["low"] == lessons(measured, [0, 4, 6])
    told = f"{file}: names no behavior: its lessons depend on 'A'; change `behavior` if they should depend on another"
    assert upgrade(Path("old.yaml"), curriculum=file).report.warnings == (
        [told] if (name, measured) == ("walls", "A") and "B:" in behaviors else []
    )


def test_a_behavior_that_only_the_curriculum_names_has_the_settings_of_default():
    write("walls/WallBrain.json", WALLS)
    assert loaded("default: {trainer: ppo, batch_size: 8}", "WallBrain", curriculum=Path("walls")).max_steps == 500_000
    assert list(load(Path("new.yaml")).settings.behaviors) == ["WallBrain"]


def test_lessons_of_a_behavior_without_settings_give_it_the_built_in_ones():
    write("walls/WallJmp.json", WALLS)
    done = upgraded("WallJump: {trainer: ppo}", curriculum=Path("walls"))
    assert done.report.warnings == [
        "walls/WallJmp.json: 'WallJmp' has no settings; did you mean 'WallJump'?: it gets the built-in ones; add "
        "settings, or change `behavior` of the lessons"
    ]
    assert load(Path("new.yaml")).settings.behaviors["WallJmp"] == BehaviorSettings()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"parameters": {"low": [1, 2]}},
            "walls/A.json:10: expected a list of 3 values, one more than thresholds, got 2",
        ),
        (
            {"parameters": None},
            "walls/A.json:9: `parameters`: expected a map of parameters, each with its values, got nothing",
        ),
        ({"thresholds": 0.3}, "walls/A.json:3: `thresholds`: expected a list of numbers, got 0.3"),
        (
            {"thresholds": [0.1, 3]},
            "walls/A.json:5: environment_parameters.low.curriculum[1].completion_criteria.threshold: "
            "expected a number within 0..1 for the measure 'progress', got 3.0",
        ),
    ],
)
def test_a_curriculum_that_cannot_be_used_is_named_with_its_line(change, message):
    write("walls/A.json", {**WALLS, **change})
    assert message in refused(BEHAVIORS, curriculum=Path("walls"))


def test_unknown_keys_of_a_curriculum_are_warned_of():
    write("walls/A.json", {**WALLS, "treshold": 3})
    assert upgraded(BEHAVIORS, curriculum=Path("walls")).report.warnings == [
        "walls/A.json:21: unknown key 'treshold'; did you mean 'thresholds'?: left out"
    ]


def test_samplers_have_their_numbers_below_them_and_other_names():
    file = write(
        "samplers.yaml",
        "resampling-interval: 5000\nmass: {sampler-type: uniform, min_value: 0.5, max_value: 10}\ngravity: "
        "{sampler-type: multirange_uniform, intervals: [[7, 10], [15, 20]]}\nscale: {sampler-type: gaussian, mean: 3, "
        "var: 2, seed: 7, spread: 1}\ndrag: 0.5\n",
    )
    assert parameters(sampler=file) == {
        "mass": sampler("uniform", min_value=0.5, max_value=10),
        "gravity": sampler("multirangeuniform", intervals=[[7, 10], [15, 20]]),
        "scale": sampler("gaussian", mean=3, st_dev=2, seed=7),
        "drag": 0.5,
    }
    report = upgrade(Path("old.yaml"), sampler=file).report
    assert report.warnings == ["samplers.yaml:4: unknown key 'spread' of a gaussian sampler: left out"]
    assert "resampling-interval 5000 -> left out: values are drawn for each episode" in report.text()


def test_a_sampler_goes_over_a_curriculum_and_the_first_curriculum_over_others():
    write("walls/A.json", WALLS)
    write("walls/B.json", WALLS)
    samplers = write("samplers.yaml", "low: {sampler-type: uniform, min_value: 0, max_value: 1}")
    found = parameters(BEHAVIORS, curriculum=Path("walls"), sampler=samplers)
    assert found["low"] == sampler("uniform", min_value=0, max_value=1)
    assert found["high"] == lessons("A", [4, 7, 8])
    assert upgrade(Path("old.yaml"), Path("walls"), samplers).report.warnings == [
        "walls/A.json:10: 'low' is left out: it is already defined at samplers.yaml:1",
        "walls/B.json:10: 'low' is left out: it is already defined at samplers.yaml:1",
        "walls/B.json:15: 'high' is left out: it is already defined at walls/A.json:15",
    ]


def test_release_3_had_both_in_the_trainer_file():
    text = """
        behaviors:
            A: {trainer_type: sac, hyperparameters: {batch_size: 8}, max_steps: 1.0e4}
        curriculum:
            A: {measure: reward, thresholds: [0.5], parameters: {size: [1, 2]}}
        parameter_randomization:
            resampling-interval: 500
            mass: {sampler_type: uniform, min_value: 1, max_value: 2}
        env_settings: {seed: 3}
    """
    found = parameters(text)
    assert found["mass"] == sampler("uniform", min_value=1, max_value=2)
    assert [lesson.value for lesson in found["size"].curriculum] == [1.0, 2.0]
    settings = load(Path("new.yaml")).settings
    block = settings.behaviors["A"]
    assert (block.trainer_type, block.max_steps, settings.env_settings.seed) == ("sac", 10_000, 3)


def test_release_2_had_flat_blocks_under_behaviors():
    text = (
        "behaviors:\n  A:\n    trainer: ppo\n    batch_size: 8\n    hidden_units: 16\n  B:\n    trainer_type: "
        "sac\ncurriculum:\n"
    )
    assert loaded(text).network_settings.hidden_units == 16
    assert loaded(text, "B").trainer_type == "sac"


def test_keys_that_have_changed_since_are_brought_up_to_date():
    text = """
        behaviors:
            A:
                trainer_type: ppo
                framework: pytorch
                output_path: default
                reward_signals:
                    extrinsic:
                    curiosity: {strength: 0.1, encoding_size: 32}
                network_settings: {memory: {}, speed: 3}
                self_play: {play_against_current_best_ratio: 0.25}
    """
    block = loaded(text)
    assert block.reward_signals["curiosity"].network_settings.hidden_units == 32
    assert block.network_settings.memory is not None
    assert block.self_play.play_against_latest_model_ratio == 0.25
    assert upgraded(text).report.warnings == ["old.yaml:10: behaviors.A.network_settings.speed: unknown key: left out"]


def test_lessons_of_the_old_converter_get_their_names():
    text = """
        behaviors: {A: {trainer_type: ppo}}
        environment_parameters:
            size:
                curriculum:
                - Lesson0: {completion_criteria: {behavior: A, measure: reward, threshold: 0.5}, value: 1}
                - Lesson1: {value: 2}
    """
    assert [lesson.name for lesson in parameters(text)["size"].curriculum] == ["Lesson0", "Lesson1"]


def test_a_current_file_stays_as_it_is_to_the_letter():
    text = "# mine\nbehaviors:\n  A: {trainer_type: ppo}   # good\nenvironment_parameters: {mass: 3.0}\n"
    done = upgraded(text)
    assert (done.changed, done.text) == (False, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "old.yaml: is empty"),
        ("3", "old.yaml: expected a map of keys"),
        ("behaviors: {}", "old.yaml: has no behavior"),
        ("behaviors: [1]", "old.yaml:1: behaviors: expected a map of keys, got a list of 1"),
        (
            "mass: {sampler-type: uniform}",
            "old.yaml: contains samplers; give the trainer file that they belong to, and this file with --sampler",
        ),
        (
            "thresholds: [1]",
            "old.yaml: contains curricula; give the trainer file that they belong to, and this file with --curriculum",
        ),
    ],
)
def test_what_is_no_trainer_file_is_refused(text, message):
    assert refused(text) == message


def test_a_file_behind_the_wrong_flag_is_refused():
    curricula = write("walls.json", WALLS)
    samplers = write("samplers.yaml", "low: {sampler-type: uniform}")
    assert refused(BEHAVIORS, sampler=curricula) == "walls.json: has no samplers"
    assert refused(BEHAVIORS, curriculum=samplers) == "samplers.yaml: has no curricula"
    assert refused(BEHAVIORS, curriculum=Path("old.yaml")) == "old.yaml: has no curricula"


def test_an_empty_folder_of_curricula_is_refused():
    Path("walls").mkdir()
    with pytest.raises(ConfigError, match=r"walls: has no curricula: expected .json or .yaml files"):
        upgraded(BEHAVIORS, curriculum=Path("walls"))
