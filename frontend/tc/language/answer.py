"""The answer of one run so far: its tokens, and the part of their text that may be shown."""

from .sampling import Sampler


class Answer:
    """Chooses the next token of a run and turns tokens into text. The caller runs the model and
    passes the logits. `reason` is None until the run ends: "end" (the model's own), "stop" (a text
    of `stops`) or "length"."""

    def __init__(self, tokenizer, prompt, sampling, max_tokens, stops=()):
        self.tokens, self.reason = [], None
        self._ends, self._stream = tokenizer.ends, tokenizer.stream(prompt)
        self._sampler, self._most, self._stops = Sampler(sampling), max_tokens, tuple(stops)
        self._held = ""  # text held back because it may begin one of `stops`

    def add(self, logits, room):
        """Chooses the next token by the logits and returns the text that becomes known by it.
        `room` is how many more tokens the model may read; the run ends at 0."""
        token = self._sampler.choose(logits)
        if token in self._ends:
            return self._end("end")
        self.tokens.append(token)
        self._held += self._stream.add(token)
        at = min(
            (place for stop in self._stops if (place := self._held.find(stop)) >= 0), default=-1
        )
        if at >= 0:
            self.reason = "stop"
            return self._held[:at]
        if len(self.tokens) == self._most or room <= 0:
            return self._end("length")
        known = len(self._held) - self._begun()
        piece, self._held = self._held[:known], self._held[known:]
        return piece

    def _end(self, reason):
        self.reason = reason
        return self._held + self._stream.rest()

    def _begun(self):
        """How many characters at the end of the text may be the beginning of one of `stops`."""
        longest = max(map(len, self._stops), default=1) - 1
        for count in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._stops):
                return count
        return 0
