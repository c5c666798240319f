"""Records the commit that a package is built from, which `palaestra --version` prints."""

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):
    """Adds `palaestra/commit.txt` where a git checkout is built; an editable install reads the checkout itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Names the file to hatchling, which puts it into the package."""
        versions = runpy.run_path(f"{self.root}/src/palaestra/core/versions.py")
        commit = versions["checked_out"](Path(self.root))
        if commit and version != "editable":
            self.folder = TemporaryDirectory()  # until the package is built
            file = Path(self.folder.name) / "commit.txt"
            file.write_text(commit, encoding="utf-8")
            source = "src/" if self.target_name == "sdist" else ""
            build_data["force_include"][str(file)] = f"{source}palaestra/commit.txt"
