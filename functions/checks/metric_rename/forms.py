"""Ways in which one value of a label is written: case, numbers, host names, PCI addresses, prefixes, paths.

Each form brings a value to one spelling, or says that it is no value of that kind. What counts as a change of format
is decided where the forms are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

Form = Callable[[str], str | None]

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.I)


def whole(values: Iterable[str]) -> bool:
    return all(re.fullmatch(r"\d+", v) for v in values)


def matched(gone: Iterable[str], fresh: Iterable[str], form: Form) -> dict[str, str]:
    """Old values that have exactly one counterpart of the same normal form."""
    forms: dict[str, list[str]] = {}
    for value in fresh:
        if (key := form(value)) is not None:
            forms.setdefault(key, []).append(value)
    return {v: forms[key][0] for v in sorted(gone) if (key := form(v)) is not None and len(forms.get(key, ())) == 1}


def same_things(a: Collection[str], b: Collection[str]) -> str:
    """In which way two sets of values name the same things though none is written alike; "" if they do not.

    Numbers are left out: 0 and 1 are the values of every second label.
    """
    old, new = set(a) - {""}, set(b) - {""}
    if not old or not new or whole(old):
        return ""
    for why, form in FORMS[1:]:
        if len(matched(old, new, form)) * 2 > min(len(old), len(new)):
            return why
    return ""


def _number(text: str) -> str | None:
    try:
        return repr(float(text))
    except ValueError:
        return None


def _pci(text: str) -> str | None:
    """Drivers print a domain of eight digits, the kernel one of four, lspci none; either case."""
    found = _PCI.fullmatch(text)
    return f"{int(found[1] or '0', 16):x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else None


def _plain(text: str) -> str | None:
    return re.sub(r"[^a-z0-9]", "", text.lower()) or None


def _host(text: str) -> str | None:
    """The first part of a host name, without a port."""
    head = re.split(r"[.:]", text, maxsplit=1)[0]
    return head.lower() if re.fullmatch(r"[A-Za-z][\w-]+", head) else None


def _tail(text: str) -> str | None:
    """The last part of a path, a type or a prefixed id."""
    tail = re.split(r"[/.*:]", text.rstrip("/"))[-1]
    return tail.lower() if len(tail) >= 3 and not tail.isdigit() else None


def _unprefixed(text: str) -> str | None:
    return re.sub(r"^(gpu|mig|nvidia|dev|node)[-_./]?", "", text.lower()) or None


#: The likeliest first: what is the same in a stricter way is not called the same in a looser one.
FORMS: tuple[tuple[str, Form], ...] = (
    ("the same numbers, written differently", _number),
    ("the same PCI addresses, written differently", _pci),
    ("the same values in other case or with other separators", _plain),
    ("the same hosts, with or without a domain", _host),
    ("the same values, with or without a prefix", _unprefixed),
    ("the same values, with or without a path", _tail),
)
