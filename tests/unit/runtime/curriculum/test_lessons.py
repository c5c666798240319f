import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from rumble_env import Rumble
from small_runs import differences, settings, state
from torch import Tensor

import palaestra
from palaestra.core.errors import ConfigError, EnvError
from palaestra.envs.builtin.ball.env import Ball
from palaestra.envs.transfer import Transfer
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.rank_group import RankGroup
from palaestra.runtime.curriculum.lessons import Lessons
from palaestra.runtime.environments import run_env
from palaestra.runtime.logging.tracker import Summary
from palaestra.runtime.play.run_models import find_models, open_for
from palaestra.runtime.run import loop
from palaestra.runtime.run.result import Result
from palaestra.runtime.settings import RunSettings

SAMPLERS: dict[str, Any] = {
    "uniform": {"sampler_type": "uniform", "sampler_parameters": {"min_value": 1, "max_value": 2}},
    "gaussian": {"sampler_type": "gaussian", "sampler_parameters": {"mean": 2, "st_dev": 1}},
    "multirangeuniform": {"sampler_type": "multirangeuniform", "sampler_parameters": {"intervals": [[8, 9], [10, 12]]}},
}
MEASURES: dict[str, dict[str, Any]] = {
    "reward": {"threshold": 0.2, "min_lesson_length": 10},
    "progress": {"measure": "progress", "threshold": 0.2, "min_lesson_length": 10, "signal_smoothing": False},
    "metric": {"measure": "Policy/Entropy", "threshold": 0.1},
    "reset": {"threshold": 0.2, "min_lesson_length": 10, "require_reset": True},
}


def curriculum(criterion: dict[str, Any], *values: Any) -> dict[str, Any]:
    met = {"behavior": "3DBall", **criterion}
    lessons = [{"name": f"L{i}", "value": value, "completion_criteria": {**met}} for i, value in enumerate(values)]
    del lessons[-1]["completion_criteria"]
    return {"curriculum": lessons}


def ball(parameters: dict[str, Any], max_steps: int = 2400) -> dict[str, Any]:
    return {**settings("3DBall", max_steps, summary_freq=500), "environment_parameters": parameters}


def train(config: dict[str, Any] | Path, results: Path, until: int | None = None, **more: Any) -> Result:
    """Stops at the first summary from `until` on."""
    callbacks: list[Callable[[Summary], object]] = [] if until is None else [lambda summary: summary.step >= until]
    given: dict[str, Any] = {"num_areas": 3, "seed": 7, "env": "3DBall", "quiet": True, **more}
    return palaestra.train(config, results_dir=str(results), run_id="run", callbacks=callbacks, **given)


def lesson(folder: Path, parameter: str = "mass") -> int:
    return json.loads((folder / "run_logs/training_status.json").read_text())[parameter]["lesson_num"]


class OneAtATime(Ball):
    """Keeps the masses that it is given for area 0."""

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        self.given = [*getattr(self, "given", []), *values["mass"][:1].tolist()]
        super().set_parameters(values)


def test_a_lesson_that_follows_a_constant_one_draws_for_each_episode(tmp_path):
    env = OneAtATime(areas=4)
    wrapped = EnvWrapper(env)
    wrapped.traits = replace(wrapped.traits, queue_length=0, parameter_ranges={})
    criterion = {"measure": "progress", "threshold": 0.2}
    train(ball({"mass": curriculum(criterion, 1.0, SAMPLERS["uniform"])}, 1600), tmp_path, env=wrapped, num_areas=None)
    assert len(set(env.given)) > 5


@pytest.mark.few(2)
@pytest.mark.parametrize("measure", MEASURES)
def test_an_interrupted_curriculum_that_goes_on_ends_as_one_that_never_stopped(measure, tmp_path):
    config = ball({"mass": curriculum(MEASURES[measure], 1.0, SAMPLERS["uniform"], 3.0, 4.0)}, 1500)
    whole = train(config, tmp_path / "whole")
    train(config, tmp_path / "parts", until=500)
    resumed = train(config, tmp_path / "parts", resume=True)
    assert lesson(whole.folder) > 0
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_an_interrupted_run_draws_the_numbers_that_it_would_have_drawn(tmp_path):
    names = {"mass": "uniform", "scale": "gaussian", "gravity": "multirangeuniform"}
    config = ball({name: SAMPLERS[kind] for name, kind in names.items()}, 3900)
    whole = train(config, tmp_path / "whole")
    train(config, tmp_path / "parts", until=2000)
    resumed = train(config, tmp_path / "parts", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []
    # more than were drawn at first
    assert min(state(whole.folder)["run"]["parts"]["parameters"]["filled"].tolist()) > 10


@pytest.mark.parametrize("areas", [3, 5])
def test_a_parameter_taken_out_of_the_settings_is_what_it_would_be_without_them(areas, tmp_path):
    gravity = curriculum(MEASURES["progress"], 5.0, 6.0)
    config = ball({"mass": SAMPLERS["multirangeuniform"], "scale": 2.0, "gravity": gravity}, 600)
    train(config, tmp_path, until=300)
    resumed = train({**ball({"scale": 3.0}, 900)}, tmp_path, resume=True, num_areas=areas)
    pending = state(resumed.folder)["run"]["collector"]["env"]["pending"]
    assert pending.flatten(0, 1).unique(dim=0).tolist() == [[3.0, pytest.approx(9.81), 1.0]]  # scale, gravity, mass


def test_how_often_the_loop_looks_up_changes_no_lesson(tmp_path, monkeypatch):
    config = ball({"mass": curriculum(MEASURES["reward"], 1.0, 2.0, 3.0)}, 900)
    calm = train(config, tmp_path / "calm")
    monkeypatch.setattr(loop, "PAUSE", 0.0)
    hasty = train(config, tmp_path / "hasty")
    assert differences(state(calm.folder), state(hasty.folder)) == []


def test_lessons_are_announced_written_down_and_shown_with_what_the_next_one_needs(tmp_path, capsys):
    config = ball({"mass": curriculum(MEASURES["progress"], 1.0, SAMPLERS["uniform"], 3.0), "scale": 1.5})
    folder = train(config, tmp_path, quiet=False).folder
    out = capsys.readouterr().out
    assert "[INFO] Parameter 'mass' is in lesson 'L0' and has value 'Float: value=1.0'.\n" in out
    assert "[INFO] Parameter 'mass' is in lesson 'L1' and has value 'Uniform sampler: min=1.0, max=2.0'.\n" in out
    assert "[INFO] mass lesson 1/3 (L0): progress of 3DBall 0.2, needs more than 0.2, 10/10 episodes\n" in out
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    numbers = [row["Environment/Lesson Number/mass"] for row in rows]
    assert numbers[0] == 0
    assert numbers == sorted(numbers)
    assert {row["Environment/Lesson Number/scale"] for row in rows} == {0}
    assert lesson(folder) == 2
    assert lesson(folder, "scale") == 0


def test_the_first_reset_after_a_resume_is_in_the_lesson_that_was_reached(tmp_path, capsys):
    config = ball({"mass": curriculum(MEASURES["progress"], 1.0, 2.0)}, 1500)
    folder = train(config, tmp_path, until=1000).folder
    assert lesson(folder) == 1
    train(config, tmp_path, resume=True, num_areas=5, quiet=False, until=1)  # other areas: the environment starts anew
    out = capsys.readouterr().out
    assert "Parameter 'mass' is in lesson 'L1'" in out
    assert "Parameter 'mass' is in lesson 'L0'" not in out
    environment = state(folder)["run"]["collector"]["env"]
    assert environment["parameters"][:, 2].tolist() == [2.0] * 5


class Depths(gymnasium.Env):
    """Keeps the depth of all of its episodes, which last five steps."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    depths: list[float | None]

    def __init__(self) -> None:
        made.append(self)
        self.depths = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.depths.append((options or {}).get("depth"))
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.age += 1
        return np.zeros(1, np.float32), 0.0, self.age == 5, False, {}


made: list[Depths] = []


def test_a_gymnasium_environment_learns_in_lessons_resumes_in_them_and_is_evaluated_in_the_last(tmp_path):
    made.clear()
    every = {"keep_best": {"every": 400, "episodes": 3}}
    lessons = curriculum({**MEASURES["progress"], "behavior": "Depths"}, 1.0, SAMPLERS["uniform"], 9.0)
    config = {**settings("Depths", 1200, **every), "environment_parameters": {"depth": lessons}}
    train(config, tmp_path, until=400, env=Depths)
    for one in made[:3]:
        phases = dict.fromkeys(2.0 if depth not in (1.0, 9.0) else depth for depth in one.depths)
        assert list(phases) in ([1.0, 2.0], [1.0, 2.0, 9.0])
    drawn = [depth for one in made[:3] for depth in one.depths if depth not in (1.0, 9.0)]
    assert len(set(drawn)) == len(drawn) > 10
    made.clear()
    result = train(config, tmp_path, env=Depths, resume=True)
    first_of_trial = 1
    assert {depth for one in made for depth in one.depths[first_of_trial:]} == {9.0}
    assert lesson(result.folder, "depth") == 2
    with pytest.raises(EnvError, match="was trained in an environment that a program made: name one with --env"):
        open_for(find_models(str(result.folder), tmp_path), None, 2, 2)


def test_lessons_start_anew_in_a_run_that_starts_from_another_s_networks(tmp_path):
    config = ball({"mass": curriculum(MEASURES["progress"], 1.0, 2.0)}, 1000)
    first = train(config, tmp_path).folder
    assert lesson(first) == 1
    longer = ball({"mass": curriculum(MEASURES["progress"], 1.0, 2.0)}, 3000)
    second = palaestra.train(
        longer,
        env="3DBall",
        num_areas=3,
        seed=7,
        quiet=True,
        results_dir=str(tmp_path),
        run_id="second",
        initialize_from="run",
        callbacks=[lambda summary: True],
    )
    assert lesson(second.folder) == 0


def test_a_run_is_evaluated_in_the_lesson_that_it_reached_drawing_what_was_drawn(tmp_path):
    config = ball({"mass": curriculum(MEASURES["progress"], 1.0, 4.0), "scale": SAMPLERS["uniform"]}, 900)
    folder = train(config, tmp_path).folder
    env = open_for(find_models(str(folder), tmp_path), None, 8, 8)
    env.reset(0)
    scale, _, mass = env.state_dict()["parameters"].unbind(1)
    assert mass.tolist() == [4.0] * 8
    assert len(set(scale.tolist())) == 8


def test_a_criterion_of_a_behavior_that_the_settings_do_not_have_is_refused_with_its_line(tmp_path):
    file = tmp_path / "ball.yaml"
    file.write_text(CRITERION.format(behavior="3DBal", measure="reward", threshold=1, length=0, below=False))
    with pytest.raises(ConfigError, match=r"ball.yaml:11: .*no behavior '3DBal'; did you mean '3DBall'"):
        train(file, tmp_path)


@pytest.mark.parametrize(
    ("change", "line", "sentence"),
    [
        ({"measure": "Elo"}, 12, "'3DBall' has no rating: its settings have no self_play"),
        ({"measure": "progress"}, 13, "progress is never more than 1: the lesson would never end"),
        (
            {"measure": "progress", "below": True, "threshold": 0},
            13,
            "progress is never less than 0: the lesson would never end",
        ),
        (
            {"measure": "progress", "threshold": -1},
            13,
            "expected a number within 0..1 for the measure 'progress', got -1",
        ),
        ({"length": 2401}, 14, "cannot have 2,401 episodes within its max_steps of 2,400"),
        ({"measure": "rewrd"}, 12, "'3DBall' writes no metric 'rewrd'; did you mean 'reward'"),
        ({"measure": "Losses/Value Los"}, 12, "did you mean 'Losses/Value Loss'"),
        ({"measure": "Losses/Q1 Loss"}, 12, "writes no metric 'Losses/Q1 Loss'"),
    ],
)
def test_a_criterion_that_can_never_be_met_is_refused_with_its_line(change, line, sentence, tmp_path):
    file = tmp_path / "ball.yaml"
    given = {"behavior": "3DBall", "measure": "reward", "threshold": 1, "length": 0, "below": False}
    file.write_text(CRITERION.format(**{**given, **change}))
    with pytest.raises(ConfigError, match=rf"ball.yaml:{line}: .*mass\.curriculum\[0\].*{sentence}"):
        train(file, tmp_path)
    assert not (tmp_path / "run").exists()


def test_a_criterion_that_can_never_be_met_is_refused_where_tables_go_to_an_accelerator_too(tmp_path, monkeypatch):
    monkeypatch.setattr(run_env, "on_device", lambda env, device: Transfer(env, torch.device(device)))
    file = tmp_path / "ball.yaml"
    file.write_text(CRITERION.format(behavior="3DBall", measure="rewrd", threshold=1, length=0, below=False))
    with pytest.raises(ConfigError, match=r"ball.yaml:12: .* writes no metric"):
        train(file, tmp_path)


def test_a_behavior_that_the_environment_does_not_have_is_refused(tmp_path):
    mass = curriculum({"behavior": "Ball"}, 1.0, 2.0)
    config = {"default_settings": settings("x")["behaviors"]["x"], "environment_parameters": {"mass": mass}}
    refused = r"curriculum\[0\].completion_criteria.behavior: the environment has no behavior 'Ball' that learns"
    with pytest.raises(ConfigError, match=refused):
        train(config, tmp_path)


CRITERION = """behaviors:
  3DBall:
    trainer_type: ppo
    max_steps: 2400
environment_parameters:
  mass:
    curriculum:
    - name: a
      value: 1
      completion_criteria:
        behavior: {behavior}
        measure: {measure}
        threshold: {threshold}
        min_lesson_length: {length}
        below: {below}
    - name: b
      value: 2
"""


def test_a_metric_that_nobody_has_written_is_warned_of_where_a_game_might_have(tmp_path, capsys):
    lessons = curriculum({"behavior": "Fighter", "measure": "Fighter/Score"}, 1.0, 2.0)
    config = {**settings("Fighter", 300), "environment_parameters": {"pace": lessons}}
    train(config, tmp_path, env=Paced(), num_areas=None, quiet=False)
    out = capsys.readouterr().out
    assert out.count("pace waits for the metric 'Fighter/Score', which no summary of 'Fighter' had so far (") == 1


class Paced(Rumble):
    """A game of two with a parameter of which nothing follows."""

    parameters: Mapping[str, float] = {"pace": 1.0}

    def __init__(self) -> None:
        super().__init__(4, [("Fighter", 0, 1), ("Fighter", 1, 1)])
        self.pace = torch.ones(4)

    def set_parameters(self, values: Mapping[str, torch.Tensor]) -> None:
        self.pace = values.get("pace", self.pace).clone()

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {**super().state_dict(), "pace": self.pace.clone()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        super().load_state_dict(state)
        self.pace = state["pace"].clone()


@pytest.mark.slow
def test_lessons_that_follow_a_rating_go_on_as_if_never_interrupted(tmp_path):
    self_play = {"save_steps": 90, "team_change": 250, "swap_steps": 40, "window": 3}
    # met after 300 to 1,500 decisions, of each seed from 1 to 10
    met = {"behavior": "Fighter", "measure": "Elo", "threshold": 1205}
    slow = {"name": "slow", "value": 1.0, "completion_criteria": met}
    lessons = {"curriculum": [slow, {"name": "any", "value": SAMPLERS["uniform"]}]}
    quick = {"batch_size": 32, "buffer_size": 128, "learning_rate": 0.01}
    block = settings("Fighter", 1500, self_play=self_play, hyperparameters=quick)
    config = {**block, "environment_parameters": {"pace": lessons}}

    def run(place: str, until: int | None = None, **more: Any) -> Result:
        return train(config, tmp_path / place, until, env=Paced(), num_areas=None, **more)

    whole = run("whole")
    stopped = run("parts", 300)
    assert lesson(stopped.folder, "pace") == 0
    resumed = run("parts", resume=True)
    assert lesson(whole.folder, "pace") == 1
    assert differences(state(whole.folder), state(resumed.folder)) == []


UNNAMED = {"threshold": 0.2, "min_lesson_length": 10}


def unnamed(*values: float) -> dict[str, Any]:
    form = curriculum(UNNAMED, *values)
    for one in form["curriculum"][:-1]:
        del one["completion_criteria"]["behavior"]
    return form


@pytest.mark.few(1)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "by default_settings"])
def test_a_criterion_that_names_no_behavior_goes_by_the_one_that_learns(listed, tmp_path, capsys):
    named = ball({"mass": curriculum(UNNAMED, 1.0, 3.0, 4.0)}, 1500)
    config = ball({"mass": unnamed(1.0, 3.0, 4.0)}, 1500)
    if not listed:
        listless = {"default_settings": config["behaviors"]["3DBall"], "behaviors": {}}
        named, config = ({**one, **listless} for one in (named, config))
    whole = train(named, tmp_path / "named")
    assert lesson(whole.folder) > 0
    train(config, tmp_path / "unnamed", until=500, quiet=False)
    assert "Parameter 'mass' is in lesson 'L1'" in capsys.readouterr().out
    resumed = train(config, tmp_path / "unnamed", resume=True)
    assert differences(state(whole.folder), state(resumed.folder)) == []


def test_a_criterion_that_names_no_behavior_is_refused_where_several_learn(tmp_path):
    block = settings("x")["behaviors"]["x"]
    config = {"default_settings": block, "environment_parameters": {"pace": unnamed(1.0, 2.0)}}
    with pytest.raises(ConfigError, match=r"several behaviors learn \('Fighter', 'Guard'\): name the one to measure"):
        train(config, tmp_path, env=Pair(), num_areas=None)
    assert not (tmp_path / "run").exists()


class Pair(Paced):
    """Two behaviors."""

    def __init__(self) -> None:
        Rumble.__init__(self, 4, [("Fighter", 0, 1), ("Guard", 1, 1)])
        self.pace = torch.ones(4)


def test_a_run_can_begin_with_a_later_lesson_and_goes_on_where_it_got(tmp_path):
    never = {"threshold": 10_000}
    forms = {"mass": curriculum(never, 1.0, 2.0, 3.0, 4.0), "scale": curriculum(never, 1.0, 2.0)}
    result = train(ball(forms, 1000), tmp_path, until=500, first_lesson=2)
    assert (lesson(result.folder), lesson(result.folder, "scale")) == (2, 1)
    folder = tmp_path / "run"
    saved = state(folder)["run"]["parts"]["lessons"]
    assert saved["curricula"]["lessons"] == {"mass": 2, "scale": 1}
    again = train(folder / "configuration.yaml", tmp_path, resume=True)
    assert lesson(again.folder) == 2


class OneOfTwo(RankGroup):
    """A rank of two."""

    def known(self, now: Any, when_met: Any) -> Any:
        return when_met


def test_all_ranks_measure_the_same_behavior_whichever_each_saw_first():
    criterion = {"measure": "progress", "threshold": 0.5}
    lessons = [{"name": "L0", "value": 1.0, "completion_criteria": criterion}, {"name": "L1", "value": 2.0}]
    tree = {"default_settings": {}, "environment_parameters": {"mass": {"curriculum": lessons}}}
    ignored: Any = SimpleNamespace(
        passes_on=lambda *_: None, set=lambda _: None, change=lambda *_: None, info=lambda _: None
    )
    context: Any = SimpleNamespace(
        settings=RunSettings.model_validate(tree), journal=ignored, console=ignored, group=OneOfTwo(), inference=False
    )
    shared: list[Any] = []
    part = Lessons(context, ignored, None, lambda **_: None, lambda: shared)
    for name in ("A", "B"):
        part.joined(cast(Any, SimpleNamespace(name=name)))
    part.started()
    part.round_ended()
    assert part.state_dict()["curricula"]["measured_by"] == [None]  # another rank may have seen neither
    shared.append(SimpleNamespace(name="B", step=60, settings=SimpleNamespace(max_steps=100), rating=None))
    part.round_ended()
    assert part.numbers == {"mass": 1}
    again = Lessons(context, ignored, part.state_dict(), lambda **_: None, lambda: shared)
    assert again.state_dict() == part.state_dict()
    assert again.state_dict()["curricula"]["measured_by"] == ["B"]
