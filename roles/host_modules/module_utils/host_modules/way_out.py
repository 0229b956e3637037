"""The way out that site_base has written, for modules that fetch something themselves."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Mapping

PROXY = "/etc/llmhw/proxy.env"


def proxies(path: str = PROXY) -> dict[str, str]:
    """The site's proxy as environment; empty without one."""
    try:
        with open(path, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream if "=" in line and not line.startswith("#")]
    except OSError:
        return {}
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """`text` without the user and password that the proxy's address may carry."""
    for value in environment.values():
        secret = urllib.parse.urlsplit(value).netloc.rpartition("@")[0] if "://" in value else ""
        for form in (secret, urllib.parse.unquote(secret), urllib.parse.unquote(secret.partition(":")[2])):
            text = text.replace(form, "(hidden)") if form else text
    return text


def opener(environment: Mapping[str, str]) -> urllib.request.OpenerDirector:
    """What opens addresses, through the proxy where there is one."""
    ways = {scheme: environment[f"{scheme}_proxy"] for scheme in ("http", "https") if f"{scheme}_proxy" in environment}
    return urllib.request.build_opener(urllib.request.ProxyHandler(ways or None))
