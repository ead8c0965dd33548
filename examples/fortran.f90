! SPDX-License-Identifier: BSD-3-Clause
! A correctly rounded product of doubles, written into a section of a larger matrix.  The product is
! the sum 1e16 + 1 - 1e16.  Its exact value is 1, but FP64 arithmetic gives 0.
program fortran
  use limber
  implicit none

  real(real64) :: a(1, 3), b(3, 1), c(2, 2)
  type(c_ptr) :: ctx
  type(limber_contract) :: correct
  type(limber_report) :: report
  character(len=200) :: text
  integer :: stat

  a(1, :) = [1e16_real64, 1.0_real64, -1e16_real64]
  b = 1
  c = 0
  correct%promise = LIMBER_CONTRACT_CORRECT
  call limber_open(ctx, stat=stat, errmsg=text)
  if (stat == LIMBER_STATUS_OK) &
    call limber_multiply(ctx, correct, a, b, c(2:2, 2:2), report=report, stat=stat, errmsg=text)
  if (stat /= LIMBER_STATUS_OK) then
    print '(a)', trim(text)
    error stop 1
  end if
  print '(a, f4.1, a, f4.1, 2a)', 'limber_multiply: ', c(2, 2), '; matmul: ', matmul(a, b), &
    '; by ', limber_text(report%scheme)
  call limber_destroy(ctx)
  if (c(2, 2) /= 1) error stop 1
end program
