"""Serves a language model over HTTP, with the endpoints of OpenAI's interface. Imported when a
model is served; nothing else in tc needs these packages."""

from ..errors import Error

try:
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError:
    raise Error(
        "models are served by the packages starlette, uvicorn and prometheus-client, of which one "
        "is not installed here: pip install 'tc-compiler[serve]'"
    ) from None
