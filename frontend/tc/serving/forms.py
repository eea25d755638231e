"""Answers in the form of OpenAI's interface."""

import dataclasses
import json
import secrets
import time

# The interface's names for the reasons why an answer ended.
_REASONS = {"end": "stop", "stop": "stop", "length": "length"}


@dataclasses.dataclass
class Form:
    """The answer to one request: `whole` in one piece, or in chunks by `chunk`."""

    model: str
    is_chat: bool

    def __post_init__(self):
        self._id = f"{'chatcmpl' if self.is_chat else 'cmpl'}-{secrets.token_hex(12)}"
        self._created = int(time.time())

    def whole(self, text, reason, usage):
        content = {"message": {"role": "assistant", "content": text, "refusal": None}}
        choice = content if self.is_chat else {"text": text}
        return self._object("chat.completion", [self._choice(choice, reason)]) | {"usage": usage}

    def first(self):
        """The first chunk of a stream, or None."""
        return self._delta({"role": "assistant", "content": ""}) if self.is_chat else None

    def piece(self, text):
        return self._delta({"content": text}) if self.is_chat else self._part({"text": text})

    def last(self, reason):
        return self._delta({}, reason) if self.is_chat else self._part({"text": ""}, reason)

    def usage(self, usage):
        """The last chunk of a stream whose client asked for the token counts."""
        return self._object("chat.completion.chunk", []) | {"usage": usage}

    def _delta(self, delta, reason=None):
        return self._part({"delta": delta}, reason)

    def _part(self, content, reason=None):
        return self._object("chat.completion.chunk", [self._choice(content, reason)])

    def _choice(self, content, reason):
        return {"index": 0, **content, "logprobs": None, "finish_reason": _REASONS.get(reason)}

    def _object(self, kind, choices):
        return {
            "id": self._id,
            "object": kind if self.is_chat else "text_completion",
            "created": self._created,
            "model": self.model,
            "choices": choices,
        }


def usage_of(job):
    prompt, tokens = len(job.prompt), len(job.answer.tokens)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens,
        "total_tokens": prompt + tokens,
        "prompt_tokens_details": {"cached_tokens": job.cached},
    }


def error_of_status(status, text, param=None, code=None):
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def event(value):
    """A value as a server-sent event."""
    return f"data: {json.dumps(value)}\n\n".encode()


DONE = b"data: [DONE]\n\n"
