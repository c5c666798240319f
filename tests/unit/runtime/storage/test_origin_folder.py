from pathlib import Path

from palaestra.runtime.storage.run_folder import origin_folder


def test_the_run_to_start_from_may_be_given_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "h1").mkdir(parents=True)
    assert origin_folder(Path("results"), "results/h1").path == Path("results/h1")
    assert origin_folder(Path("results"), str(tmp_path / "results" / "h1")).path.is_dir()
    assert origin_folder(Path("results"), "h1").path == Path("results/h1")
