"""A server, from its options to its end."""

import asyncio
import contextlib
import ssl
import sys
import time

import uvicorn

from ..errors import Error, error_of, printable
from ..http_access import listener, token_of
from ..http_server import SignalServer
from ..language.generating import language_for
from .application import Service
from .engine import Engine, Limits
from .guard import Guard
from .metrics import Metrics

TOKEN_VARIABLE = "TC_SERVE_TOKEN"
# Connections that are accepted in addition to those of requests being answered or waiting.
_MORE_CONNECTIONS = 256
_GRACE = 10  # seconds for open answers when the server ends


def _check_options(options, is_local):
    has_tls = options.tls_certificate is not None
    if has_tls != (options.tls_key is not None):
        raise Error("--tls-certificate and --tls-key belong together: give both or neither")
    if has_tls:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                options.tls_certificate, options.tls_key
            )
        except OSError as error:  # errors of TLS too
            raise Error(
                f"--tls-certificate '{options.tls_certificate}' and --tls-key "
                f"'{options.tls_key}' cannot be used: {error}"
            ) from None
    if is_local:
        return
    if options.no_token:
        raise Error(
            f"--host {options.host} can be reached from other machines, where --no-token "
            "would let anyone use the model: leave one of the two out"
        )
    if not has_tls:
        _say(
            "what is sent and the token can be read on their way to other machines: TLS is the "
            "business of a proxy before this server, or give --tls-certificate and --tls-key"
        )


def _say(text):
    print(f"tc serve: {text}", file=sys.stderr, flush=True)


class _Server(SignalServer):
    """A server which at its end first stops the engine, so that open streams end with an
    error instead of being waited for."""

    def __init__(self, config, engine):
        super().__init__(config)
        self._engine = engine

    async def shutdown(self, sockets=None):
        self._engine.stop()
        await super().shutdown(sockets)


def application(model, token, limits=Limits(), name=None, hosts=(), **compiling):
    """A model as an ASGI application, also for other servers than uvicorn. Compiles the model and
    starts the thread that runs it. A token of None lets everybody ask; `hosts` are names that Host
    headers may have in addition to localhost and addresses. `threads` and `tolerance` as
    tc.generate has them."""
    places = limits.places if limits.batching else 1
    language, counts = language_for(model, places=places, **compiling), Metrics()
    engine = Engine(language, limits, counts)
    engine.start()
    service = Service(engine, counts, printable(name or language.name), int(time.time()))
    return Guard(service, token, hosts)


def serve(options):
    """Serves until a signal ends it; returns the counters by name."""
    token, is_drawn = token_of(options, TOKEN_VARIABLE)
    limits = Limits(
        options.parallel,
        options.queue,
        options.wait,
        options.context or 0,
        reuse=not options.no_reuse,
        batching=not options.no_batching,
    )
    with contextlib.ExitStack() as stack:
        own, is_local = listener(options.host, options.port)
        stack.callback(own.close)
        _check_options(options, is_local)
        guard = application(
            options.model,
            token,
            limits,
            options.name,
            options.allow_host,
            threads=options.threads,
            tolerance=options.tolerance,
        )
        service = guard.service
        config = uvicorn.Config(
            guard,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=limits.places + limits.queue + _MORE_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE,
            ssl_certfile=options.tls_certificate,
            ssl_keyfile=options.tls_key,
        )
        shown = f"[{options.host}]" if ":" in options.host else options.host
        url = f"http{'s' if options.tls_certificate else ''}://{shown}:{own.getsockname()[1]}/v1"
        _say(f"{service.name} at {url}")
        if is_drawn:
            _say(f"token {token}")
        try:
            asyncio.run(_Server(config, service.engine).serve([own]))
        except Exception as exception:
            raise error_of(exception) from exception
        service.engine.stop()
        service.engine.join(_GRACE)
    counts = service.metrics
    requests = sum(counts.values("requests_total"))
    return {
        "model": service.name,
        "url": url,
        "requests": int(requests),
        "prompt_tokens": int(counts.value("prompt_tokens_total")),
        "tokens": int(counts.value("tokens_total")),
    }
