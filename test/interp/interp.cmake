# SPDX-License-Identifier: BSD-3-Clause
# A program of Arm instructions for QEMU, with which test_unit_arm compares simulated units.
find_program(ARM_GCC aarch64-linux-gnu-gcc)
find_program(ARM_QEMU qemu-aarch64)
test_program(${CMAKE_CURRENT_SOURCE_DIR}/interp/test_unit_arm.c)
test_run(test_unit_arm)
if(ARM_GCC AND ARM_QEMU)
  set(arm_unit ${CMAKE_CURRENT_BINARY_DIR}/arm_unit)
  add_custom_command(OUTPUT ${arm_unit}
    COMMAND ${ARM_GCC} -std=c11 -O1 -Wall -Wextra -Werror -ffreestanding -nostdlib -static
            -march=armv8.6-a+bf16+fp16+fp16fml ${CMAKE_CURRENT_SOURCE_DIR}/interp/arm_unit.c
            -o ${arm_unit}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/interp/arm_unit.c VERBATIM)
  add_custom_target(arm_unit_program DEPENDS ${arm_unit})
  add_dependencies(test_unit_arm arm_unit_program)
  target_compile_definitions(test_unit_arm PRIVATE ARM_QEMU="${ARM_QEMU}"
                             ARM_PROGRAM="${arm_unit}")
else()
  target_compile_definitions(test_unit_arm PRIVATE ARM_QEMU="" ARM_PROGRAM="")
endif()
