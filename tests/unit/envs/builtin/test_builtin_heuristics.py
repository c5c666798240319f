import pytest
import torch

import palaestra
from palaestra.envs.wrapper import EnvWrapper
from palaestra.runtime.play.brain_assignment import BrainAssignment, BrainSpec
from palaestra.runtime.play.evaluation import play, results
from palaestra.runtime.play.players import Players


def returns(name: str, parameters: dict[str, float] | None = None, episodes: int = 60):
    env = palaestra.make(name, areas=30)
    env.set_parameters({key: torch.full((30,), value) for key, value in (parameters or {}).items()})
    players = Players(env, BrainAssignment([BrainSpec("heuristic")], env).brain, lambda agents: episodes)
    play(env, players, 1)
    return results(players)[name].returns


@pytest.mark.parametrize(("name", "least"), [("3DBall", 99.9), ("3DBallHard", 99.9), ("Basic", 0.929)])
def test_the_rules_of_the_built_in_environments_never_fail(name: str, least: float):
    assert returns(name).min() > least


@pytest.mark.parametrize(
    "parameters", [{}, {"gridSize": 10.0, "numPlusGoals": 3.0, "numExGoals": 4.0}, {"gridSize": 3.0}]
)
def test_the_way_on_the_board_leads_to_a_wanted_goal_wherever_there_is_one(parameters: dict[str, float]):
    found = returns("GridWorld", parameters, 200)
    assert (found > 0.7).mean() > 0.97


def test_they_have_rules_for_their_own_behavior_alone_and_know_how_long_a_tick_is():
    for name in ("3DBall", "3DBallHard", "Basic", "GridWorld"):
        env = EnvWrapper.of(palaestra.make(name, areas=1))
        env.reset(0)
        assert env.traits.has_heuristic
        assert env.traits.timed
        assert env.heuristic("Other") is None
    assert palaestra.make("3DBall", areas=1).tick_seconds == pytest.approx(0.1)


def test_gymnasium_knows_how_long_a_tick_is_where_it_says_so():
    assert palaestra.make("gymnasium:CartPole-v1", areas=1).tick_seconds == pytest.approx(0.02)
    assert palaestra.make("gymnasium:Pendulum-v1", areas=1).tick_seconds == pytest.approx(1 / 30)
