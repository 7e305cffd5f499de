"""Models of Hugging Face's transformers: training steps and generation agree with eager PyTorch, and sizes that change compile
nothing. LOOPWRIGHT_HF=all runs every model with LoRA too, and sizes that are found to change instead of symbols from the start."""
import copy
import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
import hf_models  # noqa: E402
import transformers as hf  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

import loopwright as lw  # noqa: E402
from loopwright import keeping  # noqa: E402

# One entry of ctest for each half: the whole takes six minutes of a core, most of it compiling.
HALF = os.environ.get("LOOPWRIGHT_HF_PART")
EXPERTS = {"gpt_oss", "mixtral", "olmoe", "phimoe", "dbrx"}
SHAPES = [(2, 15), (3, 37), (2, 1369), (5, 64), (4, 568)]
ALL = os.environ.get("LOOPWRIGHT_HF") == "all"


def of_this_half(names):
    return [n for n in names if HALF is None or (n in EXPERTS) == (HALF == "experts")]


@pytest.fixture(autouse=True)
def fresh(device):
    torch._dynamo.reset()
    counters.clear()


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory):
    """The models have kernels in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def count_plans(monkeypatch):
    plans, original = [], keeping.plan_graph
    monkeypatch.setattr(keeping, "plan_graph", lambda *a: plans.append(original(*a)) or plans[-1])
    return plans


def step(call, model, batch):
    """Loss, logits and gradients of one step."""
    model.zero_grad()
    result = call(**batch)
    result.loss.backward()
    return [result.loss.detach(), result.logits.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def error_of(found, exact):
    """The largest error of any tensor, by norms."""
    return max(float((f.double() - e.double()).norm() / e.double().norm().clamp(min=1e-6)) for f, e in zip(found, exact, strict=True))


def check_steps(name, model, monkeypatch, most=1e-5, times=2, breaks=False, dynamic=None):
    plans = count_plans(monkeypatch)
    exact = copy.deepcopy(model).double()
    compiled, settled = torch.compile(model, backend="loopwright", dynamic=dynamic), None
    for shape in SHAPES:
        batch = hf_models.make_batch(name, *shape)
        found = step(compiled, model, batch)
        theirs = step(model, model, batch)
        wide = {k: v.double() if v.is_floating_point() else v for k, v in batch.items()}
        right = step(exact, exact, wide)
        mine, eager = error_of(found, right), error_of(theirs, right)
        assert mine <= times * eager + most, f"{shape}: {mine:.2e}, eager {eager:.2e}"
        now = counters["frames"]["ok"], len(plans)
        if shape == SHAPES[1]:
            settled = now
        assert settled is None or now == settled, f"{shape}: compiled again"
    assert bool(counters["graph_break"]) == breaks
    return compiled


@pytest.mark.parametrize("name", of_this_half(n for n in hf_models.MODELS if n != "dbrx"))
def test_training_steps_of_any_size(name, monkeypatch, device):
    """Sizes are symbols from the second call on, or, which compiles half as much, from the first."""
    dynamic = None if ALL or name in ("llama", "vit") else True
    compiled = check_steps(name, hf_models.make(name), monkeypatch, dynamic=dynamic)
    text = lw.explain(compiled)
    in_pytorch = {line.split()[1] for line in text.splitlines() if line.startswith("  PyTorch: ")}
    if device == "cpu":  # on a GPU attention and the gradients of embeddings are PyTorch's
        assert in_pytorch <= {"aten.topk.default"}, text
    assert "runs in PyTorch" not in text


@pytest.mark.parametrize("name", of_this_half(["dbrx"]))
def test_experts_chosen_by_what_a_tensor_holds(name, monkeypatch):
    """DBRX loops over the experts that were hit: several graphs for each step, and still nothing is compiled for other sizes."""
    check_steps(name, hf_models.make(name), monkeypatch, breaks=True)


@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("name", of_this_half(list(hf_models.MODELS) if ALL else ["llama"]))
def test_training_steps_with_lora(name, autocast, monkeypatch):
    model = hf_models.with_lora(hf_models.make(name), autocast)
    # In bf16 the largest error of any gradient is chance: where few pictures leave little of a sum, a rounding that falls otherwise.
    check_steps(name, model, monkeypatch, most=2e-3, times=4, breaks=name == "dbrx", dynamic=True)


def generate(model, ids, mask, **options):
    return model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12, min_new_tokens=12, cache_implementation="static",
                          **options)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("name", of_this_half(["llama", "gpt_oss"] if ALL else ["llama"]))
def test_generations_in_a_row_with_fresh_caches(name, mode):
    """Tokens of a greedy search are eager's, and those of one generation do not show in the next one."""
    model = hf_models.make(name).requires_grad_(False)
    with torch.device("cpu"):
        prompts = [torch.randint(3, hf_models.VOCABULARY, (2, n)) for n in (5, 9, 5)]
    compile_config = hf.CompileConfig(backend="loopwright", mode=mode, fullgraph=False)
    compile_config._compile_all_devices = True
    seen = []
    for ids in prompts + prompts[:1]:
        ids = ids.to(model.device)
        mask = torch.ones_like(ids)
        right = generate(model, ids, mask, disable_compile=True)
        seen.append(generate(model, ids, mask, compile_config=compile_config))
        assert torch.equal(seen[-1], right)
    assert torch.equal(seen[0], seen[-1])
    assert counters["frames"]["ok"] > 0


def decode(forward, model, ids, cache, steps):
    """Logits of every step with a static cache that the caller keeps."""
    logits, position = [], 0
    for _ in range(steps):
        n = ids.shape[1]
        at = torch.arange(position, position + n)
        out = forward(input_ids=ids, past_key_values=cache, cache_position=at, position_ids=at[None], use_cache=True)
        logits.append(out.logits[:, -1])
        ids, position = logits[-1].argmax(-1, keepdim=True), position + n
    return torch.stack(logits)


@pytest.mark.parametrize("name", of_this_half(["llama"]))
@torch.no_grad()
def test_a_cache_is_written_in_place_and_compiles_once_for_all_positions(name, monkeypatch, device):
    model = hf_models.make(name).requires_grad_(False)
    plans = count_plans(monkeypatch)
    compiled, settled = torch.compile(model.forward, backend="loopwright"), None
    for length in (7, 4, 11, 6):
        ids = torch.randint(3, hf_models.VOCABULARY, (2, length))
        caches = [hf.StaticCache(config=model.config, max_cache_len=32) for _ in range(2)]
        mine, theirs = decode(compiled, model, ids, caches[0], 8), decode(model.forward, model, ids, caches[1], 8)
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        for a, b in zip(caches[0].layers, caches[1].layers):
            torch.testing.assert_close(a.keys, b.keys, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(a.values, b.values, rtol=1e-4, atol=1e-5)
        settled = len(plans) if length == 4 else settled
        assert settled is None or len(plans) == settled
    text = lw.explain(compiled)
    assert device != "cpu" or text.count("inference: 1 part of kernels, 0 ops in PyTorch") == text.count("inference") == 3, text


@pytest.mark.parametrize("name", of_this_half(["llama", "bert"]))
@torch.no_grad()
def test_door_one_takes_a_whole_model(name):
    model = hf_models.make(name).requires_grad_(False)
    call, options = lw.compile(model), {} if name == "bert" else {"use_cache": False}
    for shape in ((2, 15), (3, 37), (5, 64), (2, 568)):
        batch = hf_models.make_batch(name, *shape)
        found, right = call(**batch, **options), model(**batch)
        assert type(found) is type(right)
        torch.testing.assert_close(found.logits, right.logits, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.loss, right.loss, rtol=1e-4, atol=1e-5)
        assert len(call.graphs) <= 2
