"""The counters of a server, in Prometheus' form."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_SEQUENCES = (1, 2, 4, 8, 16, 32, 64)
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)


class Metrics:
    """The counters of one server."""

    def __init__(self):
        self._registry = registry = CollectorRegistry()

        def made(kind, name, text, *more, **options):
            return kind(f"tc_serve_{name}", text, *more, registry=registry, **options)

        self.requests = made(
            Counter,
            "requests",
            "Requests by endpoint and status of the answer.",
            ["endpoint", "status"],
        )
        self.waiting = made(Gauge, "waiting", "Requests that wait for a place.")
        self.running = made(Gauge, "running", "Requests that are being answered.")
        self.cancelled = made(Counter, "cancelled", "Requests with a place whose client left.")
        self.prompt_tokens = made(Counter, "prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = made(
            Counter, "cached_tokens", "Tokens of prompts that a kept sequence had read."
        )
        self.tokens = made(Counter, "tokens", "Tokens that were chosen.")
        self.queue_seconds = made(
            Histogram, "queue_seconds", "From a request to its place.", buckets=_SECONDS
        )
        self.first_seconds = made(
            Histogram, "first_token_seconds", "From a request to its first token.", buckets=_SECONDS
        )
        self.step = made(
            Histogram,
            "token_seconds",
            "A run that reads one token of a sequence, or of several.",
            buckets=_STEPS,
        )
        self.sequences = made(
            Histogram,
            "sequences",
            "The sequences of which a run reads one token.",
            buckets=_SEQUENCES,
        )

    def began(self, job, seconds):
        """Counts a job that got a place after so many seconds."""
        self.prompt_tokens.inc(len(job.prompt))
        self.cached_tokens.inc(job.cached)
        self.queue_seconds.observe(seconds)

    def stepped(self, seconds, sequences):
        """Counts a run that read one token of each of some sequences."""
        self.step.observe(seconds)
        self.sequences.observe(sequences)

    def first(self, seconds):
        """Counts a job whose first token came after so many seconds."""
        self.first_seconds.observe(seconds)

    def value(self, name, **labels):
        """The present value of a sample."""
        return self._registry.get_sample_value(f"tc_serve_{name}", labels) or 0.0

    def values(self, name):
        """The present values of a sample for all of its labels."""
        return [
            sample.value
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == f"tc_serve_{name}"
        ]

    def text(self):
        return generate_latest(self._registry)
