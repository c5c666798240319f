"""Its place makes `tiny_envs` importable from every test below."""

import signal
from collections.abc import Iterator

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in jobs that a script starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _own_configuration_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests leave no key in the configuration folder of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield
