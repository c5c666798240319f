"""Train the agents of an environment, or resume a run.

Without a settings file (CONFIG), the settings that are shipped for the environment apply, or settings that fit its
spaces. Ctrl-C saves everything and ends; --resume continues from there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from palaestra.cli.flags import ENVIRONMENTS, given, option, repeated, switch, trust
from palaestra.cli.game_flags import FLAGS, add_game_flags, given_flags
from palaestra.cli.old_flags import IN_EVERY_BEHAVIOR, add_old_flags, settle
from palaestra.cli.parser import Parser
from palaestra.core.display import escaped
from palaestra.core.errors import ConfigError, SeveralProcesses
from palaestra.core.plugins import own_python
from palaestra.core.wording.most_changed import MOST_CHANGED
from palaestra.runtime.settings.track_words import trackers_of

EXAMPLES = """\
# an environment of Gymnasium, with the page in the browser
palaestra learn --env=gymnasium:CartPole-v1 --run-id=pole --view
# a class of your own, Gymnasium's or PettingZoo's, in the file my_env.py
palaestra learn --env=python:my_env:MyEnv --run-id=mine --max-steps=1e5
# a built-in environment with a settings file; then go on with the run
palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=ball
palaestra learn --run-id=ball --resume --max-steps=1e6
# four copies of a Unity build; the Unity Editor, where you then press Play
palaestra learn config.yaml --env=Game.x86_64 --num-envs=4 --run-id=game
palaestra learn config.yaml --run-id=editor
# another algorithm; five seeds, two at once
palaestra learn --env=gymnasium:Pendulum-v1 --trainer=sac --run-id=sac
palaestra learn --env=gymnasium:CartPole-v1 --run-id=pole --seeds=5 --side-by-side=2
"""
NOTES = """\
Settings files are ML-Agents' YAML. A default is overridden by the file, the file by a flag, a flag by --set.

A second Ctrl-C ends at once. SIGTERM saves and ends, like the first Ctrl-C.

Exit status: 0 finished, good enough or stopped; 1 error; 2 wrong command; 3 no progress.
"""

SECTIONS = {
    "env_settings": "env_path num_areas first_lesson env_runners ray_address runner_cpus ray_working_dir seed",
    "checkpoint_settings": "run_id resume force initialize_from inference results_dir load_model train_model",
    "torch_settings": "device threads processes gpus rank_timeout",
}
"""Section of the settings for each flag that is not about games; a flag's `dest` is its key in the YAML."""
OF_ML_AGENTS = (
    "env run_id resume force initialize_from inference deterministic results_dir seed num_areas debug torch_device"
)
"""Flags of mlagents-learn except the ones of games; mlagents-learn accepts any prefix of a flag, and scripts may use
prefixes."""
FIRST = ("max_steps", "stop_at")
"""Settings among the flags that most runs need."""
BESIDE_FIRST = [key for key in MOST_CHANGED if key not in FIRST]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds every flag of mlagents-learn, and Palaestra's own."""
    parser.set_defaults(**dict.fromkeys(" ".join(SECTIONS.values()).split()))
    _first_flags(parser.add_argument_group("Most used flags"))
    others = "These flags apply to every behavior; --set changes single behaviors, and any other setting."
    changed = parser.add_argument_group("Settings that are changed most", others)
    _most_changed(changed, BESIDE_FIRST)
    best = "keep the best model too, <Behavior>-best.onnx, by evaluations at summaries and at the end (keep_best)"
    switch(changed, "--keep-best", best, default=None)
    _run_flags(parser.add_argument_group("Start and reports"))
    _seed_flags(parser.add_argument_group("Several seeds of one setting"))
    _hardware_flags(parser.add_argument_group("More copies, cores, GPUs and machines"))
    add_game_flags(parser, without=("num_envs",), remainder=", a later --set too")
    add_old_flags(parser)
    if isinstance(parser, Parser):
        of_games = (key for key, *_ in FLAGS if key not in ("editor_port", "bind"))
        parser.abbreviated = [_flag(key) for key in (*OF_ML_AGENTS.split(), *of_games)]


def _first_flags(group: argparse._ArgumentGroup) -> None:
    config = (
        "settings file (YAML); without it: the one shipped for the environment, or settings that fit it; with "
        "--resume, the run's own"
    )
    group.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help=config)
    env = f"a Unity build, {ENVIRONMENTS} (default: the Unity Editor)"
    option(group, "--env", "ENV", env, dest="env_path")
    option(group, "--run-id", "ID", "name of the run and of its folder (default: ppo)")
    _most_changed(group, FIRST)
    option(group, "--seed", "N", "seed of all random numbers (default: -1, which picks one)", type=int)
    switch(group, "--resume", "continue the run of that name, exactly where it was saved", default=None)
    switch(group, "--force", "start again even if a run of that name exists: it is replaced", default=None)
    switch(group, "--view", "open the page in the browser during the training (see palaestra view)")


def _most_changed(group: argparse._ArgumentGroup, keys: Collection[str]) -> None:
    for key in keys:
        group.add_argument(_flag(key), metavar="NAME" if key == "trainer" else "N", help=MOST_CHANGED[key][1])
    if "trainer" in keys:
        sets = "change any setting: max_steps=1e6 of every behavior, behaviors.3DBall.max_steps=1e6 of one"
        repeated(group, "--set", "PATH=VALUE", sets, dest="sets")


def _run_flags(group: argparse._ArgumentGroup) -> None:
    origin = "start from the networks of another run, of ML-Agents too, or of hub:user/repo"
    option(group, "--initialize-from", "ID", origin)
    inference = "act without learning, until Ctrl-C; the run's checkpoints stay as they are"
    switch(group, "--inference", inference, default=None)
    switch(group, "--deterministic", "always take the most likely action", default=None)
    option(group, "--results-dir", "DIR", "folder of all runs (default: results)")
    track = (
        "send metrics and models to one more tracker: wandb or your own module:Class; with options as in "
        "wandb:project=walkers,mode=offline"
    )
    repeated(group, "--track", "NAME", track, dest="tracks")
    switch(group, "--debug", "log in detail", default=None)
    trust(group, "environment, networks or teachers")


def _seed_flags(group: argparse._ArgumentGroup) -> None:
    seeds = "train with N seeds, or with 3,7,9 or 11-15, in the runs ID-seed-1 ...; a table with intervals at the end"
    option(group, "--seeds", "N", seeds)
    side = "seeds to train at once, each in a process (default: 1)"
    option(group, "--side-by-side", "N", side, type=int)
    switch(group, "--one-seed", argparse.SUPPRESS)


def _hardware_flags(group: argparse._ArgumentGroup) -> None:
    areas = "copies of the environment that are simulated at once, its areas (default: the environment's own number)"
    option(group, "--num-areas", "N", areas, type=int)
    copies = "copies of a Unity build, or processes that share the areas of gymnasium: and python: ones (default: 1)"
    option(group, "--num-envs", "N", copies, type=int)
    option(group, "--torch-device", "DEVICE", "cpu, cuda, cuda:0 ... (default: cuda if available)", dest="device")
    threads = "CPU threads (default: by the amount of work)"
    option(group, "--torch-threads", "N", threads, type=int, dest="threads")
    processes = "train in N processes on CPUs, which share the areas (default: 1)"
    option(group, "--processes", "N", processes, type=int)
    option(group, "--gpus", "N", "train on N GPUs, a process each (default: 1)", type=int)
    group.add_argument("--multi-gpu", dest="gpus", action="store_const", const=-1, help="train on all GPUs")
    option(group, "--rank-timeout", "S", "seconds after which a silent process is lost (default: 600)", type=float)
    runners = "Ray actors that share the copies, on all machines of a Ray cluster"
    option(group, "--env-runners", "N", runners, type=int)
    cluster = "the Ray cluster (default: the cluster of a submitted job, else a new one on this machine)"
    option(group, "--ray-address", "HOST:PORT", cluster)
    cpus = "CPUs that Ray reserves for each runner (default: 1 if there are enough)"
    option(group, "--runner-cpus", "N", cpus, type=float)
    folder = "folder with the build or your Python files, for Ray to bring to all machines"
    option(group, "--ray-working-dir", "DIR", folder)


def overrides(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given flags as a part of the settings tree."""
    tree: dict[str, Any] = {**given_flags(options)}
    for section, keys in SECTIONS.items():
        if found := given(options, keys):
            tree[section] = {**tree.get(section, {}), **found}
    if options.debug:
        tree["debug"] = True
    if options.tracks:
        tree["trackers"] = trackers_of(options.tracks)
    paths = {**{key: path for key, (path, _) in MOST_CHANGED.items()}, **IN_EVERY_BEHAVIOR}
    short = {path: getattr(options, key) for key, path in paths.items() if getattr(options, key) is not None}
    if options.deterministic:
        short["network_settings.deterministic"] = True
    if options.keep_best:
        short["keep_best"] = {}
    for path, value in short.items():
        *above, last = path.split(".")
        block = tree.setdefault("behaviors", {}).setdefault("*", {})
        for key in above:
            block = block.setdefault(key, {})
        block[last] = value
    return tree


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def check(options: argparse.Namespace) -> None:
    """Raises ConfigError for mistakes that can be found before slow libraries are loaded: GPUs on a machine without any
    (`count_of` looks more closely later), an empty name, or a settings file that does not exist."""
    from palaestra.core.processes import surely_no_gpu

    if options.env_path is not None and not options.env_path.strip():
        raise ConfigError("--env is empty: name an environment, or leave it out to wait for the Unity Editor")
    if options.config is not None and options.config.suffix == ".py":
        raise ConfigError(f"{options.config} is a Python file; did you mean --env={options.config}?")
    if options.config is not None and not os.path.exists(options.config):
        _refuse_as_settings(str(options.config))
    if options.gpus and surely_no_gpu():
        flag = "--multi-gpu" if options.gpus == -1 else f"--gpus={options.gpus}"
        raise ConfigError(f"{flag}: this machine has 0 GPUs; --processes trains in several processes on CPUs")
    if (options.device or "").startswith("cuda") and surely_no_gpu():
        raise ConfigError(f"torch device '{options.device}' is not there: this machine has cpu")


def _refuse_as_settings(given: str) -> None:
    """Raises ConfigError for a word that is a setting of another kind of command line, or asks for help."""
    from palaestra.runtime.settings.foreign_names import answer_flag

    if given == "help":
        raise ConfigError("there is no settings file 'help'; `palaestra help learn` explains the command")
    name, equals, value = given.partition("=")
    if equals:
        ours = answer_flag(f"--{name}", value) or "settings are --set PATH=VALUE, such as --set max_steps=1e6"
        raise ConfigError(f"'{given}' is no settings file: {ours}")


def main(options: argparse.Namespace) -> int:
    """Trains. Returns 0 also after Ctrl-C, once everything is saved; 3 if a run ended because it made no progress."""
    from palaestra.runtime.run.rank_launch import end_with_launcher

    if options.side_by_side is not None and options.seeds is None:
        raise ConfigError("--side-by-side is of several seeds: add --seeds 5")
    end_with_launcher()
    with page_beside(options) if options.view else nullcontext():
        return train_seeds(options) if options.seeds is not None and not options.one_seed else train(options)


def train_seeds(options: argparse.Namespace) -> int:
    """Trains every seed in a separate process and prints a table. Returns 1 if a seed failed, else the exit status of a
    single run."""
    from palaestra.runtime.seeds.seed_launch import launch_seeds
    from palaestra.runtime.seeds.seed_plan import parse_seeds, plan_seeds
    from palaestra.runtime.seeds.seed_summary import seed_comparison, seed_ending, seed_tables

    seeds = parse_seeds(options.seeds)
    at_once = 1 if options.side_by_side is None else options.side_by_side
    plan = plan_seeds(seeds, options.config, overrides(options), options.sets, side_by_side=at_once)
    states, status = launch_seeds(plan, options.arguments)
    if status == 1 and not any(run.folder.exists for run in plan.runs):
        return status  # none has begun, and said why
    print()
    comparison = seed_comparison(plan)
    print("\n\n".join(table.text() for table in seed_tables(plan, states, comparison)))
    print("\n".join(["", *map(escaped, seed_ending(plan, states))]))
    return status


def train(options: argparse.Namespace) -> int:
    """Trains in this process, or starts the processes that train."""
    from palaestra.runtime.run.ending import exit_status
    from palaestra.runtime.run.learning import learn
    from palaestra.runtime.run.rank_launch import launch
    from palaestra.runtime.run.run_settings import TrainingRequest

    notes = settle(options)
    try:
        request = TrainingRequest(options.config, overrides(options), options.sets, notes=notes, trust=options.trust)
        result = learn(replace(request, one_of_several=options.one_seed))
    except SeveralProcesses as several:
        return launch(several.count, options.arguments)
    return exit_status(result)


@contextmanager
def page_beside(options: argparse.Namespace) -> Iterator[None]:
    """Serves the page from a separate process while the run is trained within the block.

    That process ends when its input is closed, which happens in whatever way this process ends; signals of the terminal
    do not reach it. With several ranks, the process that starts them serves the page. Raises PluginError if the page's
    libraries are not installed.
    """
    from palaestra.cli.view import require_page
    from palaestra.runtime.control.os_signals import LAUNCHED
    from palaestra.runtime.logging.waiting import on_stderr

    if LAUNCHED in os.environ or os.environ.get("RANK", "0") != "0":
        yield
        return
    require_page()
    command = own_python("palaestra", "view", "--beside", "--no-browser")
    command += [f"--results-dir={options.results_dir or 'results'}", *([options.run_id] if options.run_id else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    over = threading.Event()

    def watch() -> None:
        status = process.wait()
        if not over.is_set():
            on_stderr(
                f"warning: the page beside the run has ended (exit status {status}); the run continues. Another page: "
                "palaestra view"
            )

    threading.Thread(target=watch, daemon=True, name="palaestra page").start()
    try:
        yield
    finally:
        over.set()
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
