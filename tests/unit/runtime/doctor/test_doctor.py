import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_envs import Bandit, Scripted, spec_of, table
from unity_client import Client, actions, brain, info, vector
from unity_games import Ball, Game, make_build
from unity_play import free_port

from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.runtime.doctor import CheckStage, Examination, Finding, Limit, examine
from palaestra.runtime.doctor.examination import Timing, random_action, worth_starting
from palaestra.runtime.doctor.findings import Circumstances, of_behavior, of_settings
from palaestra.runtime.doctor.meters import BehaviorMeter
from palaestra.runtime.settings import RunSettings, load

PPO = {"trainer_type": "ppo"}


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the doctor keeps games' logs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


class Ear:
    """Keeps what an examination reports."""

    def __init__(self) -> None:
        self.waited_for: list[str] = []
        self.stages: list[CheckStage] = []
        self.lines: list[str] = []

    def begins(self, stage: str) -> None:
        self.waited_for.append(stage)

    def ended(self, stage: CheckStage) -> None:
        self.stages.append(stage)

    def says(self, text: str) -> None:
        self.lines.append(text)


def settings_of(
    env: str | None, *, config: dict[str, Any] | None = None, no_graphics: bool = True, **place: Any
) -> RunSettings:
    tree = {"env_settings": {"env_path": env, **place}, "engine_settings": {"no_graphics": no_graphics}}
    return load(config or {"default_settings": PPO}, tree).settings


def doctor(
    env: Path | str | None, ticks: int = 40, ear: Ear | None = None, config: dict[str, Any] | None = None, **place: Any
) -> Examination:
    name = None if env is None else str(env)
    return examine(settings_of(name, config=config, **place), Limit(ticks), ear or Ear(), listed=config is not None)


def failed(found: Examination) -> CheckStage:
    assert not found.healthy
    return found.stages[-1]


def test_a_game_that_is_well_passes_every_stage_and_is_measured(tmp_path: Path):
    ear = Ear()
    found = doctor(make_build(tmp_path, "Ball", agents=4, episode=10), ear=ear)
    names = ["build found", "process started", "connected", "versions agree", "first scene reset", "behaviors appear"]
    assert [stage.name for stage in found.stages] == [*names, "agents ask for decisions"]
    assert found.stages == tuple(ear.stages)
    assert all(stage.ok for stage in ear.stages)
    assert ear.waited_for == [*names, "agents ask for decisions", "random actions"]
    assert found.healthy
    assert found.findings == ()
    ball = found.behaviors["Ball"]
    assert (ball.decisions, ball.agents, ball.teams) == (4 * 41, (4, 4), (0,))
    assert (ball.terminated, ball.truncated, ball.mean_length) == (8, 8, 10.0)
    assert ball.reward.high <= 1
    assert ball.reward.nonzero > 0.9
    assert found.timing.ticks == 40
    assert set(found.timing.parts) == {"game", "reading", "answering"}
    assert found.timing.received is not None
    assert found.timing.received > 100
    assert found.copies.number >= 1


def test_the_stages_of_a_start_say_file_process_versions_and_agents(tmp_path: Path):
    build = make_build(tmp_path, "Ball", agents=3)
    message = {stage.name: " ".join(stage.details) for stage in doctor(build, 1).stages}
    assert str(build) in message["build found"]
    assert "marked as a program" in message["build found"]
    assert "--mlagents-port" in message["process started"]
    assert "package com.unity.ml-agents 3.0.0, communication API 1.5.0" in message["versions agree"]
    assert message["behaviors appear"] == "Ball: observations: VectorSensor_size1 1; actions: 1 continuous"
    assert message["agents ask for decisions"] == "Ball: 3 agents of team 0"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("game", "options", "stage", "words"),
    [
        ("Ball", {"die_at": 0, "die_how": "exit", "words": "no disk"}, "connected", ["exited with code 3", "no disk"]),
        ("Ball", {"die_at": 0}, "connected", ["to connect", "--timeout-wait"]),
        ("Ball", {"version": "2.0.0"}, "versions agree", ["'2.0.0'", "too new"]),
        ("Ball", {"die_at": 1, "die_how": "corrupt"}, "versions agree", ["not a message of ML-Agents' protocol"]),
        ("Ball", {"die_at": 2}, "first scene reset", ["never asked for a command"]),
        ("Ball", {"die_at": 3}, "behaviors appear", ["no agent has asked for a decision", "Decision Requester"]),
        ("Empty", {}, "behaviors appear", ["without any behavior"]),
        ("Endings", {}, "agents ask for decisions", ["none asks for a decision"]),
    ],
)
def test_the_stage_at_which_a_game_falls_silent_is_named(tmp_path, game, options, stage, words):
    last = failed(doctor(make_build(tmp_path, game, **options), timeout_wait=1.0))
    assert last.name == stage
    for word in words:
        assert word in "\n".join(last.details)


def test_a_build_that_is_not_there_fails_at_once(tmp_path: Path):
    found = doctor(tmp_path / "Game.x86_64")
    assert failed(found).name == "build found"
    assert found.findings[0].what == "build found: failed; see above"


def test_a_build_that_is_not_marked_as_a_program_fails_to_start(tmp_path: Path):
    build = make_build(tmp_path, "Ball")
    build.chmod(0o644)
    found = doctor(build)
    assert found.stages[0].ok
    assert "not marked as a program" in found.stages[0].details[0]
    assert failed(found).name == "process started"
    assert "chmod +x" in failed(found).details[0]


@pytest.mark.parametrize(
    ("how", "words"), [("hang", "stopped answering"), ("kill", "signal SIGKILL"), ("leave", "quit by itself")]
)
def test_a_game_that_breaks_off_is_a_finding_beside_what_was_measured_before(tmp_path: Path, how: str, words: str):
    found = doctor(make_build(tmp_path, "Ball", die_at=10, die_how=how), timeout_wait=1.0)
    assert all(stage.ok for stage in found.stages)
    assert not found.healthy
    (finding,) = found.findings
    assert finding.level == "error"
    assert words in finding.what
    assert found.timing.ticks == 6
    assert found.timing.seconds < 0.5  # the wait for what never came is no tick
    assert found.copies is None


def test_behaviors_are_compared_with_those_of_the_settings(tmp_path: Path):
    build = make_build(tmp_path, "Ball")
    wrong = doctor(build, config={"behaviors": {"ball": PPO}})
    texts = [finding.what for finding in wrong.findings]
    assert not wrong.healthy
    assert texts[0] == "behavior 'Ball' has no settings; did you mean 'ball'?"
    assert "the agents' Behavior Parameters" in wrong.findings[0].advice
    assert not any("ball" in text for text in texts[1:])
    other = [finding.what for finding in doctor(build, config={"behaviors": {"Cube": PPO}}).findings]
    assert other[:2] == [
        "behavior 'Ball' has no settings (the settings list 'Cube')",
        "the settings list 'Cube', which did not appear (the environment has 'Ball')",
    ]
    assert "Behavior Parameters" not in "".join(
        one.advice for one in doctor("Basic", config={"behaviors": {"b": PPO}}).findings
    )
    assert doctor(build, config={"behaviors": {"Ball": PPO}}).findings == ()
    (note,) = doctor(build, config={"default_settings": PPO}).findings
    assert note.level == "note"
    assert "default_settings" in note.advice


def test_it_is_told_who_sees_what_where_some_is_for_the_critic_alone():
    def said(*names: str) -> list[str]:
        config = {"behaviors": {"GridWorld": {**PPO, "network_settings": {"critic_only": list(names)}}}}
        return [f"{one.level}: {one.what}" for one in doctor("GridWorld", config=config).findings]

    told = said("Vector*")
    assert [line for line in told if "critic" in line] == [
        "note: behavior 'GridWorld': the critic alone sees VectorSensor; the policy sees CameraSensor"
    ]
    (line,) = [line for line in said("Vektor") if "critic" in line]
    assert line.startswith(
        "error: behavior 'GridWorld': network_settings.critic_only: no observation is named 'Vektor'"
    )


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (
            {"network_settings": {"critic_only": ["o1"]}},
            "note: behavior 'X': the critic alone sees o1; the policy sees o0",
        ),
        (
            {"mirror": {"observations": {"o0": "same"}}},
            "error: behavior 'X': mirror.observations: 'o1' (3, 2) is missing",
        ),
        (
            {"reward_signals": {"amp": {"clips": "none.csv", "observations": ["legs"]}}},
            "error: behavior 'X': reward_signals.amp.observations: no observation is named 'legs'",
        ),
    ],
)
def test_what_settings_name_is_looked_up_also_where_nothing_of_it_was_seen(block, says):
    spec = spec_of((2,), (3, 2), continuous=1)
    settings = load({"behaviors": {"X": {**PPO, **block}}}).settings
    (finding,) = of_settings(settings, {"X": spec}, is_unity=True)
    assert f"{finding.level}: {finding.what}".startswith(says)


class Broken(Game):
    """One agent that sees NaN at its third decision."""

    KEY = "Broken?team=0"

    def reset(self) -> Any:
        return self._say(0.0)

    def step(self, reply: Any) -> Any:
        assert actions(reply, self.KEY)[0].shape == (1, 1)
        return self._say(float("nan") if self.sent == 5 else 0.5)

    def _say(self, seen: float) -> Any:
        return self.say({self.KEY: [info(7, [vector([1.0, seen], "eyes")])]}, {self.KEY: brain(self.KEY, continuous=1)})


def in_the_editor(game: Game, **place: Any) -> tuple[Examination, Ear]:
    """Press Play as soon as the doctor listens."""
    port = free_port()
    ear = Ear()
    player = threading.Thread(target=lambda: game.run(Client(port)))
    player.start()
    found = doctor(None, ear=ear, editor_port=port, **place)
    player.join(180)
    assert not player.is_alive()
    return found, ear


def test_the_editor_is_waited_for_and_examined():
    found, ear = in_the_editor(Ball())
    assert found.healthy
    assert found.findings == ()
    assert [stage.name for stage in found.stages][:2] == ["port open", "connected"]
    assert "pressing the Play button" in ear.lines[0]
    assert found.copies is None


def test_a_number_of_a_game_that_is_none_is_a_finding_with_agent_sensor_and_index():
    (finding,) = in_the_editor(Broken())[0].findings
    assert finding.level == "error"
    assert finding.what.startswith("behavior 'Broken', agent 7: observation 'eyes'[1] is nan")


@pytest.mark.slow
def test_a_silent_editor_is_an_error_where_patience_is_given():
    last = failed(doctor(None, editor_port=free_port(), timeout_wait=0.5))
    assert last.name == "connected"
    assert "press Play" in last.details[0]


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = doctor(None, editor_port=taken.getsockname()[1])
    assert failed(found).name == "port open"
    assert "is taken" in failed(found).details[0]


def broken_bandit(areas: int = 2) -> Bandit:
    env = Bandit(areas, continuous=1)
    healthy = env.step

    def step(given: Any) -> Any:
        steps = healthy(given)
        steps["Bandit"].obs[0][1, 1] = torch.inf
        return steps

    env.step = step  # type: ignore[method-assign]
    return env


def test_environments_without_a_process_are_examined_too():
    found = doctor("builtin:3DBall", num_areas=4)
    assert [stage.name for stage in found.stages] == ["environment opened", "agents ask for decisions"]
    assert found.behaviors["3DBall"].decisions == 4 * 41
    assert set(found.timing.parts) == {"environment"}


def test_an_infinity_of_an_environment_of_ones_own_is_a_finding(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    found = doctor("python:test_doctor:broken_bandit")
    assert "agent 1: observation 'o0'[1] is inf" in found.findings[0].what
    assert not found.healthy


def test_an_environment_that_cannot_be_made_fails_at_its_first_stage():
    last = failed(doctor("gymnasium:NoSuch-v0"))
    assert last.name == "environment opened"
    assert "NoSuch" in last.details[0]


def measure(spec: BehaviorSpec, *steps: Any) -> BehaviorMeter:
    meter = BehaviorMeter("B", spec, steps[0])
    for step in steps[1:]:
        meter.add(step)
    return meter


def findings_of(
    meter: BehaviorMeter, settings: RunSettings | None = None, listed: bool = False, is_unity: bool = True
) -> list[Finding]:
    settings = settings or settings_of(None, no_graphics=False)
    around = Circumstances(settings, listed, is_unity, ticks=9, complete=True)
    return list(of_behavior(meter.report(), around))


def found_in(*given: Any, **more: Any) -> list[tuple[str, str]]:
    return [(finding.level, finding.what) for finding in findings_of(*given, **more)]


def still(shape: tuple[int, ...], seen: torch.Tensor) -> BehaviorMeter:
    """Two ticks of twelve agents that observe the same and earn a reward."""
    return measure(spec_of(shape, continuous=1), *[table(seen, reward=[1.0] * 12, terminated=[0])] * 2)


def test_an_observation_is_summed_over_acting_agents_alone():
    generator = torch.Generator().manual_seed(0)
    seen = [torch.randn(6, 3, generator=generator) * 3 + 50 for _ in range(5)]
    acting = [bool(i % 2) for i in range(6)]
    report = measure(spec_of((3,), continuous=1), *(table(x, acting=acting) for x in seen)).report().observations[0]
    shown = torch.cat([x[1::2] for x in seen]).double()
    assert report.rows == 15
    assert (report.low, report.high) == pytest.approx((float(shown.min()), float(shown.max())))
    assert (report.mean, report.std) == pytest.approx((float(shown.mean()), float(shown.std(correction=0))))


def test_elements_that_never_change_or_lie_far_out_are_found():
    seen = torch.stack([torch.linspace(-1, 1, 12), torch.full((12,), 0.5), torch.linspace(0, 90, 12)], 1)
    (constant, far) = found_in(still((3,), seen))
    assert constant == ("note", "behavior 'B', observation 'o0': 1 of 3 elements never changed: 1")
    assert far[0] == "warning"
    assert "1 of 3 elements go far outside -1..1 (beyond 5; -1 to 90)" in far[1]


@pytest.mark.parametrize(("trainer", "network"), [("ppo", {"normalize": True}), ("sac", {"body": "residual"})])
def test_what_the_settings_normalize_may_lie_far_out(trainer: str, network: dict[str, Any]):
    meter = still((2,), torch.linspace(-100, 100, 24).reshape(12, 2))
    block = {"trainer_type": trainer, "network_settings": network}
    normalized = settings_of(None, config={"behaviors": {"B": block}})
    assert len(found_in(meter)) == 1
    assert found_in(meter, normalized, listed=True) == []


@pytest.mark.parametrize(
    ("no_graphics", "hint"), [(True, "--no-graphics"), (False, "check that its camera is enabled")]
)
def test_an_image_of_one_color_is_found_with_what_may_cause_it(no_graphics: bool, hint: str):
    color = torch.tensor([0.1, 0.2, 0.3]).reshape(1, 3, 1, 1).expand(12, 3, 4, 4).clone()
    (finding,) = findings_of(still((3, 4, 4), color), settings_of(None, no_graphics=no_graphics))
    assert finding.what == "behavior 'B', observation 'o0': the image had one color all the time"
    assert hint in finding.advice


def test_a_still_image_of_several_colors_is_not_of_one_color():
    seen = torch.rand(1, 1, 4, 4, generator=torch.Generator().manual_seed(0)).expand(12, 1, 4, 4).clone()
    changed = "behavior 'B', observation 'o0': none of its elements ever changed"
    assert found_in(still((1, 4, 4), seen)) == [("warning", changed)]


def test_rows_that_stand_for_nothing_do_not_count_as_observed():
    spec = BehaviorSpec((ObsSpec("others", (3, 2)),), ActionSpec(1))
    seen = torch.zeros(2, 3, 2)
    seen[0, :2] = torch.tensor([[1.0, 0.2], [1.0, 0.4]])
    report = measure(spec, table(seen)).report().observations[0]
    assert (report.entities, report.rows, report.elements, report.constant) == ((0, 2), 2, 2, (0,))
    assert report.low == pytest.approx(0.2)


def test_rewards_and_ends_that_never_come_are_found():
    seen = [torch.rand(4, 1, generator=torch.Generator().manual_seed(t)) for t in range(5)]
    found = found_in(measure(spec_of((1,), continuous=1), *(table(x) for x in seen)))
    assert found == [
        ("warning", "behavior 'B': no episode ended in 9 ticks"),
        ("warning", "behavior 'B': its reward was always zero"),
    ]


def test_advice_is_in_the_words_of_the_kind_of_environment():
    seen = [torch.rand(4, 1, generator=torch.Generator().manual_seed(t)) for t in range(5)]
    meter = measure(spec_of((1,), continuous=1), *(table(x) for x in seen))
    in_unity, elsewhere = (findings_of(meter, is_unity=kind)[-1].advice for kind in (True, False))
    assert "AddReward" in in_unity
    assert "return a reward other than zero from step()" in elsewhere


def test_random_actions_keep_to_the_mask_and_reach_every_choice():
    allowed = torch.tensor([[True, False, True, False, True]]).expand(400, 5)
    step = table(torch.zeros(400, 1), mask=allowed)
    action = random_action(ActionSpec(2, (3, 2)), step, torch.Generator().manual_seed(0))
    assert action.continuous.shape == (400, 2)
    assert action.continuous.min() < -0.9
    assert action.continuous.max() > 0.9
    assert set(action.discrete[:, 0].tolist()) == {0, 2}
    assert set(action.discrete[:, 1].tolist()) == {1}


def test_masks_are_reported_as_the_share_of_choices_they_forbid():
    half = torch.tensor([[True, False]]).expand(4, 2)
    steps = [table(torch.zeros(4, 1), mask=half), table(torch.zeros(4, 1), mask=torch.ones(4, 2, dtype=torch.bool))]
    assert measure(spec_of((1,), branches=(2,)), *steps).report().masked == 0.25
    assert measure(spec_of((1,), branches=(2,)), steps[1]).report().masked is None


def test_agents_that_come_late_wait_and_break_off_are_followed():
    env = Scripted({"B": {"slots": 4, "grows_at": 8, "losses": 0.1, "masked": True}})
    steps = [env.reset(0)["B"], *(env.step({})["B"] for _ in range(30))]
    report = measure(env.behaviors["B"], *steps).report()
    assert report.decisions == sum(int(step.acting.sum()) for step in steps)
    ends = sum(int((step.terminated | step.truncated).sum()) for step in steps[1:])
    assert report.terminated + report.truncated == ends
    assert report.lost > 0
    assert report.agents[1] > 4


def timing(game: float, ours: float, cores: float | None) -> Timing:
    return Timing(10, {"game": game, "reading": ours, "answering": 0.0}, 0, 0, 20.0, cores)


@pytest.mark.parametrize(
    ("spent", "processors", "number"),
    [
        (timing(0.9, 0.1, 1.0), 2, 1),  # one core for the game, one for the trainer
        (timing(0.99, 0.01, 1.0), 16, 15),
        (timing(0.99, 0.01, 0.5), 16, 30),  # it waits half of the time
        (timing(0.8, 0.2, 0.1), 16, 5),  # the trainer is busy with five
        (timing(0.99, 0.01, None), 8, 7),
        (timing(0.5, 0.5, 1.0), 1, 1),
    ],
)
def test_copies_are_bounded_by_cores_and_by_the_trainer(spent: Timing, processors: int, number: int):
    assert worth_starting(spent, processors).number == number


def test_the_reason_for_a_number_of_copies_names_the_limit_that_counts():
    assert worth_starting(timing(0.75, 0.25, 0.9), 2).why == (
        "a copy keeps 90% of a core busy, and one of the 2 cores here is for the trainer, so more copies would wait "
        "for a core; with more cores, up to about 4 would be worth starting"
    )
    assert worth_starting(timing(0.8, 0.2, 0.1), 16).why == (
        "reading and answering take 20% of a tick, so about 5 copies keep the trainer busy, learning not counted; a "
        "copy keeps 10% of a core busy, and the 16 cores here have room for 150"
    )
    assert "so one copy keeps the trainer busy" in worth_starting(timing(0.1, 0.9, 1.0), 4).why
    assert "a copy keeps a core busy (assumed)" in worth_starting(timing(0.99, 0.01, None), 8).why


def test_a_limit_ends_by_ticks_or_by_seconds():
    assert Limit(5).reached(5, 0.0)
    assert not Limit(5).reached(4, 99.0)
    assert Limit(None, 2.0).reached(0, 2.0)
    assert not Limit(None, 2.0).reached(10_000, 1.9)


@pytest.mark.slow
def test_logs_of_a_game_that_is_not_well_are_kept_where_the_error_says(tmp_path: Path, logs: Path):
    doctor(make_build(tmp_path, "Ball"), 2)
    assert list(logs.iterdir()) == []
    ended = doctor(make_build(tmp_path, "Ball", die_at=1, die_how="exit", words="Error: gone"))
    text = "\n".join(failed(ended).details)
    (kept,) = logs.iterdir()
    assert str(kept) in text
    assert "Error: gone" in (kept / "Player-0.log").read_text("utf-8")
