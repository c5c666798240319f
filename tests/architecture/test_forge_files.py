"""Workflows and forms of the public forge are what it can read."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORGE = ROOT / ".github"
KINDS = {
    "github-workflows": FORGE / "workflows",
    "github-issue-forms": FORGE / "ISSUE_TEMPLATE",
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_files_of_the_forge_fit_their_schema(kind: str):
    files = [str(file) for file in sorted(KINDS[kind].glob("*.yml")) if file.name != "config.yml"]
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{kind}", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_tests_every_python_that_the_package_names():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = [
        line.rsplit(" ", 1)[1].strip('",')
        for line in text.splitlines()
        if '"Programming Language :: Python :: 3.' in line
    ]
    workflow = yaml.safe_load((FORGE / "workflows" / "test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == named
