"""The environment, read once. Names and meaning of every variable are documented by this model (docs/settings.md)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from functions.contract.policy import Policy

PREFIX = "TELLTALE_"
#: A header's name (RFC 9110).
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

#: Variables that others set: Knative's SinkBinding and Serving, kubectl's convention.
FOREIGN = {
    "sink": "K_SINK",
    "ce_overrides": "K_CE_OVERRIDES",
    "ca_certs": "K_CA_CERTS",
    "port": "PORT",
    "kubeconfig": "KUBECONFIG",
}


class SettingsError(ValueError):
    """A setting or the policy file can't be used; the message names it."""


class Settings(BaseModel):
    """Settings of one process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: str = Field(default="default", min_length=1, pattern=r"^[A-Za-z0-9._-]+$", description="Name of the cluster that is audited.")
    prometheus_url: str = Field(default="", description="Prometheus servers, comma-separated; several are asked and united.")
    prometheus_token: SecretStr | None = Field(default=None, description="Bearer token for Prometheus.")
    prometheus_headers: SecretStr | None = Field(
        default=None, description="Further headers for Prometheus, `Name: value`, one a line or separated by `;` (X-Scope-OrgID: team)."
    )
    prometheus_ca: Path | None = Field(default=None, description="CA certificates (PEM file) for Prometheus.")
    prometheus_timeout: float = Field(default=30, gt=0, description="Seconds one query may take.")
    redis_url: SecretStr | None = Field(default=None, description="Redis or Valkey. Unset: `run` and `demo` start their own Valkey.")
    redis_password: SecretStr | None = Field(default=None, description="Password for Redis, where the URL holds none.")
    redis_ca: Path | None = Field(default=None, description="CA certificates (PEM file) for rediss:// URLs.")
    data_dir: Path = Field(default=Path(".telltale"), description="Where the built-in Valkey keeps its append-only file.")
    policy: Path | None = Field(default=None, description="The policy file (YAML).")
    rules: tuple[Path, ...] = Field(default=(), description="Further rule files or folders of them, comma-separated.")
    dashboards: tuple[Path, ...] = Field(default=(), description="Dashboard files (JSON) or folders of them, comma-separated.")
    listen: str = Field(default="", description="host:port to serve on. Default: 127.0.0.1:8080, or 0.0.0.0:$PORT where PORT is set.")
    token: SecretStr | None = Field(
        default=None, description="Bearer credential for the webhook, the API and the pages; in a browser, the password."
    )
    oidc_audience: str = Field(default="", description="Audience that `POST /` demands in the sender's OIDC token; empty: not checked.")
    oidc_issuer: str = Field(default="https://kubernetes.default.svc", description="Issuer of those tokens.")
    settle: float | None = Field(default=None, ge=0, description="Seconds to wait after a change; overrides the computed settling time.")
    sweep: float = Field(default=300, gt=0, description="Seconds between two sweeps (list and compare).")
    tick: float = Field(default=5, gt=0, description="Seconds between two looks for due audits in `run`.")
    schedule: float = Field(default=3600, gt=0, description="Seconds between two scheduled audits of the whole cluster in `run`.")
    lease: float = Field(default=600, gt=0, description="Seconds an audit may take before another process takes it over.")
    retry: float = Field(
        default=30, gt=0, description="Seconds until an audit whose sources were away is judged again; doubled up to 15 minutes."
    )
    not_ready_grace: float = Field(default=60, gt=0, description="Seconds a node may be not Ready before it counts as away.")
    drain_deadline: float = Field(default=900, gt=0, description="Seconds until a drain that makes no progress counts as stalled.")
    rollout_deadline: float = Field(
        default=900, gt=0, description="Seconds until a rollout without a deadline of its own counts as stalled."
    )
    webhook_url: SecretStr | None = Field(default=None, description="Outgoing webhook: each summary and postmortem as JSON.")
    webhook_token: SecretStr | None = Field(default=None, description="Bearer credential for the outgoing webhook.")
    slack_token: SecretStr | None = Field(default=None, description="Slack bot token (chat:write, channels:history); edits in place.")
    slack_channel: str = Field(default="", description="Slack channel for the bot token.")
    slack_webhook_url: SecretStr | None = Field(default=None, description="Slack incoming webhook: plain messages.")
    slack_api_url: str = Field(default="https://slack.com/api/", description="Slack's API, for a proxy or a test.")
    console: bool = Field(default=True, description="Print summaries on standard output in `run`.")
    board_url: str = Field(default="", description="Public address of the board, for links in messages.")
    log_level: str = Field(default="INFO", description="DEBUG, INFO, WARNING or ERROR.")
    sink: str = Field(default="", description="Where events go (set by a SinkBinding).")
    ce_overrides: str = Field(default="", description="Extensions for outgoing events (set by a SinkBinding).")
    ca_certs: str = Field(default="", description="CA certificates of the sink, PEM (set by a SinkBinding).")
    port: int | None = Field(default=None, description="Port to serve on (set by Knative Serving).")
    kubeconfig: str = Field(default="", description="The cluster as kubectl finds it; unset: the Pod's own account, if in one.")

    @field_validator("rules", "dashboards", mode="before")
    @classmethod
    def _paths(cls, value: Any) -> Any:
        return tuple(Path(part.strip()) for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @property
    def metric_headers(self) -> dict[str, str]:
        """What `prometheus_headers` says. Raises SettingsError, without the value."""
        found: dict[str, str] = {}
        text = self.prometheus_headers.get_secret_value() if self.prometheus_headers else ""
        for number, line in enumerate((part.strip() for part in re.split(r"[;\r\n]", text) if part.strip()), 1):
            name, colon, value = line.partition(":")
            if not colon or not _HEADER.fullmatch(name.strip()) or not value.strip().isprintable():
                raise SettingsError(f"{PREFIX}PROMETHEUS_HEADERS: header {number} is not `Name: value`")
            found[name.strip()] = value.strip()
        return found

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        if self.listen:
            host, _, port = self.listen.rpartition(":")
            if not port.isdigit():
                raise SettingsError(f"{PREFIX}LISTEN must be host:port, not {self.listen!r}")
            return host.strip("[]") or "127.0.0.1", int(port)
        return ("0.0.0.0", self.port) if self.port else ("127.0.0.1", 8080)

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings from the environment. `X_FILE` names a file that holds the value of `X`.

        Raises SettingsError, with the variable's name and never its value where it is secret.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            variable = variable_of(name)
            text = environ.get(variable, "")
            path = environ.get(f"{variable}_FILE", "")
            if path and name not in FOREIGN:
                if text:
                    raise SettingsError(f"{variable} and {variable}_FILE are both set")
                try:
                    text = Path(path).read_text().strip()
                except (OSError, UnicodeDecodeError) as error:
                    raise SettingsError(f"{variable}_FILE: {error}") from None
            if text:
                values[name] = text
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            raise SettingsError(f"{variable_of(str(first['loc'][0]))}: {first['msg']}") from None


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return FOREIGN.get(name, PREFIX + name.upper())


def read_policy(path: Path | None) -> Policy:
    """The policy file, or the defaults. Raises SettingsError naming the file and the key."""
    if path is None:
        return Policy()
    import yaml  # most roles have no policy file

    try:
        data = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"policy {path}: {' '.join(str(error).split())}") from None
    return policy_from(data, str(path))


def policy_from(data: Any, origin: str) -> Policy:
    """A policy from decoded YAML. Raises SettingsError naming `origin` and the key."""
    if data is None:
        return Policy()
    try:
        return Policy.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SettingsError(f"policy {origin}: {where}: {first['msg']}") from None
