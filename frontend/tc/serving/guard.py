"""Checks before the endpoints: who may ask, and by which host name; and the log of requests."""

import contextlib
import hmac
import sys
import time

from starlette.requests import ClientDisconnect

from ..errors import printable
from ..http_access import Lines, is_allowed
from .application import GONE, answer_to
from .requests import Refusal

_OPEN = ("/health",)  # paths that need no token
_ENDPOINTS = ("/v1/completions", "/v1/chat/completions", "/v1/models", "/health", "/metrics")


class Guard:
    """An ASGI application that wraps the service's."""

    def __init__(self, service, token, hosts):
        self.service, self._application = service, service.application()
        self._token = token and f"bearer {token}".encode()
        self._hosts = {host.lower() for host in hosts}
        self._metrics, self._lines = service.metrics, Lines()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        begin, status = time.monotonic(), GONE

        async def watched(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refusal = self._refusal(scope)
            # Starlette raises an unexpected error again after its handler has answered it.
            await (answer_to(refusal) if refusal else self._application)(scope, receive, watched)
        except ClientDisconnect:
            status = GONE
        except Exception as exception:
            status = 500
            self._say(f"internal error: {type(exception).__name__}: {exception}")
        finally:
            self._tell(scope, status, time.monotonic() - begin)

    def _refusal(self, scope):
        """Why a request is refused, or None."""
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = headers.get(b"host", [])
        if len(host) != 1 or not is_allowed(host[0].decode("latin-1"), self._hosts):
            shown = printable(b", ".join(host).decode("latin-1"))
            return Refusal(
                403,
                f"the Host header is '{shown}', which is no name of this server; "
                "--allow-host NAME adds one",
            )
        if self._token is None or scope["path"] in _OPEN:
            return None
        given = headers.get(b"authorization", [])
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        if hmac.compare_digest(scheme.lower() + b" " + token.strip(), self._token):
            return None
        return Refusal(
            401,
            "the token is missing or wrong; give the one of the server's start "
            "with the header Authorization: Bearer TOKEN",
            code="invalid_api_key",
            headers={"www-authenticate": "Bearer"},
        )

    def _tell(self, scope, status, seconds):
        path = scope["path"]
        endpoint = "/v1/models" if path.startswith("/v1/models/") else path
        endpoint = endpoint if endpoint in _ENDPOINTS else "other"
        self._metrics.requests.labels(endpoint, str(status)).inc()
        client = (scope.get("client") or ("?",))[0]
        line = f"{client} {scope['method']} {path} {status} {seconds:.3f} s"
        self._say(line if status < 400 else self._lines.add(line))

    def _say(self, line):
        if line is not None:
            with contextlib.suppress(OSError, ValueError):
                print(f"tc serve: {printable(line, 400)}", file=sys.stderr, flush=True)
