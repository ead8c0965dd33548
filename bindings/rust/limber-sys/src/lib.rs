// SPDX-License-Identifier: BSD-3-Clause
//! Declarations of that part of `limber/limber.h` which the crate `limber` uses.  The header says
//! what each function and field means.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_void};

/// The interface that these declarations are of; the library's version begins with it.
pub const VERSION: &str = "0.2.";

pub const LIMBER_STATUS_OK: c_int = 0;

pub const LIMBER_CONTRACT_NATIVE: c_int = 0;
pub const LIMBER_CONTRACT_BITS: c_int = 1;
pub const LIMBER_CONTRACT_CORRECT: c_int = 2;
pub const LIMBER_CONTRACT_EXACT: c_int = 3;
pub const LIMBER_CONTRACT_FAST: c_int = 4;
pub const LIMBER_CONTRACT_SIMULATE: c_int = 5;
pub const LIMBER_CONTRACT_REPRODUCIBLE: c_int = 6;

/// A format of numbers; `limber_format_named` fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct limber_format {
    pub kind: u8,
    pub exp_bits: u8,
    pub frac_bits: u8,
    pub flags: u8,
    pub bias: i16,
    pub size: u8,
    pub carried: u8,
}

/// A simulated unit; `limber_unit_parse` fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct limber_unit {
    pub size: usize,
    pub words: [u64; 26],
}

/// What a result promises.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct limber_contract {
    pub size: usize,
    pub promise: c_int,
    pub bits: c_int,
    pub scheme: *const c_char,
    pub slices: c_int,
    pub split: c_int,
    pub unit: *const limber_unit,
    pub statistics: *mut c_void,
    pub on_miss: c_int,
    pub residues: c_int,
    pub modulus: u64,
    pub rounding: c_int,
}

/// A matrix that is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct limber_matrix {
    pub data: *const c_void,
    pub format: limber_format,
    pub row_stride: i64,
    pub col_stride: i64,
}

/// A matrix that is written.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct limber_output {
    pub data: *mut c_void,
    pub format: limber_format,
    pub row_stride: i64,
    pub col_stride: i64,
}

/// A context, of which only the library knows the fields.
#[repr(C)]
pub struct limber_context {
    _private: [u8; 0],
}

extern "C" {
    pub fn limber_version() -> *const c_char;
    pub fn limber_error_text() -> *const c_char;
    pub fn limber_status_name(status: c_int) -> *const c_char;
    pub fn limber_format_named(name: *const c_char, out: *mut limber_format) -> c_int;
    pub fn limber_unit_parse(text: *const c_char, unit: *mut limber_unit) -> c_int;
    pub fn limber_create(ctx: *mut *mut limber_context, config: *const c_void) -> c_int;
    pub fn limber_destroy(ctx: *mut limber_context);
    pub fn limber_gemm(
        ctx: *mut limber_context,
        contract: *const limber_contract,
        m: i64,
        n: i64,
        k: i64,
        alpha: *const c_void,
        a: limber_matrix,
        b: limber_matrix,
        beta: *const c_void,
        c: limber_output,
        report: *mut c_void,
    ) -> c_int;
}
