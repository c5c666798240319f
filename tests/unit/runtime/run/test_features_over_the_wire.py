"""Each feature of training once with a game in Python that is a process of its own and is played over ML-Agents'
protocol.
"""

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import sdk_games

import palaestra
from palaestra.cli.main import main
from palaestra.runtime.run.result import Result

GAMES = Path(sdk_games.__file__)
ROOT = GAMES.parents[2]
SLOW = pytest.mark.slow
HYPER = {"batch_size": 16, "buffer_size": 64, "num_epoch": 1}
NETWORK = {"hidden_units": 8, "num_layers": 1}
OWN_GAME = '''
import json, os
from pathlib import Path
from palaestra import sdk
from sdk_games import Mover

SEEN = Path(__file__).with_name("seen.jsonl")


class Windy(Mover):
    """Notes the values of its parameters at the start of each episode."""

    behavior = sdk.Behavior("Windy", observations=2, continuous=1)
    max_step = 20

    def on_episode_begin(self):
        super().on_episode_begin()
        read = self.academy.environment_parameters.get_with_default
        with SEEN.open("a") as file:
            file.write(json.dumps([read("wind", -1.0), read("rain", -1.0)]) + "\\n")


@sdk.game
def windy(academy):
    academy.add(Windy())


if __name__ == "__main__":
    windy.play()
'''


def train(folder: Path, env: Path, kind: str | None, *, steps: int = 256, tree=None, **block: Any) -> Result:
    """Trains for a few rollouts; every behavior of the game has the same settings."""
    behavior = {
        "trainer_type": "ppo",
        "hyperparameters": HYPER,
        "network_settings": NETWORK,
        "max_steps": steps,
        "summary_freq": 64,
        "time_horizon": 16,
    }
    args = ["--kind", kind] if kind else []
    settings = {"default_settings": behavior | block, "env_settings": {"env_args": args}, **(tree or {})}
    place = {"results_dir": str(folder / "results"), "run_id": "run", "quiet": True, "trust": True}
    return palaestra.train(settings, env=str(env), seed=1, **place)


def finished(result: Result) -> set[str]:
    """The tags of the run's metrics; the run has ended by itself, and its models can be played."""
    assert result.finished
    assert result.models
    for model in result.models.values():
        onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return {tag for line in (result.folder / "metrics.jsonl").read_text().splitlines() for tag in json.loads(line)}


@pytest.fixture
def windy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A game that notes the parameters of its episodes."""
    monkeypatch.setenv("PYTHONPATH", str(GAMES.parent))
    game = tmp_path / "windy.py"
    game.write_text(OWN_GAME)
    return game


def seen(game: Path) -> list[list[float]]:
    """Wind and rain of each episode."""
    return [json.loads(line) for line in game.with_name("seen.jsonl").read_text().splitlines()]


def curriculum(**criterion: Any) -> dict[str, Any]:
    """Three lessons that are met at once."""
    met = {"measure": "progress", "min_lesson_length": 1, "threshold": 0.1, **criterion}
    first, second = ({"name": f"{wind}", "value": wind, "completion_criteria": {**met}} for wind in (1.0, 2.0))
    lessons = [first, second, {"name": "3", "value": 3.0}]
    return {"environment_parameters": {"wind": {"curriculum": lessons}, "rain": 4.0}}


@pytest.mark.parametrize(
    "criterion",
    [
        {},
        pytest.param({"behavior": "Windy"}, marks=SLOW),
        pytest.param({"require_reset": True}, marks=SLOW),
        pytest.param({"measure": "reward", "threshold": -1e6, "signal_smoothing": True}, marks=SLOW),
    ],
    ids=["no behavior", "a behavior", "a reset", "the reward"],
)
def test_lessons_reach_a_game(criterion, windy, tmp_path):
    tags = finished(train(tmp_path, windy, None, tree=curriculum(**criterion)))
    assert {wind for wind, _ in seen(windy)} == {1.0, 2.0, 3.0}
    assert {rain for _, rain in seen(windy)} == {4.0}
    assert "Environment/Lesson Number/wind" in tags


@SLOW
@pytest.mark.parametrize(
    ("sampler", "ranges"),
    [
        ({"sampler_type": "uniform", "sampler_parameters": {"min_value": 2.0, "max_value": 3.0}}, [(2.0, 3.0)]),
        (
            {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[2.0, 3.0], [8.0, 9.0]]}},
            [(2.0, 3.0), (8.0, 9.0)],
        ),
        ({"sampler_type": "gaussian", "sampler_parameters": {"mean": 5.0, "st_dev": 0.1}}, [(4.0, 6.0)]),
    ],
    ids=["uniform", "several ranges", "gaussian"],
)
def test_a_game_draws_what_the_settings_say(sampler, ranges, windy, tmp_path):
    finished(train(tmp_path, windy, None, tree={"environment_parameters": {"wind": sampler}}))
    drawn = [wind for wind, _ in seen(windy)]
    assert len(set(drawn)) > 4
    for low, high in ranges:
        assert any(low <= wind <= high for wind in drawn)
    assert all(any(low <= wind <= high for low, high in ranges) for wind in drawn)


@SLOW
def test_lessons_of_a_game_go_on_when_the_run_is_resumed(windy, tmp_path):
    lessons = curriculum(threshold=0.4)
    finished(train(tmp_path, windy, None, steps=512, tree=lessons))
    before = len(seen(windy))
    again = {**lessons, "checkpoint_settings": {"resume": True}}
    finished(train(tmp_path, windy, None, steps=1024, tree=again))
    assert {wind for wind, _ in seen(windy)[before:]} == {3.0}


SELF_PLAY = {"save_steps": 64, "swap_steps": 32, "team_change": 128, "window": 2}
MEMORY = {**NETWORK, "memory": {"sequence_length": 8, "memory_size": 8}}
FEATURES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "self-play": ("duel", {"self_play": SELF_PLAY}, {"Self-play/ELO"}),
    "memory": ("discrete", {"network_settings": MEMORY}, set()),
    "memory of masked agents": ("hybrid", {"network_settings": MEMORY}, set()),
    "groups": ("group", {"trainer_type": "poca"}, {"Environment/Group Cumulative Reward", "Losses/Baseline Loss"}),
    "a goal signal": ("goal", {}, set()),
    "a goal signal of groups": ("goal", {"trainer_type": "poca"}, set()),
    "exploration": (
        "continuous",
        {"reward_signals": {"extrinsic": {}, "curiosity": {"strength": 0.1}, "rnd": {"strength": 0.1}}},
        {"Policy/Curiosity Reward", "Policy/Rnd Reward"},
    ),
    "soft actor-critic": (
        "continuous",
        {"trainer_type": "sac", "hyperparameters": {"batch_size": 16, "buffer_init_steps": 32}},
        set(),
    ),
    "images": ("visual", {}, set()),
    "observations of variable length": ("variable", {}, set()),
    "learning beside collecting": ("discrete", {"threaded": True}, set()),
}


@pytest.mark.parametrize(
    "feature", [name if name == "self-play" else pytest.param(name, marks=SLOW) for name in FEATURES]
)
def test_a_feature_works_with_a_game_over_the_wire(feature, tmp_path):
    kind, block, tags = FEATURES[feature]
    result = train(tmp_path, GAMES, kind, **block)
    assert tags <= finished(result)
    if feature == "self-play":
        assert list(result.folder.glob("*/snapshots/*"))


@SLOW
@pytest.mark.parametrize("feature", ["self-play", "memory", "groups"])
def test_a_run_of_a_game_is_resumed_with_what_it_had(feature, tmp_path):
    kind, block, _ = FEATURES[feature]
    train(tmp_path, GAMES, kind, **block)
    again = train(tmp_path, GAMES, kind, steps=512, tree={"checkpoint_settings": {"resume": True}}, **block)
    assert again.finished
    assert all(step >= 512 for step in again.steps.values())


@SLOW
def test_a_game_is_imitated_from_demonstrations_that_were_recorded_in_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(GAMES.parent))
    demo = tmp_path / "Continuous.demo"
    recording = ["--brain=heuristic", "--episodes=3", f"--demo-out={demo}"]
    assert main(["record", "--demo", "--env=python:sdk_games:continuous", *recording]) == 0
    assert demo.is_file()
    source = {"demo_path": str(demo), "strength": 0.5}
    given = {"reward_signals": {"extrinsic": {}, "gail": source}, "behavioral_cloning": {**source, "steps": 1000}}
    result = train(tmp_path, GAMES, "continuous", **given)
    assert {"Policy/Gail Reward", "Losses/GAIL Loss", "Losses/Pretraining Loss"} <= finished(result)


@SLOW
@pytest.mark.parametrize("name", ["tag", "roll"])
def test_the_example_files_of_games_in_python_train_their_games_as_processes(name, tmp_path):
    game = f"--env={ROOT / f'examples/sdk_{name}.py'}"
    command = ["learn", str(ROOT / f"configs/sdk/{name}.yaml"), game, "--run-id=run", "--seed=1"]
    short = ["--max-steps=600", "--buffer-size=256", "--batch-size=64", "--summary-freq=200"]
    assert main([*command, *short, f"--results-dir={tmp_path}"]) == 0
    assert list((tmp_path / "run").glob("*.onnx"))
