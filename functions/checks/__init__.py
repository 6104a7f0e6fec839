"""All checks, in the order in which a report shows them."""

from functions.checks import label_mapping, metric_rename, telemetry_gap
from functions.checks.base import Check

CHECKS: tuple[Check, ...] = (label_mapping.CHECK, telemetry_gap.CHECK, metric_rename.CHECK)
