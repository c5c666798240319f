"""Finds the models of a run, and opens the environment in which they were trained."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from palaestra.brains.model import Policy, load_policy
from palaestra.core.errors import ConfigError, EnvError, PalaestraError, RunError
from palaestra.core.files import MODEL_FILES, best_file, file_name, near_files
from palaestra.envs.spaces.option_names import OF_RUN as PARAMETERS
from palaestra.envs.wrapper import EnvWrapper
from palaestra.hub.contents import models
from palaestra.hub.hub_names import is_hub_name, read_name
from palaestra.runtime.control.progress_file import of_program
from palaestra.runtime.curriculum.parameters import invalid_values, with_parameters
from palaestra.runtime.environments.make import EDITOR, NO_OPTIONS, guarded, is_game, make_env
from palaestra.runtime.logging.waiting import WaitingNotice, on_stderr
from palaestra.runtime.settings import RunSettings, load
from palaestra.runtime.showing.live_models import LiveModels
from palaestra.runtime.storage.run_folder import CONFIGURATION, RunFolder, tensorflow_run
from palaestra.runtime.storage.status import TrainingStatus
from palaestra.runtime.storage.trust import env_code, must_be_trusted, must_stay_inside
from palaestra.runtime.storage.writer_lock import is_written
from palaestra.scenario.settings import Parameter

Log = Callable[[str, str], None]
"""Takes a level ('info' or 'warning') and a message of a Unity game."""
BEST = "best"
"""Word in place of a step: the best models, which `keep_best` keeps."""
AT_STEP = re.compile(rf"(?P<run>.+)@(?P<step>\d+|{BEST})")
"""Pattern for a run's models of one step, as `first@500000`, or its best models."""
OF_RUN = re.compile(r"-(\d+|best)$")
"""End of a model's file name that does not belong to its behavior's name."""


@dataclass(frozen=True, slots=True)
class Models:
    """Model files, and the settings of their run if they have one."""

    files: Mapping[str, Path]  # by behavior
    settings: RunSettings | None
    run: str
    lessons: Mapping[str, int] = field(default_factory=dict)
    """The run's present lesson of each environment parameter."""
    folder: Path | None = None
    """The run's folder, which has its settings; None without a run."""
    trust: bool = False
    """Whether the run's environment may be opened although another user wrote its folder."""

    def policies(self, seed: int | None = None) -> dict[str, Policy]:
        """Returns the policies, ready to act."""
        return {name: load_policy(file, seed=seed) for name, file in self.files.items()}


def run_folder(run: str, results: Path) -> RunFolder:
    """Returns the folder of a run given by name or path. Raises RunError, which suggests similar names."""
    path = Path(run)
    is_path = path.is_dir() and (len(path.parts) > 1 or not (results / run).is_dir())
    folder = RunFolder(path.parent, path.name) if is_path else RunFolder(results, run)
    folder.must_exist("open")
    return folder


def place_beside(models: Models | None) -> Path | None:
    """Returns the run's folder, for files about its models; None without models, or if they are not in a run on this
    machine.

    Raises RunError for links that lead out of a folder of someone else.
    """
    if models is None or models.folder is None or is_hub_name(models.run):
        return None
    must_stay_inside(models.folder, models.trust)
    of_file = models.run.endswith(MODEL_FILES) and not Path(models.run).is_absolute()  # whose folder is absolute
    return Path(os.path.relpath(models.folder)) if of_file else models.folder


def find_models(run: str, results: Path, trust: bool = False, step: int | str | None = None) -> Models:
    """Finds the newest model of each behavior of a run, or the models of `step` or RUN@STEP (also 'best'), or a single
    model file. Runs no code. Raises RunError.

    `hub:user/repository` is a run on the Hub, whose settings and models are downloaded. A model file in a run's folder
    is played in the run's environment; other behaviors of the run play their newest models. `trust`: the environment
    may be opened even if someone else wrote the run's folder.
    """
    step = int(step) if isinstance(step, str) and step.isdecimal() else step
    if step != BEST and (isinstance(step, str) or (step or 0) < 0):
        raise ConfigError(
            f"--step is {step}; expected '{BEST}' or a count of decisions, such as those in the names of a run's models"
        )
    if is_hub_name(run):
        return _of_hub(run, trust, step)
    if run.endswith(MODEL_FILES):
        if step is not None:
            raise RunError(f"{run} is one model, and --step chooses a model of a run: name the run, with --step {step}")
        return _of_file(Path(run), trust)
    run, named = split_step(run, results)
    return _of_run(run_folder(run, results), trust, named if step is None else step)


def split_step(run: str, results: Path) -> tuple[str, int | str | None]:
    """Returns run and step of RUN@STEP or RUN@best; the step is None for other texts, and if a run has this whole name.
    Raises RunError if the text after the `@` of a run is anything else."""
    if (results / run).is_dir() or Path(run).is_dir():
        return run, None
    match = AT_STEP.fullmatch(run)
    if match is None:
        name, _, step = run.rpartition("@")
        if name and RunFolder(results, name).exists:
            raise RunError(f"'{run}': expected {name}@{BEST}, or {name}@STEP with a count of decisions, got '{step}'")
        return run, None
    return match["run"], BEST if match["step"] == BEST else int(match["step"])


def _of_hub(run: str, trust: bool, step: int | str | None) -> Models:
    from palaestra.hub.fetching import fetch_model, fetch_run

    name = read_name(run)
    if name.file is not None:
        return replace(_of_file(fetch_model(run), trust), run=run)
    folder = fetch_run(run)
    step = name.step if step is None else step
    if (folder / CONFIGURATION).is_file():
        place = RunFolder(folder.parent, folder.name)
        place.run_id = run  # the folder's own name is a commit
        return _of_run(place, trust, step)
    if step is not None:
        raise RunError(
            f"{run} has no {CONFIGURATION}: name one of its files, such as hub:{name.repo}/FILE.onnx, instead of a step"
        )
    files = {
        behavior: folder / path
        for behavior, path in models(path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx")).items()
    }
    if not files:
        raise RunError(
            f"{run} has no model in its main folder: name one of its files, such as hub:{name.repo}/FOLDER/FILE.onnx"
        )
    return Models(files, None, run)


def _of_file(file: Path, trust: bool) -> Models:
    if not file.is_file():
        raise RunError(f"there is no model file {file}{near_files(file, MODEL_FILES)}")
    behavior = OF_RUN.sub("", file.stem)
    alone = Models({behavior: file}, None, str(file))
    for place in file.absolute().parents[:2]:
        if not (place / CONFIGURATION).is_file():
            continue
        try:
            run = _of_run(RunFolder(place.parent, place.name), trust, None)
        except PalaestraError:
            return alone  # a folder that cannot be read as a run says nothing of the environment
        named = next((name for name in run.files if file_name(name) == behavior), behavior)
        return replace(run, files={**run.files, named: file}, run=str(file))
    return alone


def newest_live(folder: RunFolder, trust: bool) -> Models | None:
    """Returns the newest models that a run has written for viewers; None without any, or if regular ones are newer."""
    live = LiveModels(folder.path)
    steps = live.steps()
    if not steps:
        return None
    models, status = run_without_models(folder, trust)
    names = _behaviors(models, status)
    there = {name: live.files(name) for name in names}
    if any(max(models_by_step(folder, name), default=-1) > steps[-1] for name in names):
        return None
    files = {name: files[max(files)] for name, files in there.items() if files}
    return replace(models, files=files) if files else None


def _of_run(folder: RunFolder, trust: bool, step: int | str | None) -> Models:
    models, status = run_without_models(folder, trust)
    names = _behaviors(models, status)
    if step is not None and step != BEST and LiveModels(folder.path).steps():
        return replace(models, files=_at_step(folder, names, int(step)))
    files = {name: newest(folder, name, status) for name in names}
    found = {name: file for name, file in files.items() if file is not None}
    if not found:
        raise RunError(f"the run '{folder.run_id}' has no model yet ({folder.path}){_how_to_get_one(folder)}")
    if step == BEST:
        found |= _best(folder, found)
    elif step is not None:
        found = _at_step(folder, list(found), int(step))
    return replace(models, files=found)


def _behaviors(models: Models, status: TrainingStatus) -> list[str]:
    """Returns the behaviors of a run that are known: its settings need not name all, default_settings are enough."""
    named = [*(models.settings.behaviors if models.settings else ()), *status.behaviors()]
    live = [] if models.folder is None else LiveModels(models.folder).behaviors()
    files = {file_name(name) for name in named}
    return list(dict.fromkeys([*named, *(name for name in live if name not in files)]))


def run_without_models(folder: RunFolder, trust: bool) -> tuple[Models, TrainingStatus]:
    """Returns settings and lessons from a run's folder, and its list of models. Raises RunError."""
    configuration = folder.path / CONFIGURATION
    if not configuration.is_file():
        raise RunError(f"{folder.path} is no run: {tensorflow_run(folder.path) or f'it has no {CONFIGURATION}'}")
    settings = load(configuration, own_code=False).settings
    status = TrainingStatus(folder.logs / "training_status.json")
    status.load()
    reached = {name: status.lesson(name) or 0 for name in settings.environment_parameters or {}}
    return Models({}, settings, folder.run_id, reached, folder.path, trust), status


def _how_to_get_one(folder: RunFolder) -> str:
    learns = is_written(folder.path)
    if any(path.name.isdecimal() for path in folder.checkpoints.glob("*")):
        return (
            f": 'palaestra export {folder.path}{' --out=FILE.onnx' if learns else ''}' writes one from its checkpoint"
        )
    return ": the first one comes with its first checkpoint" if learns else ", and no checkpoint to write one from"


def _best(folder: RunFolder, names: Iterable[str]) -> dict[str, Path]:
    """Returns the best models that a run has kept; other behaviors play their newest."""
    found = {name: file for name in names if (file := best_file(folder.path, name)).is_file()}
    if not found:
        raise RunError(f"the run '{folder.run_id}' has no best model: a run keeps one with --keep-best")
    return found


def _at_step(folder: RunFolder, names: Sequence[str], step: int) -> dict[str, Path]:
    """Returns the models of a step; for behaviors without one, the model of the nearest step."""
    there = {name: models_by_step(folder, name) for name in names}
    if not any(step in models for models in there.values()):
        steps = "; ".join(f"'{name}': {', '.join(map(str, sorted(found))) or 'none'}" for name, found in there.items())
        hint = ""
        if (folder.checkpoints / str(step)).is_dir():
            hint = (
                f"; there is a checkpoint, of which 'palaestra export {folder.path} --step {step} --out FILE.onnx' "
                "writes the model"
            )
        raise RunError(f"the run '{folder.run_id}' has no model of step {step} (models of {steps}){hint}")
    return {name: models[min(models, key=lambda at: abs(at - step))] for name, models in there.items() if models}


def models_by_step(folder: RunFolder, behavior: str) -> dict[int, Path]:
    """Returns the model files of a behavior by their step, including models written for viewers."""
    return {**LiveModels(folder.path).files(behavior), **kept_models(folder, behavior)}


def kept_models(folder: RunFolder, behavior: str) -> dict[int, Path]:
    """Returns the models of a behavior's checkpoints by the step in their name."""
    name = file_name(behavior)
    files = (folder.path / name).glob("*.onnx")
    found = [(re.fullmatch(rf"{re.escape(name)}-(\d+)", file.stem), file) for file in files]
    return {int(match[1]): file for match, file in found if match}


def newest(folder: RunFolder, behavior: str, status: TrainingStatus) -> Path | None:
    """Returns the final model; for an unfinished run, the newest model."""
    name = file_name(behavior)
    listed = [folder.path / name / Path(model.file_path).name for model in status.models(behavior)]
    candidates = [path for path in (*listed, folder.path / f"{name}.onnx") if path.is_file()]
    return max(candidates, key=lambda path: path.stat().st_mtime, default=None)


def env_name(models: Models, env: str | None) -> str:
    """Returns the given environment, else the run's own (the Editor if it names none). Raises EnvError without any."""
    name = env or (models.settings and (models.settings.env_settings.env_path or EDITOR))
    if not name:
        raise EnvError(f"which environment {models.run} was trained in is not known: name it with --env")
    if name == EDITOR and not env and models.folder is not None and of_program(models.folder):
        raise EnvError(
            f"{models.run} was trained in an environment that a program made: name one with --env, such as "
            "--env=gymnasium:CartPole-v1 or --env=python:module:Class"
        )
    return name


def open_for(
    models: Models,
    env: str | None,
    areas: int | None,
    usual: int,
    seed: int = 0,
    *,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    log: Log | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> EnvWrapper:
    """Opens the environment to play in: the given one, else the run's own with its last parameters.

    Parameters have the values of the lessons that the run has reached, drawn for each episode with `seed` as in
    training.

    Without `areas`, the environment has the `usual` number of areas; a Unity game has the run's number, a user's own
    environment (python:...) its own number. `flags`, settings of Unity games, and `options` override the run's. Raises
    RunError if this would run code that only another user's folder names.
    """
    check_trust(models, env, flags)
    name, settings = env_name(models, env), models.settings
    if settings and not env:
        parameters, lessons = parameters_of(models, options)
        opened = {**settings.env_settings.env_options, **options, PARAMETERS: tuple(parameters)}
        return _with_parameters(open_named(name, areas, usual, opened, settings, flags, log), parameters, lessons, seed)
    return open_named(name, areas, usual, options, settings, flags, log, seed)


def parameters_of(models: Models, options: Mapping[str, Any]) -> tuple[dict[str, Parameter], dict[str, int]]:
    """Returns the parameters of a run, or in their place those in the environment's options, and the run's lessons."""
    own = (models.settings and models.settings.environment_parameters) or {}
    given = options.get(PARAMETERS) or {}
    return {**own, **given}, {name: lesson for name, lesson in models.lessons.items() if name not in given}


def check_trust(models: Models, env: str | None, flags: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Raises RunError if opening the environment would run code that only another user's folder names."""
    if models.settings is not None and models.folder is not None:
        typed = (flags or {}).get("env_settings", {})
        code = [(path, value) for path, value in env_code(models.settings, env) if path[-1] not in typed]
        must_be_trusted(models.folder, models.settings, code, models.trust)


def open_named(
    name: str,
    areas: int | None,
    usual: int,
    options: Mapping[str, Any],
    settings: RunSettings | None = None,
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    log: Log | None = None,
    seed: int = 0,
) -> EnvWrapper:
    """Opens an environment by name; `settings` are the settings of the run. The environment's messages go to `log`, or
    to stderr.

    `options` may have values or only names of the environment's parameters, under `environment_parameters`; values are
    drawn with `seed`.
    """
    parameters = options.get(PARAMETERS, ())
    if isinstance(parameters, Mapping):
        options = {**options, PARAMETERS: tuple(parameters)}
        return _with_parameters(open_named(name, areas, usual, options, settings, flags, log), parameters, {}, seed)
    with WaitingNotice(f"opening {name}", on_stderr if log is None else partial(log, "info")):
        if is_game(name):
            return open_game(name, areas, settings, options, flags, log)
        if flags:
            first = next(key for section in flags.values() for key in section)
            raise ConfigError(f"--{first.replace('_', '-')} is only for Unity games, and {name} is not one")
        if areas is None and not name.startswith("python:"):
            areas = usual
        return guarded(make_env(name, areas=areas, options=options), name)


def _with_parameters(
    env: EnvWrapper, forms: Mapping[str, Parameter], lessons: Mapping[str, int], seed: int
) -> EnvWrapper:
    """Raises EnvError for a parameter that the environment refuses, and closes it."""
    for _, wrong in invalid_values(env, forms):
        env.close()
        raise EnvError(wrong)
    return with_parameters(env, forms, lessons, seed)


def open_game(
    name: str,
    areas: int | None,
    settings: RunSettings | None,
    options: Mapping[str, Any],
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    log: Log | None = None,
) -> EnvWrapper:
    """Opens a Unity game by the settings in `flags`, else a run's; its messages go to `log`, or to stderr."""
    from palaestra.runtime.environments.unity_games import game_settings  # brings gRPC: 0.1 s

    settings = _with_flags(settings or RunSettings(), name, flags) if flags else settings or RunSettings()
    games = game_settings(settings, None, log or _print, here=True)
    return guarded(make_env(name, areas=areas or settings.env_settings.num_areas, options=options, games=games), name)


def _print(level: str, text: str) -> None:
    on_stderr(text if level == "info" else f"{level}: {text}")


def _with_flags(settings: RunSettings, name: str, flags: Mapping[str, Mapping[str, Any]]) -> RunSettings:
    of_env = {**flags.get("env_settings", {}), "env_path": None if name == EDITOR else name}
    tree = {section: getattr(settings, section).model_dump() for section in ("env_settings", "engine_settings")}
    checked = load({"default_settings": {}, **tree}, {**flags, "env_settings": of_env}).settings
    return settings.model_copy(update={section: getattr(checked, section) for section in tree})
