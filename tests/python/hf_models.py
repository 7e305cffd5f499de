"""Models of Hugging Face's transformers with random weights and small configurations."""
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import transformers as hf  # noqa: E402

hf.logging.set_verbosity_error()
VOCABULARY = 99
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
         "max_position_embeddings": 2048}
DECODER = {**SIZES, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False}
# The other implementations of experts are loops over what a tensor holds, or (in f32) an op whose gradient is one.
EXPERTS = {**DECODER, "num_experts_per_tok": 2, "experts_implementation": "batched_mm"}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def make_dbrx():
    return hf.DbrxForCausalLM(hf.DbrxConfig(
        d_model=32, n_heads=4, n_layers=1, max_seq_len=2048, vocab_size=VOCABULARY, pad_token_id=0,
        attn_config={"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0},
        ffn_config={"hidden_size": 32, "ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2, "ffn_act_fn": {"name": "silu"}}))


MODELS = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)),
    "qwen": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**DECODER)),
    "gpt_oss": lambda: hf.GptOssForCausalLM(hf.GptOssConfig(**EXPERTS, head_dim=8, num_local_experts=4, sliding_window=16)),
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**EXPERTS, num_local_experts=4)),
    "olmoe": lambda: hf.OlmoeForCausalLM(hf.OlmoeConfig(**EXPERTS, num_experts=4)),
    "phimoe": lambda: hf.PhimoeForCausalLM(hf.PhimoeConfig(**EXPERTS, num_local_experts=4)),
    "dbrx": make_dbrx,
    "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=1, n_head=4, n_positions=2048, attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)),
    "bert": lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES, **NO_DROPOUT)),
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, num_labels=7,
        **NO_DROPOUT)),
}


def make(name, seed=0):
    """The model in evaluation mode (routers draw random numbers in training mode), with gradients."""
    torch.manual_seed(seed)
    model = MODELS[name]().eval()
    model.loss_type = model.loss_type or "ForCausalLM"  # without it a warning in every call breaks the graph
    return model


def make_batch(name, batch, length):
    """Arguments of a call with a loss; one row begins with padding. Of a picture only the batch changes."""
    if name == "vit":
        return {"pixel_values": torch.randn(batch, 3, 32, 32), "labels": torch.randint(0, 7, (batch,))}
    ids = torch.randint(3, VOCABULARY, (batch, length))
    mask = torch.ones_like(ids)
    mask[0, :min(5, length // 2)] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def with_lora(model, autocast):
    """The model in bf16 with trained adapters, which are float32 where `autocast`."""
    import peft

    kinds = {name.split(".")[-1] for name, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    kinds = sorted(kinds - {"lm_head", "decoder", "classifier", "router", "gate"})
    if any(isinstance(m, hf.pytorch_utils.Conv1D) for m in model.modules()):
        kinds = ["c_attn", "c_proj", "c_fc"]
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=kinds, init_lora_weights=False)
    return peft.get_peft_model(model.bfloat16(), config, autocast_adapter_dtype=autocast).eval()
