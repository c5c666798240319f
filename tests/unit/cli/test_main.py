import subprocess
import sys
from pathlib import Path

import pytest

from palaestra.cli.commands import COMMANDS
from palaestra.core.errors import out_of_memory
from palaestra.core.processes import surely_no_gpu
from palaestra.core.wording.error_topics import POINTER


def test_without_a_command_the_help_teaches(terminal):
    message = terminal()
    assert all(name in message for name in COMMANDS)
    assert "palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=first" in message


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes differ"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error: Exception, is_it: bool):
    assert out_of_memory(error) is is_it


def test_help_needs_no_torch():
    code = (
        "import atexit, sys; from palaestra.cli.main import main; atexit.register(lambda: print('heavy:', "
        "*{'torch', 'warp', 'onnx', 'gymnasium', 'matplotlib'} & {*sys.modules})); main([]); main(['learn', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy:"


@pytest.mark.slow
def test_training_a_built_in_environment_imports_only_what_it_needs():
    code = (
        "import sys; from palaestra.runtime.run import learning; from palaestra.runtime.environments.make import "
        "make_env; make_env('Basic'); print(*{'tensorboard', 'onnx', 'onnxruntime', 'matplotlib', 'rich', "
        "'gymnasium'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--gpus=1", "--gpus=1: this machine has 0 GPUs; --processes trains in several processes on CPUs"),
        ("--torch-device=cuda", "torch device 'cuda' is not there: this machine has cpu"),
    ],
)
def test_gpus_that_are_not_there_are_told_before_libraries_are_loaded(flag: str, message: str, tmp_path: Path):
    if not surely_no_gpu():
        pytest.skip("there is, or may be, a GPU")
    code = (
        "import sys\nfrom palaestra.cli.main import main\nsys.argv = ['palaestra', 'learn', '--env=Basic', "
        f"'{flag}']\nstatus = main()\n"
    )
    code += "assert 'torch' not in sys.modules\nsys.exit(status)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"palaestra: error: {message}\n{POINTER}gpu\n")


def test_a_factory_that_ends_the_program_is_an_error_with_a_message(tmp_path, monkeypatch, terminal):
    (tmp_path / "quitting_factory.py").write_text("import sys\n\ndef make():\n    sys.exit()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "python:quitting_factory:make could not be made: SystemExit (" in terminal.fails(
        "learn --env=python:quitting_factory:make --run-id=a"
    )


def test_an_error_is_told_also_within_a_job_of_several_ranks(monkeypatch, terminal):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "there is no settings file" in terminal.fails("config nowhere.yaml")
