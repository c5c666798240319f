"""One copy of the game: its process, its server and the state of its connection."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from palaestra.core.display import indented
from palaestra.core.errors import EnvError, GameGone, NotFinite, ProtocolError
from palaestra.envs.restarts import PROGRESS, RestartPolicy
from palaestra.envs.unity import executable
from palaestra.envs.unity.options import UnityOptions
from palaestra.envs.unity.process import GameProcess, arguments, needs_display, player_log
from palaestra.envs.unity.table import Arrival
from palaestra.envs.unity.timeouts import FIRST_NOTICE, PAUSES, Phase, explain
from palaestra.wire import encode
from palaestra.wire.decode import AgentInfos, GameMessage, decode
from palaestra.wire.handshake import GameVersion, read_game_version
from palaestra.wire.limits import check_tick
from palaestra.wire.readers import AgentInfoReader
from palaestra.wire.server import Call, Inbox, Server
from palaestra.wire.side_channels import SideChannels

LAST_LINES = 15


class InstanceOwner(Protocol):
    """Environment that a copy belongs to, as the copy uses it."""

    inbox: Inbox
    channels: SideChannels
    seed: int
    progress: int
    entered: Callable[[int, Phase], None]

    def tell(self, level: str, text: str) -> None:
        """Sends a message to the user."""
        ...

    def warn(self, text: str) -> None:
        """Warns the user about data of a game, of which there may be any number."""
        ...

    def add_behavior(self, reader: AgentInfoReader) -> None:
        """Adds a behavior. Raises ProtocolError if another copy or team has the same name and another spec."""
        ...

    def new_source(self) -> int:
        """Returns a number that no game of this environment has had."""
        ...

    def connected(self, copy: int, game: GameVersion) -> None:
        """Handles the connection of a copy."""
        ...

    def lose(self, source: int) -> None:
        """Marks the agents of a game as lost."""
        ...


class GameInstance:
    """Starts, serves, ends and restarts one copy of the game."""

    def __init__(self, index: int, options: UnityOptions, owner: InstanceOwner, build: Path | None, logs: Path) -> None:
        """Listens for the game; `start` starts it."""
        self.index = index
        self.options = options
        self._owner = owner
        self._executable = build
        self._logs = logs
        self.number = options.first_copy + index
        """Number among the copies of all processes, in names, ports and seeds."""
        self._all_copies = options.all_copies or options.copies
        self.editor = build is None
        port = options.editor_port if self.editor else options.base_port and options.base_port + self.number
        self.server = Server(index, owner.inbox, port, bind=options.bind, fixed=self.editor)
        self.process: GameProcess | None = None
        self.policy = RestartPolicy(f"copy {self.number} of the game", options.restarts)
        self._phase = Phase.DOWN
        self.since = time.monotonic()
        self.start_at = 0.0
        self.game: GameVersion | None = None
        self.call: Call | None = None
        """Request of the game that waits for an answer."""
        self.arrivals: list[Arrival] = []
        """Agents of that request."""
        self.fresh = False
        """True if `arrivals` has not been part of a tick."""
        self.must_reset = False
        self.delivered = 0
        """Messages with agents from the current game."""
        self.decided = False
        """True once an agent of the current game has requested a decision."""
        self._peer = ""
        """Address of the current game."""
        self._former_peers: set[str] = set()
        """Addresses of earlier games, which may send messages after their connection has been given up."""
        self._was_connected = False
        """True once any game has connected to this copy."""
        self.dropped = 0
        """Number of ignored messages from programs other than the game."""
        self.received = self.sent = 0
        """Bytes of all messages."""
        self.busy = 0.0
        """Seconds between answers and the game's next messages."""
        self._answered_at: float | None = None
        self.source = owner.new_source()
        self._brains: dict[str, Any] = {}
        self._readers: dict[str, AgentInfoReader] = {}
        self.reminders = 0
        """Number of reminders sent about the current silence."""
        self._notice_after = FIRST_NOTICE
        self._noticed_since = 0.0
        """Seconds of silence until the user is first told of it, and the start of the silence last reported."""

    @property
    def seeds_used(self) -> int:
        """Number of seeds that were for earlier games of this copy, and for as many of every other: its next game gets
        one after these.
        """
        return self.policy.restarts * self._all_copies

    @property
    def name(self) -> str:
        """Name of the copy in messages."""
        return (
            "the Editor" if self.editor else "the game" if self._all_copies == 1 else f"copy {self.number} of the game"
        )

    @property
    def phase(self) -> Phase:
        """Phase of the connection with the game."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if phase is not self._phase:
            self._phase = phase
            self._owner.entered(self.index, phase)

    def start(self) -> None:
        """Starts the build's process; the Editor is started by the user."""
        self.reminders = self.delivered = 0
        if self._executable is not None:
            log = self._logs / f"Player-{self.number}.log"
            command = [
                *executable.command(self._executable),
                *arguments(self.options, self.number, self.server.port, log),
            ]
            self.process = GameProcess(
                command,
                player_log(self.options, log),
                self._logs / f"Player-{self.number}.out",
                self.options.show_output,
            )
        self.since = time.monotonic()
        self.phase = Phase.STARTING

    def receive(self, call: Call) -> None:
        """Handles a request; ignores one from any program but the game.

        Raises ProtocolError, NotFinite or GameGone if this connection has failed, EnvError if a restart would not help.
        """
        if self.phase is Phase.DOWN:
            return  # from a game that was ended
        if self.game is not None and call.peer == self._peer:
            self._handle_request(call)
        else:
            self._handle_unknown(call)

    def _handle_request(self, call: Call) -> None:
        """Handles a request of the current game."""
        self.received += len(call.raw)
        if self._answered_at is not None:
            self.busy = self.busy + call.arrived - self._answered_at
            self._answered_at = None
        incoming = decode(call.raw)
        if introduces(incoming, connected=True) and self.editor:
            self._greet(call, incoming, read_game_version(incoming.hello))
        elif introduces(incoming, connected=True) or (self.call is not None and self.call.open):
            call.answer(None)
        elif incoming.status != encode.OK:
            raise GameGone(self.quit_message())
        else:
            self.call = call
            self._handle_message(incoming)

    def _handle_unknown(self, call: Call) -> None:
        """Handles a request of another program than the current game.

        A build's first message is taken while no game is connected, the Editor's always: it may have crashed. Other
        messages that are not the Editor's first are ignored.
        """
        if not call.open or (self.game is not None and not self.editor):
            if call.peer not in self._former_peers:
                self._drop(call)
            return
        try:
            incoming = decode(call.raw)
            if call.peer in self._former_peers and not introduces(incoming, connected=False):
                return
            if not self.editor and incoming.status != encode.OK:
                raise GameGone(self.quit_message())
            if not introduces(incoming, connected=self.game is not None):
                raise ProtocolError(
                    "its first message does not introduce it (rl_initialization_output): it continues another "
                    "training, or is not a game"
                )
            game = read_game_version(incoming.hello)
        except GameGone:
            raise
        except (ProtocolError, NotFinite) as error:
            if not self.editor:
                raise
            self._drop(call, f": {error}")
        except EnvError as error:  # another version, so not an Editor that connected before
            if not self.editor or not self._was_connected:
                raise
            self._drop(call, f": {error}")
        else:
            self.received += len(call.raw)
            self._greet(call, incoming, game)

    def _drop(self, call: Call, because: str = "") -> None:
        """Ignores a request of another program; warns the user of the first."""
        call.answer(None)
        self.dropped += 1
        if self.dropped == 1:
            self._owner.tell(
                "warning",
                f"{self.name}: someone other than the game sent messages on port {self.server.port}, which are ignored"
                f"{because}",
            )

    def quit_message(self) -> str:
        """Returns the error message for a game that quits."""
        return (
            "play mode was stopped" if self.editor else "it quit by itself (Application.Quit, or its window was closed)"
        )

    def _greet(self, call: Call, incoming: GameMessage, game: GameVersion) -> None:
        if self.call is not None:
            self.call.answer(None)
        if self.delivered:
            self._owner.tell("warning", f"{self.name} reconnected without quitting. Its open episodes are left out")
        self.forget()
        self._former_peers.discard(call.peer)
        self._peer = call.peer
        self.game = game
        self._was_connected = True
        self._learn_brains(incoming)
        self.phase = Phase.GREETED
        self.since = time.monotonic()
        owner = self._owner
        seed = (owner.seed + self.index + self.seeds_used) & 0x7FFFFFFF
        owner.connected(self.index, self.game)
        call.answer(encode.initialization(seed, self.options.areas))

    def _handle_message(self, incoming: GameMessage) -> None:
        """Handles a request after the first message: one asks for a command, the others carry agents."""
        check_tick(0 if self.call is None else len(self.call.raw), (), self.options.max_message_mb)
        self._owner.channels.incoming(self.index, incoming.side_channel)
        self._learn_brains(incoming)
        if self.phase is Phase.GREETED or self.must_reset:
            self.reset()
            return
        if not incoming.infos:
            self._wait_in(Phase.EMPTY)
            self.answer({})
            return
        self.arrivals = self._read(incoming.infos)
        self.fresh = True
        self.delivered += 1
        if any((~arrival.infos.done).any() for arrival in self.arrivals):
            self.decided = True
            self.phase = Phase.RUNNING
            self.reminders = 0
        else:
            self._wait_in(Phase.UNDECIDED)
        self._note_progress()

    def _wait_in(self, phase: Phase) -> None:
        """Enters a phase that is reported only if it lasts."""
        if self.phase is Phase.RUNNING:
            self.since = time.monotonic()
        self.phase = phase

    def _note_progress(self) -> None:
        if self.decided and (
            self.delivered % PROGRESS == 0 or any(arrival.infos.done.any() for arrival in self.arrivals)
        ):
            self._owner.progress += 1

    def _learn_brains(self, incoming: GameMessage) -> None:
        if incoming.hello is not None:
            self._brains.update({brain.brain_name: brain for brain in incoming.hello.brain_parameters})

    def _read(self, infos: Mapping[str, AgentInfos]) -> list[Arrival]:
        """Decodes the agents. New behaviors are added after the whole message was read, so that a damaged one adds
        none.
        """
        keys = sorted(infos)  # messages have no fixed order, and slots must not depend on it
        readers = {key: self._readers.get(key) or self._reader(key, infos[key]) for key in keys}
        agents = [(readers[key], len(infos[key].id), int(infos[key].id[0])) for key in keys]
        check_tick(0, agents, self.options.max_message_mb)
        arrivals = [self._arrival(key, readers[key], infos[key]) for key in keys]
        for key, reader in readers.items():
            if key not in self._readers:
                self._owner.add_behavior(reader)
                self._readers[key] = reader
        return arrivals

    def _reader(self, key: str, infos: AgentInfos) -> AgentInfoReader:
        brain = self._brains.get(key)
        if brain is None:
            known = ", ".join(self._brains) or "none"
            raise ProtocolError(f"it sent agents of behavior '{key}' without ever describing it (described: {known})")
        return AgentInfoReader(key, brain, infos, "" if self.game is None else self.game.package)

    def _arrival(self, key: str, reader: AgentInfoReader, infos: AgentInfos) -> Arrival:
        arrival = Arrival(
            reader.name,
            key,
            self.index,
            self.source,
            reader.team,
            infos,
            reader.observations(infos),
            reader.masks(infos),
        )
        while reader.warnings:
            self._owner.warn(f"{self.name}: {reader.warnings.pop(0)}")
        return arrival

    def answer(self, actions: Mapping[str, bytes]) -> None:
        """Sends actions by behavior key, with the messages of side channels."""
        assert self.call is not None
        now = time.monotonic()
        # time in which it waited for us
        self.since = now if self.phase is Phase.RUNNING else self.since + now - self.call.arrived
        self._send(encode.step(actions, self._owner.channels.outgoing(self.index)))

    def reset(self) -> None:
        """Makes the game begin new episodes: at once if it waits for an answer, otherwise with its next request."""
        if self.call is None:
            self.must_reset = True
            return
        self.must_reset = False
        self.phase = Phase.RESET
        self.since = time.monotonic()
        self._send(encode.reset(self._owner.channels.outgoing(self.index)))

    def _send(self, raw: bytes) -> None:
        call = self.call
        self.call = None
        self.arrivals = []
        self.fresh = False
        assert call is not None
        self.sent += len(raw)
        self._answered_at = time.monotonic()
        call.answer(raw)

    def check(self) -> None:
        """Reminds the user of a silent game. Raises GameGone if the process has ended or the silence exceeds the
        timeout.
        """
        if self.process is not None and self.process.code() is not None:
            raise GameGone(f"it {self.process.describe_exit()}{self._unplayed()}{self.log_tail()}")
        if self.phase is Phase.DOWN or (self.call is not None and self.phase is not Phase.UNDECIDED):
            return  # the game waits for us; in UNDECIDED that is its normal state
        timeout_wait = self.options.wait_for()
        phase, since = self._awaited(min(timeout_wait, FIRST_NOTICE))
        waited = (time.monotonic() if self.call is None else self.call.arrived) - since
        headless = needs_display(self.options, os.environ)
        explanation = explain(phase, waited, editor=self.editor, needs_display=headless)
        reminds = (self.editor and self.options.timeout_wait is None) or (self.decided and phase in PAUSES)
        if waited < timeout_wait * (self.reminders + 1 if reminds else 1):
            self._send_first_notice(phase, since, waited, explanation)
            return
        if reminds:
            self.reminders += 1
            self._owner.tell(
                "warning", f"{self.name}: {explanation}" if self.delivered or not self.editor else explanation
            )
            return
        raise GameGone(explanation + self.log_tail())

    def _awaited(self, pause: float) -> tuple[Phase, float]:
        """Returns what is awaited, and since when.

        A game that has played may pause without decisions while it answers; if it does not answer for `pause` seconds,
        it hangs.
        """
        answered = self._answered_at
        if self.decided and self.phase in PAUSES and answered is not None and time.monotonic() - answered >= pause:
            return Phase.RUNNING, answered
        return self.phase, self.since

    def _send_first_notice(self, phase: Phase, since: float, waited: float, explanation: str) -> None:
        """Tells the user of a silence before it is an error: once for each, and later each time if slow ticks
        repeat.
        """
        if waited >= self._notice_after and self._noticed_since != since:
            self._noticed_since = since
            self._notice_after *= 2 if phase is Phase.RUNNING else 1
            self._owner.tell("info", f"{self.name}: {explanation}")

    def _unplayed(self) -> str:
        """Returns a hint for a game in Python that ends without playing."""
        python = self._executable is not None and self._executable.suffix == ".py"
        if not python or self.phase is not Phase.STARTING or self.process is None or self.process.code():
            return ""
        return (
            "; a game in Python must play when it is run: end its file with 'my_game.play()', under 'if __name__ "
            '== "__main__":\''
        )

    def log_tail(self) -> str:
        """Returns the end of the game's log, if it has one."""
        tail = self.process.tail(LAST_LINES) if self.process is not None else ""
        where = "" if self.options.logs is None else f" ({self._logs})"
        return indented(f"; the end of its log{where}:\n{tail}") if tail else ""

    def forget(self) -> None:
        """Clears the state of the current game; the next one is another source of agents."""
        if self.delivered:
            self._owner.lose(self.source)
            self.source = self._owner.new_source()
        self.call = None
        self.arrivals = []
        self.fresh = False
        self.must_reset = False
        self._answered_at = None
        self.delivered = 0
        self.decided = False
        self._former_peers.add(self._peer)
        self.game = None
        self._brains = {}
        self._readers = {}

    def drop(self) -> None:
        """Ends the connection and the process; `start` restarts them."""
        self.send_quit()
        if self.process is not None:
            self.process.stop(0)
        self.process = None
        self.phase = Phase.DOWN
        self.forget()

    def send_quit(self) -> None:
        """Answers a waiting request with the command to quit."""
        if self.call is not None:
            self.call.answer(encode.goodbye())
            self.call = None
            self.phase = Phase.DOWN


def introduces(incoming: GameMessage, *, connected: bool) -> bool:
    """Whether a message is a game's first; later messages may describe new behaviors in the same field."""
    hello = incoming.hello
    return hello is not None and (bool(hello.communication_version) or not (connected or incoming.infos))
