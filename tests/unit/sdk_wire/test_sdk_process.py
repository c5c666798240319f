"""A game as a process is the same game as in this process: the same observations, rewards, ends, masks and groups for
the same actions.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import UUID

import pytest
import sdk_games
import torch
from unity_play import MessageLog

from palaestra.core.errors import EnvError
from palaestra.core.timestep import Action, TimeStep
from palaestra.envs.base import Env
from palaestra.envs.unity.env import UnityEnv
from palaestra.envs.unity.options import UnityOptions
from palaestra.wire.unity_channels import Engine, RawBytes

GAMES = Path(sdk_games.__file__)
TICKS = 70


@contextmanager
def as_process(kind: str, *channels: RawBytes, areas: int = 1, **options: object) -> Iterator[UnityEnv]:
    log = MessageLog()
    chosen = UnityOptions(executable=str(GAMES), args=("--kind", kind), areas=areas, **options)  # pyright: ignore[reportArgumentType]
    with closing(UnityEnv(chosen, channels, log)) as env:
        yield env
        assert not log.warnings


def choose(steps: Mapping[str, TimeStep], env: Env, generator: torch.Generator) -> dict[str, Action]:
    """By slot, among what is allowed."""
    actions = {}
    for name, step in steps.items():
        spec = env.behaviors[name].action
        slots = len(step.reward)
        masks = [] if step.action_mask is None else step.action_mask.float().split(spec.branches, 1)
        discrete = [torch.multinomial(mask, 1, generator=generator)[:, 0] for mask in masks]
        actions[name] = Action(
            torch.rand(slots, spec.continuous, generator=generator) * 2 - 1,
            torch.stack(discrete, 1) if discrete else torch.zeros(slots, 0, dtype=torch.int64),
        )
    return actions


def same(one: TimeStep, other: TimeStep) -> None:
    """All but the areas, which are copies of the process there."""
    for name in ("acting", "reward", "group_reward", "terminated", "truncated", "team"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0)
    for column, of_other in zip(one.obs, other.obs, strict=True):
        torch.testing.assert_close(column[one.acting], of_other[one.acting], rtol=0, atol=0)
    assert one.final_obs.slots.tolist() == other.final_obs.slots.tolist()
    for column, of_other in zip(one.final_obs.obs, other.final_obs.obs, strict=True):
        torch.testing.assert_close(column, of_other, rtol=0, atol=0)
    if one.action_mask is not None and other.action_mask is not None:
        assert one.action_mask[one.acting].tolist() == other.action_mask[one.acting].tolist()
    assert (one.action_mask is None) == (other.action_mask is None)
    assert mates(one) == mates(other)


def mates(step: TimeStep) -> list[int]:
    """Of each slot that acts the first slot of its group, -1: none."""
    groups = step.group[step.acting].tolist()
    return [-1 if group < 0 else groups.index(group) for group in groups]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("kind", "areas"), [(kind, 1) for kind in sdk_games.GAMES] + [("hybrid", 3), ("group", 2), ("duel", 2)]
)
def test_the_same_actions_have_the_same_outcome_in_process_and_as_a_process(kind: str, areas: int):
    here = sdk_games.GAMES[kind](areas)
    with as_process(kind, areas=areas) as there:
        ours = here.reset(7)
        theirs = there.reset(7)
        ends = 0
        generator = torch.Generator().manual_seed(2)
        for _ in range(TICKS):
            assert ours.keys() == theirs.keys()
            for name in ours:
                assert here.behaviors[name] == there.behaviors[name]
                same(ours[name], theirs[name])
                ends += len(ours[name].final_obs.slots)
            actions = choose(ours, here, generator)
            ours = here.step(actions)
            theirs = there.step(actions)
        assert ends > 0
        assert [(each.name, each.value) for each in here.take_measurements()] == [
            (each.name, pytest.approx(each.value)) for each in there.take_measurements()
        ]


def test_a_reset_by_the_trainer_begins_new_episodes():
    with as_process("continuous") as env:
        first = env.reset(1)["Continuous"]
        for _ in range(3):
            env.step({"Continuous": Action(torch.ones(1, 1), torch.zeros(1, 0, dtype=torch.int64))})
        again = env.reset(1)["Continuous"]
        assert float(first.obs[0][0, 0]) == float(again.obs[0][0, 0]) == 0.0
        assert len(again.final_obs.slots) == 0


def test_a_trainer_of_one_build_starts_several_copies():
    with as_process("discrete", copies=2) as env:
        step = env.reset(1)["Discrete"]
        while len(step.area) < 2:
            slots = len(step.area)
            step = env.step({"Discrete": Action(torch.zeros(slots, 0), torch.zeros(slots, 2, dtype=torch.int64))})[
                "Discrete"
            ]
        assert sorted(step.area.tolist()) == [0, 1]


TALKATIVE = """
from palaestra import sdk
from palaestra.sdk.protocol.game_channels import FloatProperties, RawBytes

ID = "621f0a70-4f87-11ea-a6bf-784f4387d1f7"

class Teller(sdk.Agent):
    behavior = sdk.Behavior("Teller", observations=4, continuous=1)
    decision_period = 1

    def collect_observations(self, sensor):
        parameters, engine = self.academy.environment_parameters, self.academy.engine
        heard = b"".join(self.academy.side_channels[0].take())
        self.academy.side_channels[0].send_raw_data(b"heard " + heard)
        sensor.add(parameters.get_with_default("gravity", -1.0), parameters.get_with_default("drawn", -1.0),
                   engine.time_scale, engine.target_frame_rate)

    def on_action_received(self, actions):
        self.academy.stats_recorder.add("Game/Action", actions.continuous[0])

@sdk.game
def talkative(academy):
    academy.side_channels.append(RawBytes(ID))
    academy.add(Teller())

if __name__ == "__main__":
    talkative.play()
"""


def test_parameters_engine_settings_stats_and_own_channels_arrive(tmp_path: Path):
    file = tmp_path / "talkative.py"
    file.write_text(TALKATIVE)
    channel = RawBytes(UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7"))
    options = UnityOptions(executable=str(file), engine=Engine(time_scale=3.5, target_frame_rate=30))
    with closing(UnityEnv(options, [channel], MessageLog())) as env:
        env.set_parameters({"gravity": torch.tensor([9.5])})
        channel.send_raw_data(b"hello")
        (seen,) = env.reset(0)["Teller"].obs[0].tolist()
        assert seen == [9.5, -1.0, 3.5, 30.0]
        assert channel.take() == [b"heard hello"]
        env.step({"Teller": Action(torch.full((1, 1), 0.25), torch.zeros(1, 0, dtype=torch.int64))})
        assert [(each.name, each.value, each.kind) for each in env.take_measurements()] == [
            ("Game/Action", 0.25, "mean")
        ]


FAULTY = """
from palaestra import sdk

class Faulty(sdk.Agent):
    behavior = sdk.Behavior("Faulty", observations=1, continuous=1)

    def collect_observations(self, sensor):
        sensor.add(1.0 / 0.0)

@sdk.game
def faulty(academy):
    academy.add(Faulty())

if __name__ == "__main__":
    faulty.play()
"""


def test_an_error_in_a_game_is_reported_by_the_trainer(tmp_path: Path):
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    with (
        closing(UnityEnv(UnityOptions(executable=str(file)), (), MessageLog())) as env,
        pytest.raises(EnvError) as error,
    ):
        env.reset(0)
    assert "exited with code 1" in str(error.value)
    assert f"{file}" in str(error.value)
    assert (
        "behavior 'Faulty', agent 0 (Faulty): collect_observations raised ZeroDivisionError: float division by zero"
        in str(error.value)
    )


def test_a_game_needs_neither_torch_nor_warp():
    code = (
        "import sys, sdk_games, palaestra.sdk.protocol.client; print([m for m in ('torch', 'warp', 'onnx') if m in "
        "sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=GAMES.parent)
    assert result.stdout.strip() == "[]"
