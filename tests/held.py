"""How much an object holds on to, for tests that nothing grows: all that can be reached from it, counted."""

from __future__ import annotations

import gc
import logging
import types
from typing import Any

SHARED = (type, types.ModuleType, types.CodeType, types.BuiltinFunctionType, logging.Logger)


def count_held(*things: Any) -> int:
    """Return the number of objects that these hold."""
    return len(things_held(*things))


def things_held(*things: Any) -> list[Any]:
    """Return all that these hold, themselves included, without modules, classes and their like."""
    found: dict[int, Any] = {}
    waiting = list(things)
    while waiting:
        each = waiting.pop()
        if id(each) in found or isinstance(each, SHARED):
            continue
        found[id(each)] = each
        if isinstance(each, types.FunctionType):  # not the module that it is in
            waiting += [each.__closure__, each.__defaults__, each.__kwdefaults__]
        elif isinstance(each, dict):  # whose keys the collector skips where all are texts
            waiting += [*each.keys(), *each.values()]
        else:
            waiting += gc.get_referents(each)
    return list(found.values())
