"""Train a small network that imitates a trained one.

The small network plays the environment, and learns what its teacher, the run's model, would have done (behavioral
cloning with `teacher`). At the end the command prints the rewards, the time per decision and the size of both networks.
The students are a separate run, which resumes, exports and evaluates like any other run.
"""

from __future__ import annotations

import argparse
import json
import os

from palaestra.cli.flags import ENVIRONMENTS, option, repeated, results_dir, seed, switch, trust
from palaestra.cli.game_flags import add_game_flags, given_flags

EXAMPLES = """\
palaestra distill first --hidden-units 32 --num-layers 1
palaestra distill first@best --run-id=first-small --max-steps=500000
palaestra distill 3DBall.onnx --env=3DBall --hidden-units 16
palaestra distill first --set behaviors.3DBall.hyperparameters.learning_rate=0.0004
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra distill`."""
    runs = "run id, RUN@STEP, RUN@best, run folder, model file (.onnx, .nn), or hub:user/repo: the teacher"
    parser.add_argument("run", metavar="RUN", help=runs)
    network = parser.add_argument_group("The small network")
    option(network, "--hidden-units", "N", "width of its layers", 32)
    option(network, "--num-layers", "N", "its layers after the encoders", 1)
    memory = "numbers it remembers, 0 for none (default: twice its width if the teacher has a memory)"
    option(network, "--memory-size", "N", memory, type=int)
    encoder = "encoder of images (default: simple, or match3 for small ones)"
    option(network, "--vis-encode-type", "NAME", encoder)
    learning = parser.add_argument_group("How it learns")
    option(learning, "--max-steps", "N", "decisions that it learns from", 200_000, type=lambda text: int(float(text)))
    option(learning, "--run-id", "ID", "name of its run (default: RUN-32x1, by its size)")
    switch(learning, "--force", "overwrite a run of that name")
    option(learning, "--env", "ENV", f"a Unity build, {ENVIRONMENTS} (default: the teacher's)")
    option(learning, "--num-areas", "N", "areas of the environment (default: as in the teacher's run)", type=int)
    seed(learning, "the student and of the episodes")
    sets = "change any other setting, such as behaviors.3DBall.hyperparameters.learning_rate=0.0004"
    repeated(learning, "--set", "PATH=VALUE", sets, dest="sets")
    report = parser.add_argument_group("The comparison")
    option(report, "--episodes", "N", "episodes that teacher and student play each", 100)
    switch(report, "--deterministic", "take the most likely action instead of sampling")
    switch(report, "--json", "print it as JSON, and nothing else")
    results_dir(parser)
    trust(parser)
    add_game_flags(parser)


def main(options: argparse.Namespace) -> int:
    """Trains the student, and prints a table of teacher and student."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # curves are written, not shown
    from palaestra.runtime.distill.distillation import as_numbers, distill
    from palaestra.runtime.distill.student_settings import StudentRequest

    names = (
        "hidden_units num_layers memory_size vis_encode_type max_steps run_id env num_areas seed episodes deterministic"
    )
    given = {name: getattr(options, name) for name in (*names.split(), "force", "trust", "run", "sets")}
    flags = given_flags(options)
    found = distill(StudentRequest(**given, results=options.results_dir, quiet=options.json, flags=flags))
    if found.result.signal:
        return 128 + found.result.signal
    print(json.dumps(as_numbers(found), indent=2) if options.json else f"\n{found}")
    return 0
