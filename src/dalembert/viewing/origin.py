"""Who may talk to the live viewer: pages that it served itself, on this machine or at the address that was asked for.

Every page of a browser may open a web socket to 127.0.0.1. The browser says whose page it is (Origin), and the server of the
viewer does not look, so that is done here, where the server is made.
"""

from __future__ import annotations

import inspect
import ipaddress
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

_lock = threading.Lock()


def allowed(origin: str | None, host_header: str | None, host: str) -> bool:
    """May a page of this origin connect to a server that the request calls `host_header` and that listens at `host`?

    A page may talk to the server that it came from. The name of that server must be a number, localhost or `host`: any
    other name could be somebody else's that points here. No origin: not a browser.

    >>> allowed("http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1")
    True
    >>> allowed("http://elsewhere.example", "127.0.0.1:8080", "127.0.0.1")
    False
    """
    if origin is None:
        return True
    try:
        page = urlsplit(origin)
        here = urlsplit(f"//{host_header or ''}")
        if page.hostname is None or (page.hostname, page.port or 80) != (here.hostname, here.port or 80):
            return False
    except ValueError:
        return False
    if here.hostname in ("localhost", host.lower()):
        return True
    try:
        ipaddress.ip_address(here.hostname or "")
    except ValueError:
        return False
    return True


@contextmanager
def only_own_pages(host: str) -> Iterator[None]:
    """While this holds, a web server that starts answers web sockets of foreign pages with 403."""
    import websockets.asyncio.server as library
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    serve = library.serve
    guarded = False

    def guarding(handler: Any, *args: Any, **options: Any) -> Any:
        nonlocal guarded
        guarded = True
        inner = options.pop("process_request", None)

        async def process_request(connection: Any, request: Any) -> Any:
            socket = "websocket" in request.headers.get("Upgrade", "").lower()
            if socket and not allowed(request.headers.get("Origin"), request.headers.get("Host"), host):
                return Response(403, "Forbidden", Headers(), b"this page may not talk to the viewer\n")
            answer = None if inner is None else inner(connection, request)
            return await answer if inspect.isawaitable(answer) else answer

        return serve(handler, *args, process_request=process_request, **options)

    with _lock:
        library.serve = guarding  # type: ignore[assignment, misc]
        try:
            yield
        finally:
            library.serve = serve  # type: ignore[misc]
    if not guarded:
        raise RuntimeError("this version of viser starts its server in another way: the viewer would not be guarded")
