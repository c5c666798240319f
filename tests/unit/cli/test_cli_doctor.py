import json
from pathlib import Path

import pytest
from unity_games import make_build

from palaestra.cli.main import main

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def headless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # of the games' logs
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.chdir(ROOT)


def test_a_game_that_is_well_is_in_order(tmp_path: Path, terminal):
    build = make_build(tmp_path, "Ball", agents=4, episode=10)
    out = terminal("doctor", str(build), "--ticks", "30")
    for part in (
        "ok       connected",
        "4 a tick, 124 decisions",
        "12 ended (4 terminated, 8 truncated); mean length 10.0 decisions",
        "VectorSensor_size1  vector",
        "30 ticks:",
        "at time scale 20",
        "bytes received",
        "everything is in order",
    ):
        assert part in out, out
    assert "masks" not in out  # there are none
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert max(map(len, out.partition("\nbehavior ")[2].splitlines())) <= 100  # paths above may be longer


def test_images_have_the_shape_that_users_write(terminal):
    out = terminal("doctor", "--env=Visual3DBall", "--ticks", "12", "--num-areas", "1")  # as of learn
    assert out.count("84x84x12") == 2, out
    assert "never changed  beyond ±5" in out


def test_a_game_that_fails_is_explained_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    build = make_build(tmp_path, "Empty")
    assert main(["doctor", str(build), "--timeout-wait", "1"]) == 1
    out, err = capsys.readouterr()
    assert "failed   behaviors appear" in out
    assert out.endswith("\n\nthe rest could not be examined\n")  # nothing that stands above is said again
    assert "there is no display" not in out  # it connected
    assert err == ""


def test_a_display_that_is_missing_is_said_only_with_graphics(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    build = make_build(tmp_path, "Ball", die_at=0)
    main(["doctor", str(build), "--timeout-wait", "1"])
    assert "add --no-graphics" in " ".join(capsys.readouterr().out.split())
    main(["doctor", str(build), "--timeout-wait", "1", "--no-graphics"])
    assert "add --no-graphics" not in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_all_of_it_is_written_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "found.json"
    assert main(["doctor", "3DBall", "--ticks", "50", "--num-areas", "3", "--json", str(file)]) == 0
    found = json.loads(file.read_text("utf-8"))
    assert found["healthy"] is True
    assert found["copies"] is None
    ball = found["behaviors"]["3DBall"]
    assert ball["decisions"] == 153
    assert ball["observations"][0]["shape"] == [8]
    assert found["timing"]["ticks"] == 50
    assert found["timing"]["parts"]["environment"] > 0


def test_a_settings_file_brings_its_environment_and_its_behaviors(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    config = tmp_path / "config.yaml"
    config.write_text("behaviors:\n  Basik:\n    trainer_type: ppo\nenv_settings:\n  env_path: Basic\n", "utf-8")
    assert main(["doctor", "--config", str(config), "--ticks", "20"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "behavior 'Basic' has no settings; did you mean 'Basik'?" in out


def test_a_shipped_settings_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "Basic", "--config", "configs/ppo/Basic.yaml", "--ticks", "20"]) == 0
    assert "There is no configs/ppo/Basic.yaml here: taking the one that comes" in capsys.readouterr().err


@pytest.mark.slow
def test_seconds_end_an_examination(terminal):
    assert "ticks/s" in terminal("doctor Basic --seconds 0.2")


@pytest.mark.parametrize(
    ("words", "status"),
    [(["--ticks", "0"], 1), (["--seconds", "-1"], 1), (["--seconds", "nan"], 2), (["--timeout-wait", "0"], 1)],
)
def test_a_length_that_is_none_is_refused(words: list[str], status: int, terminal):
    message = terminal.fails("doctor", "Basic", *words, status=status)
    assert words[0].strip("-").replace("-", "_") in message.replace("-", "_")


@pytest.mark.slow
def test_everything_after_env_args_goes_to_the_build(tmp_path: Path, terminal):
    build = make_build(tmp_path, "Ball")
    assert "--level 3" in " ".join(terminal("doctor", str(build), "--ticks", "2", "--env-args", "--level", "3").split())


@pytest.mark.slow
def test_a_game_that_behaves_alike_at_two_time_scales_is_said_to(tmp_path: Path, terminal):
    build = make_build(tmp_path, "Ball", agents=4, episode=10, seed=1)
    file = tmp_path / "found.json"
    out = terminal("doctor", str(build), "--ticks", "60", "--json", str(file), "--time-scales", "1", "20")
    assert "Ball: mean length 10.0 10.0 Ball: mean return" in " ".join(out.split())
    assert "the game behaves the same at time scales 1, 20" in out
    assert json.loads(file.read_text())["scales"] == [1.0, 20.0]


@pytest.mark.slow
def test_a_game_that_behaves_otherwise_at_a_higher_time_scale_is_named(tmp_path, terminal):
    build = make_build(tmp_path, "Hasty", agents=4, seed=1)
    out = " ".join(terminal("doctor", str(build), "--ticks", "60", "--time-scales", "1", "20").split())
    assert "behavior 'Ball': the mean length of an episode is 10 and 5 at time scale 1 and 20" in out
    assert "depend on the frame rate" in out


@pytest.mark.parametrize(
    "words", ["3DBall --time-scales 1 20", "--time-scales 1", "--time-scales 1 1", "--time-scales 0 20"]
)
def test_time_scales_that_cannot_be_compared_are_refused(words: str, terminal):
    assert "--time-scales" in terminal.fails("doctor", *words.split())
