"""Detection of remote access to this server, the basis of all defaults.

A server that listens only on its own machine is still reachable for others through a proxy, a
tunnel or a hosted workspace. Most of them are detected from the environment before the start, the
rest from a request that a proxy forwarded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

REACH, NAMES = "TRANSFORMER_VIZ_REACH", "TRANSFORMER_VIZ_NAMES"
AUTO, MACHINE, OTHERS = "auto", "machine", "others"
ADDRESS = "STREAMLIT_SERVER_ADDRESS"  # address that the app listens on
PASSED_ON = "TRANSFORMER_VIZ_PASSED_ON"  # set by the server itself: a proxy forwarded a request
#: Headers that proxies add to forwarded requests.
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
#: Options of Streamlit that indicate a proxy, or remote browsers.
PROXY_OPTIONS = {
    "STREAMLIT_SERVER_BASE_URL_PATH": "server.baseUrlPath",
    "STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": "server.corsAllowedOrigins",
    "STREAMLIT_SERVER_TRUSTED_USER_HEADERS": "server.trustedUserHeaders",
    "STREAMLIT_SERVER_SSL_CERT_FILE": "server.sslCertFile",
}
BROWSERS = "STREAMLIT_BROWSER_SERVER_ADDRESS"  # address that browsers use
OPTIONS = {ADDRESS: "server.address", BROWSERS: "browser.serverAddress"} | PROXY_OPTIONS
PROXIES = ("FORWARDED_ALLOW_IPS", *PROXY_OPTIONS)
#: Variables of hosts that forward requests to a port of the machine, by the host's name.
HOSTS = {
    "GitHub Codespaces": ("CODESPACES",),
    "Gitpod": ("GITPOD_WORKSPACE_ID",),
    "JupyterHub": ("JUPYTERHUB_API_URL", "JUPYTERHUB_SERVICE_PREFIX"),
    "Binder": ("BINDER_SERVICE_HOST", "BINDER_REPO_URL", "BINDER_REF_URL"),
    "Google Colab": ("COLAB_RELEASE_TAG", "COLAB_GPU"),
    "Kaggle": ("KAGGLE_KERNEL_RUN_TYPE",),
    "Google Cloud Shell": ("CLOUD_SHELL", "DEVSHELL_PROJECT_ID"),
    "Deepnote": ("DEEPNOTE_PROJECT_ID",),
    "SageMaker": ("SAGEMAKER_INTERNAL_IMAGE_URI", "SAGEMAKER_APP_TYPE"),
    "Lightning": ("LIGHTNING_CLOUD_SPACE_ID",),
    "Hugging Face Spaces": ("SPACE_ID", "SPACE_HOST"),
    "Replit": ("REPL_ID",),
    "Heroku": ("DYNO",),
    "Cloud Run": ("K_SERVICE",),
    "Render": ("RENDER",),
    "Fly.io": ("FLY_APP_NAME",),
    "Railway": ("RAILWAY_ENVIRONMENT", "RAILWAY_ENVIRONMENT_NAME"),
    "Azure App Service": ("WEBSITE_SITE_NAME",),
    # Containers of one pod or task share their loopback addresses, and a proxy may be one of them.
    "Kubernetes": ("KUBERNETES_SERVICE_HOST",),
    "Amazon ECS": ("ECS_CONTAINER_METADATA_URI", "ECS_CONTAINER_METADATA_URI_V4"),
}
UNSET = ("", "[]", "{}", "None")
#: Function that reads an option of the Streamlit server, which may come from flags and files.
option: Callable[[str], object] | None = None


def reason(given: Mapping[str, str] | None = None) -> str:
    """Return the reason why others can reach the server; empty if only its own machine can.

    The owner's setting (``TRANSFORMER_VIZ_REACH``) takes precedence over all evidence.

    Args:
        given: Environment to evaluate; by default that of this process.
    """

    def value(name: str) -> str:
        found = _found(name) if given is None else given.get(name, "")
        return "" if found.strip() in UNSET else found.strip()

    stated = value(REACH)
    if stated == MACHINE:
        return ""
    if stated and stated != AUTO:
        return f"{REACH} is {stated[:20]}"
    if not is_loopback(value(ADDRESS)):
        return f"it listens on {value(ADDRESS)[:80] or 'every address'}"
    if value(NAMES):
        return f"browsers know it as {value(NAMES)[:80]}"
    if value(BROWSERS) and not is_loopback(value(BROWSERS)):
        return f"{BROWSERS} is {value(BROWSERS)[:80]}"
    for name in PROXIES:
        if value(name):
            return f"{name} is set, as behind a proxy"
    for host, names in HOSTS.items():
        if any(map(value, names)):
            return f"{host} passes requests on to it"
    return value(PASSED_ON)


def _found(name: str) -> str:
    """Return a variable of this process, or the option of Streamlit that overrides it."""
    if option is not None and name in OPTIONS:
        return str(option(OPTIONS[name]) or "")
    return os.environ.get(name, "")


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def note_request(peer: str, headers: Mapping[str, str]) -> None:
    """Record a request that a proxy forwarded to a server that listens only on its own machine.

    Args:
        peer: Address of the client, as read by the server below.
        headers: Headers of the request, names in lower case.
    """
    if PASSED_ON in os.environ:
        return
    if peer and not is_loopback(peer):
        os.environ[PASSED_ON] = f"a proxy passed on a request of {peer[:60]}"
        return
    for name in FORWARDED:
        if headers.get(name) and not _is_own(headers[name]):
            os.environ[PASSED_ON] = f"a proxy passed on a request ({name})"
            return
    if not is_own_name(headers.get("host", "localhost")):
        os.environ[PASSED_ON] = "a proxy passed on a request by another name"


def is_own_name(host: str) -> bool:
    """Return True if a Host header names this machine as only its own browsers do."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    return is_loopback(name) or name.endswith(".localhost")


def _is_own(text: str) -> bool:
    """Return True if a header contains loopback addresses only, as our own balancer writes it."""
    return all(is_loopback(one.strip()) for one in text.split(","))
