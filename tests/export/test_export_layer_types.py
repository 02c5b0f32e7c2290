# SPDX-License-Identifier: Apache-2.0
"""layer_types of an ablation of windows by layer: which layers, and what is refused. That transformers obeys them:
tests/hf/test_hf_exports.py."""
import json

import pytest
from conftest import VERSION, read_json
from export_oracle import KEYS, QUERIES

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

MODEL = {"model_type": "qwen3", "num_hidden_layers": 4, "num_attention_heads": QUERIES, "num_key_value_heads": KEYS, "hidden_size": 32,
         "head_dim": 8, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
# Of each layer: delta, and its interval.
LOSSES = [(0.004, 0.001, 0.007), (0.0, -0.02, 0.02), (-0.003, -0.006, 0.0), (0.2, 0.1, 0.3)]


def write_model(folder, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**MODEL, **changes}))
    return folder


def write_groups(folder, losses=LOSSES, what="window:64", more=(), heads=QUERIES, reach=(), **told):
    """What qkscope ablate --groups layer leaves. more: (group, layers, loss) of further groups; reach: changed and changed_texts, where
    the version knows them."""
    folder.mkdir(parents=True)
    groups = [(f"layer {layer}", [layer], loss) for layer, loss in enumerate(losses)] + list(more)
    rows = ["group,heads,what,loss,delta,delta_lo,delta_hi" + (",changed,changed_texts" if reach else "")]
    for name, layers, loss in groups:
        numbers = ",".join("" if number is None else repr(number) for number in (*loss, *reach))
        rows += [f'"{name}",{len(layers) * QUERIES},remove,2.5,9,8,10{",1.0,8" if reach else ""}',
                 f'"{name}",{len(layers) * heads},{what},2.5,{numbers}']
    (folder / "ablation_groups.csv").write_text("\n".join(rows) + "\n")
    listed = [{"group": name, "draw": 0, "heads": [[layer, head] for layer in layers for head in range(QUERIES)]} for name, layers, _ in groups]
    (folder / "manifest.json").write_text(json.dumps({"kind": "ablation", "model": "org/made", "num_layers": len(losses), "num_q_heads": QUERIES,
                                                      "num_k_heads": KEYS, "texts": 8, "tokens": 4000, "level": 95.0, "suffix": 0, "groups": listed, **told}))
    return folder


def export(folder, losses=LOSSES, of=(), model=(), **keywords):
    """What the two files have."""
    source = write_groups(folder / "in", losses, **dict(of))
    path = None if model is None else write_model(folder / "model", **dict(model))
    made = qk.export("layer-types", source, folder / "out", model=path, **keywords)
    assert made.files == ("layer-types.json", "layer-types-made-from.json")
    return read_json(folder / "out" / "layer-types.json"), read_json(folder / "out" / "layer-types-made-from.json"), made


def types(letters):
    return [{"f": "full_attention", "s": "sliding_attention"}[letter] for letter in letters]


@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
@pytest.mark.parametrize("tolerance, letters", [(0.01, "sfsf"), (0.005, "ffsf"), (0.03, "sssf"), (1, "ssss")])
@pytest.mark.cases(4)
def test_the_end_of_the_interval_decides(tmp_path, tolerance, letters):
    """Layer 1 loses nothing that is significant, and may lose 0.02: it has to be below the tolerance."""
    made, told, outcome = export(tmp_path, tolerance=tolerance)
    assert made == {"layer_types": types(letters), "sliding_window": 64, "use_sliding_window": True}
    assert told.pop("layers") == [{"heads": QUERIES, "delta": delta, "delta_lo": lo, "delta_hi": hi} for delta, lo, hi in LOSSES]
    chosen, together = [layer for layer, letter in enumerate(letters) if letter == "s"], told.pop("together")
    assert (together or {}).get("delta") == (LOSSES[chosen[0]][0] if len(chosen) == 1 else None)  # of a layer alone it is known
    assert told == {"program": f"qkscope {VERSION}", "from": "ablation", "change": "window:64", "model": "org/made", "texts": 8, "tokens": 4000,
                    "level": 95.0, "tolerance": tolerance, "windowed": chosen}
    assert outcome.says.split(";")[0] == f"{len(chosen)} of 4 layers may have a window of 64 tokens"


@pytest.mark.parametrize("reach, letters, said", [((1.0, 3), "sfsf", None), ((0.71, 3), "sfsf", None), ((0.69, 3), "ffsf", None),
                                                  ((0.4, 3), "ffsf", "changed 40 % of the predictions, in 3 texts"),
                                                  ((1.0, 2), "ffff", "changed 100 % of the predictions, in 2 texts")])
@pytest.mark.cases(5)
def test_a_window_that_reaches_little(tmp_path, reach, letters, said):
    """Layer 0 may lose 0.007 nats a token: 0.01 a token that changed, where 70 % did. Two texts are too few."""
    with pytest.warns(qk.QkscopeWarning) as seen:
        made, told, _ = export(tmp_path, of={"reach": reach})
    assert made["layer_types"] == types(letters)
    assert {(layer["changed"], layer["changed_texts"]) for layer in told["layers"]} == {reach}
    assert (said is not None) == any("of the predictions" in str(one.message) for one in seen)
    assert said is None or any(said in str(one.message) for one in seen)


def test_the_file_is_one_line(tmp_path):
    """As a shell puts it behind --hf-overrides."""
    with pytest.warns(qk.QkscopeWarning):
        export(tmp_path)
    content = (tmp_path / "out" / "layer-types.json").read_text()
    assert content.count("\n") == 1 and content.endswith("}\n")


@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
def test_layers_that_have_a_window_keep_it(tmp_path):
    made, told, _ = export(tmp_path, model={"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 3})
    assert made["layer_types"] == types("sfss") and told["windowed"] == [0, 2]


def test_layers_together_are_asked_for(tmp_path):
    """Until a group of them all was measured."""
    with pytest.warns(qk.QkscopeWarning, match="--groups 0:\\*,2:\\* to qkscope ablate"):
        export(tmp_path / "alone")
    loss = (0.0123, 0.0101, 0.0145)
    more = [("all but one", [0, 1, 2], (1.0, 1.0, 1.0)), ("0:*,2:*", [0, 2], loss)]
    with pytest.warns(qk.QkscopeWarning) as seen:
        _, told, made = export(tmp_path / "both", of={"more": more})
    assert [str(one.message) for one in seen][1:] == ["all of these windows at once may cost 0.01450 nats a token that they change, and the tolerance is 0.01"]
    assert told["together"] == {"heads": 2 * QUERIES, **dict(zip(("delta", "delta_lo", "delta_hi"), loss, strict=True))}
    assert made.says.endswith("at once they cost +0.01230 nats a token, +0.01010 to +0.01450")


@pytest.mark.parametrize("architecture, message", [("qwen3", "transformers obeys .* vLLM passes over"), ("llama", "vLLM obeys .* transformers passes over")])
def test_who_passes_over_them_is_told(tmp_path, architecture, message):
    with pytest.warns(qk.QkscopeWarning, match=message):
        export(tmp_path, model={"model_type": architecture})


REFUSED = {
    "at once with first keys": ({"of": {"what": "window:64:4"}}, "without first keys that are kept"),
    "theta by type": ({"model": {"model_type": "gemma3_text"}}, "chooses its theta"),
    "one window": ({"model": {"model_type": "mistral"}}, "all layers have one window"),
    "nobody obeys": ({"model": {"model_type": "glm4"}}, "no program is known"),
    "another shape": ({"model": {"num_hidden_layers": 3}}, "4 layers of 4 query and 2 key heads"),
    "another window": ({"model": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3}}, "a window of 16 tokens.*--what window:16"),
    "one text": ({"losses": [*LOSSES[:3], (0.1, None, None)]}, "layer 3: no interval"),
    "a part of a layer": ({"of": {"heads": QUERIES - 1}}, "all heads of layer 0"),
    "the last rows": ({"of": {"suffix": 8}}, "without --suffix"),
    "short texts": ({"losses": [(0.0, 0.0, 0.0)] * 4}, "no longer than that"),
    "no such window": ({"recent": 32}, "no window:32 without"),
    "no model": ({"model": None}, "^model is not given"),
    "no tolerance": ({"tolerance": 0.0}, "^tolerance=0.0"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.cases(6)
def test_what_is_refused(tmp_path, case):
    told, message = REFUSED[case]
    with pytest.raises(qk.Error, match=message):
        export(tmp_path, **told)
    assert not (tmp_path / "out").exists()


def test_of_several_windows_one_is_chosen(tmp_path):
    source = write_groups(tmp_path / "in")
    table = source / "ablation_groups.csv"
    table.write_text(table.read_text() + "".join(f'"layer {layer}",{QUERIES},window:16,2.5,1,0.9,1.1\n' for layer in range(len(LOSSES))))
    model = write_model(tmp_path / "model")
    with pytest.raises(qk.NotFoundError, match="several windows: 16, 64: choose one by --recent"):
        qk.export("layer-types", source, tmp_path / "out", model=model)
    with pytest.warns(qk.QkscopeWarning, match="vLLM passes over"):
        assert qk.export("layer-types", source, tmp_path / "out", model=model, recent=16).says == "0 of 4 layers may have a window of 16 tokens"
    assert read_json(tmp_path / "out" / "layer-types.json")["layer_types"] == types("ffff")
