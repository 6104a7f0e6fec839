"""The pages: Jinja2 templates over stored reports, self-contained (no script, no font, no request to anywhere else).

Findings are grouped, ordered and worded as in chat (`reports/`). Arguments are in the JSON form of the API.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from functions.board import markdown
from functions.reports import fixes, groups, timeline, wording

#: Of one audit, on one page.
FINDINGS_SHOWN = 100
_STYLE = (Path(__file__).parent / "templates" / "board.css").read_text()
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

#: No script runs, nothing is loaded from anywhere, the one style sheet is known by its hash.
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: Said beside the colour, never by it alone.
_SIGN = {"fail": "✕", "unknown": "?", "pass": "✓", "not-applicable": "–", "critical": "‼", "warning": "!", "info": "i"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a list is narrowed to; "" is everything."""

    severity: str = ""
    check: str = ""
    state: str = ""

    def link(self, path: str, **changes: str) -> str:
        """The same list, narrowed otherwise."""
        held = {"severity": self.severity, "check": self.check, "state": self.state} | changes
        query = urlencode({k: v for k, v in held.items() if v})
        return f"{path}?{query}" if query else path


def index(
    cluster: str,
    audits: Sequence[Mapping[str, Any]],
    findings: Sequence[Mapping[str, Any]],
    *,
    more: bool = False,
    drafted: Collection[str] = (),
    titles: Mapping[str, str] | None = None,
) -> str:
    """The first page: what can't be followed now, and the latest audits.

    `more`: there are more findings than these; `drafted`: the audits that have a postmortem stub.
    """
    found = groups.lines(findings, titles)
    first = [min(str(f["first_seen"]) for f in line.findings) for line in found]
    return _render(
        "index.html",
        cluster=cluster,
        here="/",
        audits=audits,
        findings=findings,
        more=more,
        drafted=drafted,
        lines=found,
        first=first,
    )


def audit(
    cluster: str,
    report: Mapping[str, Any],
    chosen: Chosen = Chosen(),
    *,
    start: int = 0,
    drafted: bool = False,
    titles: Mapping[str, str] | None = None,
) -> str:
    """One audit's report. `drafted`: it has a postmortem stub."""
    found = wording.ordered(report["findings"])
    shown = [
        f
        for f in found
        if (not chosen.severity or wording.level(f) == chosen.severity)
        and (not chosen.check or f["code"].partition("/")[0] == chosen.check)
    ]
    following = start + FINDINGS_SHOWN
    return _render(
        "audit.html",
        cluster=cluster,
        here="",
        report=report,
        audit=report["audit"],
        cause=wording.cause(report),
        lines=groups.lines(report["findings"], titles),
        steps="\n".join(fixes.fixes(report["findings"])),
        seen=timeline.observed(report, report["signals"]),
        findings=shown[start:following],
        counts=Counter(map(wording.level, found)),
        checks=list(dict.fromkeys(f["code"].partition("/")[0] for f in found)),
        total=len(shown),
        start=start,
        following=following if following < len(shown) else None,
        chosen=chosen,
        drafted=drafted,
    )


def findings(cluster: str, records: Sequence[Mapping[str, Any]], following: str | None, chosen: Chosen, checks: Sequence[str] = ()) -> str:
    """Findings with their life; `following` is the cursor of the next page."""
    found = wording.ordered(records) if chosen.state != "all" else records  # the resolved are in the order of their end
    return _render("findings.html", cluster=cluster, here="/findings", findings=found, following=following, chosen=chosen, checks=checks)


def finding(cluster: str, record: Mapping[str, Any]) -> str:
    """One finding: what it rests on, and its life."""
    return _render("finding.html", cluster=cluster, here="", f=record)


def text(cluster: str, title: str, body: str, audit: str) -> str:
    """A Markdown document, and the audit that it was made from."""
    return _render("text.html", cluster=cluster, here="", title=title, body=body, audit=audit)


def problem(cluster: str, title: str, what: str) -> str:
    """A page that says what went wrong and where to go on."""
    return _render("problem.html", cluster=cluster, here="", title=title, what=what)


def _badge(name: str) -> Markup:
    return Markup('<span class="badge {0}"><span aria-hidden="true">{1}</span> {0}</span>').format(name, _SIGN[name])


def _time(text: str | None) -> Markup:
    return Markup('<time datetime="{}">{}</time>').format(text, wording.clock(text)) if text else Markup("never")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("functions.board"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {"style": Markup(_STYLE)}
    environment.filters |= {
        "what_happened": wording.what_happened,
        "subject": wording.subject_text,
        "level": wording.level,
        "badge": _badge,
        "time": _time,
        "md": markdown.inline,
        "document": markdown.document,
    }
    return environment


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)
