"""The commit that is checked out is read without git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from palaestra.core.versions import checked_out, palaestra_commit


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to make a repository")
def test_the_commit_is_that_of_a_branch_a_packed_one_a_work_tree_and_no_branch(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"

    def git(*words: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.run(("git", "-C", first, *who, *words), check=True, capture_output=True, text=True).stdout

    first.mkdir()
    git("init", "-q", "-b", "some/branch")
    assert checked_out(first) == ""  # nothing is committed yet
    git("commit", "-q", "--allow-empty", "-m", "one")
    commit = git("rev-parse", "HEAD").strip()
    assert checked_out(first) == commit
    git("worktree", "add", "-q", "-b", "other", str(second))
    assert checked_out(second) == commit
    git("pack-refs", "--all")
    assert checked_out(first) == checked_out(second) == commit
    git("checkout", "-q", "--detach")
    assert checked_out(first) == commit


def test_what_is_no_repository_or_a_damaged_one_has_no_commit(tmp_path: Path):
    assert checked_out(tmp_path) == ""
    (tmp_path / ".git").write_bytes(b"\xff\x00")
    assert checked_out(tmp_path) == ""
    assert len(palaestra_commit()) in {0, 40, 64}
