"""Builds one virtual environment a peer, with pinned versions, under a cache folder.

usage: python benchmarks/peers/venvs.py [PEER ...]     (all of them when none is named; minutes, gigabytes)

torch always goes in first, so that nothing behind it can replace a CPU build by a CUDA one. On Linux the plain package
index serves the CUDA build: name a CPU index in PIP_EXTRA_INDEX_URL to keep the download small.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".venv-peers"
TORCH = "torch==2.13.0"
MUJOCO = ("gymnasium==1.4.0", "mujoco==4.0.0", "imageio==2.38.1", "packaging==26.3")


@dataclass(frozen=True, slots=True)
class Pins:
    """Packages of a peer's environment, in order of installation."""

    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()  # installed without what they ask for: they would drag in another torch, or far too much
    build: Callable[[Path], None] | None = None  # for a peer that pip alone cannot install; given its python


class MissingPeerFilesError(Exception):
    """Raised if the scripts that build and run the original toolkit are missing."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(
            f"expected {name} in {folder}, which is not there. The original toolkit is built and run by files kept "
            "beside this repository, not in it: name their folder with --peer-files or PALAESTRA_PEER, or leave the "
            "original out with --work cartpole"
        )


def build_pufferlib(python: Path) -> None:
    """Compiles PufferLib 3 from its source package: its C advantage and, of its games, CartPole alone.

    Its setup fetches raylib and Box2D for the web from outside the package index unless their folders exist, and its
    switch that leaves the games out stops at an undefined name, which a `sitecustomize` defines so that pip can read
    the metadata at all. CartPole there ends at 200 ticks; CartPole-v1 ends at 500. nvcc is kept off PATH: with it the
    setup builds for CUDA.
    """
    env = {**os.environ, "PATH": os.pathsep.join([str(python.parent), "/usr/bin", "/bin"])}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "sitecustomize.py").write_text("import builtins\nbuiltins.c_extension_paths = []\n")
        source = ["--no-deps", "--no-build-isolation", "--no-binary", "pufferlib", "pufferlib==3.0.0"]
        _pip(python, "download", "-d", folder, *source, env=env | {"NO_OCEAN": "1", "PYTHONPATH": folder})
        shutil.unpack_archive(work / "pufferlib-3.0.0.tar.gz", work)
        tree = work / "pufferlib-3.0.0"
        for name in ("raylib-5.5_webassembly", "box2d-web", "box2d-linux-amd64"):
            (tree / name).mkdir(exist_ok=True)
        for binding in tree.glob("pufferlib/ocean/*/binding.c"):
            if binding.parent.name != "cartpole":
                binding.unlink()
        header = tree / "pufferlib/ocean/cartpole/cartpole.h"
        header.write_text(header.read_text().replace("#define MAX_STEPS 200", "#define MAX_STEPS 500"))
        _pip(python, "install", "--no-deps", "--no-build-isolation", str(tree), env=env)


PEERS: dict[str, Pins] = {
    "pufferlib": Pins(
        packages=(
            "setuptools==79.0.1",
            "wheel==0.45.1",
            "Cython==3.2.0",
            "numpy==1.26.4",
            "gym==0.23.0",
            "gymnasium==0.29.1",
            "psutil==7.2.2",
            "pynvml==13.0.1",
            "rich==15.0.0",
            "rich-argparse==1.8.0",
            "pyro-ppl==1.9.2",
            "heavyball==2.2.1",
            "mujoco==3.1.6",
            "imageio==2.38.1",
        ),
        build=build_pufferlib,
    ),
    "rsl_rl": Pins(
        packages=("numpy==2.4.6", "tensordict==0.13.0", "GitPython==3.2.1", "tensorboard==2.21.0", *MUJOCO),
        bare=("rsl-rl-lib==5.5.1",),
    ),
    "sb3": Pins(
        packages=(
            "numpy==2.4.6",
            "stable-baselines3==2.9.2",
            "sb3-contrib==2.9.0",
            "box2d==2.3.10",
            "pygame-ce==2.5.8",
            *MUJOCO,
        )
    ),
    "skrl": Pins(packages=("numpy==2.4.6", "tensorboard==2.21.0", "tqdm==4.70.1", *MUJOCO), bare=("skrl==2.1.1",)),
}


def ensure(peer: str, cache: Path, peer_files: Path) -> Path:
    """Returns the peer's python, after building its environment if it is missing or was built from other pins.

    Raises MissingPeerFilesError for `original` when its scripts are absent, CalledProcessError when an install fails.
    """
    folder = cache / peer
    python, stamp = folder / "bin/python", folder / "pins.txt"
    wanted = "make_peer.sh" if peer == "original" else f"{TORCH} {PEERS[peer].packages} {PEERS[peer].bare}"
    if peer == "original":
        _check(peer_files)
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"building {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    (cache / ".gitignore").write_text("*\n")
    if peer == "original":
        subprocess.run(["bash", str(peer_files / "make_peer.sh"), str(folder)], check=True, stdout=sys.stderr)
    else:
        _install(PEERS[peer], folder, python)
    stamp.write_text(wanted)
    return python


def _check(peer_files: Path) -> None:
    for name in ("make_peer.sh", "original_in_process.py"):
        if not (peer_files / name).exists():
            raise MissingPeerFilesError(peer_files, name)


def _install(pins: Pins, folder: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    _pip(python, "install", TORCH)
    _pip(python, "install", *pins.packages, TORCH)
    if pins.bare:
        _pip(python, "install", "--no-deps", *pins.bare)
    if pins.build is not None:
        pins.build(python)


def _pip(python: Path, *args: str, env: dict[str, str] | None = None) -> None:
    subprocess.run([str(python), "-m", "pip", "-q", *args], check=True, env=env, stdout=sys.stderr)


def peer_files_option(parser: argparse.ArgumentParser) -> None:
    default = Path(os.environ.get("PALAESTRA_PEER", ROOT.parent / "shared/peer"))
    parser.add_argument(
        "--peer-files", type=Path, default=default, help="folder of make_peer.sh and original_in_process.py"
    )
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the peers' virtual environments")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join([*PEERS, "original"]))
    peer_files_option(parser)
    args = parser.parse_args()
    for peer in args.peers or [*PEERS, "original"]:
        print(peer, ensure(peer, args.cache, args.peer_files))


if __name__ == "__main__":
    main()
