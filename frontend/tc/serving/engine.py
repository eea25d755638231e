"""The thread that owns a served model. It serves requests in turns, one token at a time, so that no
request waits until another is complete."""

import collections
import dataclasses
import threading
import time

from ..errors import Error, error_of
from ..language.answer import Answer
from ..language.generating import common_length
from ..language.places import Places, Separate
from ..language.session import Session

# A kept sequence is continued only if at least its first so many tokens equal those of the prompt.
MIN_REUSED = 16


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much a server accepts at the same time."""

    places: int = 8  # requests that are answered in turns
    queue: int = 64  # requests that wait for a place
    wait: float = 60.0  # the most seconds that a request waits
    context: int = 0  # the most tokens of a sequence; 0: the model's own limit
    part: int = 128  # tokens of a prompt that are read in one turn
    reuse: bool = True  # whether a kept sequence that begins like a prompt is continued
    batching: bool = True  # whether one run reads a token of several sequences


class Full(Error):
    """There are already as many requests as the limits allow."""


class WaitedTooLong(Error):
    """A request found no place in the time that it may wait."""


class Stopped(Error):
    """The server is being shut down."""


@dataclasses.dataclass(frozen=True)
class Event:
    """Something to tell a request's client: that it has a place (neither text nor end is set), a
    piece of text, or at the end a reason or an error."""

    text: str = ""
    reason: str | None = None
    error: Error | None = None

    @property
    def is_last(self):
        return self.reason is not None or self.error is not None


class Job:
    """One request. `tell` is called with each Event, on the engine's thread."""

    def __init__(self, prompt, answer, tell):
        self.prompt, self.answer, self.tell = prompt, answer, tell
        self.since = time.monotonic()
        self.cancelled = False
        self.cached = 0  # tokens of the prompt that a kept sequence had read before
        self.session = None
        self.unread = None  # the part of the prompt that is still to be read
        self.turn = 0  # when a part of its prompt was last read


class Engine:
    """Answers jobs with one model. All methods may be called from any thread, except those of the
    engine's own thread."""

    def __init__(self, language, limits, metrics):
        self.language, self.limits, self._metrics = language, limits, metrics
        most = language.parameters.context
        self.context = min(limits.context, most) if limits.context else most
        self._change = threading.Condition()
        self._waiting, self._running = collections.deque(), []
        self._kept = []  # sessions of jobs that have ended, the oldest first
        self._sequences = None  # where sessions come from
        self._turns = 0
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="tc-engine", daemon=True)

    def start(self):
        """Compiles the model and begins to answer."""
        in_one_run = self.language.places > 1
        self._sequences = Places(self.language) if in_one_run else Separate(self.language, Session)
        session = self._sequences.open()
        session.prepare(2, 2)
        self._sequences.close(session)
        self._sequences.measure()
        self._thread.start()

    def job(self, prompt, sampling, max_tokens, stops, tell):
        answer = Answer(self.language.tokenizer, prompt, sampling, max_tokens, stops)
        return Job(prompt, answer, tell)

    def refuse_if_full(self):
        """Raises what submit() would raise now."""
        with self._change:
            self._refuse_if_full()

    def submit(self, job):
        """Accepts a job, or raises Full or Stopped."""
        with self._change:
            self._refuse_if_full()
            self._waiting.append(job)
            self._count()
            self._change.notify()

    def cancel(self, job):
        """The client has gone: the job's place becomes free after the token that is being computed.
        Does nothing to a job that has ended."""
        with self._change:
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
            self._count()
            self._change.notify()

    def stop(self):
        """Ends every job with an error, and the thread."""
        with self._change:
            self._is_stopped = True
            self._change.notify()

    def join(self, seconds):
        self._thread.join(seconds)

    @property
    def is_alive(self):
        return self._thread.is_alive()

    def _refuse_if_full(self):
        if self._is_stopped:
            raise Stopped("the server is being shut down")
        under_way, most = (
            len(self._waiting) + len(self._running),
            self.limits.places + self.limits.queue,
        )
        if under_way >= most:
            raise Full(
                f"{under_way} requests are under way, and at most {most} are taken on; try "
                "again later"
            )

    def _count(self):
        self._metrics.waiting.set(len(self._waiting))
        self._metrics.running.set(len(self._running))

    # --- the engine's own thread -----------------------------------------------------------------

    def _run(self):
        while self._wait_for_work():
            self._drop_cancelled()
            self._admit()
            self._read_part_of_a_prompt()
            for job, logits in self._decoded([job for job in self._running if not job.unread]):
                self._take(job, logits)
        with self._change:
            left = [*self._running, *self._waiting]
            self._running, self._waiting = [], collections.deque()
            self._count()
        for job in left:
            job.tell(Event(error=Stopped("the server is being shut down")))

    def _wait_for_work(self):
        """Waits for work. Returns True when there is some, False when the engine is to stop."""
        with self._change:
            while not (self._is_stopped or self._waiting or self._running):
                self._change.wait()
            return not self._is_stopped

    def _drop_cancelled(self):
        for job in [job for job in self._running if job.cancelled]:
            self._metrics.cancelled.inc()
            self._leave(job)

    def _admit(self):
        """Gives free places to those that wait longest, and ends those that waited too long."""
        late, admitted = [], []
        with self._change:
            now = time.monotonic()
            while self._waiting and len(self._running) < self.limits.places:
                admitted.append(self._waiting.popleft())
                self._running.append(admitted[-1])
            while self._waiting and now - self._waiting[0].since > self.limits.wait:
                late.append(self._waiting.popleft())
            self._count()
        for job in late:
            job.tell(
                Event(
                    error=WaitedTooLong(
                        f"no place became free within {self.limits.wait:g} seconds; try again later"
                    )
                )
            )
        for job in admitted:
            job.session = self._session_for(job)
            job.unread = job.prompt[job.cached :]
            self._metrics.began(job, time.monotonic() - job.since)
            job.tell(Event())

    def _session_for(self, job):
        """A session for a job: the kept one that shares the longest beginning with its prompt,
        truncated to that, else an empty one. Sessions in use and kept ones are together at most as
        many as there are places, because each has keys and values in memory."""
        if self.limits.reuse and self._kept:
            # The prompt's last token is always read: its logits choose the first token of the
            # answer.
            alike = [common_length(each.tokens, job.prompt[:-1]) for each in self._kept]
            job.cached = max(alike)
            if job.cached >= MIN_REUSED:
                session = self._kept.pop(alike.index(job.cached))
                session.truncate(job.cached)
                return session
        job.cached = 0
        if len(self._running) + len(self._kept) <= self.limits.places:
            return self._sequences.open()
        session = self._kept.pop(0)
        session.reset()
        return session

    def _read_part_of_a_prompt(self):
        """Reads one part, of the job whose last turn was longest ago."""
        reading = [job for job in self._running if job.unread]
        if not reading:
            return
        job = min(reading, key=lambda each: each.turn)
        self._turns += 1
        job.turn = self._turns
        part, job.unread = job.unread[: self.limits.part], job.unread[self.limits.part :]
        try:
            logits = job.session.prefill(part)
        except Exception as exception:
            self._fail(job, exception)
            return
        if not job.unread:
            self._metrics.first(time.monotonic() - job.since)
            self._take(job, logits)

    def _decoded(self, jobs):
        """(job, logits after its last token) for each job: one step of all sequences."""
        by_session = {job.session: job for job in jobs if not job.cancelled}
        for group in self._sequences.groups(list(by_session)):
            yield from self._decoded_group([by_session[session] for session in group])

    def _decoded_group(self, jobs):
        begin = time.monotonic()
        try:
            found = self._sequences.decode(
                [job.session for job in jobs], [job.answer.tokens[-1] for job in jobs]
            )
        except Exception as exception:
            if len(jobs) == 1:
                self._fail(jobs[0], exception)
                return
            # What a run has written lies behind the tokens of its sequences: each can go on alone.
            for job in jobs:
                yield from self._decoded_group([job])
            return
        self._metrics.stepped(time.monotonic() - begin, len(jobs))
        yield from zip(jobs, found)

    def _take(self, job, logits):
        """Chooses a job's next token and sends the text that becomes known by it."""
        try:
            room = min(job.session.room, self.context - job.session.length)
            piece = job.answer.add(logits, room)
        except Exception as exception:
            self._fail(job, exception)
            return
        self._metrics.tokens.inc()
        if piece:
            job.tell(Event(piece))
        if job.answer.reason:
            self._leave(job)
            job.tell(Event(reason=job.answer.reason))

    def _leave(self, job):
        """Frees a job's place; its session is kept for a prompt that goes on from it."""
        with self._change:
            self._running.remove(job)
            self._count()
        self._kept.append(job.session)

    def _fail(self, job, exception):
        """Ends a job with an error. Its session is dropped, since its state after a failed run is
        not known."""
        with self._change:
            self._running.remove(job)
            self._count()
        self._sequences.close(job.session)
        job.tell(Event(error=error_of(exception)))
