"""Two teams in a game of your own, whose copies run on all machines of a Ray cluster.

python teams_on_ray.py                        starts Ray on this machine for the time of the run
python teams_on_ray.py --address HOST:6379    uses a cluster; each machine needs this file and Palaestra
"""

import argparse

import palaestra
from palaestra import sdk


class Runner(sdk.Agent):
    """Walks, runs or sprints with strength that comes back slowly, and sees how far the other is ahead."""

    decision_period = 1

    def __init__(self, team):
        self.behavior = sdk.Behavior("Race", observations=3, branches=3, team=team)

    def on_episode_begin(self):
        self.place, self.strength, self.step = 0, 8, 0

    def collect_observations(self, sensor):
        sensor.add(self.strength / 8, (self.other.place - self.place) / 8, self.step / 20)

    def on_action_received(self, actions):
        pace, cost = actions.discrete[0], (-1, 1, 3)[actions.discrete[0]]
        if cost <= self.strength:  # who is exhausted stands still
            self.place += pace
            self.strength = min(8, self.strength - cost)
        self.step += 1


@sdk.game
def race(academy):
    """Eight races of two; who is ahead after 20 steps has won."""
    races = [(academy.add(Runner(0)), academy.add(Runner(1))) for _ in range(8)]
    for one, two in races:
        one.other, two.other = two, one

    def judge():
        for one, two in races:
            won = float((one.place > two.place) - (one.place < two.place))
            for runner, reward in ((one, won), (two, -won)) if one.step == 20 else ():
                runner.add_reward(reward)
                runner.end_episode()

    academy.on_step(judge)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", help="HOST:PORT of a cluster; default: this machine alone")
    address = parser.parse_args().address
    where = {"num_envs": 4, "env_runners": 2, **({"ray_address": address} if address else {})}
    run = {"max_steps": 100_000, "settings": {"self_play": {"save_steps": 10_000}}, "run_id": "race", "force": True}
    result = palaestra.train(env="python:teams_on_ray:race", **run, **where)
    palaestra.plot(result, metric=["Cumulative Reward", "ELO"], out="teams_on_ray.png", force=True)
