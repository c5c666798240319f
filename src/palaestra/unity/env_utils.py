"""Functions that find and start builds."""

from __future__ import annotations

import subprocess
import sys
from logging import DEBUG
from pathlib import Path

from palaestra.envs.unity import executable
from palaestra.unity.exception import UnityEnvironmentException
from palaestra.unity.logging_util import get_logger


def get_platform() -> str:
    """Returns the operating system: linux, darwin or win32."""
    return sys.platform


def validate_environment_path(env_path: str) -> str | None:
    """Returns the file to start for a build's name (with or without suffix) or its folder; None if there is none."""
    found = executable.find(env_path, get_platform())
    return None if found is None else str(found)


def launch_executable(file_name: str, args: list[str]) -> subprocess.Popen[bytes]:
    """Starts a build in its own session, its output shown at DEBUG. Raises UnityEnvironmentException."""
    launched = validate_environment_path(file_name)
    if launched is None:
        raise UnityEnvironmentException(executable.explain_missing(file_name, get_platform()))
    shown = None if get_logger(__name__).getEffectiveLevel() <= DEBUG else subprocess.DEVNULL
    words = [*executable.command(Path(launched)), *args]
    try:
        return subprocess.Popen(words, start_new_session=True, stdout=shown, stderr=shown)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnityEnvironmentException(
            f"{launched} cannot be started: {reason}; if it may not be run, 'chmod -R 755' on its folder lets it"
        ) from error
