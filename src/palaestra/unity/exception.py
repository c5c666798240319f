"""What this package raises: each under the original's name, and in Palaestra's own tree of errors."""

from __future__ import annotations

from palaestra.core.errors import EnvError, GameGone, PalaestraError, PolicyError, ProtocolError


class UnityException(PalaestraError):
    """Root of all that concerns an environment."""


class UnityEnvironmentException(UnityException, EnvError):
    """A game did not start, exited, cannot be talked to, or is used after `close`."""


class UnityCommunicationException(UnityException, EnvError):
    """A message came on a side channel that only sends."""


class UnityCommunicatorStoppedException(UnityException, GameGone):
    """The game said goodbye."""


class UnityObservationException(UnityException, ProtocolError):
    """An observation is not what its behavior announced."""


class UnityNotFiniteException(UnityException, EnvError, RuntimeError):
    """A reward or an observation is NaN or infinite."""


class UnityActionException(UnityException, EnvError):
    """An action for an unknown behavior, or of the wrong shape."""


class UnityTimeOutException(UnityException, GameGone):
    """The game said nothing for `timeout_wait` seconds."""


class UnitySideChannelException(UnityException, EnvError):
    """A side channel was given what it cannot send."""


class UnityWorkerInUseException(UnityException, EnvError):
    """The port of a worker is taken."""

    def __init__(self, worker_id: int) -> None:
        super().__init__(
            f"the port of worker {worker_id} (base_port + worker_id) is taken: close the environment that holds it, "
            f"or choose another worker_id or base_port"
        )


class UnityPolicyException(UnityException, PolicyError):
    """A policy of a kind that cannot be used."""
