"""The endpoints of a server, and what they refuse."""

import asyncio
import contextlib
import functools

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..errors import Error, printable
from ..language.generating import tokens_of
from . import forms, metrics
from .engine import Full, Stopped, WaitedTooLong
from .requests import Refusal, parsed

LARGEST_BODY = 4 << 20  # bytes
BODY_SECONDS = 30  # within which a body has to arrive
# The most prompts that are turned into tokens at the same time; each chat template runs in a
# separate process.
_MAX_PROMPTS = 2
_RETRY = {"retry-after": "2"}
# The status for each error of the engine; any other error is the server's own fault.
_STATUSES = {Full: 429, WaitedTooLong: 503, Stopped: 503}
GONE = 499  # only for the log: the client has gone


def refusal_of(error):
    status = _STATUSES.get(type(error), 500)
    return Refusal(status, str(error), headers=_RETRY if status in (429, 503) else None)


def answer_to(refusal):
    text = forms.error_of_status(refusal.status, str(refusal), refusal.param, refusal.code)
    return JSONResponse(text, refusal.status, refusal.headers)


class Events(StreamingResponse):
    """The stream of a job's answer. However it ends, the job's place becomes free."""

    def __init__(self, content, leave):
        super().__init__(
            content,
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._leave = leave

    async def __call__(self, scope, receive, send):
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


class Service:
    """What the endpoints share: the engine, and the name of its model."""

    def __init__(self, engine, counts, name, created):
        self.engine, self.metrics = engine, counts
        self.name, self._created = name, created
        self._preparing = anyio.CapacityLimiter(_MAX_PROMPTS)

    def application(self):
        routes = [
            Route("/health", self.health),
            Route("/metrics", self.counts),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/completions", functools.partial(self.generate, False), methods=["POST"]),
            Route("/v1/chat/completions", functools.partial(self.generate, True), methods=["POST"]),
        ]
        return Starlette(
            routes=routes,
            exception_handlers={HTTPException: _refused, Refusal: _refused, Exception: _failed},
        )

    async def health(self, request):
        if not self.engine.is_alive:
            return JSONResponse({"status": "the engine has ended"}, 503)
        return JSONResponse({"status": "ok"})

    async def counts(self, request):
        return Response(self.metrics.text(), media_type=metrics.CONTENT_TYPE)

    async def models(self, request):
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request):
        name = request.path_params["name"]
        if name != self.name:
            raise Refusal(
                404,
                f"there is no model '{printable(name)}' here; served is '{printable(self.name)}'",
                "model",
                "model_not_found",
            )
        return JSONResponse(self._model())

    def _model(self):
        return {
            "id": self.name,
            "object": "model",
            "created": self._created,
            "owned_by": "tc",
            "context_length": self.engine.context,
        }

    async def generate(self, is_chat, request):
        """Both endpoints that generate text."""
        asked = await run_in_threadpool(parsed, await _body(request), is_chat, self.name)
        try:
            self.engine.refuse_if_full()
            prompt = await to_thread.run_sync(self._tokens, asked.prompt, limiter=self._preparing)
            job, events = self._job(prompt, asked)
            self.engine.submit(job)
        except (Full, Stopped) as error:
            raise refusal_of(error) from None
        leave = functools.partial(self.engine.cancel, job)
        form = forms.Form(self.name, is_chat)
        try:
            # A refusal before the job has a place can still be sent as a status.
            begin = await _unless_gone(request, events.get())
            if begin.error:
                raise refusal_of(begin.error)
            if not asked.stream:
                return await _unless_gone(request, _whole(job, events, form))
        except BaseException:
            leave()
            raise
        return Events(_chunks(job, events, form, asked.with_usage), leave)

    def _tokens(self, prompt):
        """The tokens of a prompt; refused where the model cannot read so many."""
        language, most = self.engine.language, self.engine.context
        where = "messages" if isinstance(prompt, list) and isinstance(prompt[0], dict) else "prompt"
        if isinstance(prompt, list) and where == "prompt":
            count = len(language.tokenizer.tokens)
            if max(prompt) >= count:
                raise Refusal(
                    400,
                    f"prompt has the token {printable(max(prompt), 40)}, and "
                    f"{printable(self.name)} has {count}",
                    "prompt",
                )
            tokens = prompt
        else:
            try:
                tokens = tokens_of(language, prompt)
            except Error as error:
                raise Refusal(400, str(error), where) from None
        if not tokens:
            raise Refusal(400, "a prompt has at least one token; give a text", where)
        if len(tokens) > most:
            raise Refusal(
                400,
                f"the prompt has {len(tokens)} tokens, and {printable(self.name)} reads at "
                f"most {most} here: give a shorter one",
                where,
                "context_length_exceeded",
            )
        return tokens

    def _job(self, prompt, asked):
        """A job, and the queue of its events."""
        events, loop = asyncio.Queue(), asyncio.get_running_loop()

        def tell(event):
            with contextlib.suppress(RuntimeError):  # the event loop has ended: nobody listens
                loop.call_soon_threadsafe(events.put_nowait, event)

        most = self.engine.context if asked.max_tokens is None else asked.max_tokens
        return self.engine.job(prompt, asked.sampling, most, asked.stops, tell), events


async def _body(request):
    """Reads the body of a request, which has to be JSON of a bounded size."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(
            415,
            f"the body's type is '{printable(kind)}'; give JSON with the header "
            "Content-Type: application/json",
        )
    too_large = Refusal(
        413, f"the body is larger than {LARGEST_BODY} bytes", headers={"connection": "close"}
    )
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length[:20]) > LARGEST_BODY:
        raise too_large
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    raise too_large
    except TimeoutError:
        raise Refusal(
            408,
            f"the body did not arrive within {BODY_SECONDS} seconds",
            headers={"connection": "close"},
        ) from None
    return bytes(body)


async def _unless_gone(request, work):
    """The result of `work`; ClientDisconnect where the client leaves before it is done."""

    async def left():
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(each) for each in (work, left())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ClientDisconnect()
        return tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()


async def _whole(job, events, form):
    text = ""
    while not (event := await events.get()).is_last:
        text += event.text
    if event.error:
        raise refusal_of(event.error)
    return JSONResponse(form.whole(text, event.reason, forms.usage_of(job)))


async def _chunks(job, events, form, with_usage):
    """The bytes of a stream."""
    if (first := form.first()) is not None:
        yield forms.event(first)
    while not (event := await events.get()).is_last:
        yield forms.event(form.piece(event.text))
    if event.error:
        refusal = refusal_of(event.error)
        yield forms.event(forms.error_of_status(refusal.status, str(refusal)))
    else:
        yield forms.event(form.last(event.reason))
        if with_usage:
            yield forms.event(form.usage(forms.usage_of(job)))
    yield forms.DONE


async def _refused(request, exception):
    if isinstance(exception, Refusal):
        return answer_to(exception)
    # Starlette's own errors: an unknown path or method.
    texts = {
        404: f"there is no '{printable(request.url.path)}' here; there are /v1/completions, "
        "/v1/chat/completions, /v1/models, /health and /metrics",
        405: f"{printable(request.url.path)} is not for {printable(request.method, 20)}",
    }
    text = texts.get(exception.status_code, exception.detail)
    return answer_to(Refusal(exception.status_code, text, headers=exception.headers))


async def _failed(request, exception):
    return answer_to(Refusal(500, "internal error: the server's log has it"))
