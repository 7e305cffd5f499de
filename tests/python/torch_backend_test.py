"""Door two: torch.compile(backend="loopwright"), found by its entry point."""
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402
from examples_test import CASES, compare  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(device):
    torch.manual_seed(0)
    torch._dynamo.reset()


def count_parts(monkeypatch):
    """Parts that ran by kernels, and calls that fell back, from now on."""
    from loopwright import torch_backend

    seen = {"kernels": 0}
    original = torch_backend._core.plan_graph
    monkeypatch.setattr(torch_backend._core, "plan_graph",
                        lambda *a: seen.__setitem__("kernels", seen["kernels"] + 1) or original(*a))
    return seen


@pytest.mark.parametrize("case", ["rmsnorm", "sin_sum_gt", "lora_mlp", "moe_expert", "softmax", "layernorm", "mlp", "attention"])
@torch.no_grad()
def test_inference_agrees_with_eager(case, monkeypatch):
    seen = count_parts(monkeypatch)
    make, sample, _, tolerance = CASES[case]
    module = make().eval()
    compiled = torch.compile(module, backend="loopwright")
    for n in (5, 17, 9):
        x = sample(n)
        compare(compiled(x), module(x), tolerance)
    assert seen["kernels"] >= 1


@torch.no_grad()
def test_dynamic_sizes_never_compile_again(monkeypatch):
    seen = count_parts(monkeypatch)
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="loopwright", dynamic=True)
    for n in (4, 9, 100, 33):
        x = torch.randn(n, 12)
        compare(compiled(x), torch.softmax(x * 2, -1), 1e-5)
    assert seen["kernels"] == 1


@torch.no_grad()
def test_ops_that_are_not_covered_run_in_pytorch_inside_the_call(monkeypatch, caplog):
    seen = count_parts(monkeypatch)

    def function(x):
        y = torch.sin(x) * 2
        return (torch.linalg.inv(y @ y.t() + torch.eye(4, device=x.device)) * 3).relu() + 1

    compiled, x = torch.compile(function, backend="loopwright"), torch.randn(4, 4)
    compare(compiled(x), function(x), 1e-4)
    assert seen["kernels"] == 2


@torch.no_grad()
def test_an_argument_and_a_buffer_are_updated_in_place():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x, cache):
            self.seen.add_(x)
            cache.mul_(2)
            return self.seen + cache

    mine, theirs = Cache(), Cache()
    compiled = torch.compile(mine, backend="loopwright")
    a, b = torch.ones(4), torch.ones(4)
    for _ in range(3):
        x = torch.randn(4)
        compare(compiled(x, a), theirs(x, b), 1e-5)
        compare(a, b, 1e-5)
        compare(mine.seen, theirs.seen, 1e-5)


def test_training_steps_agree_with_eager(monkeypatch):
    seen = count_parts(monkeypatch)
    mine = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 3))
    theirs = nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 3))
    theirs.load_state_dict(mine.state_dict())
    compiled = torch.compile(mine, backend="loopwright")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (mine, theirs)]
    for _ in range(3):
        x = torch.randn(7, 12)
        losses = []
        for call, optimizer in zip((compiled, theirs), optimizers):
            optimizer.zero_grad()
            loss = call(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        compare(losses[0], losses[1], 1e-4)
    for a, b in zip(mine.parameters(), theirs.parameters()):
        compare(a.detach(), b.detach(), 1e-4)
    assert seen["kernels"] >= 2


@torch.no_grad()
def test_hundreds_of_tensors_in_one_graph():
    xs = [torch.randn(4) for _ in range(300)]
    compiled = torch.compile(lambda *xs: sum(x * 2 for x in xs), backend="loopwright")
    compare(compiled(*xs), sum(x * 2 for x in xs), 1e-4)
    assert lw.explain(compiled).startswith("inference: 1 part of kernels, 0 ops in PyTorch")


@torch.no_grad()
def test_ops_behind_one_that_is_not_covered_become_kernels_too():
    def function(x):
        for _ in range(3):
            x = torch.linalg.inv(x @ x.t() + 4 * torch.eye(4, device=x.device)).sin() * 2
        return x

    compiled, x = torch.compile(function, backend="loopwright"), torch.randn(4, 4)
    compare(compiled(x), function(x), 1e-3)
    text = lw.explain(compiled)
    assert text.startswith("inference: 4 parts of kernels, 3 ops in PyTorch") and "linalg_inv_ex.default x3" in text


@torch.no_grad()
def test_several_results_that_no_graph_can_hold():
    function = lambda x: [torch.view_as_real(part) * 2 + 1 for part in torch.complex(x, x + 1).split(2)]  # noqa: E731
    x = torch.randn(4, 3)
    for found, right in zip(torch.compile(function, backend="loopwright")(x), function(x), strict=True):
        compare(found, right, 1e-5)


@torch.no_grad()
def test_a_part_that_sees_a_product_of_sizes_alone(monkeypatch):
    seen = count_parts(monkeypatch)
    function = lambda x: torch.sort(x.flatten(0, 1) * 2).values.sin() * 3  # noqa: E731
    compiled = torch.compile(function, backend="loopwright", dynamic=True)
    for shape in ((3, 4, 6), (5, 7, 6), (2, 9, 6)):
        x = torch.randn(shape)
        compare(compiled(x), function(x), 1e-4)
    assert seen["kernels"] == 2
    assert "inference: 2 parts of kernels, 1 op in PyTorch" in lw.explain(compiled)


def test_rows_of_a_flattened_batch_and_views_compile_once(monkeypatch):
    """Where a graph has sizes that are none of its tensors', and where a tensor's strides depend on a size."""
    seen = count_parts(monkeypatch)

    def function(x):
        rows = x.flatten(0, 1).sin()
        torch._dynamo.graph_break()
        return (rows * 3).sum(-1), x.transpose(0, 1).cos()

    compiled, counts = torch.compile(function, backend="loopwright", dynamic=True), []
    for a, b in ((3, 4), (5, 7), (9, 2)):
        for x in (torch.randn(a, b, 6), torch.randn(b, a, 6).transpose(0, 1)):
            x = x.requires_grad_()
            found, right = compiled(x), function(x)
            for f, r in zip(found, right):
                compare(f.detach(), r.detach(), 1e-4)
            compare(*(torch.autograd.grad(y[0].sum() + y[1].sum(), x)[0] for y in (found, right)), 1e-4)
        counts.append(seen["kernels"])
    assert counts[0] == counts[-1]
    text = lw.explain(compiled)
    assert text.count(" in PyTorch") == text.count(", 0 ops in PyTorch"), text


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_a_mode_reaches_forward_and_backward(mode, monkeypatch):
    from loopwright import torch_backend

    said, parts = [], []
    monkeypatch.setattr(torch_backend.log, "warning", lambda text, *_: said.append(text))
    made = torch_backend.Part.__init__
    monkeypatch.setattr(torch_backend.Part, "__init__", lambda self, *given: (made(self, *given), parts.append(self))[0])
    x = torch.randn(5, 7, requires_grad=True)
    y = torch.compile(lambda x: (x.sin() * x).sum(-1), backend="loopwright", mode=mode)(x)
    y.sum().backward()
    torch.testing.assert_close(y, (x.sin() * x).sum(-1))
    torch.testing.assert_close(x.grad, x.cos() * x + x.sin())
    assert {part.call.by_graph for part in parts if part.made} == {mode is not None} and len(parts) >= 2
    assert not said


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match="works: db, on_miss and accuracy"):
        torch.compile(lambda x: x + 1, backend="loopwright", options={"nothing": 1})(torch.ones(2))


def test_the_backend_is_listed():
    assert "loopwright" in torch._dynamo.list_backends()
