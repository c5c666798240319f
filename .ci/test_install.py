"""Installs the wheel in clean environments, one a Python and set of versions, and uses it there as people would.

usage: python .ci/test_install.py [--python 3.11] [--versions newest] [--torch torch==2.13.0] [--work DIR]

Every environment installs the wheel, writes an example, trains, evaluates, records, plots, exports, plays the model
from Python, and trains a game in Python over the wire. `newest` is what pip chooses; `oldest` holds every library at
its declared lower bound, except torch, on Pythons for which those were built. On Linux pip takes PyTorch's wheel for
CUDA, some gigabytes each, unless it finds another. The exit status is 0 where all went well.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
OLDEST = ("3.10", "3.11")
"""Pythons for which all libraries at their lower bounds have wheels."""
TAMED = ("pyparsing<3.2",)
"""Libraries below ours whose newest versions only warn when an old matplotlib uses them."""
MINUTES = 15.0

GAME = '''
from palaestra import sdk


class Agent(sdk.Agent):
    behavior = sdk.Behavior("Sign", observations=1, continuous=1)
    decision_period = 1

    def on_episode_begin(self):
        self.sign = self.academy.random.choice((-1.0, 1.0))

    def collect_observations(self, sensor):
        sensor.add(self.sign)

    def on_action_received(self, actions):
        self.add_reward(self.sign * actions.continuous[0])
        self.end_episode()

    def heuristic(self, actions):
        actions.continuous[0] = self.sign


@sdk.game
def sign(academy):
    """Tells the sign of what it sees."""
    for _ in range(4):
        academy.add(Agent())


if __name__ == "__main__":
    sign.play()
'''
PLAY = """
import sys
import numpy as np
import palaestra
action = palaestra.load_policy(sys.argv[1]).act(np.eye(20, dtype=np.float32)[:4], deterministic=True)
assert action.discrete.shape == (4, 1), action
assert "torch" not in sys.modules
"""


class Failed(Exception):
    """A command went wrong; what it wrote is the message."""


@dataclass(frozen=True)
class Case:
    """One environment."""

    version: str
    python: str
    versions: str
    torch: str  # what pip is asked for

    def __str__(self) -> str:
        return f"Python {self.version}, {self.versions} versions"


class Place:
    """A virtual environment, and a folder to work in."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        run([python, "-m", "venv", "--clear", str(folder / "venv")], folder)
        self.bin = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.work.mkdir()

    def pip(self, *words: str) -> None:
        """Installs from wheels alone."""
        run(
            [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words],
            self.folder,
        )

    def python(self, *words: str) -> str:
        """Runs Python in the folder, with nothing of ours on its path but what is installed."""
        return run([str(self.bin / "python"), *words], self.work)

    def palaestra(self, *words: str) -> str:
        """Runs the command."""
        return run([str(self.bin / "palaestra"), *words], self.work)


def run(command: list[str], cwd: Path) -> str:
    """What a command printed. Raises Failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**environment, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)}: still running after {MINUTES:g} minutes") from None
    if done.returncode != 0:
        raise Failed(
            f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout


def requirements() -> list[str]:
    """What the package declares. Read as text: tomllib came with Python 3.11."""
    listed = re.search(
        r"^dependencies = (\[.*?^\])", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert listed is not None
    return ast.literal_eval(listed[1])


def floors() -> list[str]:
    """Every library but torch at its lower bound."""
    return [one.replace(">=", "==") for one in requirements() if not one.startswith("torch>=")]


def install(place: Place, case: Case, wheel: Path) -> None:
    """The wheel with what it needs."""
    limits = place.folder / "constraints.txt"
    limits.write_text("\n".join([*floors(), *TAMED] if case.versions == "oldest" else []) + "\n", encoding="utf-8")
    common = ["--only-binary", ":all:", "--constraint", str(limits)]
    place.pip(*common, case.torch, str(wheel))
    place.python("-m", "compileall", "-q", str(next((place.folder / "venv").rglob("site-packages/palaestra"))))


def steps(place: Place) -> Iterator[tuple[str, Callable[[], object]]]:
    """What people do, by name."""
    short = ["--max-steps=2000", "--set", "summary_freq=500"]
    yield "version", lambda: place.palaestra("--version")
    yield "config", lambda: place.palaestra("config", "--example", "Basic", "--out", "Basic.yaml")
    yield "learn", lambda: place.palaestra("learn", "Basic.yaml", "--env=Basic", "--run-id=first", *short)
    yield (
        "resume",
        lambda: place.palaestra("learn", "--run-id=first", "--resume", "--max-steps=3000"),
    )
    yield "evaluate", lambda: place.palaestra("evaluate", "first", "--episodes=20")
    yield "record", lambda: place.palaestra("record", "first", "--seconds=1")
    yield (
        "record --demo",
        lambda: place.palaestra("record", "--demo", "--env=Basic", "--brain=heuristic", "--demo-out=b.demo"),
    )
    yield "plot", lambda: place.palaestra("plot", "first", "--out=curves.png")
    yield "export", lambda: place.palaestra("export", "first")
    yield "load_policy", lambda: place.python("-c", PLAY, "results/first/Basic.onnx")
    yield "gymnasium", lambda: place.palaestra("learn", "--env=gymnasium:CartPole-v1", "--run-id=pole", *short)
    yield "over the wire", lambda: place.palaestra("learn", "--env=./sign.py", "--run-id=wire", *short)


def pythons() -> dict[str, str]:
    """Executables of the Pythons there are, by version."""
    found = {}
    for version in PYTHONS:
        own = sys.executable if version == "{}.{}".format(*sys.version_info) else None
        managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for python in (own, *map(str, reversed(managed)), shutil.which(f"python{version}")):
            if python and works(python, version):
                found[version] = python
                break
    return found


def works(python: str, version: str) -> bool:
    """Whether it is that Python; a name on the path may be one that only says where others are."""
    code = f"import sys, venv; sys.exit('{{}}.{{}}'.format(*sys.version_info) != '{version}')"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def cases(options: argparse.Namespace, there: dict[str, str]) -> Iterator[Case]:
    """One or two for each Python."""
    for version in sorted(there):
        for versions in ("newest", "oldest"):
            if options.versions in (versions, "both") and (versions == "newest" or version in OLDEST):
                yield Case(version, there[version], versions, options.torch)


def main() -> int:
    """Prints a line a step and a closing count."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\nusage")[0])
    parser.add_argument(
        "--python", action="append", metavar="X.Y", help="this Python alone; may be repeated (default: all there are)"
    )
    parser.add_argument(
        "--versions", choices=("newest", "oldest", "both"), default="both", help="of libraries (default: both)"
    )
    parser.add_argument(
        "--torch", default="torch", metavar="REQUIREMENT", help="what pip is asked for, such as torch==2.13.0"
    )
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep the environments there (default: a temporary folder)"
    )
    options = parser.parse_args()
    there = {
        version: python for version, python in pythons().items() if not options.python or version in options.python
    }
    missing = [version for version in options.python or PYTHONS if version not in there]
    passed = 0
    failed = 0
    with tempfile.TemporaryDirectory(prefix="palaestra-install-") as folder:
        work = (options.work or Path(folder)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        wheel = build(work)
        for case in cases(options, there):
            print(f"{case}:", flush=True)
            for name, error in use(case, wheel, work):
                passed = passed + (error is None)
                failed = failed + (error is not None)
                print(f"  {name:<14} {'passed' if error is None else 'FAILED: ' + error}", flush=True)
    for version in missing:
        print(f"Python {version}: skipped, there is none on this machine")
    print(f"{passed} passed, {failed} failed, {len(missing)} skipped")
    return 1 if failed or not passed else 0


def build(work: Path) -> Path:
    """The wheel."""
    run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(work / "dist"), str(ROOT)],
        work,
    )
    return max((work / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)


def use(case: Case, wheel: Path, work: Path) -> Iterator[tuple[str, str | None]]:
    """Each step's name, and its error or None. What comes after a failed install is left out."""
    folder = work / f"{case.version}-{case.versions}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        place = Place(folder, case.python)
        install(place, case, wheel)
        (place.work / "sign.py").write_text(GAME, encoding="utf-8")
    except Failed as error:
        yield "install", str(error)
        return
    yield "install", None
    listed = json.loads(place.python("-m", "pip", "list", "--format=json", "--disable-pip-version-check"))
    ours = {re.split("[>=<]", one)[0].lower().replace("_", "-") for one in requirements()}
    print(
        "    "
        + ", ".join(
            f"{one['name']} {one['version']}" for one in listed if one["name"].lower().replace("_", "-") in ours
        )
    )
    for name, step in steps(place):
        try:
            step()
        except Failed as error:
            yield name, str(error)
        else:
            yield name, None


if __name__ == "__main__":
    sys.exit(main())
