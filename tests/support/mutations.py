"""Files spoiled as they come: bytes lost, repeated and inserted, values of the wrong kind, directories and links in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import yaml

#: What stands where something else should.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 3.5, 1e308, float("inf"), float("nan"), "", "x", "NaN", "9" * 400, "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z",
    [], {}, [None], {"a": None}, [[]], {"items": [1]}, "a\nb", "'\"\\{}", -(2**63), 10**30, "12.5.9Gi", {"": ""}, {"x": {"y": {"z": 1}}}, "\x1b[31m",
)  # fmt: skip
TOKENS: tuple[bytes, ...] = (
    b"\x00", b"\xff\xfe", b"\r\n", b"\xef\xbb\xbf", b"NaN", b"+Inf", b"1e999", b"{", b"}", b'"', b"\\", b"#", b"# TARGET ", b'# TARGET job="x"\n',
    b"\n\n", b"\t", b"&a [*a]", b"---\n", b"kind: Pod\n", b"{{", b"'", b"1" * 5000, b"[" * 6000, b"\xf0\x9f\x98\x80", b'le="', b"# EOF\n", b"\x1b[31m",
    b"-", b"0x10", b"\xed\xa0\x80", b"\x80",
)  # fmt: skip


def spoil(root: Path, random: Random) -> list[str]:
    """Spoil up to three files of a bundle, and name them."""
    files = sorted(p for p in root.rglob("*") if p.is_file() and p.name != "expect.yaml")
    chosen = random.sample(files, random.choice([1, 1, 2, 3]))
    for file in chosen:
        lot = random.random()
        if lot < 0.03:
            file.unlink()
            file.mkdir()
        elif lot < 0.05:
            file.unlink()
            file.symlink_to(file)
        elif file.suffix == ".prom" or lot < 0.4 or not _values(file, random):
            _bytes(file, random)
    return [str(file.relative_to(root)) for file in chosen]


def _values(file: Path, random: Random) -> bool:
    """Put wrong values into a document; False where it is none."""
    try:
        text = file.read_text()
        documents = [json.loads(text)] if file.suffix == ".json" else list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (ValueError, yaml.YAMLError):
        return False
    for _ in range(random.randint(1, 4)):
        index = random.randrange(len(documents))
        path = random.choice(list(_paths(documents[index])))
        documents[index] = _put(documents[index], path, random)
    file.write_text(json.dumps(documents[0]) if file.suffix == ".json" else yaml.safe_dump_all(documents))
    return True


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(below, (*path, key))


def _put(document: Any, path: tuple[Any, ...], random: Random) -> Any:
    if not path:
        return deepcopy(random.choice(VALUES))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if isinstance(holder, dict) and random.random() < 0.3:
        lost = holder.pop(path[-1])
        if random.random() < 0.4:
            holder["x"] = lost
    else:
        holder[path[-1]] = deepcopy(random.choice(VALUES))
    return document


def _bytes(file: Path, random: Random) -> None:
    data = file.read_bytes()
    for _ in range(random.randint(1, 4)):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice([1, 1, 3, 20, 200, 5000]))
        lot = random.random()
        if lot < 0.3:
            data = data[:start] + data[end:]
        elif lot < 0.5:
            data = data[:end] + data[start:end] * random.randint(1, 3) + data[end:]
        elif lot < 0.85:
            data = data[:start] + random.choice(TOKENS) + data[start:]
        else:
            data = data[:start] + random.randbytes(end - start) + data[end:]
    file.write_bytes(data)
