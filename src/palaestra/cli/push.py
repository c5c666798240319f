"""Upload a run to the Hugging Face Hub.

Uploads settings, models, metrics, pictures and the newest checkpoint as one commit, with a model card: tags, rewards,
curves, a recording. Logs, locks, paths of this machine and secrets are left out. The repository is made if there is
none.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from palaestra.cli.flags import option, results_dir, switch, trust
from palaestra.core.display import escaped, escaped_lines, listed
from palaestra.core.errors import PalaestraError, exception_summary
from palaestra.runtime.logging.waiting import on_stderr

EXAMPLES = """\
palaestra push first ann/ppo-3DBall --dry-run
palaestra push first ann/ppo-3DBall --private
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
        "what a training can go on from: the newest checkpoint, all of them with self-play's snapshots, or none "
        "(default: newest)"
    )
    parser.add_argument("--checkpoints", choices=("newest", "all", "none"), default="newest", help=checkpoints)
    episodes = "play N episodes for the card's rewards (default: rewards of training)"
    parser.add_argument("--evaluate", type=int, default=0, metavar="N", help=episodes)
    switch(parser, "--no-video", "do not record a GIF if the run has no recording")
    switch(parser, "--force", "write to a repository that holds something else")
    switch(parser, "--dry-run", "upload nothing; print what would be")
    results_dir(parser)
    trust(parser)


def main(options: argparse.Namespace) -> None:
    """Records, uploads, and prints where the run is. Raises HubError, RunError or ConfigError."""
    from palaestra.runtime.sharing.pushing import push

    def prepare(folder: Path) -> None:
        if (
            not options.no_video
            and not options.dry_run
            and not any(next(folder.glob(kind), None) for kind in RECORDINGS)
        ):
            _record(folder, options)

    done = push(
        options.run,
        options.repo,
        results_dir=options.results_dir,
        private=options.private,
        message=options.message,
        revision=options.revision,
        checkpoints=options.checkpoints,
        evaluate=options.evaluate,
        force=options.force,
        trust=options.trust,
        dry_run=options.dry_run,
        prepare=prepare,
    )
    if options.dry_run:
        for path, size in sorted(done.files.items()):
            print(escaped(f"{size:>12,}  {path}"))
    for note in done.notes:
        on_stderr(escaped_lines(f"note: {note}"))
    if done.left_out:
        print(escaped(f"left out: {listed(done.left_out)}"))
    size = sum(done.files.values()) / 1e6
    if options.dry_run:
        print(escaped(f"would push {len(done.files)} files ({size:.1f} MB) to {done.url}; nothing was uploaded"))
    elif not done.changed:
        print(escaped(f"{done.url} has all of this already"))
    else:
        how = "a new repository" if done.created else "a new commit of the existing repository"
        gone = f"; removed {len(done.removed)} files of an earlier push" if done.removed else ""
        print(escaped(f"pushed {len(done.files)} files ({size:.1f} MB) to {done.url}, {how}{gone}"))


def _record(folder: Path, options: argparse.Namespace) -> None:
    from palaestra.runtime.recording.filming import Film, record_film

    try:
        made = record_film([str(folder)], None, Film(), results=options.results_dir, trust=options.trust)
        print(f"Wrote {made.file}")
    except Exception as error:  # an environment's own, such as a missing library of its pictures
        reason = str(error) if isinstance(error, PalaestraError) else exception_summary(error)
        on_stderr(escaped_lines(f"note: the card has no recording: {reason}"))
