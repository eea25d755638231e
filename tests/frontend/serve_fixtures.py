"""Servers with a tiny model, each shared by the tests of a file."""

import pytest

for name in "gguf", "transformers", "starlette", "uvicorn", "prometheus_client":
    pytest.importorskip(name, reason=f"{name} is not installed")
from .served import Server  # noqa: E402
from .test_gguf import written  # noqa: E402

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USER = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tiny"), "qwen3")[0]


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("server"), model, "--allow-host", "models.example")
    yield made
    made.close()
