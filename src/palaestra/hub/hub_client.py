"""Calls the Hub through `huggingface_hub`, and turns each of its errors into one message without secrets."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from palaestra.core.display import is_terminal, shortened
from palaestra.core.errors import HubError, PalaestraError
from palaestra.core.files import explain
from palaestra.core.versions import palaestra_version
from palaestra.hub.hub_names import HubName

MOST_FILES = 20_000
"""Largest number of files that a repository may have."""
_TRANSPORTS = frozenset(("httpx", "httpx2", "httpcore", "requests", "urllib3", "ssl", "socket"))
"""Packages whose exceptions mean that the Hub did not answer."""
SECRETS = re.compile(r"hf_[A-Za-z0-9_]{6,}|Bearer\s+[\w.-]+|(?<=://)[^/\s@]+@")
"""Patterns of tokens, and of names and passwords within addresses."""
_NOT_ALLOWED = (
    "the token of this machine may not {doing}; use one with write access to it "
    "(https://huggingface.co/settings/tokens)"
)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository."""

    path: str
    size: int
    sha256: str | None  # of a large file
    blob: str | None  # git's hash of any other


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of a repository at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]
    private: bool


def library() -> ModuleType:
    """Imports `huggingface_hub`. Raises HubError, whose message says how to install the library."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils

        return huggingface_hub
    except ImportError as error:
        missing = (
            f"the package '{error.name}' is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        )
        raise HubError(
            f"the Hub needs huggingface_hub: {missing}; install it with: pip install 'palaestra[hub]'"
        ) from error


def endpoint() -> str:
    """Returns the address of the Hub: HF_ENDPOINT, or huggingface.co."""
    return (os.environ.get("HF_ENDPOINT") or library().constants.ENDPOINT).rstrip("/")


def host() -> str:
    """Returns the Hub's address for messages, without a password."""
    parts = urlsplit(endpoint())
    return parts.netloc.rpartition("@")[2] or endpoint()


def page(repo: str) -> str:
    """Returns the address of a repository's page."""
    return f"{urlsplit(endpoint()).scheme or 'https'}://{host()}/{repo}"


def api() -> Any:
    """Returns the library's client, which takes the token from HF_TOKEN or from `hf auth login`."""
    return library().HfApi(endpoint=endpoint(), library_name="palaestra", library_version=palaestra_version())


def must_be_logged_in() -> None:
    """Raises HubError if this machine has no token for the Hub."""
    if not library().get_token():
        raise HubError(
            f"nobody is logged in to {host()} on this machine: run hf auth login, or set HF_TOKEN to a token with "
            "write access"
        )


def list_files(name: HubName) -> Listing:
    """Lists the files of a repository. Raises HubError."""
    client = api()
    with explained(name, "read"):
        info = client.repo_info(name.repo, revision=name.revision, timeout=20)
        commit = str(info.sha)
        found: list[RemoteFile] = []
        for entry in client.list_repo_tree(name.repo, recursive=True, revision=commit):
            if not hasattr(entry, "blob_id"):  # a folder
                continue
            lfs = entry.lfs
            found.append(
                RemoteFile(str(entry.path), int(entry.size), None if lfs is None else str(lfs.sha256), entry.blob_id)
            )
            if len(found) > MOST_FILES:
                raise HubError(f"{name.repo} on {host()} has more than {MOST_FILES:,} files: it is no run")
        return Listing(name.repo, commit, tuple(found), bool(info.private))


def download(repo: str, path: str, commit: str, *, folder: Path | None = None) -> Path:
    """Downloads a file to the library's cache or to `folder`, and returns its path. Raises HubError."""
    with explained(HubName(repo), "read"):
        place = {"local_dir": folder} if folder is not None else {"cache_dir": cache()}
        given = {"endpoint": endpoint(), "library_name": "palaestra", "library_version": palaestra_version()}
        return Path(library().hf_hub_download(repo, path, revision=commit, **place, **given))


def cache() -> str:
    """Returns the folder in which the library keeps what it downloads."""
    return os.environ.get("HF_HUB_CACHE") or str(library().constants.HF_HUB_CACHE)


def without_secrets(text: str) -> str:
    """Returns a text without tokens and passwords."""
    token = library().get_token()
    return SECRETS.sub("***", text.replace(token, "***") if token else text)


class Unreachable(HubError):
    """The Hub could not be reached, or the library is offline."""


class NoRepository(HubError):
    """There is no such repository, or it is hidden."""


class NoRevision(HubError):
    """A repository has no such branch, tag or commit."""


@contextmanager
def explained(name: HubName, doing: str) -> Iterator[None]:
    """Turns errors of the library within the block into a HubError. `doing`: the failed action, 'read' or 'write'."""
    try:
        with _bars_on_terminals():
            yield
    except PalaestraError:
        raise
    except Exception as error:
        raise _explanation(error, name, doing) from error


@contextmanager
def _bars_on_terminals() -> Iterator[None]:
    bars = library().utils
    silenced = not is_terminal(sys.stderr) and not bars.are_progress_bars_disabled()
    if silenced:
        bars.disable_progress_bars()
    try:
        yield
    finally:
        if silenced:
            bars.enable_progress_bars()


def _explanation(error: Exception, name: HubName, doing: str) -> HubError:
    errors = library().errors
    cause = _first_cause(error)
    kind = type(cause)
    status = getattr(getattr(cause, "response", None), "status_code", None)
    at = f"{name.repo} on {host()}"
    there = "" if name.revision is None else f" at '{shortened(name.revision)}'"
    if issubclass(kind, errors.GatedRepoError):
        return HubError(
            f"{at} is given only to people whom its owner has accepted: ask for access on its page, and log in: hf "
            "auth login"
        )
    if issubclass(kind, errors.RepositoryNotFoundError):
        who = (
            "or the token of this machine may not see it"
            if library().get_token()
            else "or it is private: log in with hf auth login, or set HF_TOKEN"
        )
        return NoRepository(f"there is no repository {at}, {who}")
    if issubclass(kind, errors.RevisionNotFoundError):
        return NoRevision(f"{at} has no branch, tag or commit{there.removeprefix(' at')}")
    if issubclass(kind, errors.OfflineModeIsEnabled):
        return Unreachable(f"{at} is not in the cache, and HF_HUB_OFFLINE keeps huggingface_hub offline: unset it")
    if issubclass(kind, errors.LocalTokenNotFoundError):
        return HubError(f"nobody is logged in to {host()}: run hf auth login, or set HF_TOKEN")
    if issubclass(kind, errors.EntryNotFoundError) and status is not None:
        return HubError(f"{at}{there} has no such file")
    if status is not None:
        return HubError(_refusal(status, at, doing, cause))
    if kind.__module__.partition(".")[0] in _TRANSPORTS or isinstance(cause, ConnectionError | TimeoutError):
        reason = without_secrets(str(cause)).splitlines()
        why = f" ({shortened(reason[0], 120)})" if reason and reason[0] else ""
        return Unreachable(
            f"{host()} cannot be reached{why}: is there a network? HF_ENDPOINT names another address of the Hub"
        )
    if isinstance(cause, OSError) and cause.errno is not None:
        return HubError(
            f"{at} cannot be {'downloaded' if doing == 'read' else 'uploaded'}: {cause.filename or ''}: "
            f"{explain(cause)}"
        )
    reasons = dict.fromkeys(str(one) for one in (cause, cause.__cause__) if one is not None)
    detail = without_secrets(" ".join(": ".join(reasons).split()))
    return HubError(
        f"{at} cannot be {'read' if doing == 'read' else 'written'}: {shortened(detail, 300) or kind.__name__}"
    )


def _first_cause(error: BaseException) -> BaseException:
    """Returns the innermost error: the library wraps the message of the network or the server."""
    errors = library().errors
    explaining = (errors.HfHubHTTPError, errors.OfflineModeIsEnabled)
    seen = set[int]()
    chain = list[BaseException]()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        chain.append(at)
        at = at.__cause__ or at.__context__
    for one in chain:
        if isinstance(one, explaining):
            return one
    return next((one for one in chain if type(one).__module__.partition(".")[0] in _TRANSPORTS), error)


def _refusal(status: int, at: str, doing: str, cause: BaseException) -> str:
    said = " ".join(without_secrets(str(getattr(cause, "server_message", None) or "")).split())
    more = f" (it says: {shortened(said, 200)})" if said else ""
    if status == 401:
        where = "the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "the token of this machine"
        return f"{host()} does not accept {where}{more}: log in again with hf auth login, or set HF_TOKEN"
    if status == 403:
        return f"{at} is refused{more}: {_NOT_ALLOWED.format(doing=f'{doing} it')}"
    if status == 412:
        return f"{at} was changed by someone else meanwhile; nothing was written: try again"
    if status == 429:
        return f"{host()} takes no more requests for now{more}: wait some minutes, then try again"
    if status >= 500:
        return f"{host()} has a problem of its own (status {status}){more}: try again later"
    return f"{host()} refuses to {doing} {at} (status {status}){more}"
