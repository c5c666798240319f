import pytest

from palaestra.runtime.settings.search_settings import PopulationSettings, RangeSettings
from palaestra.runtime.tune.dimensions import Dimension
from palaestra.runtime.tune.population import Member, lineage, origins

RATE = Dimension("rate", RangeSettings(log=(1e-5, 1e-1)))
MEMBERS = [Member(number, {"rate": 10.0**-number}, reward) for number, reward in enumerate((3.0, 1.0, 9.0, 5.0), 1)]


def test_the_worst_continues_from_the_best_with_moved_values_and_the_others_from_themselves():
    found = origins(MEMBERS, [RATE], PopulationSettings(resample=0), "1-1")
    assert [each.parent for each in found] == [1, 3, 3, 4]
    assert [each.exploited for each in found] == [False, True, False, False]
    assert found[1].values["rate"] != MEMBERS[2].values["rate"]
    assert [each.values for each in (found[0], found[2], found[3])] == [MEMBERS[i].values for i in (0, 2, 3)]


def test_a_member_that_failed_continues_from_the_best():
    found = origins([*MEMBERS[:3], Member(4, {"rate": 1e-4}, None)], [RATE], PopulationSettings(), "1-1")
    assert found[3].parent == 3
    assert found[3].exploited


def test_the_last_one_alive_is_not_its_own_victim():
    found = origins([MEMBERS[0], Member(2, {"rate": 1e-4}, None)], [RATE], PopulationSettings(), "1-1")
    assert [(each.parent, each.exploited) for each in found] == [(1, False), (1, True)]
    with pytest.raises(ValueError, match="no training of the population is left"):
        origins([Member(2, {"rate": 1e-4}, None)], [RATE], PopulationSettings(), "1-1")


def test_every_process_comes_to_the_same_next_generation():
    assert origins(MEMBERS, [RATE], PopulationSettings(), "1-1") == origins(
        MEMBERS, [RATE], PopulationSettings(), "1-1"
    )


def test_values_are_drawn_anew_where_the_settings_say_so():
    drawn = origins(MEMBERS, [RATE], PopulationSettings(resample=1.0), "1-1")[1].values["rate"]
    assert drawn != origins(MEMBERS, [RATE], PopulationSettings(resample=1.0), "2-1")[1].values["rate"]


def test_a_lineage_goes_back_to_the_first_generation():
    assert lineage({0: None, 1: None, 2: 1, 3: 1, 4: 3, 5: 5}, 4) == [1, 3, 4]
    assert lineage({5: 5}, 5) == [5]
