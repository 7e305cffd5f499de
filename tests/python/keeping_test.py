"""What outlives a process: compiled default schedules, and the shapes of calls."""
import logging
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import loopwright as lw
from loopwright import keeping

TEXT = """graph scale
symbol n in 1..1000
input x: f32[n, 8]
t = softmax(x, axis=-1)
output y = mul(t, 2.0)
"""
X = numpy.arange(24, dtype=numpy.float32).reshape(3, 8)
CHILD = f"""
import logging, sys, numpy, loopwright as lw
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
call = lw.load(lw.Graph.parse({TEXT!r}))
x = numpy.arange(24, dtype=numpy.float32).reshape(3, 8)
e = numpy.exp(x - x.max(1, keepdims=True))
assert numpy.allclose(call(x), 2 * e / e.sum(1, keepdims=True), atol=1e-5)
print(call.details.plan.compiled, call.details.plan.kept)
"""


def run_child(**environment):
    """(kernels compiled, kernels kept, log) of another process that loads the graph and calls it."""
    done = subprocess.run([sys.executable, "-c", CHILD], env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    compiled, kept = map(int, done.stdout.split())
    return compiled, kept, done.stderr


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "_said", set())
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels.db"


@pytest.fixture
def records():
    """What the log `loopwright` says during a test."""
    kept, handler, log = [], logging.Handler(), logging.getLogger("loopwright")
    handler.emit = kept.append
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield kept
    log.removeHandler(handler)
    log.setLevel(logging.NOTSET)


def list_warnings(records):
    return [r.getMessage() for r in records if r.levelno >= logging.WARNING]


def load():
    call = lw.load(lw.Graph.parse(TEXT))
    assert numpy.allclose(call(X).sum(1), 2)
    return call.details.plan


def test_a_second_process_compiles_nothing(cache):
    assert run_child()[:2] == (1, 0)
    assert run_child()[:2] == (0, 1)
    plan = load()
    assert (plan.compiled, plan.kept, plan.trouble) == (0, 1, "")
    assert "compiled before" in plan.explain({"n": 3})


def test_processes_that_start_at_once_all_serve(cache):
    children = [subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for _ in range(4)]
    for child in children:
        _, log = child.communicate()
        assert child.returncode == 0 and "WARNING" not in log, log
    assert load().kept == 1
    assert not lw.Database(cache).check() or all(f["severity"] != "damage" for f in lw.Database(cache).check())


def test_the_log_says_once_that_default_schedules_serve(cache, records):
    load(), load()
    assert [r.levelname for r in records] == ["INFO"] and "default schedules serve scale" in records[0].getMessage()


@pytest.mark.parametrize("value", ["off", "0", ""])
def test_the_cache_can_be_switched_off(cache, monkeypatch, value):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", value)
    assert (load().compiled, load().kept) == (1, 0)
    assert not cache.exists()


def test_the_cache_lies_where_xdg_says(cache, monkeypatch, tmp_path):
    monkeypatch.delenv("LOOPWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    load()
    assert (tmp_path / "xdg" / "loopwright" / "kernels.db").exists()


def damage(path):
    path.write_bytes(os.urandom(8192))


def empty(path):
    path.write_bytes(b"")


def forget_a_row(path):
    """A candidate whose content does not fit its digest."""
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE candidate SET template_name = 'other'")


def damage_code(path):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE artifact SET image = zeroblob(100)")


@pytest.mark.parametrize("harm", [damage, empty, forget_a_row, damage_code])
def test_a_damaged_cache_breaks_no_call(cache, records, harm):
    load()
    harm(cache)
    for _ in range(2):
        load()
    assert len(list_warnings(records)) == (0 if harm is forget_a_row else 1)


def test_a_locked_cache_breaks_no_call(cache, records):
    load()
    with sqlite3.connect(cache) as connection:
        connection.execute("UPDATE meta SET value = value")  # holds the write lock
        lw.load(lw.Graph.parse(TEXT.replace("2.0", "3.0")))(X)
        lw.load(lw.Graph.parse(TEXT.replace("2.0", "4.0")))(X)
        connection.rollback()
    assert len(list_warnings(records)) == 1
    assert load().kept == 1


@pytest.mark.parametrize("place", ["/proc/nowhere", __file__])
def test_a_cache_that_cannot_be_written_breaks_no_call(cache, records, monkeypatch, place):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", place)
    load(), load()
    assert len(list_warnings(records)) == 1 and "not kept" in list_warnings(records)[0]


def test_a_full_disk_breaks_no_call(cache):
    script = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (40000, 40000))\n"
    done = subprocess.run([sys.executable, "-c", script + CHILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0"] and done.stderr.count("WARNING compiled kernels are not kept") == 1, done.stderr


def test_recorded_shapes_are_tuned_and_served(cache, tmp_path):
    program = next((p for p in [Path(lw.__file__).parent / "bin" / "loopwright"] if p.exists()), None)
    record = tmp_path / "calls.db"
    run_child(LOOPWRIGHT_RECORD=str(record))
    wanted = [tuple(row) for row in sqlite3.connect(record).execute("SELECT symbol_values, count FROM wanted")]
    assert wanted == [("s0=3", 1)]
    if program is None:
        pytest.skip("the program loopwright is not built")
    subprocess.run([program, "tune", "--wanted", "--db", record, "--budget", "4s"], check=True, capture_output=True)
    assert not sqlite3.connect(record).execute("SELECT count(*) FROM wanted").fetchone()[0]
    _, _, log = run_child(LOOPWRIGHT_RECORD=str(record))
    served = lw.load(lw.Graph.parse(TEXT), db=record)
    assert "(not tuned): serves" not in served.details.explain(n=3)
    assert not sqlite3.connect(record).execute("SELECT count(*) FROM wanted").fetchone()[0], log


def test_a_record_that_cannot_be_written_breaks_no_call(cache):
    compiled, _, log = run_child(LOOPWRIGHT_RECORD="/proc/nowhere.db")
    assert compiled == 1 and log.count("WARNING shapes are not recorded") == 1
