"""Plays a trained policy in a loop of your own, with NumPy and without PyTorch, as a game or a robot would.

python policy_in_a_loop.py
"""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image

import palaestra

MODEL = Path("results/loop/CartPole-v1.onnx")

if __name__ == "__main__":
    if not MODEL.exists():  # the training imports PyTorch, so it has a process of its own
        learn = ["learn", "--env=gymnasium:CartPole-v1", "--stop-at=450", "--run-id=loop"]
        subprocess.run([sys.executable, "-m", "palaestra", *learn], check=True)
    policy = palaestra.load_policy(MODEL)
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    obs, _ = env.reset(seed=1)
    pictures, steps, over = [], 0, False
    while not over:
        action, _ = policy.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = env.step(action)
        over, steps = terminated or truncated, steps + 1
        if steps % 4 == 0 and len(pictures) < 60:
            pictures.append(Image.fromarray(np.asarray(env.render())).resize((300, 200)))
    print(f"the pole stood for {steps} steps; PyTorch was {'' if 'torch' in sys.modules else 'not '}imported")
    pictures[0].save("policy_in_a_loop.gif", save_all=True, append_images=pictures[1:], duration=80, loop=0)
