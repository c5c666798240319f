"""Runs every command of README and the guides as it stands, page by page, on a copy of the shipped files.

Only what a run takes is made smaller: `--max-steps` of `learn`, `--episodes` of `run`. Unity builds are stood in for by
a small game on Unity's protocol. Commands that need what is not here are named in `ELSEWHERE`, with the reason.
"""

import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest
from unity_games import make_build

ROOT = Path(__file__).parents[2]
FOLDERS = ("tutorials", "guides", "coming-from", "explanation")
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "install.md",
    *sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave this as `([\w.-]+)`[^\n]*\n+```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    r"--run-id=editor|^palaestra learn configs/ppo/3DBall.yaml --run-id=first$": "waits for the Unity Editor",
    r"--gpus": "needs two GPUs",
    r"SHARED_FOLDER": "needs several machines",
    r"cuda": "needs a GPU",
    r"^(ray|srun|sbatch) |HOME/results": "needs a cluster",
    r"from-a-friend": "the page shows its refusal",
    r"mine\.onnx|CartPole-v1\.onnx|convert (ppo_pendulum|model_1500|model)\.": "needs a model of another program",
    r"^(?!.*--dry-run).*ann/ppo-3DBall": "needs the Hugging Face Hub; tests of `push` and `pull` have one of their own",
    r"--run-id=new --initialize-from=old": "needs a run of ML-Agents; tests of `--initialize-from` have them",
    r"minari:D4RL/": "needs a dataset that the line before downloads",
    r"trainer_config": "needs files of old versions; tests of `upgrade` have them",
    r"Soccer\.x86_64": "needs a build with these behaviors",
    r"^tensorboard |--inference": "goes on until it is stopped",
    r"^python -m venv": "makes an environment to install into",
    r"^(pip|make|mlagents-learn|export|source|git) ": "installs, or is another program's",
}
PACKAGES = {
    "classic": "pettingzoo", "mpe2": "mpe2", "LunarLander": "Box2D", "track=wandb": "wandb",
    "env-runners": "ray", "minari": "minari", "ALE/": "ale_py", "envpool": "envpool",
}  # fmt: skip
"""Part of a command, and the module that it needs."""
LIMIT_S = 300
PAGE = r"palaestra (view\b|run .*\bplayer\b)"
"""Commands that serve the page until they are stopped."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the shipped files, the run `first`, demonstrations and builds, as the pages assume them."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("configs", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "builds").mkdir()
    make_build(folder / "builds", "Ball", "3DBall.x86_64")
    settings = folder / "configs/ppo/3DBall.yaml"  # the build's behavior is called Ball
    settings.write_text(settings.read_text("utf-8") + "default_settings:\n  trainer_type: ppo\n", "utf-8")
    for page in PAGES:
        for name, text in saved_files(page).items():
            (folder / name).write_text(text, "utf-8")
    save_brain(folder)
    often = "--keep-best --set behaviors.*.checkpoint_interval=200"
    for name in ("first", "second"):
        run(f"palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id={name} {often}", folder)
    for trainer, env in (("ppo", "3DBall"), ("ppo", "Basic"), ("sac", "3DBall"), ("sac", "Basic")):
        run(
            f"palaestra learn --env={env} --run-id={trainer}-{env} --set default_settings.trainer_type={trainer}",
            folder,
        )
    for file in ("nn/unity_examples/3DBall.nn", "nn/unity_examples/PushBlock.nn", "onnx/unity_examples/Crawler.onnx"):
        shutil.copy(ROOT / "tests/golden/data" / file, folder)
    run(
        "palaestra record --demo --env=3DBall --brain heuristic --episodes=3 "
        "--demo-out=Assets/Demonstrations/Expert.demo",
        folder,
    )
    shutil.copy(folder / "Assets/Demonstrations/Expert.demo", folder / "Expert.demo")
    shutil.copytree(folder / "results" / "first", folder / "kept" / "first")
    return folder


@pytest.mark.slow
def test_the_brain_of_the_page_balances_the_ball(tmp_path: Path):
    save_brain(tmp_path)
    played = run("palaestra run 3DBall --brain python:my_brains:balance --episodes=100 --json", tmp_path)
    assert json.loads(played)["3DBall"]["mean"] > 99


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_runs(page: Path, place: Path):
    commands = commands_of(page)
    if not commands:
        pytest.skip("the page has no commands")
    shutil.rmtree(place / "results" / "first")  # pages before this one may have trained it in a Unity build
    shutil.copytree(place / "kept" / "first", place / "results" / "first")
    for command in commands:
        reason = next((why for pattern, why in ELSEWHERE.items() if re.search(pattern, command)), None)
        missing = [module for part, module in PACKAGES.items() if part in command and find_spec(module) is None]
        if reason or missing:
            print(f"not run, {reason or 'needs ' + ', '.join(missing)}: {command}")
        else:
            run(command, place)


def test_every_exception_is_still_in_a_page():
    commands = [command for page in PAGES for command in commands_of(page)]
    assert [pattern for pattern in ELSEWHERE if not any(re.search(pattern, command) for command in commands)] == []


def save_brain(folder: Path) -> None:
    """Writes the brain of the page about playing as `my_brains.py`."""
    play = re.search(
        r"^def balance.*?^```", (ROOT / "docs/guides/results/playing.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert play is not None
    (folder / "my_brains.py").write_text("import numpy as np\n\n\n" + play[0].removesuffix("```"), "utf-8")


def saved_files(page: Path) -> dict[str, str]:
    """Returns the files that a page tells its reader to save. A class that is written step by step has a code block for
    each step.
    """
    text = page.read_text("utf-8")
    files = dict(SAVED.findall(text))
    for name in [name for name in files if name.endswith(".py") and "## Step" in text]:
        after = re.split("[Ss]ave this as", text.partition(f"ave this as `{name}`")[2])[0]
        files[name] = "\n".join(block for language, block in FENCE.findall(after) if language == "python")
    return files


def commands_of(page: Path) -> list[str]:
    """Returns the command lines of a page's code blocks, with lines joined that end in a backslash."""
    text = SAVED.sub("", page.read_text("utf-8"))
    blocks = [block.replace("\\\n", " ") for language, block in FENCE.findall(text) if language in ("", "sh", "bash")]
    starts = (
        "palaestra ",
        "torchrun ",
        "python ",
        "ray ",
        "srun ",
        "sbatch ",
        "pip ",
        "make ",
        "tensorboard ",
        "mlagents-learn ",
    )
    return [line.strip() for block in blocks for line in block.splitlines() if line.startswith(starts)]


def shortened(command: str, folder: Path) -> list[str]:
    """Returns a command's words, its patterns replaced by files, with sizes that make it short. Runs replace those of
    other pages.
    """
    words = [file for word in shlex.split(command) for file in (sorted(glob.glob(word, root_dir=folder)) or [word])]
    resumed = "--resume" in words or "--inference" in words
    words = [re.sub(r"(max[_-]steps)=\S+", rf"\1={900 if resumed else 600}", word) for word in words]
    if "learn" in words and "help" not in words:
        sizes = ["--max-steps=900"] if resumed else ["--max-steps=600", "--force"]
        words[words.index("learn") + 1 : words.index("learn") + 1] = [*sizes, "--set", "behaviors.*.summary_freq=300"]
    if words[:2] == ["palaestra", "tune"]:
        words = [re.sub(r"--trials=\d+", "--trials=4", word) for word in words]
        if "--resume" not in words:
            words += ["--trials=2", "--max-steps=600", "--set", "behaviors.*.summary_freq=300", "--force"]
    if words[:2] == ["palaestra", "record"]:  # the runs are shorter than those of the pages
        words = [re.sub("@500000$", "@600", word.replace("100000,300000,500000", "200,400,600")) for word in words]
    if words[:2] == ["palaestra", "run"] and not any(word.startswith("--episodes") for word in words):
        words.append("--episodes=2")
    return words


def run(command: str, folder: Path) -> str:
    """Runs a command as a reader would, and returns what it prints. Fails unless it ends well."""
    words = shortened(command, folder)
    words[:1] = (
        [sys.executable, "-m", "palaestra"]
        if words[0] == "palaestra"
        else [sys.executable]
        if words[0] == "python"
        else words[:1]
    )
    path = os.pathsep.join([str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "MINARI_DATASETS_PATH": str(folder / "minari"),
    }
    began = time.monotonic()
    if re.match(PAGE, command):
        open_page(words, folder, env)
        print(f"{time.monotonic() - began:.1f} s: {command}")
        return ""
    done = subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL
    )
    print(f"{time.monotonic() - began:.1f} s: {command}")
    shown = f"{shlex.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.returncode == 0, shown
    assert "Traceback" not in done.stderr, shown
    return done.stdout


def open_page(words: list[str], folder: Path, env: dict[str, str]) -> None:
    """Runs a command that serves the page, until its address answers. Fails unless an interrupt ends it well."""
    if find_spec("nicegui") is None:
        print(f"not run, needs nicegui: {shlex.join(words)}")
        return
    process = subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        lines = []
        while not (lines and (found := re.search(r"http://\S+", lines[-1]))):
            lines.append(process.stdout.readline())
            assert lines[-1], "".join(lines)
        answers(found[0])
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0, said
        assert "Traceback" not in said, said
    finally:
        process.kill()
        process.communicate()


def answers(address: str) -> None:
    """Waits until an address answers."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(address, timeout=10) as answer:
                assert b"Palaestra" in answer.read()
                return
        except OSError:
            assert time.monotonic() < end, f"{address} does not answer"
            time.sleep(0.3)
