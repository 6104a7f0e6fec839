"""PromQL's range functions over the samples of one series, for the evaluation over a bundle.

Each takes the samples within the range, oldest first, as (Unix seconds, value), and the range in seconds; None where
Prometheus gives no result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

Samples = Sequence[tuple[float, float]]


def changes(samples: Samples, span: float) -> float:
    """How often the value differs from the one before (NaN after NaN is no change)."""
    pairs = pairwise(samples)
    return float(sum(a[1] != b[1] and not (math.isnan(a[1]) and math.isnan(b[1])) for a, b in pairs))


def rate(samples: Samples, span: float) -> float | None:
    """A counter's increase per second between its first and last sample, resets undone.

    Prometheus extrapolates to the edges of the range, which needs the instant of evaluation; the slope between the
    samples is what both agree on, and at the usual few samples a range the difference is small.
    """
    if len(samples) < 2:
        return None
    rise = sum(b[1] - a[1] if b[1] >= a[1] else b[1] for a, b in pairwise(samples))
    elapsed = samples[-1][0] - samples[0][0]
    return rise / elapsed if elapsed > 0 else None


#: The functions whose result is still the metric itself, so that it keeps its name.
KEEPS_NAME = frozenset({"last_over_time"})

RANGE_FUNCTIONS: Mapping[str, Callable[[Samples, float], float | None]] = {
    "changes": changes,
    "count_over_time": lambda samples, span: float(len(samples)),
    "max_over_time": lambda samples, span: max((v for _, v in samples if not math.isnan(v)), default=math.nan),
    "last_over_time": lambda samples, span: samples[-1][1],
    "rate": rate,
}
