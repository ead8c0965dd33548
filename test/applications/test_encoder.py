# SPDX-License-Identifier: BSD-3-Clause
"""Tests examples/encoder on a small encoder with random weights, and on the real one if its
weights are present."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../examples/encoder/encoder.py")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "sleep", ",", ".", "cafe", "##x"]
SIZES = {"hidden_size": 32, "layer_norm_eps": 1e-12, "vocab_size": len(WORDS),
         "max_position_embeddings": 16, "type_vocab_size": 2, "num_attention_heads": 4,
         "intermediate_size": 64, "num_hidden_layers": 2}


def write_tensors(path, tensors):
    """Writes float tensors to a file in the safetensors format."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def small_model(folder):
    """Writes a BERT of two small layers with random weights; returns the weights."""
    torch.manual_seed(2)
    size, inner = SIZES["hidden_size"], SIZES["intermediate_size"]
    tensors = {"embeddings.word_embeddings.weight": torch.randn(len(WORDS), size),
               "embeddings.position_embeddings.weight": torch.randn(16, size) / 4,
               "embeddings.token_type_embeddings.weight": torch.randn(2, size) / 4}

    def linear(name, rows, columns):
        """Random weights of a linear layer."""
        tensors[f"{name}.weight"] = torch.randn(rows, columns) / columns ** 0.5
        tensors[f"{name}.bias"] = torch.randn(rows) / 4

    def norm(name):
        """The weights of a normalisation that changes nothing but mean and variance."""
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = torch.ones(size), torch.zeros(size)

    norm("embeddings.LayerNorm")
    for i in range(SIZES["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        for part in "query", "key", "value":
            linear(f"{at}.attention.self.{part}", size, size)
        linear(f"{at}.attention.output.dense", size, size)
        norm(f"{at}.attention.output.LayerNorm")
        linear(f"{at}.intermediate.dense", inner, size)
        linear(f"{at}.output.dense", size, inner)
        norm(f"{at}.output.LayerNorm")
    write_tensors(os.path.join(folder, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(SIZES, file)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(WORDS) + "\n")
    return tensors


class Encoder(unittest.TestCase):
    """The program encoder.py, on a small model with random weights."""
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.tensors = small_model(self.folder.name)

    def run_it(self, *options, model=True):
        """Runs encoder.py, on the model of this class unless model is False."""
        command = [sys.executable, PROGRAM, *options]
        return subprocess.run(command + (["--model", self.folder.name] if model else []),
                              capture_output=True, text=True)

    def test_ways(self):
        """Each way's distance from the exact embedding, its times and its statistics are
        plausible."""
        log = os.path.join(self.folder.name, "s.jsonl")
        done = self.run_it("--json", "--statistics", log, "--by",
                           "torch,native,correct,bits=20,h100-bf16,h100-e4m3", "The cats sleep.",
                           "the cat", "Caf\u00e9, the sleepx")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["by"]: row for row in map(json.loads, done.stdout.splitlines())}
        for by, least, most in [("torch", 0, 2e-6), ("native", 0, 2e-6), ("correct", 0, 2e-6),
                                ("bits=20", 0, 1e-4), ("h100-bf16", 1e-4, 0.1),
                                ("h100-e4m3", 1e-3, 1)]:
            self.assertTrue(least <= rows[by]["distance"] <= most, rows[by])
            self.assertTrue(0 < rows[by]["seconds_in_products"] < rows[by]["seconds"], rows[by])
            for i in range(3):
                self.assertAlmostEqual(rows[by]["cosines"][i][i], 1, places=5)
        with open(log) as file:
            tags = {json.loads(line)["tag"] for line in file}
        self.assertIn("layer.1.down/forward/swamped", tags)
        # the products of attention itself
        self.assertIn("layer.0.scores/forward/partly_swamped", tags)
        self.assertIn("layer.1.seen/forward/partly_swamped", tags)

    def test_tokens(self):
        """The tokenizer splits words as WordPiece does."""
        sys.argv = ["encoder.py"]
        with open(PROGRAM) as file:
            names = {}
            exec(file.read().replace("sys.exit(main())", ""), names)
        tokens = names["Tokens"](os.path.join(self.folder.name, "vocab.txt"))
        for text, pieces in [("The cats sleep.", "the cat ##s sleep ."), ("CAF\u00c9", "cafe"),
                             ("the,the", "the , the"), ("dog cat", "[UNK] cat"), ("", ""),
                             ("cafexs", "cafe ##x ##s"), ("cat\u4e2dcat", "cat [UNK] cat")]:
            got = [WORDS[i] for i in tokens(text, 16)]
            self.assertEqual(got, ["[CLS]", *pieces.split(), "[SEP]"], text)
        self.assertEqual(len(tokens("the " * 40, 16)), 16)

    def test_bad_files(self):
        """A damaged file, a missing tensor or vocabulary, or a tensor of wrong shape is named."""
        path = os.path.join(self.folder.name, "model.safetensors")
        with open(path, "rb") as file:
            good = file.read()
        for data in b"", b"\xff" * 40, good[:200], good[:8] + b"[]" + good[10:]:
            with open(path, "wb") as file:
                file.write(data)
            done = self.run_it()
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^encoder.py: .*model.safetensors")
        del self.tensors["encoder.layer.1.output.dense.bias"]
        write_tensors(path, self.tensors)
        self.assertIn("has no layer.1.down.bias", self.run_it().stderr)
        self.tensors["encoder.layer.1.output.dense.bias"] = torch.zeros(5)
        write_tensors(path, self.tensors)
        self.assertIn("down.bias", self.run_it().stderr)
        os.remove(os.path.join(self.folder.name, "vocab.txt"))
        self.tensors["encoder.layer.1.output.dense.bias"] = torch.zeros(32)
        write_tensors(path, self.tensors)
        self.assertIn("vocab.txt", self.run_it().stderr)

    def test_unknown_unit(self):
        """Bad options are refused with a message."""
        done = self.run_it("--by", "h900")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "encoder.py: error: --by h900: ")
        done = self.run_it("--statistics", "/nowhere/s.jsonl")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/nowhere: no such folder", done.stderr)
        done = self.run_it("--runs", "0")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--runs: a whole number", done.stderr)

    def test_real_weights(self):
        """With the published weights, sentences of like meaning are near each other."""
        done = self.run_it("--json", "--by", "torch,native", model=False)
        if done.returncode == 77:
            self.skipTest(done.stderr.strip())
        for row in map(json.loads, done.stdout.splitlines()):
            self.assertLess(row["distance"], 2e-6)
            cosines = row["cosines"]
            self.assertGreater(cosines[2][3], 0.6)      # a cat on a sofa, a kitten on a couch
            self.assertLess(cosines[2][4], 0.3)


if __name__ == "__main__":
    tell_skips.main()
