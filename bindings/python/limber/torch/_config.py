# SPDX-License-Identifier: BSD-3-Clause
"""Parses the configuration of a model's products: for all products, for kinds of products, for
layers."""
import fnmatch
import os
from ctypes import byref, c_int, create_string_buffer
from typing import NamedTuple

from .. import _library as C
from .._arguments import contract_of
from .._facts import SCHEMES
from .._library import lib
from ..errors import BadArgument, check

ROLES = ("forward", "grad_input", "grad_weight")
TORCH = "torch"         # instead of a contract: PyTorch computes
_WISH = ("unit", "contract", "scheme")
_MODEL = ("layers", "statistics", "every")
_LPGEMM = ("groupedCumulativeLength", "targetFloatType", "roundingType", "quantLayer", "seed")


class Wishes(NamedTuple):
    """How each of a layer's three products is computed: a contract, optionally with ";" and a
    scheme, or "torch"."""
    forward: str = TORCH
    grad_input: str = TORCH
    grad_weight: str = TORCH


def parts_of(wish):
    """Splits a wish, the text of how to compute one product, into (contract, scheme or None)."""
    contract, _, scheme = wish.partition(";")
    return contract, scheme or None


def _check_keys(what, given, known, others=()):
    """Refuses keys of a dictionary that are not known; the message also lists `others`."""
    for key in given:
        if key not in known:
            raise BadArgument(f"{what}: {key!r} is none of {', '.join((*known, *others))}")


def _of_words(given):
    """The dictionary that words stand for: those of a unit, or schemes with + between."""
    is_scheme = all(part in SCHEMES for part in given.split("+"))
    return {"scheme" if is_scheme else "unit": given}


def _wish(what, given):
    """One product's wish, from None or a dictionary of unit, contract, scheme."""
    if given is None:
        return TORCH
    if isinstance(given, str):
        given = _of_words(given)
    _check_keys(what, given, _WISH)
    if "scheme" in given and "unit" not in given:
        given = {"contract": "fast", **given}
    if ("unit" in given) == ("contract" in given):
        raise BadArgument(f"{what}: name either a unit or a contract")
    text = f"simulate={given['unit']}" if "unit" in given else str(given["contract"])
    scheme = given.get("scheme")
    try:
        contract_of(text, scheme, 0)
    except BadArgument as error:
        raise BadArgument(f"{what}: {error}") from None
    return f"{text};{scheme}" if scheme else text


def wishes_of(given, what="config"):
    """Wishes from None (PyTorch computes), the words of a unit or of schemes ("ape",
    "fp32-f+native"), or a dictionary: unit, or contract and scheme (without a contract: fast), for
    all three products, and forward, grad_input, grad_weight, each None, words, or such a
    dictionary."""
    if given is None:
        return Wishes()
    if isinstance(given, str):
        given = _of_words(given)
    if not isinstance(given, dict):
        raise BadArgument(f"{what}: {type(given).__name__} is neither words nor a dictionary")
    _check_keys(what, given, _WISH + ROLES, _MODEL if what == "config" else ())
    common = {key: given[key] for key in _WISH if key in given}
    if not common and not any(role in given for role in ROLES):
        raise BadArgument(f"{what}: neither a unit nor a contract is named")
    every = _wish(what, common) if common else TORCH
    return Wishes(*(_wish(f"{what}: {role}", given[role]) if role in given else every
                    for role in ROLES))


class Config:
    """The Wishes of each layer of a model."""

    def __init__(self, given, names):
        """names    the model's modules; a pattern that matches no layer is refused"""
        self.statistics, self.every = False, 1
        self._lpgemm = None
        if isinstance(given, dict) and any(key in given for key in _LPGEMM):
            self._set_lpgemm(_lpgemm_text(given), names)
        elif isinstance(given, os.PathLike) or (isinstance(given, str) and os.path.isfile(given)):
            with open(given) as file:
                text = file.read()
            try:
                self._set_lpgemm(text, names)
            except BadArgument as error:
                raise BadArgument(f"{os.fspath(given)}: {error}") from None
        else:
            self._set(given, names)

    def _set(self, given, names):
        """Reads a configuration in Limber's own words."""
        self.layers = []
        if isinstance(given, dict):
            own = {key: value for key, value in given.items() if key not in _MODEL}
            self.statistics = bool(given.get("statistics", False))
            self.every = given.get("every", 1)
            if not isinstance(self.every, int) or self.every < 1:
                raise BadArgument(f"config: every = {self.every!r}: a whole number from 1 on")
            layers = given.get("layers", {})
            if not isinstance(layers, dict):
                raise BadArgument("config: layers is no dictionary of names")
            self.all = wishes_of(own if own or "layers" not in given else None)
            for pattern, value in layers.items():
                if not fnmatch.filter(names, pattern):
                    raise BadArgument(f"config: layers: no layer is called {pattern!r}; there are "
                                      f"{_some(names)}")
                self.layers.append((pattern, wishes_of(value, f"config: layers: {pattern}")))
        else:
            try:
                self.all = wishes_of(given)
            except BadArgument as error:
                what = "" if not isinstance(given, str) or "=" in given else ", nor a file"
                raise BadArgument(f"{error}{what}") from None

    def _set_lpgemm(self, text, names):
        """Reads a configuration of LPGEMM, whose layers must exist."""
        self.statistics = True
        self._lpgemm = text
        ends = {name.rpartition(".")[2] for name in names} | set(names)
        for layer in _named_layers(text):
            if layer not in ends:
                raise BadArgument(f"LPGEMM's configuration: no layer is called {layer!r}; there "
                                  f"are {_some(names)}")
        for name in names:
            self.of(name)

    def of(self, name):
        """A layer's Wishes: the last pattern that matches it decides."""
        if self._lpgemm is not None:
            full = _lpgemm_unit(self._lpgemm, name)
            wish = full or _lpgemm_unit(self._lpgemm, name.rpartition(".")[2]) or TORCH
            return Wishes(wish, wish, wish)
        found = self.all
        for pattern, wishes in self.layers:
            if fnmatch.fnmatchcase(name, pattern):
                found = wishes
        return found


def _some(names):
    """Some of the layers' names, for a message."""
    names = [name for name in names if name]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"


# ---- LPGEMM's keys ------------------------------------------------------------------------------

def _lpgemm_text(given):
    """A dictionary of LPGEMM's keys as the text of its configuration file."""
    _check_keys("config", given, _LPGEMM)
    lines = []
    for key, value in given.items():
        if isinstance(value, (tuple, list)):
            ends = "()" if key == "targetFloatType" else "[]"
            value = ends[0] + ",".join(map(str, value)) + ends[1]
        lines.append(f"{key} = {value}\n")
    return "".join(lines)


def _lpgemm_unit(text, layer):
    """The wish for a layer, or None if it is not listed."""
    unit, listed, room = C.Unit(), c_int(), create_string_buffer(1024)
    check(lib.limber_unit_lpgemm(text.encode(), layer.encode(), byref(unit), byref(listed)))
    if not listed.value:
        return None
    return "simulate=" + lib.limber_unit_text(byref(unit), room, len(room)).decode()


def _named_layers(text):
    """The layers named by quantLayer and by sections; limber_unit_lpgemm has validated the text."""
    _lpgemm_unit(text, "")
    found = []
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        key, _, value = line.partition("=")
        if line.startswith("[") and not value:
            found.append(line.strip("[] \t\"'"))
        elif key.strip() == "quantLayer":
            found += [name.strip(" \t\"'") for name in value.strip(" \t[]").split(",")]
    return [name for name in found if name]
