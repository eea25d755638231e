"""Options of the Python tests."""

import os
import signal

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--full",
        action="store_true",
        help="run the tests of big networks too (minutes, and gigabytes of cache)",
    )


def pytest_configure(config):
    # A shell starts what runs in the background with SIGINT ignored, which the tests' own commands
    # would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["TC_LOG"] = ""  # what the user tuned on this machine decides no test
    os.environ["TC_CACHE"] = ""  # nor does what an earlier tc has compiled
    config.addinivalue_line("markers", "full: runs only with --full")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if "full" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="a big network: runs with --full"))
