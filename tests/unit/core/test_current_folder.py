"""The current folder may be a stranger's: nothing in it is run but what is named as the user's own code."""

import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.cli.main import refuse_style_of_current_folder
from palaestra.core.errors import EnvError
from palaestra.core.plugins import import_user_module, own_python
from palaestra.envs.pettingzoo.opening import is_published
from palaestra.parallel.worker import WorkerProcess
from palaestra.runtime.environments.make import make_env
from palaestra.runtime.storage.trust import runs_code


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose files stand for libraries."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("json", "pickle", "psutil", "minigrid", "chess", "palaestra"):
        Path(f"{name}.py").write_text("open('was_run', 'w')")
    Path("classic").mkdir()
    Path("classic", "evil_v0.py").write_text("open('was_run', 'w')")
    return tmp_path


def test_names_of_gymnasium_and_pettingzoo_import_nothing_from_the_current_folder():
    with pytest.raises(EnvError, match="pip install minigrid"):
        make_env("gymnasium:MiniGrid-Empty-5x5-v0", areas=1)
    pytest.importorskip("pettingzoo")
    make_env("pettingzoo:classic.rps_v2", areas=1).close()
    assert str(Path.cwd()) not in sys.path
    assert not Path("was_run").exists()


def test_a_module_is_of_pettingzoo_if_it_lies_there():
    pytest.importorskip("pettingzoo")
    assert is_published("classic.rps_v2")
    assert is_published("classic/rps_v2")
    for place in (
        "classic.evil_v0",
        "classic/evil_v0",
        "classic...evil_v0",
        "pettingzoo.classic.evil_v0",
        "mpe2",
        "mine.env",
    ):
        assert not is_published(place)
        assert runs_code(f"pettingzoo:{place}")
    assert not Path("was_run").exists()


def test_the_current_folder_is_last_and_stays_only_for_a_module_that_lies_in_it(monkeypatch: pytest.MonkeyPatch):
    import_user_module("xml.dom.domreg", "test")
    assert str(Path.cwd()) not in sys.path
    Path("mine.py").write_text(
        "import json\nhere = json.dumps([])\ndef later():\n    import neighbor\n    return neighbor.value\n"
    )
    Path("neighbor.py").write_text("value = 7")
    for name in ("mine", "neighbor"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    mine = import_user_module("mine", "test")
    assert sys.path[-1] == str(Path.cwd())
    assert mine.later() == 7
    assert not Path("was_run").exists()


def test_a_name_that_an_installed_module_hides_is_told():
    Path("graphlib.py").write_text("def make(): ...")
    with pytest.raises(
        EnvError, match="has no 'make'; the 'graphlib' in the current folder is hidden by the installed one"
    ):
        make_env("python:graphlib:make")


def answer(connection: object) -> None:
    """Ends at once, in a process of its own."""


def test_processes_of_ours_import_nothing_from_the_current_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    worker = WorkerProcess(answer, title="worker")
    worker.close(30.0)
    shown = subprocess.run(own_python("palaestra", "--help"), capture_output=True, text=True, check=True, timeout=120)
    assert "palaestra learn" in shown.stdout
    assert not Path("was_run").exists()


@pytest.mark.slow
def test_pictures_do_not_take_their_style_from_the_current_folder():
    Path("metrics").mkdir()
    line = (
        '{"behavior": "A", "step": %d, "time": 1.0, "elapsed": 1.0, "episodes": 1, "Environment/Cumulative '
        'Reward": 1.0}\n'
    )
    Path("metrics/metrics.jsonl").write_text("".join(line % step for step in (100, 200)))
    Path("matplotlibrc").write_text("text.usetex: True\nsavefig.dpi: 4000\n")  # starts LaTeX; takes the memory
    shown = subprocess.run(
        own_python("palaestra", "plot", "metrics"), capture_output=True, text=True, check=False, timeout=120
    )
    assert shown.stderr == ""
    assert Path("curves.png").stat().st_size < 1_000_000


def test_a_style_in_the_current_folder_is_refused():
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"savefig.dpi": 4000}):
        refuse_style_of_current_folder()
        assert matplotlib.rcParams["savefig.dpi"] == 4000  # which is the user's own
        Path("matplotlibrc").write_text("savefig.dpi: 4000\n")
        refuse_style_of_current_folder()
        assert matplotlib.rcParams["savefig.dpi"] == "figure"
