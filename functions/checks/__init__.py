"""All checks, in the order in which a report shows them."""

from functions.checks.base import Check
from functions.checks.label_mapping.check import CHECK as LABEL_MAPPING
from functions.checks.metric_rename.check import CHECK as METRIC_RENAME
from functions.checks.telemetry_gap.check import CHECK as TELEMETRY_GAP

CHECKS: tuple[Check, ...] = (LABEL_MAPPING, TELEMETRY_GAP, METRIC_RENAME)
