// SPDX-License-Identifier: BSD-3-Clause
//! Multiplies a matrix whose rows cancel, first conventionally and then correctly rounded.
use limber::{Context, Contract, Matrix, MatrixMut, Result};

fn main() -> Result<()> {
    let context = Context::new()?;
    let a = [1e16, 1.0, -1e16, 1.0, 1e16, -1e16];
    let b = [1.0; 3];

    for contract in [Contract::Native, Contract::Correct] {
        let mut c = [0.0; 2];
        context.gemm(
            &contract,
            Matrix::new(&a, 2, 3)?,
            Matrix::new(&b, 3, 1)?,
            MatrixMut::new(&mut c, 2, 1)?,
        )?;
        println!("{contract:?}: {c:?}");
    }
    Ok(())
}
