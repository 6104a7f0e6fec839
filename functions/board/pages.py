"""The pages: Jinja2 templates over stored reports, self-contained (no script, no font, no request to anywhere else)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from functions.reports import wording

#: Everything comes from this server, and no script runs.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("functions.board"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["what_happened"] = wording.what_happened
    environment.filters["subject"] = wording.subject_text
    return environment


def index(cluster: str, audits: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]) -> str:
    """The first page: what is open, and the latest audits. Arguments are in the JSON form of the API."""
    return _render("index.html", cluster=cluster, audits=audits, findings=findings)


def audit(cluster: str, report: Mapping[str, Any]) -> str:
    """One audit's report."""
    return _render("audit.html", cluster=cluster, report=report, audit=report["audit"])


def findings(cluster: str, records: Sequence[Mapping[str, Any]], following: str | None) -> str:
    """Findings with their life; `following` is the cursor of the next page."""
    return _render("findings.html", cluster=cluster, findings=records, following=following)


def text(cluster: str, title: str, body: str) -> str:
    """A Markdown document as it was posted."""
    return _render("text.html", cluster=cluster, title=title, body=body)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)
