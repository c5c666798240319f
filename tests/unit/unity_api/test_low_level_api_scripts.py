"""Programs as the original's users write them, on a game in its own process and on built-in environments."""

import json
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import unity_api_scripts as scripts
from unity_games import make_build
from unity_play import free_port

from palaestra.wire.side_channels import unpack

pytestmark = pytest.mark.usefixtures("patient_games")

ROLL = Path(__file__).parents[3] / "examples" / "sdk_roll.py"


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """A game of two agents, each with episodes of five decisions."""
    return make_build(tmp_path, "Ball", agents=2, episode=5, seed=1, notes=str(tmp_path / "notes"))


@pytest.fixture
def lone(tmp_path: Path) -> Path:
    return make_build(tmp_path, "Ball", agents=1, episode=5, seed=1)


def notes(tmp_path: Path) -> dict:
    return json.loads(next((tmp_path / "notes").glob("*.end.json")).read_text())


def test_a_loop_over_steps_plays_a_game(build: Path):
    before = threading.active_count()
    returns = scripts.loop(str(build), steps=12, base_port=free_port())
    assert len(returns) == 4
    assert all(-5 <= total <= 5 for total in returns)
    end = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < end:  # gRPC's end a moment later
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize("name", ["builtin:3DBall", "Basic", "gymnasium:CartPole-v1"])
def test_a_loop_over_steps_plays_other_environments(name: str):
    np.random.seed(1)  # what random_action draws from
    assert len(scripts.loop(name, steps=150, num_areas=3)) > 2


def test_a_loop_over_steps_plays_a_game_that_is_a_python_file():
    assert len(scripts.loop(str(ROLL), steps=150, base_port=free_port())) > 2


def test_a_channel_of_ones_own_reaches_the_game_and_is_passed_over_by_other_environments(build: Path, tmp_path: Path):
    assert scripts.strings(str(build), base_port=free_port()) == []
    sent = [
        payload
        for id, payload in unpack(bytes.fromhex(notes(tmp_path)["side_channel"]))
        if str(id).startswith("621f0a70")
    ]
    assert sent[0] == struct.pack("<i", 25) + b"The environment was reset"
    assert [payload[4:] for payload in sent[1:]] == [b"Step 0", b"Step 1", b"Step 2"]
    assert scripts.strings("builtin:Basic") == []


def test_engine_settings_and_parameters_reach_the_game(build: Path, tmp_path: Path):
    scripts.engine_and_parameters(str(build), {"gravity": 3.0}, base_port=free_port())
    records = unpack(bytes.fromhex(notes(tmp_path)["side_channel"]))
    engine = [payload for id, payload in records if str(id).startswith("e951342c")]
    assert engine == [struct.pack("<iii", 0, 120, 90), struct.pack("<if", 2, 2.0)]
    parameters = [payload for id, payload in records if str(id).startswith("534c891e")]
    assert parameters[0] == struct.pack("<i", 7) + b"gravity" + struct.pack("<if", 0, 3.0)
    assert parameters[1] == struct.pack("<i", 7) + b"gravity" + struct.pack("<iiiff", 1, 3, 0, 1.0, 2.0)


def test_parameters_reach_a_built_in_environment(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    scripts.engine_and_parameters("builtin:3DBall", {"gravity": 5.0})
    told = capfd.readouterr().err + caplog.text
    assert "parameter 'gravity' is 1." in told  # what was drawn from 1 to 2 lies below its range
    assert "parameter 'gravity' is 5" not in told


def test_the_gym_loop_plays_a_game_and_a_built_in(lone: Path):
    assert len(scripts.gym_loop(str(lone), base_port=free_port())) == 2
    assert all(total > 0 for total in scripts.gym_loop("builtin:3DBall"))
    assert len(scripts.gym_loop("gymnasium:CartPole-v1")) == 2


def test_a_registry_makes_a_local_build(build: Path, tmp_path: Path):
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(
        f"environments:\n  - Mine:\n      expected_reward: 4.0\n      description: a ball\n      file_name: {build}\n"
    )
    assert scripts.from_registry(str(manifest), "Mine", base_port=free_port()) == (2, 1)
