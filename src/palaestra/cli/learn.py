"""Train the agents of an environment from a settings file, or resume a run.

The settings are ML-Agents' YAML. Precedence: default < YAML < flag < --set.
The trainer_type is ppo, sac, poca, bc, or your own class as package.module:Class.
A first Ctrl-C (or SIGTERM) saves everything and ends; a second Ctrl-C ends at once, a second SIGTERM changes nothing.
Exit status: 0 finished, good enough or stopped; 1 error; 2 wrong command; 3 no progress.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from palaestra.cli.flags import ENVIRONMENTS, given, option, repeated, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags
from palaestra.cli.old_flags import IN_EVERY_BEHAVIOR, add_old_flags, settle
from palaestra.cli.parser import Parser
from palaestra.cli.track import trackers_of
from palaestra.core.errors import ConfigError, SeveralProcesses
from palaestra.core.plugins import own_python

EPILOG = """\
examples:
  palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=first
  palaestra learn --run-id=first --resume --set 'behaviors.*.max_steps=1e6'
  palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=quick --max-steps=1e5 --learning-rate=1e-3
  palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=shown --track=wandb:project=balls
  palaestra learn --run-id=first --inference
  palaestra learn --env=gymnasium:CartPole-v1 --run-id=pole
  palaestra learn configs/ppo/3DBall.yaml --env=3DBall --run-id=ball --seeds 5 --side-by-side 2
"""

SECTIONS = {
    "env_settings": "env_path num_areas first_lesson env_runners ray_address runner_cpus ray_working_dir seed",
    "checkpoint_settings": "run_id resume force initialize_from inference results_dir load_model train_model",
    "torch_settings": "device threads processes gpus rank_timeout",
}
"""Section of the settings for each flag that is not about games; a flag's `dest` is its key in the YAML."""
SHORT = {
    "max_steps": ("max_steps", "decisions until training ends, such as 1e6"),
    "summary_freq": ("summary_freq", "decisions between summaries"),
    "learning_rate": ("hyperparameters.learning_rate", "step size of the optimizer, such as 3e-4"),
    "batch_size": ("hyperparameters.batch_size", "decisions in one gradient step"),
    "buffer_size": ("hyperparameters.buffer_size", "decisions before each update (ppo, poca), or in the replay (sac)"),
    "hidden_units": ("network_settings.hidden_units", "units of each layer"),
    "num_layers": ("network_settings.num_layers", "layers of the network"),
    "stop_at": ("stop_when.at_least", "mean reward of 100 episodes at which training ends (stop_when)"),
    "stop_without_progress": (
        "stop_when.no_progress",
        "decisions without a better reward after which it ends (exit status 3)",
    ),
}
"""Short flags for the settings that are changed most, in every behavior: path in its block, and help."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds every flag of mlagents-learn, and Palaestra's own."""
    parser.set_defaults(**dict.fromkeys(" ".join(SECTIONS.values()).split()))
    config = (
        "settings file (YAML); when left out: one shipped for the environment, or settings that fit it; with --resume, "
        "the run's own"
    )
    parser.add_argument("config", nargs="?", type=Path, metavar="CONFIG", help=config)
    _run_flags(parser.add_argument_group("the run"))
    _env_flags(parser.add_argument_group("the environment"))
    short = parser.add_argument_group(
        "the settings changed most", "For every behavior at once; --set changes single ones and other settings."
    )
    for key, (_, what) in SHORT.items():
        short.add_argument(_flag(key), metavar="N", help=what)
    add_game_flags(parser, without=("num_envs",), remainder=", a later --set too")
    old = add_old_flags(parser)
    if isinstance(parser, Parser):
        parser.unabbreviated = (*(_flag(key) for key in SHORT), "--seeds", "--side-by-side", "--one-seed", *old)


def _run_flags(group: argparse._ArgumentGroup) -> None:
    option(group, "--run-id", "ID", "name of the run and of its folder (default: ppo)")
    switch(group, "--resume", "resume the run of that name exactly where it was saved", default=None)
    switch(group, "--force", "start anew even if a run of that name exists", default=None)
    option(
        group,
        "--initialize-from",
        "ID",
        "start from the networks of another run, of ML-Agents too, or of hub:user/repo",
    )
    inference = "act without learning, until Ctrl-C; the run's checkpoints stay as they are"
    switch(group, "--inference", inference, default=None)
    trust(group, "environment, networks or teachers")
    switch(group, "--deterministic", "always take the most likely action", default=None)
    option(group, "--seed", "N", "seed of all random numbers (default: -1, which picks one)", type=int)
    seeds = "train with N seeds, or with 3,7,9 or 11-15, in the runs ID-seed-1 ...; a table with intervals at the end"
    option(group, "--seeds", "N", seeds)
    option(group, "--side-by-side", "N", "seeds to train at once, each in a process (default: 1)", type=int)
    switch(group, "--one-seed", argparse.SUPPRESS)
    option(group, "--results-dir", "DIR", "folder of all runs (default: results)")
    option(group, "--torch-device", "DEVICE", "cpu, cuda, cuda:0 ... (default: cuda if available)", dest="device")
    option(group, "--torch-threads", "N", "CPU threads (default: by the amount of work)", type=int, dest="threads")
    option(group, "--processes", "N", "train in N processes on CPUs, which share the areas (default: 1)", type=int)
    option(group, "--gpus", "N", "train on N GPUs, a process each (default: 1)", type=int)
    group.add_argument("--multi-gpu", dest="gpus", action="store_const", const=-1, help="train on all GPUs")
    option(group, "--rank-timeout", "S", "seconds after which a silent process is lost (default: 600)", type=float)
    track = (
        "send metrics and models to one more tracker: wandb or your own module:Class; with options as in "
        "wandb:project=walkers,mode=offline"
    )
    repeated(group, "--track", "NAME", track, dest="tracks")
    switch(group, "--view", "open the page in the browser beside the training (see palaestra view)")
    switch(group, "--debug", "log in detail", default=None)
    sets = "change any setting, such as behaviors.3DBall.max_steps=1e6"
    repeated(group, "--set", "PATH=VALUE", sets, dest="sets")


def _env_flags(group: argparse._ArgumentGroup) -> None:
    env = f"a Unity build, {ENVIRONMENTS} (default: the Unity Editor)"
    option(group, "--env", "ENV", env, dest="env_path")
    areas = "areas of the environment, each with its own agents (default: the environment's own number)"
    option(group, "--num-areas", "N", areas, type=int)
    copies = "copies of a build or of a Gymnasium or python: environment (default: 1)"
    option(group, "--num-envs", "N", copies, type=int)
    runners = "Ray actors that share the copies, on all machines of a Ray cluster"
    option(group, "--env-runners", "N", runners, type=int)
    cluster = "the Ray cluster (default: that of a submitted job, else one on this machine)"
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
    paths = {**{key: path for key, (path, _) in SHORT.items()}, **IN_EVERY_BEHAVIOR}
    short = {path: getattr(options, key) for key, path in paths.items() if getattr(options, key) is not None}
    if options.deterministic:
        short["network_settings.deterministic"] = True
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
    """Raises ConfigError for GPUs where there surely are none, before libraries are loaded; later `count_of` does."""
    from palaestra.core.processes import surely_no_gpu

    if options.gpus and surely_no_gpu():
        flag = "--multi-gpu" if options.gpus == -1 else f"--gpus={options.gpus}"
        raise ConfigError(f"{flag}: this machine has 0 GPUs; --processes trains in several processes on CPUs")
    if (options.device or "").startswith("cuda") and surely_no_gpu():
        raise ConfigError(f"torch device '{options.device}' is not there: this machine has cpu")


def main(options: argparse.Namespace) -> int:
    """Trains. Returns 0 also after Ctrl-C, once everything is saved; 3 if a run ended because it made no progress."""
    from palaestra.runtime.run.rank_launch import end_with_launcher

    if options.side_by_side is not None and options.seeds is None:
        raise ConfigError("--side-by-side is of several seeds: add --seeds 5")
    end_with_launcher()
    with page_beside(options) if options.view else nullcontext():
        return train_seeds(options) if options.seeds is not None and not options.one_seed else train(options)


def train_seeds(options: argparse.Namespace) -> int:
    """Trains every seed in a process of its own and prints a table. Returns 1 if one failed, else as for one run."""
    from palaestra.runtime.seeds.seed_launch import launch_seeds
    from palaestra.runtime.seeds.seed_plan import parse_seeds, plan_seeds
    from palaestra.runtime.seeds.seed_summary import seed_comparison, seed_tables

    seeds = parse_seeds(options.seeds)
    at_once = 1 if options.side_by_side is None else options.side_by_side
    plan = plan_seeds(seeds, options.config, overrides(options), options.sets, side_by_side=at_once)
    states, status = launch_seeds(plan, options.arguments)
    print()
    comparison = seed_comparison(plan)
    print("\n\n".join(table.text() for table in seed_tables(plan, states, comparison)))
    beside = "" if plan.at_once == 1 else f" --side-by-side {plan.at_once}"
    results = "" if options.results_dir is None else f" --results-dir={options.results_dir}"
    if {"stopped", "interrupted"} & set(states.values()):
        print(f"palaestra learn --run-id={plan.name} --seeds {options.seeds}{beside}{results} --resume goes on")
    elif comparison is not None:
        print(f"palaestra compare '{plan.pattern}'{results} draws them")
    return status


def train(options: argparse.Namespace) -> int:
    """Trains here, or starts the processes that do."""
    from palaestra.runtime.run.ending import exit_status
    from palaestra.runtime.run.learning import learn
    from palaestra.runtime.run.rank_launch import launch

    notes = settle(options)
    try:
        result = learn(options.config, overrides(options), options.sets, notes=notes, trust=options.trust)
    except SeveralProcesses as several:
        return launch(several.count, options.arguments)
    return exit_status(result)


@contextmanager
def page_beside(options: argparse.Namespace) -> Iterator[None]:
    """Serves the page from a process of its own within the block, in which the run is trained.

    That process ends when its input is closed, which happens however this one ends; signals of the terminal do not
    reach it. Of several ranks, the one that starts them has it. Raises PluginError if the page's libraries are not
    installed.
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
                f"warning: the page beside the run has ended (exit status {status}); the run goes on. Another page: "
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
