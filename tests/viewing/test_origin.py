"""Only pages of the viewer itself may talk to it."""

import http.client
import socket
import urllib.request

import pytest

import dalembert as da
from dalembert.viewing.origin import allowed, only_own_pages

PENDULUM = da.models.load("pendulum")


@pytest.mark.parametrize(
    ("origin", "header", "host", "good"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:8080", "localhost:8080", "127.0.0.1", True),
        ("http://[::1]:8080", "[::1]:8080", "::1", True),
        ("http://192.168.1.7:8080", "192.168.1.7:8080", "0.0.0.0", True),
        ("http://lab.example:8080", "lab.example:8080", "lab.example", True),
        ("http://lab.example", "lab.example", "Lab.example", True),
        (None, "127.0.0.1:8080", "127.0.0.1", True),  # not a browser
        ("http://evil.example", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://127.0.0.1:9090", "127.0.0.1:8080", "127.0.0.1", False),  # another server of this machine
        ("http://evil.example:8080", "evil.example:8080", "127.0.0.1", False),  # a name that points here
        ("http://127.0.0.1.evil.example:8080", "127.0.0.1:8080", "127.0.0.1", False),
        ("null", "127.0.0.1:8080", "127.0.0.1", False),  # a file or a sandboxed frame
        ("", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://[", "127.0.0.1:8080", "127.0.0.1", False),
        ("http://127.0.0.1:8080", None, "127.0.0.1", False),
    ],
)
def test_who_may(origin, header, host, good):
    assert allowed(origin, header, host) is good


def status(port: int, origin: str | None) -> int:
    """The answer to the opening of a web socket."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} | ({"Origin": origin} if origin else {})
    connection.request("GET", "/", headers=headers)
    code = connection.getresponse().status
    connection.close()
    return code


def test_the_viewer_refuses_foreign_pages():
    with da.view(PENDULUM, open_browser=False, block=False) as viewer:
        port = int(viewer.url.rsplit(":", 1)[1])
        assert status(port, "http://evil.example") == 403
        assert status(port, f"http://127.0.0.1:{port + 1}") == 403
        assert status(port, viewer.url) == 101
        assert urllib.request.urlopen(viewer.url, timeout=10).status == 200  # the page itself


def test_an_unguarded_server_is_an_error():
    with pytest.raises(RuntimeError, match="would not be guarded"), only_own_pages("127.0.0.1"):
        pass


def test_bad_hosts_do_not_hang():
    for host in ("no.such.name.invalid", "203.0.113.1", "not a name"):
        with pytest.raises(ValueError, match="cannot listen"):
            da.view(PENDULUM, host=host, open_browser=False, block=False)


def test_the_last_port_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 65535))
        taken.listen()
        with pytest.raises(ValueError, match="no free port"):
            da.view(PENDULUM, port=65535, open_browser=False, block=False)


@pytest.mark.parametrize("port", [-1, 65536, 10**9, 1.5, True, "8080", None])
def test_bad_ports(port):
    with pytest.raises(ValueError, match="port must be"):
        da.view(PENDULUM, port=port, open_browser=False, block=False)
