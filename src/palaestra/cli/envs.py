"""List the built-in environments, or show the observations, actions and rewards of any environment."""

from __future__ import annotations

import argparse
import glob
import json
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from palaestra.cli.agreement import list_agreement, show_agreement
from palaestra.cli.flags import env_options, given_env_options, switch
from palaestra.cli.game_flags import add_game_flags, given_flags, refuse_flags
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError, PalaestraError
from palaestra.core.plugins import registry
from palaestra.core.specs import ActionSpec, BehaviorSpec
from palaestra.envs.traits import summary_of
from palaestra.envs.wrapper import EnvWrapper
from palaestra.parallel.closing import closing_safely
from palaestra.runtime.environments.make import is_game, make_env
from palaestra.runtime.logging.waiting import on_stderr

CONFIGS = Path("configs")
WIDE = 120
"""Width of a terminal in characters from which the list has all columns."""
TRAINERS = ("poca", "ppo", "sac")
"""Folders of settings files. The first folder with a file for an environment suits it best; only environments with
groups have a file of MA-POCA."""

EXAMPLES = """\
palaestra envs
palaestra envs GridWorld
palaestra envs gymnasium:LunarLander-v3
palaestra envs --unity
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra envs`."""
    env = (
        "environment to show: a built-in name, a build, gymnasium:ID, envpool:TASK, pettingzoo:module or "
        "python:module:Class; without it, list the built-in ones"
    )
    parser.add_argument("env", nargs="?", metavar="ENV", help=env)
    switch(
        parser,
        "--unity",
        "compare a built-in environment with Unity's example of the same name, and show the reward of Unity's own "
        "models in it; without a name, in all environments",
    )
    env_options(parser, parameters=False)
    add_game_flags(parser, without=("num_envs", "no_graphics_monitor"))


def main(args: argparse.Namespace) -> None:
    """Prints the list, or one environment."""
    console = Console(highlight=False)
    if args.sets and (args.env is None or args.unity):
        raise ConfigError("--set is for one environment: name it, and leave out --unity")
    if args.env is None:
        refuse_flags("the list of environments", given_flags(args))
        (list_agreement if args.unity else _list)(console)
        return
    name = args.env
    flags = given_flags(args)
    chosen = given_env_options(args, parameters=False)
    if args.unity:
        refuse_flags("--unity", flags)
        show_agreement(console, name)
        return
    if is_game(name):
        from palaestra.runtime.play.run_models import open_game

        game = open_game(name, None, None, chosen, flags)
        with closing_safely(game, "the environment", on_stderr):
            game.reset(0)  # its behaviors appear while it plays
            _show(console, name, game)
        return
    refuse_flags(name, flags)
    built_in = name.removeprefix("builtin:")
    known = built_in in registry("envs")
    factory = registry("envs").get(built_in) if known else None
    env = EnvWrapper.of(make_env(f"builtin:{built_in}" if known else name, options=chosen))
    with closing_safely(env, "the environment", on_stderr):
        truth = getattr(factory, "truth", ()) if chosen.get("state") else ()
        _show(console, name, env, _options(factory) if factory else (), truth)


def _list(console: Console) -> None:
    wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = registry("envs").names()
    titles = ("actions", "areas", "benchmark") if wide else ()
    rows: list[list[str]] = []
    for name in names:
        try:
            rows.append([escape(escaped(name)), *_row(name, whole=wide)])
        except PalaestraError as error:  # a broken plug-in must not hide the others
            rows.append([escape(escaped(name)), f"[red]{escape(escaped(str(error)))}[/]"])
    table.add_column("name", style="cyan", no_wrap=True)
    table.add_column("what")  # whole sentences, in several lines where there is little room
    for title in titles:
        table.add_column(title, justify="left" if title == "actions" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print("\n'palaestra envs NAME' shows one: its observations, actions and rewards. Others:")
    console.print("  --env=gymnasium:CartPole-v1    any Gymnasium id")
    console.print("  --env=envpool:CartPole-v1      any task of EnvPool")
    console.print(
        "  --env=pettingzoo:MODULE        any PettingZoo environment, such as pettingzoo:mpe2.simple_spread_v3"
    )
    console.print("  --env=python:module:Class      your own class, or function that makes an environment")


def _row(name: str, *, whole: bool) -> list[str]:
    """Returns the cells next to a built-in environment's name: its summary, and if `whole` also its use."""
    if not whole:
        return [escape(escaped(summary_of(registry("envs").get(name))))]
    areas = str(getattr(registry("envs").get(name), "default_areas", ""))
    env = EnvWrapper.of(make_env(f"builtin:{name}", areas=1))
    with closing_safely(env, f"the environment '{name}'", on_stderr):
        actions = ", ".join(dict.fromkeys(_actions(spec.action) for spec in env.behaviors.values()))
        return [escape(escaped(env.traits.summary)), actions, areas, _benchmark(env)]


def _options(factory: Callable[..., Any]) -> list[str]:
    """Returns the options of a built-in environment with their defaults, as they are written in YAML."""
    takes = signature(factory).parameters.values()
    named = [one for one in takes if one.kind is not Parameter.VAR_KEYWORD and one.name not in ("areas", "device")]
    return [
        one.name if one.default is Parameter.empty else f"{one.name}: {json.dumps(one.default, default=str)}"
        for one in named
    ]


def _show(
    console: Console,
    name: str,
    env: EnvWrapper,
    options: Sequence[str] = (),
    truth: Sequence[tuple[str, int]] = (),
) -> None:
    """Prints an environment; `truth`: the parts of that observation."""
    console.print(f"[bold cyan]{escape(name)}[/]  {escape(env.traits.summary)}\n")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for behavior, spec in env.behaviors.items():
        table.add_row("behavior", escape(escaped(behavior)))
        _add_spec(table, spec)
    _add_facts(table, env)
    for i, option in enumerate(options):
        table.add_row("options" if i == 0 else "", escape(option))
    at = 0
    for words, size in truth:
        places = f"{at}" if size == 1 else f"{at} to {at + size - 1}"
        table.add_row("truth" if at == 0 else "", f"{places}: {escape(words)}")
        at += size
    console.print(table)
    first, *others = _configs(name, env) or [""]
    given = f"{first} " if first else ""
    console.print(
        f"\n[bold]train it[/]  palaestra learn {escape(given)}--env={escape(name)} --run-id=first", soft_wrap=True
    )
    if others:
        console.print(f"          other settings: {escape(', '.join(others))}", soft_wrap=True)
    if not first:
        behaviors = escape(escaped(", ".join(env.behaviors)))
        usual = "with ML-Agents' defaults" if is_game(name) else "with settings that fit it"
        console.print(
            f"          ({usual}; a file of your own has a block under 'behaviors:' for {behaviors})", soft_wrap=True
        )


def _add_spec(table: Table, spec: BehaviorSpec) -> None:
    for i, obs in enumerate(spec.obs):
        kind = "vector" if obs.is_vector else "image" if obs.is_visual else "variable length"
        goal = ", a goal signal" if obs.goal else ""
        table.add_row(
            "observes" if i == 0 else "", f"{escape(obs.name)}: {kind} {' x '.join(map(str, obs.shape))}{goal}"
        )
    table.add_row("acts", _actions(spec.action))


def _add_facts(table: Table, env: EnvWrapper) -> None:
    table.add_row("areas", f"{env.num_areas} unless --num-areas says otherwise")
    ranges = env.traits.parameter_ranges
    for i, (name, default) in enumerate(env.parameters.items()):
        bounds = f" ({ranges[name][1]:g} to {ranges[name][2]:g})" if name in ranges else ""
        table.add_row("parameters" if i == 0 else "", f"{escape(name)}: {default:g}{bounds}")
    for i, reward in enumerate(env.traits.rewards):
        table.add_row("rewards" if i == 0 else "", escape(reward))
    if episode := env.traits.episode:
        table.add_row("episode", escape(episode))
    if benchmark := _benchmark(env):
        table.add_row("benchmark", f"{benchmark} (mean reward of an episode)")


def _benchmark(env: EnvWrapper) -> str:
    value = env.traits.benchmark
    return "" if value is None else f"{value:g}"


def _actions(spec: ActionSpec) -> str:
    continuous = [f"{spec.continuous} continuous"] if spec.continuous else []
    discrete = [f"discrete {' x '.join(map(str, spec.branches))}"] if spec.branches else []
    return " + ".join(continuous + discrete)


def _configs(name: str, env: EnvWrapper) -> list[str]:
    """Returns settings files named for the environment or its behaviors, the first to begin with, variants last."""
    # the name of a build is a path
    names = dict.fromkeys((Path(name.rpartition(":")[2]).name, *(b for b in env.behaviors if b == Path(b).name)))
    exact = [CONFIGS / trainer / f"{one}.yaml" for trainer in TRAINERS for one in names]
    variants = [
        path
        for trainer in TRAINERS
        for one in names
        for path in sorted((CONFIGS / trainer).glob(f"{glob.escape(one)}_*.yaml"))
    ]
    return [path.as_posix() for path in (*exact, *variants) if path.is_file()]
