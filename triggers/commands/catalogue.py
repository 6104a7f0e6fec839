"""`telltale checks [ID]`: the catalogue, from the checks themselves."""

from __future__ import annotations

import argparse
import textwrap

from functions.checks import CHECKS
from triggers.usage import UsageError


def run(options: argparse.Namespace) -> int:
    """Print all checks, one check with its codes, or one code."""
    wanted = options.id
    if wanted is None:
        for check in CHECKS:
            print(f"{check.id:16} {check.title} ({len(check.codes)} codes)")
        print("\n`telltale checks ID` explains a check or a code.")
        return 0
    for check in CHECKS:
        codes = [c for c in check.codes if wanted in (check.id, c.id)]
        if wanted == check.id:
            print(f"{check.id}: {check.title}\n\n{textwrap.fill(check.summary, 100)}\n")
            print(f"needs: {', '.join(n for n, needed in check.needs.items() if needed)}\n")
        for code in codes:
            print(f"{code.id} ({code.severity})\n  {code.title}")
            for title, text in (("why", code.why), ("do", code.todo), ("looks", code.example)):
                print(textwrap.fill(f"{title + ':':7}{text}", 100, initial_indent="  ", subsequent_indent="         "))
            print()
        if codes or wanted == check.id:
            return 0
    raise UsageError(f"no check or code is called {wanted!r}; `telltale checks` lists them")
