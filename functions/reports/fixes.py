"""What to change: the rewritten expressions once each, then one hint a kind of fault; never the same thing twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from functions.reports.wording import FindingDict, code, counted, listed, ordered, prose

_RULES_SHOWN = 6
_HINTS_SHOWN = 5
_EXPR = 400
#: Codes whose whole remedy is to change what uses a name; where every user has its new expression, that is said already.
_REWRITTEN = frozenset(
    {
        "metric-rename/renamed",
        "metric-rename/label-renamed",
        "metric-rename/unit-changed",
        "metric-rename/rule-dead",
        "metric-rename/dashboard-dead",
        "metric-rename/grouping-collapsed",
    }
)
_RENAMES = frozenset({"metric-rename/renamed", "metric-rename/label-renamed"})


def fixes(findings: Iterable[FindingDict]) -> list[str]:
    """Numbered Markdown lines, the gravest first; expressions that belong to a step are indented under it."""
    findings = ordered(f for f in findings if f["verdict"] == "fail")
    steps = [*_rules(findings), *_dashboards(findings), *_hints(findings), *_idle(findings)]
    return [f"{number}. {text}" for number, text in enumerate(steps, 1)]


def _suggested(findings: Sequence[FindingDict], kinds: Sequence[str]) -> dict[tuple[str, str], str]:
    """(name, expression now) -> what to load instead, each once."""
    found: dict[tuple[str, str], str] = {}
    for impact in (i for f in findings for i in f["impact"]):
        if impact["kind"] in kinds and impact.get("suggested"):
            found.setdefault((str(impact["name"]), str(impact.get("expr", ""))), str(impact["suggested"]))
    return found


def _rules(findings: Sequence[FindingDict]) -> Iterable[str]:
    # alerts first: they are what wakes people
    alerts = _suggested(findings, ["alert"])
    found = alerts | {k: v for k, v in _suggested(findings, ["recording-rule"]).items() if k not in alerts}
    if not found:
        return
    shown = [f"   - {code(name)}: {code(new, _EXPR)}" for (name, _), new in list(found.items())[:_RULES_SHOWN]]
    more = len(found) - len(shown)
    shown += [f"   - … and {more} more in the whole report"] if more > 0 else []
    what = counted(len(found), "Load this expression:", "Load these {n} expressions:")
    yield "\n".join([what, *shown])


def _dashboards(findings: Sequence[FindingDict]) -> Iterable[str]:
    found = _suggested(findings, ["dashboard"])
    if not found:
        return
    names = listed([code(name) for name, _ in found], 4)
    (_, old), new = next(iter(found.items()))
    queries = counted(len(found), "Change 1 query", "Change {n} queries")
    boards = "dashboard" if len({name for name, _ in found}) == 1 else "dashboards"
    yield f"{queries} of {boards} {names}{', for instance' if len(found) > 1 else ':'} {code(old, _EXPR)} to {code(new, _EXPR)}."


def _covered(finding: FindingDict) -> bool:
    """Whether the rewritten expressions say all of it."""
    return finding["code"] in _REWRITTEN and all(i.get("suggested") for i in finding["impact"])


def _hints(findings: Sequence[FindingDict]) -> Iterable[str]:
    groups: dict[str, list[FindingDict]] = {}
    for finding in findings:
        if not _covered(finding):
            groups.setdefault(finding["code"], []).append(finding)
    said: set[str] = set()
    steps = []
    for name, members in groups.items():
        hints = list(dict.fromkeys(str(f["hint"]) for f in members if f["hint"] and f["hint"] not in said))
        said.update(hints)
        if hints:
            more = (
                f" {counted(len(hints) - 1, '1 more such place has', '{n} more such places have')} a hint of its own." if hints[1:] else ""
            )
            steps.append(f"{prose(hints[0], 900)}{more} (`{name}`)")
    yield from steps[:_HINTS_SHOWN]
    if len(steps) > _HINTS_SHOWN:
        yield f"{len(steps) - _HINTS_SHOWN} more kinds of fault have hints in the whole report."


def _idle(findings: Sequence[FindingDict]) -> Iterable[str]:
    """Renames that nothing in use depends on: no work, and said so."""
    idle: list[Mapping[str, object]] = [f for f in findings if f["code"] in _RENAMES and not f["impact"]]
    if idle:
        rest = len(idle) < sum(f["code"] in _RENAMES for f in findings)
        what = counted(len(idle), "1 rename", "{n} renames")
        yield f"Nothing that was seen uses the {'other ' if rest else ''}{what}: the old names and the new ones are in the whole report."
