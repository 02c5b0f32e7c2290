# SPDX-License-Identifier: Apache-2.0
"""What the bridge refuses, or says, where a model does more than its text decoder alone; for test_hf_guard.py, which
reads what this leaves behind:

    python tests/hf/hf_guards.py FOLDER [CHECK ...]
"""
import contextlib
import io
import json
import shutil
import sys
from pathlib import Path

from hf_runs import ALL, MODEL, load, passages, refused, run, run_checks, tiny_llama, tokenizer
import torch
import transformers
from safetensors.torch import load_file, save_file

import qkscope
from qkscope.hf import capture, cli
from qkscope.hf import facts as F
from qkscope.hf import guard as G

STEP = MODEL / "step-2004"


def told_by(folder, of, **options):
    """What a capture says, as (level, words), but for the width of buckets, which it always says."""
    told = []
    run(folder, passages()[:2], of=of, options={"on_notice": lambda *notice: told.append(notice), **options})
    return [one for one in told if "buckets of" not in one[1]]


def vectors(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.parquet")}


def small(kind, **changes):
    wanted = {"vocab_size": 256, "d_model": 32, "hidden_size": 32, "num_hidden_layers": 2, "encoder_layers": 1,
              "decoder_layers": 2, "num_attention_heads": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
              "intermediate_size": 32, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "d_ff": 32, "d_kv": 8,
              "num_layers": 1, "num_decoder_layers": 2, "num_heads": 4, "pad_token_id": 0, "bos_token_id": 1,
              "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None, **changes}
    usual = transformers.AutoConfig.for_model(kind)
    names = set(usual.to_dict()) | set(usual.attribute_map)
    return type(usual)(**{name: value for name, value in wanted.items() if name in names})


# ---- known beforehand ----------------------------------------------------------------------------

def check_encoder_decoders(out):
    torch.manual_seed(0)
    bert = small("bert", is_decoder=True, add_cross_attention=True)
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(small("bert"), bert)
    models = {kind: transformers.AutoModelForSeq2SeqLM.from_config(small(kind))
              for kind in ("bart", "marian", "mbart", "t5")}
    models["whisper"] = transformers.WhisperForConditionalGeneration(small("whisper"))
    models["encoder-decoder"] = transformers.EncoderDecoderModel(config=both)
    decoders = {"bart": transformers.BartForCausalLM(small("bart")), "bert": transformers.BertLMHeadModel(bert),
                "gpt2": transformers.GPT2LMHeadModel(transformers.GPT2Config(
                    n_embd=32, n_layer=1, n_head=2, vocab_size=256, add_cross_attention=True))}
    for kind, m in (*models.items(), *decoders.items()):
        refused(lambda m=m: run(out / "c", passages()[:1], of=m.eval()), f"'{kind}' is an encoder-decoder",
                "docs/dev/models.md", kind=qkscope.DataError)
    assert not (out / "c").exists()
    models["bart"].save_pretrained(out / "bart")
    shutil.copy(STEP / "tokenizer.json", out / "bart")
    (out / "bart" / "model.safetensors").unlink()  # not looked at
    code, said = command(out, out / "bart")
    assert code == 1 and "'bart' is an encoder-decoder" in said, said


class Adapter:
    """A configuration as peft marks it."""

    def __init__(self, kind, learns_prompts):
        self.peft_type, self.is_prompt_learning = kind, learns_prompts


class Adapted(torch.nn.Module):
    """A model round another, as peft has it: what it lacks the other has."""

    def __init__(self, inner, **adapters):
        super().__init__()
        self.inner, self.peft_config, self.active_adapter = inner, adapters, next(iter(adapters))

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


def check_prompt_learning(out):
    m = Adapted(load(), default=Adapter("LORA", False), learned=Adapter("PREFIX_TUNING", True))
    m.active_adapter = "learned"
    refused(lambda: run(out / "c", passages()[:1], of=m.eval()), "PREFIX_TUNING", "'learned'", "get_base_model()",
            kind=qkscope.DataError)
    assert not (out / "c").exists()
    m.active_adapter = "default"
    run(out / "lora", passages()[:1], of=m.eval())
    run(out / "plain", passages()[:1])
    assert vectors(out / "lora") == vectors(out / "plain") != {}


# ---- the whole model beside its decoder ----------------------------------------------------------

class Prefixed(torch.nn.Module):
    """Puts vectors before every text, which nothing marks."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config
        self.prefix = torch.nn.Parameter(torch.ones(1, 3, inner.config.hidden_size))

    def get_decoder(self):
        return self.inner.get_decoder()

    def forward(self, input_ids):
        given = self.inner.get_input_embeddings()(input_ids)
        return self.inner(inputs_embeds=torch.cat((self.prefix.to(given.dtype), given), dim=1))


def scaled(m, factor):
    """Embeddings are scaled by code that only the whole model runs."""
    def hook(module, args, kwargs):
        given = kwargs.pop("input_ids")
        return args, {**kwargs, "inputs_embeds": factor * module.get_input_embeddings()(given)}

    m.register_forward_pre_hook(hook, with_kwargs=True)
    return m


def own_difference(a, b):
    """Of what two models make values of in layer 1, over the largest number: by hooks of torch."""
    found = []
    ids = F.some_tokens(F.decoder_of(a), model=a)
    for m in (a, b):
        keep = m.model.layers[1].self_attn.v_proj.register_forward_hook(lambda *call: found.append(call[2].detach()))
        with torch.no_grad():
            m(input_ids=ids)
        keep.remove()
    return ((found[0] - found[1]).abs().max() / found[1].abs().max()).item()


def check_whole(out):
    for dtype in (torch.float32, torch.bfloat16):
        m = scaled(load(dtype=dtype), 3.0)
        assert own_difference(m, load(dtype=dtype)) > 0.05  # the test's own look: it does take part
        said = refused(lambda m=m: run(out / "c", passages()[:1], of=m), "whole model", "of its largest number", "hook",
                       kind=qkscope.DataError)
        assert "layer 1, q of head" in said or "layer 0, q of head" in said, said
    refused(lambda: run(out / "c", passages()[:1], of=Prefixed(load()).eval()), "whole model", "[1, 4, 10, ",
            kind=qkscope.DataError)
    assert not (out / "c").exists()
    run(out / "same", passages()[:1], of=scaled(load(), 1.0))
    run(out / "plain", passages()[:1])
    assert vectors(out / "same") == vectors(out / "plain") != {}
    m = load(dtype=torch.bfloat16)
    assert G.compare(m, F.decoder_of(m), F.find_facts(m)).worst == 0


def check_noise(out):
    """Kernels that give other digits each time are no difference; what is larger than that is."""
    m = tiny_llama()
    generator = torch.Generator().manual_seed(0)

    def shake(module, args, output):
        return output + 1e-3 * torch.randn(output.shape, generator=generator)

    m.model.layers[0].self_attn.q_proj.register_forward_hook(shake)
    facts = F.find_facts(m)
    for _ in range(5):
        found = G.compare(m, F.decoder_of(m), facts)
        assert not found.refusal and found.worst > 1e-5, found
    assert "layer 0" in G.compare(Prefixed(m), F.decoder_of(m), facts).refusal
    assert "of its largest number" in G.compare(scaled(m, 40.0), F.decoder_of(m), facts).refusal


def check_difference(out):
    """Over the largest number of its own head; two that are no numbers are alike."""
    b = torch.tensor([[[[1.0, -4.0]], [[100.0, 0.0]]]])
    a = b + torch.tensor([[[[0.0, 0.2]], [[1.0, 0.0]]]])
    for _ in range(2):
        worst, head = G.difference(a, b)
        assert abs(worst - 0.05) < 1e-6 and head == 0
        b[0, 1, 0, 1] = a[0, 1, 0, 1] = float("nan")


class NeedsImage(Prefixed):
    def forward(self, input_ids, pixel_values):
        return self.inner(input_ids=input_ids)


class Beside(Prefixed):
    """Another model beside it, which reads the text, too."""

    def __init__(self, inner):
        super().__init__(inner)
        self.guide = tiny_llama()

    def forward(self, input_ids):
        self.guide(input_ids=input_ids)
        return self.inner(input_ids=input_ids)


def check_said(out):
    told = told_by(out / "image", NeedsImage(load()).eval())
    assert any(level == "warning" and "could not be run as a whole" in words and "pixel_values" in words
               for level, words in told), told
    told = told_by(out / "beside", Beside(load()).eval())
    assert any(level == "warning" and "guide.model.layers.0.self_attn" in words for level, words in told), told
    assert told_by(out / "plain", load()) == []
    assert vectors(out / "beside") == vectors(out / "image") == vectors(out / "plain") != {}


# ---- layers, and what is seen --------------------------------------------------------------------

class Own(torch.nn.Module):
    def forward(self, hidden_states, **_):
        return hidden_states, None


def check_own_attention(out):
    m = load()
    m.model.layers[1].self_attn = Own()
    told = told_by(out / "own", m)
    assert any(level == "warning" and "1 of 5 layers" in words and "1 (self_attn: Own)" in words
               for level, words in told), told
    assert {p.parent.name[:3] for p in (out / "own").rglob("*.parquet")} == {"l00", "l02", "l03", "l04"}
    assert told_by(out / "others", m, layers=[0, 2]) == []  # nobody asked for it
    torch.manual_seed(0)
    hybrid = transformers.AutoModelForCausalLM.from_config(small("lfm2", num_key_value_heads=2, layer_types=["conv", "full_attention"])).eval()
    told = told_by(out / "hybrid", hybrid)
    assert [level for level, words in told if "1 of 2 layers" in words and "0 (conv: " in words] == ["info"], told


def check_bidirectional(out):
    torch.manual_seed(0)
    m = transformers.BertForMaskedLM(small("bert", max_position_embeddings=1024)).eval()
    told = told_by(out / "bert", m)
    assert any(level == "warning" and "'bert' is bidirectional" in words for level, words in told), told


def check_proportional(out):
    """Gemma 4's layers of full attention, of which some pairs do not turn."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        "gemma4_text", vocab_size=256, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, global_head_dim=16, num_global_key_value_heads=2, intermediate_size=32, sliding_window=8,
        vocab_size_per_layer_input=256, hidden_size_per_layer_input=8, max_position_embeddings=1024,
        num_kv_shared_layers=0, layer_types=["sliding_attention", "full_attention"])
    m = transformers.AutoModelForCausalLM.from_config(config).eval()
    with qkscope.Sink(out / "c", sampler=ALL) as s:
        capture(m, tokenizer(), passages()[:4], s, stage="both", layers=[1], progress=False)


# ---- the command ---------------------------------------------------------------------------------

def command(out, *words):
    """Exit code, and what it says on standard error. What is raised is no message."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = cli.main([*map(str, words), "-t", str(MODEL / "passages.jsonl"), "--max-texts", "1", "-o", str(out / "made"),
                         "-q"])
    return code, said.getvalue()


def changed(out, change):
    """A checkpoint whose tensors and configuration were changed."""
    folder = out / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STEP, folder)
    tensors, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    made = change(tensors, config) or tensors
    save_file(made, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def check_missing_weights(out):
    name = "model.layers.2.self_attn.q_proj.weight"
    code, said = command(out, changed(out, lambda tensors, config: {n: t for n, t in tensors.items() if n != name}))
    assert code == 1 and f"no tensor {name}, " in said and "random numbers" in said, said
    assert not (out / "made").exists()

    def no_head(tensors, config):  # an output layer is not run
        config["tie_word_embeddings"] = False
        return {n: t for n, t in tensors.items() if not n.startswith("lm_head")}

    code, said = command(out, changed(out, no_head))
    assert code == 0, said
    bert = transformers.BertModel(small("bert"))
    cli.refuse_missing("x", bert, {"missing_keys": {"pooler.dense.weight"}})
    refused(lambda: cli.refuse_missing("x", bert, {"missing_keys": {"pooler.dense.weight", "embeddings.LayerNorm.bias"}}),
            "x: the checkpoint has no tensor embeddings.LayerNorm.bias, ", kind=qkscope.DataError)


def check_bad_files(out):
    """No traceback: a line that names the file, and the way out."""
    def with_file(name, content):
        folder = changed(out, lambda tensors, config: None)
        (folder / name).write_bytes(content)
        return folder

    code, said = command(out, with_file("tokenizer.json", b"{"))
    assert code == 1 and "model: its tokenizer cannot be read" in said and "--tokenizer" in said, said
    code, said = command(out, STEP, "--tokenizer", out / "nowhere")
    assert code == 1 and f"{out / 'nowhere'}: its tokenizer cannot be read" in said, said
    code, said = command(out, with_file("model.safetensors", (STEP / "model.safetensors").read_bytes()[:3000]))
    assert code == 1 and "its weights cannot be read" in said, said
    assert not (out / "made").exists()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    (place / "found.json").write_text(json.dumps(run_checks(globals(), place, sys.argv[2:])))
