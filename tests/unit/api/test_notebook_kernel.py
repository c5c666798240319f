"""Notebooks with a real kernel: the example, and a training that is interrupted and goes on."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient", reason="needs nbclient: pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="needs ipykernel: pip install nbclient ipykernel")
import nbformat  # noqa: E402
from jupyter_core.utils import run_sync  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
MOST_LINES = 25
"""Lines that a cell of the example prints at most."""
WALK = """
import gymnasium
import numpy as np
import palaestra


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = (options or {}).get("start", 0.0)
        self.age = 0
        return np.array([self.at], np.float32), {}

    def step(self, action):
        self.at += 0.1 if action else -0.1
        self.age += 1
        return np.array([self.at], np.float32), self.at, abs(self.at) >= 0.95, self.age >= 20, {}


steps = []
few = {"batch_size": 32, "buffer_size": 128, "summary_freq": 200}
"""
TRAIN = """
result = palaestra.train(env=Walk, run_id="walk", max_steps=400, callbacks=lambda s: steps.append(s.step), **few)
"""
RESUME = """
more = palaestra.train(run_id="long", resume=True, callbacks=lambda s: True, **few)
more.steps["Walk"] > 200
"""


class Notebook:
    """Runs cells in a kernel, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.client: Any = nbclient.NotebookClient(
            nbformat.v4.new_notebook(), timeout=300, resources={"metadata": {"path": str(folder)}}
        )

    def run(self, source: str, *, may_fail: bool = False) -> Any:
        """Runs a cell and returns it, with its outputs."""
        cell = nbformat.v4.new_code_cell(source.strip(), metadata={"tags": ["raises-exception"] * may_fail})
        self.client.nb.cells.append(cell)
        return self.client.execute_cell(cell, len(self.client.nb.cells) - 1)

    def interrupted(self, source: str, at: str) -> str:
        """Runs a cell and interrupts it once it has printed a text. Returns the name of the exception that ended it."""
        kernel = self.client.kc
        asked = kernel.execute(source)
        printed = ended = ""
        while True:
            message = run_sync(kernel.get_iopub_msg)(timeout=120)
            if message["parent_header"].get("msg_id") != asked:
                continue
            content = message["content"]
            printed += content.get("text", "") + content.get("data", {}).get("text/html", "")
            if at and at in printed:
                run_sync(self.client.km.interrupt_kernel)()
                at = ""
            if message["msg_type"] == "error":
                ended = message["content"]["ename"]
            if message["content"].get("execution_state") == "idle":
                run_sync(kernel.get_shell_msg)(timeout=120)
                return ended


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    book = Notebook(tmp_path)
    with book.client.setup_kernel():
        yield book


def text_of(cell: Any) -> str:
    return "".join(one.get("text", "") for one in cell.outputs if one.output_type == "stream")


def shown(cell: Any, kind: str) -> str:
    """Returns the result of a cell, in a form; not what it showed while it ran."""
    (found,) = [one.data[kind] for one in cell.outputs if one.output_type == "execute_result"]
    return found


@pytest.mark.slow
def test_a_class_of_a_notebook_trains_is_interrupted_goes_on_and_shows_itself(notebook: Notebook, tmp_path: Path):
    notebook.run(WALK)
    notebook.run(TRAIN)
    assert shown(notebook.run("steps"), "text/plain") == "[200, 400]"
    assert "walk" in shown(notebook.run("result"), "text/html")
    assert shown(notebook.run("result.frame()[['step']].T"), "text/html").count("<td>") == 2
    plot = notebook.run("result.plot()")
    assert shown(plot, "image/png")
    assert 'class="palaestra-figure"' in shown(plot, "text/html")
    assert "Wrote own.png" in text_of(notebook.run("!palaestra plot walk --out own.png"))

    notebook.run("few['env'] = Walk")
    long = "palaestra.train(run_id='long', max_steps=10_000_000, **few)"
    assert notebook.interrupted(long, "Step: 200.") == "KeyboardInterrupt"
    assert [*(tmp_path / "results" / "long" / "checkpoints").iterdir()]
    assert shown(notebook.run(RESUME), "text/plain") == "True"

    in_turn = notebook.run("palaestra.train_seeds(seeds=2, max_steps=400, **few)")
    said = [line.partition(":")[0] for line in text_of(in_turn).splitlines() if line.startswith("[INFO]")]
    assert said == ["[INFO] Seed 1", "[INFO] Seed 2"]
    assert shown(in_turn, "text/html").count("-seed-") == 2  # not printed, but in its table
    notebook.run("side = palaestra.train_seeds(seeds=2, side_by_side=2, max_steps=200, quiet=True, **few)")
    assert shown(notebook.run("sorted(side.results)"), "text/plain") == "[1, 2]"
    copies = "palaestra.train(num_envs=2, num_areas=4, max_steps=200, run_id='copies', **few).finished"
    assert shown(notebook.run(copies), "text/plain") == "True"


def played(notebook: Notebook, name: str) -> list[Any]:
    """Runs the code cells of an example, and returns them."""
    example = nbformat.read(EXAMPLES / name, as_version=4)
    cells = [cell for cell in example.cells if cell.cell_type == "code"]
    return [notebook.run(cell.source, may_fail="tags" in cell.metadata) for cell in cells]


@pytest.mark.slow
def test_five_cells_lead_from_installing_to_a_moving_picture(notebook: Notebook):
    install, train, curve, test, film = played(notebook, "first_steps.ipynb")
    assert not install.outputs  # it is installed already
    assert "<svg" in shown(train, "text/html")
    assert shown(curve, "image/png")
    assert "one episode: 500" in text_of(test)
    assert "CartPole-v1" in shown(test, "text/html")
    assert "data:image/gif" in shown(film, "text/html")
    assert all(text_of(cell).count("\n") <= MOST_LINES for cell in (train, curve, test, film))


@pytest.mark.slow
def test_the_cells_of_the_second_notebook_run_as_they_are(notebook: Notebook):
    install, *worked, mistake = played(notebook, "more_steps.ipynb")
    assert not install.outputs
    assert [kind for cell in worked for one in cell.outputs for kind in one.get("data", {})].count("text/html") >= 4
    assert all(text_of(cell).count("\n") <= MOST_LINES for cell in worked)
    assert mistake.outputs[-1].ename == "CallError"
    assert "palaestra/api" not in "".join(mistake.outputs[-1].traceback)


def test_a_missing_palaestra_is_installed_from_the_wheel_beside_the_notebook_or_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Without a kernel: the installer is a function that notes what it would install."""
    cells = nbformat.read(EXAMPLES / "first_steps.ipynb", as_version=4).cells
    install = next(cell.source for cell in cells if cell.cell_type == "code")
    code = re.sub(r"%pip install --quiet \"(.*)\"", r'installed.append(f"\1")', install)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    installed = list[str]()
    exec(code, {"installed": installed})
    (tmp_path / "palaestra-1.0.0rc1-py3-none-any.whl").touch()
    exec(code, {"installed": installed})
    assert installed == ["palaestra[classic]", "palaestra-1.0.0rc1-py3-none-any.whl[classic]"]


@pytest.mark.parametrize("name", ["first_steps.ipynb", "more_steps.ipynb"])
def test_examples_are_stored_without_outputs(name: str):
    example = nbformat.read(EXAMPLES / name, as_version=4)
    nbformat.validate(example)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in example.cells)
