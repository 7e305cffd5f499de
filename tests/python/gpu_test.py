"""What only a GPU has: streams, addresses that are not aligned, captured graphs, arrays of other libraries."""
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402
from conftest import why_not  # noqa: E402

pytestmark = pytest.mark.skipif(bool(why_not("cuda")), reason=why_not("cuda") or "")


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.no_grad(), torch.device("cuda"):
        yield


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))

    def forward(self, x):
        h = x.float()
        return (self.weight * h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def same(a, b, tolerance=1e-2):
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("first", [0, 1, 3, 4])
def test_tensors_that_begin_anywhere_are_served_by_one_program(first):
    module = Norm(256)
    call = lw.compile(module, dynamic={"x": {0: "n"}})
    memory = torch.randn(40 * 256, dtype=torch.bfloat16)
    for begin in (0, first):
        x = memory[begin:begin + 9 * 256].view(9, 256)
        same(call(x), module(x))
    assert len(call.programs) == 1


def test_the_current_stream_is_used_and_another_can_be_named():
    module, side = nn.Linear(512, 512), torch.cuda.Stream()
    call, x = lw.compile(module), torch.randn(64, 512)
    call(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # what comes later on this stream waits; a launch elsewhere would read too early
        x.fill_(2)
        y = call(x)
    side.synchronize()
    same(y, module(x))
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        x.fill_(3)
    z = call(x, stream=side.cuda_stream)
    side.synchronize()
    same(z, module(x))


def test_tensors_elsewhere_are_refused_by_name():
    call = lw.compile(Norm(64), dynamic={"x": {0: "n"}})
    call(torch.randn(3, 64))
    with pytest.raises(lw.ArgumentError, match="on cpu(?s:.*)`x`"):
        call(torch.randn(3, 64, device="cpu"))
    with pytest.raises(lw.Unsupported, match="cuda:0(?s:.*)cpu"):
        lw.compile(lambda x, y: x + y)(torch.randn(3), torch.randn(3, device="cpu"))


def test_graphs_captured_by_torch_follow_their_inputs():
    module = nn.Sequential(nn.Linear(96, 200), nn.GELU(), nn.Linear(200, 50))
    call, x = lw.compile(module, dynamic={"input": {0: "n"}}), torch.randn(33, 96)
    call(x[:3])  # smaller than what is captured: workspace grows during the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x)
    for _ in range(3):
        x.copy_(torch.randn(33, 96))
        graph.replay()
        same(y, module(x))


class Steps(nn.Module):
    """More kernels than one, and a cache that is written in place."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = Norm(128), nn.Linear(128, 256), nn.Linear(256, 128)

    def forward(self, x, cache):
        h = self.down(torch.nn.functional.silu(self.up(self.norm(x))))
        cache.mul_(0.5).add_(h.mean(0))
        return self.norm(h + x), (h * cache).sum(0)


@pytest.mark.parametrize("door", ["compile", "torch.compile"])
def test_overhead_mode_moves_nothing_of_the_callers(door):
    """Inputs that move, a cache written in place and changed for another, sizes in turn, results that are kept, a capture between."""
    module = Steps()
    if door == "compile":
        call = lw.compile(module, dynamic={"x": {0: ("n", 1, 64)}}, mode="reduce-overhead")
    else:
        call = torch.compile(module, backend="loopwright", mode="reduce-overhead", dynamic=True)
    caches, kept = [torch.zeros(128) for _ in range(2)], []
    rights = [cache.clone() for cache in caches]
    for step in range(60):
        n, which = (7, 7, 7, 7, 12, 33)[step % 6], step // 20 % 2
        x = torch.randn(n, 128)
        mine, right = call(x, caches[which]), module(x, rights[which])
        kept.append((mine, right))
        same(caches[which], rights[which], 1e-4)
    for mine, right in kept:
        same(mine[0], right[0], 1e-4)
        same(mine[1], right[1], 1e-3)


def test_overhead_mode_is_left_out_of_a_capture():
    module = nn.Sequential(*[nn.Sequential(Norm(96), nn.Linear(96, 96)) for _ in range(3)])
    call, x = lw.compile(module, mode="reduce-overhead"), torch.randn(33, 96)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(8):
            call(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = call(x)
    for _ in range(5):
        z = call(torch.randn(33, 96))
        x.copy_(torch.randn(33, 96))
        graph.replay()
        same(y, module(x), 1e-4)
        assert z.data_ptr() != y.data_ptr()


def test_results_are_kept_while_the_allocator_is_busy():
    call = lw.compile(lambda x: x * 2)
    kept = []
    for i in range(50):
        kept.append(call(torch.full((1000,), float(i))))
        torch.randn(1000)
    for i, y in enumerate(kept):
        same(y, torch.full((1000,), 2.0 * i))


@pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="one GPU")
def test_the_second_gpu_is_used():
    module = Norm(64).to("cuda:1")
    x = torch.randn(3, 64, device="cuda:1")
    y = lw.compile(module)(x)
    assert y.device == x.device
    same(y, module(x))


def test_cupy_arrays_are_read_and_written():
    cupy = pytest.importorskip("cupy")
    graph = lw.Graph.parse("graph scale\nsymbol n in 1..1000\ninput x: f32[n, 8]\ny = mul(x, 2.0)\noutput y")
    scale = lw.load(graph, device="cuda")
    x, out = cupy.random.rand(5, 8, dtype=cupy.float32), cupy.empty((5, 8), cupy.float32)
    cupy.cuda.Device().synchronize()
    scale(x, out=out)
    cupy.cuda.Device().synchronize()
    assert bool((out == 2 * x).all())
