"""Reads names of runs and models on the Hub: `hub:user/repository`, with a file, a revision and a step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from palaestra.core.display import shortened
from palaestra.core.errors import ConfigError

PREFIX = "hub:"
_NAME = re.compile(
    r"(?P<owner>[A-Za-z0-9][\w.-]*)/(?P<name>[A-Za-z0-9_][\w.-]*)(?:/(?P<file>[^@]+))?(?:@(?P<at>.+))?", re.ASCII
)
_STEP = re.compile(r"\d{1,19}")
_LONGEST = 96
"""Largest number of characters of an owner or a repository: the Hub's own limit."""
_PAGES = re.compile(r"/(?:tree|blob|resolve)/(?P<revision>[^/]+)(?:/(?P<file>.+))?")


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository on the Hub, or a file in it."""

    repo: str  # user/repository
    file: str | None = None
    revision: str | None = None  # branch, tag or commit; None: the main branch
    step: int | None = None  # step of a run's models

    def __str__(self) -> str:
        return PREFIX + "".join(
            (
                self.repo,
                "" if self.file is None else f"/{self.file}",
                "" if self.revision is None else f"@{self.revision}",
                "" if self.step is None else f"@{self.step}",
            )
        )

    @property
    def short(self) -> str:
        """The repository without its owner."""
        return self.repo.rpartition("/")[2]


def is_hub_name(text: str) -> bool:
    """Whether a text names something on the Hub rather than a file or a run."""
    return text.startswith(PREFIX)


def read_name(text: str, *, what: str = "") -> HubName:
    """Reads `[hub:]user/repository[/FILE][@REVISION][@STEP]`, or the address of a repository's page.

    Digits after an @ are a step, as in RUN@STEP. A ConfigError's message begins with `what`, the flag.
    """
    short = text.removeprefix(PREFIX)
    match = _NAME.fullmatch(_of_address(short) if "://" in short else short)
    parts = () if match is None else (match["owner"], match["name"])
    if match is None or any(
        len(part) > _LONGEST or ".." in part or "--" in part or part.endswith((".", "-", ".git")) for part in parts
    ):
        begin = f"{what}: " if what else ""
        raise ConfigError(
            f"{begin}'{shortened(text)}' names no repository of the Hub; expected user/repository, such as "
            "ann/ppo-3DBall, hub:ann/ppo-3DBall/3DBall.onnx or hub:ann/ppo-3DBall@REVISION"
        )
    revision = match["at"]
    step = None
    if revision is not None:
        before, _, last = revision.rpartition("@")
        if _STEP.fullmatch(last):
            revision = before or None
            step = int(last)
    return HubName(f"{match['owner']}/{match['name']}", match["file"], revision, step)


def read_repository(text: str, revision: str | None) -> HubName:
    """Reads the repository of a push or a pull; a flag may give its revision instead. Raises ConfigError."""
    name = read_name(text, what="repo")
    if name.file is not None or name.step is not None or (revision is not None and name.revision is not None):
        raise ConfigError(
            f"repo is '{text}'; expected user/repository only, with --revision for a branch, a tag or a commit"
        )
    return HubName(name.repo, revision=revision or name.revision)


def _of_address(address: str) -> str:
    """Returns the short form of a page's address, such as https://huggingface.co/ann/ppo-3DBall/tree/main."""
    path = unquote(urlsplit(address).path).strip("/")
    owner, _, rest = path.partition("/")
    name, slash, page = rest.partition("/")
    found = _PAGES.fullmatch(slash + page)
    if found is None:
        return path
    file = f"/{found['file']}" if found["file"] else ""
    return f"{owner}/{name}{file}@{found['revision']}"
