"""Door one with gradients: forward and backward by generated kernels, the same numbers as eager PyTorch."""
import copy

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402
from loopwright import torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(device):
    torch.manual_seed(0)
    torch._dynamo.reset()


def same(a, b, tolerance=1e-4):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


class LoRALinear(nn.Module):
    """A frozen product and two that are trained, as PEFT makes it."""

    def __init__(self, wide, out, rank=4):
        super().__init__()
        self.base = nn.Linear(wide, out).requires_grad_(False)
        self.a, self.b = nn.Linear(wide, rank, bias=False), nn.Linear(rank, out, bias=False)

    def forward(self, x):
        return self.base(x) + 2 * self.b(self.a(x))


def step(call, parameters, optimizer, *values):
    """Loss and gradients of one step, which is taken."""
    optimizer.zero_grad()
    loss = call(*values).float().pow(2).mean()
    loss.backward()
    gradients = [p.grad.clone() for p in parameters]
    optimizer.step()
    return loss.detach(), gradients


@pytest.mark.parametrize("make, rows", [
    (lambda: nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 3)), (7, 9, 33, 64)),
    (lambda: nn.Sequential(LoRALinear(12, 20), nn.SiLU(), LoRALinear(20, 5)), (7, 5, 64, 1, 15)),
], ids=["mlp", "lora"])
def test_steps_of_any_length_agree_with_eager(make, rows):
    mine = make()
    theirs = copy.deepcopy(mine)
    call = lw.compile(mine, dynamic={"input": {0: ("rows", 1, 64)}})
    trained = [[p for p in m.parameters() if p.requires_grad] for m in (mine, theirs)]
    optimizers = [torch.optim.SGD(p, lr=0.1) for p in trained]
    for n in rows:
        x = torch.randn(n, 12)
        (a, mine_grads), (b, their_grads) = (step(c, *p, x) for c, p in zip((call, theirs), zip(trained, optimizers)))
        same(a, b)
        for one, other in zip(mine_grads, their_grads):
            same(one, other)


def test_a_size_that_is_declared_never_compiles_again():
    call = lw.compile(LoRALinear(8, 8), dynamic={"x": {0: ("rows", 1, 64)}})
    for n in (7, 9, 64, 2):
        call(torch.randn(n, 8)).sum().backward()
    assert len(call.graphs) == 2  # forward and backward
    with pytest.raises(lw.ArgumentError, match="rows in 1..64"):
        call(torch.randn(65, 8))


def test_inference_keeps_its_own_program_and_its_speed():
    module = LoRALinear(8, 8)
    call, x = lw.compile(module), torch.randn(3, 8)
    assert call(x).requires_grad
    with torch.no_grad():
        assert not call(x).requires_grad
        assert len(call.programs) == 1
    with torch.inference_mode():
        same(call(x), module(x))
    module.requires_grad_(False)
    assert not call(x).requires_grad and len(call.programs) == 1


def test_a_call_that_was_trained_before_asks_nobody(monkeypatch):
    module = LoRALinear(8, 8)
    call, x = lw.compile(module, dynamic={"x": {0: ("rows", 1, 64)}}), torch.randn(3, 8)
    call(x).sum().backward()
    asked, original = [], call.details._miss
    monkeypatch.setattr(call.details, "_miss", lambda *a: asked.append(a) or original(*a))
    for n in (3, 4, 5):
        assert call(torch.randn(n, 8)).requires_grad
    assert not asked
    with torch.no_grad():  # nothing for inference was traced yet
        assert not call(x).requires_grad
    assert len(asked) == 1 and call(x).requires_grad and len(asked) == 1
    module.requires_grad_(False)
    assert not call(x).requires_grad
    module.b = nn.Linear(4, 8, bias=False)  # the trained tensor is another one now
    y = call(x)
    same(y, module(x))
    y.sum().backward()
    assert module.b.weight.grad is not None
    module.b = nn.Linear(4, 8, bias=False).requires_grad_(False)  # the one that was trained is in use no more
    y = call(x)
    same(y, module(x))
    assert not y.requires_grad


def test_an_argument_that_was_trained_may_be_plain_the_next_time():
    call, x = lw.compile(lambda x, n=1: x.sin() * n), torch.randn(2, 8, requires_grad=True)
    for value in (x, x.detach(), x, torch.randn(2, 8)):
        assert call(value).requires_grad == value.requires_grad
        assert call(x=value).requires_grad == value.requires_grad
    with pytest.raises(TypeError, match="`x`"):
        call(3.5j)


def test_what_needs_no_gradient_is_traced_for_inference():
    call = lw.compile(lambda x: x * 2)
    call(torch.ones(2))
    assert len(call.programs) == 1 and call.training is None


def test_gradients_of_arguments_and_keywords():
    def function(x, *, scale, n):
        return (x * scale).sin() + n

    call = lw.compile(function)
    x, scale = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
    call(x, scale=scale, n=2).sum().backward()
    mine = x.grad.clone(), scale.grad.clone()
    x.grad = scale.grad = None
    function(x, scale=scale, n=2).sum().backward()
    same(mine, (x.grad, scale.grad))


def test_ops_that_are_not_covered_run_in_pytorch():
    def function(x):
        return torch.linalg.inv(x @ x.t() + 4 * torch.eye(4, device=x.device)).sin()

    x = torch.randn(4, 4, requires_grad=True)
    y = lw.compile(function)(x)
    same(y, function(x))
    same(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(function(x).sum(), x)[0], 1e-3)


def test_given_outputs_are_refused_where_a_gradient_is_wanted():
    call, x = lw.compile(lambda x: x.sin()), torch.randn(2, 8, requires_grad=True)
    with pytest.raises(lw.Unsupported, match="requires a gradient(?s:.*)no_grad"):
        call(x, out=torch.empty(2, 8))
    with torch.no_grad():
        same(call(x, out=torch.empty(2, 8)), x.sin())


def test_forward_and_backward_are_tuned(tmp_path, device):
    call, x = lw.compile(LoRALinear(8, 8)), torch.randn(6, 8)
    call(x).sum().backward()
    report = lw.tune(call, db=tmp_path / "t.db", budget="4s", device=device, max_trials=2)
    assert len(report["workloads"]) >= 4
    y = call(x)
    y.sum().backward()
    assert "(not tuned): serves" not in lw.explain(call)


def test_saved_views_are_not_copied(monkeypatch):
    """What the backward pass reads is kept as it is: the forward kernels are those of inference."""
    made = []
    original = torch_backend.keeping.plan_graph
    monkeypatch.setattr(torch_backend.keeping, "plan_graph", lambda *a: made.append(original(*a)) or made[-1])
    module, x = nn.Sequential(LoRALinear(8, 8), LoRALinear(8, 8)), torch.randn(2, 3, 8)
    y = torch.compile(module, backend="loopwright")(x)
    with torch.no_grad():
        torch._dynamo.reset()
        torch.compile(module, backend="loopwright")(x)
    same(y, module(x))
    trained, inference = (len(plan.kernels) for plan in made)
    assert trained == inference
