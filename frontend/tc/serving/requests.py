"""Parses bodies of requests in the form of OpenAI's interface, and checks them field by field."""

import dataclasses
import difflib
import json
import secrets

from ..errors import Error, printable
from ..language.generating import stops_of
from ..language.sampling import Sampling

_MAX_STOPS, _LONGEST_STOP = 16, 1000
# The interface's default of `max_tokens` for completions.
_TOKENS_OF_COMPLETION = 16
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed")
_COMMON = ("model", "max_tokens", "stop", "stream", "stream_options", *_SAMPLING)
# Fields that say who asks, or how a provider is to handle the request; here they have no effect.
_WITHOUT_EFFECT = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "parallel_tool_calls",
)
# Fields that are accepted only with values that ask for nothing.
_NEUTRAL = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
}
_ROLES = {"developer": "system"}  # the interface's name, and that of templates


class Refusal(Exception):
    """A request that is refused: the status, the sentence, and the field that is wrong."""

    def __init__(self, status, text, param=None, code=None, headers=None):
        super().__init__(printable(text, 2000))
        self.status, self.param, self.code, self.headers = status, param, code, headers or {}


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a request asks for. `prompt` is a text, a list of tokens, or a chat's messages."""

    prompt: object
    sampling: Sampling
    max_tokens: int | None
    stops: tuple
    stream: bool
    with_usage: bool  # whether a stream ends with the counts of tokens


def parsed(body, is_chat, model):
    """The Asked of a body; a Refusal where the body is wrong. `model` is the name of the served
    model."""
    fields = _object(body)
    prompt = "messages" if is_chat else "prompt"
    _check_names(fields, (prompt, *(["max_completion_tokens"] if is_chat else []), *_COMMON))
    _check_model(fields, model)
    if prompt not in fields:
        raise Refusal(400, f"the field {prompt} is missing", prompt)
    stream = _boolean(fields, "stream")
    return Asked(
        _messages(fields["messages"]) if is_chat else _prompt(fields["prompt"]),
        _sampling(fields),
        _max_tokens(fields, None if is_chat else _TOKENS_OF_COMPLETION),
        _stops(fields),
        stream,
        _with_usage(fields, stream),
    )


def _object(body):
    def refuse(text):
        raise ValueError(f"{text} is no number of JSON")

    try:
        fields = json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {_reason(error)}") from None
    if not isinstance(fields, dict):
        raise Refusal(400, f"the body is {_shown(fields)}; give an object of JSON")
    # A field with the value null counts as not given.
    return {name: value for name, value in fields.items() if value is not None}


def _reason(error):
    return "it is nested too deep" if isinstance(error, RecursionError) else error


def _shown(value):
    # Only the beginning is shown; texts and lists are cut first, so that a long one is not
    # formatted as a whole.
    value = value[:100] if isinstance(value, (str, list)) else value
    return printable(repr(value), 80)


def _check_names(fields, known):
    for name, value in fields.items():
        if name in known or name in _WITHOUT_EFFECT:
            continue
        if name not in _NEUTRAL:
            near = difflib.get_close_matches(name[:100], known, 1, 0.7)
            mean = f"; did you mean {near[0]}?" if near else ""
            raise Refusal(400, f"the field '{printable(name)}' is unknown{mean}", printable(name))
        if not any(_is_equal(value, each) for each in _NEUTRAL[name]):
            raise Refusal(
                400,
                f"{name} is {_shown(value)}; this server supports "
                f"{' or '.join(json.dumps(each) for each in _NEUTRAL[name])} alone: leave it out",
                name,
                "unsupported_value",
            )


def _is_equal(value, other):
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _check_model(fields, model):
    name = fields.get("model")
    if name is None or name == model:
        return
    if not isinstance(name, str):
        raise Refusal(400, f"model is {_shown(name)}; give a text", "model")
    raise Refusal(
        404,
        f"there is no model '{printable(name)}' here; served is '{printable(model)}'",
        "model",
        "model_not_found",
    )


def _boolean(fields, name):
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise Refusal(400, f"{name} is {_shown(value)}; give true or false", name)
    return value


def _is_whole(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _text(value, name):
    """A text that can be encoded as UTF-8: JSON may contain single surrogates."""
    if not isinstance(value, str):
        raise Refusal(400, f"{name} is {_shown(value)}; give a text", name)
    try:
        value.encode()
    except UnicodeError:
        raise Refusal(
            400,
            f"{name} has half of a letter (a surrogate) at the character "
            f"{_surrogate(value)}; give a text of whole letters",
            name,
        ) from None
    return value


def _surrogate(text):
    return next(index for index, letter in enumerate(text) if "\ud800" <= letter <= "\udfff")


def _prompt(value):
    """A text or a list of tokens; each may be the one element of a list."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], (str, list)):
        value = value[0]
    elif isinstance(value, list) and value and isinstance(value[0], (str, list)):
        raise Refusal(
            400, f"prompt has {len(value)} texts; give one, and a request for each", "prompt"
        )
    if isinstance(value, list):
        wrong = next((each for each in value if not _is_whole(each, 0)), None)
        if not value or wrong is not None:
            raise Refusal(
                400,
                f"prompt is {_shown(value)}; a list has to be one of tokens, whole "
                "numbers, and not empty",
                "prompt",
            )
        return value
    return _text(value, "prompt")


def _messages(value):
    if not isinstance(value, list) or not value:
        raise Refusal(
            400,
            f"messages is {_shown(value)}; give a list of messages, "
            '[{"role": "user", "content": "..."}]',
            "messages",
        )
    return [_message(message, f"messages[{index}]") for index, message in enumerate(value)]


def _message(message, where):
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise Refusal(
            400, f'{where} is {_shown(message)}; give {{"role": text, "content": text}}', where
        )
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_part(part, f"{where}.content") for part in content)
    return {
        "role": _ROLES.get(message["role"], _text(message["role"], f"{where}.role")),
        "content": _text(content, f"{where}.content"),
    }


def _part(part, where):
    if not isinstance(part, dict) or part.get("type") != "text":
        raise Refusal(
            400,
            f'{where} has the part {_shown(part)}; only {{"type": "text", '
            '"text": ...} is supported',
            where,
        )
    return _text(part.get("text"), where)


def _sampling(fields):
    """The sampling, with the interface's defaults: a temperature of 1, and a random seed where none
    is given."""
    given = {name: fields[name] for name in _SAMPLING if name in fields}
    given.setdefault("temperature", 1.0)
    given.setdefault("seed", secrets.randbits(63))
    try:
        return Sampling(**given)
    except Error as error:
        raise Refusal(400, str(error), str(error).partition(" ")[0]) from None


def _max_tokens(fields, default):
    names = [name for name in ("max_completion_tokens", "max_tokens") if name in fields]
    for name in names:
        if not _is_whole(fields[name], 1):
            raise Refusal(
                400, f"{name} is {_shown(fields[name])}; give a whole number of at least 1", name
            )
    return fields[names[0]] if names else default


def _stops(fields):
    try:
        stops = stops_of(fields.get("stop"))
    except Error:
        stops = None
    if stops is None or len(stops) > _MAX_STOPS or max(map(len, stops), default=0) > _LONGEST_STOP:
        raise Refusal(
            400,
            f"stop is {_shown(fields['stop'])}; give a text or a list of up to "
            f"{_MAX_STOPS}, each of 1 to {_LONGEST_STOP} characters",
            "stop",
        )
    return tuple(_text(stop, "stop") for stop in stops)


def _with_usage(fields, stream):
    value = fields.get("stream_options", {})
    if not isinstance(value, dict) or ("stream_options" in fields and not stream):
        raise Refusal(
            400,
            f"stream_options is {_shown(value)}; give an object, and that beside "
            '"stream": true alone',
            "stream_options",
        )
    return _boolean(
        {name: each for name, each in value.items() if each is not None}, "include_usage"
    )
