"""Whole runs with Weights & Biases, without a network, read back from its files."""

import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG = """
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 600
    summary_freq: 200
    checkpoint_interval: 300
"""
REWARD = "Basic/Environment/Cumulative Reward"


def learn(folder: Path, *flags: str, status: int = 0, **variables: str) -> str:
    """A process of its own, as the library leaves threads, processes and settings behind. Returns its output."""
    (folder / "settings.yaml").write_text(CONFIG)
    program = "import sys; from palaestra.cli.main import main; sys.exit(main())"
    own = {"HOME": str(folder), "WANDB_API_KEY": ""}
    done = subprocess.run(
        [sys.executable, "-c", program, "learn", *flags],
        cwd=folder,
        env={**os.environ, **own, **variables},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def trained_and_resumed(folder: Path, *flags: str) -> str:
    first = learn(folder, "settings.yaml", "--env=Basic", "--run-id=a/b", "--seed=1", *flags)
    output = first + learn(folder, "--run-id=a/b", "--resume", "--set", "behaviors.*.max_steps=1000")
    assert "could not record" not in output, output
    return output


def records(file: Path) -> list[Any]:
    """The messages in a file that Weights & Biases wrote offline: LevelDB's log format after seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data = file.read_bytes()
    at = 7
    parts = b""
    found = []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            found.append(wandb_internal_pb2.Record.FromString(parts))
            parts = b""
    return found


@pytest.mark.slow
def test_weights_and_biases_gets_a_run_with_its_models_offline_and_goes_on_with_it(tmp_path: Path):
    pytest.importorskip("wandb", reason="needs palaestra[wandb]")
    output = trained_and_resumed(tmp_path, "--track=wandb:mode=offline,project=tests,tags=[t]")
    files = sorted((tmp_path / "results" / "a" / "b" / "wandb").glob("offline-run-*/*.wandb"))
    folders = [file.parent.relative_to(tmp_path) for file in files]
    assert all(f"Weights & Biases: recorded offline in {folder}\n" in output for folder in folders)
    assert all(f"Weights & Biases: `wandb sync {folder}` sends the run\n" in output for folder in folders)
    assert len(files) == 2
    begun, resumed = (records(file) for file in files)
    opened = [
        next(record.run for record in part if record.WhichOneof("record_type") == "run") for part in (begun, resumed)
    ]
    assert opened[0].run_id == opened[1].run_id
    assert (opened[0].project, opened[0].display_name, opened[0].run_group, list(opened[0].tags)) == (
        "tests",
        "a/b",
        "a",
        ["t"],
    )
    rows = [
        {item.key or "/".join(item.nested_key): item.value_json for item in r.history.item}
        for r in begun
        if r.HasField("history")
    ]
    assert [float(row["Basic/Step"]) for row in rows if "Basic/Step" in row] == [200, 400, 600]
    assert all(REWARD in row and f"{REWARD} (histogram)" in str(row) for row in rows if "Basic/Step" in row)
    again = [
        {item.key or "/".join(item.nested_key): item.value_json for item in r.history.item}
        for r in resumed
        if r.HasField("history")
    ]
    assert [float(row["Basic/Step"]) for row in again if "Basic/Step" in row] == [800, 1000]
    artifacts = [r.request.log_artifact.artifact if r.HasField("request") else r.artifact for r in begun]
    models = [(artifact.name, list(artifact.aliases)) for artifact in artifacts if artifact.type == "model"]
    assert models[0][0] == "a-b-Basic"
    assert "final" in models[-1][1]
    config = {item.key or item.nested_key[0] for item in opened[0].config.update}
    assert {"behaviors", "env_settings", "trackers"} <= config
    assert [r.exit.exit_code for r in begun if r.HasField("exit")] == [0]


@pytest.mark.slow
def test_weights_and_biases_asks_for_a_login_and_is_recorded_offline_where_it_cannot_be_reached(tmp_path: Path):
    pytest.importorskip("wandb", reason="needs palaestra[wandb]")
    refused = learn(tmp_path, "settings.yaml", "--env=Basic", "--run-id=r", "--track=wandb", status=1)
    assert "nobody is logged in" in refused
    assert "--track=wandb:mode=offline" in refused
    nowhere = {"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": "a" * 40}
    track = "--track=wandb:init={settings: {init_timeout: 3}}"
    done = learn(tmp_path, "settings.yaml", "--env=Basic", "--run-id=r", track, **nowhere)
    assert "cannot be reached" in done
    assert list((tmp_path / "results" / "r" / "wandb").glob("offline-run-*/*.wandb"))
