"""What one run has given so far: tokens, and the text that may be told of them."""

from .sampling import Sampler


class Answer:
    """Chooses the next token of a run and turns tokens into text. Whoever runs the model hands it
    the logits. `reason` is None until the run ends: "end" (the model's own), "stop" (a text of
    `stops`) or "length"."""

    def __init__(self, tokenizer, prompt, sampling, max_tokens, stops=()):
        self.tokens, self.reason = [], None
        self._ends, self._stream = tokenizer.ends, tokenizer.stream(prompt)
        self._sampler, self._most, self._stops = Sampler(sampling), max_tokens, tuple(stops)
        self._held = ""     # text that may be the beginning of a stop

    def add(self, logits, room):
        """The text that becomes known by the next token, which the logits choose. `room`: how many
        more tokens the model may read; with none the run ends."""
        token = self._sampler.choose(logits)
        if token in self._ends:
            return self._end("end")
        self.tokens.append(token)
        self._held += self._stream.add(token)
        at = min((place for stop in self._stops if (place := self._held.find(stop)) >= 0),
                 default=-1)
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
        """How many letters at the end of the text may be the beginning of a stop."""
        longest = max(map(len, self._stops), default=1) - 1
        for count in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._stops):
                return count
        return 0
