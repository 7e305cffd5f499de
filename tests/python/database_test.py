"""Tuning and databases without torch."""
import sys

import numpy as np
import pytest

import loopwright as lw

GRAPH = """graph norm
symbol n in 1..64
input x: f32[n, 256]
output y = softmax(x, axis=-1)
"""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    path = tmp_path_factory.mktemp("db") / "tuned.db"
    seen = []
    report = lw.tune(lw.Graph.parse(GRAPH), db=path, budget="8s", max_trials=4, progress=seen.append)
    return path, report, seen


def test_tuning_reports_and_shows_progress(tuned):
    path, report, seen = tuned
    assert path.exists() and not report["cancelled"]
    (workload,) = report["workloads"]
    assert workload["trials"] >= 1 and workload["best_ns"] > 0
    assert workload["family"] in str(report)
    assert seen and {"phase", "trials", "left_s"} <= set(seen[-1])


def test_a_database_tells_what_it_holds(tuned):
    database = lw.Database(tuned[0])
    assert database.info()["rows"]["plan"] == 1
    assert [p["name"] for p in database.list("plans")] == ["norm"]
    assert all(row["median_ns"] > 0 and row["verified"] for row in database.list())
    assert len(database.list("trials")) >= 1
    assert all(f["severity"] != "damage" for f in database.check())
    with pytest.raises(lw.Error, match="nonsense"):
        database.list("nonsense")


def test_a_plan_runs_by_name_without_its_graph(tuned):
    call = lw.load("norm", db=tuned[0])
    x = np.random.default_rng(1).standard_normal((9, 256), dtype=np.float32)
    expected = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(call(x), expected / expected.sum(-1, keepdims=True), rtol=1e-5)
    assert "norm" in call.explain(n=9)


def test_an_unknown_name_lists_what_there_is(tuned):
    with pytest.raises(lw.NotFound, match="norm"):
        lw.load("other", db=tuned[0])


def test_merge_and_export_carry_what_is_served(tuned, tmp_path):
    other = lw.Database(tmp_path / "other.db")
    counted = other.merge(tuned[0], dry_run=True)
    assert counted["tables"]["plan"]["inserted"] == 1
    other.merge(tuned[0], reason="a test")
    assert [p["name"] for p in other.list("plans")] == ["norm"]
    lw.Database(tuned[0]).export(tmp_path / "a.jsonl")
    third = lw.Database(tmp_path / "third.db")
    third.import_lines(tmp_path / "a.jsonl")
    assert third.list("plans") == other.list("plans")
    with pytest.raises(lw.ArgumentError, match="policy"):
        other.merge(tuned[0], policy="whatever")


def test_an_exception_of_the_observer_ends_the_run(tmp_path):
    def stop(progress):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        lw.tune(lw.Graph.parse(GRAPH), db=tmp_path / "x.db", budget="60s", progress=stop)


def test_a_missing_or_damaged_file_is_an_error(tmp_path):
    with pytest.raises(lw.Error):
        lw.Database(tmp_path / "none.db").info()
    (tmp_path / "bad.db").write_bytes(b"no database" * 100)
    with pytest.raises(lw.Error):
        lw.Database(tmp_path / "bad.db").info()


@pytest.mark.parametrize("budget", ["", "2 days", -1, "0s"])
def test_a_wrong_budget_is_refused(tmp_path, budget):
    with pytest.raises((lw.ArgumentError, ValueError)):
        lw.tune(lw.Graph.parse(GRAPH), db=tmp_path / "x.db", budget=budget)


def test_progress_is_a_bar_on_one_line(capsys, tmp_path):
    graph = lw.Graph.parse("graph g\ninput x: f32[64, 64]\noutput y = exp(x)\n")
    report = lw.tune(graph, db=tmp_path / "t.db", budget="2s", max_trials=3, progress=True)
    err = capsys.readouterr().err
    assert err.startswith("\r[") and "trials" in err and err.endswith("\n") and err.count("\n") == 1
    assert report._repr_html_().startswith("<pre>family")


def test_progress_goes_to_notebooks_and_not_to_files(monkeypatch):
    from loopwright import tuning

    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert tuning._choose_observer(None) is None
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    assert isinstance(tuning._choose_observer(None), tuning._Bar)
    assert tuning._choose_observer(False) is None and tuning._choose_observer(print) is print
