"""A Gymnasium environment of your own with an image and a vector: trains in it, measures success, records a GIF.

python image_env.py
"""

import gymnasium
import numpy as np
from gymnasium import spaces

import palaestra

SIZE, PIXELS, MOST_STEPS = 6, 5, 30
MOVES = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])  # up, down, left, right


class Fetch(gymnasium.Env):
    """A walker sees a board from above, itself in blue and the coin in yellow, and how much time is left."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        board = spaces.Box(0, 255, (SIZE * PIXELS, SIZE * PIXELS, 3), np.uint8)
        self.observation_space = spaces.Dict({"board": board, "time": spaces.Box(0, 1, (1,), np.float32)})
        self.action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.walker, self.coin = self.np_random.integers(0, SIZE, (2, 2))
        self.age = 0
        return self.seen(), {}

    def step(self, action):
        before = np.abs(self.walker - self.coin).sum()
        self.walker = np.clip(self.walker + MOVES[action], 0, SIZE - 1)
        closer = before - np.abs(self.walker - self.coin).sum()
        self.age += 1
        found, late = bool((self.walker == self.coin).all()), self.age >= MOST_STEPS
        info = {"is_success": found} if found or late else {}
        return self.seen(), 1.0 if found else 0.1 * closer - 0.02, found, late, info

    def seen(self):
        board = np.full((SIZE, SIZE, 3), 30, np.uint8)
        board[tuple(self.coin)] = (240, 200, 60)
        board[tuple(self.walker)] = (70, 120, 220)
        board = board.repeat(PIXELS, 0).repeat(PIXELS, 1)
        return {"board": board, "time": np.float32([1 - self.age / MOST_STEPS])}

    def render(self):
        return self.seen()["board"].repeat(8, 0).repeat(8, 1)


if __name__ == "__main__":
    result = palaestra.train(env=Fetch, max_steps=40_000, run_id="fetch", force=True)
    evaluation = palaestra.evaluate(result, env=Fetch, episodes=100)
    print(f"mean reward {evaluation.mean:.2f}")
    palaestra.record(result, "fetch.gif", env=Fetch, areas=1, force=True)
