"""Settings of the whole test run."""

from hypothesis import settings

# Tracing and compiling make the first example slow; a failing example is printed so that it can be repeated.
settings.register_profile("liebody", deadline=None, print_blob=True)
settings.load_profile("liebody")


def pytest_report_header(config):
    return f"marks: {config.getoption('-m') or 'all'} (tests left out are counted as deselected below)"
