"""Exceptions of this package, with the original's names and Palaestra's base classes."""

from __future__ import annotations

from palaestra.core.errors import EnvError, GameGone, PalaestraError, PolicyError, ProtocolError


class UnityException(PalaestraError):
    """Base class of the exceptions of this package."""


class UnityEnvironmentException(UnityException, EnvError):
    """A game did not start, exited, has another protocol version, or is used after `close`."""


class UnityCommunicationException(UnityException, EnvError):
    """A message arrived on a side channel that only sends."""


class UnityCommunicatorStoppedException(UnityException, GameGone):
    """The game quit."""


class UnityObservationException(UnityException, ProtocolError):
    """An observation does not fit the spec of its behavior."""


class UnityNotFiniteException(UnityException, EnvError, RuntimeError):
    """A reward or an observation is NaN or infinite."""


class UnityActionException(UnityException, EnvError):
    """An action for an unknown behavior, or of the wrong shape."""


class UnityTimeOutException(UnityException, GameGone):
    """The game sent nothing for `timeout_wait` seconds."""


class UnitySideChannelException(UnityException, EnvError):
    """A side channel cannot send a value."""


class UnityWorkerInUseException(UnityException, EnvError):
    """The port of a worker is taken."""

    def __init__(self, worker_id: int) -> None:
        super().__init__(
            f"the port of worker {worker_id} (base_port + worker_id) is taken: close the environment that holds it, "
            f"or choose another worker_id or base_port"
        )


class UnityPolicyException(UnityException, PolicyError):
    """A policy cannot be used."""
