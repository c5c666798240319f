"""A game written as in Unity, with an agent, sensors and an academy: trains in it, then plays it in real time.

python own_game.py
"""

import palaestra
from palaestra import sdk


class Lander(sdk.Agent):
    """Falls, burns fuel against the fall, and should touch the ground slowly."""

    behavior = sdk.Behavior("Lander", observations=3, branches=2)
    decision_period = 1

    def on_episode_begin(self):
        self.height = self.academy.random.uniform(20, 40)
        self.speed, self.fuel = 0.0, 40

    def collect_observations(self, sensor):
        sensor.add(self.height / 40, self.speed / 10, self.fuel / 40)

    def on_action_received(self, actions):
        burns = actions.discrete[0] == 1 and self.fuel > 0
        self.fuel -= burns
        self.speed += (1.6 if burns else 0.0) - 0.8
        self.height += self.speed * 0.5
        if self.height <= 0:
            self.add_reward(1.0 if self.speed > -2 else max(-1.0, (self.speed + 2) / 10))
            self.end_episode()


@sdk.game
def land(academy):
    """Sixteen landers, each on its own."""
    for _ in range(16):
        academy.add(Lander())


if __name__ == "__main__":
    result = palaestra.train(env=land, max_steps=150_000, run_id="land", force=True)
    print(palaestra.evaluate(result, env=land, episodes=100, deterministic=True))
    palaestra.plot(result, out="own_game.png", force=True)
