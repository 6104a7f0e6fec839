"""A real Alertmanager on free loopback ports, with one webhook receiver."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.support.ports import free_port


def binary() -> str | None:
    """The program, under the name that Debian or upstream gives it; None where it is not installed."""
    return shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


CONFIG = """\
route:
  receiver: telltale
  group_by: [alertname, namespace]
  group_wait: 1s
  group_interval: 2s
  repeat_interval: 1h
receivers:
  - name: telltale
    webhook_configs:
      - url: {url}
        send_resolved: true
        http_config:
          authorization:
            credentials: {token}
"""


@asynccontextmanager
async def alertmanager(folder: Path, webhook: str, token: str) -> AsyncIterator[str]:
    """Yields its URL. It posts to `webhook` with the bearer token."""
    program = binary()
    assert program, "prometheus-alertmanager is not installed; `make parts` installs it"
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "alertmanager.yml"
    config.write_text(CONFIG.format(url=webhook, token=token))
    port = free_port()
    arguments = [
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program, *arguments, stdout=log, stderr=log, env={**os.environ})
    url = f"http://127.0.0.1:{port}"
    try:
        await _until_ready(url, folder)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def _until_ready(url: str, folder: Path) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(f"{url}/-/ready") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
    raise AssertionError(f"Alertmanager did not start: {(folder / 'log').read_text()[-1000:]}")
