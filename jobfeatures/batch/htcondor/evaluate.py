"""Evaluates the expressions in ads, if HTCondor's own library is installed (extra: htcondor).

Users write expressions into their jobs' ads. If each attribute refers twice to the next one, a hundred lines
take years to evaluate. So an expression sees only attributes that are literals; others are undefined for it.
It may have at most `MAX_CHARACTERS`. Ads within expressions and eval() can crash the library before 25.14: so
only `FUNCTIONS` are allowed, and an expression with an ad, a comment or a quoted name has no value.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from typing import Any

from jobfeatures.batch.htcondor.fields import Evaluate
from jobfeatures.formats.classad.ad import MAX_INTEGER, MIN_INTEGER, ClassAd, Expression, Special, Value

MAX_CHARACTERS = 1000
FUNCTIONS = re.compile(
    "abs|ceiling|floor|ifthenelse|int|isboolean|iserror|isinteger|isreal|isstring|isundefined|max|member|min|pow"
    "|quantize|real|round|size|strcat|strcmp|stricmp|string|stringlistmember|substr|tolower|toupper",
    re.IGNORECASE,
)
_LIBRARY = "classad2"
_WANTED = "jobfeatures_wanted"
_NAMES = re.compile(
    r'"(?:[^"\\]|\\.)*"'  # a string
    r"|(?P<of>[A-Za-z_]\w*\.)?(?P<name>[A-Za-z_]\w*)(?P<call>\s*\()?"
    # ads, quoted names, comments, which could hide others; integers that may overflow: the library gives 0
    r"|(?P<refused>[\['\"]|/[/*]|[0-9]{19,})",
    re.ASCII,
)


@functools.cache
def find_evaluator() -> Evaluate | None:
    """Return a function that evaluates an ad's expressions; None if HTCondor's library cannot be loaded."""
    try:
        library = importlib.import_module(_LIBRARY)
    except (ImportError, OSError):
        return None
    return functools.partial(_evaluate, library)


def _evaluate(library: Any, expression: Expression, ad: ClassAd) -> Value:
    if len(expression.text) > MAX_CHARACTERS:
        return Special.UNDEFINED
    names: set[str] = set()
    refused = False

    def own(match: re.Match[str]) -> str:
        """Collect references to the ad's own attributes, ``A`` or ``MY.A``, but not to TARGET's."""
        nonlocal refused
        if match["refused"] or (match["call"] and (match["of"] or not FUNCTIONS.fullmatch(match["name"]))):
            refused = True
        elif match["name"] and not match["call"] and (match["of"] is None or match["of"].lower() == "my."):
            names.add(match["name"])
            return match["name"]
        return match[0]

    text = _NAMES.sub(own, expression.text)
    if refused:
        return Special.UNDEFINED
    try:
        scope = library.ClassAd(f"[ {_WANTED} = {text} ]")
        if len(scope) != 1:  # a semicolon ended the expression and began another attribute
            return Special.UNDEFINED
        for name in names:
            value = ad.value(name)
            if not isinstance(value, Special | Expression):
                scope[name] = value
        return _plain(scope.eval(_WANTED))
    except Exception:  # noqa: BLE001  # whatever the error, the value is unknown
        return Special.UNDEFINED


def _plain(value: object) -> Value:
    if isinstance(value, bool | str):
        return value
    if type(value) is int and MIN_INTEGER <= value <= MAX_INTEGER:  # not the library's IntEnums
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return Special.UNDEFINED
