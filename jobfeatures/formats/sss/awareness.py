"""Decides how to treat parts of a job object that are not understood, by its awareness policy. Pure.

Source: SSS Job Object Specification 3.1.0, section 9.0. An element or an attribute is not understood if the
vocabulary does not have it, or not at this place. Neither is an attribute value that the specification does
not list, on an element whose value is used. The awarenessPolicy attribute of the element itself or of its
nearest ancestor decides: Reject (the default), Warn or Ignore. Under Warn and Ignore an unknown element is
removed, an unknown attribute is ignored, and an element with an unknown attribute value is removed as well,
since its content cannot be interpreted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from jobfeatures.errors import ParseError, Rejected, shown
from jobfeatures.formats.sss.values import is_understood, refuse_text
from jobfeatures.formats.sss.vocabulary import AWARENESS_POLICY, CONTENT, VALUES, Slot, Type
from jobfeatures.formats.sss.xml import Element, reason_at, shown_name

REJECT: Final = "Reject"
Warn = Callable[[Rejected], None]

_NOTHING: Final[Mapping[str, Slot]] = {}


def policy_of(element: Element, inherited: str = REJECT) -> str:
    """Return an element's awareness policy: its own, else `inherited`.

    Raises ParseError for a policy that does not exist.
    """
    policy = element.attributes.get(AWARENESS_POLICY, inherited)
    if policy not in VALUES[AWARENESS_POLICY]:
        raise ParseError(
            reason_at(element, "not Reject, Warn or Ignore"),
            line=element.line,
            field=f"{element.name}@{AWARENESS_POLICY}",
            text=policy,
        )
    return policy


def understood(element: Element, slot: Slot, inherited: str, warn: Warn) -> Element | None:
    """Return an element without the parts that are not understood, or None if it has to be removed.

    `slot` is the element's place in the vocabulary, `inherited` the policy of the enclosing element. `warn`
    is called for each part that is skipped under the policy Warn.

    Raises ParseError, naming the part, for a part that the policy Reject rejects, and for text where only
    elements are allowed.
    """
    policy = policy_of(element, inherited)
    if element.attributes and not _understands_attributes(element, slot, policy, warn):
        return None
    if not element.children:
        return element  # text in a container without children is a reference, e.g. section 5.2
    content = _NOTHING
    if slot.term.type is Type.CONTAINER:
        content = CONTENT[element.name]
        refuse_text(element)
    children = [
        kept
        for child in element.children
        if (kept := understood_child(child, content, policy, warn)) is not None
    ]
    if all(map(operator.is_, children, element.children)) and len(children) == len(element.children):
        return element
    return replace(element, children=tuple(children))


def understood_child(child: Element, content: Mapping[str, Slot], policy: str, warn: Warn) -> Element | None:
    """Return a child element without the parts that are not understood, or None if it has to be removed.

    `content` holds the elements that its parent may have, by name; `policy` is the parent's awareness policy.
    `warn` and exceptions are as in `understood`.
    """
    slot = content.get(child.name)
    if slot is not None:
        return understood(child, slot, policy, warn)
    _pass_over(child, policy, warn)
    return None


def _pass_over(element: Element, inherited: str, warn: Warn) -> None:
    """Skip an unknown element, if its policy and those of all elements inside allow it."""
    policy = policy_of(element, inherited)
    _judge("unknown element here", element, element.name, "", policy, warn)
    for child in element.children:
        _pass_over(child, policy, warn)


def _understands_attributes(element: Element, slot: Slot, policy: str, warn: Warn) -> bool:
    understands = True
    for name, value in element.attributes.items():
        field = f"{element.name}@{name}"
        if name not in slot.attributes:
            _judge("unknown attribute here", element, field, value, policy, warn)
        elif not is_understood(element.name, name, value):
            _judge("unknown value of the attribute", element, field, value, policy, warn)
            understands = False
    return understands


def _judge(reason: str, element: Element, field: str, text: str, policy: str, warn: Warn) -> None:
    reason = reason_at(element, reason)
    if policy == REJECT:
        raise ParseError(reason, line=element.line, field=shown_name(field), text=text)
    if policy == "Warn":
        warn(Rejected("", f"{reason}; ignored", element.line, shown_name(field), shown(text) if text else ""))
