# SPDX-License-Identifier: Apache-2.0
"""Captures by the bridge, for test_hf_bridge.py, which reads what this leaves behind:

    python tests/hf/hf_runs.py FOLDER [CHECK ...]

in an environment with torch and transformers. FOLDER/jobs.json are command lines of qkscope-hf, which are run, too.
FOLDER/found.json: of each check {"error": null or what went wrong, ...}."""
import contextlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import threading
import traceback
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

import qkscope  # noqa: E402
from qkscope.hf import bridge, capture, cli  # noqa: E402
from qkscope.hf import facts as F  # noqa: E402
from qkscope.hf.hooks import Watch, registries, scopes  # noqa: E402

MODEL = Path(__file__).resolve().parents[2] / "examples" / "kjv-tiny"
ALL = qkscope.Sampler("all", min_bucket_size=64)


def load(**options):
    options = {"dtype": torch.float32, **options}
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL / "step-2004", **options).eval()


def passages():
    """Texts of 40 to 344 tokens, a token a byte."""
    with open(MODEL / "passages.jsonl", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    return [text[:40 + 137 * i % 401] for i, text in enumerate(texts[:12])]


MODEL_ITSELF = None
TOKENIZER = None


def model():
    global MODEL_ITSELF
    MODEL_ITSELF = MODEL_ITSELF or load()
    return MODEL_ITSELF


def tokenizer():
    global TOKENIZER
    TOKENIZER = TOKENIZER or transformers.AutoTokenizer.from_pretrained(MODEL / "step-2004")
    return TOKENIZER


def run(folder, texts=None, of=None, batch_tokens=8192, padding=None, device=False, options=None, **sink):
    """device: as on a device, where rows are gathered or summed, here on the processor."""
    real = bridge.input_device
    if device:
        bridge.input_device = lambda decoder: torch.device("xpu")
        bridge.sums_on = lambda device: True
    try:
        with qkscope.Sink(folder, **{"sampler": ALL, **sink}) as s:
            capture(model() if of is None else of, tokenizer(), texts or passages(), s, batch_tokens=batch_tokens, padding=padding,
                    progress=False, **(options or {}))
        return s.outcome
    finally:
        bridge.input_device = real


def refused(call, *words, kind=qkscope.ArgumentError):
    """What a call that has to fail says; all the words are in it."""
    try:
        call()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return str(error)
    raise AssertionError(f"not refused: {words}")


def not_whole(folder):
    assert not (folder / "capture.json").exists() and not list(folder.glob("l*")), sorted(folder.iterdir())


# ---- the same rows, however they come ------------------------------------------------------------

def check_ways(out):
    """One capture by the ways that rows can go; the test compares them."""
    both = {"stage": "both"}
    run(out / "host", **both)
    run(out / "chunks", batch_tokens=64, **both)
    run(out / "together", padding=True, **both)
    run(out / "one", padding=False, device=True, **both)
    run(out / "device", device=True, **both)
    run(out / "device_chunks", device=True, padding=False, batch_tokens=64, **both)
    run(out / "eager", of=load(attn_implementation="eager"), **both)
    with torch.inference_mode():
        run(out / "inference", of=load(), **both)
    torch.set_num_threads(2)
    run(out / "threads", **both)
    torch.set_num_threads(1)


def check_moments(out):
    """Moments of rows, and of sums that were made where the model is."""
    for name, sink in (("all", {"keep": "moments,reservoir=3", "reservoir_seed": 4, "stage": "both"}),
                       ("drawn", {"keep": "moments,reservoir=2", "sampler": qkscope.Sampler("uniform", 20, 64)}),
                       ("logarithmic", {"keep": "moments", "sampler": qkscope.Sampler("log_uniform", 30, 64)}),
                       ("some", {"keep": "moments", "options": {"heads": [1], "layers": [0, 3]}})):
        run(out / name / "rows", **sink)
        run(out / name / "sums", device=True, padding=False, **sink)
        run(out / name / "chunks", device=True, padding=False, batch_tokens=100, **sink)


def check_logits(out):
    """Bit for bit, with and without; and nothing of transformers stays changed."""
    ids = torch.tensor([tokenizer()(passages()[3])["input_ids"]])
    for attention in ("sdpa", "eager"):
        m = load(attn_implementation=attention)
        decoder = F.decoder_of(m)
        before = [dict(r) for r in registries(decoder)], [dict(s) for s in scopes(decoder)]
        with torch.no_grad():
            plain = m(ids).logits
            calls = []
            with Watch(decoder, calls.append, rotations=True):
                assert torch.equal(m(ids).logits, plain)
            assert len(calls) == 5
            run(out / attention, passages()[:2], of=m)
            assert torch.equal(m(ids).logits, plain)
        assert before == ([dict(r) for r in registries(decoder)], [dict(s) for s in scopes(decoder)])
        assert not any("get_interface" in vars(r) for r in registries(decoder))


def check_bfloat16(out):
    """Rows are what the attention function was given, to the last bit; here, from a hook of our own."""
    m = load(dtype=torch.bfloat16)
    run(out / "c", passages()[:1], of=m)
    seen = {}
    registry = transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS
    inner = registry["sdpa"]

    def attention(module, query, key, *args, **kwargs):
        seen[f"l{module.layer_idx:02d}.q"], seen[f"l{module.layer_idx:02d}.k"] = query[0].clone(), key[0].clone()
        return inner(module, query, key, *args, **kwargs)

    registry["sdpa"] = attention
    try:
        with torch.no_grad():
            m.model(torch.tensor([tokenizer()(passages()[0])["input_ids"]]), use_cache=False)
    finally:
        registry["sdpa"] = inner
    assert all(x.dtype == torch.bfloat16 for x in seen.values())
    save_file({name: x.float().contiguous() for name, x in seen.items()}, out / "seen.safetensors")


def tiny_llama(**changes):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{
        "vocab_size": 256, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 4,
        "num_key_value_heads": 2, "intermediate_size": 16, "max_position_embeddings": 64, **changes})
    return transformers.LlamaForCausalLM(config).eval()


def check_hooks(out):
    """What the sink was given of a model of 16 dimensions, and what it made of it: hooks_golden.py."""
    given = {}
    real = qkscope.Sink.put

    def put(self, number, layer, kind, vectors, **options):
        name = f"{number}.{layer}.{kind}.{'pre' if options['before_rope'] else 'post'}"
        given[name] = vectors.contiguous().clone()
        return real(self, number, layer, kind, vectors, **options)

    tiny = tiny_llama(torch_dtype="bfloat16").to(torch.bfloat16)
    qkscope.Sink.put = put
    try:
        for keep in ("rows", "moments"):
            run(out / keep, ["In the beginning", "And the earth was", "And"], of=tiny, keep=keep, stage="both",
                sampler=qkscope.Sampler("log_uniform", 4, 4), options={"model_name": "tiny"})
    finally:
        qkscope.Sink.put = real
    save_file(given, out / "given.safetensors")
    assert len(given) == 3 * 2 * 2 * 2


# ---- what else is about --------------------------------------------------------------------------

def check_images(out):
    """A model for images and texts: the text decoder's layers, never the tower's."""
    torch.manual_seed(0)
    text = dict(model_type="llama", vocab_size=256, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, intermediate_size=32, max_position_embeddings=1024)
    tower = dict(model_type="clip_vision_model", hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                 intermediate_size=32, image_size=16, patch_size=8)
    m = transformers.LlavaForConditionalGeneration(transformers.LlavaConfig(
        vision_config=tower, text_config=text, image_token_index=255)).eval()
    made = run(out / "c", of=m)
    assert made.heads == 3 * 6, made


def check_offloaded(out):
    """Layers that accelerate keeps on disk, and brings when they are run."""
    import accelerate  # noqa: F401
    names = ["model.embed_tokens", "model.rotary_emb", "model.norm", "lm_head", *(f"model.layers.{i}" for i in range(5))]
    spread = {name: "disk" if name in ("model.layers.1", "model.layers.4") else "cpu" for name in names}
    m = load(device_map=spread, offload_folder=str(out / "offloaded"))
    assert any(p.device.type == "meta" for p in m.parameters())
    run(out / "c", passages()[:3], of=m)
    run(out / "plain", passages()[:3])


class Int8(torch.Tensor):
    """Weights as libraries that quantise have them: a tensor made of two, which can do nothing but be multiplied with."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype, device=whole.device)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.linear:
            return torch.nn.functional.linear(args[0], args[1].whole * args[1].scale, *args[2:])
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].whole, args[0].scale)
        raise NotImplementedError(func)


def check_quantised(out):
    """As a model whose weights are the rounded ones; and a change of them is seen."""
    m, rounded = load(), load()
    for a, b in zip(m.model.layers, rounded.model.layers):
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(a.self_attn, name).weight.detach()
            scale = weight.abs().amax(1, keepdim=True) / 127
            whole = (weight / scale).round().to(torch.int8)
            getattr(a.self_attn, name).weight = torch.nn.Parameter(Int8(whole, scale), requires_grad=False)
            getattr(b.self_attn, name).weight.data = whole * scale
    run(out / "c", of=m)
    run(out / "plain", of=rounded)
    before = F.fingerprint(m), F.generation(F.decoder_of(m))
    m.model.layers[2].self_attn.k_proj.weight.scale.mul_(2)
    after = F.fingerprint(m), F.generation(F.decoder_of(m))
    assert before[0] != after[0] and before[1] != after[1]


def check_shards(out):
    """Two processes' parts of one capture; each may be another call."""
    texts = [text * 2 for text in passages() * 6]
    for shard in ("1/2", "0/2"):
        run(out / "c", texts, shard=shard)
    run(out / "plain", texts)


def check_memory(out):
    """Of the host: it does not grow with the number of texts."""
    texts = [text[:64] for text in passages()]
    peaks = []
    for i, count in enumerate((120, 720)):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        run(out / str(i), texts * (count // len(texts)), keep="moments")
        peaks.append(int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
    assert peaks[1] - peaks[0] < 24, peaks
    return peaks


def check_pages(out):
    """What the pages show in Python runs."""
    for name in ("examples", "docs"):
        (out / name).symlink_to(MODEL.parents[1] / name)
    here = os.getcwd()
    os.chdir(out)
    try:
        for page in ("transformers",):
            found = re.findall(r"^```python\n(.*?)^```", Path(f"docs/{page}.md").read_text(), re.M | re.S)
            assert found
            for block in found:
                exec(compile(block, page, "exec"), {})
    finally:
        os.chdir(here)
    assert (out / "capture" / "capture.json").exists()


def check_lazy(out):
    """`import qkscope` brings the bridge when it is asked for, and not before."""
    program = ("import sys, qkscope; assert 'qkscope.hf' not in sys.modules and not hasattr(qkscope, 'hg'); "
               "print(qkscope.hf.capture, qkscope.ray.capture)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_threads(out):
    """Each thread sees its own calls: two captures at once, one of them with "pre", and a model that others run
    meanwhile; and nothing stays changed."""
    models = [load(), load()]
    models.append(models[1])  # which two threads run
    ids = torch.tensor([tokenizer()(passages()[3])["input_ids"]])
    with torch.no_grad():
        plain = models[0](ids).logits
    stages, failed, done = ("post", "both", "post"), [], threading.Event()

    def one(i):
        try:
            for turn in range(3):
                run(out / f"{i}.{turn}", of=models[i], stage=stages[i])
        except BaseException as error:
            failed.append(error)

    def user():
        try:
            with torch.no_grad():
                while not done.is_set():
                    assert torch.equal(models[0](ids).logits, plain)
        except BaseException as error:
            failed.append(error)

    for i, stage in enumerate(stages):
        run(out / f"{i}", of=models[i], stage=stage)
    before = [dict(r) for r in registries(models[0].model)], [dict(s) for s in scopes(models[0].model)]
    threads, beside = [threading.Thread(target=one, args=(i,)) for i in range(3)], threading.Thread(target=user)
    for thread in (beside, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    beside.join()
    assert not failed, failed
    assert before == ([dict(r) for r in registries(models[0].model)], [dict(s) for s in scopes(models[0].model)])
    for i in range(3):
        wanted = {p.relative_to(out / f"{i}"): p.read_bytes() for p in (out / f"{i}").rglob("*.parquet")}
        for turn in range(3):
            got = {p.relative_to(out / f"{i}.{turn}"): p.read_bytes() for p in (out / f"{i}.{turn}").rglob("*.parquet")}
            assert got == wanted and wanted, (i, turn)


def check_no_rope(out):
    """Before and after it is the same: said, for each stage that asks for it."""
    torch.manual_seed(0)
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=256)).eval()
    for m, wanted in ((gpt2, True), (tiny_llama(), False)):
        for stage in ("post", "pre", "both"):
            told = []
            run(out / f"{wanted}-{stage}", passages()[:1], of=m, stage=stage,
                options={"on_notice": lambda level, words, told=told: told.append(words)})
            assert any("has no RoPE" in words for words in told) == (wanted and stage != "post"), (stage, told)


# ---- bad input -----------------------------------------------------------------------------------

def check_texts(out):
    def go(texts, folder="c", **options):
        with qkscope.Sink(out / folder) as s:
            capture(model(), tokenizer(), texts, s, progress=False, **options)

    refused(lambda: go("one text"), "texts is one text", "[text]")
    refused(lambda: go(["a text", b"bytes"]), "text 1 is a bytes", "str")
    refused(lambda: go(["half \ud800"]), "text 0", "encode")
    refused(lambda: go(["a", "b"], ids=[1]), "1 ids for 2 texts")
    refused(lambda: go("repeat:0x2"), "repeat:0x2: LENGTH")
    refused(lambda: go(["a"], batch_tokens=0), "batch_tokens is 0")
    refused(lambda: go(["a"], layers="9"), "no heads are left", "layers 0, 1", kind=qkscope.DataError)
    refused(lambda: go(["a"], sample_head=1), "did you mean 'sample_heads'", kind=TypeError)
    refused(lambda: capture(model(), None, ["a"], qkscope.Sink(out / "d")), "tokenizer", "AutoTokenizer")
    refused(lambda: capture(model(), tokenizer(), ["a"], str(out)), "sink is a str")
    not_whole(out / "c") if (out / "c").exists() else None
    refused(lambda: go(["long " * 9], "long", max_length=5, long_texts="skip"), "no position was kept", "1 are longer", "cut",
            kind=qkscope.DataError)


def check_columns(out):
    """Texts and ids as NumPy and pandas have them, whatever the labels are."""
    import numpy
    given, names = passages()[:3], [7, 5, 6]
    kinds = {"list": list, "array": numpy.array}
    try:
        import pandas
        kinds["series"] = lambda values: pandas.Series(values, index=[4, 1, 0])
        frame = pandas.DataFrame({"text": given})
        refused(lambda: capture(model(), tokenizer(), frame, qkscope.Sink(out / "frame")), "DataFrame", "one column")
    except ImportError:
        pass
    rows = {}
    for name, kind in kinds.items():
        with qkscope.Sink(out / name, sampler=ALL) as s:
            capture(model(), tokenizer(), kind(given), s, ids=kind(names), progress=False)
        rows[name] = {p.name: p.read_bytes() for p in (out / name).rglob("*.parquet")}
        assert rows[name] == rows["list"] and rows[name], name


def check_notices(out):
    """Warnings say which text."""
    told = []
    with qkscope.Sink(out / "c", sampler=ALL, on_notice=lambda level, words: None) as s:
        capture(model(), tokenizer(), ["a text", "", "another " * 20], s, progress=False, max_length=100,
                long_texts="cut", on_notice=lambda level, words: told.append(words))
    assert "text 1: no tokens in it, passed over" in told and "cut after 100 tokens: 1 of 3 texts" in told, told


def check_stopped(out):
    """By the function that is told how far it is; the same call goes on."""
    def go(progress):
        with qkscope.Sink(out / "c", sampler=ALL) as s:
            capture(model(), tokenizer(), [text * 3 for text in passages() * 5], s, progress=progress, batch_tokens=200)

    told = []

    def stop(what, done, total):
        told.append((what, done, total))
        return len(told) < 2

    refused(lambda: go(stop), "stopped by progress", "goes on", kind=qkscope.Cancelled)
    assert len(told) == 2 and 0 < told[0][1] < told[1][1] < told[1][2] and told[0][0] == "tokens", told
    not_whole(out / "c")
    go(lambda what, done, total: told.append((what, done, total)))
    assert told[-1][1] == told[-1][2], told[-1]


def check_other_engine(out):
    """What a run that goes on was begun with, and what it is now, is told."""
    def go(folder, batch_tokens, progress=False, **options):
        with qkscope.Sink(folder, sampler=ALL, **options) as s:
            capture(model(), tokenizer(), [text * 3 for text in passages() * 5], s, progress=progress,
                    batch_tokens=batch_tokens)

    words = ("batch_tokens (--tokens-at-once) 256, now 128", "--force")
    refused(lambda: go(out / "engine", 256, lambda *_: False, stage="both"), "stopped", kind=qkscope.Cancelled)
    refused(lambda: go(out / "engine", 128, stage="both"), *words, kind=qkscope.ExistsError)
    go(out / "engine", 256, stage="both")
    refused(lambda: go(out / "engine", 128, stage="both"), *words, kind=qkscope.ExistsError)


class Stop(Exception):
    pass


def check_exception_in_a_text(out):
    """The call raises it; what is in the folder does not look whole; the same call, made again, gives the bytes of a
    run that nothing stopped."""
    texts = passages()
    for device in (False, True):
        folder, m, calls = out / f"{device}", load(), []

        def hook(*_, calls=calls):
            calls.append(1)
            if len(calls) == 15:  # those of the looks at the model are before
                raise Stop("in the middle of a text")

        handle = m.model.layers[2].register_forward_hook(hook)
        refused(lambda folder=folder, m=m, device=device: run(folder, texts, of=m, device=device, padding=False),
                "in the middle", kind=Stop)
        handle.remove()
        not_whole(folder)
        assert not any("get_interface" in vars(r) for r in registries(m.model))
        run(folder, texts, of=m, device=device, padding=False)
    run(out / "plain", texts)


def check_changed_model(out):
    """Between texts, in place or by other weights, in mode or in shape."""
    def weights(m):
        with torch.no_grad():
            m.model.layers[1].self_attn.q_proj.weight.mul_(1.5)

    def module(m):
        m.model.layers[3] = load().model.layers[3]

    changes = {"weights": weights, "module": module, "mode": lambda m: m.train(), "dtype": lambda m: m.to(torch.bfloat16)}
    for name, change in changes.items():
        m, texts = load(), [text * 3 for text in passages() * 5]
        done = []

        def look(what, count, total, m=m, change=change, done=done):
            done.append(count)
            if len(done) == 1:
                change(m)

        def go(m=m, texts=texts, look=look, name=name):
            with qkscope.Sink(out / name, sampler=ALL) as s:
                capture(m, tokenizer(), texts, s, progress=look, batch_tokens=200)

        refused(go, "changed")
        assert len(done) == 1
        not_whole(out / name)


def check_models(out):
    """Refused by name, with what to do."""
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, vocab_size=256)

    def of(kind, **changes):
        config = transformers.AutoConfig.for_model(kind, **{**small, **changes})
        return transformers.AutoModelForCausalLM.from_config(config).eval()

    def go(m, **options):
        return lambda: run(out / "c", passages()[:1], of=m, options=options)

    refused(go(of("bloom", n_head=4, n_layer=2)), "'bloom'", "by itself", kind=qkscope.DataError)
    refused(go(of("diffllama", num_key_value_heads=2)), "'diffllama'", "more than once", kind=qkscope.DataError)
    refused(go(tiny_llama().train()), "training mode", "model.eval()")
    compiled = tiny_llama()
    run(out / "compiled", passages()[:1], of=torch.compile(compiled))  # the decoder in it is not
    compiled.model.compile()
    refused(go(compiled), "compiled", "load it again")
    whole = tiny_llama()
    whole.compile()
    run(out / "whole", passages()[:1], of=whole)  # what was compiled is not run
    rows = [{p.name: p.read_bytes() for p in (out / one).rglob("*.parquet")} for one in ("whole", "compiled")]
    assert rows[0] == rows[1] and rows[0]
    paged = tiny_llama()
    paged.config._attn_implementation = "paged|sdpa"
    refused(go(paged), "'paged|sdpa'", "set_attn_implementation('sdpa')")
    refused(go(tiny_llama().double()), "float64", "torch.float32")
    broken = tiny_llama()
    with torch.no_grad():
        broken.model.layers[1].self_attn.k_proj.weight[0, 0] = float("nan")
    refused(go(broken), "layer 1", "finite", kind=qkscope.DataError)
    wanted = "AutoModelForCausalLM.from_pretrained"
    refused(go(torch.nn.Linear(2, 2)), "model is a Linear", wanted)
    refused(go(transformers.pipeline("text-generation", tiny_llama(), tokenizer=tokenizer())), "Pipeline",
            "pipeline.model")
    with torch.device("meta"):
        refused(go(transformers.LlamaForCausalLM(tiny_llama().config).eval()), "\"meta\"", "from_pretrained")
    own = tiny_llama()
    own.model.layers[1].self_attn.forward = lambda hidden_states, **_: (hidden_states, None)
    refused(go(own, layers=[1]), "layer", kind=qkscope.Error)
    assert not (out / "c").exists() or not_whole(out / "c") is None


def check_command_line(out):
    """Exit codes: 2 for what cannot be asked for, 1 for what went wrong."""
    model, text = str(MODEL / "step-2004"), str(MODEL / "passages.jsonl")

    def says(code, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            assert cli.main(list(words)) == code, (code, words, said.getvalue())
        return said.getvalue()

    assert "which model?" in says(2, "-t", text, "-o", str(out / "c"))
    assert "--rows 'many'" in says(2, model, "-t", text, "-o", str(out / "c"), "--rows", "many")
    assert "nowhere.txt" in says(1, model, "-t", str(out / "nowhere.txt"), "-o", str(out / "c"))
    done = json.loads(says(0, model, "-t", text, "-o", str(out / "c"), "--max-texts", "2", "--json", "-q"))
    assert done["texts"] == 2 and done["complete"] and not done["complete_already"] and done["heads"] == 30
    assert "complete already" in says(0, model, "-t", text, "-o", str(out / "c"), "--max-texts", "2")
    assert "--force" in says(1, model, "-t", text, "-o", str(out / "c"), "--max-texts", "3")
    assert "--attn" in says(2, model, "-t", text, "-o", str(out / "d"), "--attn", "nothing_of_the_kind")
    told = says(2, model, "-t", text, "-o", str(out / "d"), "--device", "cuda:9")
    assert "--device cuda:9: " in told and "use --device cpu" in told
    assert not (out / "d").exists()


def run_jobs(folder):
    """Command lines of qkscope-hf; what each ends with."""
    found = {}
    for name, words in json.loads((folder / "jobs.json").read_text()).items():
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = cli.main(words)
        found[name] = {"error": None if code == 0 else f"exit code {code}: {said.getvalue()}"}
    return found


def run_checks(functions, folder, names):
    """Each check_NAME of a file, in a folder of its own; what each ends with."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    found = {}
    for name, check in list(functions.items()):
        if not name.startswith("check_") or not inspect.isfunction(check):
            continue
        name = name.removeprefix("check_")
        if names and name not in names:
            continue
        (folder / name).mkdir()
        try:
            found[name] = {"error": None, "told": check(folder / name)}
        except BaseException:
            found[name] = {"error": traceback.format_exc()}
    return found


def main(folder, *names):
    folder = Path(folder)
    found = run_checks(globals(), folder, names)
    if not names:
        found.update(run_jobs(folder))
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
