"""One copy of the game: its process, its server, and how far the conversation with it is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from palaestra.core.display import indented
from palaestra.core.errors import EnvError, GameGone, NotFinite, ProtocolError
from palaestra.envs.unity import executable
from palaestra.envs.unity.options import PROGRESS, RestartPolicy, UnityOptions
from palaestra.envs.unity.process import GameProcess, arguments, needs_display, player_log
from palaestra.envs.unity.table import Arrival
from palaestra.envs.unity.timeouts import FIRST_WORD, Phase, explain
from palaestra.wire import encode
from palaestra.wire.decode import AgentInfos, GameMessage, decode
from palaestra.wire.handshake import GameVersion, read_game_version
from palaestra.wire.limits import check_tick
from palaestra.wire.peers import Origin, PeerProgram, origin, program_of
from palaestra.wire.readers import AgentInfoReader
from palaestra.wire.server import Call, Inbox, Server
from palaestra.wire.side_channels import SideChannels

LAST_LINES = 15


class Surroundings(Protocol):
    """What a copy needs of the environment it belongs to."""

    inbox: Inbox
    channels: SideChannels
    seed: int
    progress: int
    entered: Callable[[int, Phase], None]

    def tell(self, level: str, text: str) -> None:
        """A line for people."""
        ...

    def complain(self, text: str) -> None:
        """A warning about what a game sends, of which there may be any number."""
        ...

    def admit(self, reader: AgentInfoReader) -> None:
        """A behavior appeared. Raises ProtocolError where another copy or team has the same name and another spec."""
        ...

    def new_source(self) -> int:
        """A number no game of this environment has had."""
        ...

    def greeted(self, copy: int, game: GameVersion) -> None:
        """A copy introduced itself."""
        ...

    def lose(self, source: int) -> None:
        """That game broke off."""
        ...


class GameInstance:
    """Owns a game from its start to its end, and starts it again."""

    def __init__(self, index: int, options: UnityOptions, around: Surroundings, build: Path | None, logs: Path) -> None:
        """Listens from now on; `start` starts the game."""
        self.index, self.options, self._around, self._executable, self._logs = index, options, around, build, logs
        self.editor = build is None
        port = options.editor_port if self.editor else options.base_port and options.base_port + index
        self.server = Server(index, around.inbox, port, bind=options.bind, fixed=self.editor)
        self.process: GameProcess | None = None
        self.policy = RestartPolicy(index, options.restarts)
        self._phase, self.since = Phase.DOWN, time.monotonic()
        self.start_at = 0.0
        self.game: GameVersion | None = None
        self.call: Call | None = None
        """The game's request that waits for our answer."""
        self.arrivals: list[Arrival] = []
        """What that request said, to be shown or shown already."""
        self.fresh = False
        """Not shown yet."""
        self.must_reset = False
        self.delivered = 0
        """Messages with agents, of the present game."""
        self.decided = False
        """An agent of the present game has asked for a decision."""
        self._peer = ""
        """The present game's address."""
        self._former: set[str] = set()
        """Those of games whose conversation ended here, though they may not know it yet."""
        self._met = False
        """A game has introduced itself since this copy was made."""
        self._told_apart = True
        """The present game is known to be the expected process."""
        self.dropped = 0
        """Messages of others than the game, which were not listened to."""
        self._oddity = ""
        """Why the last of them, since the game was started, was not taken for its greeting."""
        self.received = self.sent = 0
        """Bytes of all messages."""
        self.source = around.new_source()
        self._brains: dict[str, Any] = {}
        self._readers: dict[str, AgentInfoReader] = {}
        self.reminded = 0
        """Times that people were told of the present silence."""
        self._word_after, self._worded = FIRST_WORD, 0.0
        """Seconds of silence until a first word about it, and the beginning of the silence that it was last said about."""

    @property
    def name(self) -> str:
        """In messages."""
        return "the Editor" if self.editor else "the game" if self.options.copies == 1 else f"copy {self.index} of the game"

    @property
    def phase(self) -> Phase:
        """How far the conversation with its game is."""
        return self._phase

    @phase.setter
    def phase(self, phase: Phase) -> None:
        if phase is not self._phase:
            self._phase = phase
            self._around.entered(self.index, phase)

    def start(self) -> None:
        """Starts the build's process; the Editor is waited for."""
        self.reminded = self.delivered = 0
        self._oddity = ""
        if self._executable is not None:
            log = self._logs / f"Player-{self.index}.log"
            command = [*executable.command(self._executable), *arguments(self.options, self.index, self.server.port, log)]
            self.process = GameProcess(
                command, player_log(self.options, log), self._logs / f"Player-{self.index}.out", self.options.show_output
            )
        self.since, self.phase = time.monotonic(), Phase.STARTING

    def receive(self, call: Call) -> None:
        """Takes a request; one of anyone but the game is dropped, without harm to the conversation.

        Raises ProtocolError, NotFinite or GameGone where the conversation cannot go on, EnvError where none could.
        """
        if self.phase is Phase.DOWN:
            return  # last words of the game that went
        if self.game is not None and call.peer == self._peer:
            self._converse(call)
        else:
            self._admit(call)

    def _converse(self, call: Call) -> None:
        """A message of the present game."""
        self.received += len(call.raw)
        incoming = decode(call.raw)
        if introduces(incoming, greeted=True) and self.editor:
            self._greet(call, incoming, read_game_version(incoming.hello))
        elif introduces(incoming, greeted=True) or (self.call is not None and self.call.open):
            call.answer(None)
        elif incoming.status != encode.OK:
            raise GameGone(self.farewell())
        else:
            self.call = call
            self._hear(incoming)

    def _admit(self, call: Call) -> None:
        """A message of someone who has not said hello: only a greeting of the expected process begins a conversation."""
        who, program = self._origin(call)
        if who is Origin.OTHER or not call.open or (self.game is not None and not self._may_take_over(who, call)):
            if call.peer not in self._former:
                self._drop(call, program)
            return
        ours = who is Origin.GAME and self.game is None
        try:
            incoming = decode(call.raw)
            if call.peer in self._former and not introduces(incoming, greeted=False):
                return
            if ours and incoming.status != encode.OK:
                raise GameGone(self.farewell())
            if not introduces(incoming, greeted=self.game is not None):
                raise ProtocolError(
                    "its first message does not introduce it (rl_initialization_output): it goes on with another training, or is no game"
                )
            game = read_game_version(incoming.hello)
        except GameGone:
            raise
        except (ProtocolError, NotFinite) as error:
            if ours:
                raise
            self._drop(call, program, str(error))
        except EnvError as error:  # of another version, as none of this build's or Editor's can be that was here before
            if not self._met or ours:
                raise
            self._drop(call, program, str(error))
        else:
            self.received += len(call.raw)
            self._told_apart = who is Origin.GAME
            self._greet(call, incoming, game)

    def _origin(self, call: Call) -> tuple[Origin, PeerProgram | None]:
        """Who speaks. Which process is the Editor is not known beforehand."""
        if self.process is None or (self.game is not None and self._told_apart):
            return Origin.UNKNOWN, None
        return origin(call.peer, self.server.port, self.process.pid)

    def _may_take_over(self, who: Origin, call: Call) -> bool:
        """Whether a greeting would end the present conversation.

        Of a build it does where the present one may be a stranger's. An Editor may come again and again, but of two programs
        the first keeps the conversation for as long as its connection lasts.
        """
        if not self.editor:
            return who is Origin.GAME and not self._told_apart
        port = self.server.port
        former, latter = program_of(self._peer, port), program_of(call.peer, port)
        return former is None or latter is None or former.pid == latter.pid

    def _drop(self, call: Call, program: PeerProgram | None, why: str = "") -> None:
        """Turns a stranger away; people hear of the first."""
        call.answer(None)
        self.dropped += 1
        self._oddity = why or self._oddity
        if self.dropped == 1:
            who = f"a program that is not the game ({program})" if program else "someone other than the game"
            reason = f": {why}" if why else ""
            self._around.tell("warning", f"{self.name}: {who} spoke on port {self.server.port} and is not listened to{reason}")

    def farewell(self) -> str:
        """Of a game that says goodbye."""
        return "play mode was stopped" if self.editor else "it quit by itself (Application.Quit, or its window was closed)"

    def _greet(self, call: Call, incoming: GameMessage, game: GameVersion) -> None:
        if self.call is not None:
            self.call.answer(None)
        if self.delivered:
            self._around.tell("warning", f"{self.name} connected anew without saying goodbye. Its open episodes are left out")
        self.forget()
        self._former.discard(call.peer)
        self._peer, self.game, self._met = call.peer, game, True
        self._learn_brains(incoming)
        self.phase, self.since = Phase.GREETED, time.monotonic()
        around, copies = self._around, self.options.copies
        seed = (around.seed + self.index + self.policy.restarts * copies) & 0x7FFFFFFF
        around.greeted(self.index, self.game)
        call.answer(encode.initialization(seed, self.options.areas))

    def _hear(self, incoming: GameMessage) -> None:
        """A request after the introduction: the first asks for a command, the others tell of agents."""
        check_tick(0 if self.call is None else len(self.call.raw), (), self.options.max_message_mb)
        self._around.channels.incoming(self.index, incoming.side_channel)
        self._learn_brains(incoming)
        if self.phase is Phase.GREETED or self.must_reset:
            self.reset()
            return
        if not incoming.infos:
            self._wait_in(Phase.EMPTY)
            self.answer({})
            return
        self.arrivals, self.fresh = self._read(incoming.infos), True
        self.delivered += 1
        if any((~arrival.infos.done).any() for arrival in self.arrivals):
            self.decided = True
            self.phase, self.reminded = Phase.RUNNING, 0
        else:
            self._wait_in(Phase.UNDECIDED)
        self._note_progress()

    def _wait_in(self, phase: Phase) -> None:
        """Enters a phase that is only worth a word when it lasts."""
        if self.phase is Phase.RUNNING:
            self.since = time.monotonic()
        self.phase = phase

    def _note_progress(self) -> None:
        if self.decided and (self.delivered % PROGRESS == 0 or any(arrival.infos.done.any() for arrival in self.arrivals)):
            self._around.progress += 1

    def _learn_brains(self, incoming: GameMessage) -> None:
        if incoming.hello is not None:
            self._brains.update({brain.brain_name: brain for brain in incoming.hello.brain_parameters})

    def _read(self, infos: Mapping[str, AgentInfos]) -> list[Arrival]:
        """New behaviors are admitted once the whole message was read: a damaged one leaves nothing behind."""
        keys = sorted(infos)  # they come in no order: teams would take each other's seats from run to run
        readers = {key: self._readers.get(key) or self._reader(key, infos[key]) for key in keys}
        agents = [(readers[key], len(infos[key].id), int(infos[key].id[0])) for key in keys]
        check_tick(0, agents, self.options.max_message_mb)
        arrivals = [self._arrival(key, readers[key], infos[key]) for key in keys]
        for key, reader in readers.items():
            if key not in self._readers:
                self._around.admit(reader)
                self._readers[key] = reader
        return arrivals

    def _reader(self, key: str, infos: AgentInfos) -> AgentInfoReader:
        brain = self._brains.get(key)
        if brain is None:
            known = ", ".join(self._brains) or "none"
            raise ProtocolError(f"it sent agents of behavior '{key}' without ever describing it (described: {known})")
        return AgentInfoReader(key, brain, infos, "" if self.game is None else self.game.package)

    def _arrival(self, key: str, reader: AgentInfoReader, infos: AgentInfos) -> Arrival:
        arrival = Arrival(reader.name, key, self.index, self.source, reader.team, infos, reader.observations(infos), reader.masks(infos))
        while reader.warnings:
            self._around.complain(f"{self.name}: {reader.warnings.pop(0)}")
        return arrival

    def answer(self, actions: Mapping[str, bytes]) -> None:
        """Sends actions by behavior key, and with them what side channels hold."""
        assert self.call is not None
        if self.phase is Phase.RUNNING:
            self.since = time.monotonic()
        self._send(encode.step(actions, self._around.channels.outgoing(self.index)))

    def reset(self) -> None:
        """Has the game begin all its episodes anew: at once if it waits for an answer, else as soon as it does."""
        if self.call is None:
            self.must_reset = True
            return
        self.must_reset, self.phase, self.since = False, Phase.RESET, time.monotonic()
        self._send(encode.reset(self._around.channels.outgoing(self.index)))

    def _send(self, raw: bytes) -> None:
        call, self.call, self.arrivals, self.fresh = self.call, None, [], False
        assert call is not None
        self.sent += len(raw)
        call.answer(raw)

    def check(self) -> None:
        """Raises GameGone where the process has ended or silence has lasted too long; reminds where it may last."""
        if self.process is not None and self.process.code() is not None:
            raise GameGone(f"it {self.process.describe_exit()}{self._unplayed()}{self.last_words()}")
        if self.phase is Phase.DOWN or (self.call is not None and self.phase is not Phase.UNDECIDED):
            return  # it waits for us; one whose agents only end is never seen otherwise
        waited, patience = time.monotonic() - self.since, self.options.wait_for()
        headless = needs_display(self.options, os.environ)
        why = explain(self.phase, waited, editor=self.editor, needs_display=headless)
        if waited < patience * (self.reminded + 1):
            self._say_first_word(waited, why)
            return
        endless = self.editor and self.options.patience is None
        if endless or (self.decided and self.phase in (Phase.EMPTY, Phase.UNDECIDED)):
            self.reminded += 1
            self._around.tell("warning", f"{self.name}: {why}" if self.delivered or not self.editor else why)
            return
        other = f"; what spoke on its port was not taken for it: {self._oddity}" if self._oddity and self.game is None else ""
        raise GameGone(why + other + self.last_words())

    def _say_first_word(self, waited: float, why: str) -> None:
        """Once for each silence, long before it is an error; ever later where ticks are slow again and again."""
        if waited >= self._word_after and self._worded != self.since:
            self._worded = self.since
            self._word_after *= 2 if self.phase is Phase.RUNNING else 1
            self._around.tell("info", f"{self.name}: {why}")

    def _unplayed(self) -> str:
        """A hint for a game in Python that does nothing when it is run."""
        python = self._executable is not None and self._executable.suffix == ".py"
        if not python or self.phase is not Phase.STARTING or self.process is None or self.process.code():
            return ""
        return "; a game in Python must play when it is run: end its file with 'my_game.play()', under 'if __name__ == \"__main__\":'"

    def last_words(self) -> str:
        """The end of the game's log, if it has one."""
        tail = self.process.tail(LAST_LINES) if self.process is not None else ""
        where = "" if self.options.logs is None else f" ({self._logs})"
        return indented(f"; the end of its log{where}:\n{tail}") if tail else ""

    def forget(self) -> None:
        """What a game said and owes; the next one is another source of agents."""
        if self.delivered:
            self._around.lose(self.source)
            self.source = self._around.new_source()
        self.call, self.arrivals, self.fresh, self.must_reset = None, [], False, False
        self.delivered, self.decided = 0, False
        self._former.add(self._peer)
        self.game, self._brains, self._readers = None, {}, {}

    def drop(self) -> None:
        """Ends the conversation and the process; `start` begins again."""
        self.say_goodbye()
        if self.process is not None:
            self.process.stop(0)
        self.process, self.phase = None, Phase.DOWN
        self.forget()

    def say_goodbye(self) -> None:
        """Answers what waits, so that the game can end by itself."""
        if self.call is not None:
            self.call.answer(encode.goodbye())
            self.call, self.phase = None, Phase.DOWN


def introduces(incoming: GameMessage, *, greeted: bool) -> bool:
    """Whether a message begins a conversation; one that goes on may describe new behaviors in the same field."""
    hello = incoming.hello
    return hello is not None and (bool(hello.communication_version) or not (greeted or incoming.infos))
