# SPDX-License-Identifier: Apache-2.0
"""Loads exports with kvpress, and has kvpress compute the same of the same texts; run by test_export_kvpress.py. Without kvpress, or
what it needs, exit code 77.

    with_kvpress.py MODEL TEXTS FOLDER     FOLDER holds stats, filters, duo, and one (duo of the first text)
"""
import json
import sys
from types import SimpleNamespace

try:
    import numpy as np
    import torch
    from transformers import AutoModelForCausalLM
    from kvpress.presses import duo_attention_press, expected_attention_with_stats, qfilter_press
except Exception as error:  # of any kind: it may not fit the version of transformers
    print(error)
    sys.exit(77)


class Texts:
    """As much of a dataset as kvpress asks for."""

    def __init__(self, texts):
        self.texts = texts

    def map(self, change):
        return Texts([change({"chapter": text})["chapter"] for text in self.texts])

    def to_pandas(self):
        return SimpleNamespace(sample=lambda *_, **__: {"chapter": np.array(self.texts)})

    def __getitem__(self, column):
        return self.texts


def off(found, expected):
    return float((found.double() - expected.double()).abs().max() / expected.double().abs().max())


def main():
    path, texts, folder = sys.argv[1:]
    texts = [json.loads(line)["text"] for line in open(texts, encoding="utf-8")]
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    told = {}

    stats_press = expected_attention_with_stats.ExpectedAttentionStatsPress(stats_folder=f"{folder}/stats")
    stats_press.post_init_from_model(model)
    expected_attention_with_stats.load_dataset = lambda *_, **__: Texts(texts)
    _, mean, cov = expected_attention_with_stats.collect_queries(model, "", len(texts), 10 ** 9, 4)
    told["mean"], told["cov"] = off(stats_press.mu, mean), off(stats_press.cov, cov)
    stats = expected_attention_with_stats.ExpectedAttentionStats.from_pretrained(f"{folder}/stats")
    told["id"] = stats.stats_id()

    filters = qfilter_press.QFilters.from_pretrained(f"{folder}/filters").q_filters
    told["filters"] = list(filters.shape)
    press = qfilter_press.QFilterPress()
    press.q_filters = filters
    keys = torch.randn(1, filters.shape[1], 5, filters.shape[2])
    scores = press.score(SimpleNamespace(layer_idx=1), None, keys, None, None, None)
    told["scores"] = off(scores, -torch.einsum("hd,bhnd->bhn", filters[1], keys))

    duo_attention_press.load_dataset = lambda *_, **__: Texts(texts[:1])
    told["duo"] = off(torch.tensor(np.loadtxt(f"{folder}/one/full_attention_heads.tsv", delimiter="\t")),
                      torch.tensor(duo_attention_press.duo_attention_on_the_fly(model, num_samples=1)))
    duo_attention_press.PATTERNS_DICT[model.config.name_or_path] = "x"
    files = {name: open(f"{folder}/duo/{name}", encoding="utf-8").read() for name in ("config.json", "full_attention_heads.tsv")}

    def get(url):
        text = files[url.rsplit("/", 1)[1]]
        return SimpleNamespace(text=text, json=lambda: json.loads(text))
    duo_attention_press.requests = SimpleNamespace(get=get)
    sink, recent, scores = duo_attention_press.DuoAttentionPress.load_attention_pattern(model)
    told["pattern"] = [sink, recent, list(scores.shape)]
    print(json.dumps(told))


main()
