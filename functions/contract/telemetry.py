"""What the metrics pipeline says, reduced so that its size does not grow with the number of samples.

The same nouns come from a live Prometheus (aggregated there) and from a bundle (aggregated here): see
`functions/evidence/questions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Row:
    """One element of an instant vector."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Target:
    """One scrape target."""

    job: str
    instance: str
    #: the target labels that Prometheus attaches (job and instance included)
    labels: Mapping[str, str]
    up: bool
    error: str = ""
    #: samples in the body, and those left after metric relabelling; None where not stored
    samples: int | None = None
    samples_kept: int | None = None
    #: seconds
    duration: float | None = None
    timeout: float | None = None
    interval: float | None = None
    scraped_at: datetime | None = None
    url: str = ""
    #: None where it can't be told
    honor_labels: bool | None = None
    #: the process behind the target started at (Unix seconds), where it exports process_start_time_seconds
    process_started: float | None = None


@dataclass(frozen=True, slots=True)
class MetricSchema:
    """One metric name of one job at one instant. `name` is as stored (with `_bucket`, `_sum`, `_count`, `_total`)."""

    job: str
    name: str
    series: int
    #: number of targets (instances) that have it
    targets: int
    #: over all finite values; None where there is none
    low: float | None
    high: float | None
    mean: float | None
    #: label name -> number of series with a non-empty value
    labels: Mapping[str, int] = field(default_factory=dict)
    #: counter, gauge, histogram, summary, or "" where unknown
    type: str = ""
    help: str = ""
    unit: str = ""

    @property
    def family(self) -> str:
        """The name without the suffix that a histogram or summary adds."""
        for suffix in ("_bucket", "_sum", "_count"):
            if self.name.endswith(suffix) and self.type in ("histogram", "summary", "gaugehistogram"):
                return self.name[: -len(suffix)]
        return self.name


@dataclass(frozen=True, slots=True)
class DeviceSeries:
    """All series of one target that agree in device and attribution. The device is (node, gpu, gpu_instance).

    `spelling` says under which label each role was found: role -> label name; the roles are gpu, gpu_instance,
    profile, index, host, namespace, pod, container, pod_uid. A role that the series does not have is absent there.
    """

    job: str
    instance: str
    #: identity and attribution labels exactly as stored
    labels: Mapping[str, str]
    series: int
    spelling: Mapping[str, str]
    #: the Kubernetes node, resolved (target label, host label, exporter Pod); "" where it can't be told
    node: str
    #: as printed: UUID, else index or device name; "" where there is none
    gpu: str
    gpu_instance: str = ""
    profile: str = ""
    host: str = ""
    #: the workload it names, after the collision rule is undone; "" where it names none
    namespace: str = ""
    pod: str = ""
    container: str = ""
    #: what the target labels alone would say (namespace, Pod, container of the exporter)
    target_namespace: str = ""
    target_pod: str = ""
    target_container: str = ""
    honor_labels: bool | None = None

    @property
    def device(self) -> tuple[str, str, str]:
        return (self.node, self.gpu, self.gpu_instance)


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """The value of one concept (`gpu.utilization`, `gpu.power` …, see knowledge/signals.yaml) on one device series."""

    concept: str
    metric: str
    #: highest value over the series that agree; as stored, in the metric's own unit
    value: float
    #: how many stored series agree in every label looked at (more than 1: counted twice)
    series: int
    source: DeviceSeries


@dataclass(frozen=True, slots=True)
class Extreme:
    """A metric whose highest value is suspiciously large, by target; candidates for "no value" codes."""

    job: str
    instance: str
    metric: str
    high: float
    node: str
    #: further stored labels that were kept (host and device labels)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standstill:
    """How many series of a metric that can't stand still did stand still on one target during the window."""

    job: str
    instance: str
    metric: str
    node: str
    still: int
    total: int
    #: scrapes that the window held
    scrapes: int


@dataclass(frozen=True, slots=True)
class PartialLoss:
    """A name that only some targets of a job lost (a canary, one node pool); or a `label` of a name that they still have."""

    job: str
    metric: str
    lost: tuple[str, ...]
    kept: tuple[str, ...]
    label: str = ""


@dataclass(frozen=True, slots=True)
class LabelValues:
    """Values of one label in one job at one instant, at most `limit` of them."""

    job: str
    label: str
    values: frozenset[str]
    #: the metric they were read from
    metric: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class PipelineSample:
    """One health figure of a Prometheus server itself (prometheus_* metrics, a rate per second or a value)."""

    server: str
    metric: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class BadLine:
    """The first line of a body that a real Prometheus rejects."""

    number: int
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class Body:
    """What one target served, before any relabelling."""

    job: str
    instance: str
    target: Mapping[str, str]
    #: number of samples that could be read
    samples: int
    bad: BadLine | None
    scraped_at: datetime | None
    size: int
    #: metric name -> label names seen on it in the raw body
    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: where a recorded body stands: "metrics/after/dcgm.prom:12", its first line; "" for a live one
    origin: str = ""
