"""Reads YAML with one declared type per key; errors name the line. Pure.

Types are not guessed: a key named 123 or no is text. Constructs that make a small file expand (aliases) or
ambiguous (duplicate keys) are refused.
"""

from __future__ import annotations

from typing import Any, Final

from jobfeatures.errors import ConfigurationError, ParseError

try:
    import yaml
except ImportError as error:  # reported once the file is configured: PyYAML belongs to an extra
    raise ConfigurationError(
        "web.config_file", "needs PyYAML and bcrypt: pip install 'jobfeatures-exporter[web]'"
    ) from error

MAX_BYTES: Final = 128 * 1024
MAX_DEPTH: Final = 16

# The type of a key's value: str, bool, list (of texts), or a dict of the keys a mapping may have; ANY: all.
Kind = type[str] | type[bool] | type[list[str]] | dict[str, Any]
ANY: Final = "*"


class YamlFile:
    """Reads one file; every method raises ParseError naming line and key, never quoting a secret."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines: dict[str, int] = {}  # by key

    def read(self, content: bytes, kinds: dict[str, Any]) -> dict[str, Any]:
        """Return the file's values by key, each of its type in `kinds`.

        A key without a value has "" if it is of type text, else None.
        """
        root = self._compose(content)
        if root is None or _is_null(root):
            raise ParseError("is empty; if that is intended, write {}", source=self._source)
        found: dict[str, Any] = self._value(root, kinds, "")
        return found

    def fault(self, reason: str, key: str, text: str = "") -> ParseError:
        """Return an error that names a key and its line in the file.

        If the key is missing in the file, the line is that of the section it belongs to.
        """
        line = self._lines.get(key) or self._lines.get(key.rpartition(".")[0], 0)
        return ParseError(reason, source=self._source, line=line, field=key, text=text)

    def _compose(self, content: bytes) -> yaml.Node | None:
        if len(content) > MAX_BYTES:
            raise ParseError(f"is longer than {MAX_BYTES} bytes", source=self._source)
        try:
            text = content.decode("utf-8-sig")
            depth = 0
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_DEPTH:
                    raise ParseError("is nested too deeply", source=self._source, line=_line(event))
                if isinstance(event, yaml.AliasEvent):
                    raise ParseError(
                        "has an alias (*): write the value out", source=self._source, line=_line(event)
                    )
            root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        except UnicodeDecodeError:
            raise ParseError("is not UTF-8", source=self._source) from None
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 0 if mark is None else mark.line + 1
            problem = str(error.problem)
            if problem.startswith("but "):  # it goes on with the sentence of its context
                problem = f"{error.context}, {problem}"
            raise ParseError(f"is not YAML: {problem}", source=self._source, line=line) from None
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # "\UFFFFFFFF" is no character
            position = getattr(error, "position", None)  # of a character that YAML does not allow
            line = 0 if position is None else text.count("\n", 0, position) + 1
            reason = str(error).splitlines()[0]
            raise ParseError(f"is not YAML: {reason}", source=self._source, line=line) from None
        return root

    def _value(self, node: yaml.Node | None, kind: Kind, key: str) -> Any:
        if node is not None:
            self._lines[key] = _line(node)
        given = None if _is_null(node) else node
        if isinstance(kind, dict):
            found = self._mapping(given, kind, key)
            names = found if ANY in kind else kind
            return {
                name: self._value(found.get(name), kind.get(name) or kind[ANY], _join(key, name))
                for name in names
            }
        if given is None:
            return "" if kind is str else None
        if kind is bool:
            text = str(given.value).lower() if given.tag == "tag:yaml.org,2002:bool" else ""
            if text not in yaml.SafeLoader.bool_values:  # an explicit !!bool may tag any value
                raise self.fault("must be true or false", key)
            return yaml.SafeLoader.bool_values[text]
        is_list = kind is not str
        texts = given.value if is_list and isinstance(given, yaml.SequenceNode) else [given]
        if isinstance(given, yaml.SequenceNode) is not is_list or not all(
            isinstance(each, yaml.ScalarNode) for each in texts
        ):
            raise self.fault("must be a list of strings" if is_list else "must be a string", key)
        if any("\0" in each.value for each in texts):
            raise self.fault("must not contain NUL", key)
        return [str(each.value) for each in texts] if is_list else str(given.value)

    def _mapping(self, node: yaml.Node | None, kinds: dict[str, Any], key: str) -> dict[str, yaml.Node]:
        """Return the nodes of a mapping by key. Raises ParseError for unknown and duplicate keys."""
        if node is None:
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.fault("must be a mapping of keys to values", key)
        found: dict[str, yaml.Node] = {}
        for name_node, value in node.value:
            self._lines[key] = _line(name_node)
            if not isinstance(name_node, yaml.ScalarNode):
                raise self.fault("has a key that is not text", key)
            name = str(name_node.value)
            if ANY not in kinds and name not in kinds:
                allowed = ", ".join(sorted(kinds))
                shown = "" if len(name) > 60 else name
                raise self.fault(f"unknown key; allowed are {allowed}", key, shown)
            if name in found:
                raise self.fault("occurs twice", key if ANY in kinds else _join(key, name))
            found[name] = value
        self._lines[key] = _line(node)
        return found


def _is_null(node: yaml.Node | None) -> bool:
    return node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _line(marked: Any) -> int:
    mark = marked.start_mark
    return 0 if mark is None else int(mark.line) + 1
