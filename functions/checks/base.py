"""The runner: a check is a pure function whose parameters are its needs.

A parameter that is annotated with a plain type needs that fact: where it is missing the check is not called
and its verdict is unknown. A parameter annotated `Fact[…]` gets the fact itself and deals with both cases.
`policy`, `knowledge`, `windows`, `jobs`, `scope`, `trigger` and `cluster` are settings, always there.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from functions.contract.facts import Facts, Known, Missing
from functions.contract.findings import CheckResult, Judgement, MissingFact, Severity, Subject, Unjudged, Verdict
from functions.contract.text import count_of

log = logging.getLogger(__name__)

SETTINGS = frozenset({"policy", "knowledge", "windows", "jobs", "scope", "trigger", "cluster"})


@dataclass(frozen=True, slots=True)
class Code:
    """One thing a check can find. All texts are required; `example` is what it looks like in the data."""

    id: str
    severity: Severity
    title: str
    why: str
    todo: str
    example: str


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its id is its file name, its documentation section and the first part of its codes."""

    id: str
    title: str
    summary: str
    codes: tuple[Code, ...]
    judge: Callable[..., Judgement]
    #: parameter name -> whether the check needs it (False: it takes the Fact itself)
    needs: Mapping[str, bool] = field(init=False)

    def __post_init__(self) -> None:
        needs: dict[str, bool] = {}
        for name, parameter in inspect.signature(self.judge).parameters.items():
            if name in SETTINGS:
                continue
            if name not in Facts.names():
                raise TypeError(f"{self.id}: no fact is called {name!r}")
            needs[name] = not str(parameter.annotation).startswith("Fact[")
        object.__setattr__(self, "needs", needs)


def run(check: Check, facts: Facts, settings: Mapping[str, Any]) -> CheckResult:
    """Run one check on the facts. Never raises: what goes wrong inside a check is unknown, with the reason."""
    missing = _missing(check, facts)
    if needed := [m for m in missing if check.needs[m.fact] and isinstance(facts.fact(m.fact), Missing)]:
        return CheckResult(check.id, Verdict.UNKNOWN, f"not judged: {needed[0].detail}", missing=missing)
    arguments: dict[str, Any] = {}
    for name in inspect.signature(check.judge).parameters:
        if name == "windows":
            arguments[name] = facts.windows
        elif name == "jobs":
            arguments[name] = facts.jobs
        elif name in SETTINGS:
            arguments[name] = settings[name]
        else:
            fact = facts.fact(name)
            arguments[name] = fact if isinstance(fact, Missing) or not check.needs[name] else fact.value
    try:
        judgement = check.judge(**arguments)
    except Exception as error:  # the runner is one of the two boundaries where anything may arrive
        log.exception("check %s failed", check.id)
        why = f"the check itself failed ({type(error).__name__}: {error})"
        return CheckResult(check.id, Verdict.UNKNOWN, why, unjudged=(Unjudged(Subject(), why),))
    if lost := _lost(check, facts):
        judgement = replace(judgement, unjudged=(*judgement.unjudged, *lost))
    return CheckResult(
        check.id,
        verdict_of(judgement),
        _summary(judgement),
        judgement.judged,
        judgement.unjudged,
        missing,
        judgement.findings,
    )


def _missing(check: Check, facts: Facts) -> tuple[MissingFact, ...]:
    """What is missing of the facts that a check takes, whole facts and parts of them; what it can't do without comes first."""
    found = []
    for name in sorted(check.needs, key=lambda name: not check.needs[name]):
        fact = facts.fact(name)
        parts = (fact,) if isinstance(fact, Missing) else fact.lost
        found += [MissingFact(name, part.why.value, part.detail) for part in parts]
    return tuple(found)


def _lost(check: Check, facts: Facts) -> tuple[Unjudged, ...]:
    """Parts of known facts that could not be read, each told once: what they would have shown is not judged."""
    known = [fact for name in check.needs if isinstance(fact := facts.fact(name), Known)]
    return tuple(dict.fromkeys(Unjudged(Subject(), f"left out: {part.detail} ({part.why})") for fact in known for part in fact.lost))


def verdict_of(judgement: Judgement) -> Verdict:
    """fail where something fails; unknown where something is unknown or unjudged; pass where something was judged."""
    verdicts = {f.verdict for f in judgement.findings}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    if Verdict.UNKNOWN in verdicts or judgement.unjudged:
        return Verdict.UNKNOWN
    return Verdict.PASS if judgement.judged else Verdict.NOT_APPLICABLE


def _summary(judgement: Judgement) -> str:
    failed = sum(f.verdict is Verdict.FAIL for f in judgement.findings)
    unknown = len(judgement.findings) - failed + len(judgement.unjudged)
    parts = [count_of(failed, "finding")] if failed else []
    if unknown:
        parts.append(f"{unknown} unknown")
    if judgement.proven:
        parts.append(judgement.proven)
    return "; ".join(parts) or (f"{judgement.judged} judged" if judgement.judged else "nothing to judge")


def union_of_needs(checks: Iterable[Check]) -> frozenset[str]:
    """The facts that any of the checks takes; what a gathering has to bring."""
    return frozenset(name for check in checks for name in check.needs)
