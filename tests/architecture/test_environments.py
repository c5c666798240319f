"""What an environment is and can is asked in one place (`EnvTraits`), and not found out by each that meets one."""

import ast

from source import modules

ASKING = ("isinstance", "issubclass", "getattr", "hasattr")
ENVIRONMENTS = ("env", "_env", "world", "_world", "behind", "wrapped", "inner")
ALLOWED = (
    "palaestra.envs.traits",  # finds out what an environment of the user's own has
    "palaestra.envs.wrapper",
    "palaestra.envs.gymnasium",  # Gymnasium's and PettingZoo's own objects
    "palaestra.envs.pettingzoo",
    "palaestra.envs.spaces",
    "palaestra.runtime.environments.custom_envs",  # what a user has passed
    "palaestra.testing.check_env",
    "palaestra.envs.builtin.base.cores",  # `world` is a struct of Warp's there
)
NAMES = ("str", "type", "Mapping", "dict")
"""Types of what may stand in the place of an environment: its name, its factory, its settings."""


def test_nobody_asks_an_environment_what_it_is():
    found = [
        f"{module}:{node.lineno}: {ast.unparse(node)}"
        for module, tree in modules().items()
        if not module.startswith(ALLOWED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and asks_an_environment(node)
    ]
    assert found == []


def asks_an_environment(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name) or call.func.id not in ASKING or not call.args:
        return False
    asked = call.args[0]
    name = asked.attr if isinstance(asked, ast.Attribute) else asked.id if isinstance(asked, ast.Name) else ""
    kind = call.args[1] if len(call.args) > 1 else None
    return name in ENVIRONMENTS and not (isinstance(kind, ast.Name) and kind.id in NAMES)


def test_this_finds_those_who_ask():
    asking = ["isinstance(run.env, Measures)", "getattr(self._env, 'notes', ())", "hasattr(env, 'stagger')"]
    assert all(asks_an_environment(expression(code)) for code in asking)
    assert not any(asks_an_environment(expression(code)) for code in ("isinstance(env, str)", "getattr(options, key)"))


def expression(code: str) -> ast.Call:
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value
