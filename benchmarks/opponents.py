"""Uniform and prioritized opponents: how far is each policy from one that nothing beats?

    python benchmarks/opponents.py bidding [--seeds 1 2 3] [--opponents uniform prioritized] [--set KEY=VALUE]
    python benchmarks/opponents.py tictactoe
    python benchmarks/opponents.py RingOut

Prints the exact exploitability of the snapshots of each run: what the best answer to the policy, which draws its moves
as it does when it learns, gets on average (wins less losses; the mean of both players). In RingOut, where it cannot be
computed, PPO goes on from the final policy against its frozen copy instead; the win rate of what it finds is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks/games"), str(ROOT / "tests/learning")]

import palaestra
from palaestra.runtime.settings import behavior_settings, load
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.networks import specs_of
from palaestra.runtime.storage.snapshots import SnapshotFiles
from palaestra.trainers.behavior_settings import trainer_class

bidding, board_games = import_module("bidding"), import_module("board_games")

CONFIGS = {
    "bidding": (ROOT / "benchmarks/games/bidding.yaml", "python:bidding:make"),
    "tictactoe": (ROOT / "benchmarks/games/tictactoe.yaml", "python:tictactoe:make"),
    "RingOut": (ROOT / "configs/ppo/RingOut.yaml", "builtin:RingOut"),
}
Chances = Callable[[torch.Tensor, torch.Tensor], np.ndarray]


def main() -> None:
    options = options_of()
    torch.set_num_threads(1)
    for seed in options.seeds:
        for opponents in options.opponents:
            print(json.dumps(measure(options, seed, opponents)), flush=True)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Returns the options of a command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", choices=CONFIGS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--opponents", nargs="+", default=["uniform", "prioritized"])
    parser.add_argument("--set", nargs="+", default=[], help="self_play settings, such as window=20")
    parser.add_argument("--beta", type=float, help="the entropy's weight, if it is not the file's")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--exploits", type=int, default=400_000, help="decisions of the exploiter in RingOut")
    parser.add_argument("--results", type=Path, default=Path("results/opponents"))
    parser.add_argument("--label", default="", help="after the names of the runs")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, seed: int, opponents: str) -> dict[str, Any]:
    """Trains one run and returns its figures."""
    file, env = CONFIGS[options.game]
    behavior = next(iter(load(file).settings.behaviors))
    given = load(file).settings.behaviors[behavior].self_play
    assert given is not None
    play: dict[str, Any] = {"opponents": [*given.brains, opponents]}
    for one in options.set:
        key, _, value = one.partition("=")
        place = play
        *above, key = key.split(".")
        for part in above:
            place = place.setdefault(part, {})
        place[key] = json.loads(value) if value[:1] in "0123456789[{tf" else value
    run = f"{options.game}-{opponents}{options.label}-{seed}"
    block: dict[str, Any] = {"self_play": play}
    if options.beta:
        block["hyperparameters"] = {"beta": options.beta}
    if options.steps:
        block |= {"max_steps": options.steps, "summary_freq": options.steps // 20}
    result = palaestra.train(
        file,
        env=env,
        settings={"behaviors": {behavior: block}},
        seed=seed,
        run_id=run,
        results_dir=str(options.results),
        force=True,
        quiet=True,
        threads=1,
    )
    found: dict[str, Any] = {"game": options.game, "opponents": opponents + options.label, "seed": seed}
    if options.game == "RingOut":
        return {**found, "exploiter": exploiter_rate(result.folder, options, seed)}
    snapshots = {
        step: exact(options.game, result.folder, behavior, step)
        for step in SnapshotFiles(result.folder).steps(behavior)
    }
    values = list(snapshots.values())
    return {
        **found,
        "final": round(values[-1], 4),
        "last 5": round(float(np.mean(values[-5:])), 4),
        "all": [round(v, 3) for v in values],
    }


def exact(game: str, folder: Path, behavior: str, step: int) -> float:
    """Returns the exploitability of a snapshot."""
    chances = policy_of(folder, behavior, step)
    if game == "bidding":

        def bids(states: list[Any], cards: int) -> np.ndarray:
            hands = torch.zeros(len(states), 2, cards, dtype=torch.bool)
            for i, (mine, theirs, _) in enumerate(states):
                hands[i, 0, list(mine)] = True
                hands[i, 1, list(theirs)] = True
            lead = torch.tensor([float(lead) for _, _, lead in states])
            return chances(bidding.encode(hands, lead), hands[:, 0])

        return bidding.exploitability(bids)

    def moves(boards: np.ndarray, turn: int) -> np.ndarray:
        seen = np.stack([boards == turn, (boards != turn) & (boards != 0)], 1).reshape(-1, 2, 3, 3)
        return chances(torch.from_numpy(seen.astype(np.float32)), torch.from_numpy(boards == 0))

    return (board_games.best_answer(moves, 1) + board_games.best_answer(moves, 2)) / 2


def policy_of(folder: Path, behavior: str, step: int) -> Chances:
    """Returns the probabilities with which a snapshot draws its one branch."""
    specs = specs_of(Checkpoints(folder / "checkpoints", 0).load())
    settings = behavior_settings(load(folder / "configuration.yaml").settings, behavior, specs)
    network: Any = trainer_class(settings.trainer_type).make_network(specs[behavior], settings)
    network.load_state_dict(SnapshotFiles(folder).load(behavior, step))
    network.eval()

    @torch.no_grad()
    def chances(obs: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
        output, _ = network.decide(network.prepare((obs,)), torch.zeros(len(obs), 0))
        return output.masked_fill(~mask, -torch.inf).softmax(1).double().numpy()

    return chances


def exploiter_rate(folder: Path, options: argparse.Namespace, seed: int) -> float:
    """Returns the win rate, a draw half, of a policy that begins with a run's final one and learns against that alone:
    of the last quarter of its decisions.
    """
    file, env = CONFIGS[options.game]
    model = next(folder.glob("*.onnx"))
    play = {"opponents": [str(model)], "play_against_opponents_ratio": 1.0, "team_change": 10**9, "save_steps": 10**8}
    block = {"self_play": play, "max_steps": options.exploits, "summary_freq": options.exploits // 4}
    found = palaestra.train(
        file,
        env=env,
        settings={"behaviors": {model.stem: block}},
        seed=seed,
        run_id=f"{folder.name}-exploiter",
        results_dir=str(options.results),
        initialize_from=folder.name,
        force=True,
        quiet=True,
        threads=1,
    )
    score = found.rewards[model.stem]  # from -1 to 1, of the last summary
    assert score is not None
    return round((1 + score) / 2, 4)


if __name__ == "__main__":
    main()
