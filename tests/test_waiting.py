"""What a terminal shows while code is compiled, and where nothing is shown."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from liebody.base import progress

pty = pytest.importorskip("pty")

COMPILE = """
from liebody.compiler.native import build, cache
compiler = build.Compiler((FAKE,), "a fake")
cache.keep = lambda key, built: built.read_text()
def library(*units, name="steps"):
    return build.library(build.Source(units, name=name), compiler)
"""
TWO_PARTS = 'print(library("fast", "slow"), end="")'


@pytest.fixture
def fake(tmp_path):
    """A compiler that sleeps for 2 s at units with the word `slow`, and refuses those with `refuse`."""
    script = tmp_path / "fakecc"
    script.write_text(
        textwrap.dedent("""\
            #!/bin/sh
            for word; do
              case $last in -o) target=$word;; esac
              case $word in
                *.c) grep -q slow "$word" && sleep 2; grep -q refuse "$word" && exit 7;;
              esac
              last=$word
            done
            echo built > "$target"
            """)
    )
    script.chmod(0o755)
    return script


def start(code, fake, error, **environment):
    """Start a process with this compiler, whose standard error is the file `error`."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LIEBODY_PROGRESS", "CI")}
    paths = os.pathsep.join(
        [str(Path(progress.__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    environment = {"PYTHONPATH": paths, "LIEBODY_CACHE": str(fake.parent / "cache"), **environment}
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE.replace("FAKE", repr(str(fake))) + textwrap.dedent(code)],
        env={**inherited, **environment},
        stdout=subprocess.PIPE,
        stderr=error,
        text=True,
    )


def on_terminal(code, fake, when_shown=None, **environment):
    """What a terminal receives from a process, its output and status; `when_shown` gets the process."""
    master, slave = pty.openpty()
    process = start(code, fake, slave, **environment)
    os.close(slave)
    received = b""
    try:
        while True:
            assert select.select([master], [], [], 60)[0], "the process hangs"
            try:
                part = os.read(master, 10_000)
            except OSError:  # how Linux says that nobody has the terminal open any more
                break
            if not part:
                break
            received += part
            if when_shown and b"compiling" in received:
                when_shown(process)
                when_shown = None
        output = process.communicate(timeout=60)[0]
    finally:
        os.close(master)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
    return received.decode(), output, process.returncode


def screen(received):
    """The line that is on the screen in the end, and all lines that stood there."""
    line, lines = [], []
    for part in received.split("\r"):
        line[: len(part)] = part
        lines.append("".join(line).rstrip())
    return lines[-1], lines


def test_a_terminal_shows_what_is_compiled_and_how_far_and_the_line_is_removed(fake):
    received, output, status = on_terminal(TWO_PARTS, fake)
    assert (output, status) == ("built\n", 0)
    last, lines = screen(received)
    assert last == "" and "\n" not in received
    assert re.fullmatch(r"compiling steps, 0\.0 MB of C: 1 of 2 parts, [12] s", max(lines, key=len))


def test_a_compile_of_less_than_a_second_shows_nothing(fake):
    assert on_terminal('library("fast")', fake)[0] == ""


@pytest.mark.parametrize("value", ["0", "off", " No", "false"])
def test_the_variable_silences_the_line(fake, value):
    assert on_terminal(TWO_PARTS, fake, LIEBODY_PROGRESS=value)[:2] == ("", "built\n")


def test_a_pipe_sees_nothing(fake):
    process = start(TWO_PARTS, fake, subprocess.PIPE)
    assert process.communicate(timeout=60) == ("built\n", "")


def test_worker_processes_show_nothing(fake):
    code = """
    import multiprocessing
    worker = multiprocessing.get_context("fork").Process(target=library, args=("slow",))
    worker.start()
    worker.join()
    raise SystemExit(worker.exitcode)
    """
    assert on_terminal(code, fake) == ("", "", 0)


def test_the_line_is_removed_when_the_compiler_refuses_the_source(fake):
    code = """
    try:
        library("slow refuse")
    except build.CompilerError as error:
        print("exit status 7" in str(error))
    """
    received, output, _ = on_terminal(code, fake)
    assert "compiling" in received and screen(received)[0] == ""
    assert output == "True\n"


def test_ctrl_c_removes_the_line_and_ends_the_compile(fake):
    code = """
    try:
        library("slow", *["slow again"] * 3)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """
    begin = time.monotonic()
    received, output, _ = on_terminal(code, fake, lambda process: process.send_signal(signal.SIGINT))
    assert time.monotonic() - begin < 30
    assert output == "interrupted\n" and screen(received)[0] == ""


def test_threads_that_compile_at_once_share_the_line(fake):
    code = """
    import threading
    threads = [threading.Thread(target=library, args=(f"slow {k}",)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    """
    received, _, status = on_terminal(code, fake)
    last, lines = screen(received)
    assert status == 0 and last == ""
    assert any("(and 2 more): 1 s" in line for line in lines)


def test_a_process_that_is_forked_meanwhile_shows_its_own_compiles(fake):
    code = """
    import os, threading, time, warnings
    warnings.simplefilter("ignore")
    thread = threading.Thread(target=library, args=("slow",), kwargs={"name": "of the parent"})
    thread.start()
    time.sleep(0.5)
    if os.fork() == 0:
        library("slow again", name="of the child")
        os._exit(0)
    thread.join()
    os.wait()
    """
    received, _, status = on_terminal(code, fake)
    last, lines = screen(received)
    assert status == 0 and last == ""
    assert any(line.startswith("compiling of the child, 0.0 MB of C: ") for line in lines)


def test_a_narrow_terminal_gets_one_line(fake):
    received, *_ = on_terminal(TWO_PARTS, fake, COLUMNS="20")
    last, lines = screen(received)
    assert last == "" and max(map(len, lines)) == 19
