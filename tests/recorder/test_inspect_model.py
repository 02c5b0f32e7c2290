# SPDX-License-Identifier: Apache-2.0
"""What qkscope inspect says of models."""
import json
import math
import signal

import pytest
from conftest import EXAMPLE, ROOT

from recording import killed, write_jsonl, write_model

STEP = ROOT / "examples" / "kjv-tiny" / "step-2004"


def test_numbers(qkscope, tmp_path):
    write_model(tmp_path / "m", "gemma3_text", num_hidden_layers=3,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_local_base_freq=500.0)
    out = qkscope("inspect", tmp_path / "m", expect=0).out
    for words in ("gemma3_text, 3 layers of 4 query heads and 2 key heads, d = 12",
                  "theta 10000 and 500 where windows slide, in 3 of 3 layers", "8 tokens in 2 of 3 layers", "12 query heads and 6 key heads in 3 layers",
                  "1 text of 512 tokens (--texts N for more):"):
        assert words in out, out
    assert "1 text of 1 token (" in qkscope("inspect", tmp_path / "m", "--length", 1, "--no-measure", expect=0).out
    shown = json.loads(qkscope("inspect", tmp_path / "m", "--json", "--length", 1000, expect=0).out)
    assert (shown["num_layers"], shown["q_per_kv_group"], shown["head_dim"]) == (3, 2, 12)
    assert (shown["rope_theta"], shown["rope_theta_sliding"], shown["notice"]) == (10000, 500, None)
    assert [layer["window"] for layer in shown["layers"]] == [8, None, 8]
    assert len(shown["layers"][0]["rope_frequencies"]) == 6
    capture = shown["capture"]
    assert (capture["window"], capture["windows"], capture["rows_per_head"]) == (512, 2, 1000)
    assert capture["vector_bytes"] == 1000 * 18 * 12 * 4
    assert capture["length"] == 1000 and capture["flops"] > 2 * 1000 * 1e4
    assert capture["memory_bytes"] > 512 * 32 * 4


def test_whole_numbers_may_be_written_as_floats(qkscope, tmp_path):
    write_model(tmp_path / "m")
    config = tmp_path / "m" / "config.json"
    want = json.loads(qkscope("inspect", tmp_path / "m", "--json", "--no-measure", expect=0).out)
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({k: float(v) if type(v) is int else v for k, v in settings.items()}))
    assert ".0" in config.read_text()
    found = json.loads(qkscope("inspect", tmp_path / "m", "--json", "--no-measure", expect=0).out)
    assert found == {**want, "fingerprint": found["fingerprint"]}


def costs(qkscope, model, *words):
    return json.loads(qkscope("inspect", model, "--json", "--no-measure", *words, expect=0).out)["capture"]


def test_forecast(qkscope, tmp_path):
    """Of time by captures in TMPDIR, of which nothing stays; of memory with the weights."""
    write_model(tmp_path / "m", num_hidden_layers=3)
    scratch = tmp_path / "tmp"
    scratch.mkdir()

    def inspect(*words):
        done = qkscope("inspect", tmp_path / "m", *words, expect=0, env={"TMPDIR": scratch})
        assert done.err == "" and not list(scratch.iterdir())
        return done.out

    one, thousand = (json.loads(inspect("--json", "--texts", n))["capture"]["forecast"] for n in (1, 1000))
    for forecast in (one, thousand):
        assert min(forecast["seconds"], forecast["processor_seconds"], forecast["measuring"]) > 0 and forecast["tokens"] > 0
    assert thousand["seconds"] > 20 * one["seconds"]  # the work is a thousand times as much
    told = inspect("--texts", 7, "--keep", "moments")
    assert "time        about " in told and " of processor (measured here in " in told
    assert "time  " not in inspect("--no-measure") and "forecast" not in json.loads(inspect("--no-measure", "--json"))["capture"]
    shown = json.loads(inspect("--json"))
    assert shown["capture"]["memory_with_weights_bytes"] > shown["capture"]["memory_bytes"] + shown["weight_bytes"]


@pytest.mark.parametrize("kind", ["llama", "glm4", "gemma3_text", "mllama_text_model"])
def test_forecast_without_weights(qkscope, tmp_path, kind):
    """With made-up weights of the model's shapes, which is said; and of which nothing stays."""
    write_model(tmp_path / "m", kind, **({"num_hidden_layers": 3, "layer_types": ["sliding_attention"] * 3} if kind == "gemma3_text" else {}))
    (tmp_path / "tmp").mkdir()
    words = ["inspect", tmp_path / "m", "--texts", 30]
    real = json.loads(qkscope(*words, "--json", expect=0).out)["capture"]["forecast"]
    (tmp_path / "m" / "model.safetensors").unlink()
    done = qkscope(*words, expect=0, env={"TMPDIR": tmp_path / "tmp"})
    assert " s with one layer of made-up weights and texts of up to " in done.out and "not measured" not in done.err
    made = json.loads(qkscope(*words, "--json", expect=0, env={"TMPDIR": tmp_path / "tmp"}).out)["capture"]["forecast"]
    assert made["made_weights"] and not real["made_weights"] and min(made["tokens"], made["processor_seconds"]) > 0
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("at", [2, 7, 15])
def test_a_stopped_measurement_leaves_nothing(program, tmp_path, monkeypatch, at):
    write_model(tmp_path / "m")
    if at > 10:
        (tmp_path / "m" / "model.safetensors").unlink()
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    said = killed(program, at, "inspect", tmp_path / "m", by=signal.SIGINT)
    assert "stopped while the time" in said and not list(scratch.iterdir())


def test_time_that_cannot_be_measured(qkscope, tmp_path):
    write_model(tmp_path / "m")
    done = qkscope("inspect", tmp_path / "m", expect=0, env={"TMPDIR": tmp_path / "none"})
    assert "time was not measured" in done.err and "none" in done.err and "time  " not in done.out


def test_long_texts_cost_what_their_windows_cost(qkscope, tmp_path):
    write_model(tmp_path / "m")
    parts = [costs(qkscope, tmp_path / "m", "--length", n) for n in (300, 120)]
    whole = costs(qkscope, tmp_path / "m", "--length", 2 * 300 + 120, "--max-length", 300)
    assert whole["windows"] == 3 and whole["memory_bytes"] > parts[0]["memory_bytes"]  # run together
    many = [costs(qkscope, tmp_path / "m", "--length", 300, "--texts", n)["memory_bytes"] for n in (100, 1000)]
    assert many[0] == many[1]
    assert whole["flops"] == pytest.approx(2 * parts[0]["flops"] + parts[1]["flops"])
    assert "in 2 windows of at most 512" in qkscope("inspect", tmp_path / "m", "--length", 513, expect=0).out


def test_rows_are_those_of_a_capture(qkscope, tmp_path):
    """By default and with --rows; all of them where there are fewer."""
    write_model(tmp_path / "m")
    found = [costs(qkscope, tmp_path / "m", *words)["rows_per_head"] for words in (
        ["--length", 9000], ["--length", 500], ["--length", 500, "--rows", 70])]
    assert found == [8000, 500, 70]


def test_layers_without_attention(qkscope, tmp_path):
    write_model(tmp_path / "m", "mllama_text_model")
    out = qkscope("inspect", tmp_path / "m", expect=0).out
    assert "8 query heads and 4 key heads in 2 layers" in out and "none: full attention" in out


def test_options_that_do_nothing(qkscope, tmp_path):
    """Each is told once; those that count are not."""
    write_model(tmp_path / "m")

    def told(*words):
        return [line.split("note: ")[1] for line in qkscope("inspect", *words, expect=0).err.splitlines()]

    assert told(tmp_path / "m", "--groups", 4, "--buckets", 3, "--heads") == [
        "--heads does nothing without a capture", "--groups does nothing without --keep moments",
        "--buckets does nothing without --keep moments"]
    assert told(tmp_path / "m", "--groups", 4, "--buckets", 3, "--keep", "moments,reservoir=2", "--length", 40) == []
    assert told(EXAMPLE, "--keep", "moments", "--heads") == ["--keep does nothing without a model"]


# ---- what a capture takes on disk ----------------------------------------------------------------

LLAMA_3 = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=128256, rope_theta=500000.0,
               max_position_embeddings=8192, rms_norm_eps=1e-5, num_key_value_heads=8)
LLAMAS = {"8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
          "70b": dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64)}


def moment_shapes(heads, d, groups, buckets):
    """Arrays of one layer and kind, as docs/formats.md#moments lists them; all of 8 bytes."""
    shapes = dict(heads=(heads,), texts=(heads,), positions=(heads, 2), group=(groups,), mask=(),
                  count=(groups, heads), mean_t=(groups, heads), sum_tt=(groups, heads),
                  mean=(groups, heads, d), sum_xt=(groups, heads, d), sum_xx=(groups, heads, d * (d + 1) // 2))
    if buckets:
        shapes |= dict(bucket=(buckets,), bucket_count=(buckets, heads), bucket_mean_t=(buckets, heads),
                       bucket_sum_tt=(buckets, heads), bucket_mean=(buckets, heads, d),
                       bucket_sum_xt=(buckets, heads, d), bucket_sum_xx=(buckets, heads, d))
    return shapes


def moment_bytes(layers, q_heads, k_heads, d, groups, buckets):
    return 8 * layers * sum(math.prod(shape) for heads, b in ((q_heads, buckets), (k_heads, 0))
                            for shape in moment_shapes(heads, d, max(groups, 1), b).values())


def write_config(folder, which):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_3 | LLAMAS[which]))
    return folder


@pytest.mark.cases(3)
@pytest.mark.parametrize("which, groups, buckets", [("8b", 0, 16), ("70b", 16, 16), ("8b", 16, 5)])
def test_moments_take_what_their_arrays_take(qkscope, tmp_path, which, groups, buckets):
    """By config.json alone; of rows, what a million tokens take."""
    folder, shape = write_config(tmp_path / which, which), LLAMAS[which]
    layers, q_heads, d = shape["num_hidden_layers"], shape["num_attention_heads"], 128
    amount = ["--groups", groups, "--buckets", buckets, "--texts", 125, "--length", 8000]
    kept = costs(qkscope, folder, "--keep", "moments", *amount)["kept"]
    assert kept["moment_bytes"] == moment_bytes(layers, q_heads, 8, d, groups, buckets) == kept["bytes"]
    of_group, labels = 8 * (3 + 2 * d + d * (d + 1) // 2), 4 * 8
    assert of_group == 68120
    assert kept["key_head_bytes"] == max(groups, 1) * of_group + labels
    assert kept["query_head_bytes"] == max(groups, 1) * of_group + buckets * 8 * (3 + 3 * d) + labels
    assert kept["moment_files"] == layers
    assert kept["blocks"] == 16  # each has the sums of its own groups, and of one that it shares
    assert kept["block_bytes"] == moment_bytes(layers, q_heads, 8, d, max(groups, 1) + 15, 16 * buckets)
    one = costs(qkscope, folder, "--keep", "moments", *amount, "--texts", 1)["kept"]
    assert (one["blocks"], one["block_bytes"]) == (1, one["bytes"]) == (1, moment_bytes(layers, q_heads, 8, d, 1, buckets))
    apart = costs(qkscope, folder, "--keep", "moments,first=4", *amount)["kept"]
    assert apart["moment_bytes"] == kept["moment_bytes"] + moment_bytes(layers, q_heads, 8, d, groups, 0)
    heads = q_heads + 8
    rows = costs(qkscope, folder, "--length", 8000, "--texts", 125, "--keep", "rows", "--rows", 10 ** 6)["kept"]
    assert rows["bytes"] == rows["row_bytes"] == 10 ** 6 * layers * heads * d * 4
    assert rows["moment_bytes"] == 0


def test_a_reservoir_holds_so_many_of_each_bucket(qkscope, tmp_path):
    """At most the whole text; with moments beside it."""
    folder = write_config(tmp_path / "8b", "8b")
    for length, number, rows, buckets in ((8192, 4, 64, 16), (40, 4, 40, 10), (8192, 1000, 8192, 16)):
        kept = costs(qkscope, folder, "--length", length, "--texts", 10, "--groups", 0, "--keep",
                     f"moments,reservoir={number}")["kept"]
        assert kept["reservoir_rows_per_head"] == 10 * rows
        assert kept["reservoir_bytes"] == 10 * rows * 32 * 40 * 128 * 4
        assert kept["bytes"] == kept["reservoir_bytes"] + moment_bytes(32, 32, 8, 128, 0, buckets)
    both = costs(qkscope, folder, "--keep", "rows,moments")["kept"]
    assert both["bytes"] == both["row_bytes"] + both["moment_bytes"]


def test_sizes_in_words(qkscope, tmp_path):
    folder = write_config(tmp_path / "70b", "70b")
    out = qkscope("inspect", folder, "--length", 10 ** 6, "--keep", "moments", "--groups", 0, "--no-measure", expect=0).out
    for words in ("weights     not there", "all rows    1000000 a head, 2.95 TB (--sampler all)",
                  "moments     646.2 MB in 80 files; 117.7 kB of a query head, 68.2 kB of a key head"):
        assert words in out, out
    shown = json.loads(qkscope("inspect", folder, "--keep", "moments", "--json", "--no-measure", expect=0).out)
    assert shown["weight_bytes"] is None and shown["dtype"] is None
    layer = 2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    assert shown["parameters"] == 128256 * 8192 + 80 * layer  # without the output layer
    assert shown["capture"]["memory_with_weights_bytes"] > shown["capture"]["memory_bytes"] + 2 * shown["parameters"]


def test_facts_without_weights(qkscope, tmp_path):
    """config.json is enough for all that is said but the weights; a note says what is missing."""
    write_model(tmp_path / "m")
    whole = qkscope("inspect", tmp_path / "m", "--no-measure", expect=0)
    assert whole.err == "" and "fingerprint" in whole.out
    (tmp_path / "m" / "model.safetensors").unlink()
    alone = qkscope("inspect", tmp_path / "m", "--no-measure", expect=0)
    assert "note: " in alone.err and "there is no model.safetensors" in alone.err
    lines, of_config = ([line.split(" memory, ")[0] for line in done.out.splitlines() if not line.startswith(("parameters", "weights"))]
                        for done in (whole, alone))
    assert of_config == lines and " with program and weights in bfloat16" in alone.out
    assert qkscope("inspect", tmp_path / "m", "-q", expect=0).err == ""
    assert "model.safetensors" in qkscope("capture", "-m", tmp_path / "m", "-t", tmp_path / "t", "-o", tmp_path / "c",
                                          expect=1).err
    (tmp_path / "m" / "config.json").unlink()
    assert qkscope("inspect", tmp_path / "m").code == 1


def test_what_cannot_be_kept(qkscope, tmp_path):
    folder = write_config(tmp_path / "8b", "8b")
    for words in ("", "row", "moments,", "reservoir=4", "rows,reservoir=4", "moments,reservoir=0", "moments,reservoir=99999999", "rows,first=4",
                  "moments,first=17", "moments,first="):
        assert "--keep: " in qkscope("inspect", folder, "--keep", words, expect=2).err


def arrays_of(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}, len(data) - 8 - size


@pytest.mark.cases(5)
@pytest.mark.parametrize("texts, groups, words", [(12, 0, []), (12, 7, []), (1, 16, []), (17, 16, ["--max-length", 40]), (3, 16, ["--max-length", 64])])
def test_sizes_are_those_of_a_capture(qkscope, tmp_path, texts, groups, words):
    """To the byte, but for headers; the rows of a reservoir, too."""
    words = ["--keep", "moments,reservoir=2", "--groups", groups, *words]
    bytes_of = write_jsonl(tmp_path / "t.jsonl", [f"{i:04}" * 25 for i in range(texts)])  # a byte is a token
    qkscope("capture", "-m", STEP, "-t", bytes_of, "-o", tmp_path / "c", *words, expect=0)
    files = [arrays_of(path) for path in sorted((tmp_path / "c" / "moments").iterdir())]
    found = costs(qkscope, STEP, "--texts", texts, "--length", 100, *words)["kept"]
    assert found["moment_bytes"] == sum(size for _, size in files) and found["moment_files"] == len(files)
    assert files[0][0]["q.bucket"] == [found["buckets"]] and files[0][0]["q.group"] == [max(found["groups"], 1)]
    rows = json.loads(qkscope("inspect", tmp_path / "c", "--json", expect=0).out)
    assert rows["rows"] == found["reservoir_rows_per_head"] * rows["num_heads"]


def test_what_is_missing_of_weights_that_are_there(qkscope, tmp_path):
    """Is an error, as for a capture; an index alone is no weights."""
    write_model(tmp_path / "m")
    config = tmp_path / "m" / "config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps(settings | {"num_hidden_layers": settings["num_hidden_layers"] + 1}))
    for words in (["inspect", tmp_path / "m"], ["capture", "-m", tmp_path / "m", "-t", tmp_path, "-o", tmp_path / "c"]):
        assert f"no tensor model.layers.{settings['num_hidden_layers']}.self_attn.q_proj.weight" in qkscope(*words, expect=1).err
    (tmp_path / "m" / "model.safetensors").rename(tmp_path / "m" / "model-00001-of-00002.safetensors")
    index = tmp_path / "m" / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}))
    assert "model-00002-of-00002.safetensors: cannot open" in qkscope("inspect", tmp_path / "m", expect=1).err
    (tmp_path / "m" / "model-00001-of-00002.safetensors").unlink()
    assert "weights     not there: " in qkscope("inspect", tmp_path / "m", "--no-measure", expect=0).out


def test_defaults_are_told(qkscope, tmp_path):
    """What config.json lacks has the default of its architecture."""
    config = write_config(tmp_path / "8b", "8b") / "config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({k: v for k, v in settings.items() if k not in ("vocab_size", "num_hidden_layers")}))
    want = "num_hidden_layers 32, vocab_size 32000"
    assert f"of llama, for what config.json lacks: {want}\n" in qkscope("inspect", tmp_path / "8b", "--no-measure", expect=0).out
    assert json.loads(qkscope("inspect", tmp_path / "8b", "--no-measure", "--json", expect=0).out)["defaults"] == want
    config.write_text(json.dumps(settings))
    assert json.loads(qkscope("inspect", tmp_path / "8b", "--no-measure", "--json", expect=0).out)["defaults"] is None
