"""The files of a bundle, read so that nothing in them can hang, crash or flood the reader.

A bundle may come attached to a bug report: broken, cut off, of the wrong encoding, or made to hurt (aliases that
multiply, links that lead out of the directory or in circles, pipes in place of files). What is unusable becomes a
`Problem` that names file and line; only the caller decides whether the audit can go on without it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

#: Bytes of one file that are read; more is refused, since nothing that kubectl or curl prints for a cluster is larger.
LARGEST_FILE = 1 << 30
#: Values in one document after aliases are followed.
MOST_VALUES = 20_000_000
DEEPEST = 200
MOST_MERGED = 100_000


class BundleError(Exception):
    """The bundle cannot be judged at all. The message is one line: file, line where there is one, and why."""


class Unreadable(ValueError):
    """One file that cannot be read. `line` is 0 where no line is to blame."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of the bundle that was left out."""

    #: relative to the bundle
    path: str
    line: int
    detail: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.detail}" if self.line else f"{self.path}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Text:
    """A file that another module reads (a rule file, a dashboard, a trace)."""

    #: relative to the bundle
    path: str
    text: str


def files(root: Path, folder: str, endings: tuple[str, ...], problems: list[Problem]) -> Iterator[str]:
    """Paths, relative to the bundle, of the files under a folder (none where there is no such folder), sorted.

    Directories that are links are not entered: they can lead in circles.
    """
    found: list[str] = []
    if not os.path.lexists(root / folder):
        return iter(())

    def refused(error: OSError) -> None:
        problems.append(Problem(relative(root, error.filename or folder), 0, f"can't be listed: {_reason(error)}"))

    for here, folders, names in os.walk(root / folder, onerror=refused):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        found += [relative(root, os.path.join(here, name)) for name in names if name.lower().endswith(endings) and not name.startswith(".")]
        for link in [f for f in folders if os.path.islink(os.path.join(here, f))]:
            problems.append(Problem(relative(root, os.path.join(here, link)), 0, "a directory that is a link is not read"))
    return iter(sorted(found))


def relative(root: Path, path: str | os.PathLike[str]) -> str:
    return os.path.relpath(path, root).replace(os.sep, "/").encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_bytes(root: Path, path: str) -> bytes:
    """The bytes of one file. Raises Unreadable."""
    full = root / path
    try:
        real = os.path.realpath(full, strict=True)
        if not Path(real).is_relative_to(os.path.realpath(root)):
            raise Unreadable("a link that leads out of the bundle is not followed")
        with open(real, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("not a regular file")
            if status.st_size > LARGEST_FILE:
                raise Unreadable(f"{status.st_size} bytes are too many (at most {LARGEST_FILE})")
            return file.read()
    except OSError as error:
        raise Unreadable(f"can't be read: {_reason(error)}") from None


def read_text(root: Path, path: str) -> str:
    """The text of one file: UTF-8, or UTF-16 with a byte order mark. Raises Unreadable."""
    data = read_bytes(root, path)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what a shell on Windows writes
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            raise Unreadable("not valid UTF-16") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(
            "not UTF-8 text" + (" (gzip?)" if data[:2] == b"\x1f\x8b" else ""), data.count(b"\n", 0, error.start) + 1
        ) from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


class _Loader(yaml.CSafeLoader):
    """Plain data, the way Kubernetes' own tools read it: times stay texts, and so does 12:30:45."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_MERGED:
            raise yaml.constructor.ConstructorError(None, None, "merge keys multiply beyond all bounds", node.start_mark)


_INT = re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|\.[0-9][0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_REPLACED = {"tag:yaml.org,2002:int": _INT, "tag:yaml.org,2002:float": _FLOAT}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, _REPLACED.get(tag, pattern)) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def yaml_lines(text: str) -> tuple[dict[tuple[str, ...], int], int]:
    """Where each key of a small YAML file stands: path of keys -> line; and the line of the first repeated key, else 0.

    For files that people write: of two equal keys the loader silently takes the last.
    """
    lines: dict[tuple[str, ...], int] = {}
    repeated = 0
    stack: list[tuple[tuple[str, ...], yaml.Node]] = []
    if node := yaml.compose(text, Loader=yaml.CSafeLoader):
        stack.append(((), node))
    while stack and len(lines) < 100_000:
        path, node = stack.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                at = (*path, str(key.value))
                if at in lines and not repeated:
                    repeated = key.start_mark.line + 1
                lines.setdefault(at, key.start_mark.line + 1)
                stack.append((at, value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                at = (*path, str(index))
                lines.setdefault(at, value.start_mark.line + 1)
                stack.append((at, value))
    return lines, repeated


def yaml_documents(text: str) -> list[Any]:
    """All documents of a YAML text. Raises Unreadable with the line."""
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(_one_line(f"not YAML: {error.problem or error.context}"), mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # ReaderError; a number or text that can't be constructed
        raise Unreadable(_one_line(f"not YAML: {error}"), _line_of(text, error)) from None
    except (RecursionError, TypeError, AttributeError, LookupError) as error:  # a tag whose value is not of that type
        raise Unreadable(_one_line(f"not YAML that can be used: {error}")) from None
    for document in documents:
        bound(document)
    return documents


def json_document(data: str | bytes) -> Any:
    """A JSON text. Raises Unreadable with the line."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg}", error.lineno if error.pos else 0) from None


def bound(document: Any) -> None:
    """Refuse data that aliases make cyclic, or larger than memory when it is walked. Raises Unreadable."""
    sizes: dict[int, tuple[int, int]] = {}
    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(document, False)]
    while stack:
        value, done = stack.pop()
        children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
        if children is None:
            continue
        key = id(value)
        if not done:
            if key in sizes:
                continue
            if key in open_:
                raise Unreadable("an alias that contains itself")
            open_.add(key)
            stack.append((value, True))
            stack += [(child, False) for child in children if isinstance(child, dict | list)]
            continue
        open_.discard(key)
        below = [sizes.get(id(child), (1, 0)) for child in children]
        size, depth = 1 + sum(s for s, _ in below), 1 + max((d for _, d in below), default=0)
        if size > MOST_VALUES:
            raise Unreadable("aliases multiply beyond all bounds")
        if depth > DEEPEST:
            raise Unreadable(f"nested deeper than {DEEPEST} levels")
        sizes[key] = (size, depth)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def _line_of(text: str, error: Exception) -> int:
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 0
