"""Plays models, several steps or runs side by side, and films them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from palaestra.brains.model import Policy
from palaestra.core.display import escaped, readable
from palaestra.core.errors import ConfigError, EnvError, RunError
from palaestra.core.files import MODEL_FILES, file_to_write
from palaestra.core.timestep import TimeStep
from palaestra.envs.base import Env
from palaestra.envs.builtin.base.env import WarpEnv
from palaestra.envs.builtin.drawing.raycast import picture_of
from palaestra.envs.spaces.option_names import OF_RUN
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import closing_safely
from palaestra.runtime.curriculum.parameters import with_parameters
from palaestra.runtime.environments.custom_envs import as_env
from palaestra.runtime.environments.make import DRAWN, is_game
from palaestra.runtime.play.evaluation import model_brains
from palaestra.runtime.play.players import Players
from palaestra.runtime.play.run_models import (
    Models,
    env_name,
    find_models,
    models_by_step,
    open_for,
    parameters_of,
    place_beside,
    run_folder,
    split_step,
)
from palaestra.runtime.playback.tally import Tally
from palaestra.runtime.recording.finished_recording import Recording
from palaestra.runtime.recording.panels import Panel, Picture, columns_of, compose, tile
from palaestra.runtime.recording.video_files import check_format, write_recording

AREAS = 4
WIDTH, PANEL_WIDTH = 640, 320  # pixels: of a single panel, and of each of several
FINER = 1.25
"""Factor by which built-in environments are drawn larger than the picture, so that edges are smooth."""
MOST_PANELS = 16
USUAL_FPS, MOST_GIF_FPS, MOST_VIDEO_FPS = 10, 30, 60
"""Pictures a second if the environment has no time scale, and most pictures a second in real time, for a GIF and for a
video."""


@dataclass(frozen=True, slots=True)
class Film:
    """How a recording is made."""

    areas: int | None = None
    """Areas of each panel; None: 4 of a built-in environment, else 1, and 1 if there are several panels."""
    seconds: float = 8.0
    """Length of the recording in seconds."""
    episodes: int | None = None
    """Episodes of each agent after which the recording ends; None: no limit."""
    fps: float | None = None
    """Pictures a second; None: real time if the environment's ticks have a duration, else 10."""
    width: int | None = None
    """Width in pixels; None: 640 for a single panel, else 320 for each."""
    sampled: bool = False
    """Whether actions are sampled, as in training."""
    seed: int = 0
    """Seed of the environments and of sampled actions."""
    titles: bool = True
    """Whether titles and rewards are drawn into the picture."""
    title: str | None = None
    """Title in place of the run's name."""
    force: bool = False
    """Whether an existing file is overwritten."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the environment, which override the run's."""
    every: int = 1
    """Decisions from one picture to the next."""

    def __post_init__(self) -> None:
        ends = {"areas": (1, 100), "seconds": (0.1, 600), "episodes": (1, math.inf), "seed": (0, math.inf)}
        ends |= {"fps": (1, 60), "width": (32, 4096)}
        for flag, (least, most) in ends.items():
            value = getattr(self, flag)
            if value is not None and not least <= value <= most:
                span = f"{least:g} to {most:g}" if most < math.inf else f"at least {least}"
                raise ConfigError(f"--{flag} is {value:g}; expected {span}")


@dataclass(frozen=True, slots=True)
class FilmSource:
    """The models of one panel."""

    models: Models
    title: str


def record_film(
    runs: Sequence[str],
    out: Path | None,
    film: Film,
    *,
    steps: Sequence[int] = (),
    env: object | None = None,
    results: Path = Path("results"),
    trust: bool = False,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
) -> Recording:
    """Records a GIF, or an MP4 or WebM video, by the suffix of `out`; `flags` are for Unity games, which are refused.
    `env`: a name, or a program's environment, or a function that makes one. Raises ConfigError, RunError, EnvError,
    PolicyError, and PluginError if the package for videos is missing."""
    sources, notes = find_sources(runs, steps, results, trust=trust)
    out = file_to_write(out, out or _usual_place(runs, sources), force=film.force)
    return film_sources(sources, out, film, env, flags, notes)


def film_sources(
    sources: Sequence[FilmSource],
    out: Path,
    film: Film,
    env: object | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
) -> Recording:
    """Records these models side by side, as `record_film` does; adds `notes` to the recording's notes."""
    notes = list(notes)
    check_format(out, film.fps or 1)
    names = [env_name(source.models, env) if env is None or isinstance(env, str) else "python:" for source in sources]
    if game := next((name for name in names if is_game(name)), None):
        if game.endswith(".py"):
            raise EnvError(
                f"{game} plays in a process of its own, which gives no pictures: record it with "
                f"--env=python:{Path(game).stem}:FACTORY"
            )
        raise EnvError(
            f"{game} is a Unity game, which draws in its own window only: watch it there with 'palaestra learn "
            "--run-id=ID --inference --time-scale=1', and record the screen"
        )
    if film.title is not None:
        sources = [
            replace(source, title=film.title if len(sources) == 1 else f"{film.title} {source.title}")
            for source in sources
        ]
    areas = AREAS if len(sources) == 1 and not names[0].startswith(DRAWN) else 1
    width = film.width or (WIDTH if len(sources) == 1 else PANEL_WIDTH * len(sources))
    is_ours = True
    with ExitStack() as stack:
        playing = []
        for source, name in zip(sources, names, strict=True):
            options = {**film.options, **({"render": True} if name.startswith(DRAWN) else {})}
            if env is None or isinstance(env, str):
                opened = open_for(source.models, env, film.areas, areas, film.seed, flags=flags, options=options)
            else:
                wanted = film.areas or (areas if callable(env) else None)
                forms, lessons = parameters_of(source.models, options)
                options = {**(options if callable(env) else {}), OF_RUN: tuple(forms)}
                made, is_ours = as_env(env, wanted, "cpu", options)
                opened = with_parameters(EnvWrapper.of(made), forms, lessons, film.seed)
            if is_ours:
                stack.enter_context(closing_safely(opened, f"the environment of {source.title}", notes.append))
            film = in_real_time(film, opened, out)
            shown = film.areas or areas
            policies = source.models.policies(film.seed)
            playing.append(scenes(opened, policies, film, source.title, shown=shown, width=width // len(sources)))
        pictures = (partial(_picture, frame, titles=film.titles) for frame in _together(playing))
        count = write_recording(out, pictures, width, film.fps or USUAL_FPS)
    return Recording(out, count, count / (film.fps or USUAL_FPS), out.stat().st_size, tuple(notes))


def in_real_time(film: Film, env: EnvWrapper, out: Path) -> Film:
    """Returns a film with a number of pictures per second: the film's own number, else one from the environment's time
    (fewer if the format needs it), else the default."""
    if film.fps is not None:
        return film
    rate = max(1.0, 1 / env.tick_seconds) if env.tick_seconds else USUAL_FPS
    every = math.ceil(round(rate / (MOST_GIF_FPS if out.suffix.lower() == ".gif" else MOST_VIDEO_FPS), 3))
    return replace(film, fps=rate / every, every=every)


def _picture(frame: Sequence[Panel], width: int, *, titles: bool) -> Any:
    return compose(frame, width, titles=titles)


def find_sources(
    runs: Sequence[str], steps: Sequence[int], results: Path, *, trust: bool = False
) -> tuple[list[FilmSource], list[str]]:
    """Returns the models of all panels, and notes about steps without a model, for which the nearest are taken."""
    sources = []
    notes = []
    for run in runs:
        if not steps:
            models = find_models(run, results, trust)
            name, step = split_step(run, results)
            which = "" if step is None else f" step {step:,}" if isinstance(step, int) else f" {step}"
            sources.append(FilmSource(models, Path(name).name + which))
            continue
        for step, there in nearest_steps(run, steps, results).items():
            if there != step:
                notes.append(f"{run} has no model of step {step:,}: the nearest is of step {there:,}")
            sources.append(
                FilmSource(
                    find_models(run, results, trust, there),
                    f"{Path(run).name + ' ' if len(runs) > 1 else ''}step {there:,}",
                )
            )
    if len(sources) > MOST_PANELS:
        raise ConfigError(f"{len(sources)} panels requested; expected at most {MOST_PANELS} runs and steps together")
    return sources, notes


def nearest_steps(run: str, steps: Sequence[int], results: Path) -> dict[int, int]:
    """Returns the nearest step with a model for each step. Raises RunError if two steps have the same nearest model."""
    if run.endswith(MODEL_FILES) or split_step(run, results)[1] is not None:
        raise RunError(f"{run} names one step, and --steps chooses several steps of a run: name the run alone")
    folder = run_folder(run, results)
    there = sorted({at for name in find_models(run, results).files for at in models_by_step(folder, name)})
    if not there:
        raise RunError(
            f"the run '{folder.run_id}' has no models of earlier steps: keep_checkpoints and checkpoint_interval keep "
            "them"
        )
    found = {step: min(there, key=lambda at: abs(at - step)) for step in steps}
    if len(set(found.values())) < len(found):
        raise RunError(
            f"the run '{folder.run_id}' has too few models for --steps {','.join(map(str, steps))}: it has those of "
            f"the steps {', '.join(map(str, there))} (checkpoint_interval and keep_checkpoints say how many it keeps)"
        )
    return found


def _usual_place(runs: Sequence[str], sources: Sequence[FilmSource]) -> Path:
    """Returns the default file to write. Raises RunError for links out of someone else's folder."""
    if len(runs) > 1:
        return Path("recording.gif")
    folder = place_beside(sources[0].models)
    return Path(f"{Path(runs[0]).stem}.gif") if folder is None else folder / "recording.gif"


def scenes(
    env: Env, policies: Mapping[str, Policy], film: Film, title: str = "", shown: int = AREAS, width: int = WIDTH
) -> Iterator[Panel]:
    """Yields a panel before each decision, or every few decisions, until every agent has played or time is over."""
    shown = min(env.num_areas, shown)
    finer = round(FINER * width / columns_of(shown))

    def panel() -> Panel:
        pictures = [drawn(env, area, finer) for area in range(shown)]
        return Panel(tile(pictures), escaped(title), reward_text(tally, steps))

    tally = Tally(shown)
    steps = env.reset(film.seed)
    tally.note(steps, first=True)
    yield panel()
    brains = model_brains(env, policies, deterministic=not film.sampled)
    players = Players(env, brains, lambda agents: (film.episodes or 10**9) * agents, shown)
    players.note(steps)
    for decision in range(1, math.ceil(film.seconds * (film.fps or USUAL_FPS) * film.every)):
        steps = env.step(players.act(steps))
        players.note(steps)
        tally.note(steps)
        if decision % film.every == 0 or players.done:
            yield panel()
        if players.done:
            return


def drawn(env: Env, area: int, width: int) -> Picture:
    """Returns a picture of an area; for a built-in environment it is about `width` pixels wide."""
    own = EnvWrapper.of(env).unwrapped
    if getattr(type(own), "render", None) is not WarpEnv.render:
        return env.render(area)
    return picture_of(own.drawing(np.array([area])), width)


def _together(playing: Sequence[Iterator[Panel]]) -> Iterator[list[Panel]]:
    """Yields the panels of all recordings until the last one ends; an ended one shows its last picture."""
    last: list[Panel] = []
    while True:
        now = [next(scene, None) for scene in playing]
        if all(panel is None for panel in now):
            return
        last = [panel or last[i] for i, panel in enumerate(now)]
        yield last


def reward_text(tally: Tally, steps: Mapping[str, TimeStep]) -> str:
    """Returns the mean reward of ended episodes, else of open ones; between two teams, the games won."""
    texts = []
    for name, returns in tally.returns.items():
        scores = [score for (behavior, _), score in sorted(tally.scores.items()) if behavior == name]
        begins = f"{escaped(name)} " if len(tally.returns) > 1 else ""
        if len(scores) == 2 and any(score.won for score in scores):
            texts.append(f"{begins}won {scores[0].won} : {scores[1].won}")
            continue
        episodes = sum(score.episodes for score in scores)
        if episodes:
            recent = [value for score in scores for value in score.recent]
            count = f"{episodes} episode{'' if episodes == 1 else 's'}"
            texts.append(f"{begins}reward {readable(sum(recent) / len(recent), 2)} ({count})")
            continue
        acting = steps[name].acting.cpu().numpy() if name in steps else returns != 0
        if name in steps and tally.areas is not None:
            acting = acting & (steps[name].area.cpu().numpy() < tally.areas)
        if acting.any():
            texts.append(f"{begins}reward so far {readable(float(returns[: len(acting)][acting].mean()), 2)}")
    return "  ".join(texts)
