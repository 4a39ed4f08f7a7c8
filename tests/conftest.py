"""Settings of the whole test run, and which tests it leaves to `pytest -m wide`."""

import os
import shlex
import signal

import pytest
from hypothesis import settings

from liebody.compiler.native import build

# Tracing and compiling make the first example slow; a failing example is printed so that it can be repeated.
settings.register_profile("liebody", deadline=None, print_blob=True)
settings.load_profile("liebody")


def pytest_report_header(config):
    return f"marks: {config.getoption('-m') or 'all'} (tests left out are counted as deselected below)"


def pytest_configure(config):
    """Where wide tests are left out kernels only have to be right: to compile them takes half the time.

    Wide and slow tests compile as users do. Ctrl-C, which some tests press, is heard in the background, too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    compiler = build.find_compiler()
    if "not wide" in config.option.markexpr and not os.environ.get("CC") and compiler:
        os.environ["CC"] = shlex.join([*compiler.command, "-Og"])
        build.find_compiler.cache_clear()


@pytest.hookimpl(tryfirst=True)  # before those that are not asked for are left out
def pytest_collection_modifyitems(items):
    """Of a test marked `many` the first cases always run, one unless it says how many; others are wide."""
    counts = {}
    for item in items:
        mark = item.get_closest_marker("many")
        if mark:
            name = item.nodeid.partition("[")[0]
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > (mark.args or (1,))[0]:
                item.add_marker("wide")
