"""Every environment at hand keeps the contract."""

import sys
from pathlib import Path

import pytest

from palaestra.core.plugins import registry
from palaestra.runtime.environments.make import make_env
from palaestra.testing import check_env

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", registry("envs").names())
def test_a_built_in_environment_keeps_the_contract(name: str):
    check_env(make_env(f"builtin:{name}", areas=3), ticks=60)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Blackjack-v1"])
def test_a_gymnasium_environment_keeps_the_contract(name: str):
    check_env(make_env(f"gymnasium:{name}", areas=3))


def test_the_examples_own_environment_keeps_the_contract(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(ROOT)
    check_env(make_env("python:examples.own_env:make", areas=3))
