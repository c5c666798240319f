import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from palaestra.core.errors import RunError
from palaestra.runtime.run.model_writer import ModelsFolder
from palaestra.runtime.storage.status import Model, TrainingStatus


def a_model(step: int, reward: float | None = 1.0) -> Model:
    return Model(step, f"results/id/B/B-{step}.onnx", reward, 1.5)


def a_status(run: Path) -> TrainingStatus:
    return TrainingStatus(run / "run_logs" / "training_status.json")


def steps(status: TrainingStatus) -> list[int]:
    return [model.steps for model in status.models("B")]


def write(folder: ModelsFolder, step: int, reward: float | None = 1.0) -> Path:
    file = folder.path(step)
    file.write_bytes(f"model {step}".encode())
    folder.add(file, step, reward)
    return file


def test_the_file_has_the_layout_that_tools_know(tmp_path):
    status = a_status(tmp_path)
    status.add("B", a_model(100), keep=5)
    status.add("B", a_model(200, reward=None), keep=5)
    status.set_final("B", replace(a_model(200, reward=None), file_path="results/id/B.onnx"))
    status.set_elo("B", 1201.5)
    status.set_lesson("wall_height", 2)
    status.save()
    text = status.file.read_text()
    data = json.loads(text)
    assert data["B"]["checkpoints"][0] == {
        "steps": 100,
        "file_path": "results/id/B/B-100.onnx",
        "reward": 1.0,
        "creation_time": 1.5,
        "auxillary_file_paths": [],
    }
    assert data["B"]["checkpoints"][1]["reward"] is None
    assert data["B"]["final_checkpoint"]["file_path"] == "results/id/B.onnx"
    assert data["B"]["elo"] == 1201.5
    assert data["wall_height"] == {"lesson_num": 2}
    assert list(data)[-1] == "metadata"
    assert {"stats_format_version": "0.3.0", "mlagents_version": "1.1.0"}.items() <= data["metadata"].items()
    assert set(data["metadata"]) == {"stats_format_version", "mlagents_version", "palaestra_version", "torch_version"}
    assert text.startswith('{\n    "B": {\n        "checkpoints"')


def test_what_was_saved_is_loaded_without_a_warning(tmp_path):
    status = a_status(tmp_path)
    status.add("B", a_model(100), keep=5)
    status.set_final("B", a_model(100))
    status.set_lesson("p", 1)
    status.save()
    again = a_status(tmp_path)
    assert again.load() == []
    assert again.models("B") == [a_model(100)]
    assert again.final("B") == a_model(100)
    assert again.lesson("p") == 1
    assert (again.lesson("other"), again.elo("B"), again.final("C"), again.models("C")) == (None, None, None, [])


def test_a_missing_file_is_a_warning(tmp_path):
    (warning,) = a_status(tmp_path).load()
    assert "training_status.json is missing" in warning


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"B": 1}', '{"B": {"checkpoints": [{"steps": 1}]}}', '{"B": {"checkpoints": 3}}', "\ud800"]
)
def test_a_damaged_file_says_what_to_do(tmp_path, text):
    status = a_status(tmp_path)
    status.file.parent.mkdir()
    status.file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(RunError, match=r"training_status\.json is damaged.*remove it"):
        status.load()


@pytest.mark.parametrize(
    ("key", "message"),
    [("torch_version", "PyTorch 0.1"), ("mlagents_version", "ML-Agents 0.1"), ("palaestra_version", "Palaestra 0.1")],
)
def test_another_version_is_a_warning(tmp_path, key, message):
    status = a_status(tmp_path)
    status.save()
    data = json.loads(status.file.read_text())
    data["metadata"][key] = "0.1"
    status.file.write_text(json.dumps(data))
    (warning,) = status.load()
    assert message in warning


def test_a_file_without_versions_is_a_warning(tmp_path):
    status = a_status(tmp_path)
    status.file.parent.mkdir()
    status.file.write_text("{}")
    assert "does not name the version" in status.load()[0]


def test_the_same_step_is_listed_once(tmp_path):
    status = a_status(tmp_path)
    status.add("B", a_model(100, reward=1.0), keep=5)
    dropped = status.add("B", a_model(100, reward=2.0), keep=5)
    assert status.models("B") == [a_model(100, reward=2.0)]
    assert dropped == [a_model(100, reward=1.0)]


def test_the_oldest_and_those_of_an_abandoned_course_drop_out(tmp_path):
    status = a_status(tmp_path)
    for step in (100, 200, 300):
        status.add("B", a_model(step), keep=2)
    assert steps(status) == [200, 300]
    assert [model.steps for model in status.add("B", a_model(250), keep=2)] == [300]
    assert steps(status) == [200, 250]


def test_all_stay_where_none_is_to_go(tmp_path):
    status = a_status(tmp_path)
    for step in range(10):
        status.add("B", a_model(step), keep=0)
    assert steps(status) == [*range(10)]


@pytest.mark.parametrize("reward", [math.nan, math.inf, None])
def test_no_reward_is_null(reward):
    assert Model.of(Path("B.onnx"), 1, reward).reward is None


def test_a_file_in_the_way_is_a_clear_error(tmp_path):
    (tmp_path / "run_logs").write_text("in the way")
    with pytest.raises(RunError, match="a file stands where a folder is needed"):
        a_status(tmp_path).save()


def test_the_models_folder_keeps_the_newest_and_the_list_agrees(tmp_path):
    folder = ModelsFolder(tmp_path, "B", keep=2, status=a_status(tmp_path))
    for step in (100, 200, 300):
        write(folder, step)
    assert sorted(path.name for path in folder.folder.iterdir()) == ["B-200.onnx", "B-300.onnx"]
    again = a_status(tmp_path)
    again.load()
    assert steps(again) == [200, 300]
    assert again.models("B")[0].file_path == (tmp_path / "B" / "B-200.onnx").as_posix()


def test_saving_a_step_again_keeps_its_file(tmp_path):
    folder = ModelsFolder(tmp_path, "B", keep=2, status=a_status(tmp_path))
    write(folder, 100)
    assert write(folder, 100).exists()


def test_the_final_model_is_a_copy_beside_the_folder(tmp_path):
    status = a_status(tmp_path)
    folder = ModelsFolder(tmp_path, "B", keep=2, status=status)
    target = folder.final(write(folder, 100), 100, reward=2.0)
    assert target == tmp_path / "B.onnx"
    assert target.read_bytes() == b"model 100"
    final = status.final("B")
    assert (final.steps, final.reward, final.file_path) == (100, 2.0, target.as_posix())


def test_rotation_never_leaves_the_models_folder(tmp_path):
    status = a_status(tmp_path)
    outside = tmp_path / "precious.onnx"
    outside.write_bytes(b"precious")
    status.add("B", replace(a_model(1), file_path="../precious.onnx", auxillary_file_paths=("", str(outside))), keep=5)
    write(ModelsFolder(tmp_path, "B", keep=1, status=status), 2)
    assert outside.exists()
    assert steps(status) == [2]


def test_a_missing_model_does_not_stop_the_rotation(tmp_path):
    folder = ModelsFolder(tmp_path, "B", keep=1, status=a_status(tmp_path))
    write(folder, 100).unlink()
    assert write(folder, 200).exists()


def test_a_behavior_named_like_a_path_stays_inside_the_run(tmp_path):
    folder = ModelsFolder(tmp_path / "run", "../B", keep=1, status=a_status(tmp_path / "run"))
    file = write(folder, 1)
    assert file.parent.parent == tmp_path / "run"
    assert folder.final(file, 1, None).parent == tmp_path / "run"
