"""Options of the Python tests."""

import os

import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true",
                     help="run the tests of big networks too (minutes, and gigabytes of cache)")


def pytest_configure(config):
    os.environ["TC_LOG"] = ""  # what the user tuned on this machine decides no test
    config.addinivalue_line("markers", "full: runs only with --full")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--full"):
        for item in items:
            if "full" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="a big network: runs with --full"))
