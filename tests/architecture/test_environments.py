"""What an environment is and can is asked in one place (`EnvTraits`), and not found out by each that meets one."""

import ast

import measures


def test_nobody_asks_an_environment_what_it_is():
    assert measures.askers_of_environments() == []


def test_this_finds_those_who_ask():
    asking = ["isinstance(run.env, Measures)", "getattr(self._env, 'notes', ())", "hasattr(env, 'stagger')"]
    assert all(measures.asks_an_environment(expression(code)) for code in asking)
    assert not any(
        measures.asks_an_environment(expression(code)) for code in ("isinstance(env, str)", "getattr(options, key)")
    )


def expression(code: str) -> ast.Call:
    (statement,) = ast.parse(code).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    return statement.value
