"""Dataclasses of settings from plain tables, such as those of a TOML file, according to their annotations.

===========================  ==================================================================================
annotation                   accepted in the table
===========================  ==================================================================================
int, float, str, bool        a value of that type
Literal["a", "b"]            one of these words
tuple[...]                   a list
a dataclass                  a table of its settings
several, or an abstract one  a table whose "name" says which class it is, in upper or lower case; without it, the
                             first
T | None                     as for T, or false for none
===========================  ==================================================================================

Of an abstract class the kinds are its concrete subclasses, in the order in which they were defined; a field whose
metadata has one as "unnamed" puts that first. Everything else is checked by the record itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from inspect import isabstract
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["choose_kind", "read_record"]

_PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {  # the types that are accepted for a type, and its name
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
}


def read_record(where: str, cls: Any, table: Mapping[str, Any]) -> Any:
    """Create the record that a table describes."""
    known = {f.name: f for f in fields(cls) if f.init}
    for name in table:
        if name not in known:
            raise ValueError(f"{where}: there is no setting {name!r}; the settings are {', '.join(known)}")
    for name, f in known.items():
        if name not in table and f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{where}: {name} is missing")
    kinds = get_type_hints(cls)
    values = {
        name: _read_value(f"{where}.{name}", kinds[name], value, known[name].metadata.get("unnamed"))
        for name, value in table.items()
    }
    try:
        made = cls(**values)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
    for name, value in values.items():  # after the record's own checks, whose messages are better
        _check_plain(f"{where}.{name}", kinds[name], value)
    return made


def choose_kind(where: str, table: Any, kinds: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The class that a table's "name" selects, in upper or lower case, and the rest of the table."""
    if not isinstance(table, Mapping):
        raise ValueError(f"{where} must be a table with a name, got {table!r}")
    name, lower = table.get("name"), {kind.lower(): kinds[kind] for kind in kinds}
    if not isinstance(name, str) or name.lower() not in lower:
        raise ValueError(f"{where}: name must be one of {', '.join(kinds)}, got {name!r}")
    return lower[name.lower()], {key: value for key, value in table.items() if key != "name"}


def _read_value(where: str, annotation: Any, value: Any, unnamed: Any = None) -> Any:
    options = list(_options(annotation))
    if value is False and NoneType in options and bool not in options:
        return None
    if options == [bool] and not isinstance(value, bool):
        raise TypeError(f"{where} must be true or false, got {value!r}")
    first = [] if unnamed is None else [unnamed]
    records = {record.__name__: record for option in [*first, *options] for record in _records(option)}
    if isinstance(value, Mapping) and records:
        if "name" not in value:
            value = {"name": next(iter(records)), **value}
        return read_record(where, *choose_kind(where, value, records))
    if records and not any(option is not NoneType and not _records(option) for option in options):
        none = ", or false for none" if NoneType in options else ""
        raise ValueError(f"{where} must be a table{none}, got {value!r}")
    if isinstance(value, list) and any(get_origin(option) is tuple for option in options):
        return tuple(value)
    return value


def _options(annotation: Any) -> Iterator[Any]:
    """The members of a union; of anything else, itself."""
    if get_origin(annotation) in (Union, UnionType):
        for option in get_args(annotation):
            yield from _options(option)
    else:
        yield annotation


def _records(option: Any) -> list[Any]:
    """The concrete dataclasses that an annotation stands for: the class itself and its subclasses."""
    if not isinstance(option, type) or not (is_dataclass(option) or isabstract(option)):
        return []
    found = [option] if is_dataclass(option) and not isabstract(option) else []
    subclasses: list[type] = option.__subclasses__()
    for kind in subclasses:
        found += [record for record in _records(kind) if record not in found]
    return found


def _check_plain(where: str, annotation: Any, value: Any) -> None:
    """Raise a TypeError where the value is none of the plain types that the annotation names."""
    expected = []
    for option in _options(annotation):
        if get_origin(option) is Literal:
            fits, words = value in get_args(option), f"one of {', '.join(map(str, get_args(option)))}"
        elif option is NoneType:
            fits, words = value is None, "false for none"
        elif option in _PLAIN:
            types, words = _PLAIN[option]
            fits = isinstance(value, types) and (option is bool or not isinstance(value, bool))
        else:
            return
        if fits:
            return
        expected.append(words)
    raise TypeError(f"{where} must be {' or '.join(expected)}, got {value!r}")
