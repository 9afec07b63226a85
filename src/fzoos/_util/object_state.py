"""The state of an object and of all that it holds, as JSON values and arrays: no pickle, and reading it runs nothing.

A new object is made as ever, and then gets the state of the old one. Whatever was there when it was made (generators,
functions, parts that others refer to) stays the same object and gets new contents; what the old one has made since is
made without calling it: plain instances of classes of named packages. Objects that are held twice, and arrays that
share their memory, are so again.

A class names in `not_state` the attributes that every new instance has from elsewhere: files, the user's own objects.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Collection, Iterator
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ObjectState", "StateError", "Taken"]

Array = NDArray[Any]

_PLAIN = (type(None), bool, int, float, str)  # in JSON as they are
_VALUES = ("scalar", "enum", "bytes", "tuple", "record", "range", "method", "partial", "named", "made_part", "node")
_NODES = ("list", "set", "deque", "dict", "array", "view", "generator", "random_state", "object")
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class StateError(ValueError):
    """Something cannot be kept, or what was kept is not of such an object."""


class Taken(NamedTuple):
    """A state: JSON values, the arrays that they refer to, and the modules of all classes in it."""

    nodes: list[Any]
    arrays: list[Array]
    modules: set[str]


class ObjectState:
    """An object that has just been made, whose state can be taken later, or be replaced now.

    Args:
        root: the object.
        packages: whose classes may be part of it, by the first part of their modules' names.

    Example:
        >>> import numpy as np
        >>> from fzoos._util.buffer import Buffer
        >>> from fzoos._util.object_state import ObjectState
        >>> old, new = Buffer(np.empty(0), 2), Buffer(np.empty(0), 2)
        >>> kept, made = ObjectState(old, ["fzoos"]), ObjectState(new, ["fzoos"])
        >>> old.grow(1)[0] = 3.0, 4.0
        >>> state = kept.take()
        >>> made.replace(state.nodes, state.arrays)
        >>> new.array
        array([[3., 4.]])
    """

    def __init__(self, root: Any, packages: Collection[str]) -> None:
        self._root, self._packages = root, frozenset(packages)
        self._made: dict[str, Any] = {}  # by their paths, which a new object of the same kind has as well
        self._paths: dict[int, str] = {}
        self._explore(root, "")

    def _explore(self, found: Any, path: str) -> None:
        if isinstance(found, _PLAIN) or id(found) in self._paths:
            return
        self._made[path], self._paths[id(found)] = found, path
        for name, part in self._parts(found):
            self._explore(part, f"{path}/{name}")

    def _parts(self, found: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(found, dict):
            yield from ((repr(key), value) for key, value in found.items())
        elif isinstance(found, (list, tuple, deque)):
            yield from ((str(i), value) for i, value in enumerate(found))
        elif isinstance(found, MethodType):
            yield "self", found.__self__
        elif isinstance(found, partial):
            yield from (("func", found.func), ("args", found.args), ("keywords", found.keywords))
        elif self._is_ours(type(found)):
            yield from _state_of(found).items()

    def _is_ours(self, kind: type) -> bool:
        """Whether instances are what they hold, and nothing else."""
        ours = kind.__module__.split(".")[0] in self._packages and kind.__dictoffset__ != 0
        return ours and not issubclass(kind, (*_PLAIN[1:], tuple, list, dict, set, frozenset, deque, np.ndarray, type))

    def take(self) -> Taken:
        """The state as it is now.

        Raises:
            StateError: there is something that cannot be kept.
        """
        writer = _Writer(self._paths, self._is_ours, self._find)
        writer.value(self._root)
        return Taken(writer.nodes, writer.arrays, writer.modules)

    def replace(self, nodes: list[Any], arrays: list[Array]) -> None:
        """Give the object, which must be new, a state that `take` gave.

        Raises:
            StateError: it is none of such an object; the object is of no use then.
        """
        try:
            found = _Reader(self._made, self._find, nodes, arrays).node(0)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise StateError(f"it is not the state of such an object ({type(error).__name__}: {error})") from None
        if found is not self._root:
            raise StateError("it is the state of another object")

    def _find(self, name: str) -> Any:
        """A class or function of ours by its module and name."""
        module, _, rest = name.partition(":")
        if module.split(".")[0] not in self._packages:
            raise StateError(f"{name} is of a package that has no part in it")
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in rest.split("."):
            found = getattr(found, part)
        return found


def _state_of(found: Any) -> dict[str, Any]:
    left_out = getattr(type(found), "not_state", ())
    return {name: value for name, value in vars(found).items() if name not in left_out}


def _name(found: Any) -> str:
    return f"{found.__module__}:{found.__qualname__}"


class _Writer:
    """Values become JSON values, and what has an identity becomes a node that they refer to by its number."""

    def __init__(self, paths: dict[int, str], is_ours: Any, find: Any) -> None:
        self._paths, self._is_ours, self._find = paths, is_ours, find
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # so that no two objects have one id
        self.nodes: list[Any] = []
        self.arrays: list[Array] = []
        self.modules: set[str] = set()

    def value(self, found: Any) -> Any:
        kind = type(found)
        if kind in _PLAIN:
            return found
        if isinstance(found, np.generic):
            return ["scalar", found.dtype.str, found.tobytes().hex()]
        if isinstance(found, Enum):
            return ["enum", self._named(kind), self.value(found.value)]
        if kind is tuple:
            return ["tuple", [self.value(part) for part in found]]
        if isinstance(found, tuple) and hasattr(kind, "_make"):
            return ["record", self._named(kind), [self.value(part) for part in found]]
        if kind is bytes:
            return ["bytes", found.hex()]
        if kind is range:
            return ["range", [found.start, found.stop, found.step]]
        if isinstance(found, MethodType):
            return ["method", self.value(found.__self__), found.__name__]
        if isinstance(found, partial):
            return ["partial", *(self.value(part) for part in (found.func, tuple(found.args), dict(found.keywords)))]
        if isinstance(found, (FunctionType, BuiltinFunctionType, type)):
            path = self._paths.get(id(found))
            return ["named", self._named(found)] if path is None else ["made_part", path]
        return ["node", self._node(found)]

    def _named(self, found: Any) -> str:
        name = _name(found)
        try:
            same = self._find(name) is found
        except (ImportError, AttributeError):
            same = False
        if not same:
            raise StateError(f"{name} cannot be found by its name")
        self.modules.add(found.__module__)
        return name

    def _node(self, found: Any) -> int:
        if id(found) in self._numbers:
            return self._numbers[id(found)]
        number = self._numbers[id(found)] = len(self.nodes)
        self._alive.append(found)
        self.nodes.append(None)
        self.nodes[number] = [self._paths.get(id(found)), *self._contents(found)]
        return number

    def _contents(self, found: Any) -> list[Any]:
        kind = type(found)
        if kind in (list, set, deque):
            return [kind.__name__, [self.value(part) for part in found]]
        if kind is dict:
            return ["dict", [[self.value(key), self.value(value)] for key, value in found.items()]]
        if kind is np.ndarray:
            return self._array(found)
        if kind is np.random.Generator:
            name = type(found.bit_generator).__name__
            return ["generator", name, self.value(found.bit_generator.state)]
        if kind is np.random.RandomState:
            return ["random_state", self.value(found.get_state(legacy=False))]
        if self._is_ours(kind):
            name = _name(kind) if id(found) in self._paths else self._named(kind)
            self.modules.add(kind.__module__)
            return ["object", name, {name: self.value(part) for name, part in _state_of(found).items()}]
        raise StateError(f"a {kind.__module__}.{kind.__qualname__} cannot be kept")

    def _array(self, found: Array) -> list[Any]:
        if found.dtype.hasobject:
            raise StateError("an array of objects cannot be kept")
        owner = found.base
        if type(owner) is np.ndarray and owner.flags.owndata:
            start = found.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
            about = [found.dtype.str, list(found.shape), list(found.strides), start, found.flags.writeable]
            return ["view", self._node(owner), about]
        order = sorted(range(found.ndim), key=lambda axis: -abs(found.strides[axis]))
        self.arrays.append(np.ascontiguousarray(found.transpose(order)))
        return ["array", len(self.arrays) - 1, order, found.flags.writeable]


class _Reader:
    """The way back. What was made with the object is filled, everything else is made."""

    def __init__(self, made: dict[str, Any], find: Any, nodes: list[Any], arrays: list[Array]) -> None:
        self._made, self._find, self._nodes, self._arrays = made, find, nodes, arrays
        self._found: dict[int, Any] = {}

    def value(self, kept: Any) -> Any:
        if isinstance(kept, _PLAIN):
            return kept
        kind, *rest = kept
        if kind not in _VALUES:
            raise StateError(f"there is no value of the kind {kind!r}")
        return getattr(self, f"_{kind}")(*rest)

    def node(self, number: int) -> Any:
        if number not in self._found:
            path, kind, *rest = self._nodes[number]
            if kind not in _NODES:
                raise StateError(f"there is no node of the kind {kind!r}")
            getattr(self, f"_fill_{kind}")(number, None if path is None else self._made[path], *rest)
        return self._found[number]

    def _node(self, number: int) -> Any:
        return self.node(number)

    def _scalar(self, kind: str, data: str) -> Any:
        return np.frombuffer(bytes.fromhex(data), kind)[0]

    def _enum(self, name: str, value: Any) -> Any:
        return self._class(name, Enum)(self.value(value))

    def _tuple(self, parts: list[Any]) -> Any:
        return tuple(self.value(part) for part in parts)

    def _record(self, name: str, parts: list[Any]) -> Any:
        return tuple.__new__(self._class(name, tuple), [self.value(part) for part in parts])

    def _bytes(self, data: str) -> Any:
        return bytes.fromhex(data)

    def _range(self, numbers: list[int]) -> Any:
        return range(*numbers)

    def _method(self, owner: Any, name: str) -> Any:
        found = getattr(self.value(owner), name)
        if not isinstance(found, MethodType):
            raise StateError(f"{name} is not a method")
        return found

    def _partial(self, function: Any, args: Any, keywords: Any) -> Any:
        return partial(self.value(function), *self.value(args), **self.value(keywords))

    def _named(self, name: str) -> Any:
        return self._find(name)

    def _made_part(self, path: str) -> Any:
        return self._made[path]

    def _class(self, name: str, base: type) -> Any:
        found = self._find(name)
        if not isinstance(found, type) or not issubclass(found, base):
            raise StateError(f"{name} is not such a class")
        return found

    def _fill_list(self, number: int, made: Any, parts: list[Any]) -> None:
        found = self._found[number] = _same(made, list)
        found[:] = [self.value(part) for part in parts]

    def _fill_set(self, number: int, made: Any, parts: list[Any]) -> None:
        found = self._found[number] = _same(made, set)
        found.clear()
        for part in parts:  # in their order, as far as a set has one
            found.add(self.value(part))

    def _fill_deque(self, number: int, made: Any, parts: list[Any]) -> None:
        found = self._found[number] = _same(made, deque)
        found.clear()
        found.extend(self.value(part) for part in parts)

    def _fill_dict(self, number: int, made: Any, parts: list[Any]) -> None:
        found = self._found[number] = _same(made, dict)
        found.clear()
        found.update((self.value(key), self.value(value)) for key, value in parts)

    def _fill_array(self, number: int, made: Any, which: int, order: list[int], writeable: bool) -> None:
        inverse = sorted(range(len(order)), key=order.__getitem__)
        found = self._arrays[which].copy()
        found = self._found[number] = found if order == inverse == sorted(order) else found.transpose(inverse)
        found.flags.writeable = writeable

    def _fill_view(self, number: int, made: Any, owner: int, about: list[Any]) -> None:
        kind, shape, strides, start, writeable = about
        memory = self.node(owner)
        memory = memory if memory.base is None else memory.base
        found = self._found[number] = np.ndarray(shape, kind, memory, start, strides)
        if not writeable:
            found.flags.writeable = False

    def _fill_generator(self, number: int, made: Any, name: str, state: Any) -> None:
        if made is None:
            if name not in _GENERATORS:
                raise StateError(f"there is no generator {name}")
            made = np.random.Generator(getattr(np.random, name)())
        self._found[number] = made
        made.bit_generator.state = self.value(state)

    def _fill_random_state(self, number: int, made: Any, state: Any) -> None:
        found = self._found[number] = np.random.RandomState() if made is None else made
        found.set_state(self.value(state))

    def _fill_object(self, number: int, made: Any, name: str, parts: dict[str, Any]) -> None:
        found = object.__new__(self._class(name, object)) if made is None else made
        if _name(type(found)) != name:
            raise StateError(f"a {_name(type(found))} in place of a {name}")
        self._found[number] = found
        given = {key: value for key, value in vars(found).items() if key not in _state_of(found)}
        contents = {key: self.value(part) for key, part in parts.items()}
        vars(found).clear()
        vars(found).update(given | contents)


def _same(made: Any, kind: type) -> Any:
    if made is None:
        return kind()
    if type(made) is not kind:
        raise StateError(f"a {type(made).__name__} in place of a {kind.__name__}")
    return made
