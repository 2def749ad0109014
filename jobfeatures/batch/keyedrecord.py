"""Base class for records that a command prints as keys with texts, such as ``JobId=12``. Pure.

A subclass of `KeyedRecord` declares each attribute by `key`, `key_within` or `required_key`, with the names
of the keys in the command's output and the function that parses their text. Texts are parsed in the order of
these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Generic, TypeVar, overload

from jobfeatures.batch.basics import Note, Texts
from jobfeatures.errors import ParseError, Rejected

T = TypeVar("T")
# Names, parser, whether it is within, words for nothing: a tuple, as the walk takes half of the time.
Step = tuple[tuple[str, ...], Callable[..., Any], bool, Collection[str]]


class RecordKey(Generic[T]):
    """An attribute of a `KeyedRecord`: the parsed text of the first of its keys that has a valid one."""

    def __init__(
        self, parse: Callable[..., Any], *names: str, is_within: bool = False, is_required: bool = False
    ) -> None:
        self.names = names
        self._parse, self._is_within, self._is_required = parse, is_within, is_required

    def step(self, nothing: Collection[str]) -> Step:
        """Return the key names, the parser and its options, as the tuple that `KeyedRecord` reads them from.

        `nothing` are the texts by which the command says that there is no value.
        """
        return self.names, self._parse, self._is_within, () if self._is_required else nothing

    @overload
    def __get__(self, record: None, owner: type[KeyedRecord]) -> RecordKey[T]: ...
    @overload
    def __get__(self, record: KeyedRecord, owner: type[KeyedRecord]) -> T: ...
    def __get__(self, record: KeyedRecord | None, owner: type[KeyedRecord]) -> Any:
        if record is None:
            return self
        raise AttributeError(
            "not read yet: its key is declared later"
        )  # once it is, the record's own attribute counts


def key(
    parse: Callable[[str], T | None], *names: str, when: Callable[[Any], bool] | None = None
) -> RecordKey[T | None]:
    """Declare an attribute of a `KeyedRecord`: the first of the keys `names` that is set, parsed by `parse`.

    It is None if none is set. `when` gets the record, of which the attributes declared before are already
    set: if it returns False, the attribute is None.
    """
    if when is None:
        return RecordKey(parse, *names)
    return key_within(lambda record, text: parse(text) if when(record) else None, *names)


def key_within(parse: Callable[[Any, str], T | None], *names: str) -> RecordKey[T | None]:
    """Declare an attribute as `key` does, but with a parser of two arguments: the record and the text.

    The attributes declared before are already set in the record.
    """
    return RecordKey(parse, *names, is_within=True)


def required_key(parse: Callable[[str], T], name: str) -> RecordKey[T]:
    """Declare an attribute of a `KeyedRecord` whose text is always parsed: "" if the key `name` is missing.

    Texts that otherwise mean "no value" are parsed as well.
    """
    return RecordKey(parse, name, is_required=True)


class KeyedRecord(Texts):
    """One record that a command prints as keys with texts; subclasses declare its attributes.

    `source` is the command's name, `nothing` holds the texts that it prints for "no value", and `names` are
    the keys of all attributes, in the order in which they are declared.
    """

    source: ClassVar[str]
    nothing: ClassVar[Collection[str]] = frozenset({""})
    names: ClassVar[tuple[str, ...]] = ()  # of all keys, in the order in which they were declared
    _steps: ClassVar[tuple[tuple[str, Step], ...]] = ()
    _shared: ClassVar[dict[type[Any], list[str]]]

    def __init_subclass__(cls) -> None:
        keys = {attribute: each for attribute, each in vars(cls).items() if isinstance(each, RecordKey)}
        names = (name for each in keys.values() for name in each.names)
        cls.names = tuple(dict.fromkeys((*cls.names, *names)))
        cls._steps = (*cls._steps, *((attribute, each.step(cls.nothing)) for attribute, each in keys.items()))
        cls._shared = {}

    def __init__(self, values: Mapping[str, str], note: Note | None = None, *, about: str = "") -> None:
        """Parse `values`: a malformed one is None, reported to `note`; without `note` raise ParseError."""
        self.values, self._source, self._nothing = values, self.source, self.nothing
        self._note = note or _refuse
        self._about = about and f" ({about})"
        found = self.__dict__
        for attribute, (names, parse, is_within, nothing) in self._steps:
            found[attribute] = None
            for name in names:
                if (text := values.get(name, "")) in nothing:
                    continue
                try:
                    found[attribute] = parse(self, text) if is_within else parse(text)
                except ParseError as error:
                    self.reject(error, name, text)
                else:
                    break

    def fields(self, kind: type[Any]) -> dict[str, Any]:
        """Return, by name, the record's attributes that are also fields of the dataclass `kind`.

        They are arguments for making an instance of it.
        """
        if kind not in self._shared:
            self._shared[kind] = [name for name, _ in self._steps if name in kind.__dataclass_fields__]
        mine = self.__dict__
        return {name: mine[name] for name in self._shared[kind]}


def _refuse(problem: Rejected) -> None:
    raise problem.as_error()
