"""Read a small YAML file of keys: values as written, each with its line."""

from pathlib import Path

import yaml

FILE_BYTES_MAX = 1 << 20


Entry = tuple[str, object, int]
"""Key, value and line. Texts stay as written (`on` is no bool); None: there is no value."""


def read_mapping(path: Path) -> list[Entry]:
    """Read every key, also a repeated one. The ValueError says what is wrong."""
    return [(_text(key), _value(value), _line(key)) for key, value in _pairs(path)]


def read_sections(path: Path) -> list[Entry]:
    """As read_mapping, but a mapping below a key is a tuple of entries."""
    return [(_text(key), _section(value), _line(key)) for key, value in _pairs(path)]


def _pairs(path: Path) -> list[tuple[yaml.Node, yaml.Node]]:
    try:
        root = _compose(path)
    except OSError as error:
        raise ValueError(error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ValueError(f"line {line}: not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise ValueError("must be a mapping: `key: value` on each line")
    return list(root.value)


def _compose(path: Path) -> yaml.Node | None:
    with path.open("rb") as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ValueError("larger than 1 MiB")
    return yaml.compose(content.decode(), Loader=yaml.SafeLoader)


def _section(node: yaml.Node) -> object:
    if not isinstance(node, yaml.MappingNode):
        return _value(node)
    return tuple((_text(key), _value(value), _line(key)) for key, value in node.value)


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _value(node: yaml.Node) -> object:
    if isinstance(node, yaml.SequenceNode):
        return [_text(part) for part in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_text(key): _text(value) for key, value in node.value}
    return None if node.tag == "tag:yaml.org,2002:null" else _text(node)


def _text(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""
