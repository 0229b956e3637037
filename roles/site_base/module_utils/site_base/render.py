"""The files of site_base, from the role's configuration and the names a system uses. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from ansible.module_utils.host_modules.files import HEAD, File

ENVIRONMENT = "/etc/llmhw/proxy.env"
MANAGER = "/etc/systemd/system.conf.d/50-llmhw-proxy.conf"
PROFILE = "/etc/profile.d/llmhw-proxy.sh"
PIP, UV = "/etc/pip.conf", "/etc/uv/uv.toml"
ASIDE = ".llmhw-aside"


def files(
    config: Mapping[str, Any], paths: Mapping[str, Any], contents: Mapping[str, str], credentials: str = ""
) -> list[File]:
    """Every file but those of blocks in shared files. `contents`: file on the controller to its text."""
    proxy = config.get("proxy")
    found = _certificates(config, paths, contents)
    found += (
        _apt(config, paths, contents) if paths["family"] == "debian" else _dnf(config, paths, contents, credentials)
    )
    found += proxy_files(proxy, paths, credentials) if proxy else []
    if config.get("python_index"):
        found += [
            File(PIP, f"{HEAD}[global]\nindex-url = {config['python_index']}\n"),
            File(UV, f'{HEAD}[[index]]\nurl = "{config["python_index"]}"\ndefault = true\n'),
        ]
    if config["time_servers"]:
        lines = "".join(f"server {server} iburst\n" for server in config["time_servers"])
        found.append(File(paths["chrony_sources"], HEAD + lines))
    return found


def _certificates(config: Mapping[str, Any], paths: Mapping[str, Any], contents: Mapping[str, str]) -> list[File]:
    return [
        File(certificate_path(item["name"], paths), contents[item["file"]].rstrip("\n") + "\n")
        for item in config["certificates"]
    ]


def certificate_path(name: str, paths: Mapping[str, Any]) -> str:
    """Where a CA lies on the host."""
    return f"{paths['certificates']}/llmhw-{name}{paths['certificate_suffix']}"


def _apt(config: Mapping[str, Any], paths: Mapping[str, Any], contents: Mapping[str, str]) -> list[File]:
    found = []
    for mirror in config["apt_mirrors"]:
        keyring = f"{paths['keyrings']}/llmhw-site-{mirror['name']}.asc"
        lines = ["Types: deb", f"URIs: {mirror['uri']}", f"Suites: {' '.join(mirror['suites'])}"]
        lines += [f"Components: {' '.join(mirror['components'])}"] if mirror["components"] else []
        lines += [f"Signed-By: {keyring}"]
        found.append(File(keyring, contents[mirror["key_file"]].rstrip("\n") + "\n"))
        found.append(File(apt_source(mirror["name"], paths), HEAD + "\n".join(lines) + "\n"))
    return found


def apt_source(name: str, paths: Mapping[str, Any]) -> str:
    """The file of an apt source."""
    return f"{paths['sources']}/llmhw-site-{name}.sources"


def _dnf(
    config: Mapping[str, Any], paths: Mapping[str, Any], contents: Mapping[str, str], credentials: str
) -> list[File]:
    found = []
    proxy = config.get("proxy")
    for mirror in config["dnf_mirrors"]:
        keyring = f"{paths['keyrings']}/RPM-GPG-KEY-llmhw-site-{mirror['name']}"
        lines = [f"[llmhw-site-{mirror['name']}]", f"name={mirror['name']}", f"baseurl={mirror['url']}", "enabled=1"]
        lines += ["gpgcheck=1", f"gpgkey=file://{keyring}"]
        if proxy and not direct(mirror["url"], proxy["no_proxy"]):
            lines.append(f"proxy={proxy['url']}")
            user, _, password = credentials.partition(":")
            lines += [f"proxy_username={user}", f"proxy_password={password}"] if credentials else []
        found.append(File(keyring, contents[mirror["key_file"]].rstrip("\n") + "\n"))
        path = f"{paths['sources']}/llmhw-site-{mirror['name']}.repo"
        found.append(File(path, HEAD + "\n".join(lines) + "\n", 0o600 if credentials and proxy else 0o644))
    return found


def direct(url: str, no_proxy: list[str]) -> bool:
    """Whether a host is reached without the proxy."""
    host = urlsplit(url).hostname or ""
    return any(host == item or host.endswith("." + item.lstrip("*.")) for item in no_proxy)


def with_credentials(url: str, credentials: str) -> str:
    """The proxy's address with user and password in it, encoded."""
    if not credentials:
        return url
    user, _, password = credentials.partition(":")
    parts = urlsplit(url)
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
    return urlunsplit((parts.scheme, netloc, parts.path, "", ""))


def forms(credentials: str) -> set[str]:
    """Every text that would give the credentials away, for what an error message might quote."""
    user, _, password = credentials.partition(":")
    encoded = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return {credentials, password, encoded, quote(password, safe="")} - {"", ":"}


def proxy_files(proxy: Mapping[str, Any], paths: Mapping[str, Any], credentials: str) -> list[File]:
    """With credentials only files of root that nobody else reads; without, everybody is told the way out."""
    url = with_credentials(proxy["url"], credentials)
    direct_hosts = ",".join(["localhost", "127.0.0.1", "::1", *proxy["no_proxy"]])
    mode = 0o600 if credentials else 0o644
    variables = {"http_proxy": url, "https_proxy": url, "no_proxy": direct_hosts}
    variables.update({name.upper(): value for name, value in list(variables.items())})
    found = [File(ENVIRONMENT, HEAD + "".join(f"{key}={value}\n" for key, value in variables.items()), mode)]
    if paths["proxy"]:
        lines = [f'Acquire::{scheme}::Proxy "{url}";' for scheme in ("http", "https")]
        names = [name for name in proxy["no_proxy"] if "/" not in name and "*" not in name]
        lines += [f'Acquire::{scheme}::Proxy::{name} "DIRECT";' for name in names for scheme in ("http", "https")]
        found.append(File(paths["proxy"], HEAD.replace("#", "//") + "\n".join(lines) + "\n", mode))
    if credentials:  # never in what every process inherits
        return [*found, File(MANAGER, None), File(PROFILE, None)]
    values = " ".join(f'"{key}={value}"' for key, value in variables.items()).replace("%", "%%")
    exports = "".join(f"export {key}='{value}'\n" for key, value in variables.items())
    return [*found, File(MANAGER, f"{HEAD}[Manager]\nDefaultEnvironment={values}\n"), File(PROFILE, HEAD + exports)]
