"""Files written by the original toolkit; their origin and license are in the README beside them."""

import json
import shutil
from pathlib import Path

from palaestra.runtime.run.model_writer import ModelsFolder
from palaestra.runtime.storage.status import TrainingStatus

FILES = Path(__file__).parent / "data" / "training_status"


def test_a_windows_run_of_version_1_1_is_read():
    status = TrainingStatus(FILES / "hallway_1.1.0.json")
    warnings = status.load()
    assert [model.steps for model in status.models("Hallway")] == [999989, 1499959, 1999969, 2499986, 2567334]
    assert round(status.models("Hallway")[3].reward or 0, 3) == 0.941
    final = status.final("Hallway")
    assert final is not None
    assert final.steps == 2567334
    assert [warning for warning in warnings if "PyTorch 2.2.2+cu121" in warning]
    assert not [warning for warning in warnings if "ML-Agents" in warning]


def test_a_self_play_run_with_lessons_of_version_0_30_is_read():
    status = TrainingStatus(FILES / "soccer_0.30.0.json")
    warnings = status.load()
    assert round(status.elo("SoccerAgentAdvanced") or 0, 3) == 1198.539
    assert status.lesson("ball_touch") == 2
    assert status.models("SoccerAgentAdvanced")[0].reward is None
    assert [warning for warning in warnings if "ML-Agents 0.30.0" in warning]


def test_going_on_with_it_deletes_the_files_that_the_original_wrote(tmp_path: Path):
    file = tmp_path / "run_logs" / "training_status.json"
    file.parent.mkdir()
    shutil.copy(FILES / "hallway_1.1.0.json", file)
    status = TrainingStatus(file)
    status.load()
    folder = ModelsFolder(tmp_path, "Hallway", keep=5, status=status)
    new = folder.path(3000000)
    for name in ("Hallway-999989.onnx", "Hallway-999989.pt", "Hallway-1499959.onnx", new.name):
        (folder.folder / name).write_bytes(b"model")
    folder.add(new, 3000000, 1.0)
    assert sorted(path.name for path in folder.folder.iterdir()) == ["Hallway-1499959.onnx", new.name]
    entry = json.loads(file.read_text())["Hallway"]["checkpoints"][0]
    assert entry["auxillary_file_paths"] == ["results\\Hallway\\Hallway\\Hallway-1499959.pt"]
