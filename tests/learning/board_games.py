"""Plays a model in PettingZoo's board games against a player that moves at random, in PettingZoo's own loop."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np

import palaestra


def outcomes(model: Path, game: str, games: int, seed: int, *, deterministic: bool = True) -> dict[str, int]:
    """Counts wins, draws and losses of the model, which is the first player in every other game."""
    policy = palaestra.load_policy(model, seed=seed)
    rng = np.random.default_rng(seed)
    env = import_module(f"pettingzoo.classic.{game}.{game}").env()
    counts = {"won": 0, "drawn": 0, "lost": 0}
    for number in range(games):
        env.reset(seed=seed + number)
        mine = env.possible_agents[number % 2]
        result = 0.0
        for agent in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            if terminated or truncated:
                result += reward if agent == mine else 0
                env.step(None)
                continue
            mask = obs["action_mask"].astype(bool)
            if agent == mine:
                board = np.moveaxis(obs["observation"], -1, 0)[None].astype(np.float32)
                action = int(policy.act(board, action_mask=mask[None], deterministic=deterministic).discrete[0, 0])
            else:
                action = int(rng.choice(np.flatnonzero(mask)))
            env.step(action)
        counts["won" if result > 0 else "lost" if result < 0 else "drawn"] += 1
    return counts


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
"""Rows, columns and diagonals of tic-tac-toe; PettingZoo numbers its squares column by column."""


def lost_positions(model: Path, mine: int) -> int:
    """Counts the positions in which tic-tac-toe is lost, over all games against the model's best moves. `mine`: 1 if it
    begins, else 2.
    """
    policy = palaestra.load_policy(model, seed=0)
    boards = {(0,) * 9}
    turn = 1
    lost = 0
    while boards:
        moves = [(board, square) for board in boards for square in range(9) if not board[square]]
        if turn == mine:
            rows = sorted(boards)
            board = np.array(rows)
            obs = np.stack([board == mine, (board != mine) & (board != 0)], 1).reshape(-1, 2, 3, 3).astype(np.float32)
            chosen = policy.act(obs, action_mask=board == 0, deterministic=True).discrete[:, 0].tolist()
            moves = list(zip(rows, chosen, strict=True))
        after = {tuple(turn if i == square else value for i, value in enumerate(board)) for board, square in moves}
        won = {board for board in after if any(board[a] == board[b] == board[c] == turn for a, b, c in LINES)}
        lost += len(won) if turn != mine else 0
        boards = {board for board in after - won if 0 in board}
        turn = 3 - turn
    return lost


Moves = Callable[[np.ndarray, int], np.ndarray]
"""Returns the probability of each square (N, 9), given boards (N, 9) with 1 and 2 for the players, and who moves."""


def best_answer(policy: Moves, mine: int) -> float:
    """Returns what the best answer to a policy in tic-tac-toe gets on average: wins less losses. `mine`: 1 if the
    policy begins, else 2. By dynamic programming over all positions, the fullest first.
    """
    layers: list[set[tuple[int, ...]]] = [{(0,) * 9}]
    for moved in range(9):
        turn = moved % 2 + 1
        after = {
            (*board[:i], turn, *board[i + 1 :])
            for board in layers[-1]
            if not won(board, 3 - turn)
            for i in range(9)
            if not board[i]
        }
        layers.append(after)
    worth: dict[tuple[int, ...], float] = {}
    for moved in range(9, -1, -1):
        turn = moved % 2 + 1
        boards = sorted(layers[moved])
        ended = {board: (-1.0 if turn != mine else 1.0) for board in boards if won(board, 3 - turn)}
        going = [board for board in boards if board not in ended]
        drawn = {board: 0.0 for board in going if 0 not in board}
        going = [board for board in going if 0 in board]
        chances = policy(np.array(going), turn) if turn == mine and going else np.zeros((len(going), 9))
        for board, chance in zip(going, chances, strict=True):
            after = {i: worth[(*board[:i], turn, *board[i + 1 :])] for i in range(9) if not board[i]}
            drawn[board] = sum(chance[i] * w for i, w in after.items()) if turn == mine else max(after.values())
        worth |= ended | drawn
    return worth[(0,) * 9]


def won(board: tuple[int, ...], player: int) -> bool:
    """Whether a player has a line."""
    return any(board[a] == board[b] == board[c] == player for a, b, c in LINES)
