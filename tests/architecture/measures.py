"""Measures of the source tree. `python tests/architecture/measures.py [FOLDER]` prints them; test_measures.py asserts
them.
"""

import ast
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from source import PACKAGE, dotted, modules

MOST_MODULES = 16
MEDIAN_LINES = 120
P90_LINES = 350
MOST_LINES = 400
FUNCTION_LINES = 72
MOST_METHODS = 15
IGNORES_PER_1000 = 1.0
RIDDLES = ("Of", "Those", "That", "What", "Whom", "Who", "As")
"""Words with which no docstring begins."""
SAME_ROLE = {
    "base": "the contract of its package",
    "settings": "settings classes of its package",
    "env": "the environment of a built-in game",
    "rules": "the rules of a built-in game",
    "motion": "how bodies of a built-in game move",
    "heuristic": "a rule that plays",
    "observations": "what agents see",
    "gymnasium": "its environments for us, and ours for it",
    "pettingzoo": "its environments for us, and ours for it",
    "curriculum": "lessons: their rules, and their part in a run",
    "ppo": "the algorithm: its losses, its trainer",
    "sac": "the algorithm: its losses, its trainer",
    "custom": "code of the user's: a brain, a network, its export",
    "sensors": "sensors of agents, in built-in games and in games in Python",
    "unity": "Unity games: as environments, and by the API of mlagents_envs",
    "schema": "the JSON schema of settings, and the command that prints it",
    "__init__": "a package",
    "__main__": "a program",
}
"""Names that several modules may have, because they mean the same in each."""
SAME_CLASS = {
    "World": "the columns of a built-in game, a Warp struct",
    "ActionSpec": "ours, and that of mlagents_envs",
    "BehaviorSpec": "ours, and that of mlagents_envs",
    "SideChannel": "the trainer's, the game's, and that of mlagents_envs",
    "FloatProperties": "a side channel, the trainer's and the game's end",
    "RawBytes": "a side channel, the trainer's and the game's end",
}
"""Class names that may occur more than once, and why."""


ASKING = ("isinstance", "issubclass", "getattr", "hasattr")
ENVIRONMENTS = ("env", "_env", "world", "_world", "behind", "wrapped", "inner")
ALLOWED = (
    "palaestra.envs.traits",  # finds out what an environment of the user's own has
    "palaestra.envs.wrapper",
    "palaestra.envs.gymnasium",  # Gymnasium's and PettingZoo's own objects
    "palaestra.envs.pettingzoo",
    "palaestra.envs.spaces",
    "palaestra.runtime.environments.custom_envs",  # what a user has passed
    "palaestra.runtime.environments.registered_envs",
    "palaestra.api",
    "palaestra.testing.check_env",
    "palaestra.envs.builtin.base.cores",  # `world` is a struct of Warp's there
)
NAMES = ("str", "type", "Mapping", "dict")
"""Types of what may stand in the place of an environment: its name, its factory, its settings."""


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def files(under: str = "") -> list[Path]:
    """Modules with code in them: an `__init__` that is only a docstring is a folder's title."""
    return [
        path for path in sorted((PACKAGE / under).rglob("*.py")) if path.name != "__init__.py" or lines_of(path) > 10
    ]


def sizes(under: str = "") -> tuple[int, float, int, int]:
    """Number of modules, and the median, 90th percentile and maximum of their lines."""
    lines = sorted(lines_of(path) for path in files(under))
    return len(lines), statistics.median(lines), lines[int(len(lines) * 0.9)], lines[-1]


def crowded() -> dict[str, int]:
    """Folders with more than 16 modules; `cli` has one for each command."""
    counts = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    return {folder: count for folder, count in counts.items() if count > MOST_MODULES and folder != "cli"}


def repeated_classes() -> dict[str, list[str]]:
    where = defaultdict(list)
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where[node.name].append(name)
    return {name: places for name, places in sorted(where.items()) if len(places) > 1 and name not in SAME_CLASS}


def repeated_modules() -> dict[str, list[str]]:
    """Modules of one name; those of `palaestra.unity` have the names of mlagents_envs, those of `cli` of its
    commands.
    """
    where = defaultdict(list)
    for name in modules():
        base = name.rpartition(".")[2]
        if base not in SAME_ROLE and not name.startswith(("palaestra.unity.", "palaestra.cli.", "palaestra.api.")):
            where[base].append(name)
    return {base: names for base, names in sorted(where.items()) if len(names) > 1}


def imports(name: str, tree: ast.Module) -> Iterator[str]:
    """Modules of ours that a module imports, also within functions and for types alone."""
    known = modules()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (
                each if each in known else node.module for each in found if node.module in known and node.module != name
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def graph() -> dict[str, set[str]]:
    return {name: set(imports(name, tree)) - {name} for name, tree in modules().items()}


def circles() -> list[list[str]]:
    """Every set of modules that import one another in a circle: the strongly connected components of two or more
    (Tarjan 1972).
    """
    edges = graph()
    found = list[list[str]]()
    order = dict[str, int]()
    low = dict[str, int]()
    stack = list[str]()

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for each in sorted(edges[name]):
            if each not in order:
                visit(each)
                low[name] = min(low[name], low[each])
            elif each in stack:
                low[name] = min(low[name], order[each])
        if low[name] == order[name]:
            start = stack.index(name)
            if len(stack) - start > 1:
                found.append(sorted(stack[start:]))
            del stack[start:]

    for name in sorted(edges):
        if name not in order:
            visit(name)
    return found


def loners() -> dict[str, str]:
    """Modules of under 60 lines that only one module imports, and that one. Contracts, entry points and packages may be
    as small.

    So may modules whose only importer is a package, whose `__init__` shows their names and holds no code itself.
    """
    importers = defaultdict(set)
    for name, found in graph().items():
        for each in found:
            importers[each].add(name)
    packages = {dotted(path) for path in PACKAGE.rglob("__init__.py")}
    small = {
        dotted(path) for path in files() if lines_of(path) < 60 and path.name not in ("__init__.py", "__main__.py")
    }
    return {
        name: next(iter(importers[name]))
        for name in sorted(small)
        if len(importers[name] - packages) == 1 == len(importers[name])
        and name.rpartition(".")[2] != "base"
        and not name.startswith(("palaestra.unity.", "palaestra.cli.", "palaestra.api."))
    }


def riddles(under: str = "") -> list[str]:
    """Docstrings, of attributes too, that begin with a word of RIDDLES."""
    found = []
    for name, tree in modules().items():
        if not name.startswith(f"palaestra.{under}".rstrip(".")):
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                words = node.value.value.split()
                if words and words[0].strip(",.:;'`") in RIDDLES:
                    found.append(f"{name}:{node.lineno}: {' '.join(words[:8])}")
    return found


def undocumented() -> list[str]:
    """Modules, and public functions, classes and methods, without a docstring; setters and overloads need none."""
    found = []

    def look(name: str, parent: ast.Module | ast.ClassDef) -> None:
        for node in parent.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith(
                "_"
            ):
                if ast.get_docstring(node) is None and not {"overload", "setter"} & {
                    ast.unparse(each).rpartition(".")[2] for each in node.decorator_list
                }:
                    found.append(f"{name}:{node.lineno}: {node.name}")
                if isinstance(node, ast.ClassDef):
                    look(name, node)

    for name, tree in modules().items():
        if ast.get_docstring(tree) is None:
            found.append(f"{name}:1: the module")
        look(name, tree)
    return found


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with the name of its module."""
    for name, tree in modules().items():
        yield from ((name, node) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, without its docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) is not None else 0
    return function.end_lineno - function.lineno + 1 - docstring


def long_functions() -> list[str]:
    """Functions of more than 60 lines without their docstring."""
    return [
        f"{name}.{each.name}: {body_lines(each)}" for name, each in functions() if body_lines(each) > FUNCTION_LINES
    ]


def long_modules() -> dict[str, int]:
    """Modules of more than MOST_LINES lines, and how many they have."""
    return {dotted(path): lines_of(path) for path in files() if lines_of(path) > MOST_LINES}


def large_classes() -> dict[str, int]:
    """Classes with more than MOST_METHODS methods, special ones not counted, and how many they have."""
    found = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                count = sum(not one.name.startswith("__") for one in methods)
                if count > MOST_METHODS:
                    found[f"{name}.{node.name}"] = count
    return found


def askers_for_ranks() -> list[str]:
    """Modules outside `parallel` that ask how many ranks there are or which one this is."""
    has_group = re.compile(r"RankGroup|(run|context)\.group\b")  # other groups have a size, too
    asking = re.compile(r"(\b|_)group\.(size|leads|number)\b")
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        dotted(path)
        for path, text in texts.items()
        if path.parent.name != "parallel" and has_group.search(text) and asking.search(text)
    ]


def asks_an_environment(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name) or call.func.id not in ASKING or not call.args:
        return False
    asked = call.args[0]
    name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
    kind = call.args[1] if len(call.args) > 1 else None
    return name in ENVIRONMENTS and not (isinstance(kind, ast.Name) and kind.id in NAMES)


def askers_of_environments() -> list[str]:
    """Calls that ask what an environment is or can, outside of the modules that may."""
    return [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in modules().items()
        if not module.startswith(ALLOWED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and asks_an_environment(node)
    ]


def ignores() -> tuple[int, float]:
    """Comments that quiet a checker, and how many there are for 1,000 lines."""
    pattern = re.compile(r"#\s*(type: ignore|pyright:|noqa)")
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    count = sum(len(pattern.findall(text)) for text in texts)
    return count, 1000 * count / sum(text.count("\n") for text in texts)


def main() -> None:
    under = sys.argv[1] if len(sys.argv) > 1 else ""
    count, median, p90, most = sizes(under)
    print(
        f"modules {count}, lines: median {median:g} (at least {MEDIAN_LINES}), p90 {p90} (at most {P90_LINES}), most "
        f"{most}"
    )
    tests = Path(__file__).parents[1]
    source_lines, test_lines = (sum(map(lines_of, place.rglob("*.py"))) for place in (PACKAGE, tests))
    print(f"lines of the source {source_lines:,}, of the tests {test_lines:,}")
    print("folders with more than 16 modules:", crowded() or "none")
    print("ignores: {}, {:.2f} for 1,000 lines".format(*ignores()))
    sections = {
        "modules that import one another in a circle": [", ".join(circle) for circle in circles()],
        "class names that occur twice": [f"{name}: {', '.join(places)}" for name, places in repeated_classes().items()],
        "module names that occur twice": [
            f"{name}: {', '.join(places)}" for name, places in repeated_modules().items()
        ],
        "functions over 60 lines": long_functions(),
        "modules over 400 lines": [f"{name}: {count}" for name, count in long_modules().items()],
        "classes over 15 methods": [f"{name}: {count}" for name, count in large_classes().items()],
        "modules that ask for ranks": askers_for_ranks(),
        "questions to environments what they are": askers_of_environments(),
        "under 60 lines with one importer": [f"{name} <- {by}" for name, by in loners().items()],
        "docstrings that begin with a riddle": riddles(under.replace("/", ".")),
        "public without a docstring": undocumented(),
    }
    package = under.replace("/", ".")
    for title, found in sections.items():
        shown = [each for each in found if package in each]
        print(f"{title}: {len(shown)}")
        for each in shown:
            print(f"  {each}")


if __name__ == "__main__":
    main()
