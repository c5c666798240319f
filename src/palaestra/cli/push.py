"""Upload a run to the Hugging Face Hub.

Uploads settings, models, metrics, pictures and the newest checkpoint as one commit, with a model card: tags, rewards,
curves, a recording. Logs, locks, paths of this machine and secrets are left out. The repository is made if there is
none.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from palaestra.cli.flags import option, results_dir, switch, trust
from palaestra.core.display import escaped_lines
from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.runtime.logging.waiting import on_stderr

EXAMPLES = """\
palaestra push first ann/ppo-3DBall --dry-run
palaestra push first ann/ppo-3DBall --private
palaestra push first ann/ppo-3DBall --page
palaestra push first ann/ppo-3DBall --message "Longer training" --evaluate 100
"""
RECORDINGS = ("*.gif", "*.mp4", "*.webm")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `palaestra push`."""
    parser.add_argument("run", metavar="RUN", help="a run id, or a run's folder")
    parser.add_argument("repo", metavar="REPO", help="repository, such as ann/ppo-3DBall")
    parser.add_argument(
        "--message", "--commit-message", metavar="TEXT", help="title of the commit (default: the run and its step)"
    )
    switch(parser, "--private", "make the repository visible to you only")
    option(parser, "--revision", "BRANCH", "branch to write to, made if there is none (default: main)")
    checkpoints = (
        "checkpoints to upload, from which training can continue: newest, all (with self-play's snapshots) or none "
        "(default: newest)"
    )
    parser.add_argument("--checkpoints", choices=("newest", "all", "none"), default="newest", help=checkpoints)
    episodes = "play N episodes for the card's rewards (default: rewards of training)"
    parser.add_argument("--evaluate", type=int, default=0, metavar="N", help=episodes)
    switch(parser, "--page", "also show it as a Space of the same name: the page of palaestra publish")
    switch(parser, "--no-video", "do not record a GIF if the run has no recording")
    switch(parser, "--force", "write to a repository that holds something else")
    switch(parser, "--dry-run", "upload nothing; print what would be")
    results_dir(parser)
    trust(parser)


def main(options: argparse.Namespace) -> None:
    """Records, uploads, and prints where the run is. Raises HubError, RunError or ConfigError."""
    from palaestra.runtime.sharing.pushing import push

    def prepare(folder: Path) -> None:
        recorded = any(next(folder.glob(kind), None) for kind in RECORDINGS)
        if not (recorded or options.no_video or options.dry_run):
            _record(folder, options)

    names = ["results_dir", "private", "message", "revision", "checkpoints", "evaluate", "force", "trust", "dry_run"]
    print(push(options.run, options.repo, prepare=prepare, **{name: getattr(options, name) for name in names}))
    if options.page and not options.dry_run:
        _show_page(options)


def _show_page(options: argparse.Namespace) -> None:
    from palaestra.runtime.sharing.pushing import push_page
    from palaestra.web.publishing.static_site import SiteChoices, publish

    with TemporaryDirectory() as place:
        site = Path(place) / "site"
        made = publish(options.run, site, SiteChoices(), results=options.results_dir, trust=options.trust)
        for note in made.notes:
            on_stderr(escaped_lines(f"note: {note}"))
        title = Path(options.run).name
        address = push_page(site, options.repo, title, private=options.private, force=options.force)
    print(f"Its page is {address}")


def _record(folder: Path, options: argparse.Namespace) -> None:
    from palaestra.runtime.recording.filming import Film, record_film

    try:
        made = record_film([str(folder)], None, Film(), results=options.results_dir, trust=options.trust)
        print(f"Wrote {made.file}")
    except Exception as error:  # an environment's own, such as a missing library of its pictures
        reason = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
        on_stderr(escaped_lines(f"note: the card has no recording: {reason}"))
