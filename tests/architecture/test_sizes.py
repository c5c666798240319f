import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import pytest
from source import PACKAGE, dotted, modules

MODULE_LINES, FUNCTION_LINES = 500, 60


def test_no_module_is_longer_than_500_lines():
    lines = {dotted(path): len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_no_function_is_longer_than_60_lines_without_its_docstring():
    lengths = {f"{name}.{function.name}": body_lines(function) for name, function in functions()}
    assert len(lengths) > 500
    assert {name: count for name, count in lengths.items() if count > FUNCTION_LINES} == {}


def test_no_class_inherits_from_a_class_of_ours_that_itself_does():
    bases = {node.name: [ast.unparse(base).split(".")[-1].split("[")[0] for base in node.bases] for node in classes()}
    assert bases["NotFinite"] == ["EnvError"]  # exceptions alone are a tree
    deep = [name for name, above in bases.items() if any(grand in bases for base in above for grand in bases.get(base, []))]
    assert [name for name in deep if name not in exceptions(bases)] == []


def test_no_module_imports_another_in_a_circle():
    graph = {name: set(imports(name, tree)) for name, tree in modules().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_module_is_a_drawer_for_odds_and_ends():
    assert {name.rpartition(".")[2] for name in modules()} & {"utils", "util", "common", "helpers", "misc"} == set()


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for name, tree in modules().items():
        yield from ((name, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def classes() -> Iterator[ast.ClassDef]:
    for tree in modules().values():
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    first = function.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - function.lineno + 1 - docstring


def exceptions(bases: dict[str, list[str]]) -> set[str]:
    found = {"PalaestraError"}
    while more := {name for name, above in bases.items() if found & set(above)} - found:
        found |= more
    return found


def imports(name: str, tree: ast.Module) -> Iterator[str]:
    """Modules of ours that it imports, also within functions; not those for type checkers alone."""
    for_types = {id(node) for test in ast.walk(tree) if is_for_types(test) for node in ast.walk(test)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (each if each in modules() else node.module for each in found if node.module in modules() and node.module != name)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
