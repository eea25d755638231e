"""The example of docs/language_models.md that serves a model on Ray Serve."""

import importlib.util
import json
import re
import sys
import tempfile

import pytest

import tc

from ..support import ROOT
from ..tuner.test_ray import in_namespace
from .serve_fixtures import model  # noqa: F401

TOKEN = "a-token-of-a-test-0123456789"
LENGTHS = list(range(4, 20, 2))
# Runs the example on a Ray of this machine and prints the answers to eight requests at once, and
# the status of one with another token. The folder of Ray's files has a short path, as sockets need.
SESSION = """
import concurrent.futures, json, sys, urllib.error, urllib.request
import ray
example, files, token = sys.argv[1:4]
ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=80 << 20,
         _node_ip_address="127.0.0.1", _temp_dir=files, log_to_driver=False)
exec(example)

def ask(count, token=token):
    body = {"prompt": "hello world", "max_tokens": count, "temperature": 0}
    head = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    url = "http://127.0.0.1:8000/v1/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), head)
    try:
        return json.load(urllib.request.urlopen(request))["choices"][0]["text"]
    except urllib.error.HTTPError as error:
        return error.code

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    answers = list(pool.map(ask, map(int, sys.argv[4:])))
deployment, *_ = serve.status().applications["default"].deployments.values()
states = {str(getattr(state, "value", state)): n for state, n in deployment.replica_states.items()}
print("SEEN " + json.dumps([answers, ask(4, "another"), states]))
serve.shutdown()
"""


def example():
    """The code of the page."""
    page = (ROOT / "docs" / "language_models.md").read_text(encoding="utf-8")
    return next(
        code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "serve.ingress" in code
    )


def has_ray_serve():
    """Whether Ray Serve can be imported: Ray alone has the module, but not what it needs."""
    needed = ("ray", "grpc", "fastapi", "aiohttp")
    return all(importlib.util.find_spec(name) is not None for name in needed)


def test_the_example_is_python():
    compile(example(), "example", "exec")


@pytest.mark.full
def test_the_example_answers_by_two_replicas(model, tmp_path, monkeypatch):  # noqa: F811
    if not has_ray_serve():
        pytest.skip("Ray Serve is not installed: pip install 'ray[serve]'")
    expected = [tc.generate(model, "hello world", count, threads=1) for count in LENGTHS]
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray writes its token
    monkeypatch.setenv("TC_SERVE_TOKEN", TOKEN)
    monkeypatch.setenv("MODEL", str(model))
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as files:
        done = in_namespace(
            [sys.executable, "-c", SESSION, example(), files, TOKEN, *map(str, LENGTHS)], 400
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = done.stdout.partition("SEEN ")[2].splitlines()[0]  # Ray prints before and after
    answers, refused, states = json.loads(found)
    assert answers == expected and refused == 401 and states == {"RUNNING": 2}
