"""Graphs and `load` without torch."""
import pickle

import numpy as np
import pytest

import loopwright as lw

SCALE = """graph scale
symbol n in 1..100
input x: f32[n, 4]
input w: f32[4]
y = mul(x, w)
output y
output total = sum(y)
"""


def scale_arguments(n=5):
    generator = np.random.default_rng(n)
    return generator.standard_normal((n, 4), dtype=np.float32), generator.standard_normal(4, dtype=np.float32)


@pytest.fixture(scope="module")
def scale():
    return lw.load(lw.Graph.parse(SCALE))


def test_a_graph_tells_its_parts_and_reads_back():
    graph = lw.Graph.parse(SCALE)
    assert graph.name == "scale" and graph.symbols == {"n": (1, 100)}
    assert graph.inputs == {"x": "f32[n, 4]", "w": "f32[4]"}
    assert list(graph.outputs) == ["y", "total"]
    assert lw.Graph.parse(graph.text) == graph == pickle.loads(pickle.dumps(graph))


def test_a_syntax_error_has_its_place():
    with pytest.raises(lw.GraphError, match="thing.lw:3:5") as caught:
        lw.Graph.parse("graph g\ninput x: f32[2]\ny = nonsense(x)\noutput y", "thing.lw")
    assert caught.value.code == "unknown_op"


def test_a_missing_file_is_an_error():
    with pytest.raises(lw.Error):
        lw.Graph.load("no such file.lw")


def test_every_example_loads(examples):
    for path in sorted(examples.glob("*.lw")):
        assert lw.Graph.load(str(path)).outputs or path.stem == "kv_cache"


def test_arrays_of_several_sizes_in_one_callable(scale):
    for n in (1, 5, 100, 7):
        x, w = scale_arguments(n)
        y, total = scale(x, w)
        np.testing.assert_allclose(y, x * w, rtol=1e-6)
        np.testing.assert_allclose(total, (x * w).sum(), rtol=1e-4, atol=1e-4)
        assert total.shape == ()


def test_arguments_by_name(scale):
    x, w = scale_arguments()
    np.testing.assert_array_equal(scale(w=w, x=x)[0], scale(x, w)[0])
    np.testing.assert_array_equal(scale(x, w=w)[0], scale(x, w)[0])


def test_out_is_written_and_returned(scale):
    x, w = scale_arguments()
    out = np.full((5, 4), np.nan, np.float32), np.full((), np.nan, np.float32)
    result = scale(x, w, out=out)
    assert result[0] is out[0] and result[1] is out[1]
    np.testing.assert_allclose(out[0], x * w, rtol=1e-6)


def test_read_only_inputs_and_buffers(scale):
    x, w = scale_arguments()
    expected = scale(x, w)[0]
    x.setflags(write=False)
    np.testing.assert_array_equal(scale(x, memoryview(w))[0], expected)


def test_read_only_out_is_refused(scale):
    x, w = scale_arguments()
    out = np.zeros((5, 4), np.float32), np.zeros((), np.float32)
    out[0].setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        scale(x, w, out=out)


@pytest.mark.parametrize("change, words", [
    (lambda x, w: (x.astype(np.float64), w), "`x`.*(?s:.*)works: dtype f32"),
    (lambda x, w: (x[0], w), "shape \\[4\\](?s:.*)`x`(?s:.*)2 dimensions"),
    (lambda x, w: (x[:, :3], w), "dimension 1 of shape \\[5, 3\\](?s:.*)`x`"),
    (lambda x, w: (np.zeros((101, 4), np.float32), w), "outside its range(?s:.*)n in 1..100"),
    (lambda x, w: (np.zeros((0, 4), np.float32), w), "outside its range"),
    (lambda x, w: (x, w[::-1]), "strides \\[-1\\](?s:.*)`w`"),
    (lambda x, w: (np.asfortranarray(x), w), "strides \\[1, 5\\](?s:.*)`x`"),
    (lambda x, w: (x.astype(np.complex64), w), "`x`"),
])
def test_a_wrong_array_names_the_argument(scale, change, words):
    with pytest.raises(lw.ArgumentError, match=words):
        scale(*change(*scale_arguments()))


@pytest.mark.parametrize("call, words", [
    (lambda f, x, w: f(x), "`w` is missing"),
    (lambda f, x, w: f(x, w, w), "3 arguments are given"),
    (lambda f, x, w: f(x, w, z=1), "no argument `z`"),
    (lambda f, x, w: f(x, w, x=x), "`x` is given twice"),
    (lambda f, x, w: f("text", w), "`x`: str is no tensor"),
    (lambda f, x, w: f(None, w), "`x`"),
])
def test_a_wrong_call_is_a_type_error(scale, call, words):
    with pytest.raises((TypeError, lw.ArgumentError), match=words):
        call(scale, *scale_arguments())


def test_out_that_does_not_fit_is_refused(scale):
    x, w = scale_arguments()
    total = np.zeros((), np.float32)
    for out, words in [((x, total), "shares memory"), ((np.zeros((4, 4), np.float32), total), "f32\\[5, 4\\]"),
                       ((total,), "2 outputs"), ((np.zeros((5, 8), np.float32)[:, ::2], total), "dense")]:
        with pytest.raises(ValueError, match=words):
            scale(x, w, out=out)


def test_an_updated_input_is_written_in_place():
    graph = lw.Graph.parse("""graph cache
input cache: f32[8]
input part: f32[2]
input at: i64[]
update cache = slice_update(cache, part, at, axis=0)
output seen = sum(cache)
""")
    call = lw.load(graph)
    cache = np.arange(8, dtype=np.float32)
    assert call(cache, np.array([10, 20], np.float32), np.array(3)) == 28
    np.testing.assert_array_equal(cache, [0, 1, 2, 10, 20, 5, 6, 7])
    with pytest.raises(lw.ArgumentError, match="shares memory"):
        call(cache, cache[:2], np.array(3))
    cache.setflags(write=False)
    with pytest.raises((ValueError, BufferError), match="cache"):
        call(cache, np.zeros(2, np.float32), np.array(3))


def test_explain_names_the_variant(scale):
    assert "default schedule" in scale.explain(n=3)
    assert "default schedule" in lw.explain(scale, n=3)
    with pytest.raises(lw.Error, match="symbol n"):
        scale.explain()


def test_a_callable_says_why_it_is_not_pickled(scale):
    with pytest.raises(TypeError, match="machine code"):
        pickle.dumps(scale)


def test_strict_without_a_database_has_no_variant():
    with pytest.raises(lw.NotFound):
        lw.load(lw.Graph.parse(SCALE), on_miss="strict")
    with pytest.raises(lw.ArgumentError, match="on_miss"):
        lw.load(lw.Graph.parse(SCALE), on_miss="never")


def test_a_device_that_is_not_there_is_an_error():
    with pytest.raises(lw.Error):
        lw.load(lw.Graph.parse(SCALE), device="tpu")
