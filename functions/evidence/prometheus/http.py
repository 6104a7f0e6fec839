"""The wire under `prometheus.py`: one session to one server, and what its answers and failures mean.

`prometheus_api_client` speaks through the session that is made here: queries go in the request's body (an expression
can be longer than a URL may be), answers are decoded once, warnings are kept, and credentials never reach a message.
Errors are classified here, once, as the reasons that a fact can be missing for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import orjson
import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.util.retry import Retry

from functions.contract.facts import Missing, Why
from functions.evidence.prometheus.decoding import decoded

_CONNECT_SECONDS = 5.0
#: A shorter header value is a tenant's name rather than a credential, and may be part of any text.
_SECRET_LENGTH = 12
_USERINFO = re.compile(r"//[^/@\s]+@")
_LIMIT = re.compile(r"too many|more than|exceed|limit|maximum|would (?:load|scan|fetch)|too large|max-", re.IGNORECASE)
_TIMEOUT = re.compile(r"timed? ?out|deadline exceeded|context canceled|canceled", re.IGNORECASE)
_LOGIN = re.compile(r"login|oauth|auth|sso|signin", re.IGNORECASE)


class PrometheusError(Exception):
    """An answer that can't be used. `again` says that the same request may well succeed a moment later."""

    def __init__(self, why: Why, detail: str, *, again: bool = False, query: bool = False) -> None:
        super().__init__(detail)
        self.why = why
        self.detail = detail
        self.again = again
        #: it is about this one query (its text or its size), not about the server
        self.query = query


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is and how to be let in; made from a URL that may carry credentials."""

    url: str
    auth: AuthBase
    secrets: tuple[str, ...]

    @classmethod
    def of(cls, text: str, token: str = "", sent: tuple[str, ...] = ()) -> Address:
        """`sent`: values of further headers. Raises ValueError for what is no http(s) URL; the message shows no credential."""
        hidden = tuple(value for value in sent if len(value) >= _SECRET_LENGTH)
        try:
            parts = urlsplit(text.strip())
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("not a URL") from None
        if parts.scheme not in ("http", "https") or not host:
            raise ValueError(f"{_USERINFO.sub('//***@', text.strip())!r} is no http:// or https:// URL")
        host = f"[{host}]" if ":" in host else host
        url = urlunsplit((parts.scheme, f"{host}:{port}" if port else host, parts.path.rstrip("/"), "", ""))
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if user or password:
            return cls(url, HTTPBasicAuth(user.encode(), password.encode()), tuple(s for s in (password, parts.password, *hidden) if s))
        return cls(url, _Bearer(token), (token, *hidden) if token else hidden)

    def redact(self, text: str) -> str:
        """The text without credentials."""
        text = _USERINFO.sub("//***@", text)
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class _Bearer(AuthBase):
    """A bearer token, or nothing. Being set at all, it keeps a .netrc file of the machine out of the request."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class Answer(requests.Response):
    """A response whose body is decoded once, and faster than by default."""

    _decoded: Any = None
    #: bytes of the body, decompressed
    size: int = 0
    #: the body was longer than may be, and not read to its end
    cut: bool = False

    def receive(self, most: int) -> None:
        """Read the body, up to so many bytes. Raises requests.RequestException."""
        parts: list[bytes] = []
        for part in self.iter_content(1 << 16):
            parts.append(part)
            self.size += len(part)
            if self.size > most:
                self.cut = True
                self.close()
                break
        self._content = b"".join(parts)

    def json(self, **_options: Any) -> Any:
        """The decoded body. Raises requests' JSONDecodeError, as its parent does."""
        if self._decoded is None:
            try:
                self._decoded = decoded(self.content)
            except orjson.JSONDecodeError as error:
                raise requests.exceptions.JSONDecodeError(error.msg, error.doc, error.pos) from None
        return self._decoded


class _Adapter(HTTPAdapter):
    def build_response(self, req: requests.PreparedRequest, resp: Any) -> Answer:
        built = super().build_response(req, resp)
        answer = Answer()
        answer.__dict__.update(built.__dict__)
        return answer


class WireSession(requests.Session):
    """A session that remembers, for each thread, what the last request was answered."""

    def __init__(self, address: Address, *, ca: Path | None, pool: int, most: int) -> None:
        super().__init__()
        self.verify = str(ca) if ca else True
        self.headers["User-Agent"] = "telltale"
        self._address = address
        self._pool = pool
        self._most = most
        self._local = threading.local()

    def settle(self) -> None:
        """Mount the adapter of this module, after a client has mounted its own."""
        # A connection that could not be made is tried again; what was answered is not, so that every request is counted.
        retry = Retry(
            total=2,
            connect=2,
            read=0,
            status=0,
            other=0,
            allowed_methods=("GET", "POST"),
            backoff_factor=0.3,
            respect_retry_after_header=False,
        )
        adapter = _Adapter(max_retries=retry, pool_connections=self._pool, pool_maxsize=self._pool)
        self.adapters.clear()
        for scheme in ("http://", "https://"):
            self.mount(scheme, adapter)

    def request(self, method: Any, url: Any, *args: Any, **options: Any) -> requests.Response:
        """Send a request; parameters of a POST go in its body, and a redirect is an answer of its own."""
        if str(method).upper() == "POST" and options.get("params"):
            options["data"] = options.pop("params")
        options["allow_redirects"] = False
        options["stream"] = True  # so that a body without end is not read without end
        self._local.answer = None
        answer = super().request(method, url, *args, **options)
        assert isinstance(answer, Answer)
        answer.receive(self._most)
        self._local.answer = answer
        return answer

    def taken(self) -> Answer | None:
        """What this thread's last request was answered, once: it can be long. None where it was not."""
        held: Answer | None = getattr(self._local, "answer", None)
        self._local.answer = None
        return held


def timeouts(seconds: float) -> tuple[float, float]:
    """Client-side patience: a server that gives up after `seconds` by itself still gets to say so."""
    return (_CONNECT_SECONDS, seconds + 5)


def checked(answer: Answer, *, api: bool = True) -> Mapping[str, Any]:
    """The decoded envelope of a good answer. Raises PrometheusError for any other."""
    status = answer.status_code
    if answer.cut:
        raise PrometheusError(Why.TRUNCATED, f"the answer is longer than {answer.size >> 20} MiB", query=True)
    body = _envelope(answer)
    message = str(body.get("error") or "") if body else ""
    if status != 200:
        raise refused(status, message or _snippet(answer), str(body.get("errorType") or "") if body else "", answer.headers)
    if body is None:
        raise PrometheusError(Why.MALFORMED, f"answered with something that is no JSON: {_snippet(answer)}")
    if api and body.get("status") != "success":
        raise PrometheusError(Why.MALFORMED, message or "answered without a status of success")
    return body


def refused(status: int, message: str, kind: str, headers: Mapping[str, str]) -> PrometheusError:
    """What a status other than 200 means."""
    detail = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    if 300 <= status < 400:
        place = _USERINFO.sub("//***@", headers.get("Location", ""))
        why = Why.UNAUTHORISED if _LOGIN.search(place) else Why.UNREACHABLE
        return PrometheusError(why, f"redirects to {place.partition('?')[0]}")
    if status in (401, 403, 407):
        return PrometheusError(Why.UNAUTHORISED, detail)
    if status in (404, 405, 501):
        return PrometheusError(Why.UNSUPPORTED, detail)
    if kind == "timeout" or status in (408, 504) or (status in (422, 499, 503) and _TIMEOUT.search(message)):
        return PrometheusError(Why.TIMED_OUT, detail, query=True)
    if status == 413 or (status in (400, 422, 429, 500) and _LIMIT.search(message) and "parse error" not in message):
        return PrometheusError(Why.TRUNCATED, detail, query=True)
    if status in (400, 422):
        return PrometheusError(Why.UNSUPPORTED, detail, query=True)
    return PrometheusError(Why.UNREACHABLE, detail, again=status in (429, 500, 502, 503))


def unreached(error: requests.RequestException) -> PrometheusError:
    """What it means that there was no answer at all."""
    if isinstance(error, requests.exceptions.JSONDecodeError):
        return PrometheusError(Why.MALFORMED, "answered with something that is no JSON")
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return PrometheusError(Why.UNREACHABLE, "no connection within its time")
    if isinstance(error, requests.exceptions.Timeout) or "Read timed out" in str(error):
        return PrometheusError(Why.TIMED_OUT, "no answer within its time", query=True)
    if isinstance(error, requests.exceptions.SSLError):
        return PrometheusError(Why.UNREACHABLE, f"TLS: {_cause(error)}")
    if isinstance(error, requests.exceptions.ContentDecodingError):
        return PrometheusError(Why.MALFORMED, "answered with a body that can't be decompressed")
    return PrometheusError(Why.UNREACHABLE, _cause(error))


def partial(body: Mapping[str, Any]) -> str:
    """Why an answer does not hold all of what was asked for; "" where it does.

    Prometheus 3 also warns about the query itself ("PromQL warning: …"); Thanos and Mimir warn about stores that did
    not answer, VictoriaMetrics sets a flag.
    """
    if body.get("isPartial") is True:
        return "the server marks its answer as partial"
    return next((w for w in warnings(body) if not w.startswith("PromQL ")), "")


def warnings(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Warnings and notes of an answer."""
    held = [body.get("warnings"), body.get("infos")]
    return tuple(str(w) for group in held if isinstance(group, list) for w in group)


def missing(error: PrometheusError, address: Address, asked: str) -> Missing:
    """The error as a fact that is not there."""
    return Missing(error.why, address.redact(f"{address.url}: {error.detail}"), address.redact(asked))


def _envelope(answer: requests.Response) -> Mapping[str, Any] | None:
    try:
        body = answer.json()
    except requests.exceptions.JSONDecodeError:
        return None
    return body if isinstance(body, Mapping) else None


def _snippet(answer: requests.Response) -> str:
    text = answer.content[:2000].decode("utf-8", "replace")
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())[:200]


def _cause(error: BaseException) -> str:
    """The innermost reason, in one short line."""
    seen: BaseException = error
    for _ in range(10):
        inner = (
            getattr(seen, "reason", None)
            or seen.__cause__
            or seen.__context__
            or next((a for a in seen.args if isinstance(a, BaseException)), None)
        )
        if not isinstance(inner, BaseException) or inner is seen:
            break
        seen = inner
    text = re.sub(r"<[^>]*object at 0x[0-9a-f]+>:?\s*", "", str(seen))
    return " ".join(text.split())[:200] or type(seen).__name__
