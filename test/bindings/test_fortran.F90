! SPDX-License-Identifier: BSD-3-Clause
! Tests the Fortran module.  Results are compared with MATMUL of integers, which is exact.
program test_fortran
  use limber
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none

  integer, parameter :: m = 7, n = 5, k = 30
  type(c_ptr) :: ctx
  type(limber_contract), target :: correct, reproducible
  integer :: failures = 0, code

  correct%promise = LIMBER_CONTRACT_CORRECT
  reproducible%promise = LIMBER_CONTRACT_REPRODUCIBLE
  call limber_open(ctx, threads=2, stat=code)
  call singles()
  call doubles()
  call sections()
  call empty_ones()
  call errors()
  call complexes()
#ifdef LIMBER_REAL128
  call quads()
#else
  print '(a)', 'real128 is not binary128 here: its products are skipped'
#endif
  call raw_calls()
  call convolution()
  call limber_destroy(ctx)
  if (failures /= 0) error stop 1
  print '(2a)', 'Fortran, on Limber ', limber_version()

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what

    if (good) return
    failures = failures + 1
    print '(2a)', 'wrong: ', what
  end subroutine

  ! Random integers with absolute values below 2^bits, the same in every run.
  function draw(rows, cols, bits) result(x)
    integer, intent(in) :: rows, cols, bits
    integer(int64) :: x(rows, cols)
    integer(int64), save :: state = 88172645463325252_int64
    integer :: i, j

    do j = 1, cols
      do i = 1, rows
        state = ieor(state, ishft(state, 13))
        state = ieor(state, ishft(state, -7))
        state = ieor(state, ishft(state, 17))
        x(i, j) = ishft(state, bits - 64)
        if (btest(state, 3)) x(i, j) = -x(i, j)
      end do
    end do
  end function

  subroutine singles()
    real(real32) :: a(m, k), b(k, n), c(m, n)
    type(limber_report) :: report

    a = real(draw(m, k, 24), real32)
    b = real(draw(k, n, 20), real32)
    call limber_multiply(ctx, correct, a, b, c, report=report, stat=code)
    check_singles: block
      real(real64) :: exact(m, n)

      exact = matmul(real(a, real64), real(b, real64))
      call check(all(c == real(exact, real32)), 'real32, correct')
    end block check_singles
    call check(c_associated(limber_scheme(limber_text(report%scheme))), 'report%scheme')
    call check(report%bound == 0, 'report%bound')
    call check(report%order == 0, 'report%order')
    call limber_multiply(ctx, reproducible, a, b, c, report=report, stat=code)
    call check(code == 0 .and. report%order == 1, 'reproducible')
  end subroutine

  subroutine doubles()
    real(real64) :: a(m, k), b(k, n), c(m, n), c0(m, n), exact(m, n)
    integer(int64) :: ia(m, k), ib(k, n), ic(m, n)

    ia = draw(m, k, 27)
    ib = draw(k, n, 27)
    ic = draw(m, n, 50)
    a = real(ia, real64)
    b = real(ib, real64)
    c0 = real(ic, real64)
    c = c0
    exact = real(matmul(ia, ib), real64)        ! products are below 2^63, and each is rounded once
    call limber_multiply(ctx, correct, a, b, c, stat=code)
    call check(all(c == exact), 'real64, correct')
    c = c0
    call limber_multiply(ctx, correct, a, b, c, alpha=-2.0_real64, beta=4.0_real64, stat=code)
    call check(all(c == real(4*ic - 2*matmul(ia, ib), real64)), 'real64, alpha and beta')
  end subroutine

  subroutine sections()
    real(real64) :: wide(2*k, 3*m), b(n, k), c(2*m, 3*n), exact(m, n), mark
    type pair
      real(real64) :: x, y
      integer :: z
    end type
    type(pair) :: records(m, k)

    wide = real(draw(2*k, 3*m, 20), real64)
    b = real(draw(n, k, 20), real64)
    mark = 0.5_real64
    exact = matmul(transpose(wide(1:2*k:2, 2:3*m:3)), transpose(b))
    c = mark
    call limber_multiply(ctx, correct, transpose(wide(1:2*k:2, 2:3*m:3)), transpose(b), &
                         c(2:2*m:2, 3:3*n:3), stat=code)
    call check(all(c(2:2*m:2, 3:3*n:3) == exact), 'a section of c')
    call check(count(c == mark) == size(c) - m*n, 'what is around the section')

    exact = matmul(wide(2*m:2:-2, 3*m:1:-1), wide(1:3*m, n:1:-1))
    c = mark
    call limber_multiply(ctx, correct, wide(2*m:2:-2, 3*m:1:-1), wide(1:3*m, n:1:-1), &
                         c(m:1:-1, n:1:-1), stat=code)
    call check(all(c(m:1:-1, n:1:-1) == exact), 'sections that run backwards')
    call check(count(c == mark) == size(c) - m*n, 'what is around a section that runs backwards')

    records%x = transpose(wide(1:k, 1:m))
    call limber_multiply(ctx, correct, records%x, wide(1:k, 1:n), c(1:m, 1:n), stat=code)
    call check(all(c(1:m, 1:n) == matmul(records%x, wide(1:k, 1:n))), 'components')
  end subroutine

  subroutine empty_ones()
    real(real64) :: none(0, k), b(k, n), nothing(0, n), a(m, 0), c(m, n)

    b = 1
    call limber_multiply(ctx, correct, none, b, nothing, stat=code)
    c = 7
    call limber_multiply(ctx, correct, a, none(:, 1:n), c, stat=code)
    call check(all(c == 0), 'k = 0')
  end subroutine

  subroutine errors()
    real(real64) :: a(m, k), b(k, n), c(m, n)
    type(limber_contract) :: wrong
    type(c_ptr) :: none
    character(len=200) :: text
    integer :: stat

    a = 1
    b = 1
    c = 7
    text = ''
    call limber_multiply(ctx, correct, a, a, c, stat=stat, errmsg=text)
    call check(stat == LIMBER_STATUS_BAD_ARGUMENT .and. index(text, 'shapes') > 0, 'unequal shapes')
    wrong%promise = LIMBER_CONTRACT_FAST
    call limber_multiply(ctx, wrong, a, b, c, stat=stat, errmsg=text)
    call check(stat == LIMBER_STATUS_BAD_ARGUMENT .and. index(text, 'scheme') > 0, 'fast without a scheme')
    call check(all(c == 7), 'c after a failure')
    call limber_open(none, backend='none', stat=stat, errmsg=text)
    call check(stat == LIMBER_STATUS_BAD_ARGUMENT .and. index(text, 'backend') > 0, 'a backend unknown')
    call check(.not. c_associated(none), 'a context after a failure')
    call check(.not. c_associated(limber_scheme('none')), 'a scheme unknown')
    call limber_multiply(ctx, correct, a, b, c, stat=stat)
    call check(stat == LIMBER_STATUS_OK .and. all(c == k), 'after failures')
  end subroutine

  subroutine complexes()
    complex(real64) :: a(m, k), b(k, n), c(m, n)
    complex(real32) :: s(m, k), t(k, n), u(m, n)

    a = cmplx(draw(m, k, 20), draw(m, k, 20), real64)
    b = cmplx(draw(k, n, 20), draw(k, n, 20), real64)
    c = (1, -2)
    call limber_multiply(ctx, correct, a, b, c, alpha=(2.0_real64, 1.0_real64), &
                         beta=(0.0_real64, 1.0_real64), stat=code)
    call check(all(c == (2, 1)*matmul(a, b) + (0, 1)*cmplx(1, -2, real64)), 'complex(real64)')
    s = cmplx(draw(m, k, 8), draw(m, k, 8), real32)
    t = cmplx(draw(k, n, 8), draw(k, n, 8), real32)
    call limber_multiply(ctx, correct, s, t, u, stat=code)
    call check(all(u == matmul(s, t)), 'complex(real32)')
  end subroutine

#ifdef LIMBER_REAL128
  subroutine quads()
    real(real128) :: a(m, k), b(k, n), c(m, n)
    real(real64) :: x(m, k), y(k, n), z(m, n)
    complex(real128) :: ca(m, k), cb(k, n), cc(m, n)

    a = real(draw(m, k, 53), real128)
    b = real(draw(k, n, 53), real128)
    call limber_multiply(ctx, correct, a, b, c, stat=code)
    call check(all(c == matmul(a, b)), 'real128')
    x = real(a, real64)
    y = real(b, real64)
    call limber_multiply(ctx, correct, x, y, z, stat=code)
    call check(all(z == real(matmul(a, b), real64)), 'real64, sums of 111 bits rounded once')
    ca = cmplx(a, -a(:, k:1:-1), real128)
    cb = cmplx(b, 2, real128)
    call limber_multiply(ctx, correct, ca, cb, cc, stat=code)
    call check(all(cc == matmul(ca, cb)), 'complex(real128)')
  end subroutine
#endif

  ! Checks the status of a C function.  Results are checked in a statement of their own, because
  ! Fortran does not define the order in which operands of .and. are evaluated.
  subroutine ok(status, what)
    integer(c_int), intent(in) :: status
    character(len=*), intent(in) :: what

    call check(status == LIMBER_STATUS_OK, what)
    if (status /= LIMBER_STATUS_OK) print '(a)', limber_error_text()
  end subroutine

  ! Tests functions of the C interface: bytes, a batch, prepared operands, a convolution, inspection,
  ! a plan, the cache.
  subroutine raw_calls()
    integer(c_int64_t), parameter :: high = m, wide = n, deep = k
    integer(c_int8_t), target :: a(m, k), b(k, n)
    integer(c_int32_t), target :: c(m, n), two(m, n, 2)
    integer(c_int32_t) :: exact(m, n)
    type(limber_matrix) :: ma, mb
    type(limber_output) :: mc
    type(limber_problem) :: problem
    type(limber_batch), target :: batch
    type(limber_cache_info) :: info
    character(len=20) :: kernels
    character(len=400), target :: stated
    type(limber_inspection) :: look
    type(limber_format) :: unknown
    type(limber_prepare_config), target :: config
    type(c_ptr) :: operand, text

    a = int(draw(m, k, 7), c_int8_t)
    b = int(draw(k, n, 7), c_int8_t)
    exact = matmul(int(a, c_int32_t), int(b, c_int32_t))
    ma = limber_matrix(c_loc(a), limber_format_of('i8'), 1, m)
    mb = limber_matrix(c_loc(b), limber_format_of('i8'), 1, k)
    mc = limber_output(c_loc(c), limber_format_of('i32'), 1, m)
    call ok(limber_gemm(ctx, correct, high, wide, deep, c_null_ptr, ma, mb, c_null_ptr, mc, &
                        c_null_ptr), 'limber_gemm')
    call check(all(c == exact), 'bytes')

    problem = limber_problem(m=high, n=wide, k=deep, a=ma, b=mb, c=mc, contract=c_loc(correct))
    problem%c%data = c_loc(two)
    batch = limber_batch(count=2, c=m*n)
    problem%batch = c_loc(batch)
    call ok(limber_run(ctx, problem, c_null_ptr), 'limber_run, a batch')
    call check(all(two(:, :, 1) == exact) .and. all(two(:, :, 2) == exact), 'a batch')

    config%changes = LIMBER_CHANGES_CHECKED
    problem%batch = c_null_ptr
    problem%c = mc
    c = 0
    call ok(limber_prepare(ctx, mb, deep, wide, LIMBER_SIDE_B, c_loc(config), operand), &
            'limber_prepare')
    problem%prepared_b = operand
    call ok(limber_run(ctx, problem, c_null_ptr), 'limber_run, prepared')
    call check(all(c == exact), 'a prepared operand')
    b(1, 1) = ieor(b(1, 1), 1_c_int8_t)
    call check(limber_prepared_check(operand) == LIMBER_STATUS_BAD_ARGUMENT, 'limber_prepared_check')
    call check(index(limber_error_text(), 'changed') > 0, 'limber_error_text')
    call limber_prepared_free(operand)

    call ok(limber_inspect(ctx, ma, high, deep, LIMBER_SIDE_A, look), 'limber_inspect')
    call check(look%lines == m .and. look%length == k .and. look%special == 0, 'limber_inspection')
    call limber_inspection_free(look)
    problem%prepared_b = c_null_ptr
    call ok(limber_plan(ctx, problem, text, c_null_ptr), 'limber_plan')
    call check(c_associated(text), 'a plan')
    call limber_free(text)
    c = 0
    problem%contract = c_null_ptr
    stated = 'plan gemm promise=correct kbits=6 budget=0 {' // new_line('a') // &
             '%a = arg index=0 : i8[m,k]' // new_line('a') // &
             '%b = arg index=1 : i8[k,n]' // new_line('a') // &
             '%c = gemm %a %b : exact[m,n]' // new_line('a') // &
             '%d = epilogue %c alpha=one beta=zero wrap=0 : i32[m,n]' // new_line('a') // &
             'ret %d' // new_line('a') // '}' // new_line('a') // c_null_char
    call ok(limber_run_plan(ctx, c_loc(stated), problem, c_null_ptr), 'limber_run_plan')
    exact = matmul(int(a, c_int32_t), int(b, c_int32_t))
    call check(all(c == exact), 'a product by a plan')
    call ok(limber_cache_describe(ctx, info), 'limber_cache_describe')
    call get_environment_variable('LIMBER_KERNELS', kernels)   ! prebuilt ones are not stored
    call check(info%entries > 0 .neqv. kernels == 'prebuilt', 'limber_cache_info')
    call check(len(limber_text(info%directory)) > 0, 'limber_cache_info')
    unknown = limber_format_of('f17')
    call check(unknown%kind == 0, 'a format unknown')
  end subroutine

  subroutine convolution()
    real(real32), target :: image(4, 3, 1, 1), filter(2, 2, 1, 1)
    real(real64), target :: sums(3, 2, 1, 1)
    type(limber_format) :: f32
    type(limber_conv) :: shape
    integer(c_int64_t) :: oh, ow
    integer :: i, j

    f32 = limber_format_of('f32')
    image = reshape([(real(i, real32), i = 1, 12)], [4, 3, 1, 1])     ! NCHW, its first axis last
    filter = reshape([1., 10., 100., 1000.], [2, 2, 1, 1])
    shape = limber_conv(n=1, c=1, h=3, w=4, o=1, r=2, s=2)
    call ok(limber_conv_output(shape, oh, ow), 'limber_conv_output')
    call check(oh == 2 .and. ow == 3, 'the shape of a convolution')
    call ok(limber_conv2d(ctx, correct, shape, c_null_ptr, c_loc(image), f32, c_loc(filter), f32, &
                          c_null_ptr, c_loc(sums), limber_format_of('f64'), c_null_ptr), &
            'limber_conv2d')
    do j = 1, 2
      do i = 1, 3
        call check(sums(i, j, 1, 1) == sum(image(i:i+1, j:j+1, 1, 1)*filter(:, :, 1, 1)), &
                   'an element of a convolution')
      end do
    end do
  end subroutine
end program
