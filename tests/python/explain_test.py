"""loopwright.explain: what ran where, and why, for both doors."""
import re

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(device):
    torch.manual_seed(0)
    torch._dynamo.reset()


def half_covered(x):
    y = torch.sin(x) * 2
    return (torch.linalg.inv(y @ y.t() + torch.eye(4, device=x.device)) * 3).relu() + 1


def test_ops_of_pytorch_come_with_reason_and_line():
    compiled = torch.compile(half_covered, backend="loopwright")
    assert lw.explain(compiled) == "nothing was compiled by this backend yet"
    with torch.no_grad():
        compiled(torch.randn(4, 4))
    text = lw.explain(compiled)
    assert text.startswith("inference: 2 parts of kernels, 1 op in PyTorch\n")
    assert re.search(r"PyTorch: aten\.linalg_inv_ex\.default +not in the op table +.*explain_test\.py:\d+: return \(torch\.linalg\.inv", text)
    assert len(re.findall(r"^torch_compile on (cpu|cuda:0): ", text, re.M)) == 2
    assert re.search(r"^  0: \w+ +default +\S+.*\(default schedule, compiled now\)$", text, re.M)


def test_two_functions_of_torch_compile_are_told_apart():
    one = torch.compile(lambda x: x.sin(), backend="loopwright")
    other = torch.compile(lambda x: x.cos(), backend="loopwright")
    with torch.no_grad():
        one(torch.ones(3)), other(torch.ones(4)), other(torch.ones(5))
    assert lw.explain(one).count("inference") == 1
    assert lw.explain(other).count("inference") == 2  # fixed sizes, then a symbol
    assert "n0 = 5" in lw.explain(other)


def test_what_follows_a_graph_break_is_told_too():
    def function(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    compiled = torch.compile(function, backend="loopwright")
    with torch.no_grad():
        compiled(torch.ones(3))
    assert lw.explain(compiled).count("inference") == 2


def test_training_shows_both_directions():
    module = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    compiled = torch.compile(module, backend="loopwright")
    y = compiled(torch.randn(3, 4))
    assert lw.explain(compiled).startswith("forward: 1 part of kernels, 0 ops in PyTorch\n") and "backward" not in lw.explain(compiled)
    y.sum().backward()
    assert re.search("^forward: .*\n(?s:.*)^backward: 1 part of kernels", lw.explain(compiled), re.M)


def test_a_module_that_was_compiled_in_place():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    module = Double()
    module.compile(backend="loopwright")
    module(torch.randn(3, 4))
    assert "inference: 1 part" in lw.explain(module)


def test_a_part_that_pytorch_had_to_take_says_why(monkeypatch):
    from loopwright import _errors, keeping

    def refuse(*_):
        raise _errors.make("unsupported", "unsupported: for a test")

    monkeypatch.setattr(keeping, "plan_graph", refuse)
    compiled = torch.compile(lambda x: x.sin(), backend="loopwright")
    with torch.no_grad():
        compiled(torch.ones(3))
    assert "all of it runs in PyTorch: unsupported: for a test" in lw.explain(compiled)


def test_door_one_shows_symbols_at_the_sizes_that_were_traced():
    call = lw.compile(lambda x, w: torch.softmax(x * w, -1), dynamic={"x": {0: ("tokens", 1, 64)}})
    assert "not been called" in lw.explain(call)
    call(torch.randn(5, 8), torch.randn(8))
    text = lw.explain(call)
    assert "at tokens = 5: 1 kernel" in text and "0 ops in PyTorch" in text
    assert "at tokens = 9: 1 kernel" in lw.explain(call, tokens=9)
    with pytest.raises(lw.ArgumentError, match=r"1\.\.64"):
        lw.explain(call, tokens=65)
    w = torch.randn(8, requires_grad=True)
    call(torch.randn(5, 8), w).sum().backward()
    assert "forward: 1 part" in lw.explain(call) and "backward: 1 part" in lw.explain(call)


def test_origins_and_times_of_a_database(tmp_path, device):
    graph = lw.Graph.parse("graph twice\nsymbol n in 1..64\ninput x: f32[n, 64]\noutput y = mul(x, 2.0)\n")
    lw.tune(graph, db=tmp_path / "t.db", budget="4s", max_trials=2, device=device)
    rows = {}
    for name, databases in (("tuned", [tmp_path / "t.db"]), ("default", [])):
        rows[name] = lw.explain(lw.load(graph, db=databases, device=device), n=64)
    assert re.search(r"0: \w+ +tuned +[\d.]+ us +", rows["tuned"]) and re.search(r"1 kernel, [\d.]+ us$", rows["tuned"], re.M)
    assert re.search(r"0: \w+ +default +\w", rows["default"]) and " us" not in rows["default"]


def test_a_kept_default_is_called_so(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", str(tmp_path))
    graph = lw.Graph.parse("graph twice\ninput x: f32[8]\noutput y = mul(x, 2.0)\n")
    assert " kept default " not in lw.explain(lw.load(graph))
    assert " kept default " in lw.explain(lw.load(graph))


def test_other_things_are_refused():
    for what in (torch.sin, torch.compile(lambda x: x, backend="eager"), 3):
        if callable(what) and hasattr(what, "_torchdynamo_orig_callable"):
            assert lw.explain(what) == "nothing was compiled by this backend yet"
            continue
        with pytest.raises(TypeError, match="explain takes"):
            lw.explain(what)
