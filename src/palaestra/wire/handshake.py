"""Checks that a game's protocol version is supported, and explains what to install if it is not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from palaestra.core.errors import EnvError
from palaestra.wire.encode import CAPABILITIES, COMMUNICATION

FEATURES = {
    "concatenatedPngObservations": "images of more than three channels as PNG",
    "compressedChannelMapping": "compressed images with a channel mapping",
    "hybridActions": "continuous and discrete actions together",
    "trainingAnalytics": "training analytics",
    "variableLengthObservation": "observations of variable length",
    "multiAgentGroups": "groups",
}


@dataclass(frozen=True, slots=True)
class GameVersion:
    """Versions and capabilities that a game reports."""

    package: str  # version of com.unity.ml-agents
    communication: str  # version of the protocol
    capabilities: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """Descriptions of the features that the game lacks."""
        return [words for name, words in FEATURES.items() if name not in self.capabilities]

    def line(self) -> str:
        """Returns a description for log messages."""
        off = f"; it has no {', no '.join(self.missing)}" if self.missing else ""
        return f"package version {self.package or 'unknown'} and communication version {self.communication}{off}"


def read_game_version(hello: Any) -> GameVersion:
    """Reads the versions of a game. Raises EnvError for an unsupported protocol, which no restart could fix."""
    version = hello.communication_version
    package = hello.package_version
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None or match[1] != COMMUNICATION.split(".")[0]:
        raise EnvError(mismatch(version, package, None if match is None else int(match[1])))
    capabilities = frozenset(name for name in CAPABILITIES if getattr(hello.capabilities, name))
    return GameVersion(package, version, capabilities)


def mismatch(version: str, package: str, major: int | None) -> str:
    """Returns an error message that says what to install, and where."""
    spoken = f"version '{version}'" if version else "an unnamed version"
    game = f"it speaks {spoken} of the communication API"
    game += f" (package com.unity.ml-agents {package})" if package else ""
    ours = f"Palaestra speaks 1.0 to {COMMUNICATION.removesuffix('.0')}"
    if major is not None and major > 1:
        return (
            f"{game}, which is too new; {ours}: update Palaestra (pip install -U palaestra), or build with "
            "package 3 or 4"
        )
    return (
        f"{game}, which is older than 1.0; {ours}: in Unity's Package Manager install "
        f"com.unity.ml-agents 2.0.1 or newer (1.0 at least) and build the game again"
    )
