"""Carries out the steps of the Dockerfile in clean roots, where no container engine runs, and uses the result.

usage (as root): python .ci/test_container.py --base ROOT --work DIR [--arg NAME=VALUE] [--copy FILE] [--bind DIR]

ROOT is a minimal Debian, as `debootstrap --variant=minbase bookworm ROOT` makes it and as the image's base is. Each
stage gets a copy of it; RUN, COPY, ARG, ENV, USER, WORKDIR and ENTRYPOINT do there what they do in an engine. Then the
image's user trains, evaluates and records, and a display in memory is opened. `--copy` and `--bind` put files and
folders of this machine into every stage, such as the configuration of a package mirror. Prints the seconds of each
step, and megabytes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
USES = (
    ("palaestra", "--version"),
    ("palaestra", "learn", "--env=3DBall", "--run-id=first", "--max-steps=60000"),
    ("palaestra", "evaluate", "first", "--episodes=20"),
    ("palaestra", "learn", "--env=gymnasium:CartPole-v1", "--run-id=pole", "--max-steps=5000"),
    ("palaestra", "record", "first", "--seconds=1"),
)
WINDOW = """
import os
os.environ["SDL_VIDEODRIVER"] = "x11"
import pygame
pygame.display.init()
assert (pygame.display.get_driver(), pygame.display.Info().current_w) == ("x11", 1280)
"""
DISPLAY = ("env", "XVFB=1", "with-display", "python", "-c", WINDOW)


class Stage:
    """The files and settings of one stage of the image."""

    def __init__(self, folder: Path, base: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.binds = folder, arguments.bind
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        self.user, self.place, self.entrypoint = "root", "/", list[str]()
        subprocess.run(["cp", "--archive", str(base), str(folder)], check=True)
        for file in ["/etc/resolv.conf", *arguments.copy]:
            target = self.inside(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        for name in self.binds:
            self.inside(name).mkdir(parents=True, exist_ok=True)

    def inside(self, path: str) -> Path:
        """Returns where a path of the stage lies on this machine."""
        return self.folder / path.lstrip("/")

    def run(self, words: list[str], more: dict[str, str] | None = None) -> None:
        """Runs a command in the root, with /proc, /dev and the bound folders, in namespaces of its own."""
        mounts = ["mount -t proc proc proc", "mount --rbind /dev dev", "mkdir -p dev/shm"]
        mounts += [f"mount --bind {shlex.quote(name)} {shlex.quote(name.lstrip('/'))}" for name in self.binds]
        env = [f"{name}={value}" for name, value in {**self.env, **(more or {})}.items()]
        user = [] if self.user == "root" else [f"--userspec={self.user}:{self.user}"]
        inner = ["chroot", *user, ".", "env", "-i", *env, "sh", "-c", f"cd {self.place} && exec {shlex.join(words)}"]
        script = f"{' && '.join(mounts)} && exec {shlex.join(inner)}"
        subprocess.run(["unshare", "--mount", "--pid", "--fork", "sh", "-c", script], cwd=self.folder, check=True)


def build(arguments: argparse.Namespace) -> Stage:
    """Carries out the Dockerfile, and returns its last stage."""
    given = dict(text.split("=", 1) for text in arguments.arg)
    stages: dict[str, Stage] = {}
    stage, values = None, dict[str, str]()
    for word, rest in instructions(ROOT / "Dockerfile"):
        began = time.monotonic()
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "image"
            stage = stages[name] = Stage(arguments.work / name, arguments.base, arguments)
            values = {}
        elif word == "ARG":
            name, _, default = rest.partition("=")
            values[name] = given.get(name, default.strip('"'))
        elif stage is not None:
            follow(stage, stages, word, rest, values)
        print(f"{time.monotonic() - began:7.1f} s  {word} {rest}", flush=True)
    assert stage is not None
    return stage


def instructions(file: Path) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile, each on one line."""
    text = re.sub(r"\\\n", " ", file.read_text(encoding="utf-8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def follow(stage: Stage, stages: dict[str, Stage], word: str, rest: str, values: dict[str, str]) -> None:
    """Carries out one instruction within a stage."""
    if word == "RUN":
        stage.run(["sh", "-c", rest], values)
    elif word == "COPY":
        copy(stage, stages, rest)
    elif word == "ENV":
        stage.env |= dict(pair.split("=", 1) for pair in shlex.split(rest))
    elif word == "USER":
        stage.user = rest
    elif word == "WORKDIR":
        stage.place = rest
    elif word == "ENTRYPOINT":
        stage.entrypoint = json.loads(rest)
    elif word not in {"EXPOSE", "CMD"}:
        sys.exit(f"error: the Dockerfile has {word}, which this program does not know")


def copy(stage: Stage, stages: dict[str, Stage], rest: str) -> None:
    """Copies from the project, without what `.dockerignore` names, or from another stage."""
    origin = re.match(r"--from=(\w+) ", rest)
    source, target = rest[origin.end() if origin else 0 :].split()
    if origin:
        there = stages[origin[1]].inside(source)
        subprocess.run(["cp", "--archive", str(there), str(stage.inside(target))], check=True)
        return
    if source != ".":
        shutil.copy2(ROOT / source, stage.inside(target))
        return
    ignored = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split() if line]
    patterns = [f"--exclude={line.removeprefix('**/')}" if "**" in line else f"--exclude=./{line}" for line in ignored]
    stage.inside(target).mkdir(parents=True, exist_ok=True)
    pack = f"tar -C {shlex.quote(str(ROOT))} {shlex.join(patterns)} -cf - ."
    unpack = f"tar -C {shlex.quote(str(stage.inside(target)))} --no-same-owner -xf -"
    subprocess.run(["sh", "-c", f"{pack} | {unpack}"], check=True)


def main() -> None:
    """Builds, measures and uses the image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--arg", action="append", default=[])
    parser.add_argument("--copy", action="append", default=[])
    parser.add_argument("--bind", action="append", default=[])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True)
    image = build(arguments)
    megabytes = subprocess.run(["du", "-sm", str(image.folder)], capture_output=True, text=True).stdout.split()[0]
    print(f"the image has {megabytes} MB")
    for words in (*USES, DISPLAY):
        began = time.monotonic()
        command = list(words) if words[0] == "env" else [*image.entrypoint, *words[1:]]
        image.run(command)
        print(f"{time.monotonic() - began:7.1f} s  {shlex.join(words).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("error: chroot and mounts need root")
    main()
