"""YAML as it is written, with lines: texts, lists and mappings, and no more of it. Pure.

Values are not guessed at: a key named 123 or no is a text. What makes a small
file large (aliases) or ambiguous (keys that stand twice) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jobfeatures.errors import ConfigurationError, ParseError

try:
    import yaml
except ImportError as error:  # said where somebody asks for it: it belongs to the extra
    raise ConfigurationError(
        "web.config_file", "needs PyYAML and bcrypt: pip install 'jobfeatures-exporter[web]'"
    ) from error

MAX_BYTES: Final = 128 * 1024
MAX_DEPTH: Final = 16

Nodes = Mapping[str, yaml.Node]


class YamlFile:
    """Reads one file; every method raises ParseError naming line and key, and shows no value of a secret."""

    def __init__(self, source: str) -> None:
        self.source = source

    def compose(self, content: bytes) -> yaml.Node:
        """Return the one document of a file."""
        if len(content) > MAX_BYTES:
            raise ParseError(f"is longer than {MAX_BYTES} bytes", source=self.source)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ParseError("is not UTF-8", source=self.source) from None
        try:
            depth = 0
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
                if depth > MAX_DEPTH:
                    raise ParseError("is nested too deeply", source=self.source, line=_line(event))
                if isinstance(event, yaml.AliasEvent):
                    raise ParseError(
                        "has an alias (*): write the value out", source=self.source, line=_line(event)
                    )
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = 0 if mark is None else mark.line + 1
            raise ParseError(f"is not YAML: {error.problem}", source=self.source, line=line) from None
        except (yaml.YAMLError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ParseError(f"is not YAML: {reason}", source=self.source) from None
        if root is None or is_null(root):
            raise ParseError("is empty; {} asks for nothing on purpose", source=self.source)
        return root

    def fault(self, reason: str, key: str, node: yaml.Node | None = None, text: str = "") -> ParseError:
        """Return an error that names the line of a node and a key."""
        return ParseError(
            reason, source=self.source, line=0 if node is None else _line(node), field=key, text=text
        )

    def mapping(
        self, node: yaml.Node | None, key: str, known: set[str] | None = None
    ) -> dict[str, yaml.Node]:
        """Return the values of a mapping by key; of an absent one nothing; `known` keys only."""
        if node is None or is_null(node):
            return {}
        if not isinstance(node, yaml.MappingNode):
            raise self.fault("must be a mapping of keys to values", key, node)
        found: dict[str, yaml.Node] = {}
        for name_node, value in node.value:
            if not isinstance(name_node, yaml.ScalarNode):
                raise self.fault("has a key that is no text", key, name_node)
            name = str(name_node.value)
            where = f"{key}.{name}" if key else name
            if known is not None and name not in known:
                allowed = ", ".join(sorted(known))
                raise self.fault(
                    f"there is no such key here, only {allowed}",
                    key,
                    name_node,
                    "" if len(name) > 60 else name,
                )
            if name in found:
                raise self.fault("stands twice", where if known is not None else key, name_node)
            found[name] = value
        return found

    def text(self, nodes: Nodes, name: str, key: str) -> str:
        """Return a text, empty where there is none."""
        node = nodes.get(name)
        if node is None or is_null(node):
            return ""
        if not isinstance(node, yaml.ScalarNode):
            raise self.fault("must be a text", f"{key}.{name}", node)
        if "\0" in node.value:
            raise self.fault("must not hold NUL", f"{key}.{name}", node)
        return str(node.value)

    def boolean(self, nodes: Nodes, name: str, key: str, default: bool) -> bool:
        """Return true or false, `default` where there is neither."""
        node = nodes.get(name)
        if node is None or is_null(node):
            return default
        if node.tag != "tag:yaml.org,2002:bool":
            raise self.fault("must be true or false", f"{key}.{name}", node)
        return node.value.lower() in ("true", "yes", "on")

    def texts(self, nodes: Nodes, name: str, key: str) -> list[str] | None:
        """Return a list of texts, None where there is none."""
        node = nodes.get(name)
        if node is None or is_null(node):
            return None
        if not isinstance(node, yaml.SequenceNode) or not all(
            isinstance(each, yaml.ScalarNode) for each in node.value
        ):
            raise self.fault("must be a list of texts", f"{key}.{name}", node)
        return [str(each.value) for each in node.value]


def is_null(node: Any) -> bool:
    """Tell whether nothing stands at a key."""
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _line(marked: Any) -> int:
    mark = marked.start_mark
    return 0 if mark is None else int(mark.line) + 1
