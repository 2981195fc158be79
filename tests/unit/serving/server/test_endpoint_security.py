"""TLS, client certificates and the token, on both ports."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from transload.models.errors import BadRequest, SessionLost
from transload.serving.clients import (
    oip_grpc_client,
    oip_http_client,
    tfserving_grpc_client,
    tfserving_rest_client,
)
from transload.serving.clients.http_link import Link
from transload.serving.endpoint_security import EndpointSecurity, check_host, read_security
from transload.serving.server.embedded import listen
from transload.serving.server.repository.model_repository import hold_session
from transload.serving.wire.tensor_proto import decode_all, encode
from transload.serving.wire.tfserving_messages import stock

TOKEN = "0123456789abcdef" * 2
UNAUTHENTICATED = "the request needs the server's bearer token"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost and its key, a client's, the authority of both, and a token."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", "2", "-extfile", "names",
        )  # fmt: skip
    (folder / "token").write_text(f"{TOKEN}\n")
    return folder


@pytest.fixture
def serving(one_session: Any) -> Callable[[EndpointSecurity], Any]:
    @contextmanager
    def serve(security: EndpointSecurity) -> Iterator[dict[str, str]]:
        server = listen(hold_session("m", one_session()), "127.0.0.1", 0, 0, security)
        yield server.addresses()
        server.close()

    return serve


def ask_http(address: str, context: ssl.SSLContext | None, token: str = "", path: str = "/v1/models/m:predict") -> int:
    link = (
        http.client.HTTPConnection(address, timeout=60)
        if context is None
        else http.client.HTTPSConnection(address, timeout=60, context=context)
    )
    fields = {"Authorization": f"Bearer {token}"} if token else {}
    body = '{"inputs": [[1, 2]]}' if path.endswith(":predict") else None
    with closing(link):
        link.request("GET" if body is None else "POST", path, body, fields)
        reply = link.getresponse()
        data = reply.read()
    if reply.status == 401:
        assert UNAUTHENTICATED in data.decode()
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    return reply.status


def ask_grpc(address: str, credentials: Any, token: str = "", method: str = "") -> Any:
    channel = grpc.insecure_channel(address) if credentials is None else grpc.secure_channel(address, credentials)
    message = stock().PredictRequest()
    message.model_spec.name = "m"
    encode(np.ones((1, 2), np.float32), message.inputs["x"])
    fields = (("authorization", f"Bearer {token}"),) if token else ()
    with channel:
        if method:
            return channel.unary_unary(method)(b"", timeout=60, metadata=fields)
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        reply = call(message.SerializeToString(), timeout=60, metadata=fields)
    return decode_all(stock().PredictResponse.FromString(reply).outputs)["y"].tolist()


def test_both_ports_speak_tls_and_nothing_else(files: Path, serving: Any) -> None:
    security = read_security(files / "server.pem", files / "server.key", None, None)
    trusted = ssl.create_default_context(cafile=files / "ca.pem")
    with serving(security) as addresses:
        assert ask_http(addresses["rest"], trusted) == 200
        assert ask_grpc(addresses["grpc"], grpc.ssl_channel_credentials((files / "ca.pem").read_bytes())) == [[2, 2]]
        with pytest.raises(ssl.SSLCertVerificationError):
            ask_http(addresses["rest"], ssl.create_default_context())
        with pytest.raises((http.client.HTTPException, OSError)):
            ask_http(addresses["rest"], None)
        with pytest.raises(grpc.RpcError):
            ask_grpc(addresses["grpc"], None)


def test_clients_need_a_certificate_of_the_authority(files: Path, serving: Any) -> None:
    security = read_security(files / "server.pem", files / "server.key", files / "ca.pem", None)
    known, unknown = (ssl.create_default_context(cafile=files / "ca.pem") for _ in range(2))
    known.load_cert_chain(files / "client.pem", files / "client.key")
    contents = [(files / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")]
    with serving(security) as addresses:
        assert ask_http(addresses["rest"], known) == 200
        assert ask_grpc(addresses["grpc"], grpc.ssl_channel_credentials(*contents)) == [[2, 2]]
        with pytest.raises((http.client.HTTPException, OSError)):
            ask_http(addresses["rest"], unknown)
        with pytest.raises(grpc.RpcError):
            ask_grpc(addresses["grpc"], grpc.ssl_channel_credentials(contents[0]))


def test_requests_need_the_token_and_probes_do_not(files: Path, serving: Any) -> None:
    with serving(read_security(None, None, None, files / "token")) as addresses:
        assert ask_http(addresses["rest"], None, TOKEN) == 200
        assert ask_grpc(addresses["grpc"], None, TOKEN) == [[2, 2]]
        for token in ("", TOKEN[:-1], TOKEN + "x", "é"):
            assert ask_http(addresses["rest"], None, token) == 401
        for path, status in (("/healthz", 200), ("/v2/health/ready", 200), ("/v1/models/m", 401), ("/v2", 401)):
            assert ask_http(addresses["rest"], None, path=path) == status
        for token in ("", TOKEN[:-1]):
            with pytest.raises(grpc.RpcError, match=re.escape(UNAUTHENTICATED)) as caught:
                ask_grpc(addresses["grpc"], None, token)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError, match=re.escape(UNAUTHENTICATED)):
            ask_grpc(addresses["grpc"], None, method="/inference.GRPCInferenceService/ServerLive")
        assert ask_grpc(addresses["grpc"], None, method="/grpc.health.v1.Health/Check") == b"\x08\x01"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("server.pem", None, None, None), "TLS needs a certificate and its key"),
        ((None, None, "ca.pem", None), "certificates of clients need TLS"),
        (("server.pem", "client.key", None, None), "the files of TLS cannot be used: KEY_VALUES_MISMATCH"),
        (("token", "server.key", None, None), "the files of TLS cannot be used"),
        (("none", "server.key", None, None), "none cannot be read: No such file or directory"),
        ((None, None, None, "names"), "holds no token of 16 or more"),
    ],
)
def test_files_that_do_not_serve_are_refused(names: tuple[str | None, ...], words: str, files: Path) -> None:
    with pytest.raises(BadRequest, match=words):
        read_security(*(None if name is None else files / name for name in names))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_alone_needs_no_tls(host: str) -> None:
    check_host(host, EndpointSecurity(), insecure=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])  # noqa: S104
def test_an_address_of_other_networks_needs_tls_or_a_word(host: str, files: Path) -> None:
    with pytest.raises(BadRequest, match="is open to other machines"):
        check_host(host, EndpointSecurity(), insecure=False)
    check_host(host, EndpointSecurity(), insecure=True)
    check_host(host, read_security(files / "server.pem", files / "server.key", None, None), insecure=False)


CLIENTS = {
    "rest": (tfserving_rest_client, oip_http_client),
    "grpc": (tfserving_grpc_client, oip_grpc_client),
}


def test_our_clients_speak_tls_and_bring_the_token(
    files: Path, serving: Any, monkeypatch: pytest.MonkeyPatch, one: Any
) -> None:
    security = read_security(files / "server.pem", files / "server.key", None, files / "token")
    feeds = {"x": np.ones((1, 2), np.float32)}
    with serving(security) as addresses:
        for service, scheme in (("rest", "https"), ("grpc", "grpcs")):
            for client in CLIENTS[service]:
                address = f"{scheme}://{addresses[service]}"
                monkeypatch.setenv("TRANSLOAD_TOKEN", TOKEN)
                monkeypatch.setenv("SSL_CERT_FILE", str(files / "ca.pem"))
                with closing(client.open_session(address, "m", one.session.signature, 5)) as session:
                    np.testing.assert_array_equal(session.run(feeds)["y"], [[2, 2]])
                monkeypatch.delenv("TRANSLOAD_TOKEN")
                with pytest.raises(BadRequest, match=f"refuses the caller: {UNAUTHENTICATED}"):
                    client.open_session(address, "m", one.session.signature, 5)
                monkeypatch.delenv("SSL_CERT_FILE")
                with pytest.raises(SessionLost, match="gives no answer"):
                    client.open_session(address, "m", one.session.signature, 5)


@pytest.mark.parametrize("client", [module for modules in CLIENTS.values() for module in modules])
def test_no_token_goes_over_a_plain_connection(client: Any, one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSLOAD_TOKEN", TOKEN)
    with pytest.raises(BadRequest, match=r"the token of TRANSLOAD_TOKEN could be read on its way to 192.0.2.1:80"):
        client.open_session("192.0.2.1:80", "m", one.session.signature, 5)


@pytest.mark.parametrize(("name", "words"), [("token", "holds no certificates"), ("missing", "cannot be read")])
def test_authorities_that_are_none(name: str, words: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files / name))
    with pytest.raises(BadRequest, match=rf"SSL_CERT_FILE\S* {words}"):
        Link("https://localhost:443", 5)


PAGES = [  # the fields of a request, and whether a server on 127.0.0.1 without a token answers it
    ({}, True),
    ({"Host": "localhost:1"}, True),
    ({"Host": "127.0.0.1:1", "Content-Type": "application/x-www-form-urlencoded"}, True),  # curl -d
    ({"Host": "[::1]:1", "Content-Type": "application/json"}, True),
    ({"Host": "localhost:1", "Origin": "http://localhost:1"}, True),
    ({"Host": "listed.example", "Origin": "https://listed.example"}, True),
    ({"Host": "localhost:1", "Origin": "https://listed.example"}, True),
    ({"Host": "listed.example"}, True),  # a proxy on this machine that passes the name on
    ({"Host": "localhost:1", "Origin": "http://localhost:3000"}, False),
    ({"Host": "localhost:1", "Origin": "null"}, False),
    ({"Host": "localhost:1", "Origin": ""}, False),
    ({"Host": "localhost:1", "Origin": "https://evil.example"}, False),
    ({"Host": "localhost:1", "Origin": "https://listed.example.evil.example"}, False),
    ({"Host": "127.0.0.1:1", "Origin": "http://203.0.113.5:1"}, False),
    ({"Host": "evil.example:1"}, False),  # a name that was bound to 127.0.0.1 after the page was loaded
    ({"Host": "evil.example:1", "Origin": "http://evil.example:1"}, False),
    ({"Host": "127.0.0.1.evil.example"}, False),
    ({"Content-Type": "text/plain"}, False),
    ({"Content-Type": " Text/Plain; charset=utf-8"}, False),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "answered"), PAGES, ids=range(len(PAGES)))
@pytest.mark.parametrize("token", [None, TOKEN.encode()])
def test_a_web_page_gets_no_answer_without_a_token(
    serving: Callable[[EndpointSecurity], Any], fields: dict[str, str], token: bytes | None, *, answered: bool
) -> None:
    security = EndpointSecurity(token=token, origins=frozenset({b"https://listed.example"}))
    with serving(security) as addresses:
        bearer = {"Authorization": f"Bearer {TOKEN}"} if token else {}
        for method, path, body in (
            ("POST", "/v1/models/m:predict", '{"inputs": [[1, 2]]}'),
            ("GET", "/v1/models/m", None),
        ):
            with closing(http.client.HTTPConnection(addresses["rest"], timeout=60)) as link:
                link.request(method, path, body, {**fields, **bearer})
                reply = link.getresponse()
                text = reply.read()
            assert reply.status == (200 if answered or token else 403), text
            allowed = reply.headers["access-control-allow-origin"]
            assert allowed == (fields["Origin"] if fields.get("Origin", "")[8:] == "listed.example" else None)
        status = ask_http(addresses["rest"], None, TOKEN, "/v2/health/live")
    assert status == 200


def test_a_listed_page_is_told_before_it_asks(serving: Callable[[EndpointSecurity], Any]) -> None:
    for token in (None, TOKEN.encode()):
        with serving(EndpointSecurity(token=token, origins=frozenset({b"https://listed.example"}))) as addresses:
            for origin, status in (("https://listed.example", 204), ("https://evil.example", None)):
                with closing(http.client.HTTPConnection(addresses["rest"], timeout=60)) as link:
                    asked = {
                        "Access-Control-Request-Method": "POST",
                        "Access-Control-Request-Headers": "x-a, content-type",
                    }
                    link.request("OPTIONS", "/v1/models/m:predict", None, {"Origin": origin, **asked})
                    reply = link.getresponse()
                    reply.read()
                assert (reply.status == 204) is (status == 204)
                assert reply.headers["access-control-allow-origin"] == (origin if status else None)
                if status:
                    assert reply.headers["access-control-allow-methods"] == "GET, POST"
                    assert reply.headers["access-control-allow-headers"] == "x-a, content-type"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7"])  # noqa: S104
def test_behind_another_address_names_are_not_known(host: str) -> None:
    """Of a container or a cluster; a page still has to be listed, whatever its name is bound to."""
    security = EndpointSecurity(host=host)
    assert not security.fault_of_page({b"host": b"models.default.svc:8501"})
    assert security.fault_of_page({b"host": b"evil.example", b"origin": b"http://evil.example"})


@pytest.mark.parametrize("origin", ["example.com", "https://example.com/", "https://Example.com", "*", "null", ""])
def test_an_origin_is_as_browsers_write_it(origin: str) -> None:
    with pytest.raises(BadRequest, match="no origin of web pages"):
        read_security(None, None, None, None, origins=[origin])
