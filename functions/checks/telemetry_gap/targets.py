"""Scrape faults, one finding a target: down, rejected, empty, dropped, stale, slow, or on another clock.

The code nearest to the cause speaks: a rejected body or a limit explains that the target is down. `broken` is what
the other parts need to know: which targets, and with them which nodes, miss data for a reason that is told here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from functions.checks.telemetry_gap.vanished import Scrapes, judge_vanished
from functions.checks.telemetry_gap.world import INTERVAL, LOOKBACK, TIMEOUT, World, duration, finding, place, short
from functions.contract.cluster import Pod
from functions.contract.findings import Evidence, Finding, Subject
from functions.contract.report import instant
from functions.contract.telemetry import Body, Target
from functions.knowledge.pipeline import load_pipeline

#: A scrape that takes this share of its timeout fails with the next slow moment.
NEAR_TIMEOUT = 0.9
#: Seconds a clock may be ahead.
SKEW = 60.0
#: Scrapes that may be missed before a target counts as stale.
MISSED = 3
#: From so many targets on it is no accident that every one is on another clock.
_MANY = 3


def judge_targets(world: World, bodies: Iterable[Body]) -> Scrapes:
    """Judge every target that was scraped, and every one that is no longer."""
    scrapes = Scrapes()
    by_place = {(b.job, b.instance): b for b in bodies}
    before = {place(t): t for t in world.before_list or ()}
    for target in world.target_list or ():
        if world.exempt(target):
            continue
        scrapes.part.judged += 1
        found = _fault(world, target, by_place.get(place(target)), before)
        if isinstance(found, Finding):
            scrapes.part.findings.append(found)
            code = found.code.partition("/")[2]
            if code not in ("scrape-overrun", "clock-skew") or not target.up:
                scrapes.explain(world, target, code)
        elif found:
            scrapes.quiet[place(target)] = found
    scrapes.part.findings = _one_clock(world, scrapes.part.findings)
    judge_vanished(world, scrapes)
    return scrapes


def _fault(world: World, target: Target, body: Body | None, before: Mapping[tuple[str, str], Target]) -> Finding | str | None:
    """The finding on a target, a word that explains its absence without a finding, or None where all is well."""
    if body and body.bad:
        return _bad_body(world, target, body)
    if not target.up:
        return _down(world, target)
    if target.samples == 0 or (target.samples is None and body and body.samples == 0):
        return _empty(world, target, body)
    return _dropped(world, target, before) or _stale(world, target) or _overrun(world, target) or _skewed(world, target)


def _up(target: Target) -> str:
    return f'up{{job="{target.job}", instance="{target.instance}"}}'


def _evidence(world: World, target: Target, sample: str) -> Evidence:
    return Evidence("prometheus", target.url or _up(target), sample, instant(target.scraped_at) or world.at)


def _bad_body(world: World, target: Target, body: Body) -> Finding:
    assert body.bad
    line = body.bad
    return finding(
        "bad-exposition",
        world.subject(target),
        f"Prometheus rejects everything that {target.instance} serves",
        observed=f"line {line.number}: {short(line.text)} — {line.problem}",
        expected="a number where a value stands; one bad line costs every metric of the target",
        hint="Take the row that prints this metric out of the exporter's field list, or upgrade the exporter; "
        "the exporter answers 200 and stays Ready, so nothing else will tell.",
        evidence=[Evidence("exposition", target.url or target.instance, short(line.text, 300), instant(body.scraped_at) or world.at)],
    )


def _down(world: World, target: Target) -> Finding | str:
    pod, node = world.pod_of(target), world.node_of(target)
    if world.pod_list is not None and target.labels.get("pod") and (pod is None or pod.finished or pod.deleted_at):
        return "its Pod is gone"
    code = load_pipeline().code_of(target.error) if target.error else "target-down"
    if code in ("target-down", "scrape-overrun") and (why := world.planned(node)):
        return why
    told = target.error or "the scrape failed; the server does not say why"
    evidence = [_evidence(world, target, f"up 0: {short(told, 300)}")]
    if code == "bad-exposition":
        return finding(
            code,
            world.subject(target),
            f"Prometheus rejects everything that {target.instance} serves",
            observed=short(told, 300),
            expected="an exposition that Prometheus can read",
            hint="Fetch the body by hand and look for the line that the error names; take the row that prints it out of the "
            "exporter's field list, or upgrade the exporter.",
            evidence=evidence,
        )
    if code == "series-dropped":
        return finding(
            code,
            world.subject(target),
            f"a limit of the scrape makes Prometheus refuse all of {target.instance}",
            observed=short(told, 300),
            expected="the target stays below its limits",
            hint="Raise the limit of the scrape pool (ServiceMonitor or scrape_config), or drop the label that grows.",
            evidence=evidence,
        )
    if code == "scrape-overrun" and _took_its_time(target) and _could_answer(world, pod, node):
        return _too_slow(world, target, f"the scrape was given up: {short(told)}", evidence)
    return finding(
        "target-down",
        world.subject(target),
        f"target {target.instance} of job {target.job} is down",
        observed=f"{short(told, 300)}{_pod_state(pod)}",
        expected="every scrape of a living target succeeds",
        hint=_down_hint(world, pod, node),
        evidence=evidence,
    )


def _took_its_time(target: Target) -> bool:
    """Whether it is known that the scrape used up its time; the error alone is also what a dead machine leaves."""
    return target.duration is not None and target.duration >= NEAR_TIMEOUT * _timeout(target)


def _timeout(target: Target) -> float:
    return target.timeout or min(TIMEOUT, target.interval or TIMEOUT)


def _could_answer(world: World, pod: Pod | None, node: str) -> bool:
    """Whether the exporter lives, so that a timeout means slowness and not a dead machine."""
    known = world.nodes.get(node)
    return (known is None or known.ready) and (pod is None or pod.ready)


def _pod_state(pod: Pod | None) -> str:
    if pod is None:
        return ""
    return f"; Pod {pod.namespace}/{pod.name} is {pod.phase}{'' if pod.ready else ', not ready'}"


def _down_hint(world: World, pod: Pod | None, node: str) -> str:
    known = world.nodes.get(node)
    if known is not None and not known.ready:
        return f"Node {node} is NotReady: bring the node back first."
    if pod is not None and not pod.ready:
        return f"kubectl -n {pod.namespace} describe pod {pod.name}, and its logs: the exporter does not serve."
    if pod is not None:
        return (
            f"The Pod is ready, so the way is blocked: check port and scheme of the scrape, NetworkPolicies, and "
            f"kubectl -n {pod.namespace} port-forward {pod.name}."
        )
    return "Check that the exporter runs and that Prometheus may reach it (port, scheme, NetworkPolicy, credentials)."


def _empty(world: World, target: Target, body: Body | None) -> Finding:
    return finding(
        "empty-exposition",
        world.subject(target),
        f"{target.instance} answers, and serves nothing",
        observed=f"the scrape succeeds with 0 samples{'' if body is None else f' in {body.size} bytes'}",
        expected="an exporter that is up serves samples",
        hint="The exporter lost what it reads (host engine, driver, kubelet socket) or is reloading; its health check does not "
        "notice. Restart its Pod and read its log.",
        evidence=[_evidence(world, target, "scrape_samples_scraped 0")],
    )


def _dropped(world: World, target: Target, before: Mapping[tuple[str, str], Target]) -> Finding | None:
    scraped, kept = target.samples, target.samples_kept
    if not scraped or kept is None or kept >= scraped:
        return None
    earlier = before.get(place(target))
    newly = earlier is not None and earlier.samples and earlier.samples_kept is not None and earlier.samples_kept >= earlier.samples
    if kept and not newly:
        return None  # dropping a part on purpose is what metric relabelling is for
    was = f"; before the change all of its {earlier.samples} were kept" if newly and earlier else ""
    return finding(
        "series-dropped",
        world.subject(target),
        f"relabelling drops {'all' if not kept else scraped - kept} samples of {target.instance}",
        observed=f"{kept} of {scraped} samples are stored{was}",
        expected="what the exporter serves is stored, as before",
        hint="Compare metric_relabel_configs (metricRelabelings of the ServiceMonitor) with the names that are served now.",
        evidence=[_evidence(world, target, f"scrape_samples_scraped {scraped}, scrape_samples_post_metric_relabeling {kept}")],
    )


def _stale(world: World, target: Target) -> Finding | None:
    if target.scraped_at is None:
        return None
    age = (world.windows.current - target.scraped_at).total_seconds()
    if age <= max(LOOKBACK, MISSED * (target.interval or INTERVAL)):
        return None
    return finding(
        "stale",
        world.subject(target),
        f"nothing new from {target.instance} for {duration(age)}",
        observed=f"the last scrape was at {instant(target.scraped_at)}, {duration(age)} before this audit; the target still counts as up",
        expected=f"a scrape each {duration(target.interval or INTERVAL)}",
        hint="Prometheus has stopped scraping it, or stores samples with old timestamps: check the server's load, honor_timestamps, "
        "and the agent or federation in between.",
        evidence=[_evidence(world, target, f"last scrape {instant(target.scraped_at)}")],
    )


def _one_clock(world: World, findings: list[Finding]) -> list[Finding]:
    """The findings, with one in place of many where every target is ahead: it is the metrics server's clock then, or ours."""
    skewed = [f for f in findings if f.code.endswith("/clock-skew")]
    if len(skewed) < _MANY or len(skewed) < sum(t.up and t.scraped_at is not None for t in world.target_list or ()):
        return findings
    return [
        *(f for f in findings if f not in skewed),
        finding(
            "clock-skew",
            Subject(),
            "the clock of the metrics server is ahead of this audit's",
            observed=f"{skewed[0].observed}; the same of all {len(skewed)} targets",
            expected=skewed[0].expected,
            hint="Check time synchronisation (chrony, systemd-timesyncd) where the metrics server and where Telltale run.",
            evidence=skewed[0].evidence,
        ),
    ]


def _overrun(world: World, target: Target) -> Finding | None:
    if not _took_its_time(target):
        return None
    observed = f"the last scrape took {target.duration:g} s of {_timeout(target):g} s"
    return _too_slow(world, target, observed, [_evidence(world, target, f"scrape_duration_seconds {target.duration:g}")])


def _too_slow(world: World, target: Target, observed: str, evidence: list[Evidence]) -> Finding:
    return finding(
        "scrape-overrun",
        world.subject(target),
        f"{target.instance} takes longer to scrape than it may",
        observed=observed,
        expected=f"a scrape ends well within its timeout ({_timeout(target):g} s)",
        hint="Drop costly fields from the exporter's list, give the exporter more CPU, or raise scrape timeout and interval together.",
        evidence=evidence,
    )


def _skewed(world: World, target: Target) -> Finding | None:
    now = max(world.windows.current, world.listed_at or world.windows.current)
    ahead = (target.scraped_at - now).total_seconds() if target.scraped_at else 0.0
    started = target.process_started - now.timestamp() if target.process_started else 0.0
    if max(ahead, started) <= SKEW:
        return None
    what = "its samples carry" if ahead >= started else "its process claims to have started at"
    return finding(
        "clock-skew",
        world.subject(target),
        f"the clock of {target.instance} is {duration(max(ahead, started))} ahead",
        observed=f"{what} a time {duration(max(ahead, started))} after this audit",
        expected=f"clocks agree within {SKEW:g} s",
        hint="Check time synchronisation (chrony, systemd-timesyncd) of the node; samples from the future hide the present ones.",
        evidence=[_evidence(world, target, f"last scrape {instant(target.scraped_at)}")],
    )
