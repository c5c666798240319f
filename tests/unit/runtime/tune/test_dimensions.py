from palaestra.runtime.settings.search_settings import RangeSettings
from palaestra.runtime.tune.dimensions import Dimension, plain, short_names

LOG = Dimension("a", RangeSettings(log=(1e-5, 1e-1)))
UNIFORM = Dimension("a", RangeSettings(uniform=(0.8, 1.0)))
INTEGER = Dimension("a", RangeSettings(integer=(2, 10), step=2))
CHOICE = Dimension("a", RangeSettings(choice=(64, 128, 256)))
ALL = (LOG, UNIFORM, INTEGER, CHOICE, Dimension("a", RangeSettings(log_integer=(1, 1000))))


def test_true_is_no_number_and_one_is_not_true():
    assert not UNIFORM.contains(True)
    assert not Dimension("a", RangeSettings(choice=(True, False))).contains(1)
    assert not INTEGER.contains(3)


def test_names_are_as_short_as_they_can_be_told_apart():
    paths = ["behaviors.A.hyperparameters.beta", "behaviors.A.x.gamma", "behaviors.A.y.gamma"]
    assert list(short_names(paths).values()) == ["beta", "x.gamma", "y.gamma"]


def test_numbers_are_shown_short():
    shown = {123456.7: "123,457", 0.000123456: "0.0001235", 64: "64", True: "True", "linear": "linear"}
    assert [plain(value) for value in shown] == [*shown.values()]
