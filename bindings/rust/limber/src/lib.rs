// SPDX-License-Identifier: BSD-3-Clause
//! Matrix products of slices by the C library Limber, to a contract: correctly
//! rounded, reproducible, as a tensor core computes them, or fast.
//!
//! ```
//! use limber::{Context, Contract, Matrix, MatrixMut};
//!
//! let context = Context::new()?;
//! let a = [1e16, 1.0, -1e16];
//! let b = [1.0; 3];
//! let mut c = [0.0];
//! context.gemm(
//!     &Contract::Correct,
//!     Matrix::new(&a, 1, 3)?,
//!     Matrix::new(&b, 3, 1)?,
//!     MatrixMut::new(&mut c, 1, 1)?,
//! )?;
//! assert_eq!(c, [1.0]);
//! # Ok::<(), limber::Error>(())
//! ```
#![warn(missing_docs)]

use limber_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::mem::size_of;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;

/// Why a call failed.  C is then as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The status by name, `BAD_ARGUMENT` say.
    pub status: String,
    /// Limber's text, which names the argument at fault.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn refused(message: String) -> Error {
    Error {
        status: "BAD_ARGUMENT".into(),
        message,
    }
}

/// A text of the library's, copied.
fn text(from: *const c_char) -> String {
    // SAFETY: the library returns texts that end with zero, never NULL
    unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned()
}

/// The error of a call that failed.
fn checked(status: c_int) -> Result<()> {
    if status == sys::LIMBER_STATUS_OK {
        return Ok(());
    }
    // SAFETY: these functions may be called at any time, in the thread whose call failed
    let (status, message) = unsafe {
        (
            text(sys::limber_status_name(status)),
            text(sys::limber_error_text()),
        )
    };
    Err(Error { status, message })
}

fn c_string(name: &str, given: &str) -> Result<CString> {
    CString::new(given).map_err(|_| refused(format!("{name}: a zero byte in {given:?}")))
}

/// The version of the library that the program runs with.
pub fn version() -> String {
    // SAFETY: it has no conditions
    text(unsafe { sys::limber_version() })
}

// ---- matrices -----------------------------------------------------------------------------------

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for i8 {}
    impl Sealed for i32 {}
}

/// A type of elements: `f32`, `f64`, `i8` or `i32`.
pub trait Element: Copy + sealed::Sealed {
    /// Limber's name of its format.
    const FORMAT: &'static str;
}

impl Element for f32 {
    const FORMAT: &'static str = "f32";
}
impl Element for f64 {
    const FORMAT: &'static str = "f64";
}
impl Element for i8 {
    const FORMAT: &'static str = "i8";
}
impl Element for i32 {
    const FORMAT: &'static str = "i32";
}

/// A type whose products are computed: `f32` and `f64` in their own format, `i8` in `i32`.
pub trait Factor: Element {
    /// The type of results.
    type Sum: Element;
    /// The type of alpha and beta.
    type Scalar: Copy;
}

impl Factor for f32 {
    type Sum = f32;
    type Scalar = f32;
}
impl Factor for f64 {
    type Sum = f64;
    type Scalar = f64;
}
impl Factor for i8 {
    type Sum = i32;
    type Scalar = i64;
}

/// Sizes and strides of a matrix, in elements.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Shape {
    /// The shape of a matrix in a slice.
    fn of<T>(
        data: &[T],
        [rows, columns]: [usize; 2],
        [row_stride, column_stride]: [usize; 2],
    ) -> Result<Self> {
        let shape = Self {
            rows,
            columns,
            row_stride,
            column_stride,
        };
        shape.check(data.len())?;
        Ok(shape)
    }

    /// Checks that all elements lie in a slice of `len` elements, and that sizes fit the library's
    /// integers.
    fn check(&self, len: usize) -> Result<()> {
        let most = i64::MAX as usize;
        if [self.rows, self.columns, self.row_stride, self.column_stride]
            .iter()
            .any(|x| *x > most)
        {
            return Err(refused(format!("{self}: larger than 2^63 - 1")));
        }
        if self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        let last = (self.rows - 1)
            .checked_mul(self.row_stride)
            .zip((self.columns - 1).checked_mul(self.column_stride))
            .and_then(|(down, across)| down.checked_add(across));
        match last {
            Some(last) if last < len => Ok(()),
            _ => Err(refused(format!(
                "{self}: the slice has only {len} elements"
            ))),
        }
    }

    /// Checks that no two elements share their place.
    fn check_distinct(&self) -> Result<()> {
        // The larger stride steps over all that the smaller one reaches.
        let apart = |outer: usize, inner: usize, count: usize| {
            inner > 0 && matches!((count - 1).checked_mul(inner), Some(reach) if outer > reach)
        };
        if self.rows == 0 || self.columns == 0 {
            return Ok(());
        }
        let distinct = match (self.rows, self.columns) {
            (1, 1) => true,
            (1, _) => self.column_stride > 0,
            (_, 1) => self.row_stride > 0,
            _ => {
                apart(self.row_stride, self.column_stride, self.columns)
                    || apart(self.column_stride, self.row_stride, self.rows)
            }
        };
        if distinct {
            return Ok(());
        }
        Err(refused(format!("{self}: elements of a result overlap")))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} x {} with strides {}, {}",
            self.rows, self.columns, self.row_stride, self.column_stride
        )
    }
}

/// A matrix that is read.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    data: &'a [T],
    shape: Shape,
}

impl<'a, T: Element> Matrix<'a, T> {
    /// A matrix whose rows lie one after another.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Result<Self> {
        Self::with_strides(data, rows, columns, columns, 1)
    }

    /// A matrix whose element (i, j) is at index `i * row_stride + j * column_stride`.  A stride may
    /// be 0.
    pub fn with_strides(
        data: &'a [T],
        rows: usize,
        columns: usize,
        row_stride: usize,
        column_stride: usize,
    ) -> Result<Self> {
        let shape = Shape::of(data, [rows, columns], [row_stride, column_stride])?;
        Ok(Self { data, shape })
    }

    /// The same elements, with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        let shape = Shape {
            rows: self.shape.columns,
            columns: self.shape.rows,
            row_stride: self.shape.column_stride,
            column_stride: self.shape.row_stride,
        };
        Self { shape, ..self }
    }

    fn raw(&self) -> Result<sys::limber_matrix> {
        Ok(sys::limber_matrix {
            data: self.data.as_ptr().cast(),
            format: format::<T>()?,
            row_stride: self.shape.row_stride as i64,
            col_stride: self.shape.column_stride as i64,
        })
    }
}

/// A matrix that is written, none of whose elements share their place.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    data: &'a mut [T],
    shape: Shape,
}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// A matrix whose rows lie one after another.
    pub fn new(data: &'a mut [T], rows: usize, columns: usize) -> Result<Self> {
        Self::with_strides(data, rows, columns, columns.max(1), 1)
    }

    /// A matrix whose element (i, j) is at index `i * row_stride + j * column_stride`.
    pub fn with_strides(
        data: &'a mut [T],
        rows: usize,
        columns: usize,
        row_stride: usize,
        column_stride: usize,
    ) -> Result<Self> {
        let shape = Shape::of(data, [rows, columns], [row_stride, column_stride])?;
        shape.check_distinct()?;
        Ok(Self { data, shape })
    }

    fn raw(&mut self) -> Result<sys::limber_output> {
        Ok(sys::limber_output {
            data: self.data.as_mut_ptr().cast(),
            format: format::<T>()?,
            row_stride: self.shape.row_stride as i64,
            col_stride: self.shape.column_stride as i64,
        })
    }
}

/// The format of a type.
fn format<T: Element>() -> Result<sys::limber_format> {
    let mut found = sys::limber_format::default();
    let name = c_string("format", T::FORMAT)?;
    // SAFETY: the name ends with zero, and `found` is writable
    checked(unsafe { sys::limber_format_named(name.as_ptr(), &mut found) })?;
    Ok(found)
}

// ---- contracts ----------------------------------------------------------------------------------

/// What a result promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contract {
    /// The error bound of a conventional product.
    Native,
    /// As native, with the same bits on every CPU.
    Reproducible,
    /// So many correct bits.
    Bits(i32),
    /// The exact value, rounded once.
    Correct,
    /// The exact value; an error where it does not fit.  For integers.
    Exact,
    /// What a unit computes, bit for bit: its words, `"h100-bf16"` say.
    Simulate(String),
}

impl Contract {
    fn promise(&self) -> c_int {
        match self {
            Contract::Native => sys::LIMBER_CONTRACT_NATIVE,
            Contract::Reproducible => sys::LIMBER_CONTRACT_REPRODUCIBLE,
            Contract::Bits(_) => sys::LIMBER_CONTRACT_BITS,
            Contract::Correct => sys::LIMBER_CONTRACT_CORRECT,
            Contract::Exact => sys::LIMBER_CONTRACT_EXACT,
            Contract::Simulate(_) => sys::LIMBER_CONTRACT_SIMULATE,
        }
    }
}

// ---- contexts -----------------------------------------------------------------------------------

/// A context: threads, caches and kernels.  Threads may share it.
#[derive(Debug)]
pub struct Context {
    raw: *mut sys::limber_context,
}

// SAFETY: every function of the library may be called from any thread, and threads may share a
// context
unsafe impl Send for Context {}
unsafe impl Sync for Context {}

impl Context {
    /// A context as the environment asks for it.  It fails if the library has another interface
    /// than this crate.
    pub fn new() -> Result<Self> {
        let found = version();
        if !found.starts_with(sys::VERSION) {
            return Err(refused(format!(
                "the library is {found}; this crate needs {}x",
                sys::VERSION
            )));
        }
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` is writable, and no configuration is allowed
        checked(unsafe { sys::limber_create(&mut raw, ptr::null()) })?;
        Ok(Self { raw })
    }

    /// Computes C = A B.
    pub fn gemm<T: Factor>(
        &self,
        contract: &Contract,
        a: Matrix<T>,
        b: Matrix<T>,
        c: MatrixMut<T::Sum>,
    ) -> Result<()> {
        self.run(contract, None, a, b, None, c)
    }

    /// Computes C = alpha A B + beta C.
    pub fn gemm_scaled<T: Factor>(
        &self,
        contract: &Contract,
        alpha: T::Scalar,
        a: Matrix<T>,
        b: Matrix<T>,
        beta: T::Scalar,
        c: MatrixMut<T::Sum>,
    ) -> Result<()> {
        self.run(contract, Some(&alpha), a, b, Some(&beta), c)
    }

    fn run<T: Factor>(
        &self,
        contract: &Contract,
        alpha: Option<&T::Scalar>,
        a: Matrix<T>,
        b: Matrix<T>,
        beta: Option<&T::Scalar>,
        mut c: MatrixMut<T::Sum>,
    ) -> Result<()> {
        let (m, n, k) = (c.shape.rows, c.shape.columns, a.shape.columns);
        if a.shape.rows != m || b.shape.columns != n || b.shape.rows != k {
            return Err(refused(format!(
                "shapes: {} x {} times {} x {} is no {m} x {n}",
                a.shape.rows, k, b.shape.rows, b.shape.columns
            )));
        }
        let mut unit = sys::limber_unit {
            size: size_of::<sys::limber_unit>(),
            words: [0; 26],
        };
        let mut asked = sys::limber_contract {
            size: size_of::<sys::limber_contract>(),
            promise: contract.promise(),
            bits: 0,
            scheme: ptr::null(),
            slices: 0,
            split: 0,
            unit: ptr::null(),
            statistics: ptr::null_mut(),
            on_miss: 0,
            residues: 0,
            modulus: 0,
            rounding: 0,
        };
        match contract {
            Contract::Bits(bits) => asked.bits = *bits,
            Contract::Simulate(words) => {
                let words = c_string("unit", words)?;
                // SAFETY: the words end with zero, and `unit` has the size that it says
                checked(unsafe { sys::limber_unit_parse(words.as_ptr(), &mut unit) })?;
                asked.unit = &unit;
            }
            _ => {}
        }
        let scalar = |x: Option<&T::Scalar>| {
            x.map_or(ptr::null(), |x| (x as *const T::Scalar).cast::<c_void>())
        };
        let (a, b, out) = (a.raw()?, b.raw()?, c.raw()?);
        // SAFETY: matrices lie within their slices, which live until the call returns; C is
        // borrowed for writing, and its elements are distinct; scalars have the types that the
        // result's format asks for
        checked(unsafe {
            sys::limber_gemm(
                self.raw,
                &asked,
                m as i64,
                n as i64,
                k as i64,
                scalar(alpha),
                a,
                b,
                scalar(beta),
                out,
                ptr::null_mut(),
            )
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the context any more, so no call on it is running
        unsafe { sys::limber_destroy(self.raw) }
    }
}
