"""Where a role sends its events: the address, authorities and identity that a SinkBinding gives it.

A SinkBinding sets K_SINK, K_CE_OVERRIDES and (where the sink speaks TLS) K_CA_CERTS, mounts the cluster's trust bundles
under /knative-custom-certs, and where the sink has an audience a token at /oidc/token, which the kubelet renews.
Trusted are the system's authorities, those bundles and K_CA_CERTS, as Knative's own clients do it.
https://knative.dev/docs/eventing/features/transport-encryption/ · https://knative.dev/docs/eventing/features/sender-identity/

What is sent and when is the roles' business (`roles.py`).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from functions.contract.errors import Again
from functions.envelope import extensions
from functions.settings import Settings, SettingsError

TOKEN = Path("/oidc/token")
BUNDLES = Path("/knative-custom-certs")

#: Seconds for one event. A broker over an in-memory channel is synchronous: it answers once everybody has.
_TIMEOUT = 30.0


class Sink:
    """The sink of one process. Sends one event at a time; what fails may be sent again."""

    def __init__(self, url: str, ca: str = "", *, token: Path = TOKEN, bundles: Path = BUNDLES) -> None:
        """Raises SettingsError for certificates that can't be used."""
        self._url = url
        self._ca = ca
        self._token = token
        self._bundles = bundles
        self._context = self._trust() if url.startswith("https:") else None
        self._session: aiohttp.ClientSession | None = None

    async def send(self, headers: Mapping[str, str], body: bytes) -> None:
        """Hand one event over; when this returns the sink has it. Raises Again."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT))
        try:
            # a redirect would take the token along to wherever it points
            async with self._session.post(
                self._url, data=body, headers={**headers, **self._identity()}, ssl=self._context or True, allow_redirects=False
            ) as response:
                if response.status >= 300:
                    raise Again(f"the sink answered {response.status}")
        except aiohttp.ClientConnectorCertificateError as error:
            self._renew()
            raise Again(f"the sink's certificate does not hold: {error.certificate_error}") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Again(f"the sink can't be reached: {type(error).__name__}") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _renew(self) -> None:
        """The bundles may have been renewed since they were read. Raises Again where they can't be used just now."""
        try:
            self._context = self._trust()
        except SettingsError as error:
            raise Again(str(error)) from None

    def _identity(self) -> dict[str, str]:
        """Read for each event: the token lives for an hour or less."""
        try:
            token = self._token.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return {}  # the sink has no audience
        except (OSError, UnicodeDecodeError) as error:
            raise Again(f"the token for the sink can't be read: {type(error).__name__}") from None
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        given = [("K_CA_CERTS", self._ca)] if self._ca.strip() else []
        try:
            # a ConfigMap's volume shows each file once more behind a dotted name
            files = [f for f in sorted(self._bundles.rglob("*")) if f.is_file() and ".." not in f.parent.name]
            given += [(str(f), f.read_text()) for f in files]
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self._bundles}: {error}") from None
        for origin, text in given:
            try:
                context.load_verify_locations(cadata=text)
            except (ssl.SSLError, ValueError) as error:
                raise SettingsError(f"{origin} holds no certificates that can be used: {error}") from None
        return context


def of(settings: Settings) -> Sink | None:
    """The sink that is bound; None without one. Raises SettingsError for a binding that can't be used.

    What is wrong with it is said at the start, not event by event.
    """
    try:
        extensions(settings.ce_overrides)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    return Sink(settings.sink, settings.ca_certs) if settings.sink else None
