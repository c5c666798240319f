"""Base class of all settings: unknown keys are errors, values are frozen, and obvious spellings such as 'yes' are
accepted.

Names follow the ML-Agents YAML. The docstring under a field is its documentation, in code and in editors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from palaestra.core.plugins import nearest

LARGEST = 2**63 - 1
"""Largest integer that a setting may have."""
_SPOKEN = {
    **dict.fromkeys(("true", "yes", "on", "y", "t", "1"), True),
    **dict.fromkeys(("false", "no", "off", "n", "f", "0"), False),
}
"""Booleans by the strings accepted for them in any case: YAML reads quoted words, and plain `y` and `n`, as strings."""
_MAX_HINTS = 20  # unknown keys of one section for which the nearest known one is suggested

SKIP_USER_CODE = "skip_user_code"
"""Key of the validation context; true: users' modules are not imported to check their settings."""
UNKNOWN_KEY, IGNORED_KEY = "unknown_key", "ignored_key"
"""Types of the pydantic error for an unknown key: one that is refused, and one that only causes a warning in a file."""


class Settings(BaseModel):
    """A group of settings. Unknown keys, wrong types and out-of-range numbers raise pydantic's ValidationError."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    ignores_unknown: ClassVar[bool] = False
    """Whether ML-Agents ignores unknown keys of this section, so that files of its users may contain unknown keys."""

    @model_validator(mode="wrap")
    @classmethod
    def _name_unknown_keys(cls, data: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(data)
        except ValidationError as error:
            errors = error.errors()
        unknown = [error["loc"] for error in errors if error["type"] in ("extra_forbidden", "invalid_key")]
        hints = {loc: nearest(str(loc[0]), cls.model_fields) for loc in unknown[:_MAX_HINTS]}
        found = []
        for error in errors:
            kind: Any = error["type"]
            words = error["msg"]
            if error["loc"] in unknown:
                kind = IGNORED_KEY if cls.ignores_unknown else UNKNOWN_KEY
                words = f"unknown key{hints.get(error['loc'], '')}"
            elif kind == "missing" and any(f"'{error['loc'][0]}'" in hint for hint in hints.values()):
                continue  # a key was misspelt
            made = PydanticCustomError(kind, "{message}", {**error.get("ctx", {}), "message": words})
            found.append(InitErrorDetails(type=made, loc=error["loc"], input=error["input"]))
        raise ValidationError.from_exception_data(cls.__name__, found)

    @field_validator("*", mode="before")
    @classmethod
    def _read_plain_meanings(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if value is None and isinstance(annotation, type) and issubclass(annotation, Settings):
            return {}  # a section with no keys under its name
        kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        value = _plain(value, kinds)
        if sentence := _unusable(value):
            raise ValueError(sentence)
        return value


def unusable_text(text: str) -> str:
    """Describes what makes a text unusable as a name or path on any system; '' if it is usable."""
    if "\0" in text:
        return "a NUL character"
    return (
        "half of a surrogate pair (text that is not Unicode)"
        if any("\ud800" <= char <= "\udfff" for char in text)
        else ""
    )


def _unusable(value: Any) -> str:
    """Describes what makes a value unusable for any setting; '' if it is usable."""
    texts = value if isinstance(value, list | tuple) else (value,)
    if what := next(filter(None, (unusable_text(text) for text in texts if isinstance(text, str))), ""):
        return f"a text with {what}, which names and paths cannot contain"
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        return f"a number beyond the limit of {LARGEST}"
    return ""


def field_error(settings: type[Settings], field: str, sentence: str, value: Any) -> ValidationError:
    """Returns a ValidationError for one field, for validators that check several fields together."""
    error = PydanticCustomError("value_error", "{sentence}", {"sentence": sentence, "error": sentence})
    return ValidationError.from_exception_data(
        settings.__name__, [InitErrorDetails(type=error, loc=(field,), input=value)]
    )


def _plain(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Converts obvious spellings: `5e5` to an integer, a number as a name, 0, 1, 'true' to a bool, lists to tuples."""
    if isinstance(value, list):
        item = next((get_args(kind)[:1] for kind in kinds if get_origin(kind) is tuple), None)
        return value if item is None else tuple(_plain(each, item) for each in value)
    if isinstance(value, bool):
        return value
    if str in kinds:
        return str(value) if isinstance(value, int | float) else value
    if bool in kinds:
        if isinstance(value, str):
            return _SPOKEN.get(value.strip().lower(), value)
        return bool(value) if value in (0, 1) else value
    if isinstance(value, str) and (int in kinds or float in kinds):
        value = _number(value)
    if isinstance(value, float) and int in kinds and value.is_integer():
        return int(value)
    return value


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
