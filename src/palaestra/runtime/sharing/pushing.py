"""Uploads a run to the Hub: one commit with its files, a model card, and the settings as JSON."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.display import listed
from palaestra.core.errors import ConfigError, HubError
from palaestra.hub.contents import CONFIGURATION, belongs, is_run, models
from palaestra.hub.hub_client import (
    Listing,
    NoRepository,
    NoRevision,
    api,
    download,
    explained,
    library,
    list_files,
    must_be_logged_in,
    page,
)
from palaestra.hub.hub_names import HubName, read_repository
from palaestra.runtime.play.run_models import OF_RUN, Models, find_models, run_folder
from palaestra.runtime.presentation.result_tables import ResultTable
from palaestra.runtime.presentation.shown import Shown
from palaestra.runtime.sharing.card import MARK, model_card
from palaestra.runtime.sharing.gathering import Gathered
from palaestra.runtime.sharing.pushed_files import CARD, KINDS, REPLAY, SETTINGS_JSON, Kept, is_pushed
from palaestra.runtime.sharing.results import evaluations_of, rows_of


@dataclass(frozen=True, slots=True, repr=False)
class Pushed(Shown):
    """Result of a push or a dry run: the files, and their address."""

    url: str
    commit: str | None  # None: nothing was uploaded (dry run)
    created: bool  # whether the repository is new
    changed: bool  # False: everything was there already
    files: dict[str, int]  # bytes of each
    removed: tuple[str, ...]  # of an earlier push
    left_out: tuple[str, ...]
    notes: tuple[str, ...]  # what was cleaned or not replaced, one sentence each

    def _line(self) -> str:
        what = f"{len(self.files)} files ({sum(self.files.values()) / 1e6:.1f} MB) to {self.url}"
        if self.commit is None:
            return f"would push {what}; nothing was uploaded"
        if not self.changed:
            return f"{self.url} has all of this already"
        gone = f"; removed {len(self.removed)} files of an earlier push" if self.removed else ""
        return f"pushed {what}, a new {'repository' if self.created else 'commit of the existing repository'}{gone}"

    def _tables(self) -> Sequence[ResultTable]:
        rows = [[f"{size:,}", path] for path, size in sorted(self.files.items()) if self.commit is None]
        notes = [f"note: {note}" for note in self.notes]
        notes += [f"left out: {listed(self.left_out)}"] * bool(self.left_out)
        return [ResultTable(["bytes", "file"] * bool(rows), rows, left=0, notes=[*notes, self._line()])]


def push(  # noqa: PLR0913 - keywords for the flags of the command
    run: str,
    repo: str,
    *,
    results_dir: Path | str = "results",
    private: bool = False,
    message: str | None = None,
    revision: str | None = None,
    checkpoints: Kept = "newest",
    evaluate: int = 0,
    force: bool = False,
    trust: bool = False,
    dry_run: bool = False,
    prepare: Callable[[Path], object] | None = None,
) -> Pushed:
    """Uploads a run to `user/repository`, which is created if it does not exist.

    An existing repository gets a new commit if it holds the same behaviors; any other repository is refused unless
    `force` is given.

    >>> import palaestra
    >>> pushed = palaestra.push("pole", "user/repository", evaluate=100)
    >>> print(pushed.url)

    run: run id.
    repo: "user/repository" of the Hugging Face Hub.
    results_dir: folder of all runs.
    private: make a new repository private, so that only you see it.
    message: a line that says what this version is.
    revision: branch to push to; None: the main branch.
    checkpoints: "newest", "all" or "none".
    evaluate: episodes to play for the card; 0: use the numbers of training.
    force: also replace another run's files.
    trust: run the code or program that the run's settings name, even if its folder was not written by you.
    dry_run: gather and check, but upload nothing.
    prepare: a function that is called with the run's folder before its files are gathered, when it is known that they
        may be uploaded.

    Returns `url`, `commit`, `files` with their bytes, what was `removed` and `left_out`, and `notes`. Raises
    PalaestraError.
    """
    name = read_repository(repo, revision)
    if message is not None and not message.strip():
        raise ConfigError("--message is empty; expected a line that says what this version is")
    if checkpoints not in KINDS:
        raise ConfigError(f"--checkpoints is '{checkpoints}'; expected {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if evaluate < 0:
        raise ConfigError(f"--evaluate is {evaluate}; expected a number of episodes, or 0 for none")
    folder = run_folder(run, Path(results_dir)).path
    found = find_models(str(folder), Path(results_dir), trust)
    there = _existing(name, found, private, force) if not dry_run else None
    if prepare is not None:
        prepare(folder)
    evaluations = evaluations_of(found, evaluate) if evaluate else {}
    with Gathered(folder, checkpoints) as gathered:
        rows = rows_of(found, evaluations)
        settings = yaml.safe_load((gathered.place / CONFIGURATION).read_text(encoding="utf-8")) or {}
        gathered.write(SETTINGS_JSON, json.dumps(settings, default=str).encode())
        _name_replay(gathered)
        own_card = there is not None and _is_own_card(there)
        if own_card:
            gathered.notes.append(f"{CARD} there was changed by hand, and stays as it is")
        else:
            gathered.write(CARD, model_card(name, rows, settings, gathered.files).encode())
        before = () if there is None else there.files
        stale = tuple(file.path for file in before if is_pushed(file.path) and file.path not in gathered.files)
        title = message or _title(folder.name, [row.step for row in rows])
        sizes = {path: (gathered.place / path).stat().st_size for path in gathered.files}
        url = page(name.repo)
        commit = None
        if not dry_run:
            url, commit = _upload(name, gathered, stale, title, there, private)
        changed = commit is None or there is None or commit != there.commit
        return Pushed(url, commit, there is None, changed, sizes, stale, gathered.left_out, tuple(gathered.notes))


def _existing(name: HubName, found: Models, private: bool, force: bool) -> Listing | None:
    """Returns what is in the repository; None if there is none. Raises HubError if it must not be written to."""
    library()
    must_be_logged_in()
    try:
        listing = list_files(HubName(name.repo))
    except NoRepository:
        return None
    with suppress(NoRevision):  # it is made of the main branch
        listing = list_files(name)
    if private and not listing.private:
        raise HubError(
            f"{name.repo} exists already and is public, so --private would hide nothing: make it private on its page "
            "first"
        )
    paths = [file.path for file in listing.files]
    alien = [path for path in paths if not (path.startswith(".") or path in (CARD, "LICENSE"))]
    theirs = models(paths)
    ours = {OF_RUN.sub("", file.stem) for file in found.files.values()}
    if alien and not force and not (is_run([path for path in paths if belongs(path)]) and ours & set(theirs)):
        what = ", ".join(sorted(theirs)) if theirs else ", ".join(alien[:3])
        raise HubError(
            f"the repository {name.repo} exists already and holds something else ({what}): choose another name, or "
            "add --force to put this run into it as a new commit"
        )
    return listing


def _is_own_card(listing: Listing) -> bool:
    card = next((file for file in listing.files if file.path == CARD), None)
    if card is None:
        return False
    if card.size > 1_000_000:
        return True
    with tempfile.TemporaryDirectory() as place:
        text = download(listing.repo, CARD, listing.commit, folder=Path(place)).read_text(
            encoding="utf-8", errors="replace"
        )
    # the Hub itself makes one of a few lines where a repository is made on its page; ML-Agents' tool makes one that
    # names its library
    return MARK not in text and len(text.splitlines()) > 5 and "library_name: ml-agents" not in text


def _name_replay(gathered: Gathered) -> None:
    """Gives the first film the name that the Hub's page plays."""
    films = [path for path in gathered.files if "/" not in path and path.endswith(".mp4")]
    if films and REPLAY not in films:
        gathered.copy(films[0], REPLAY)


def _title(run: str, steps: Sequence[int | None]) -> str:
    known = [step for step in steps if step is not None]
    return f"{run} at step {max(known)}" if known else run


def _upload(
    name: HubName, gathered: Gathered, stale: Sequence[str], title: str, there: Listing | None, private: bool
) -> tuple[str, str]:
    hub = library()
    client = api()
    with explained(name, "write"):
        if there is None:
            client.create_repo(name.repo, private=private or None, exist_ok=True)
        if name.revision is not None:
            client.create_branch(name.repo, branch=name.revision, exist_ok=True)
        operations: list[Any] = [hub.CommitOperationAdd(path, str(gathered.place / path)) for path in gathered.files]
        operations += [hub.CommitOperationDelete(path) for path in stale]
        parent = None if there is None else there.commit
        done = client.create_commit(
            name.repo, operations, commit_message=title, revision=name.revision, parent_commit=parent
        )
        return page(name.repo), str(done.oid)


SPACE = "space"
PAGE_MARK = "palaestra-page"
"""Tag by which a later push knows that it may replace a Space."""


def push_page(site: Path, repo: str, title: str, *, private: bool = False, force: bool = False) -> str:
    """Uploads the folder of a published page to the Space `user/name`, which is created if it does not exist; returns
    its address. Raises HubError, also if the Space holds something else and `force` is not given."""
    name = read_repository(repo, None)
    hub, client = library(), api()
    must_be_logged_in()
    with explained(name, "write"):
        there = client.repo_exists(name.repo, repo_type=SPACE)
        if there and not force and PAGE_MARK not in _card_of(hub, name.repo):
            raise HubError(
                f"the Space {name.repo} exists already and is another page: add --force to replace its files"
            )
        client.create_repo(name.repo, repo_type=SPACE, space_sdk="static", private=private or None, exist_ok=True)
        head = {
            "title": title,
            "sdk": "static",
            "app_file": "index.html",
            "tags": ["reinforcement-learning", PAGE_MARK],
        }
        card = (
            f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n\nA page by `palaestra publish`.\n"
        )
        operations: list[Any] = [hub.CommitOperationAdd("README.md", card.encode())]
        files = sorted(path for path in site.rglob("*") if path.is_file())
        operations += [hub.CommitOperationAdd(path.relative_to(site).as_posix(), str(path)) for path in files]
        client.create_commit(name.repo, operations, commit_message=f"Show {title}", repo_type=SPACE)
    return page(f"spaces/{name.repo}")


def _card_of(hub: Any, repo: str) -> str:
    """Returns a Space's card; empty if it has none."""
    with tempfile.TemporaryDirectory() as place:
        try:
            file = hub.hf_hub_download(repo, "README.md", repo_type=SPACE, local_dir=place, endpoint=api().endpoint)
        except hub.errors.EntryNotFoundError:
            return ""
        return Path(file).read_text(encoding="utf-8", errors="replace")
