from __future__ import annotations

import numpy as np
import pytest

from palaestra.core.errors import EnvError
from palaestra.core.specs import ActionSpec, BehaviorSpec, ObsSpec
from palaestra.envs.unity.decode import Infos
from palaestra.sdk.crowd import Crowd
from palaestra.sdk.exchange import Said, Told


class Row:
    """An area in which some agents ask and some ended; what each is told is kept."""

    def __init__(self, *ended: bool, size: int = 1, key: str = "Ball?team=0", mask: bool = False) -> None:
        self.ended, self.size, self.key, self.mask = ended, size, key, mask
        self.told: list[int] | None = None
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def advance(self) -> dict[str, Said]:
        count = len(self.ended)
        if not count:
            return {}
        spec = BehaviorSpec((ObsSpec("x", (self.size,)),), ActionSpec(branches=(9,)))
        zeros = np.zeros(count, np.float32)
        infos = Infos(np.arange(count), zeros, np.array(self.ended), np.zeros(count, np.bool_), np.arange(count), zeros, (), ())
        mask = np.arange(9)[None].repeat(count, 0) > 4 if self.mask else None
        return {self.key: Said(self.key, spec, (False,), infos, (np.zeros((count, self.size), np.float32),), mask)}

    def answer(self, told: dict[str, Told]) -> None:
        self.told = [row for one in told.values() for row in one.discrete[:, 0].tolist()]


def tell(*choices: int) -> Told:
    return Told(np.zeros((len(choices), 0), np.float32), np.array(choices)[:, None])


def test_agents_and_groups_have_numbers_of_their_own():
    infos = Crowd([Row(False, False), Row(False, True, False)]).advance()["Ball?team=0"].infos
    assert infos.id.tolist() == [0, 2, 1, 3, 5]
    assert infos.group.tolist() == [0, 2, 0, 3, 5]


def test_one_area_keeps_its_numbers():
    infos = Crowd([Row(False, True, False)]).advance()["Ball?team=0"].infos
    assert infos.id.tolist() == infos.group.tolist() == [0, 1, 2]


def test_answers_go_back_to_those_who_asked():
    areas = [Row(False, False), Row(), Row(False, True, False)]
    crowd = Crowd(areas)
    crowd.advance()
    crowd.answer({"Ball?team=0": tell(4, 5, 6, 7)})
    assert [area.told for area in areas] == [[4, 5], [], [6, 7]]


def test_an_area_without_masks_forbids_nothing_beside_one_that_has_some():
    mask = Crowd([Row(False), Row(False, mask=True)]).advance()["Ball?team=0"].mask
    assert mask is not None
    assert mask.tolist() == [[True] * 9, [False] * 5 + [True] * 4]


def test_behaviors_stay_apart():
    said = Crowd([Row(False), Row(False, False, key="Ball?team=1")]).advance()
    assert {key: len(one.infos.id) for key, one in said.items()} == {"Ball?team=0": 1, "Ball?team=1": 2}


def test_areas_must_agree_about_a_behavior():
    with pytest.raises(EnvError, match=r"behavior 'Ball\?team=0' differs between areas"):
        Crowd([Row(False), Row(False, size=2)]).advance()


def test_all_areas_begin_anew():
    areas = [Row(False), Row(False)]
    Crowd(areas).reset()
    assert [area.resets for area in areas] == [1, 1]
