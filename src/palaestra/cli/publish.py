"""Write a run as a static page: recorded episodes, learning curves, the model, and the policy live in the browser.

The page needs neither a server nor the internet: open its index.html, put the folder on any web host, or show it on
Hugging Face. A slider shows how the run played after fewer decisions. In small environments (3DBall, Basic,
CartPole, GridWorld, RingOut) the model also plays live in the browser.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, results_dir, switch, trust

EXAMPLES = """\
palaestra publish first
palaestra publish first --out=site --steps 50000 200000
palaestra publish first --areas=16 --no-play
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra publish`."""
    parser.add_argument("run", metavar="RUN", help="a run id, or a run's folder")
    parser.add_argument(
        "--out", type=Path, default=Path("site"), metavar="DIR", help="folder of the page (default: site)"
    )
    steps = "steps of the checkpoints to show (default: some, evenly spread)"
    parser.add_argument("--steps", type=int, nargs="+", default=[], metavar="N", help=steps)
    areas = "areas to show (default: up to 9)"
    parser.add_argument("--areas", type=int, default=None, metavar="N", help=areas)
    option(parser, "--env", "ENV", "environment to play in (default: the run's own)")
    switch(parser, "--no-play", "do not let the policy play in the browser")
    switch(parser, "--force", "replace the existing page; other files of its folder stay")
    results_dir(parser)
    trust(parser)


def main(options: argparse.Namespace) -> None:
    """Writes the page and prints where it is. Raises RunError, EnvError or ConfigError."""
    from palaestra.runtime.logging.waiting import on_stderr
    from palaestra.web.publishing.static_site import SiteChoices, publish

    choices = SiteChoices(options.steps, options.areas, options.env, not options.no_play)
    given = {"results": options.results_dir, "force": options.force, "trust": options.trust}
    made = publish(options.run, options.out, choices, **given)
    for note in made.notes:
        on_stderr(f"note: {note}")
    print(f"Wrote {made.folder / 'index.html'} ({made.bytes / 1e6:.1f} MB, {len(made.steps)} checkpoints)")
    if made.plays:
        print("The policy plays in the browser too.")
