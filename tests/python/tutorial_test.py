"""The code of docs/python.md, block after block, as a reader would type it."""
import re

import pytest

pytest.importorskip("torch")
from conftest import ROOT, why_not  # noqa: E402

import loopwright as lw  # noqa: E402


@pytest.mark.skipif(bool(why_not("cpu")), reason=why_not("cpu") or "")
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert len(blocks) >= 8
    assert "argument `x`" in printed and "graph RMSNorm" in printed and "aten.mul.Tensor" in printed
    assert (tmp_path / "norm.jsonl").stat().st_size > 0
    assert [p["name"] for p in lw.Database(tmp_path / "team.db").list("plans")] == ["RMSNorm"]


def test_every_public_name_is_documented():
    for name in lw.__all__:
        if name != "__version__":
            assert getattr(lw, name).__doc__, name


def test_the_stubs_name_what_the_extension_has():
    stubs = (ROOT / "python" / "loopwright" / "_core.pyi").read_text()
    for name in dir(lw._core):
        if not name.startswith("__"):
            assert re.search(rf"\b(class|def) {name}\b", stubs), name
