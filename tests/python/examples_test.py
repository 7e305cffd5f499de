"""The cases that the project was created for, as torch modules, against eager; two sizes with one compiled object."""
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
import loopwright as lw  # noqa: E402


class RMSNorm(nn.Module):
    """gpt-oss style: f32 weight, bf16 activations, f32 arithmetic."""

    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n))
        self.eps = eps

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return (self.weight * h).to(x.dtype)


class SinSumGt(nn.Module):
    def forward(self, x):
        y = torch.sin(x)
        return y, y.sum() > 0


class LoRALinear(nn.Module):
    def __init__(self, i, o, r=16, alpha=32, bias=True):
        super().__init__()
        self.base = nn.Linear(i, o, bias=bias)
        self.a, self.b = nn.Linear(i, r, bias=False), nn.Linear(r, o, bias=False)
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scale


class LoRAMLP(nn.Module):
    def __init__(self, wide, narrow):
        super().__init__()
        self.proj, self.fc1, self.fc2 = LoRALinear(wide, narrow), LoRALinear(narrow, narrow), LoRALinear(narrow, wide)

    def forward(self, x):
        return self.fc2(self.fc1(self.proj(x)))


class Expert(nn.Module):
    """OLMoE expert: bf16 base weights, f32 adapters."""

    def __init__(self, h, f, r=16):
        super().__init__()
        for n, i, o in (("gate", h, f), ("up", h, f), ("down", f, h)):
            for name, rows, columns, dtype in ((n, o, i, torch.bfloat16), (n + "_a", r, i, torch.float32), (n + "_b", o, r, torch.float32)):
                setattr(self, name, nn.Parameter(torch.randn(rows, columns, dtype=dtype) * columns ** -0.5))

    def lin(self, x, n):
        y = nn.functional.linear(x, getattr(self, n))
        z = nn.functional.linear(nn.functional.linear(x.to(torch.float32), getattr(self, n + "_a")), getattr(self, n + "_b"))
        return (y + z * 2.0).to(torch.bfloat16)

    def forward(self, x):
        return self.lin(nn.functional.silu(self.lin(x, "gate")) * self.lin(x, "up"), "down")


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.qkv, self.out = nn.RMSNorm(width), nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(b, s, w))


def rows(width, dtype=torch.float32, lead=()):
    return lambda n: torch.randn(*lead, n, width, dtype=dtype)


CASES = {
    "rmsnorm": (lambda: RMSNorm(96), rows(96, torch.bfloat16, (1,)), {1: "tokens"}, 1e-2),
    "sin_sum_gt": (SinSumGt, lambda n: torch.randint(3, 9, (40 * n,)).as_strided((n, 16), (40, 2)), {0: "rows"}, 1e-5),
    "lora_mlp": (lambda: LoRAMLP(112, 32), rows(112, lead=(1,)), {1: "tokens"}, 1e-4),
    "moe_expert": (lambda: Expert(64, 32), rows(64, torch.bfloat16), {0: "tokens"}, 3e-2),
    "softmax": (lambda: nn.Softmax(-1), rows(130), {0: "rows"}, 1e-5),
    "layernorm": (lambda: nn.LayerNorm(130), rows(130), {0: "rows"}, 1e-4),
    "mlp": (lambda: nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 48)), rows(48), {0: "tokens"}, 1e-4),
    "attention": (lambda: Attention(32, 4), rows(32, lead=(2,)), {1: "tokens"}, 1e-4),
}


def compare(found, expected, tolerance):
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for f, e in zip(found, expected):
            compare(f, e, tolerance)
        return
    assert found.dtype == expected.dtype and found.shape == expected.shape
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_module_of_many_sizes_is_traced_once(case, device):
    torch.manual_seed(0)
    make, sample, dims, tolerance = CASES[case]
    module = make().eval()
    call = lw.compile(module, dynamic={next(iter(lw.compile(module).names)): dims})
    for n in (5, 1, 17, 64):
        x = sample(n)
        compare(call(x), module(x), tolerance)
    assert len(call.programs) == 1
    assert len(call.graph.symbols) == 1


@torch.no_grad()
def test_a_strided_integer_view_is_one_kernel_without_a_copy(device):
    x = torch.randint(3, 9, (319999,)).as_strided((400, 400), (800, 2))
    call = lw.compile(SinSumGt())
    compare(call(x), SinSumGt()(x), 1e-5)
    assert "strides [800, 2]" in call.graph.text
