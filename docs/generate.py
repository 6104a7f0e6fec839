"""Writes the parts of docs/ that are generated from the code: the check catalogue, the settings, the policy.

python -m docs.generate           writes them
python -m docs.generate --check   exits 1 and names them where they differ from the code
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

HERE = Path(__file__).parent


def checks() -> str:
    from functions.checks import CHECKS

    lines = ["# Checks", "", "Generated from the checks themselves by `make docs`; `telltale checks ID` prints the same.", ""]
    for check in CHECKS:
        lines += [f"## {check.id}", "", f"**{check.title}.** {check.summary}", ""]
        needs = [f"`{name}`" for name, needed in check.needs.items() if needed]
        takes = [f"`{name}`" for name, needed in check.needs.items() if not needed]
        lines += [f"Needs {', '.join(needs) or 'nothing'}; without them its verdict is unknown."]
        if takes:
            lines += [f"Takes {', '.join(takes)} where they can be had."]
        lines.append("")
        for code in check.codes:
            lines += [
                f"### {code.id}",
                "",
                f"{code.title} ({code.severity}).",
                "",
                f"- **Why it matters:** {code.why}",
                f"- **What to do:** {code.todo}",
                f"- **Example:** {code.example}",
                "",
            ]
    return "\n".join(lines)


def settings() -> str:
    from functions.contract.policy import Policy
    from functions.settings import FOREIGN, Settings, variable_of

    lines = ["# Settings", "", "Generated from the models that read them by `make docs`.", "", "## Environment", ""]
    lines += ["`X_FILE` names a file that holds the value of `X`, for secrets.", "", "| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, "", ()) else f"`{field.default}`"
        note = " (set by others)" if name in FOREIGN else ""
        lines.append(f"| `{variable_of(name)}` | {default} | {field.description}{note} |")
    lines += ["", "## Policy file", "", "YAML; every key is optional. A key that is not listed is refused.", ""]
    lines += ["| key | type | default | meaning |", "|---|---|---|---|", *_policy_rows(Policy, "")]
    return "\n".join([*lines, ""])


def _policy_rows(model: type[BaseModel], prefix: str) -> Iterable[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _policy_rows(kind, f"{prefix}{name}.")
            continue
        default = field.get_default(call_default_factory=True)
        shown = "" if default in (None, (), {}) else f"`{list(default) if isinstance(default, tuple) else default}`"
        yield f"| `{prefix}{name}` | {_type_name(kind)} | {shown} | {field.description} |"


def _type_name(kind: Any) -> str:
    origin = typing.get_origin(kind)
    arguments = [a for a in typing.get_args(kind) if a is not type(None) and a is not Ellipsis]
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"map to {_type_name(arguments[1])}"
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_type_name, arguments))
    return {"str": "text", "float": "number", "int": "whole number", "bool": "true or false"}.get(kind.__name__, kind.__name__)


PAGES = {"checks.md": checks, "settings.md": settings}


def main(arguments: list[str]) -> int:
    stale = []
    for name, page in PAGES.items():
        path = HERE / name
        text = page().rstrip() + "\n"
        if "--check" in arguments:
            if not path.exists() or path.read_text() != text:
                stale.append(name)
        else:
            path.write_text(text)
    for name in stale:
        print(f"docs/{name} is not what the code says; run `make docs`", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
