"""Accuracy classes: who chooses them, that they reach the graph, and, on a GPU, what they cost and give."""
import warnings

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402
from conftest import why_not  # noqa: E402
from loopwright import accuracy, torch_backend  # noqa: E402

on_cpu = pytest.mark.skipif(bool(why_not("cpu")), reason=why_not("cpu") or "")


@pytest.fixture(autouse=True)
def restored():
    torch._dynamo.reset()
    before = torch.backends.cuda.matmul.fp32_precision
    yield
    torch.backends.cuda.matmul.fp32_precision = before


@on_cpu
def test_what_pytorch_is_set_to_counts_on_cuda_alone():
    matmul = torch.backends.cuda.matmul
    for setting, expected in (("highest", "strict"), ("high", "tf32"), ("medium", "tf32")):
        torch.set_float32_matmul_precision(setting)
        assert accuracy.choose(None, "cuda:0") == expected
        assert accuracy.choose(None, "cpu") == "strict"
        assert accuracy.choose("tf32", "cpu") == "tf32" and accuracy.choose("strict", "cuda") == "strict"
    matmul.allow_tf32 = True
    assert accuracy.choose(None, "cuda") == "tf32"
    matmul.allow_tf32 = False
    assert accuracy.choose(None, "cuda") == "strict"
    matmul.fp32_precision = "tf32"
    assert accuracy.choose(None, "cuda") == "tf32"
    matmul.fp32_precision = "ieee"
    assert accuracy.choose(None, "cuda") == "strict"


def accuracy_of(graph):
    line = graph.text.split("\n")[1]
    return line.split()[1] if line.startswith("accuracy ") else "strict"


@torch.no_grad()
@on_cpu
def test_a_named_accuracy_reaches_the_graph_of_either_door():
    linear, x = nn.Linear(16, 8), torch.randn(4, 16)
    for asked in (None, "strict", "tf32"):
        call = lw.compile(linear, accuracy=asked)
        torch.testing.assert_close(call(x), linear(x))
        assert accuracy_of(call.graph) == (asked or "strict")
    seen = []
    original = torch_backend.keeping.plan_graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_backend.keeping, "plan_graph", lambda graph, *rest: seen.append(graph) or original(graph, *rest))
        for asked in ("strict", "tf32"):
            torch._dynamo.reset()
            compiled = torch.compile(linear, backend="loopwright", options={"accuracy": asked})
            torch.testing.assert_close(compiled(x), linear(x))
            assert accuracy_of(seen[-1]) == asked


@on_cpu
def test_training_takes_it_forward_and_backward():
    module, x = nn.Sequential(nn.Linear(16, 8), nn.Tanh()), torch.randn(4, 16)

    def function(x):
        return module(x)

    call = lw.compile(function, accuracy="tf32")
    call(x).sum().backward()
    assert [accuracy_of(graph) for graph in call.graphs] == ["tf32", "tf32"]


@on_cpu
def test_an_unknown_accuracy_is_refused_by_both_doors():
    with pytest.raises(lw.ArgumentError, match="tf32"):
        lw.compile(nn.Linear(4, 4), accuracy="fast")
    with pytest.raises(Exception, match="tf32"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(nn.Linear(4, 4), backend="loopwright", options={"accuracy": "fast"})(torch.randn(2, 4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
@torch.no_grad()
def test_on_a_gpu_tf32_is_as_accurate_as_pytorchs_and_strict_stays_strict():
    torch.manual_seed(0)
    linear, x = nn.Linear(1024, 512, device="cuda"), torch.randn(2048, 1024, device="cuda")
    exact = nn.functional.linear(x.double(), linear.weight.double(), linear.bias.double())

    def error(y):
        return ((y.double() - exact).norm() / exact.norm()).item()

    for setting, largest in (("highest", 1e-6), ("high", 1.1)):
        torch.set_float32_matmul_precision(setting)
        eager = error(linear(x))
        for call in (lw.compile(linear), torch.compile(linear, backend="loopwright")):
            assert error(call(x)) < (largest if setting == "highest" else largest * eager), (setting, eager)
        torch._dynamo.reset()
    torch.set_float32_matmul_precision("highest")
    assert error(lw.compile(linear, accuracy="tf32")(x)) > 1e-5
