"""Converts demonstrations between files and Minari datasets, for `palaestra demo` and `palaestra record --demo`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palaestra.core.display import escaped

if TYPE_CHECKING:
    from palaestra.datasets.dataset_form import DatasetForm
    from palaestra.datasets.minari_writer import DatasetFacts
    from palaestra.demos import DemoSource

FLAGS = ("env", "force", "format", "author", "algorithm", "description")


def add_dataset_flags(group: argparse._ArgumentGroup) -> None:
    """Adds the flags about a dataset that is to be written."""
    group.add_argument(
        "--format",
        choices=("hdf5", "arrow", "parquet"),
        help="how Minari stores it (default: hdf5); the others need pyarrow",
    )
    group.add_argument("--author", metavar="NAME", help="its author, in its metadata")
    group.add_argument(
        "--algorithm",
        metavar="NAME",
        help="what played, in its metadata (record: the trainer or the brains by default)",
    )
    group.add_argument("--description", metavar="TEXT", help="a description, in its metadata")
    group.add_argument("--force", action="store_true", help="overwrite an existing dataset or file")


def convert(options: argparse.Namespace, sources: Sequence[Path | str]) -> int:
    """Writes the demonstrations as one dataset or file and prints where it is. Raises DemoError, EnvError or
    ConfigError.
    """
    from palaestra.core.errors import ConfigError, EmptyDemo
    from palaestra.datasets import is_minari, read_demo
    from palaestra.datasets.minari_reader import described
    from palaestra.datasets.minari_writer import check_target, write_demo

    if options.to_demo is not None:
        given = [flag for flag in FLAGS if getattr(options, flag) and flag != "force"]
        if given:
            raise ConfigError(f"--{given[0]} is for --to-minari; a demonstration file has no place for it")
        if options.to_demo.suffix != ".demo":
            raise ConfigError(f"--to-demo {options.to_demo}: expected a file that ends in .demo")
    else:
        check_target(options.to_minari, force=options.force)
    demos = list[Any]()
    for source in sources:
        try:
            demos.append(read_demo(source))
        except EmptyDemo:
            if len(sources) == 1:
                raise
    for demo in demos:
        for warning in demo.warnings:
            print(escaped(f"warning: {warning}"))
    if options.to_demo is not None:
        writer = write_demo(demos, options.to_demo, force=options.force)
        print(escaped(f"wrote {writer.path} ({writer.key}: {writer.ends} episodes, {writer.records} records)"))
        return 0
    given = next((demo for demo in demos if is_minari(demo.title)), None)
    form, env_spec = spaces_of(options.env or (given and given.title))
    if options.env is not None:
        must_fit_built_in(demos[0], options.env)
    if given is not None:
        inherit(options, described(given))
    write_dataset(demos, options.to_minari, form, facts_of(options, env_spec), force=options.force)
    return 0


def inherit(options: argparse.Namespace, metadata: Mapping[str, Any]) -> None:
    """Fills in flags that were not given from the metadata of the dataset that is converted."""
    for flag in ("author", "algorithm", "description"):
        setattr(options, flag, getattr(options, flag) or metadata[flag])


def write_dataset(
    demos: Sequence[DemoSource], target: str, form: DatasetForm | None, facts: DatasetFacts, *, force: bool = False
) -> None:
    """Writes a dataset and prints where it is, and how it is used."""
    from palaestra.datasets.minari_writer import write_minari

    written = write_minari(demos, target, facts, form, force=force)
    place = written.place
    print(escaped(f"wrote {place.folder} ({demos[0].key}: {written.episodes:,} episodes, {written.steps:,} steps)"))
    for note in written.notes:
        print(escaped(f"  note       {note}"))
    found = f"minari:{place.id}" if place.listed else f"minari:{place.folder}"
    print(escaped(f"  learn      demo_path: {found}"))
    print(
        escaped(
            f"  load       minari.load_dataset('{place.id}')"
            if place.listed
            else f"  load       minari.MinariDataset('{place.folder}/data')"
        )
    )


def facts_of(options: argparse.Namespace, env_spec: Any, algorithm: str | None = None) -> DatasetFacts:
    """Returns what the flags say of a new dataset."""
    from palaestra.datasets.minari_writer import DatasetFacts

    return DatasetFacts(
        options.author, options.algorithm or algorithm, options.description, env_spec, options.format or "hdf5"
    )


def spaces_of(env: str | None, env_options: Mapping[str, Any] | None = None) -> tuple[DatasetForm | None, Any]:
    """Returns the spaces of an environment, None for our own form, and Gymnasium's EnvSpec of it, None without one.

    Raises EnvError for an environment that has neither, or is unknown; DemoError for a Minari dataset that cannot be
    read.
    """
    from palaestra.core.errors import EnvError
    from palaestra.core.plugins import nearest
    from palaestra.interop.registration import built_in_names

    if env is None:
        return None, None
    if env.startswith("minari:"):
        from palaestra.datasets.minari_reader import env_spec_of, read_minari

        like = read_minari(env)
        return like.form, env_spec_of(like)
    if env.startswith("gymnasium:"):
        return _gymnasium_spaces(env.removeprefix("gymnasium:"), env_options or {})
    name = env.removeprefix("builtin:")
    if name not in built_in_names():
        raise EnvError(
            f"--env {env}: expected gymnasium:ID, a built-in environment{nearest(name, built_in_names())}, or "
            "minari:ID for the spaces of "
            f"another dataset; without --env, a dataset has the observations and actions as they were recorded"
        )
    return None, _own_env_spec(name)


def must_fit_built_in(demo: DemoSource, env: str) -> None:
    """Raises DemoError if `env` is a built-in environment, of which no behavior has the demonstration's observations
    and actions.
    """
    from contextlib import closing

    from palaestra.core.errors import DemoError
    from palaestra.core.specs import differences
    from palaestra.interop.registration import built_in_names
    from palaestra.runtime.environments.make import make_env

    if (name := env.removeprefix("builtin:")) not in built_in_names():
        return
    with closing(make_env(f"builtin:{name}", areas=1)) as made:
        behaviors = made.behaviors
    titles = ("the demonstration", "the environment")
    tables = {behavior: differences(demo.spec, spec, titles) for behavior, spec in behaviors.items()}
    if all(tables.values()):
        table = tables.get(demo.behavior) or next(iter(tables.values()))
        raise DemoError(f"{demo.title} does not fit the spaces of the environment {name}:\n{table}")


def known_spaces(env: str, env_options: Mapping[str, Any]) -> tuple[DatasetForm | None, Any]:
    """Returns what `spaces_of` does for the environment of a recording, also for a game, which has no EnvSpec."""
    from palaestra.interop.registration import built_in_names

    known = env.startswith("gymnasium:") or env.removeprefix("builtin:") in built_in_names()
    return spaces_of(env, env_options) if known else (None, None)


def id_of_side(target: str, behavior: str, team: int, *, first: bool) -> str:
    """Returns the id of the dataset of a behavior and team; beside the first one, the behavior is part of it."""
    if first:
        return target
    side = re.sub(r"[^\w-]", "-", behavior, flags=re.ASCII) + (f"-team{team}" if team else "")
    stem, version, number = target.rpartition("-v")
    return f"{stem}-{side}-v{number}" if version else f"{target}-{side}"


def _gymnasium_spaces(id: str, env_options: Mapping[str, Any]) -> tuple[DatasetForm | None, Any]:
    import gymnasium

    from palaestra.core.errors import EnvError, exception_summary
    from palaestra.datasets.dataset_form import DatasetForm, form_of_our_env
    from palaestra.envs.gymnasium.ids import spec_of
    from palaestra.envs.spaces.conventions import Conventions

    spec = spec_of(id)
    options = {key: value for key, value in env_options.items() if key != "render"}
    conventions = Conventions.taken_from(options)
    try:
        made = gymnasium.make(spec, disable_env_checker=True, **options)
    except (Exception, SystemExit) as error:  # a user's environment may raise anything
        raise EnvError(f"gymnasium:{id} cannot be made: {exception_summary(error)}") from error
    try:
        if conventions.completed(made.metadata).leave_out:
            return None, made.spec  # a recording lacks what was left out
        ours = form_of_our_env(made.observation_space, made.action_space) if spec.id.startswith("palaestra/") else None
        return ours or DatasetForm(made.observation_space, made.action_space), made.spec
    finally:
        made.close()


def _own_env_spec(name: str) -> Any:
    import gymnasium

    from palaestra.interop.registration import register_envs

    register_envs()
    return gymnasium.spec(f"palaestra/{name}-v0")
