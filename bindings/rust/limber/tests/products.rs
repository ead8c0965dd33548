// SPDX-License-Identifier: BSD-3-Clause
//! Products beside sums that are written out here; layouts of structures; refusals.
use limber::{Context, Contract, Factor, Matrix, MatrixMut};

/// Random integers from -50 to 50.
fn integers(count: usize, mut seed: u64) -> Vec<i32> {
    (0..count)
        .map(|_| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((seed >> 33) % 101) as i32 - 50
        })
        .collect()
}

/// The product of integers, m x k times k x n.
fn expected(a: &[i32], b: &[i32], m: usize, n: usize, k: usize) -> Vec<i32> {
    let sum = |i: usize, j: usize| (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
    (0..m * n).map(|at| sum(at / n, at % n)).collect()
}

/// The product of two matrices whose rows lie one after another.
fn product<T: Factor>(
    context: &Context,
    contract: &Contract,
    a: &[T],
    b: &[T],
    (m, n, k): (usize, usize, usize),
) -> Vec<T::Sum>
where
    T::Sum: Default,
{
    let mut c = vec![T::Sum::default(); m * n];
    context
        .gemm(
            contract,
            Matrix::new(a, m, k).unwrap(),
            Matrix::new(b, k, n).unwrap(),
            MatrixMut::new(&mut c, m, n).unwrap(),
        )
        .unwrap();
    c
}

#[test]
fn products_of_integers_are_exact_in_every_type() {
    let (m, n, k) = (7, 11, 40);
    let context = Context::new().unwrap();
    let (a, b) = (integers(m * k, 1), integers(k * n, 2));
    let due = expected(&a, &b, m, n, k);
    let (a8, b8): (Vec<i8>, Vec<i8>) = (
        a.iter().map(|x| *x as i8).collect(),
        b.iter().map(|x| *x as i8).collect(),
    );
    let (a32, b32): (Vec<f32>, Vec<f32>) = (
        a.iter().map(|x| *x as f32).collect(),
        b.iter().map(|x| *x as f32).collect(),
    );
    let (a64, b64): (Vec<f64>, Vec<f64>) = (
        a.iter().map(|x| *x as f64).collect(),
        b.iter().map(|x| *x as f64).collect(),
    );

    for contract in [Contract::Native, Contract::Correct, Contract::Exact] {
        if contract != Contract::Correct {
            assert_eq!(product(&context, &contract, &a8, &b8, (m, n, k)), due);
        }
        if contract == Contract::Exact {
            continue;
        }
        let single = product(&context, &contract, &a32, &b32, (m, n, k));
        assert!(single.iter().zip(&due).all(|(x, y)| *x == *y as f32));
        let double = product(&context, &contract, &a64, &b64, (m, n, k));
        assert!(double.iter().zip(&due).all(|(x, y)| *x == *y as f64));
    }
}

#[test]
fn strides_scalars_and_transposes() {
    let (m, n, k) = (3, 4, 5);
    let context = Context::new().unwrap();
    let (a, b) = (integers(m * k, 3), integers(k * n, 4));
    let due = expected(&a, &b, m, n, k);
    let a: Vec<f64> = a.iter().map(|x| *x as f64).collect();
    // B by columns, with a gap after each
    let mut columns = vec![f64::NAN; n * (k + 2)];
    for p in 0..k {
        for j in 0..n {
            columns[j * (k + 2) + p] = b[p * n + j] as f64;
        }
    }
    let mut c = vec![2.0; 2 * m * n];
    context
        .gemm_scaled(
            &Contract::Correct,
            -1.0,
            Matrix::new(&a, m, k).unwrap(),
            Matrix::with_strides(&columns, n, k, k + 2, 1)
                .unwrap()
                .transposed(),
            3.0,
            MatrixMut::with_strides(&mut c, m, n, 2 * n, 2).unwrap(),
        )
        .unwrap();
    for i in 0..m {
        for j in 0..n {
            assert_eq!(c[i * 2 * n + 2 * j], 6.0 - due[i * n + j] as f64);
            assert_eq!(c[i * 2 * n + 2 * j + 1], 2.0);
        }
    }
    let mut whole = vec![1; 4];
    context
        .gemm_scaled(
            &Contract::Exact,
            2,
            Matrix::new(&[1i8, 2, 3, 4], 2, 2).unwrap(),
            Matrix::new(&[1i8, 0, 0, 1], 2, 2).unwrap(),
            10,
            MatrixMut::new(&mut whole, 2, 2).unwrap(),
        )
        .unwrap();
    assert_eq!(whole, [12, 14, 16, 18]);
}

#[test]
fn units_are_simulated() {
    let context = Context::new().unwrap();
    // BF16 has eight bits: 257 becomes 256
    let mut c = [0.0f32];
    context
        .gemm(
            &Contract::Simulate("h100-bf16".into()),
            Matrix::new(&[257.0f32], 1, 1).unwrap(),
            Matrix::new(&[1.0f32], 1, 1).unwrap(),
            MatrixMut::new(&mut c, 1, 1).unwrap(),
        )
        .unwrap();
    assert_eq!(c, [256.0]);
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let context = Context::new().unwrap();
    let a = [0.0f64; 12];
    let mut c = [7.0f64; 12];

    assert!(Matrix::new(&a, 3, 5)
        .unwrap_err()
        .message
        .contains("only 12"));
    assert!(Matrix::with_strides(&a, 2, 2, usize::MAX, 1).is_err());
    assert!(Matrix::with_strides(&a, 2, 2, usize::MAX / 2, usize::MAX / 2).is_err());
    assert!(Matrix::with_strides(&a, 3, 4, 0, 1).is_ok());
    assert!(Matrix::new(&a[..0], 0, 5).is_ok());
    for (rows, columns, down, across) in [
        (3, 4, 0, 1),
        (3, 4, 3, 1),
        (3, 4, 1, 2),
        (2, 2, 0, 0),
        (1, 2, 1, 0),
        (2, 2, 1, 1),
    ] {
        let e = MatrixMut::with_strides(&mut c, rows, columns, down, across).unwrap_err();
        assert!(e.message.contains("overlap"), "{e}");
    }
    assert!(MatrixMut::with_strides(&mut c, 3, 4, 1, 3).is_ok());

    let mut run = |contract: &Contract, rows: usize| {
        context.gemm(
            contract,
            Matrix::new(&a, 3, 4).unwrap(),
            Matrix::new(&a, 4, 3).unwrap(),
            MatrixMut::new(&mut c, rows, 3).unwrap(),
        )
    };
    assert!(run(&Contract::Native, 2)
        .unwrap_err()
        .message
        .contains("no 2 x 3"));
    let e = run(&Contract::Bits(0), 3).unwrap_err();
    assert_eq!(e.status, "BAD_ARGUMENT");
    assert!(e.message.contains("bits"), "{e}");
    let e = run(&Contract::Simulate("h100-bf16 split=0".into()), 3).unwrap_err();
    assert!(e.to_string().starts_with("BAD_ARGUMENT: split:"), "{e}");
    assert!(run(&Contract::Simulate("h100\0".into()), 3).is_err());
    assert_eq!(c, [7.0; 12]);
}

#[test]
fn threads_share_a_context() {
    let context = Context::new().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let context = &context;
            scope.spawn(move || {
                let (a, b) = (integers(400, seed), integers(400, seed + 9));
                let due = expected(&a, &b, 20, 20, 20);
                let a: Vec<f64> = a.iter().map(|x| *x as f64).collect();
                let b: Vec<f64> = b.iter().map(|x| *x as f64).collect();
                let mut c = vec![0.0; 400];
                context
                    .gemm(
                        &Contract::Correct,
                        Matrix::new(&a, 20, 20).unwrap(),
                        Matrix::new(&b, 20, 20).unwrap(),
                        MatrixMut::new(&mut c, 20, 20).unwrap(),
                    )
                    .unwrap();
                assert!(c.iter().zip(&due).all(|(x, y)| *x == *y as f64));
            });
        }
    });
}

/// Structures have the sizes of the C header, which the file that LIMBER_LAYOUT names lists.
#[test]
fn structures_have_their_sizes() {
    let path = match std::env::var_os("LIMBER_LAYOUT") {
        Some(path) => path,
        None => {
            println!("skipped: LIMBER_LAYOUT names no list of sizes");
            return;
        }
    };
    let list = std::fs::read_to_string(path).unwrap();
    let size = |name: &str| {
        let head = format!("{name} - 0 ");
        let line = list.lines().find(|line| line.starts_with(&head));
        line.unwrap()[head.len()..].parse::<usize>().unwrap()
    };
    use std::mem::size_of;
    assert_eq!(
        size("limber_format"),
        size_of::<limber_sys::limber_format>()
    );
    assert_eq!(size("limber_unit"), size_of::<limber_sys::limber_unit>());
    assert_eq!(
        size("limber_contract"),
        size_of::<limber_sys::limber_contract>()
    );
    assert_eq!(
        size("limber_matrix"),
        size_of::<limber_sys::limber_matrix>()
    );
    assert_eq!(
        size("limber_output"),
        size_of::<limber_sys::limber_output>()
    );
    assert!(limber::version().starts_with(limber_sys::VERSION));
}
