import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_runs import copied, trained
from hub_server import Hub

from palaestra.cli.main import main

PALAESTRA = [sys.executable, "-c", "import sys; from palaestra.cli.main import main; sys.exit(main())"]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("results"))


@pytest.mark.slow
def test_a_push_records_a_gif_and_a_pull_brings_it(hub, first, tmp_path, terminal, capsys):
    run = copied(first, tmp_path)
    assert main(["push", str(run), "ann/ppo", "--message", "Longer"]) == 0
    said = capsys.readouterr()
    assert f"to {hub.url}/ann/ppo, a new repository" in said.out
    assert hub.repos["ann/ppo"].files["recording.gif"] == (run / "recording.gif").read_bytes()
    assert hub.repos["ann/ppo"].titles[-1] == "Longer"
    assert "Uploading" not in said.err  # no progress bars without a terminal
    assert "palaestra evaluate" in terminal("pull", "ann/ppo", f"--results-dir={tmp_path / 'there'}")
    assert (tmp_path / "there/ppo/recording.gif").is_file()


def test_an_existing_repository_is_said_to_exist(hub: Hub, first: Path, terminal):
    assert main(["push", str(first), "ann/ppo", "--no-video"]) == 0
    assert "a new commit of the existing repository; removed 3 files of an earlier push" in terminal(
        "push", str(first), "ann/ppo", "--no-video", "--checkpoints=none"
    )


def test_a_dry_run_lists_files_and_uploads_nothing(hub: Hub, first: Path, terminal):
    out = terminal("push", str(first), "ann/ppo", "--dry-run")
    assert "  3DBall.onnx" in out
    assert "nothing was uploaded" in out
    assert hub.repos == {}


def test_a_run_whose_environment_cannot_be_drawn_is_pushed_without_a_recording(hub, first, tmp_path, capsys):
    run = copied(first, tmp_path)
    file = run / "configuration.yaml"
    file.write_text(file.read_text().replace("env_path: 3DBall", "env_path: Game.x86_64"))
    assert main(["push", str(run), "ann/ppo"]) == 0
    assert "note: the card has no recording:" in capsys.readouterr().err
    assert "3DBall.onnx" in hub.repos["ann/ppo"].files


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["push", "nothing", "ann/ppo"], "there is no run 'nothing'"),
        (["push", "FIRST", "ppo"], "'ppo' names no repository of the Hub; expected user/repository"),
        (["pull", "ann/nothing"], "there is no repository ann/nothing"),
        (["pull", "ann"], "names no repository"),
        (["evaluate", "hub:ann/nothing"], "there is no repository ann/nothing"),
        (["evaluate", "hub:ann"], "names no repository"),
        (["record", "hub:ann/nothing"], "there is no repository ann/nothing"),
        (["run", "3DBall", "--brain", "model:hub:ann/nothing"], "there is no repository ann/nothing"),
    ],
)
def test_what_is_not_there_is_one_message(hub, first, terminal, command, said):
    error = terminal.fails(*(first if word == "FIRST" else word for word in command))
    assert said in error
    assert "Traceback" not in error


def test_without_the_library_a_message_says_how_to_install_it(first, tmp_path, monkeypatch, terminal):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for command in (
        ["push", str(first), "ann/ppo"],
        ["pull", "ann/ppo", f"--results-dir={tmp_path}"],
        ["evaluate", "hub:ann/ppo"],
    ):
        assert "pip install 'palaestra[hub]'" in terminal.fails(*command)


def test_nobody_logged_in_is_one_message(first: Path, tmp_path: Path):
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_TOKEN": "", "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([*PALAESTRA, "push", str(first), "ann/ppo"], capture_output=True, text=True, env=environment)
    assert done.returncode == 1
    assert "nobody is logged in to 127.0.0.1:9" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupted_pull_leaves_no_run_and_no_traceback(hub: Hub, first: Path, tmp_path: Path):
    hub.add("ann/ppo", {"3DBall.onnx": (first / "3DBall.onnx").read_bytes()})
    hub.slow = 120.0
    child = subprocess.Popen(
        [*PALAESTRA, "pull", "ann/ppo"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HF_HUB_DISABLE_XET": "1"},
    )
    until = time.monotonic() + 120
    while not any("GET /ann/ppo/resolve" in line for line in hub.requests) and time.monotonic() < until:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, error = child.communicate(timeout=120)
    assert child.returncode == 130
    assert error.strip() == "palaestra: interrupted"
    assert not (tmp_path / "results/ppo").exists()
