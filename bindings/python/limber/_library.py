# SPDX-License-Identifier: BSD-3-Clause
"""The shared library: finds it and declares its types and functions for ctypes."""
import ctypes
import glob
import importlib.util
import os
import shutil
import subprocess
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int16,
                    c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint64, c_void_p)

VERSION = "0.2.0"
NAME = "liblimber.so.0"
HERE = os.path.dirname(os.path.abspath(__file__))
INSTALLED = os.path.join(os.sep, "share", "limber", "python", "limber")
PARTS = 27

Log = CFUNCTYPE(None, c_void_p, c_char_p)


RevealFn = CFUNCTYPE(c_int, c_void_p, POINTER(c_double), POINTER(c_double), c_int64,
                     POINTER(c_double))


class Sized(Structure):
    """A structure that starts with its size."""

    def __init_subclass__(cls, **named):
        super().__init_subclass__(**named)
        cls._names = frozenset(field[0] for field in cls._fields_)

    def __init__(self, *fields, **named):
        if not self._names.issuperset(named):   # ctypes would accept unknown names silently
            unknown = next(name for name in named if name not in self._names)
            raise TypeError(f"{type(self).__name__} has no field {unknown}")
        super().__init__(ctypes.sizeof(self), *fields, **named)


# The structures of the C headers, field by field; STRUCTURES below has their names in C.
class Format(Structure):
    _fields_ = [("kind", c_uint8), ("exp_bits", c_uint8), ("frac_bits", c_uint8),
                ("flags", c_uint8), ("bias", c_int16), ("size", c_uint8), ("carried", c_uint8)]


class Allocator(Structure):
    _fields_ = [("alloc", c_void_p), ("free", c_void_p), ("user", c_void_p)]


class Config(Sized):
    _fields_ = [("size", c_size_t),
                ("backend", c_char_p), ("threads", c_int), ("cache_dir", c_char_p),
                ("cache_bytes", c_size_t), ("dump_dir", c_char_p), ("verbose", c_int),
                ("workspace_bytes", c_size_t), ("log", Log), ("log_user", c_void_p),
                ("device", c_int), ("partition", c_int), ("allocator", Allocator),
                ("kernels", c_int)]


class Step(Structure):
    _fields_ = [("format", Format), ("rounding", c_uint8), ("overflow", c_uint8)]


class Unit(Sized):
    _fields_ = [("size", c_size_t),
                ("a", Step), ("b", Step), ("scale", c_int32), ("scale_rule", c_int32),
                ("scale_block", c_int32), ("mul", Step), ("acc", Step), ("block", c_int32),
                ("sub", c_int32), ("frac", c_int32), ("floor", c_int32), ("zeros", c_int32),
                ("tree", c_int32), ("order", c_int32), ("group", c_int32), ("outer", Step),
                ("split", c_int32), ("total", Step), ("start_c", c_int32), ("out", Step),
                ("narrow", c_int32), ("random_bits", c_int32), ("seed", c_uint64),
                ("seeded", c_uint64), ("late", c_int32), ("reach", c_int32),
                ("halves", c_int32), ("lanes", c_int32), ("halve", c_int32), ("unroll", c_int32),
                ("rest_after", c_int32), ("join_halves", c_int32), ("epilogue", Step),
                ("tile", c_int32), ("deal_turns", c_int32), ("merge_pairs", c_int32)]


class UnitPreset(Structure):
    _fields_ = [("name", c_char_p), ("words", c_char_p), ("source", c_char_p)]


class Distribution(Structure):
    _fields_ = [("count", c_int64), ("zeros", c_int64), ("special", c_int64), ("mean", c_double),
                ("variance", c_double), ("least", c_double), ("largest", c_double),
                ("exponents", c_int64 * 320)]


class Statistics(Sized):
    _fields_ = [("size", c_size_t),
                ("compare", c_int), ("swamped_only", c_int), ("products", c_int64),
                ("nonzero", c_int64), ("mul_inexact", c_int64), ("mul_underflow", c_int64),
                ("mul_overflow", c_int64), ("swamped", c_int64), ("partly_swamped", c_int64),
                ("sum_overflow", c_int64), ("outer_sums", c_int64), ("outer_swamped", c_int64),
                ("outer_partly", c_int64), ("a", Distribution), ("b", Distribution),
                ("result", Distribution), ("variance_wide", c_double), ("retention", c_double),
                ("predicted", c_double), ("distance", c_double), ("relative", c_double)]


class Contract(Sized):
    _fields_ = [("size", c_size_t),
                ("promise", c_int), ("bits", c_int), ("scheme", c_char_p), ("slices", c_int),
                ("split", c_int), ("unit", POINTER(Unit)), ("statistics", POINTER(Statistics)),
                ("on_miss", c_int), ("residues", c_int), ("modulus", c_uint64),
                ("rounding", c_int)]


class Part(Structure):
    _fields_ = [("scheme", c_char * 32), ("kernel", c_char * 33), ("rows", c_int),
                ("bound", c_double), ("m", c_int64), ("n", c_int64), ("share", c_double),
                ("cost", c_double), ("seconds", c_double), ("group", c_int * 2),
                ("kinds", c_uint * 2)]


class Report(Sized):
    _fields_ = [("size", c_size_t),
                ("scheme", c_char * 32), ("backend", c_char * 16),
                ("kernel", c_char * 33), ("rows", c_int), ("pruned", c_int),
                ("bound", c_double), ("cost", c_double), ("seconds_scan", c_double),
                ("seconds_compile", c_double), ("seconds_run", c_double), ("from", c_int),
                ("workspace", c_size_t), ("recomputed", c_int64), ("parts", c_int),
                ("part_room", c_int), ("part_size", c_size_t), ("part", POINTER(Part)),
                ("order", c_int), ("recomputed_share", c_double),
                ("way", c_char * 24)]

    def __init__(self):
        super().__init__(part_room=PARTS, part_size=ctypes.sizeof(Part), part=(Part * PARTS)())


class Matrix(Structure):
    _fields_ = [("data", c_void_p), ("format", Format), ("row_stride", c_int64),
                ("col_stride", c_int64)]


class PrepareConfig(Sized):
    _fields_ = [("size", c_size_t),
                ("bytes", c_size_t), ("changes", c_int), ("operation", c_int64)]


class Output(Structure):
    _fields_ = Matrix._fields_


class Batch(Sized):
    _fields_ = [("size", c_size_t),
                ("count", c_int64), ("a", c_int64), ("b", c_int64), ("c", c_int64),
                ("address_a", POINTER(c_void_p)), ("address_b", POINTER(c_void_p)),
                ("address_c", POINTER(c_void_p))]


class Queue(Sized):
    _fields_ = [("size", c_size_t),
                ("stream", c_void_p), ("workspace", c_void_p), ("bytes", c_size_t),
                ("capture", c_int)]


class Conv(Sized):
    _fields_ = [("size", c_size_t), *((name, c_int64) for name in "nchwors"),
                ("stride", c_int64 * 2), ("dilate", c_int64 * 2), ("pad", c_int64 * 4),
                ("groups", c_int64), ("layout", c_int), ("d", c_int64), ("t", c_int64),
                ("depth_stride", c_int64), ("depth_dilate", c_int64), ("depth_pad", c_int64 * 2)]


class EpilogueInput(Sized):
    _fields_ = [("size", c_size_t),
                ("name", c_char_p), ("shape", c_int), ("format", Format), ("data", c_void_p),
                ("row_stride", c_int64), ("col_stride", c_int64), ("step", c_int64)]


class Epilogue(Sized):
    _fields_ = [("size", c_size_t),
                ("steps", c_char_p), ("inputs", POINTER(EpilogueInput)), ("input_count", c_int),
                ("nan_to_zero", c_int)]


class Problem(Sized):
    _fields_ = [("size", c_size_t),
                ("operation", c_int), ("domain", c_int), ("m", c_int64),
                ("n", c_int64), ("k", c_int64), ("conv", POINTER(Conv)), ("a", Matrix),
                ("b", Matrix), ("c", Output), ("alpha", c_void_p), ("beta", c_void_p),
                ("conjugate", c_int), ("complex_method", c_int), ("contract", POINTER(Contract)),
                ("epilogue", POINTER(Epilogue)), ("prepared_a", c_void_p), ("prepared_b", c_void_p),
                ("batch", POINTER(Batch)), ("queue", POINTER(Queue))]


class Elementwise(Sized):
    _fields_ = [("size", c_size_t),
                ("function", c_int), ("rounding", c_int), ("compute", c_int),
                ("nan_to_zero", c_int), ("from", Format), ("to", Format), ("p", c_double),
                ("q", c_double), ("src", c_void_p), ("dst", c_void_p), ("count", c_size_t),
                ("queue", c_void_p)]


class FormatFacts(Sized):
    _fields_ = [("size", c_size_t),
                ("significant_bits", c_int), ("largest_exponent", c_int),
                ("normal_exponent", c_int), ("smallest_exponent", c_int), ("epsilon", c_double),
                ("roundoff", c_double), ("largest", c_double), ("normal", c_double),
                ("smallest", c_double), ("overflow", c_double), ("underflow", c_double),
                ("decimal_digits", c_double), ("digits_kept", c_int), ("digits_needed", c_int),
                ("has_infinity", c_int), ("has_nan", c_int), ("has_negative_zero", c_int),
                ("finite_values", c_double), ("exact_integers", c_double),
                ("lowest", c_double)]


class ReduceCall(Sized):
    _fields_ = [("size", c_size_t),
                ("reduction", c_int), ("carry", c_int), ("rounding", c_int), ("correction", c_int),
                ("from", Format), ("to", Format), ("epsilon", c_double), ("outer", c_size_t),
                ("count", c_size_t), ("inner", c_size_t), ("src", c_void_p), ("dst", c_void_p),
                ("scale", c_void_p), ("shift", c_void_p), ("swallowed", POINTER(c_uint64)),
                ("arrays", POINTER(c_void_p)), ("nan_to_zero", c_int)]


class IntervalCall(Sized):
    _fields_ = [("size", c_size_t), ("m", c_int64), ("n", c_int64), ("k", c_int64),
                ("a_low", Matrix), ("a_high", Matrix), ("b_low", Matrix), ("b_high", Matrix),
                ("c_low", Output), ("c_high", Output)]


class SolveCall(Sized):
    _fields_ = [("size", c_size_t), ("n", c_int64), ("columns", c_int64), ("a", Matrix),
                ("b", Matrix), ("x", Output), ("most_steps", c_int)]


class SolveReport(Sized):
    _fields_ = [("size", c_size_t), ("method", c_int), ("steps", c_int), ("change", c_double),
                ("residual", c_double), ("condition", c_double), ("seconds", c_double)]


class Scheme(Structure):
    _fields_ = [("name", c_char_p), ("about", c_char_p)]


class Tile(Structure):
    _fields_ = [("emin", c_int16), ("emax", c_int16), ("low", c_int16), ("bits", c_uint8),
                ("flags", c_uint8)]


class Inspection(Sized):
    _fields_ = [("size", c_size_t),
                ("lines", c_int64), ("length", c_int64), ("zero", c_int), ("special", c_int),
                ("negative", c_int), ("emin", c_int), ("emax", c_int), ("spread", c_int),
                ("width", c_int), ("bits", c_int), ("tile_rows", c_int64),
                ("tile_cols", c_int64), ("tile", POINTER(Tile))]


class CacheEntry(Structure):
    _fields_ = [("key", c_char * 65), ("plan", c_char * 128), ("bytes", c_size_t),
                ("used", c_int64), ("good", c_int), ("foreign", c_int)]


class CacheInfo(Sized):
    _fields_ = [("size", c_size_t),
                ("directory", c_char * 4096), ("why_not", c_char * 256), ("writable", c_int),
                ("entries", c_size_t), ("bytes", c_size_t), ("limit", c_size_t),
                ("tuned", c_int)]


SeenEntry = CFUNCTYPE(c_int, c_void_p, POINTER(CacheEntry))

# Structures by their names in the C header, for a comparison with it.
STRUCTURES = {"limber_format": Format, "limber_allocator": Allocator, "limber_config": Config,
              "limber_step": Step, "limber_unit": Unit, "limber_contract": Contract,
              "limber_unit_preset": UnitPreset, "limber_distribution": Distribution,
              "limber_statistics": Statistics, "limber_part": Part,
              "limber_report": Report, "limber_matrix": Matrix,
              "limber_output": Output, "limber_problem": Problem, "limber_scheme": Scheme,
              "limber_prepare_config": PrepareConfig, "limber_batch": Batch,
              "limber_queue": Queue, "limber_conv": Conv, "limber_tile": Tile,
              "limber_inspection": Inspection, "limber_cache_entry": CacheEntry,
              "limber_cache_info": CacheInfo, "limber_elementwise": Elementwise,
              "limber_reduce_call": ReduceCall, "limber_solve_call": SolveCall,
              "limber_interval_call": IntervalCall,
              "limber_solve_report": SolveReport, "limber_format_facts": FormatFacts,
              "limber_epilogue_input": EpilogueInput,
              "limber_epilogue": Epilogue}

_P = POINTER

# restype int is a status; strings that the caller frees are returned as addresses.
PROTOTYPES = {
    "limber_version": (c_char_p, []),
    "limber_error_text": (c_char_p, []),
    "limber_status_name": (c_char_p, [c_int]),
    "limber_status_meaning": (c_char_p, [c_int]),
    "limber_create": (c_int, [_P(c_void_p), _P(Config)]),
    "limber_destroy": (None, [c_void_p]),
    "limber_scheme_at": (_P(Scheme), [c_int]),
    "limber_format_at": (c_char_p, [c_int]),
    "limber_format_named": (c_int, [c_char_p, _P(Format)]),
    "limber_format_name": (c_char_p, [Format, c_char_p, c_size_t]),
    "limber_format_describe": (c_int, [Format, POINTER(FormatFacts)]),
    "limber_format_spacing": (c_int, [Format, c_int, POINTER(c_int)]),
    "limber_apply": (c_int, [c_void_p, POINTER(Elementwise)]),
    "limber_reduce": (c_int, [c_void_p, POINTER(ReduceCall)]),
    "limber_interval_gemm": (c_int, [c_void_p, POINTER(IntervalCall), POINTER(Report)]),
    "limber_solve": (c_int, [c_void_p, POINTER(SolveCall), POINTER(SolveReport)]),
    "limber_function_at": (c_char_p, [c_int, POINTER(c_char_p), POINTER(c_int)]),
    "limber_convert": (c_int, [c_void_p, Format, c_void_p, Format, c_size_t, c_int]),
    "limber_unit_parse": (c_int, [c_char_p, _P(Unit)]),
    "limber_unit_text": (c_char_p, [_P(Unit), c_char_p, c_size_t]),
    "limber_unit_preset_at": (_P(UnitPreset), [c_int]),
    "limber_reveal": (c_int, [RevealFn, c_void_p, c_int64, Format, Format, _P(c_void_p),
                              _P(c_void_p)]),
    "limber_unit_lpgemm": (c_int, [c_char_p, c_char_p, _P(Unit), _P(c_int)]),
    "limber_retention": (c_double, [c_int, c_int, c_int64]),
    "limber_retention_chunked": (c_double, [c_int, c_int, c_int64, c_int64, c_int]),
    "limber_unit_retention": (c_double, [_P(Unit), c_int64]),
    "limber_run": (c_int, [c_void_p, _P(Problem), _P(Report)]),
    "limber_plan": (c_int, [c_void_p, _P(Problem), _P(c_void_p), _P(Report)]),
    "limber_run_plan": (c_int, [c_void_p, c_char_p, _P(Problem), _P(Report)]),
    "limber_prepare": (c_int, [c_void_p, Matrix, c_int64, c_int64, c_int,
                                       _P(PrepareConfig), _P(c_void_p)]),
    "limber_prepare_filters": (c_int, [c_void_p, _P(Conv), c_void_p, Format, _P(PrepareConfig),
                                       _P(c_void_p)]),
    "limber_conv_output_depth": (c_int, [_P(Conv), _P(c_int64)]),
    "limber_prepared_free": (None, [c_void_p]),
    "limber_prepared_check": (c_int, [c_void_p]),
    "limber_conv_output": (c_int, [_P(Conv), _P(c_int64), _P(c_int64)]),
    "limber_inspect": (c_int, [c_void_p, Matrix, c_int64, c_int64, c_int, _P(Inspection)]),
    "limber_inspection_free": (None, [_P(Inspection)]),
    "limber_free": (None, [c_void_p]),
    "limber_cache_describe": (c_int, [c_void_p, _P(CacheInfo)]),
    "limber_cache_each": (c_int, [c_void_p, c_int, SeenEntry, c_void_p]),
    "limber_cache_clear": (c_int, [c_void_p, c_int, _P(c_size_t)]),
}


def _prefix():
    """The prefix that the package was installed to, or None.  A wheel is its own prefix."""
    if os.path.exists(os.path.join(HERE, "lib", NAME)):
        return HERE
    return HERE[:-len(INSTALLED)] if HERE.endswith(INSTALLED) else None


def _libdir():
    """The library folder according to pkg-config, or None."""
    if not shutil.which("pkg-config"):
        return None
    answer = subprocess.run(["pkg-config", "--variable=libdir", "limber"], capture_output=True,
                            text=True, check=False)
    return answer.stdout.strip() or None


def _places():
    """Candidates: how each was found, and the file."""
    wish = os.environ.get("LIMBER_LIBRARY")
    if wish:
        yield "LIMBER_LIBRARY", wish
        return
    if PREFIX:
        prefix = glob.escape(PREFIX)
        for path in sorted(glob.glob(os.path.join(prefix, "lib*", NAME)) +
                           glob.glob(os.path.join(prefix, "lib", "*", NAME))):
            yield "the same prefix", path
    folder = _libdir()
    if folder:
        yield "pkg-config", os.path.join(folder, NAME)
    yield "the linker", NAME


def _wrong(lib):
    """Why this library cannot be used, or None."""
    if not hasattr(lib, "limber_version"):
        return "has no limber_version: not Limber, or an older one"
    lib.limber_version.restype = c_char_p
    version = lib.limber_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        return f"is version {version}, this package needs {VERSION}"
    missing = [name for name in PROTOTYPES if not hasattr(lib, name)]
    return f"has no {missing[0]}" if missing else None


def _load():
    """Loads the first library found that can be used, else says why each cannot."""
    tried = []
    for how, path in _places():
        if os.path.dirname(path) and not os.path.exists(path):
            tried.append(f"{how}: {path}: there is no such file")
            continue
        try:
            lib = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{how}: {path}: {error}")
            continue
        wrong = _wrong(lib)
        if not wrong:
            return lib
        tried.append(f"{how}: {path}: {wrong}")
    raise ImportError("the library of Limber was not found; tried\n  " + "\n  ".join(tried) +
                      "\nset LIMBER_LIBRARY to its file")


def _name_llvm():
    """Makes this process and its children compile with the LLVM of the wheel limber-llvm, if
    installed."""
    package = importlib.util.find_spec("limber_llvm")
    if package and package.origin:
        file = os.path.join(os.path.dirname(package.origin), "libLLVM-limber.so")
        os.environ.setdefault("LIMBER_LLVM", file)


PREFIX = _prefix()
lib = _load()
_name_llvm()
for _name, (_result, _arguments) in PROTOTYPES.items():
    getattr(lib, _name).restype = _result
    getattr(lib, _name).argtypes = _arguments
