import subprocess
import sys

import pytest

import palaestra
from palaestra.core.errors import EnvError


def test_importing_palaestra_imports_not_even_numpy():
    code = (
        "import sys, palaestra; "
        "print(sorted({'torch', 'warp', 'numpy', 'importlib.metadata'} & set(sys.modules)), dir(palaestra))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[] {sorted(palaestra.__all__)}"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("first", "id"),
    [
        ("import gymnasium, palaestra.gymnasium", "palaestra/Basic-v0"),
        ("import palaestra.gymnasium, gymnasium", "palaestra/Basic-v0"),
        ("import gymnasium", "palaestra.gymnasium:palaestra/Basic-v0"),
    ],
)
def test_gymnasium_makes_our_environments_once_they_are_registered(first: str, id: str):
    code = f"{first}\nprint(gymnasium.make({id!r}).action_space)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "Discrete(3)"


def test_importing_palaestra_changes_nothing_of_the_process():
    code = (
        "import os, sys; before = list(sys.meta_path), dict(os.environ); import palaestra; "
        "print(before == (list(sys.meta_path), dict(os.environ)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'lode_policy'"):
        palaestra.lode_policy  # noqa: B018
    assert palaestra.__version__[0].isdigit()


def test_what_error_messages_say_to_call_is_there_after_importing_the_package_alone():
    # the name itself is there once it was imported
    assert palaestra.__getattr__("pettingzoo").parallel_env.__name__ == "parallel_env"


def test_make_gives_the_environment_of_a_name_with_its_areas_and_options():
    env = palaestra.make("Basic", areas=3)
    assert (env.num_areas, list(env.behaviors)) == (3, ["Basic"])
    env.close()
    with pytest.raises(EnvError, match="Basic takes no option 'size'"):
        palaestra.make("Basic", size=2)
