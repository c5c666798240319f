"""The examples of functions that train, or need files: those in docs/reference/python that test_verbs.py leaves out."""

import doctest
import inspect
from pathlib import Path

import pytest

import palaestra
from palaestra.cli.commands import run_command

CONFIGS = Path(__file__).parents[3] / "configs"
NEEDS_THE_HUB = ("push", "pull")


class WithWhatIsPrinted(doctest.OutputChecker):
    """Takes any output where the example shows none: trainings print lines."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    results = folder / "results"
    palaestra.train(env="CartPole", max_steps=20_000, summary_freq=4000, run_id="pole", results_dir=results, quiet=True)
    (folder / "configs").symlink_to(CONFIGS)
    return folder


@pytest.mark.parametrize("name", ["distill", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "publish", "read_demo", "stop_at_reward", "train", "train_seeds", "tune"
))])  # fmt: skip
def test_the_example_of_a_function_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    if name == "publish":
        palaestra.train(env="3DBall", max_steps=12_000, run_id="ball", quiet=True)
    if name == "read_demo":
        words = "record --demo --env=CartPole --brain=random --demo-out=Expert.demo --episodes=3"
        assert run_command(words.split()) == 0
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(getattr(palaestra, name)) or "")
    assert examples
    runner = doctest.DocTestRunner(WithWhatIsPrinted(), verbose=False, optionflags=doctest.ELLIPSIS)
    assert runner.run(doctest.DocTest(examples, {}, name, None, None, None)).failed == 0


def test_every_function_has_an_example():
    functions = [name for name in palaestra.__all__ if inspect.isfunction(getattr(palaestra, name))]
    assert {*NEEDS_THE_HUB, "load_policy"} <= set(functions)
    assert [name for name in functions if ">>> " not in (inspect.getdoc(getattr(palaestra, name)) or "")] == []
