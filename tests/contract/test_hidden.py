"""No secret is shown: in URLs of any form, as a server or a library repeats it, in logs; and names stay readable."""

import base64
import json
import logging
import re
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardfeed.errors import StorageError, UsageError
from shardfeed.hidden import logs_without_secrets, without_secrets
from shardfeed.storage.address import check_url

pytestmark = pytest.mark.promise(76)

TOKEN = "hf_secretofthetests/+and:more@of\\it"
MARK = "SECRET"
AROUND = st.text("ab1/\\@:#?;= +'\"%.-~", max_size=6)
SECRETS = st.builds("{0}SECRET{1}".format, AROUND, AROUND)
PLAIN = st.builds("{0}SECRET{1}".format, st.text("ab1@/\\:", max_size=6), st.text("ab1@/\\:", max_size=6))


def shown(address: str) -> str:
    """An error of that place, as it is printed, and of one that quotes it."""
    return f"{UsageError(address, 'is not right')} {StorageError('x', f'got {address!r}, expected another')!r}"


@example("http", "@://SECRET/", "")
@example("s3", "@a://SECRET/", "/d")
@given(st.sampled_from(["http", "https", "s3", "gs", "az", "ftp"]), PLAIN, st.sampled_from(["", "/d", "/d/e.jpg"]))
def test_a_password_is_never_shown(scheme: str, secret: str, path: str) -> None:
    """Also with slashes, backslashes, colons and "@" in it."""
    assert MARK not in shown(f"{scheme}://user:x{secret}@host{path}")


@given(st.sampled_from(["http", "s3"]), SECRETS)
def test_nor_one_with_spaces_and_quotes_where_an_address_is_expected(scheme: str, secret: str) -> None:
    assert MARK not in str(UsageError(f"{scheme}://user:x{secret}@host/d", "is not right"))


@given(st.sampled_from("?#;\\"), SECRETS, st.sampled_from(["http", "https"]))
def test_what_follows_the_path_of_a_web_address_is_never_shown(mark: str, secret: str, scheme: str) -> None:
    assert MARK not in str(UsageError(f"{scheme}://host/d{mark}{secret}", "is not right"))
    assert MARK not in str(UsageError(f"{scheme}://host/d {mark}{secret}", "is not right"))
    plain = re.sub("['\" ]", "", secret)
    assert MARK not in shown(f"{scheme}://host/d{mark}{plain}")


@given(st.sampled_from("?#;"), st.sampled_from(["s3", "gs", "az", "hf"]), st.text("ab/", max_size=5))
def test_nor_a_signature_of_an_object(mark: str, scheme: str, name: str) -> None:
    assert MARK not in shown(f"{scheme}://bucket/{name} C# {mark}sig={MARK}")


@pytest.mark.parametrize(
    "address",
    [
        "hf://datasets/u:SECRET@x/y",
        "hf://datasets/SECRET@x/y",
        "hf://SECRET@datasets/x/y",
        "hf://u:SEC/RET/SECRET@datasets/x/y",
        "hf://datasets/u/r:SE/CR/SECRET@main/d",
        "http://h/d\\@SECRET",
        "http://h/d #SECRET",
        "http://[::1]:80/d?SECRET",
        "http://u:SECRET@[::1]:80/d",
    ],
)
def test_secrets_that_were_shown(address: str) -> None:
    assert MARK not in shown(address)
    with pytest.raises(UsageError) as raised:
        check_url(address, "write it without")
    assert MARK not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "hf://datasets/user/repository@main/a@b.jpg",
        "hf://datasets/user/repository/a@b#1;c?.jpg",
        "s3://bucket/mail@me/C#/what?;.jpg: gone; renew it, me@host",
        "s3://bucket: gone; write to me@host",
        "http://host:80: no answer, me@host",
        "http://host:80/a@b/c.jpg, row 5",
        "http://[::1]:9000/a@b",
        "/data/me@x?a=b#c;d",
        "a:b@c#d?e=f;g",
    ],
)
def test_names_stay_readable(text: str) -> None:
    assert without_secrets(text) == text


def spellings(secret: str) -> list[str]:
    """A secret as requests, answers and logs have it."""
    basic = [base64.b64encode(b"u" * before + secret.encode() + b":").decode() for before in range(4)]
    return [secret, quote(secret), quote(secret, safe=""), json.dumps(secret), repr(secret), *basic]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_KEY",
        ),
        *("AZURE_CLIENT_SECRET", "GOOGLE_SERVICE_ACCOUNT_KEY", "AWS_ENDPOINT_URL", "HTTPS_PROXY"),
    ],
)
def test_secrets_of_the_environment_in_any_text(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    value = f"http://user:{TOKEN}@host" if name.endswith(("URL", "PROXY")) else TOKEN
    value = json.dumps({"private_key": TOKEN, "type": "service_account"}) if name.startswith("GOOGLE") else value
    monkeypatch.setenv(name, value)
    for text in spellings(TOKEN):
        error = StorageError(text, f"said: header {text} is bad", text)
        for part in (*error.args, str(error)):
            assert "secretofthetests" not in part
            assert base64.b64encode(b"secretofthetests").decode()[:12] not in part
        assert "is bad" in error.problem
    assert "service_account" in without_secrets("of a service_account")


def test_a_place_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN_PATH", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.setenv(name, "/run/secrets/token")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "minioadmin")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    text = "/run/secrets/token: no such file; minioadmin, http://proxy:3128"
    assert without_secrets(text) == text


def test_libraries_log_without_secrets(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    log = logging.getLogger("huggingface_hub.utils.http")
    with logs_without_secrets():
        log.warning("retry of %s: %s", "http://u:pw@host/d?sig=x", {"authorization": f"Bearer {TOKEN}"})
        try:
            raise ValueError(TOKEN)
        except ValueError:
            log.exception("failed")
    assert "retry of http://host/d" in caplog.text
    assert not re.search("secretofthetests|pw|sig=", caplog.text)
    log.warning("as before: %s", TOKEN)
    assert TOKEN in caplog.text
