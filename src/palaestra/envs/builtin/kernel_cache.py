"""Where Warp keeps compiled kernels."""

from __future__ import annotations

import os
import stat
import tempfile
from functools import cache
from pathlib import Path

import warp as wp


@cache
def start_warp() -> str:
    """Starts Warp. Where its folder for compiled kernels cannot be written, as with a home folder that is read-only or missing, another
    one is chosen. Returns a sentence about that, or nothing."""
    try:
        wp.init()
        folder = Path(wp.config.kernel_cache_dir or "")
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        problem = error
    elsewhere = _private_folder()
    wp.config.kernel_cache_dir = str(elsewhere)
    wp.init()
    where = getattr(problem, "filename", None) or "its usual folder"
    why = problem.strerror or problem
    return f"Compiled environments cannot be kept in {where} ({why}); they are kept in {elsewhere}. WARP_CACHE_PATH names another folder."


def _private_folder() -> Path:
    """A folder for temporary files that is this user's alone, since what lies in it is executed; the same one each time if possible."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"palaestra-kernels-{user}")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        private = os.name == "nt" or (found.st_uid == user and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        if stat.S_ISDIR(found.st_mode) and private:
            with tempfile.TemporaryFile(dir=folder):
                return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="palaestra-kernels-"))
