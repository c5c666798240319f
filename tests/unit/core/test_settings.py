from typing import ClassVar

import pytest
from pydantic import Field, ValidationError

from palaestra.core.settings import Settings, field_error


class Sun(Settings):
    """A star."""

    planets: int = Field(default=8, gt=0)
    """Bodies in orbit."""
    mass: float = 1.0
    """In suns."""
    spectrum: str | None = None
    """Its letters."""
    bright: bool = True
    """Seen by eye."""
    orbits: tuple[tuple[float, float], ...] = ()
    """Nearest and farthest."""


class Sky(Settings):
    """All of it."""

    ignores_unknown: ClassVar[bool] = True

    sun: Sun = Sun()
    """The nearest."""


def errors(data: object, settings: type[Settings] = Sun) -> list[tuple[tuple[int | str, ...], str]]:
    with pytest.raises(ValidationError) as caught:
        settings.model_validate(data)
    return [(error["loc"], error["type"]) for error in caught.value.errors()]


def test_obvious_spellings_are_converted():
    sun = Sun.model_validate({"planets": 9.0, "mass": "2e3", "spectrum": 7, "bright": 0, "orbits": [[1, 2], [3, 4]]})
    assert sun == Sun(planets=9, mass=2000.0, spectrum="7", bright=False, orbits=((1.0, 2.0), (3.0, 4.0)))
    assert isinstance(sun.planets, int)


@pytest.mark.parametrize("text", ["true", "True", " TRUE ", "yes", "on", "y", "t", "1"])
def test_a_switch_may_be_a_word_in_quotes(text: str):
    assert Sun.model_validate({"bright": text}).bright
    opposite = {"true": "false", "yes": "No", "on": "off", "y": "n", "t": "F", "1": "0"}[text.strip().lower()]
    assert not Sun.model_validate({"bright": opposite}).bright


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("planets", 3.7),
        ("planets", True),
        ("planets", "many"),
        ("planets", None),
        ("planets", 0),
        ("mass", float("nan")),
        ("bright", "perhaps"),
        ("bright", ""),
        ("bright", None),
        ("bright", 2),
        ("spectrum", True),
        ("orbits", 3),
        ("orbits", [[1]]),
    ],
)
def test_a_value_of_another_meaning_is_refused(key: str, value: object):
    assert all(at[0] == key for at, _ in errors({key: value}))


def test_an_unknown_key_is_an_error_that_names_the_nearest():
    with pytest.raises(ValidationError, match="did you mean 'planets'"):
        Sun.model_validate({"planet": 3})
    assert errors({"planet": 3, "moons": 1}) == [(("planet",), "unknown_key"), (("moons",), "unknown_key")]


def test_an_unknown_key_hides_no_other_mistake_of_its_section():
    found = errors({"planet": 3, "mass": "much", 5: 1})
    assert found == [(("mass",), "float_type"), (("planet",), "unknown_key"), ((5,), "unknown_key")]


def test_a_section_that_ignores_unknown_keys_says_so_and_its_parts_do_not():
    assert errors({"moon": 1}, Sky) == [(("moon",), "ignored_key")]
    assert errors({"sun": {"moon": 1}}, Sky) == [(("sun", "moon"), "unknown_key")]


def test_an_empty_section_has_all_defaults():
    assert Sky.model_validate({"sun": None}) == Sky()


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Sun().planets = 3  # type: ignore[misc]


def test_the_sentence_under_a_field_is_its_description():
    assert Sun.model_fields["planets"].description == "Bodies in orbit."


def test_a_groups_validator_can_blame_one_field():
    [error] = field_error(Sun, "mass", "too {heavy}", 3).errors()
    assert (error["loc"], error["msg"]) == (("mass",), "too {heavy}")
