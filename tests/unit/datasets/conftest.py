from pathlib import Path

import pytest

pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps the datasets of a test."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder
