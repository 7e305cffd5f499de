"""Door one: what a compiled callable reads anew, what it refuses, and what it does under threads."""
import copy
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402


@pytest.fixture(autouse=True)
def inference(device):
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Scale(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))
        self.register_buffer("shift", torch.randn(n))

    def forward(self, x):
        return x * self.weight + self.shift


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scale()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.inner(x)).relu()


def same(a, b):
    torch.testing.assert_close(a, b)


# ---- parameters and modules
def test_parameters_are_read_anew_at_each_call():
    module = Scale()
    call, x = lw.compile(module), torch.randn(3, 8)
    same(call(x), module(x))
    module.weight.copy_(torch.randn(8))
    same(call(x), module(x))
    module.weight = nn.Parameter(torch.randn(8))
    module.shift = torch.randn(8)
    same(call(x), module(x))
    module.load_state_dict({"weight": torch.ones(8), "shift": torch.zeros(8)})
    same(call(x), x)
    module.load_state_dict({"weight": torch.zeros(8), "shift": torch.ones(8)}, assign=True)
    same(call(x), torch.ones(3, 8))
    assert len(call.programs) == 1


def test_a_parameter_of_another_dtype_or_size_is_never_used_silently():
    module = Scale()
    call, x = lw.compile(module), torch.randn(3, 8)
    call(x)
    module.weight = nn.Parameter(torch.randn(8, dtype=torch.float64))
    same(call(x), module(x))
    module.weight = nn.Parameter(torch.randn(5))
    with pytest.raises(lw.Error):
        call(x)


def test_a_replaced_submodule_and_training_mode_are_traced_again():
    module = Nested().eval()
    call, x = lw.compile(module), torch.randn(3, 8)
    same(call(x), module(x))
    module.inner = nn.Linear(8, 4)
    same(call(x), module(x))
    module.train()
    with pytest.raises(lw.Unsupported, match="eval"):
        call(x)
    module.eval()
    same(call(x), module(x))


def test_an_attribute_that_changes_is_traced_again():
    class Power(nn.Module):
        exponent = 2.0

        def forward(self, x):
            return x * self.exponent

    module = Power()
    module.exponent = 3.0
    call, x = lw.compile(module), torch.randn(4)
    same(call(x), x * 3)
    module.exponent = 5.0
    same(call(x), x * 5)


def test_tied_parameters_that_are_untied_are_traced_again():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4, bias=False)
            self.b = nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    module = Tied()
    call, x = lw.compile(module), torch.randn(3, 4)
    same(call(x), module(x))
    module.b.weight = nn.Parameter(torch.randn(4, 4))
    same(call(x), module(x))
    module.a.weight = nn.Parameter(torch.randn(4, 4))
    same(call(x), module(x))


def test_a_function_sees_its_closure_and_globals_change():
    weight, module = torch.randn(4), Scale(4)

    def function(x):
        return module(x) * weight

    call, x = lw.compile(function), torch.randn(3, 4)
    same(call(x), function(x))
    weight.copy_(torch.randn(4))
    same(call(x), function(x))
    weight = torch.randn(4)
    same(call(x), function(x))
    module.weight = nn.Parameter(torch.randn(4))
    same(call(x), function(x))
    module = Scale(4)
    same(call(x), function(x))


def test_a_bound_method_uses_its_module():
    module = Scale()
    call, x = lw.compile(module.forward), torch.randn(3, 8)
    same(call(x), module(x))
    module.weight = nn.Parameter(torch.randn(8))
    same(call(x), module(x))


def test_a_mode_changes_how_calls_are_launched_and_nothing_else():
    module = Nested().eval()
    plain, quick = lw.compile(module), lw.compile(module, mode="reduce-overhead")
    assert not plain.by_graph and quick.by_graph
    kept = []
    for i in range(6):
        x = torch.randn(3 + i // 3, 8)
        kept.append((quick(x), module(x)))
    for mine, right in kept:
        same(mine, right)
    lists = lw.compile(lambda xs: xs[0] + xs[1], mode="reduce-overhead")
    same(lists([x, x]), 2 * x)
    assert lists.nested[0][1].call.by_graph
    with pytest.raises(lw.ArgumentError, match="max-autotune(?s:.*)reduce-overhead"):
        lw.compile(module, mode="max-autotune")


def test_a_buffer_that_forward_updates_is_updated():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            self.seen.add_(x)
            return self.seen * 2

    module, twin = Counter(), Counter()
    call = lw.compile(module)
    for _ in range(3):
        x = torch.randn(4)
        same(call(x), twin(x))
        same(module.seen, twin.seen)


def test_an_argument_that_is_updated_is_updated():
    def write(cache, row):
        cache[2:3] = row
        return cache.sum()

    call = lw.compile(write)
    mine, theirs, row = torch.zeros(4, 3), torch.zeros(4, 3), torch.randn(1, 3)
    same(call(mine, row), write(theirs, row))
    same(mine, theirs)
    with pytest.raises(lw.ArgumentError, match="shares memory"):
        call(mine, mine[:1])


# ---- sizes
def test_declared_sizes_never_trace_again():
    call = lw.compile(lambda x, y: torch.cat([x, y]) @ y.t(), dynamic={"x": {0: "a"}, "y": {0: ("b", 1, 50)}})
    for a, b in ((3, 4), (1, 1), (4, 4), (20, 50), (2, 7)):
        x, y = torch.randn(a, 6), torch.randn(b, 6)
        same(call(x, y), torch.cat([x, y]) @ y.t())
    assert len(call.programs) == 1
    with pytest.raises(lw.ArgumentError, match="`y`(?s:.*)b in 1..50"):
        call(torch.randn(3, 6), torch.randn(51, 6))
    with pytest.raises(lw.ArgumentError, match="`y`|`x`"):
        call(torch.randn(3, 7), torch.randn(5, 7))


def test_one_name_is_one_size():
    call = lw.compile(lambda x, y: x + y, dynamic={"x": {0: "n"}, "y": {0: "n"}})
    same(call(torch.ones(5), torch.ones(5)), torch.full((5,), 2.0))
    with pytest.raises(lw.Error):
        call(torch.ones(5), torch.ones(6))
    assert len(call.programs) == 1


def test_sizes_that_change_become_symbols_by_themselves():
    call = lw.compile(lambda x: torch.softmax(x, -1))
    for n in (4, 9, 31, 2, 400):
        x = torch.randn(n, 5)
        same(call(x), torch.softmax(x, -1))
    assert len(call.programs) == 2
    same(call(torch.ones(1, 5)), torch.full((1, 5), 0.2))


def test_marked_dimensions_are_symbols_at_once():
    call, x = lw.compile(lambda x: x * 2), torch.randn(4, 5)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    call(x)
    same(call(torch.ones(1, 5)), torch.full((1, 5), 2.0))
    same(call(torch.ones(77, 5)), torch.full((77, 5), 2.0))
    assert len(call.programs) == 1


def test_a_size_that_the_code_fixes_cannot_be_declared():
    with pytest.raises(lw.Unsupported):
        lw.compile(lambda x: x.view(2, 3) * 2, dynamic={"x": {0: "n"}})(torch.randn(6))


def test_zero_sizes():
    call = lw.compile(lambda x: (x * 2, x.sum(0)), dynamic={"x": {0: ("n", 0, 10)}})
    for n in (3, 0, 1):
        x = torch.randn(n, 4)
        for found, expected in zip(call(x), (x * 2, x.sum(0))):
            same(found, expected)
    same(lw.compile(lambda x: x + 1)(torch.randn(0, 3)), torch.empty(0, 3))


# ---- views
@pytest.mark.parametrize("view", [
    lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 1:5], lambda x: x.unfold(0, 3, 1), lambda x: x[0].expand(7, -1),
    lambda x: x.as_strided((3, 3), (1, 1)), lambda x: x.view(2, 4, 8).permute(2, 0, 1), lambda x: x[3:3], lambda x: x[1:2, 2:],
])
def test_views_are_read_as_they_are(view):
    x = view(torch.randn(8, 8))
    same(lw.compile(lambda a: a * 2 + 1)(x), x * 2 + 1)


def test_other_strides_are_traced_once_more():
    call, x = lw.compile(lambda a: a.sum(0), dynamic={"a": {0: "n"}}), torch.randn(6, 4)
    same(call(x), x.sum(0))
    for n in (4, 9):
        y = torch.randn(4, n).t()
        same(call(y), y.sum(0))
    assert len(call.programs) == 2


# ---- what is refused
@pytest.mark.parametrize("bad, words", [
    (lambda: torch.randn(3, 8, dtype=torch.float64), "dtype f64(?s:.*)`x`(?s:.*)dtype f32"),
    (lambda: torch.randn(8), "`x`(?s:.*)2 dimensions"),
    (lambda: torch.randn(3, 8, dtype=torch.complex64), "`x`"),
    (lambda: torch.randn(3, 8).to("meta"), "`x`"),
    (lambda: torch.randn(3, 8).to_sparse(), "`x`"),
    (lambda: torch.randn(3, 8).tolist(), "`x`"),
    (lambda: torch._neg_view(torch.randn(3, 8)), "resolve_neg"),
    (lambda: None, "`x`"),
])
def test_a_wrong_tensor_names_the_argument(bad, words):
    call = lw.compile(Scale(), dynamic={"x": {0: "n"}})
    call(torch.randn(3, 8))
    with pytest.raises((lw.Error, TypeError), match=words):
        call(bad())


def test_another_dtype_is_traced_again_where_that_is_allowed():
    call = lw.compile(lambda x, flag=True: x * 2 if flag else x * 3, retrace=True)
    for x in (torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(2, 2)):
        same(call(x), x * 2)
        same(call(x, False), x * 3)


def test_another_plain_value_is_refused():
    call = lw.compile(lambda x, factor: x * factor)
    same(call(torch.ones(3), 2), torch.full((3,), 2.0))
    same(call(factor=2, x=torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(lw.ArgumentError, match="`factor`(?s:.*)retrace"):
        call(torch.ones(3), 3)


def test_subclasses_are_refused():
    class Mine(torch.Tensor):
        pass

    call = lw.compile(lambda x: x * 2)
    with pytest.raises(TypeError, match="subclass"):
        call(torch.ones(3).as_subclass(Mine))
    call(torch.ones(3))
    with pytest.raises(TypeError, match="subclass"):
        call(torch.ones(3).as_subclass(Mine))


def test_a_function_that_does_not_tell_its_parameters_is_refused():
    with pytest.raises(TypeError, match="a lambda that calls it"):
        lw.compile(torch.sin)


def test_loaded_plans_refuse_gradients():
    call, x = lw.load(lw.Graph.parse("graph g\ninput x: f32[2]\noutput y = neg(x)")), torch.ones(2, requires_grad=True)
    call(x)
    with torch.enable_grad(), pytest.raises(lw.Unsupported, match="`x` requires a gradient(?s:.*)no_grad"):
        call(x)


def test_uncovered_ops_are_all_named_with_their_lines():
    def function(x):
        y = torch.linalg.inv(x)
        return y + torch.fft.fft(x).real

    with pytest.raises(lw.Unsupported) as caught:
        lw.compile(function)(torch.eye(3))
    text = str(caught.value)
    assert "linalg_inv" in text and "fft" in text and text.count("compile_test.py:") >= 2


def test_options_that_do_not_exist_are_refused():
    for options in ({"accuracy": "fast"}, {"on_miss": "never"}):
        with pytest.raises(lw.Error):
            lw.compile(Scale(), **options)
    with pytest.raises(lw.ArgumentError, match="nothing"):
        lw.compile(Scale(), dynamic={"nothing": {0: "n"}})
    with pytest.raises(lw.ArgumentError, match="dimension 0"):
        lw.compile(Scale(), dynamic={"x": {0: 3.5}})
    with pytest.raises(TypeError):
        lw.compile(3)


def test_copies_and_pickles_say_why_not():
    call = lw.compile(Scale())
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="machine code"):
            attempt(call)


# ---- results
def test_results_have_the_structure_of_the_function():
    call = lw.compile(lambda x: {"a": x + 1, "b": [x * 2, (x - 1, None)], "same": x})
    x = torch.randn(3)
    result = call(x)
    same(result["a"], x + 1)
    same(result["b"][0], x * 2)
    same(result["b"][1][0], x - 1)
    assert result["b"][1][1] is None and result["same"] is x


def test_results_are_fresh_and_out_is_written():
    call, x = lw.compile(lambda x: x + 1), torch.randn(5)
    first, second = call(x), call(x)
    assert first.data_ptr() != second.data_ptr() and first.is_contiguous()
    out = torch.empty(5)
    assert call(x, out=out) is out
    same(out, x + 1)
    for bad, words in ((torch.empty(6), "out"), (x, "shares memory"), (torch.empty(5, dtype=torch.float64), "f32"),
                       (torch.empty(10)[::2], "dense")):
        with pytest.raises(ValueError, match=words):
            call(x, out=bad)


def test_the_default_of_a_parameter_is_used():
    def function(x, y=None, *, scale=2.0):
        return x * scale if y is None else x + y

    call = lw.compile(function, retrace=True)
    x = torch.randn(3)
    same(call(x), x * 2)
    same(call(x, x), x + x)
    same(call(x, scale=3.0), x * 3)


def test_a_decorator_keeps_name_and_signature():
    @lw.compile(dynamic={"x": {0: "n"}})
    def double(x):
        """Twice x."""
        return x * 2

    assert double.__name__ == "double" and double.__doc__ == "Twice x."
    assert "0 programs" in repr(double)
    same(double(torch.ones(3)), torch.full((3,), 2.0))


def test_explain_and_coverage_are_for_people():
    call = lw.compile(lambda x: x * 2, dynamic={"x": {0: "n"}})
    assert "not been called" in call.explain()
    call(torch.ones(3))
    assert "default schedule" in lw.explain(call, n=3)
    assert "aten.linear.default" in lw.coverage()


# ---- threads
def test_threads_trace_and_call_one_object():
    module, failures = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), []
    call = lw.compile(module, dynamic={"input": {0: "n"}})
    inputs = [torch.randn(n, 16) for n in range(1, 9)]
    expected = [module(x) for x in inputs]

    def work(start):
        with torch.no_grad():
            for i in range(200):
                k = (start + i) % len(inputs)
                try:
                    torch.testing.assert_close(call(inputs[k]), expected[k], rtol=1e-4, atol=1e-4)
                except BaseException as error:
                    failures.append(error)
                    return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures and len(call.programs) == 1


# ---- tuning
def test_a_tuned_callable_is_served_from_its_database(tmp_path):
    call = lw.compile(lambda x: torch.softmax(x, -1), dynamic={"x": {0: ("n", 1, 64)}})
    with pytest.raises(lw.ArgumentError, match="not been called"):
        lw.tune(call, db=tmp_path / "t.db", budget="5s")
    x = torch.randn(9, 300)
    call(x)
    report = lw.tune(call, db=tmp_path / "t.db", budget="6s", max_trials=3, progress=False)
    assert report["workloads"]
    same(call(x), torch.softmax(x, -1))
    assert len(lw.Database(tmp_path / "t.db").list("plans")) == 1
    again = lw.compile(lambda x: torch.softmax(x, -1), dynamic={"x": {0: ("n", 1, 64)}}, db=tmp_path / "t.db")
    same(again(x), torch.softmax(x, -1))
    assert again.graph.text.splitlines()[1:] == call.graph.text.splitlines()[1:]
