import ast
import subprocess
import sys

import pytest
from source import PACKAGE, ROOT, modules

if sys.version_info >= (3, 11):
    import tomllib


def test_an_import_only_points_down():
    code = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_every_package_has_a_layer():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract, _ = settings["tool"]["importlinter"]["contracts"]
    layered = {
        name.strip().removeprefix("palaestra.")
        for line in contract["layers"]
        for name in line.replace(":", "|").split("|")
    }
    assert layered == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def test_heavy_libraries_of_extras_are_imported_where_they_are_used_only():
    outside = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for imported in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
        )
        if imported.partition(".")[0] == "ray"
    ]
    assert outside == []
