"""Where a program reads, and as whom: the variables of its environment that decide this.

A client sends them over the fetcher's socket, which only processes of its user can open. They are never stored.
"""

import hashlib
import os
import re

_ACCESS = re.compile(
    r"(AWS|GOOGLE|AZURE|HF|IDENTITY|MSI)_\w+|SERVICE_ACCOUNT|HOME|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)"
    r"|(REQUESTS|CURL)_CA_BUNDLE",
    re.IGNORECASE,
)
# Servers, accounts, and files of credentials; no secret, and nothing that renewing credentials changes.
_LASTING = re.compile(
    r"\w+_(ENDPOINT\w*|BASE_URL|PROFILE|ROLE_ARN|(SERVICE_)?ACCOUNT|ACCOUNT_NAME|(CLIENT|TENANT)_ID|CREDENTIALS|HOME"
    r"|\w*(FILE|PATH)|SKIP_SIGNATURE)|SERVICE_ACCOUNT|HOME"
)
_SESSION = ("AWS_SESSION_TOKEN", "AWS_TOKEN")  # of temporary credentials, each of which has another access key ID


def access() -> dict[str, str]:
    """Return this process's variables; with secrets."""
    return {name: value for name, value in os.environ.items() if _ACCESS.fullmatch(name)}


def use(given: dict[str, str]) -> None:
    """Make the variables of another process this one's."""
    for name in access().keys() - given:
        del os.environ[name]
    os.environ.update(given.items() - access().items())  # only these: other threads may be reading the environment


def identity(given: dict[str, str]) -> str:
    """Return a hash of the place and the account, without secrets; the same once credentials are renewed."""
    lasting = {name: value for name, value in given.items() if value and _LASTING.fullmatch(name)}
    if not any(map(given.get, _SESSION)):
        lasting["AWS_ACCESS_KEY_ID"] = given.get("AWS_ACCESS_KEY_ID", "")
    return hashlib.blake2b(repr(sorted(lasting.items())).encode(), digest_size=8).hexdigest()
