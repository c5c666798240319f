"""Shows a published page on the Hub: a Space of static files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from palaestra.core.errors import HubError
from palaestra.hub.hub_client import api, explained, library, must_be_logged_in, page
from palaestra.hub.hub_names import read_repository

SPACE = "space"
MARK = "palaestra-page"
"""Tag by which a later push knows that it may replace a Space."""


def push_page(site: Path, repo: str, title: str, *, private: bool = False, force: bool = False) -> str:
    """Uploads the folder of a published page to the Space `user/name`, which is made unless it exists; returns its
    address. Raises HubError, also for a Space that is something else, unless `force` is given.
    """
    name = read_repository(repo, None)
    hub, client = library(), api()
    must_be_logged_in()
    with explained(name, "write"):
        there = client.repo_exists(name.repo, repo_type=SPACE)
        if there and not force and MARK not in _card(hub, name.repo):
            raise HubError(
                f"the Space {name.repo} exists already and is another page: add --force to replace its files"
            )
        client.create_repo(name.repo, repo_type=SPACE, space_sdk="static", private=private or None, exist_ok=True)
        head = {"title": title, "sdk": "static", "app_file": "index.html", "tags": ["reinforcement-learning", MARK]}
        card = (
            f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---\n\nA page by `palaestra publish`.\n"
        )
        operations: list[Any] = [hub.CommitOperationAdd("README.md", card.encode())]
        files = sorted(path for path in site.rglob("*") if path.is_file())
        operations += [hub.CommitOperationAdd(path.relative_to(site).as_posix(), str(path)) for path in files]
        client.create_commit(name.repo, operations, commit_message=f"Show {title}", repo_type=SPACE)
    return page(f"spaces/{name.repo}")


def _card(hub: Any, repo: str) -> str:
    """Returns a Space's card; nothing where it has none."""
    with tempfile.TemporaryDirectory() as place:
        try:
            file = hub.hf_hub_download(repo, "README.md", repo_type=SPACE, local_dir=place, endpoint=api().endpoint)
        except hub.errors.EntryNotFoundError:
            return ""
        return Path(file).read_text(encoding="utf-8", errors="replace")
