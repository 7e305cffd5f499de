"""Door one with lists, tuples and dicts of tensors, `*args` and `**kwargs`."""
import collections

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402

Pair = collections.namedtuple("Pair", "left right")


@pytest.fixture(autouse=True)
def fresh(device):
    torch.manual_seed(0)
    torch._dynamo.reset()


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_lists_tuples_and_dicts_hold_tensors():
    def function(x, states, scale=2.0):
        h, (c, more) = states["h"], states["rest"]
        return {"y": x * scale + h, "z": [c - more[0], more[1].sum()]}

    call = lw.compile(function)
    x, h, c, a, b = torch.randn(5, 3, 4)
    for scale in (2.0, 2.0):
        states = {"h": h, "rest": (c, [a, b])}
        found, wanted = call(x, states, scale), function(x, states, scale)
        assert found.keys() == wanted.keys()
        same(found["y"], wanted["y"]), same(found["z"], wanted["z"])
    same(call(x=x, states=states)["y"], wanted["y"])
    assert len(call.graphs) == 1 and "rest" in call.graph.text


def test_plain_tensors_keep_their_own_program():
    def function(x):
        return x + 1 if isinstance(x, torch.Tensor) else x[0] + x[1]

    call, x = lw.compile(function), torch.randn(4)
    same(call(x), x + 1)
    same(call([x, x]), 2 * x)
    same(call((x, x)), 2 * x)
    same(call(Pair(x, x * 2)), 3 * x)
    same(call(x), x + 1)
    assert len(call.programs) == 1 and len(call.graphs) == 4
    with pytest.raises(TypeError, match="argument `x.0.`"):
        call([object(), x])


def test_any_number_of_arguments():
    def function(first, *others, scale=1.0, **named):
        for other in others:
            first = first + other
        return first * scale + named.get("bias", 0.0)

    call = lw.compile(function, dynamic={"first": {0: "n"}, "others": {0: "n"}, "bias": {0: "n"}})
    for n in (3, 7):
        a, b, c = torch.randn(3, n, 4)
        same(call(a), a)
        same(call(a, b, c), a + b + c)
        same(call(a, b, scale=2.0, bias=c), (a + b) * 2 + c)
    assert len(call.graphs) == 3
    with pytest.raises(TypeError, match="missing a required argument"):
        call()


def test_sizes_inside_are_symbols_and_checked():
    call = lw.compile(lambda pair: pair[0] @ pair[1], dynamic={"pair[0]": {0: ("rows", 1, 64)}})
    w = torch.randn(4, 5)
    for n in (2, 9, 64, 1):
        x = torch.randn(n, 4)
        same(call([x, w]), x @ w)
    assert len(call.graphs) == 1
    with pytest.raises(lw.ArgumentError, match=r"pair\[0\](?s:.*)rows in 1..64"):
        call([torch.randn(65, 4), w])


def test_an_argument_is_updated_in_place():
    def function(cache, x):
        cache["k"].add_(x)
        return cache["k"] * 2

    x, k, expected = torch.ones(3), torch.zeros(3), torch.ones(3)
    call = lw.compile(function)
    same(call({"k": k}, x), expected * 2)
    same(k, expected)


def test_gradients_flow_to_what_is_inside():
    module = nn.Linear(4, 4)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *xs, **named):
            return self.inner(xs[0] + xs[1]) * named["scale"]

    whole = Whole()
    call = lw.compile(whole)
    xs = [torch.randn(2, 4, requires_grad=True) for _ in range(2)]
    for _ in range(2):
        call(*xs, scale=2.0).pow(2).sum().backward()
        mine = [t.grad.clone() for t in (*xs, module.weight)]
        for t in (*xs, *module.parameters()):
            t.grad = None
        whole(*xs, scale=2.0).pow(2).sum().backward()
        same(mine, [t.grad for t in (*xs, module.weight)])
        for t in (*xs, *module.parameters()):
            t.grad = None
    with torch.no_grad():
        same(call(*xs, scale=2.0), whole(*xs, scale=2.0))


def test_a_trained_module_takes_a_list_after_a_tensor():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x if isinstance(x, torch.Tensor) else x[0] + x[1]) * self.weight

    module = Sum()
    call, x = lw.compile(module), torch.randn(2, 3)
    for value in (x, [x, x], x, (x, x)):
        same(call(value), module(value))
        assert call(value).requires_grad


def test_out_and_tuning_reach_every_structure(tmp_path):
    call, x = lw.compile(lambda xs: xs[0] * xs[1]), torch.randn(4, 8)
    out = torch.empty(4, 8)
    assert call([x, x], out=out) is out
    same(out, x * x)
    lw.tune(call, db=tmp_path / "t.db", budget="2s", max_trials=1, device=str(x.device))
    same(call([x, x]), x * x)
    assert "(not tuned): serves" not in lw.explain(call)


def test_there_is_an_end_to_structures():
    call, x = lw.compile(lambda xs: xs[0] + 1), torch.randn(2)
    for n in range(1, 17):
        call([x] * n)
    with pytest.raises(lw.Unsupported, match="16 structures"):
        call([x] * 17)
