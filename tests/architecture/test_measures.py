import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import measures
import pytest
from source import PACKAGE, modules

SOURCE_LINES = 112_173
LARGE_CLASSES = 3
ASKERS_FOR_RANKS = 4
MOST_TO_GRADIENT = (17, 3450)
"""Files and lines from `Env.step` to the first optimizer step."""
MOST_IN_CYCLE = (30, 5450)
"""The same from there to the next rollout's last `Env.step`."""


def test_no_folder_but_cli_has_more_than_16_modules():
    assert measures.crowded() == {}


def test_the_median_module_has_at_least_120_lines():
    assert measures.sizes()[1] >= measures.MEDIAN_LINES


def test_nine_modules_of_ten_have_at_most_350_lines():
    assert measures.sizes()[2] <= measures.P90_LINES


def test_no_module_is_longer_than_400_lines():
    assert measures.long_modules() == {}


def test_few_classes_have_more_than_15_methods():
    assert len(measures.large_classes()) <= LARGE_CLASSES, measures.large_classes()


def test_few_modules_ask_for_ranks():
    assert len(measures.askers_for_ranks()) <= ASKERS_FOR_RANKS, measures.askers_for_ranks()


def test_the_source_does_not_grow():
    assert sum(measures.lines_of(path) for path in PACKAGE.rglob("*.py")) <= SOURCE_LINES


def test_no_function_is_longer_than_72_lines_without_its_docstring():
    assert len(list(measures.functions())) > 500
    assert measures.long_functions() == []


def test_no_modules_import_one_another_in_a_circle_type_only_imports_counted():
    assert measures.circles() == []


def test_circles_are_found_wherever_they_are(monkeypatch: pytest.MonkeyPatch):
    edges = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a", "e"}}
    monkeypatch.setattr(measures, "graph", lambda: edges)
    assert sorted(measures.circles()) == [["a", "b"], ["c", "d", "e"]]


def test_no_class_name_occurs_twice_but_for_the_documented_few():
    assert measures.repeated_classes() == {}


def test_no_module_name_has_two_meanings():
    assert measures.repeated_modules() == {}


def test_no_small_module_has_a_single_importer():
    assert measures.loners() == {}


def test_a_checker_is_quieted_at_most_once_in_1000_lines():
    assert measures.ignores()[1] <= measures.IGNORES_PER_1000


def test_everything_public_has_a_docstring():
    assert measures.undocumented() == []


def test_no_docstring_begins_with_a_riddle():
    assert measures.riddles() == []


@pytest.mark.slow
def test_a_run_of_ppo_reaches_the_gradient_in_few_files():
    program = Path(__file__).with_name("path_to_gradient.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    to_gradient, cycle = done.stdout.split("whole cycle")
    files = to_gradient.split()
    assert {"envs/builtin/base/env.py", "trainers/ppo.py", "losses/ppo.py", "models/optimizer.py"} <= set(files)
    for path, (most_files, most_lines) in ((to_gradient, MOST_TO_GRADIENT), (cycle, MOST_IN_CYCLE)):
        sums = path.strip().splitlines()[-1].split()
        assert int(sums[0]) <= most_files, path
        assert int(sums[2].replace(",", "")) <= most_lines, path


def test_no_class_inherits_from_a_class_of_ours_that_itself_does():
    bases = {node.name: [ast.unparse(base).split(".")[-1].split("[")[0] for base in node.bases] for node in classes()}
    assert bases["NotFinite"] == ["EnvError"]  # exceptions alone are a tree
    deep = [
        name for name, above in bases.items() if any(grand in bases for base in above for grand in bases.get(base, []))
    ]
    assert [name for name in deep if name not in exceptions(bases)] == []


def test_no_module_is_a_drawer_for_odds_and_ends():
    assert {name.rpartition(".")[2] for name in modules()} & {"utils", "util", "common", "helpers", "misc"} == set()


def classes() -> Iterator[ast.ClassDef]:
    for tree in modules().values():
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def exceptions(bases: dict[str, list[str]]) -> set[str]:
    found = {"PalaestraError"}
    while more := {name for name, above in bases.items() if found & set(above)} - found:
        found |= more
    return found
