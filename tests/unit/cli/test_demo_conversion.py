import json
from pathlib import Path

import pytest
from demo_files import episodes, write
from minari_files import assert_same, episode, records, simple

from palaestra.cli.main import main

pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "datasets"


def run(*arguments: object) -> int:
    return main([*map(str, arguments)])


def test_a_dataset_is_shown_as_a_file_is(capsys):
    simple("my/b-v0", episode(3), episode(2, end=False, cut=True), author="Ada")
    assert run("demo", "minari:my/b-v0") == 0
    lines = capsys.readouterr().out.splitlines()
    for expected in (
        "name          my/b-v0 (format hdf5, Minari ",
        "author        Ada",
        "size          7 records, 5 decisions",
        "episodes      1 terminated, 1 truncated (time limit); metadata: 2 episodes",
        "action        discrete branch 0: choice 0 40%, choice 1 40%, choice 2 20%",
    ):
        assert any(line.startswith(f"  {expected}") for line in lines), expected
    assert run("demo", "minari:my/b-v0", "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["steps"], shown["metadata_episodes"], shown["warnings"]) == (5, 2, [])


def test_datasets_and_files_become_one_file(capsys, tmp_path):
    source = write(tmp_path / "x.demo", episodes(3, 2))
    simple("my/b-v0", episode(3), episode(2, end=False, cut=True))
    assert run("demo", "minari:my/b-v0", "--to-demo", "y.demo") == 0
    assert "Wrote y.demo (b?team=0: 2 episodes, 7 records)" in capsys.readouterr().out
    assert_same(records("y.demo"), records("minari:my/b-v0"))
    for wrong, message in (
        (["--to-demo", "y.demo"], "exists already"),
        (["--to-demo", "x.demo", "--force"], "cannot be written onto itself"),
        (["--to-demo", "y.txt"], "expected a file that ends in .demo"),
        (["--to-demo", "z.demo", "--json"], "--json shows demonstrations"),
        (["--force"], "--force overwrites a file that --plot or --to-demo names"),
    ):
        assert run("demo", source, *wrong) == 1
        assert message in capsys.readouterr().err
