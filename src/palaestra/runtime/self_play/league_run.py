"""Plays the league of a run's folder and writes its files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from palaestra.core.errors import RunError
from palaestra.core.files import explain, write_whole
from palaestra.envs.base import Env
from palaestra.models.policy import NetworkPolicy
from palaestra.runtime.plots.chart_style import INK, SOFT, add_title, new_figure, save, short_number
from palaestra.runtime.self_play.league import Entry, League, Progress, play
from palaestra.runtime.self_play.opponent_policy import MixedPolicy
from palaestra.runtime.self_play.policy_snapshots import PolicySnapshots
from palaestra.runtime.settings import behavior_settings, load
from palaestra.runtime.storage.checkpoints import Checkpoints
from palaestra.runtime.storage.networks import must_fit, specs_of
from palaestra.runtime.storage.run_folder import CONFIGURATION
from palaestra.runtime.storage.snapshots import SnapshotFiles
from palaestra.runtime.storage.trust import must_be_trusted, network_code
from palaestra.scenario.standing import standing, standing_in_words
from palaestra.trainers.behavior_settings import trainer_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def run_league(
    run: Path,
    env: Env,
    most: int,
    games: int,
    *,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
    trust: bool = False,
) -> League:
    """Plays every snapshot of a run, or `most` of them evenly chosen, against every other. Behaviors without snapshots
    are played by their newest policies. Ctrl-C ends it early.

    Raises RunError, for example if networks need code that another user's folder names and `trust` is not given.
    """
    files = SnapshotFiles(run)
    named = load(run / CONFIGURATION, own_code=False).settings
    must_be_trusted(run, named, network_code(named), trust)
    settings = load(run / CONFIGURATION).settings
    checkpoint = Checkpoints(run / "checkpoints", 0).load()
    specs = specs_of(checkpoint)
    entries = [Entry(name, step) for name in specs for step in chosen(files.steps(name), most)]
    if not entries:
        raise RunError(f"{run} has no snapshots: a league is for behaviors that were trained with self_play")
    policies = {}
    for number, name in enumerate(specs):
        own = behavior_settings(settings, name, specs)

        def make(device: Any = None, trainer: str = own.trainer_type, name: str = name) -> nn.Module:
            network = trainer_class(trainer).make_network(specs[name], behavior_settings(settings, name, specs))
            return network.to(device or env.device)

        mine = {str(i): files.load(name, entry.step) for i, entry in enumerate(entries) if entry.behavior == name}
        state: Any = checkpoint.state[name]
        saved = mine or {"newest": state["trainer"].get("network", {})}
        misfit = f"the snapshots of '{name}' in {run} do not fit its settings and its checkpoint"
        network = _fitting(make, saved, misfit)
        generator = torch.Generator(env.device).manual_seed(seed + number)
        policy = NetworkPolicy(network, generator, own.network_settings.deterministic)
        snapshots = PolicySnapshots(network, make)
        snapshots.load_state_dict(mine)
        policies[name] = MixedPolicy(policy, snapshots, ())
    league = League(entries)
    try:
        play(env, policies, league, games, seed=seed, progress=progress)
    except KeyboardInterrupt as signal:
        if not league.games.any():
            raise
        league.stopped = getattr(signal, "number", 2)
    return league


def _fitting(make: Callable[[Any], nn.Module], snapshots: Mapping[str, Mapping[str, torch.Tensor]], what: str) -> Any:
    """Returns a network that takes all snapshots. Raises RunError, which begins with `what`."""
    try:
        for saved in snapshots.values():
            must_fit(lambda: make("meta"), saved)
        network = make(None)
        for saved in snapshots.values():
            network.load_state_dict(saved)
    except RuntimeError as error:
        raise RunError(f"{what}: {error}") from error
    return network


def chosen(steps: Sequence[int], most: int) -> list[int]:
    """Returns the first entry, the last, and evenly spaced entries between them."""
    if len(steps) <= most:
        return list(steps)
    return [steps[i] for i in np.unique(np.linspace(0, len(steps) - 1, most).round().astype(int))]


def write_league(league: League, run: Path) -> tuple[Path, Path]:
    """Writes `league.json` and `league.png` in the run's folder. Raises RunError."""
    table = run / "league.json"
    picture = run / "league.png"
    try:
        write_whole(table, json.dumps(as_json(league), indent=1).encode())
    except OSError as error:
        raise RunError(f"cannot write {table}: {explain(error)}") from error
    save(heat_map(league, run.resolve().name), picture)
    return table, picture


def as_json(league: League) -> dict[str, Any]:
    """Returns entries with their ratings, and the matrices, rows against columns; null for entries that never met."""
    names = dict.fromkeys(entry.behavior for entry in league.entries)
    return {
        "entries": [
            {"behavior": entry.behavior, "step": entry.step, "skill": skill.mean, "deviation": skill.deviation}
            for entry, skill in zip(league.entries, league.skills, strict=True)
        ],
        "games": league.games.tolist(),
        "wins": league.wins.tolist(),
        "draws": league.draws.tolist(),
        "rank_correlation": {name: _number(league.agreement(name)) for name in names},
        "last": {name: standing(league.standings(name)) for name in names},
    }


def heat_map(league: League, run: str = "") -> Figure:
    """Draws scores of rows against columns under the run's name: blue if the row wins, red if it loses."""
    from matplotlib.patches import Rectangle

    names = list(dict.fromkeys(entry.behavior for entry in league.entries))
    rows = [i for i, entry in enumerate(league.entries) if entry.behavior == names[0]]
    columns = [i for i, entry in enumerate(league.entries) if entry.behavior == names[-1]]
    scores = league.scores[np.ix_(rows, columns)]
    side = max(4.0, 0.5 * max(scores.shape) + 1.5)
    figure = new_figure(side + 1.0, side, 140)
    axes = figure.add_subplot()
    axes.imshow(scores, cmap="RdBu", vmin=0.0, vmax=1.0)
    for (i, j), score in np.ndenumerate(scores):
        if not np.isnan(score):
            color = "white" if abs(score - 0.5) > 0.35 else INK
            axes.text(j, i, f"{100 * score:.0f}", ha="center", va="center", fontsize=8, color=color)
    across, down = ([short_number(league.entries[i].step) for i in shown] for shown in (columns, rows))
    axes.set_xticks(range(len(columns)), across, rotation=60, fontsize=8, color=SOFT)
    axes.set_yticks(range(len(rows)), down, fontsize=8, color=SOFT)
    below = f"{names[-1]} at step"
    if words := standing_in_words(standing(league.standings(names[0]))):
        below += f"\n\nThe last {words} (framed)"
        frame = {"fill": False, "edgecolor": INK, "linewidth": 1.6, "clip_on": False}
        axes.add_patch(Rectangle((np.nanargmin(scores[-1]) - 0.5, len(rows) - 1.5), 1, 1, **frame))
    axes.set_xlabel(below, fontsize=9, color=SOFT)
    axes.set_ylabel(f"{names[0]} at step", fontsize=9, color=SOFT)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    add_title(axes, run or "League", ("score of the row against the column, in percent",))
    return figure


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
