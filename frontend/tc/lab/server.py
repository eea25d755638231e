"""The lab's server: pages, the stream of changes, and who may see them."""

import asyncio
import contextlib
import hashlib
import hmac
import json
import pathlib
import sys
import time
import urllib.parse

from ..errors import Error, error_of, printable
from ..http_access import Lines, is_allowed, listener, token_of
from ..reporting.style import STYLE
from . import metrics
from .page import Missing, page
from .query import Query, address
from .views import budget, comparing, devices, kernel, models, progress, records

try:
    import uvicorn

    from ..http_server import SignalServer
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.responses import (
        HTMLResponse,
        PlainTextResponse,
        RedirectResponse,
        Response,
        StreamingResponse,
    )
    from starlette.routing import Route
except ImportError:
    raise Error(
        "the lab is served by the packages starlette and uvicorn, of which one is not installed "
        "here: pip install 'tc-compiler[lab]'"
    ) from None

TOKEN_VARIABLE = "TC_LAB_TOKEN"
_MOST_STREAMS, _MOST_CONNECTIONS = 64, 256
_LOOK_SECONDS, _PING_SECONDS = 0.1, 15.0
_LONGEST_ADDRESS = 16_000  # bytes of path and query
_PAGE_SECONDS = 20  # after which a page is made anew, since it tells how long ago something was
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" '
    'fill="#1f5fc4"/><path d="M3 12V9h3V6h3V3h4" fill="none" stroke="#fff" stroke-width="2"/></svg>'
)
# {path: view}; a view takes the lab and the query, and returns a title and sections.
_VIEWS = {
    "/": progress.progress,
    "/kernels": progress.kernels,
    "/failures": records.failures,
    "/devices": devices.devices,
    "/budget": budget.budget,
    **{path: models.model_view(path) for path in models.PATHS},
    "/history": comparing.history,
    "/compare": comparing.compare,
    "/records": records.records,
}


class Pages:
    """The lab as a Starlette application."""

    def __init__(self, lab):
        self.lab = lab
        self.is_ending = False
        self._streams = 0
        folder = pathlib.Path(__file__).parent
        self._style = STYLE + (folder / "lab.css").read_text(encoding="utf-8")
        self._script = (folder / "lab.js").read_text(encoding="utf-8")

    def end(self):
        """Ends the streams."""
        self.is_ending = True

    def application(self):
        routes = [Route(path, self._endpoint(path, view)) for path, view in _VIEWS.items()]
        routes += [
            Route("/kernel/{kernel}", self.kernel),
            Route("/kernel/{kernel}/code", self.code),
            Route("/record/{number:int}", self.record),
            Route("/events", self.events),
            Route("/metrics", self.metrics),
            Route("/lab.css", self._file(self._style, "text/css")),
            Route("/lab.js", self._file(self._script, "text/javascript")),
            Route("/icon.svg", self._file(_ICON, "image/svg+xml")),
        ]
        return Starlette(
            routes=routes,
            exception_handlers={HTTPException: _refused, Missing: _missing, Exception: _failed},
        )

    def _file(self, text, kind):
        async def answer(request):
            return Response(text, media_type=kind)

        return answer

    def _endpoint(self, path, view):
        async def answer(request):
            return await self._page(request, path, view)

        return answer

    async def kernel(self, request):
        name = request.path_params["kernel"]
        return await self._page(
            request, "/kernel", lambda lab, query: kernel.kernel(lab, query, name)
        )

    async def code(self, request):
        name = request.path_params["kernel"]
        return await self._page(
            request, "/kernel", lambda lab, query: kernel.code(lab, query, name)
        )

    async def record(self, request):
        number = request.path_params["number"]
        return await self._page(
            request, "/record", lambda lab, query: records.record(lab, query, number)
        )

    async def _page(self, request, path, view):
        query = Query(request.query_params.multi_items())

        def text():
            version = self.lab.version

            def made():
                with self.lab.locked():
                    return page(self.lab, path, version, view(self.lab, query), query)

            state = version, int(time.monotonic() / _PAGE_SECONDS)
            return self.lab.made((request.url.path, query.key), state, made)

        return HTMLResponse(await run_in_threadpool(text))

    async def metrics(self, request):
        """What the lab follows, in Prometheus' form."""
        text = await run_in_threadpool(metrics.text_of, self.lab)
        return Response(text, media_type=metrics.CONTENT_TYPE)

    async def events(self, request):
        """A server-sent event whenever a page may have changed."""
        if self._streams >= _MOST_STREAMS:
            raise HTTPException(503, f"{_MOST_STREAMS} pages are open already: close some")
        return StreamingResponse(
            self._changes(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _changes(self):
        said, at = None, 0.0
        self._streams += 1
        try:
            while not self.is_ending:
                version = self.lab.version
                now = time.monotonic()
                if version != said:
                    said, at = version, now
                    yield self._event(version)
                elif now - at >= _PING_SECONDS:
                    at = now
                    yield ": nothing new\n\n"
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._streams -= 1

    def _event(self, version):
        counts = [len(follower.state.entries) for follower in self.lab.followers]
        data = json.dumps({"version": version, "records": counts})
        return f"id: {version}\nevent: change\ndata: {data}\n\n"


class Guard:
    """An ASGI application that answers only who has the token, asks by a name of this server, and
    does nothing but read."""

    def __init__(self, application, token, hosts, port):
        self._application, self._token = application, token
        self._hosts = {host.lower() for host in hosts}
        # Cookies of all ports of a host are one jar.
        self._cookie = f"tc_lab_{port}"
        digest = hashlib.sha256(f"tc lab {token}".encode()).hexdigest()
        self._secret = digest if token else None
        self._lines = Lines()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        sent = False

        async def guarded(message):
            nonlocal sent
            if message["type"] == "http.response.start":
                sent = True
                own = {name.encode() for name in _HEADERS}
                kept = [pair for pair in message["headers"] if pair[0].lower() not in own]
                added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                message = message | {"headers": [*kept, *added]}
            await send(message)

        try:
            answer = self._answer(scope)
            await (answer or self._application)(scope, receive, guarded)
        except Exception as exception:  # noqa: BLE001 - one request's fault ends no other
            self._say(f"internal error: {type(exception).__name__}: {exception}")
            if not sent:
                await PlainTextResponse("internal error: the server's output has it\n", 500)(
                    scope, receive, guarded
                )

    def _answer(self, scope):
        """What answers instead of the pages: a refusal, or the step from token to cookie."""
        headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        host = headers.get(b"host", [])
        if len(host) != 1 or not is_allowed(host[0].decode("latin-1"), self._hosts):
            shown = printable(b", ".join(host).decode("latin-1"))
            return self._refusal(
                403, f"the Host header is '{shown}', which is no name of this server"
            )
        if scope["method"] not in ("GET", "HEAD"):
            shown = printable(scope["method"], 20)
            return self._refusal(
                405, f"{shown} is refused: these pages only show", allow="GET, HEAD"
            )
        query = scope["query_string"]
        if len(scope["path"]) + len(query) > _LONGEST_ADDRESS:
            return self._refusal(414, f"the address has more than {_LONGEST_ADDRESS} characters")
        if self._token is None:
            return None
        pairs = urllib.parse.parse_qsl(query.decode("latin-1"), max_num_fields=100)
        given = [value for name, value in pairs if name == "token"]
        if given:
            return self._enter(scope["path"], pairs, given)
        if self._has_cookie(headers.get(b"cookie", [])):
            return None
        # Programs, such as Prometheus, show the token itself.
        shown = headers.get(b"authorization", [])
        if len(shown) == 1 and hmac.compare_digest(shown[0], b"Bearer " + self._token.encode()):
            return None
        return self._refusal(
            401, "open the address with the token that the server printed at its start"
        )

    def _enter(self, path, pairs, given):
        token = given[0].encode("utf-8", "replace")
        if len(given) != 1 or not hmac.compare_digest(token, self._token.encode()):
            return self._refusal(401, "the token is wrong; the server printed the right one")
        kept = [(name, value) for name, value in pairs if name != "token"]
        # A path of two slashes would lead to another host.
        to = "/" + urllib.parse.quote(path.lstrip("/\\"))
        answer = RedirectResponse(address(to, kept), 303)
        answer.set_cookie(self._cookie, self._secret, httponly=True, samesite="strict", path="/")
        return answer

    def _has_cookie(self, headers):
        for header in headers:
            for part in header.split(b";"):
                name, _, value = part.strip().partition(b"=")
                if name == self._cookie.encode() and hmac.compare_digest(
                    value, self._secret.encode()
                ):
                    return True
        return False

    def _refusal(self, status, text, **headers):
        self._say(self._lines.add(f"refused with {status}: {text}"))
        return PlainTextResponse(f"{text}\n", status, headers)

    def _say(self, line):
        if line is not None:
            say(line)


def say(line):
    with contextlib.suppress(OSError, ValueError):
        print(f"tc lab: {printable(line, 1000)}", file=sys.stderr, flush=True)


async def _refused(request, exception):
    texts = {404: f"there is no page '{printable(request.url.path)}' here; the first one is /"}
    text = texts.get(exception.status_code, exception.detail)
    return PlainTextResponse(f"{text}\n", exception.status_code, exception.headers)


async def _missing(request, exception):
    return PlainTextResponse(f"{printable(exception, 500)}\n", 404)


async def _failed(request, exception):
    return PlainTextResponse("internal error: the server's output has it\n", 500)


def serve(lab, options):
    """Serves until a signal ends it; returns the address."""
    token, is_drawn = token_of(options, TOKEN_VARIABLE)
    with contextlib.ExitStack() as stack:
        own, is_local = listener(options.host, options.port)
        stack.callback(own.close)
        if not is_local:
            if token is None:
                raise Error(
                    f"--host {options.host} can be reached from other machines, where --no-token would "
                    "show the log to anyone: leave one of the two out"
                )
            say(
                "what is shown and the token can be read on their way to other machines; ssh -L is safer"
            )
        port = own.getsockname()[1]
        lab.start()
        stack.callback(lab.stop)
        pages = Pages(lab)
        config = uvicorn.Config(
            Guard(pages.application(), token, options.allow_host, port),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        shown = f"[{options.host}]" if ":" in options.host else options.host
        url = f"http://{shown}:{port}/"
        say(f"open {url}?token={token}" if is_drawn else f"open {url}")
        try:
            # Streams end before the server waits for them.
            asyncio.run(SignalServer(config, pages.end).serve([own]))
        except Exception as exception:
            raise error_of(exception) from exception
    return url
