from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palaestra.api.python_calls import python_call
from palaestra.core import errors
from palaestra.core.errors import CallError, ConfigError, EnvError


def deep(levels: int, error: Exception) -> None:
    if levels:
        deep(levels - 1, error)
    raise error


@python_call
def open_it(name: str, *, resume: bool = False, folder: Path = Path("results")) -> None:
    deep(5, ConfigError(f"{folder}: there is no '{name}': leave out --resume"))


def test_an_error_speaks_python_and_ends_in_the_callers_line():
    with pytest.raises(ConfigError) as caught:
        open_it("x", folder=Path("my --resume"))
    assert str(caught.value) == "my --resume: there is no 'x': leave out resume=True"
    shown = traceback.format_exception(caught.value)
    assert sum(line.startswith("  File") for line in shown) == 2  # this function, and the one that Python called
    assert "open_it(" in "".join(shown)


GUARDED = """
def guarded(function):
    try:
        function()
    except (ValueError, ConfigError) as error:
        raise EnvError(f"step raised {exception_summary(error)}; --debug shows the whole traceback") from error
"""
STEP = """
def step():
    raise ValueError("try --resume")
"""


def defined(source: str, file: str) -> Any:
    """The function of a source text that would lie in `file`."""
    names: dict[str, Any] = dict(vars(errors))
    exec(compile(source, file, "exec"), names)
    return [*names.values()][-1]


guarded = defined(GUARDED, errors.__file__)


def test_what_a_user_raised_is_shown_without_the_frames_that_called_it():
    with pytest.raises(EnvError) as caught:
        python_call(guarded)(defined(STEP, "my env.py"))
    assert str(caught.value) == "step raised ValueError: try --resume (my env.py, line 3)"
    assert isinstance(caught.value.__cause__, ValueError)
    assert "".join(traceback.format_tb(caught.value.__cause__.__traceback__)).count("File ") == 1


def test_a_cause_of_ours_is_not_shown():
    def refuse() -> None:
        raise ConfigError("no")

    with pytest.raises(EnvError) as caught:
        python_call(guarded)(refuse)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_arguments_that_a_function_does_not_have_are_answered_with_the_nearest():
    call: Any = open_it
    with pytest.raises(CallError, match=r"open_it\(\) has no argument 'resumes'; did you mean 'resume'\?"):
        call("x", resumes=True)
    with pytest.raises(TypeError, match=r"open_it\(\) needs name \(it has: name, resume, folder\)"):
        call()


def test_a_cell_of_a_notebook_is_named_so():
    with pytest.raises(EnvError, match=r"ValueError: try --resume \(cell of the notebook, line 3\)$"):
        python_call(guarded)(defined(STEP, "x/ipykernel_123/456.py"))


def test_numbers_are_numbers():
    @python_call
    def play(run: str, episodes: int = 3, at: float | None = None) -> tuple[int, float | None]:
        return episodes, at

    call: Any = play
    assert call("x", np.int64(4), at=np.float32(0.5)) == (4, 0.5)
    for wrong in ({"episodes": "10"}, {"episodes": 1.5}, {"at": [1]}):
        with pytest.raises(CallError, match=rf"{next(iter(wrong))}: expected a (whole )?number, got"):
            call("x", **wrong)
