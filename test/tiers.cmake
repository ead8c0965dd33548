# Which tests the first tier leaves to `tools/test.sh --more` (label `more`), which are longer with
# LIMBER_TEST_LONG=1 (label `long`), which only `--long` runs (labels `more`, `long` and `release`),
# and which the build with sanitizers does not repeat.
# docs/testing.md says what each tier is for.
get_property(all DIRECTORY PROPERTY TESTS)

# Tests that the first tier leaves out: the GPU stand-ins except for one program and one kernel of
# each kind; other processors and compilers; tests that build the project again; the second run of
# tests, without a compiler; large programs and the testers of LAPACK and BLAS; loops over all
# numbers of a format, or over all kinds of machines.
set(more
    "test_cuda_(batch|calls|complex|conv|groups|mixed)_.*"
    "test_cuda_(steps|unit|launches|remainders|split|tensor)_.*"
    test_cuda_mx_120 test_gpu_smoke_90 test_simt gpu_bench gpu_steps gpu_all_steps bench cublas_gpu
    "corpus_.*" applications blas_exact blas_programs blas_testers blas_lapack test_apply_all
    test_targets test_unit test_schedule test_binades test_resnet reproduce ladder
    "test_cuda.*_(75|80|89|100|103|old_driver)" "test_cuda(_batch|_calls|_launches)?_120"
    "(test_)?gpu_smoke_(75|80|100|120)"
    gpu_layouts test_cubin gpu_rehearsal old_cpu test_unit_arm aarch64 musl compilers without_llvm
    "bare_.*" numpy_loops_whole jax_products wheel package recipes "cluster_.*")
set(long test_failing test_small test_apply test_workspace test_apply_all test_targets test_unit
    test_schedule test_depthwise test_binades test_prebuilt test_random test_planes
    test_magnitudes test_contract test_resnet test_directions gpu_smoke_90 test_cuda_mx_120
    "test_cuda_(batch|calls|complex|conv|groups|steps|unit)_90")
# Stand-ins for GPUs whose kernels differ from those of another one in single instructions, which
# other tests of both devices execute.
set(release test_cuda_conv_100 test_cuda_groups_100 test_cuda_mixed_100 gpu_smoke_75)
list(APPEND more ${release})
list(APPEND long ${release})
# Tests that the build with sanitizers leaves out: arithmetic of kernels, which the other build
# compares with the same references; checks of source files; and programs in other processes.
set(not_sanitized
    "bare_.*" "test_unit.*" test_binades test_random test_targets test_scalars test_schedule
    test_bind_shape test_planar test_bytes test_transpose test_sme test_words test_kept_nvrtc
    test_ape test_formats test_small_floats
    "test_cuda_(batch|complex|conv|groups|ladder|mixed|remainders|split|steps|tensor|unit|mx)_.*"
    test_cuda_launches_old_driver gpu_estimates format rooms rooms_find hardened reproduce ladder
    report
    "example_.*" peers_onednn gpu_bench gpu_steps gpu_all_steps)
# The longest tests start first, so that no core is idle at the end.
set(first tools bindings_python "test_cuda(_conv)?_[0-9]*" applications test_apply_all "corpus.*"
    test_run test_simt blas_programs "gpu_smoke_.*" "test_cuda_(complex|mixed|mx|groups)_[0-9]*"
    pages test_unit blas_control test_targets aarch64 wheel gpu_layouts test_cubin)
foreach(test ${all})
  foreach(pattern ${first})
    if(test MATCHES "^${pattern}$")
      set_tests_properties(${test} PROPERTIES COST 100)
    endif()
  endforeach()
  foreach(tier more long release)
    foreach(pattern ${${tier}})
      if(test MATCHES "^${pattern}$" AND NOT (LIMBER_SANITIZE AND tier MATCHES "more|release"))
        set_property(TEST ${test} APPEND PROPERTY LABELS ${tier})
      endif()
    endforeach()
  endforeach()
  foreach(pattern ${not_sanitized})
    if(LIMBER_SANITIZE AND test MATCHES "^${pattern}$")
      set_tests_properties(${test} PROPERTIES DISABLED TRUE)
    endif()
  endforeach()
endforeach()
