"""Its place makes `tiny_envs` importable from every test below."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave no key in the configuration folder of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield
