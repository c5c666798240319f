"""The package as people install it: the wheel, away from the source tree."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from palaestra.core.versions import checked_out

ROOT = Path(__file__).parents[2]
OPTIONAL = {
    "fastapi",
    "h5py",
    "huggingface_hub",
    "imageio_ffmpeg",
    "IPython",
    "minari",
    "nicegui",
    "optuna",
    "pandas",
    "pettingzoo",
    "ray",
    "segno",
    "starlette",
    "uvicorn",
}
"""Imported where a user has it, and done without otherwise."""

DISTRIBUTIONS = {"PIL": "pillow", "google": "protobuf", "grpc": "grpcio", "warp": "warp-lang", "yaml": "pyyaml"}
"""Libraries whose modules have other names than they."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder on the path with nothing but the wheel's files: a wheel without compiled code is installed by unpacking
    it.
    """
    folder = tmp_path_factory.mktemp("site")
    ZipFile(wheel).extractall(folder)
    return folder


def palaestra(installed: Path, cwd: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "palaestra", *words], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def requirements() -> dict[str, Requirement]:
    """What the package declares, by name."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = (\[.*?^\])", text, re.MULTILINE | re.DOTALL)
    assert listed
    return {canonicalize_name(one.name): one for one in map(Requirement, ast.literal_eval(listed[1]))}


def test_the_wheel_has_the_examples_and_the_wire_messages(wheel: Path):
    names = set(ZipFile(wheel).namelist())
    assert {"palaestra/configs/ppo/3DBall.yaml", "palaestra/configs/poca/PushBlockCollab.yaml"} <= names
    assert {"palaestra/configs/search/ppo.yaml", "palaestra/configs/mirrors/Crawler.yaml"} <= names
    assert "palaestra/wire/messages.binpb" in names
    assert not [name for name in names if name.startswith(("tests/", "palaestra/configs/sdk"))]


def test_an_installed_wheel_names_the_commit_that_it_was_built_from(installed: Path, tmp_path: Path):
    commit = checked_out(ROOT)
    named = f" (commit {commit[:12]})" if commit else ""
    assert palaestra(installed, tmp_path, "--version").startswith(f"palaestra 1.0.0rc1{named} torch")


def test_an_installed_wheel_writes_an_example_and_trains_with_it_away_from_the_tree(installed: Path, tmp_path: Path):
    palaestra(installed, tmp_path, "config", "--example", "Basic", "--out", "mine.yaml")
    said = palaestra(
        installed,
        tmp_path,
        "learn",
        "mine.yaml",
        "--env=Basic",
        "--run-id=first",
        "--set",
        "behaviors.Basic.max_steps=400",
    )
    assert "model   " in said
    assert (tmp_path / "results" / "first" / "Basic.onnx").is_file()


def test_every_library_that_is_imported_is_declared():
    declared = set(requirements())
    found = {
        module
        for path in (ROOT / "src").rglob("*.py")
        for module in imported(ast.parse(path.read_text(encoding="utf-8")))
    }
    outside = found - sys.stdlib_module_names - OPTIONAL - {"palaestra"}
    assert {DISTRIBUTIONS.get(name, canonicalize_name(name)) for name in outside} - declared == set()


@pytest.mark.parametrize(
    ("name", "broken", "works", "why"),
    [
        ("protobuf", "4.24.4", "4.25.0", "crashes where a game's messages are read"),
        ("warp-lang", "1.12.1", "1.13.0", "crashes in Match3"),
        ("openskill", "6.1.3", "6.2.0", "takes higher scores for worse ones"),
        ("pillow", "10.3.0", "10.4.0", "draws no circles"),
        ("matplotlib", "3.8.4", "3.9.0", "was compiled for NumPy 1"),
        ("onnx", "1.16.2", "1.17.0", "was compiled for NumPy 1"),
        ("onnxruntime", "1.18.1", "1.19.0", "was compiled for NumPy 1"),
        ("tensorboard", "2.17.1", "2.18.0", "asks NumPy for names that NumPy 2 removed"),
    ],
)
def test_declared_floors_leave_out_versions_that_do_not_work(name: str, broken: str, works: str, why: str):
    allowed = requirements()[name].specifier
    assert broken not in allowed, why
    assert works in allowed


def imported(tree: ast.Module) -> set[str]:
    """Top-level modules that a file imports, also within functions."""
    nodes = [*ast.walk(tree)]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}
