from dataclasses import asdict, replace
from typing import Any

import pytest

from palaestra.core.errors import ProtocolError
from palaestra.envs.base import BehaviorFacts, TrainingFacts
from palaestra.envs.unity.analytics import ANALYTICS, AnalyticsSender
from palaestra.wire.messages import Any_, message_class
from palaestra.wire.side_channels import SideChannels, pack, unpack

RUN = TrainingFacts("1.1.0", "1.1.0", "3.12.1", "2.5", "cpu", 4, 2, "{}")
BALL = BehaviorFacts(
    "b4", "ppo", True, False, True, False, False, True, "simple", 2, 128, False, True, False, '{"max_steps": 5}'
)


def hub_of(channel: AnalyticsSender, copies: int = 2) -> SideChannels:
    return SideChannels([channel], copies, pytest.fail)


def said(hub: SideChannels, copy: int = 0) -> list[Any]:
    messages = []
    for _, payload in unpack(hub.outgoing(copy)):
        wrapped = Any_.FromString(payload)
        host, _, name = wrapped.type_url.partition("/")
        assert host == "type.googleapis.com"
        messages.append(message_class(name).FromString(wrapped.value))
    return messages


def fields(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def test_the_first_copy_receives_the_facts_of_the_run_when_it_connects_and_of_each_behavior_once():
    channel = AnalyticsSender()
    hub = hub_of(channel)
    channel.training_starts(RUN)
    channel.wanted = True
    for copy in (0, 1):
        hub.connected(copy)
    assert [fields(message) for message in said(hub)] == [asdict(RUN)]
    for _ in range(2):
        channel.behavior_joins(BALL)
    channel.behavior_joins(replace(BALL, behavior_name="c5"))
    assert [fields(message) for message in said(hub)] == [asdict(BALL), asdict(BALL) | {"behavior_name": "c5"}]
    assert said(hub, 1) == []


def test_a_restarted_game_receives_all_facts_again():
    channel = AnalyticsSender()
    channel.wanted = True
    hub = hub_of(channel)
    channel.training_starts(RUN)
    channel.behavior_joins(BALL)
    for _ in range(2):
        hub.connected(0)
        assert [fields(message) for message in said(hub)] == [asdict(RUN), asdict(BALL)]


def test_a_game_that_did_not_ask_receives_no_facts_and_has_none_to_send():
    channel = AnalyticsSender()
    hub = hub_of(channel)
    channel.training_starts(RUN)
    hub.connected(0)
    channel.behavior_joins(BALL)
    assert said(hub) == []
    with pytest.raises(ProtocolError, match=r"AnalyticsSender .* is send-only"):
        hub.incoming(0, pack([(ANALYTICS, b"")]))
