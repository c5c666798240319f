import io
import os
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from small_runs import settings
from tune_runs import ENV, RATE

import palaestra
from palaestra.core.errors import EnvError
from palaestra.core.versions import palaestra_version
from palaestra.runtime.settings.search_settings import SearchSettings
from palaestra.runtime.tune.ray_trials import RayLauncher, TrialHost, pack, unpack
from palaestra.runtime.tune.trial_process import TrialTask


def task_in(folder: Path, max_steps: int = 400) -> TrialTask:
    (folder / "trials" / "0").mkdir(parents=True)
    file = folder / "trials" / "0" / "settings.yaml"
    file.write_text(yaml.safe_dump({**settings("CartPole", max_steps), **ENV}))
    place = folder / "trials"
    return TrialTask(
        str(file), str(place), "0/seed-1", 1, str(place / "0" / "seed-1.json"), str(place / "0" / "seed-1.log")
    )


def test_a_machine_of_another_version_is_refused(tmp_path: Path):
    with pytest.raises(EnvError, match="they must be the same"):
        TrialHost().begin(task_in(tmp_path), "token", "0.0", os.getcwd(), [])


def test_a_folder_comes_out_of_a_tar_as_it_went_in_without_its_lock(tmp_path: Path):
    (tmp_path / "a" / "run_logs").mkdir(parents=True)
    (tmp_path / "a" / "run_logs" / "x.json").write_text("{}")
    (tmp_path / "a" / ".lock").touch()
    unpack(pack(tmp_path / "a"), tmp_path / "b")
    assert [path.relative_to(tmp_path / "b").as_posix() for path in tmp_path.glob("b/**/*")] == [
        "run_logs",
        "run_logs/x.json",
    ]
    assert pack(tmp_path / "c") == b""


def test_a_tar_that_leads_out_of_the_folder_is_refused(tmp_path: Path):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../evil"))
    with pytest.raises(EnvError, match="not in the run's folder"):
        unpack(data.getvalue(), tmp_path / "b")
    assert not (tmp_path / "evil").exists()


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EnvError, match=r"palaestra tune --ray needs Ray.*pip install 'palaestra\[ray\]'"):
        RayLauncher(SearchSettings(ray=True))


@pytest.mark.slow
def test_a_machine_that_does_not_see_the_folder_sends_the_run_back(tmp_path: Path):
    task = task_in(tmp_path)
    host = TrialHost()
    assert not host.begin(
        replace(task, results_dir=str(tmp_path / "nowhere")), "token", palaestra_version(), os.getcwd(), []
    )
    host.start(Path(task.settings).read_bytes(), b"")
    deadline = time.monotonic() + 100
    while (answer := host.look())[0] is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert answer[0] is not None
    assert answer[0].kind == "finished"
    run, log = host.fetch()
    unpack(run, task.run)
    assert (task.run / "CartPole.onnx").is_file()
    assert (task.run / "metrics.jsonl").is_file()
    assert b"Starting" in log


@pytest.fixture
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
@pytest.mark.usefixtures("cluster")
def test_trials_run_on_a_ray_cluster(tmp_path: Path):
    tree = {
        **settings("CartPole", 400),
        **ENV,
        "search": {"space": {RATE: {"log": [1e-5, 1e-2]}}, "episodes": 5, "ray": True, "jobs": 2},
    }
    found = palaestra.tune(tree, results_dir=str(tmp_path), trials=3, quiet=True)
    assert found.trials == 3
    assert (tmp_path / "tune" / "trials" / "2" / "seed-1" / "CartPole.onnx").is_file()
