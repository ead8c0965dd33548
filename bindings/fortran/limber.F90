! SPDX-License-Identifier: BSD-3-Clause
! Limber for Fortran 2008.  limber.h describes the types and procedures that have C's names.
! Arguments that may be NULL in C are type(c_ptr), passed by value.  The procedures limber_open,
! limber_multiply, limber_format_of, limber_scheme and limber_text exist in Fortran only.  Functions
! that return text in C, such as limber_error_text, return a Fortran character string here.
module limber
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
#ifdef LIMBER_REAL128
  use, intrinsic :: iso_fortran_env, only: real128
#endif
  implicit none
  public
  private :: int64, text_at, length_of, finish, error_text_c, version_c, &
             status_meaning_c, scheme_at

  enum, bind(c)     ! limber_status
    enumerator :: LIMBER_STATUS_OK, LIMBER_STATUS_BAD_ARGUMENT, LIMBER_STATUS_NO_SCHEME, &
                  LIMBER_STATUS_RANGE, LIMBER_STATUS_NO_MEMORY, LIMBER_STATUS_IO, &
                  LIMBER_STATUS_DEVICE, LIMBER_STATUS_INTERNAL, LIMBER_STATUS_NOT_READY
  end enum
  enum, bind(c)     ! limber_promise
    enumerator :: LIMBER_CONTRACT_NATIVE, LIMBER_CONTRACT_BITS, &
                  LIMBER_CONTRACT_CORRECT, LIMBER_CONTRACT_EXACT, LIMBER_CONTRACT_FAST, &
                  LIMBER_CONTRACT_SIMULATE, LIMBER_CONTRACT_REPRODUCIBLE
  end enum
  enum, bind(c)     ! limber_split
    enumerator :: LIMBER_SPLIT_ANY, LIMBER_SPLIT_AHEAD, LIMBER_SPLIT_INSIDE
  end enum
  enum, bind(c)     ! limber_residues
    enumerator :: LIMBER_RESIDUES_LEAST, LIMBER_RESIDUES_SYMMETRIC
  end enum
  enum, bind(c)     ! limber_on_miss
    enumerator :: LIMBER_ON_MISS_WAIT, LIMBER_ON_MISS_GENERIC, LIMBER_ON_MISS_REFUSE, &
                  LIMBER_ON_MISS_COMPILE
  end enum
  enum, bind(c)     ! limber_rounding
    enumerator :: LIMBER_ROUND_NEAREST, LIMBER_ROUND_ZERO, LIMBER_ROUND_UP, &
                  LIMBER_ROUND_DOWN, LIMBER_ROUND_AWAY, LIMBER_ROUND_ODD, &
                  LIMBER_ROUND_STOCHASTIC
  end enum
  enum, bind(c)     ! limber_function
#include "functions.inc"
  end enum
  enum, bind(c)     ! limber_compute
    enumerator :: LIMBER_COMPUTE_EXACT, LIMBER_COMPUTE_F32
  end enum
  enum, bind(c)     ! limber_reduction
    enumerator :: LIMBER_REDUCTION_SUM, LIMBER_REDUCTION_MEAN, LIMBER_REDUCTION_MAX, &
                  LIMBER_REDUCTION_VARIANCE, LIMBER_REDUCTION_SOFTMAX, &
                  LIMBER_REDUCTION_LAYER_NORM, LIMBER_REDUCTION_RMS_NORM
  end enum
  enum, bind(c)     ! limber_carry
    enumerator :: LIMBER_CARRY_EXACT, LIMBER_CARRY_F32, LIMBER_CARRY_COMPENSATED, &
                  LIMBER_CARRY_STORAGE
  end enum
  enum, bind(c)     ! limber_input_shape
    enumerator :: LIMBER_INPUT_SCALAR, LIMBER_INPUT_ROW, LIMBER_INPUT_COLUMN, LIMBER_INPUT_MATRIX
  end enum
  enum, bind(c)     ! limber_layout
    enumerator :: LIMBER_LAYOUT_NCHW, LIMBER_LAYOUT_NHWC
  end enum
  enum, bind(c)     ! limber_operation
    enumerator :: LIMBER_OPERATION_GEMM, LIMBER_OPERATION_CONV_FORWARD, &
                  LIMBER_OPERATION_CONV_BACKWARD_DATA, LIMBER_OPERATION_CONV_BACKWARD_FILTER
  end enum
  enum, bind(c)     ! limber_domain
    enumerator :: LIMBER_DOMAIN_REAL, LIMBER_DOMAIN_COMPLEX
  end enum
  enum, bind(c)     ! limber_conjugate
    enumerator :: LIMBER_CONJUGATE_NONE, LIMBER_CONJUGATE_A, LIMBER_CONJUGATE_B, &
                  LIMBER_CONJUGATE_BOTH
  end enum
  enum, bind(c)     ! limber_complex_method
    enumerator :: LIMBER_COMPLEX_AUTO, LIMBER_COMPLEX_THREE_PRODUCTS, LIMBER_COMPLEX_FOUR_PRODUCTS
  end enum
  enum, bind(c)     ! limber_side
    enumerator :: LIMBER_SIDE_A, LIMBER_SIDE_B
  end enum
  enum, bind(c)     ! limber_change_check
    enumerator :: LIMBER_CHANGES_TRUSTED, LIMBER_CHANGES_CHECKED
  end enum
  enum, bind(c)     ! limber_capture
    enumerator :: LIMBER_CAPTURE_NONE, LIMBER_CAPTURE_READY
  end enum
  enum, bind(c)     ! limber_partition
    enumerator :: LIMBER_PARTITION_AUTO, LIMBER_PARTITION_OFF
  end enum
  enum, bind(c)     ! limber_kernels
    enumerator :: LIMBER_KERNELS_AUTO, LIMBER_KERNELS_BOTH, LIMBER_KERNELS_PREBUILT, &
                  LIMBER_KERNELS_SPECIALISED
  end enum
  enum, bind(c)     ! limber_origin
    enumerator :: LIMBER_FROM_COMPILER, LIMBER_FROM_DISK, LIMBER_FROM_MEMORY, &
                  LIMBER_FROM_INTERPRETER, LIMBER_FROM_LIBRARY
  end enum
  enum, bind(c)     ! limber_cache_depth
    enumerator :: LIMBER_CACHE_LIST, LIMBER_CACHE_VERIFY
  end enum
  enum, bind(c)     ! limber_cache_choice
    enumerator :: LIMBER_CACHE_CLEAR_ALL, LIMBER_CACHE_CLEAR_DAMAGED
  end enum
  integer, parameter :: LIMBER_PARTS = 27

  type, bind(c) :: limber_format
    integer(c_int8_t) :: kind = 0, exp_bits = 0, frac_bits = 0, flags = 0
    integer(c_int16_t) :: bias = 0
    integer(c_int8_t) :: size = 0, carried = 0
  end type

  type, bind(c) :: limber_allocator
    type(c_funptr) :: alloc = c_null_funptr, free = c_null_funptr
    type(c_ptr) :: user = c_null_ptr
  end type

  type, bind(c) :: limber_config
    integer(c_size_t) :: size = 120
    type(c_ptr) :: backend = c_null_ptr
    integer(c_int) :: threads = 0
    type(c_ptr) :: cache_dir = c_null_ptr
    integer(c_size_t) :: cache_bytes = 0
    type(c_ptr) :: dump_dir = c_null_ptr
    integer(c_int) :: verbose = 0
    integer(c_size_t) :: workspace_bytes = 0
    type(c_funptr) :: log = c_null_funptr
    type(c_ptr) :: log_user = c_null_ptr
    integer(c_int) :: device = 0, partition = LIMBER_PARTITION_AUTO
    type(limber_allocator) :: allocator
    integer(c_int) :: kernels = LIMBER_KERNELS_AUTO
  end type

  type, bind(c) :: limber_step
    type(limber_format) :: format
    integer(c_int8_t) :: rounding = 0, overflow = 0
  end type

  type, bind(c) :: limber_unit
    integer(c_size_t) :: size = 216
    type(limber_step) :: a, b
    integer(c_int32_t) :: scale = 0, scale_rule = 0, scale_block = 0
    type(limber_step) :: mul, acc
    integer(c_int32_t) :: block = 0, sub = 0, frac = 0, floor = 0, zeros = 0, tree = 0, order = 0, &
                          group = 0
    type(limber_step) :: outer
    integer(c_int32_t) :: split = 0
    type(limber_step) :: total
    integer(c_int32_t) :: start_c = 0
    type(limber_step) :: out
    integer(c_int32_t) :: narrow = 0, random_bits = 0
    integer(c_int64_t) :: seed = 0, seeded = 0
    integer(c_int32_t) :: late = 0, reach = 0, halves = 0, lanes = 0
    integer(c_int32_t) :: halve = 0, unroll = 0, rest_after = 0, join_halves = 0
    type(limber_step) :: epilogue
    integer(c_int32_t) :: tile = 0, deal_turns = 0, merge_pairs = 0
  end type

  type, bind(c) :: limber_contract
    integer(c_size_t) :: size = 72
    integer(c_int) :: promise = LIMBER_CONTRACT_NATIVE, bits = 0
    type(c_ptr) :: scheme = c_null_ptr      ! limber_scheme
    integer(c_int) :: slices = 0, split = LIMBER_SPLIT_ANY
    type(c_ptr) :: unit = c_null_ptr, statistics = c_null_ptr
    integer(c_int) :: on_miss = LIMBER_ON_MISS_WAIT, residues = LIMBER_RESIDUES_LEAST
    integer(c_int64_t) :: modulus = 0
    integer(c_int) :: rounding = LIMBER_ROUND_NEAREST
  end type

  type, bind(c) :: limber_part
    character(kind=c_char) :: scheme(32) = c_null_char, kernel(33) = c_null_char
    integer(c_int) :: rows = 0
    real(c_double) :: bound = 0
    integer(c_int64_t) :: m = 0, n = 0
    real(c_double) :: share = 0, cost = 0, seconds = 0
    integer(c_int) :: group(2) = 0, kinds(2) = 0
  end type

  type, bind(c) :: limber_report
    integer(c_size_t) :: size = 232
    character(kind=c_char) :: scheme(32) = c_null_char, backend(16) = c_null_char, &
                              kernel(33) = c_null_char
    integer(c_int) :: rows = 0, pruned = 0
    real(c_double) :: bound = 0, cost = 0, seconds_scan = 0, seconds_compile = 0, seconds_run = 0
    integer(c_int) :: from = 0
    integer(c_size_t) :: workspace = 0
    integer(c_int64_t) :: recomputed = 0
    integer(c_int) :: parts = 0, part_room = 0
    integer(c_size_t) :: part_size = 136
    type(c_ptr) :: part = c_null_ptr    ! NULL, or an array of part_room limber_part
    integer(c_int) :: order = 0
    real(c_double) :: recomputed_share = 0
    character(kind=c_char) :: way(24) = c_null_char
  end type

  type, bind(c) :: limber_matrix
    type(c_ptr) :: data = c_null_ptr
    type(limber_format) :: format
    integer(c_int64_t) :: row_stride = 0, col_stride = 0
  end type

  type, bind(c) :: limber_output
    type(c_ptr) :: data = c_null_ptr
    type(limber_format) :: format
    integer(c_int64_t) :: row_stride = 0, col_stride = 0
  end type

  type, bind(c) :: limber_problem
    integer(c_size_t) :: size = 216
    integer(c_int) :: operation = LIMBER_OPERATION_GEMM, domain = LIMBER_DOMAIN_REAL
    integer(c_int64_t) :: m = 0, n = 0, k = 0
    type(c_ptr) :: conv = c_null_ptr
    type(limber_matrix) :: a, b
    type(limber_output) :: c
    type(c_ptr) :: alpha = c_null_ptr, beta = c_null_ptr
    integer(c_int) :: conjugate = LIMBER_CONJUGATE_NONE, complex_method = LIMBER_COMPLEX_AUTO
    type(c_ptr) :: contract = c_null_ptr, epilogue = c_null_ptr, prepared_a = c_null_ptr, &
                   prepared_b = c_null_ptr, batch = c_null_ptr, queue = c_null_ptr
  end type

  type, bind(c) :: limber_scheme_row     ! limber_scheme in C, a name that is a function here
    type(c_ptr) :: name = c_null_ptr, about = c_null_ptr
  end type

  type, bind(c) :: limber_prepare_config
    integer(c_size_t) :: size = 32
    integer(c_size_t) :: bytes = 0
    integer(c_int) :: changes = LIMBER_CHANGES_TRUSTED
    integer(c_int64_t) :: operation = 0   ! limber_operation for which filters are prepared
  end type

  type, bind(c) :: limber_batch
    integer(c_size_t) :: size = 64
    integer(c_int64_t) :: count = 0, a = 0, b = 0, c = 0
    type(c_ptr) :: address_a = c_null_ptr, address_b = c_null_ptr, &
                   address_c = c_null_ptr
  end type

  type, bind(c) :: limber_elementwise
    integer(c_size_t) :: size = 88
    integer(c_int) :: function = LIMBER_FUNCTION_CAST, rounding = LIMBER_ROUND_NEAREST
    integer(c_int) :: compute = LIMBER_COMPUTE_EXACT, nan_to_zero = 0
    type(limber_format) :: from, to
    real(c_double) :: p = 0, q = 0
    type(c_ptr) :: src = c_null_ptr, dst = c_null_ptr
    integer(c_size_t) :: count = 0
    type(c_ptr) :: queue = c_null_ptr
  end type

  type, bind(c) :: limber_format_facts
    integer(c_size_t) :: size = 136
    integer(c_int) :: significant_bits = 0, largest_exponent = 0, normal_exponent = 0
    integer(c_int) :: smallest_exponent = 0
    real(c_double) :: epsilon = 0, roundoff = 0, largest = 0, normal = 0, smallest = 0
    real(c_double) :: overflow = 0, underflow = 0, decimal_digits = 0
    integer(c_int) :: digits_kept = 0, digits_needed = 0
    integer(c_int) :: has_infinity = 0, has_nan = 0, has_negative_zero = 0
    real(c_double) :: finite_values = 0, exact_integers = 0, lowest = 0
  end type

  type, bind(c) :: limber_reduce_call
    integer(c_size_t) :: size = 128
    integer(c_int) :: reduction = LIMBER_REDUCTION_SUM, carry = LIMBER_CARRY_EXACT
    integer(c_int) :: rounding = LIMBER_ROUND_NEAREST, correction = 0
    type(limber_format) :: from, to
    real(c_double) :: epsilon = 0
    integer(c_size_t) :: outer = 0, count = 0, inner = 0
    type(c_ptr) :: src = c_null_ptr, dst = c_null_ptr
    type(c_ptr) :: scale = c_null_ptr, shift = c_null_ptr, swallowed = c_null_ptr
    type(c_ptr) :: arrays = c_null_ptr
    integer(c_int) :: nan_to_zero = 0
  end type

  type, bind(c) :: limber_interval_call
    integer(c_size_t) :: size = 224
    integer(c_int64_t) :: m = 0, n = 0, k = 0
    type(limber_matrix) :: a_low, a_high, b_low, b_high
    type(limber_output) :: c_low, c_high
  end type

  type, bind(c) :: limber_solve_call
    integer(c_size_t) :: size = 128
    integer(c_int64_t) :: n = 0, columns = 0
    type(limber_matrix) :: a, b
    type(limber_output) :: x
    integer(c_int) :: most_steps = 0
  end type

  type, bind(c) :: limber_solve_report
    integer(c_size_t) :: size = 48
    integer(c_int) :: method = 0, steps = 0
    real(c_double) :: change = 0, residual = 0, condition = 0, seconds = 0
  end type

  type, bind(c) :: limber_epilogue_input
    integer(c_size_t) :: size = 64
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: shape = LIMBER_INPUT_SCALAR
    type(limber_format) :: format
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: row_stride = 0, col_stride = 0, step = 0
  end type

  type, bind(c) :: limber_epilogue
    integer(c_size_t) :: size = 32
    type(c_ptr) :: steps = c_null_ptr, inputs = c_null_ptr
    integer(c_int) :: input_count = 0, nan_to_zero = 0
  end type

  type, bind(c) :: limber_queue
    integer(c_size_t) :: size = 40
    type(c_ptr) :: stream = c_null_ptr, workspace = c_null_ptr
    integer(c_size_t) :: bytes = 0
    integer(c_int) :: capture = LIMBER_CAPTURE_NONE
  end type

  type, bind(c) :: limber_conv
    integer(c_size_t) :: size = 192
    integer(c_int64_t) :: n = 0, c = 0, h = 0, w = 0, o = 0, r = 0, s = 0
    integer(c_int64_t) :: stride(2) = 1, dilate(2) = 1, pad(4) = 0, groups = 1
    integer(c_int) :: layout = LIMBER_LAYOUT_NCHW
    integer(c_int64_t) :: d = 0, t = 0, depth_stride = 0, depth_dilate = 0, depth_pad(2) = 0
  end type

  type, bind(c) :: limber_tile
    integer(c_int16_t) :: emin = 0, emax = 0, low = 0
    integer(c_int8_t) :: bits = 0, flags = 0
  end type

  type, bind(c) :: limber_inspection
    integer(c_size_t) :: size = 80
    integer(c_int64_t) :: lines = 0, length = 0
    integer(c_int) :: zero = 0, special = 0, negative = 0, emin = 0, emax = 0, spread = 0, &
                      width = 0, bits = 0
    integer(c_int64_t) :: tile_rows = 0, tile_cols = 0
    type(c_ptr) :: tile = c_null_ptr
  end type

  type, bind(c) :: limber_cache_entry
    character(kind=c_char) :: key(65) = c_null_char, plan(128) = c_null_char
    integer(c_size_t) :: bytes = 0
    integer(c_int64_t) :: used = 0
    integer(c_int) :: good = 0, foreign = 0
  end type

  type, bind(c) :: limber_cache_info
    integer(c_size_t) :: size = 4400
    character(kind=c_char) :: directory(4096) = c_null_char, why_not(256) = c_null_char
    integer(c_int) :: writable = 0
    integer(c_size_t) :: entries = 0, bytes = 0, limit = 0
    integer(c_int) :: tuned = 0
  end type

  interface
    function limber_create(ctx, config) bind(c) result(status)
      import
      type(c_ptr), intent(out) :: ctx
      type(c_ptr), value :: config
      integer(c_int) :: status
    end function
    subroutine limber_destroy(ctx) bind(c)
      import
      type(c_ptr), value :: ctx
    end subroutine
    function limber_format_named(name, format) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: name(*)
      type(limber_format), intent(out) :: format
      integer(c_int) :: status
    end function
    function limber_convert(dst, to, src, from, count, mode) bind(c) result(status)
      import
      type(c_ptr), value :: dst, src
      type(limber_format), value :: to, from
      integer(c_size_t), value :: count
      integer(c_int), value :: mode
      integer(c_int) :: status
    end function
    function limber_apply(ctx, e) bind(c) result(status)
      import
      type(c_ptr), value :: ctx
      type(limber_elementwise), intent(in) :: e
      integer(c_int) :: status
    end function
    function limber_format_describe(f, facts) bind(c) result(status)
      import
      type(limber_format), value :: f
      type(limber_format_facts), intent(inout) :: facts
      integer(c_int) :: status
    end function
    function limber_format_spacing(f, exponent, spacing) bind(c) result(status)
      import
      type(limber_format), value :: f
      integer(c_int), value :: exponent
      integer(c_int), intent(out) :: spacing
      integer(c_int) :: status
    end function
    function limber_reduce(ctx, r) bind(c) result(status)
      import
      type(c_ptr), value :: ctx
      type(limber_reduce_call), intent(in) :: r
      integer(c_int) :: status
    end function
    function limber_interval_gemm(ctx, call, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, report
      type(limber_interval_call), intent(in) :: call
      integer(c_int) :: status
    end function
    function limber_solve(ctx, call, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, report
      type(limber_solve_call), intent(in) :: call
      integer(c_int) :: status
    end function
    function limber_unit_parse(text, unit) bind(c) result(status)
      import
      character(kind=c_char), intent(in) :: text(*)
      type(limber_unit), intent(inout) :: unit
      integer(c_int) :: status
    end function
    ! problem is intent(inout) because the call changes memory that problem points to.  With
    ! intent(in) gfortran would assume that this memory does not change.
    function limber_run(ctx, problem, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, report
      type(limber_problem), intent(inout) :: problem
      integer(c_int) :: status
    end function
    function limber_plan(ctx, problem, text, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, report
      type(limber_problem), intent(in) :: problem
      type(c_ptr), intent(out) :: text
      integer(c_int) :: status
    end function
    function limber_run_plan(ctx, plan, problem, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, plan, report
      type(limber_problem), intent(inout) :: problem
      integer(c_int) :: status
    end function
    function limber_conv2d(ctx, contract, conv, alpha, x, xf, w, wf, beta, y, yf, report) bind(c) &
        result(status)
      import
      type(c_ptr), value :: ctx, alpha, x, w, beta, y, report
      type(limber_contract), intent(in) :: contract
      type(limber_conv), intent(in) :: conv
      type(limber_format), value :: xf, wf, yf
      integer(c_int) :: status
    end function
    function limber_conv2d_backward_data(ctx, contract, conv, alpha, dy, dyf, w, wf, beta, dx, &
        dxf, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, alpha, dy, w, beta, dx, report
      type(limber_contract), intent(in) :: contract
      type(limber_conv), intent(in) :: conv
      type(limber_format), value :: dyf, wf, dxf
      integer(c_int) :: status
    end function
    function limber_conv2d_backward_filter(ctx, contract, conv, alpha, x, xf, dy, dyf, beta, dw, &
        dwf, report) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, alpha, x, dy, beta, dw, report
      type(limber_contract), intent(in) :: contract
      type(limber_conv), intent(in) :: conv
      type(limber_format), value :: xf, dyf, dwf
      integer(c_int) :: status
    end function
    function limber_gemm(ctx, contract, m, n, k, alpha, a, b, beta, c, report) bind(c) &
        result(status)
      import
      type(c_ptr), value :: ctx, alpha, beta, report
      type(limber_contract), intent(in) :: contract
      integer(c_int64_t), value :: m, n, k
      type(limber_matrix), value :: a, b
      type(limber_output), value :: c
      integer(c_int) :: status
    end function
    function limber_prepare(ctx, x, rows, cols, side, config, prepared) bind(c) &
        result(status)
      import
      type(c_ptr), value :: ctx, config
      type(limber_matrix), value :: x
      integer(c_int64_t), value :: rows, cols
      integer(c_int), value :: side
      type(c_ptr), intent(out) :: prepared
      integer(c_int) :: status
    end function
    function limber_prepare_filters(ctx, conv, w, wf, config, prepared) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, w, config
      type(limber_conv), intent(in) :: conv
      type(limber_format), value :: wf
      type(c_ptr), intent(out) :: prepared
      integer(c_int) :: status
    end function
    function limber_conv_output_depth(conv, od) bind(c) result(status)
      import
      type(limber_conv), intent(in) :: conv
      integer(c_int64_t), intent(out) :: od
      integer(c_int) :: status
    end function
    subroutine limber_prepared_free(operand) bind(c)
      import
      type(c_ptr), value :: operand
    end subroutine
    function limber_prepared_check(operand) bind(c) result(status)
      import
      type(c_ptr), value :: operand
      integer(c_int) :: status
    end function
    function limber_conv_output(conv, oh, ow) bind(c) result(status)
      import
      type(limber_conv), intent(in) :: conv
      integer(c_int64_t), intent(out) :: oh, ow
      integer(c_int) :: status
    end function
    function limber_inspect(ctx, x, rows, cols, side, out) bind(c) result(status)
      import
      type(c_ptr), value :: ctx
      type(limber_matrix), value :: x
      integer(c_int64_t), value :: rows, cols
      integer(c_int), value :: side
      type(limber_inspection), intent(inout) :: out
      integer(c_int) :: status
    end function
    subroutine limber_inspection_free(inspection) bind(c)
      import
      type(limber_inspection), intent(inout) :: inspection
    end subroutine
    subroutine limber_free(text) bind(c)
      import
      type(c_ptr), value :: text
    end subroutine
    function limber_cache_describe(ctx, info) bind(c) result(status)
      import
      type(c_ptr), value :: ctx
      type(limber_cache_info), intent(inout) :: info
      integer(c_int) :: status
    end function
    function limber_cache_each(ctx, depth, visit, user) bind(c) result(status)
      import
      type(c_ptr), value :: ctx, user
      integer(c_int), value :: depth
      type(c_funptr), value :: visit
      integer(c_int) :: status
    end function
    function limber_cache_clear(ctx, choice, removed) bind(c) result(status)
      import
      type(c_ptr), value :: ctx
      integer(c_int), value :: choice
      integer(c_size_t), intent(out) :: removed
      integer(c_int) :: status
    end function
    function error_text_c() bind(c, name='limber_error_text') result(text)
      import
      type(c_ptr) :: text
    end function
    function version_c() bind(c, name='limber_version') result(text)
      import
      type(c_ptr) :: text
    end function
    function status_meaning_c(status) bind(c, name='limber_status_meaning') result(text)
      import
      integer(c_int), value :: status
      type(c_ptr) :: text
    end function
    function scheme_at(i) bind(c, name='limber_scheme_at') result(scheme)
      import
      integer(c_int), value :: i
      type(c_ptr) :: scheme
    end function
    function length_of(text) bind(c, name='strlen') result(length)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

  ! call limber_multiply(ctx, contract, a, b, c [, alpha, beta, report], stat=stat [, errmsg=text])
  ! Computes c = alpha a b + beta c.  All matrices have elements of one kind.  They are arrays or
  ! array sections, whose strides are passed to C.  A matrix is copied only if it is a section that
  ! runs backwards, or if its elements are components of larger elements.  Without beta, c's old
  ! values do not matter.  stat is required: LIMBER_STATUS_OK, or the status of the failure.  On
  ! failure c is unchanged and errmsg holds the error text.
  interface limber_multiply
    procedure multiply_real32, multiply_real64, multiply_complex32, multiply_complex64
#ifdef LIMBER_REAL128
    procedure multiply_real128, multiply_complex128
#endif
  end interface
  private :: multiply_real32, multiply_real64, multiply_complex32, multiply_complex64
#ifdef LIMBER_REAL128
  private :: multiply_real128, multiply_complex128
#endif

contains

  ! Returns a copy of the C string at `address`, or an empty string if `address` is NULL.
  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letter(:)
    integer :: i

    text = ''
    if (.not. c_associated(address)) return
    call c_f_pointer(address, letter, [length_of(address)])
    text = repeat(' ', size(letter))
    do i = 1, size(letter)
      text(i:i) = letter(i)
    end do
  end function

  ! Converts a NUL-terminated C string in an array, such as limber_report's scheme, to Fortran text.
  function limber_text(letter) result(text)
    character(kind=c_char), intent(in) :: letter(:)
    character(len=:), allocatable :: text
    integer :: i

    text = ''
    do i = 1, size(letter)
      if (letter(i) == c_null_char) return
      text = text//letter(i)
    end do
  end function

  function limber_error_text() result(text)
    character(len=:), allocatable :: text

    text = text_at(error_text_c())
  end function

  function limber_version() result(text)
    character(len=:), allocatable :: text

    text = text_at(version_c())
  end function

  function limber_status_meaning(status) result(text)
    integer(c_int), intent(in) :: status
    character(len=:), allocatable :: text

    text = text_at(status_meaning_c(status))
  end function

  ! Returns the format with this name, such as 'bf16'.  Its kind is 0 if there is no such format.
  function limber_format_of(name) result(format)
    character(len=*), intent(in) :: name
    type(limber_format) :: format
    integer(c_int) :: status

    status = limber_format_named(trim(name)//c_null_char, format)
    if (status /= LIMBER_STATUS_OK) format = limber_format()
  end function

  ! Returns the scheme with this name, for the component `scheme` of limber_contract.  c_null_ptr if
  ! there is none.
  function limber_scheme(name) result(scheme)
    character(len=*), intent(in) :: name
    type(c_ptr) :: scheme, at
    type(limber_scheme_row), pointer :: entry
    integer(c_int) :: i

    i = 0
    do
      at = scheme_at(i)
      scheme = c_null_ptr
      if (.not. c_associated(at)) return
      call c_f_pointer(at, entry)
      scheme = entry%name
      if (text_at(scheme) == name) return
      i = i + 1
    end do
  end function

  ! Calls limber_create with the default configuration, changed by the arguments that are present.
  ! ctx must be destroyed by limber_destroy.
  subroutine limber_open(ctx, backend, threads, cache_dir, verbose, stat, errmsg)
    type(c_ptr), intent(out) :: ctx
    character(len=*), intent(in), optional :: backend, cache_dir
    integer, intent(in), optional :: threads, verbose
    integer, intent(out) :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char, len=:), allocatable, target :: backend_text, cache_text
    type(limber_config), target :: config

    if (present(backend)) then
      backend_text = trim(backend)//c_null_char
      config%backend = c_loc(backend_text)
    end if
    if (present(cache_dir)) then
      cache_text = trim(cache_dir)//c_null_char
      config%cache_dir = c_loc(cache_text)
    end if
    if (present(threads)) config%threads = int(threads, c_int)
    if (present(verbose)) config%verbose = int(verbose, c_int)
    call finish(limber_create(ctx, c_loc(config)), stat, errmsg)
  end subroutine

  ! Sets stat to `status`, and after a failure errmsg to the thread's last error text.
  subroutine finish(status, stat, errmsg)
    integer(c_int), intent(in) :: status
    integer, intent(out) :: stat
    character(len=*), intent(inout), optional :: errmsg

    stat = int(status)
    if (status /= LIMBER_STATUS_OK .and. present(errmsg)) errmsg = limber_error_text()
  end subroutine

#define MULTIPLY multiply_real32
#define ELEMENT real(real32)
#define FORMAT_NAME 'f32'
#include "multiply.inc"
#undef MULTIPLY
#undef ELEMENT
#define MULTIPLY multiply_complex32
#define ELEMENT complex(real32)
#define PAIRS
#include "multiply.inc"
#undef MULTIPLY
#undef ELEMENT
#undef FORMAT_NAME
#define MULTIPLY multiply_complex64
#define ELEMENT complex(real64)
#define FORMAT_NAME 'f64'
#include "multiply.inc"
#undef MULTIPLY
#undef ELEMENT
#undef PAIRS
#define MULTIPLY multiply_real64
#define ELEMENT real(real64)
#include "multiply.inc"
#undef MULTIPLY
#undef ELEMENT
#undef FORMAT_NAME
#ifdef LIMBER_REAL128
#define FORMAT_NAME 'f128'
#define MULTIPLY multiply_real128
#define ELEMENT real(real128)
#include "multiply.inc"
#undef MULTIPLY
#undef ELEMENT
#define MULTIPLY multiply_complex128
#define ELEMENT complex(real128)
#define PAIRS
#include "multiply.inc"
#endif
end module
