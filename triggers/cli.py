"""The command line: a person is a trigger too. Parsing and the boundary of errors; the commands are in `commands/`.

Exit status: 0 every check passes or does not apply · 1 something fails · 2 the call or its input is unusable (one
clear line on stderr) · 3 nothing fails, something is unknown.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

from triggers.usage import UsageError

ROLES = ("intake", "audit", "report", "board", "dead-letter")
FORMATS = ("text", "json", "markdown")


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="telltale",
        description="Audits whether a GPU cluster's telemetry can still be followed from alert to device to Pod to request.",
        epilog="Settings come from the environment (TELLTALE_…); docs/settings.md lists them.",
    )
    top.add_argument("--debug", action="store_true", help="show tracebacks and debug logs")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="play a recorded incident through the real pipeline")
    demo.add_argument("--out", default="demo-output", metavar="DIR", help="where the files go (default: %(default)s)")

    commands.add_parser("run", help="everything in one process: watch, serve, audit, report")

    serve = commands.add_parser("serve", help="one role, as Knative runs it")
    serve.add_argument("role", choices=ROLES)

    audit = commands.add_parser("audit", help="audit now, the live cluster or a bundle")
    audit.add_argument("--bundle", metavar="DIR", help="judge a recorded bundle; no cluster is asked")
    audit.add_argument(
        "--scope", action="append", default=[], metavar="SCOPE", help="cluster, node/NAME, namespace/NAME or Kind/NAMESPACE/NAME"
    )
    audit.add_argument("--check", action="append", default=[], metavar="ID", help="only this check (again for more)")
    audit.add_argument("--format", choices=FORMATS, default="text")

    capture = commands.add_parser("capture", help="write a bundle of the live cluster, secrets masked")
    capture.add_argument("--out", required=True, metavar="DIR")
    capture.add_argument("--scope", default="cluster", metavar="SCOPE")

    replay = commands.add_parser("replay", help="put recorded signals through the triggers and print the audit requests")
    replay.add_argument(
        "files", nargs="+", metavar="FILE", help="CloudEvents, watch events, objects or Alertmanager bodies (JSON, or one a line)"
    )

    checks = commands.add_parser("checks", help="what is checked, and what each code means")
    checks.add_argument("id", nargs="?", metavar="ID", help="a check or a code")

    findings = commands.add_parser("findings", help="what is open")
    findings.add_argument("--all", action="store_true", help="resolved ones too")
    findings.add_argument("--check", metavar="ID")
    findings.add_argument("--format", choices=FORMATS[:2], default="text")

    postmortem = commands.add_parser("postmortem", help="the postmortem stub of an audit")
    postmortem.add_argument("id", metavar="ID")
    postmortem.add_argument("--format", choices=("markdown", "json"), default="markdown")

    letters = commands.add_parser("dead-letters", help="events, audits and messages that came to nothing; replay or drop them")
    letters.add_argument("--replay", action="append", default=[], metavar="ID", help="try again (again for more; `all` for all)")
    letters.add_argument("--drop", action="append", default=[], metavar="ID", help="forget (again for more; `all` for all)")
    letters.add_argument("--format", choices=FORMATS[:2], default="text")

    doctor = commands.add_parser("doctor", help="what can be reached, and what may not be done")
    doctor.add_argument("--format", choices=FORMATS[:2], default="text")
    return top


def collect_rarely() -> None:
    """Look for reference cycles every 100,000 new objects instead of 700.

    The facts of a big cluster are millions of objects without a cycle among them; at Python's default a third of an
    audit's processor time went into looking through them again and again (measured with 10,000 GPUs).
    """
    gc.set_threshold(100_000, 50, 100)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    collect_rarely()
    options = parser().parse_args(arguments)
    try:
        status = _dispatch(options)
        sys.stdout.flush()
        return status
    except UsageError as error:
        if options.debug:
            raise
        print(f"telltale: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader went away (`telltale findings | head`): not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


def _dispatch(options: argparse.Namespace) -> int:
    # Imported here: `telltale checks` should not pay for a Kubernetes client, nor a role's cold start for the demo.
    if options.command == "audit":
        from triggers.commands import audit

        return audit.run(options)
    if options.command in ("run", "serve"):
        from triggers.commands import serve

        return serve.run(options)
    if options.command == "demo":
        from triggers.commands import demo

        return demo.run(options)
    if options.command == "capture":
        from triggers.commands import capture

        return capture.run(options)
    if options.command == "replay":
        from triggers.commands import replay

        return replay.run(options)
    if options.command == "checks":
        from triggers.commands import catalogue

        return catalogue.run(options)
    if options.command == "doctor":
        from triggers.commands import doctor

        return doctor.run(options)
    if options.command == "dead-letters":
        from triggers.commands import letters

        return letters.run(options)
    from triggers.commands import records

    return records.run(options)


if __name__ == "__main__":
    sys.exit(main())
