"""Reading PromQL: which series an expression rests on, which of them it needs, where it uses which label, and how it
would have to be written after something changed its name.

Rules and dashboards are read tolerantly (`syntax.py`), so that a newer function or MetricsQL does not hide a metric's
name; `promql_parser` has a say in `accepts.py` alone. What can't be read is said in `error`, never dropped. Pure.
"""

from functions.promql.accepts import duration, objection
from functions.promql.changes import NO_CHANGES, Changes, LabelChange, MetricChange, means, names_of, touches
from functions.promql.expression import Cause, Expression, LabelUse, Place, SelectorUse, all_lost, some_left
from functions.promql.labels import Source, Supply
from functions.promql.read import asked_in_texts, demands, read, read_grafana, read_panel, read_rule, selectors
from functions.promql.rewrite import rewrite, rewrite_grafana

__all__ = [
    "NO_CHANGES",
    "Cause",
    "Changes",
    "Expression",
    "LabelChange",
    "LabelUse",
    "MetricChange",
    "Place",
    "SelectorUse",
    "Source",
    "Supply",
    "all_lost",
    "asked_in_texts",
    "demands",
    "duration",
    "means",
    "names_of",
    "objection",
    "read",
    "read_grafana",
    "read_panel",
    "read_rule",
    "rewrite",
    "rewrite_grafana",
    "selectors",
    "some_left",
    "touches",
]
