"""Searches a learning rate, an entropy coefficient and a network size, then trains with the best.

python tune_settings.py
"""

import palaestra

SPACE = {
    "hyperparameters.learning_rate": {"log": [1e-4, 1e-2]},
    "hyperparameters.beta": {"log": [1e-4, 1e-2]},
    "network_settings.hidden_units": {"choice": [16, 32, 64]},
}

if __name__ == "__main__":
    found = palaestra.tune(env="gymnasium:CartPole-v1", search={"space": SPACE}, max_steps=20_000, trials=8, jobs=2)
    print(found)
    result = palaestra.train(found.best, run_id="tuned", force=True)
    print(palaestra.evaluate(result, episodes=50))
    found.plot().savefig("tune_settings.png", bbox_inches="tight")
