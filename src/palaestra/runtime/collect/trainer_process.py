"""A trainer in a separate process, so that collecting continues while it learns (`threaded: true`).

The lag is fixed: while one rollout is used for learning, the next is collected with the weights of the previous update.
Nothing depends on whether learning or collecting is faster, so the same seed gives the same results. A process is used
instead of a thread, because the many small calls of an update and of a tick hold the interpreter's lock: two threads
would take as long as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from palaestra.core.errors import PalaestraError
from palaestra.core.metrics import Metrics
from palaestra.core.specs import BehaviorSpec
from palaestra.core.system_memory import keep_freed_memory
from palaestra.data.rollout import Rollout, RolloutNeeds
from palaestra.models.trunk import Trunk
from palaestra.parallel.rank_group import ALONE, RankGroup
from palaestra.parallel.rank_setup import place_for
from palaestra.parallel.rank_store import Place
from palaestra.parallel.ranks import group_at
from palaestra.parallel.shared_memory import SharedReceiver, SharedSender
from palaestra.parallel.worker import WorkerLost, WorkerProcess
from palaestra.runtime.collect.random_streams import reseed
from palaestra.trainers.base import Remarks, Trainer, Warns
from palaestra.trainers.behavior_settings import BehaviorSettings, trainer_class
from palaestra.trainers.soft.held_noise import policy_of

PIPELINE = "pipeline"
"""Key in a trainer's state for the part of an update that ended but has not taken effect yet."""
STALENESS = "Policy/Staleness"
"""Tag of the number of updates by which a rollout's policy is older than the network that learns from it."""


class TrainerFacts(NamedTuple):
    """Facts about a trainer that the acting side needs before the first tick."""

    rollout_size: int
    needs: RolloutNeeds
    network: dict[str, Tensor]
    rng: Tensor
    deterministic: bool
    noise_hold: int
    found: Messages
    messages: Messages


class Messages(NamedTuple):
    """Messages for the user."""

    remarks: list[str]
    warnings: list[str]

    def plus(self, others: Messages) -> Messages:
        """Returns the messages of both, each message once."""
        return Messages(*(list(dict.fromkeys([*own, *more])) for own, more in zip(self, others, strict=True)))


class Updated(NamedTuple):
    """The outcome of an update."""

    network: list[Tensor]
    """All weights of the network, in one flat tensor for each data type."""
    metrics: dict[str, float]
    messages: Messages
    seconds: float


MakeTrainer = Callable[
    [BehaviorSpec, BehaviorSettings, torch.device, int, Path | None, RankGroup], tuple[Trainer, Messages]
]


class FlatWeights:
    """A network's weights as one flat tensor for each data type: passing on dozens of small tensors would take longer
    than a small update."""

    def __init__(self, network: nn.Module) -> None:
        self._tensors: dict[str, Tensor] = network.state_dict()
        kinds = dict.fromkeys(tensor.dtype for tensor in self._tensors.values())
        self._groups = [[name for name, tensor in self._tensors.items() if tensor.dtype == kind] for kind in kinds]

    def read(self) -> list[Tensor]:
        """Returns the present weights."""
        return [torch.cat([self._tensors[name].reshape(-1) for name in names]) for names in self._groups]

    def named(self, flat: Sequence[Tensor]) -> dict[str, Tensor]:
        """Returns views of flat weights by name."""
        named = dict[str, Tensor]()
        for names, whole in zip(self._groups, flat, strict=True):
            parts = whole.split([self._tensors[name].numel() for name in names])
            named |= {name: part.view_as(self._tensors[name]) for name, part in zip(names, parts, strict=True)}
        return named


class TrainerProcess:
    """Represents a trainer in another process. `update` starts one update and returns the previous one's metrics."""

    def __init__(
        self,
        name: str,
        spec: BehaviorSpec,
        settings: BehaviorSettings,
        device: torch.device,
        seed: int,
        scratch: Path | None,
        make: MakeTrainer,
        group: RankGroup = ALONE,
    ) -> None:
        """Starts the process. `make`: a module-level function that makes the trainer in the new process. `group`: the
        ranks whose processes learn together. Raises what `make` raises."""
        title = f"the trainer of '{name}'"
        self._worker = WorkerProcess(
            serve, place_for(title, group), spec, settings, str(device), seed, scratch, make, title=title
        )
        self._sender = SharedSender()
        self._receiver = SharedReceiver()
        keep_freed_memory()  # as the trainer would here: rollouts and networks' outputs reuse it
        try:
            facts: TrainerFacts = received(self._worker, self._receiver)
        except PalaestraError:
            self.close()
            raise
        self.rollout_size = facts.rollout_size
        self.needs = facts.needs
        self.found = facts.found
        self.network: Trunk = trainer_class(settings.trainer_type).make_network(spec, settings).to(device)
        self.network.load_state_dict(facts.network)
        self._flat = FlatWeights(self.network)
        rng = torch.Generator(device)
        rng.set_state(facts.rng.cpu())
        self.policy = policy_of(self.network, rng, facts.deterministic, facts.noise_hold)
        self._messages = facts.messages
        self._updating = False
        """Whether an update was started whose outcome has not arrived."""
        self._updated: Updated | None = None
        """The outcome of an update that has arrived and has not taken effect."""
        self._sent_network = False
        """Whether the other process has the weights of `network`, which another run may have trained."""
        self.hyper: Any = None
        """Hyperparameters for the next updates; None: as in the settings."""
        self.learning_seconds = 0.0
        self.waiting_seconds = 0.0

    def update(self, rollout: Rollout, step: int) -> Metrics:
        """Waits for the previous update, then starts one with this rollout. Returns the previous metrics."""
        if not self._sent_network:
            self._ask("network", self.network.state_dict())
            self._sent_network = True
        message = self._sender.pack(("update", (rollout, step, torch.get_num_threads(), self.hyper)))
        metrics = self.finish()
        self._worker.send(message)
        self._updating = True
        return metrics

    @property
    def busy(self) -> bool:
        """Whether an update is running at this moment."""
        return self._updating and not self._worker.ready()

    def finish(self) -> Metrics:
        """Waits for the running update, if any, and lets it take effect. Returns its metrics."""
        self._wait()
        metrics = Metrics()
        if (done := self._updated) is not None:
            self.network.load_state_dict(self._flat.named(done.network))
            metrics.add({**done.metrics, STALENESS: 1.0})
            self._updated = None
        return metrics

    def newest_network(self) -> Trunk:
        """Returns the network after the running update, for which it waits: a copy if it has not taken effect."""
        self._wait()
        if self._updated is None:
            return self.network
        network = deepcopy(self.network)
        network.load_state_dict(self.learned)
        return network

    def _wait(self) -> None:
        if not self._updating:
            return
        start = perf_counter()
        done: Updated = received(self._worker, self._receiver)
        self.waiting_seconds += perf_counter() - start
        self.learning_seconds += done.seconds
        self._updating = False
        self._updated = done
        self._messages = Messages(done.messages.remarks, self._messages.warnings + done.messages.warnings)

    @property
    def learned(self) -> Mapping[str, Tensor]:
        """The newest received weights, which the acting policy may not use yet."""
        return self.network.state_dict() if self._updated is None else self._flat.named(self._updated.network)

    def remarks(self) -> list[str]:
        """Returns the trainer's newest remarks."""
        remarks = self._messages.remarks
        self._messages = Messages([], self._messages.warnings)
        return remarks

    def warnings(self) -> list[str]:
        """Returns the trainer's warnings that have arrived since the last call."""
        warnings = self._messages.warnings
        self._messages = Messages(self._messages.remarks, [])
        return warnings

    def state_dict(self) -> dict[str, Any]:
        """Waits for the current update, then returns the trainer's state and the weights of the acting policy."""
        self._wait()
        state = self._ask("state")
        acting = {"network": dict(self.network.state_dict()), "rng": self.policy.generator.get_state()}
        done = self._updated
        outcome = None if done is None else {"network": done.network, "metrics": done.metrics}
        return {**state, PIPELINE: {**acting, "outcome": outcome}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a saved state, also the state of a trainer that ran in the main process."""
        pipeline = state.get(PIPELINE)
        loaded = self._ask("load", {key: value for key, value in state.items() if key != PIPELINE})
        self._messages = self._messages.plus(loaded)
        self._sent_network = True
        acting: dict[str, Any] = self._ask("acting") if pipeline is None else pipeline
        self.network.load_state_dict(acting["network"])
        self.policy.generator.set_state(acting["rng"].cpu())
        outcome = None if pipeline is None else pipeline["outcome"]
        self._updated = None if outcome is None else Updated(**outcome, messages=Messages([], []), seconds=0.0)

    def take_prior(self, replays: Sequence[Mapping[str, Any]], run: str) -> None:
        """Gives a trainer with prior data the replays that the ranks of an earlier run saved."""
        self._messages = self._messages.plus(self._ask("prior", (replays, run)))

    def reseed(self, seed: int) -> None:
        """Gives the trainer's streams of random numbers new seeds."""
        self._ask("reseed", seed)
        self.policy.generator.manual_seed(seed)

    def close(self) -> None:
        """Ends the trainer's process and frees the memory shared with it."""
        self._sender.close()
        self._worker.close()

    def kill(self) -> None:
        """Ends the process at once. Safe in a signal handler."""
        self._worker.kill()

    def _ask(self, request: str, value: object = None) -> Any:
        self._worker.send(self._sender.pack((request, value)))
        return received(self._worker, self._receiver)


def received(worker: WorkerProcess, receiver: SharedReceiver) -> Any:
    """Returns a worker's next answer. Raises WorkerLost."""
    message = worker.receive()
    try:
        return receiver.unpack(message)
    except (OSError, ValueError) as error:  # someone has cleared /dev/shm
        raise WorkerLost(f"{worker.title} has lost its shared memory ({error})") from error


def serve(
    connection: Connection,
    place: Place | None,
    spec: BehaviorSpec,
    settings: BehaviorSettings,
    device: str,
    seed: int,
    scratch: Path | None,
    make: MakeTrainer,
) -> None:
    """Makes a trainer and answers the requests of its `TrainerProcess`; runs in the separate process. `place`: the
    place of its rank, if there are several ranks."""
    trainer, found = make(spec, settings, torch.device(device), seed, scratch, group_at(place))
    sender = SharedSender()
    receiver = SharedReceiver()
    flat = FlatWeights(trainer.network)
    policy = trainer.policy
    facts = (
        trainer.rollout_size,
        trainer.needs,
        trainer.network.state_dict(),
        policy.generator.get_state(),
        policy.deterministic,
        getattr(settings.hyperparameters, "noise_hold", 1),
    )
    connection.send_bytes(sender.pack(TrainerFacts(*facts, found, _messages_of(trainer))))
    while True:
        request, value = receiver.unpack(connection.recv_bytes())
        match request:
            case "update":
                rollout, step, threads, hyper = value
                if hyper is not None:
                    trainer.hyper = hyper  # pyright: ignore[reportAttributeAccessIssue]  all of ours have it
                torch.set_num_threads(threads)
                start = perf_counter()
                metrics = trainer.update(rollout, step).read()
                reply: object = Updated(flat.read(), metrics, _messages_of(trainer), perf_counter() - start)
            case "network":
                trainer.network.load_state_dict(value)
                reply = None
            case "state":
                reply = trainer.state_dict()
            case "load":
                trainer.load_state_dict(value)
                reply = _messages_of(trainer)
            case "prior":
                cast(Any, trainer).prior.take(*value)
                reply = _messages_of(trainer)
            case "reseed":
                reseed(trainer, value)
                reply = None
            case "acting":
                reply = {"network": trainer.network.state_dict(), "rng": trainer.policy.generator.get_state()}
            case other:
                raise PalaestraError(f"unknown request '{other}'")
        connection.send_bytes(sender.pack(reply))


def _messages_of(trainer: Trainer) -> Messages:
    remarks = trainer.remarks() if isinstance(trainer, Remarks) else []
    return Messages(remarks, trainer.warnings() if isinstance(trainer, Warns) else [])
