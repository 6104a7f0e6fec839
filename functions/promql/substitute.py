"""A dashboard's query as PromQL that any parser takes: what `read_grafana` reads, in words."""

from __future__ import annotations

from functions.promql import grafana
from functions.promql.edits import Edits
from functions.promql.nodes import Select, Span, walk
from functions.promql.read import read_grafana
from functions.promql.syntax import parse
from functions.promql.tokens import PromqlError

#: What stands for a query that rests on no series.
_NOTHING = "vector(1)"


def substitute_grafana(expr: str) -> str:
    """Variables become what matches anything, Grafana's own functions become the selectors that they read."""
    query = grafana.query(expr)
    if query.asked or not query.text.strip():
        found = read_grafana(expr).selectors
        return str(found[0].selector) if found else _NOTHING
    try:
        tree = parse(query.text, query.holes)
    except PromqlError:
        return query.text.strip()
    edits = Edits(query.text)
    for hole in query.holes:
        # outside of selectors: a duration or number as it stands, a name as the variable's own
        stand_in = query.text[hole.start : hole.end].strip().lstrip("0")
        edits.replace(hole, "".join(grafana.names(expr[hole.start : hole.end])) if stand_in.startswith("v") else stand_in)
    for node in walk(tree):
        if isinstance(node, Select) and not node.open:
            end = node.braces.end if node.braces else node.name.end if node.name else node.span.end
            written = Span(node.span.start, end)
            if any(written.overlaps(hole) for hole in query.holes):
                edits.replace(written, str(node.selector))
    return edits.apply().strip()
