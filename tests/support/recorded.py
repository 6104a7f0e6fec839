"""A recorded bundle gathered into facts, and judged: what `telltale audit --bundle` does, in two steps."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from functions import wiring
from functions.audit import Standards, judge
from functions.checks import CHECKS
from functions.checks.base import union_of_needs
from functions.contract.facts import Facts, Windows
from functions.contract.findings import Finding, Verdict
from functions.contract.report import AuditReport
from functions.contract.signals import CLUSTER, AuditRequest
from functions.evidence.bundle.reading import Bundle

CASES = sorted(p.parent for p in (Path(__file__).parents[1] / "cases").glob("*/expect.yaml"))

#: Parts of a subject that are only known where Kubernetes is; a finding of the same cause may lack them.
_DERIVED = ("namespace", "pod", "workload", "node")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Facts of a bundle, and what they are judged against."""

    request: AuditRequest
    facts: Facts
    standards: Standards

    @classmethod
    async def read(cls, path: Path) -> Recorded:
        bundle = Bundle.read(path)
        standards = wiring.bundle_standards(bundle, CHECKS)
        request = AuditRequest("case", CLUSTER, bundle.trigger, bundle.baseline)
        facts = await wiring.bundle_gather(bundle, standards)(request, Windows(bundle.baseline, bundle.current), union_of_needs(CHECKS))
        return cls(request, facts, standards)

    def judged(self, facts: Facts | None = None) -> AuditReport:
        """The report on these facts, or on others of the same bundle."""
        report = judge(self.request, facts or self.facts, self.standards)
        for check in report.checks:
            assert "the check itself failed" not in check.summary, (check.id, check.summary)
        return report


Cause = tuple[str, tuple[tuple[str, str], ...]]


def cause(finding: Finding) -> Cause:
    """Code and subject, less everything that another fact adds."""
    return finding.code, tuple(sorted((k, v) for k, v in finding.subject.parts().items() if k not in _DERIVED))


def failures(report: AuditReport) -> dict[Cause, Finding]:
    """Findings that fail, by cause."""
    return {cause(f): f for f in report.findings if f.verdict is Verdict.FAIL}


def cut(text: str) -> str:
    """A text that ends in the middle of a label, a string or a key: what is left of the last line is no line of its own."""
    middle = len(text) // 2
    sample = re.compile(r"^[A-Za-z_:][\w:]*\{[^\n]{8}", re.MULTILINE).search(text, middle)
    return text[: sample.end()] if sample else text[: text.rfind("\n", 0, middle) + 1] + '"cu'
